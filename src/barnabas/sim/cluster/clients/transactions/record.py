"""What transactional producers did, transaction by transaction, for the checker of isolation."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.model import NO_EPOCH, NO_PRODUCER, Epoch, ProducerId, TopicPartition

__all__ = ["Attempt", "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A record that its leader acknowledged."""

    value: int
    where: TopicPartition
    offset: int
    """-1: the answer to a repeated batch did not say."""
    send: int


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction of one producer.  `position` is what it committed for the group: its own number, or 0."""

    number: int
    transactional_id: str
    who: str
    version: int
    records: list[Written] = field(default_factory=list)
    position: int = 0
    commits: bool | None = None
    """How its producer asked for its end; None: it did not."""
    asked: float = 0.0
    """True seconds when it asked first."""
    settled: bool | None = None
    """Whether it took place, as the producer knows for sure; None: unknown."""
    producer_id: ProducerId = NO_PRODUCER
    late: list[int] = field(default_factory=list)
    """Values of a batch that left in time and arrived late, if at all; it is sure to be aborted."""
    coordinator_epoch: Epoch = NO_EPOCH
    """The least of any coordinator that ran when its end was asked for first."""

    def __str__(self) -> str:
        asked = {None: "no end asked", True: f"commit asked at {self.asked:.3f} s"}
        how = asked.get(self.commits, f"abort asked at {self.asked:.3f} s")
        known = {None: "outcome unknown", True: "committed", False: "aborted"}[self.settled]
        who = f"{self.who} ({self.transactional_id}, version {self.version})"
        return f"transaction {self.number} of {who}, {how}, {known}"
