"""Quorum generations: how often the quorum was formed by force, and which node belongs to which.

When a lost majority comes back, it must not take over the new quorum (it has the votes), and the two must not
mix (its log may hold what the new quorum never had).  Three things tell them apart:

* A note in the log, written by `recovery`: the number of the generation, and the epoch and the offset at which
  it starts.  That epoch is millions above every epoch that the survivors knew (`EPOCH_GAP`).
* A number in every request and answer between our nodes: the newest generation that the sender knows.  A node
  that learns of a newer generation than the note in its own log stands in no election, and votes for no node
  of the old generation, before it has that note; `quorum-state` keeps the number.  So an old node never leads
  an epoch of the new generation, and a log that has such an epoch belongs to the new quorum.
* The leader checks the log of every replica that fetches.  It refuses a replica that is no voter, whose log
  has no epoch of the generation, and which has something that the new quorum lacks; that replica stops.  A
  replica that only lags follows, and so gets the note.

If no message passes between the two quorums, neither notices the other: they are two clusters then.  An
Apache Kafka node sends no number; only its log is checked.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.model import Epoch, Offset

__all__ = ["EPOCH_GAP", "GENERATION_NOTE", "UNKNOWN", "QuorumGeneration"]

GENERATION_NOTE = "barnabas.quorum.incarnation"
"""The key of the note."""
EPOCH_GAP = 1 << 22
"""The first epoch of a generation is above all known ones by so much: lost nodes may have seen more."""
UNKNOWN = -1
"""What a node says that does not know of generations."""


class QuorumGeneration(NamedTuple):
    """The `number` of forced recoveries; the last one began at `offset`, in `epoch`."""

    number: int = 0
    epoch: Epoch = 0
    offset: Offset = 0

    def __str__(self) -> str:
        return f"{self.number}:{self.epoch}:{self.offset}"

    @classmethod
    def of(cls, note: str | None) -> QuorumGeneration:
        """What the note says; senseless ones say nothing (an operator can write any setting)."""
        if not note:
            return FIRST
        try:
            number, epoch, offset = map(int, note.split(":"))
        except ValueError:
            return FIRST
        return cls(number, epoch, offset) if min(number, epoch, offset) >= 0 else FIRST


FIRST = QuorumGeneration()
