"""Quorum generations: how often the quorum was formed by force, and which node belongs to which.

When a lost majority comes back, it must not take over the new quorum (it has the votes), and the two must not
mix (its log may hold what the new quorum never had).  Three things tell them apart:

* A note in the log, written by `raft.recovery`: the number of the generation, and the epoch and the offset at
  which it starts.  That epoch is millions above every epoch that the survivors knew (`EPOCH_GAP`).
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

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Epoch, NodeId, Now, Offset
from barnabas.raft.entries import EpochEnd, SnapshotId
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
)
from barnabas.raft.value import altered

if TYPE_CHECKING:
    from barnabas.raft.core import Core

__all__ = [
    "EPOCH_GAP",
    "GENERATION_NOTE",
    "UNKNOWN",
    "QuorumGeneration",
    "believed",
    "foreign",
    "hear",
    "is_stale",
    "left_behind",
    "number_of",
]

GENERATION_NOTE = "barnabas.quorum.incarnation"
"""The key of the note."""
EPOCH_GAP = 1 << 22
"""The first epoch of a generation is above all known ones by so much: lost nodes may have seen more."""
UNKNOWN = -1
"""What a node says that does not know of generations."""
MOST_MISSED = 100
"""Recoveries by force that a node can have missed.  Who speaks of more is not believed: a generation never
goes back, and a node that waits for one that is not there never stands again."""


Said = TypeVar("Said", bound=Request | Response)


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


def number_of(said: Request | Response) -> int:
    """The generation that somebody speaks of."""
    number: int = getattr(said, "generation", UNKNOWN)
    return number


def believed(core: Core, said: Said) -> Said:
    """What was said, without its generation where there cannot be one so new."""
    number = number_of(said)
    if number - core.known_generation <= MOST_MISSED:
        return said
    core.emit("raft.incarnation.unbelievable", incarnation=number, own=core.known_generation)
    return altered(said, generation=UNKNOWN)


def hear(core: Core, number: int, now: Now) -> None:
    """Somebody knows of this generation: if it is newer than all we know, ours is over."""
    if number <= core.known_generation:
        return
    from barnabas.raft import leadership
    from barnabas.raft.roles import Cause, Leader

    core.superseded = number
    core.emit("raft.incarnation.superseded", own=core.generation.number, other=number)
    core.remember()
    if isinstance(core.role, Leader):
        leadership.resign(core, core.role, Cause.STEP_DOWN, now)


def is_stale(core: Core, request: Request) -> bool:
    """Whether this request comes from a superseded generation: it changes nothing here."""
    if not isinstance(request, (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest)):
        return False
    known = core.known_generation
    if known == 0:
        return False
    stale = 0 <= request.generation < known
    if isinstance(request, VoteRequest) and request.generation < 0:
        stale = request.last_epoch < core.generation.epoch
    if stale:
        who = request.candidate.id if isinstance(request, VoteRequest) else request.leader_id
        core.emit(
            "raft.incarnation.refused",
            what=type(request).__name__.removesuffix("Request"),
            node=who,
            incarnation=request.generation,
            own=known,
        )
    return stale


def foreign(core: Core, request: FetchRequest, said: EpochEnd | SnapshotId | None) -> ErrorCode | None:
    """Why the leader gives nothing to a replica with something that this generation never had."""
    own = core.generation
    if own.number == 0 or request.last_epoch >= own.epoch or core.voters.has(request.replica):
        return None
    if request.offset <= own.offset and not isinstance(said, EpochEnd):
        return None
    core.emit(
        "raft.incarnation.foreign",
        node=request.replica.id,
        directory=str(request.replica.directory_id),
        end_offset=request.offset,
        last_epoch=request.last_epoch,
        own=own.number,
    )
    return ErrorCode.INCONSISTENT_VOTER_SET


def left_behind(core: Core, leader: NodeId, response: FetchResponse) -> KafkaError:
    """What such a replica stops with, once the leader has refused it."""
    return KafkaError(
        ErrorCode.INCONSISTENT_VOTER_SET,
        f"this directory is of incarnation {core.generation.number} of the quorum, which was put together "
        f"anew by force: node {leader} leads incarnation {response.generation} and lacks records that are "
        f"here (up to offset {core.log_view.end_offset})",
        next_step="keep a copy of the directory; format an empty one with --no-initial-controllers and let "
        "this node join as a new one (of a broker, __cluster_metadata-0 alone can go)",
    )
