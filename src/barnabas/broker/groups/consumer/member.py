"""One member of a consumer group: what it asked for, how far it is, what it owns.  A value that never changes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.model import TopicId
from barnabas.wire.schemas.group_records import ClassicMemberMetadata

__all__ = ["LEFT", "LEFT_FOR_NOW", "NOTHING", "ConsumerMember", "MemberState", "Owned", "Target"]

Owned = Mapping[TopicId, Mapping[int, int]]
"""Partitions of topics, each with the epoch in which the member got it."""
Target = Mapping[TopicId, frozenset[int]]
"""Partitions of topics that a member shall own."""

NOTHING: Owned = {}

LEFT = -1
"""The epoch with which a member leaves."""
LEFT_FOR_NOW = -2
"""The epoch with which a static member leaves that will come back."""


class MemberState(IntEnum):
    """How a member stands to its target; the numbers are those of its record."""

    STABLE = 0
    """It has reached the epoch it was brought to."""
    UNREVOKED_PARTITIONS = 1
    """It still owns what it shall give up."""
    UNRELEASED_PARTITIONS = 2
    """Something of its target is still owned by others."""
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        """The state of a record; one that a later release may have written is UNKNOWN."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


class ConsumerMember(NamedTuple):
    """A member.  `regex` is empty where it subscribes by names only; times are milliseconds."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING
    revoking: Owned = NOTHING
    """What it shall give up and still owns."""
    classic: ClassicMemberMetadata | None = None
    """What a member that speaks the classic protocol said in JoinGroup; None for all others."""

    def reached(self, epoch: int) -> bool:
        """Whether it is where an assignment of this epoch puts it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved_to(self, epoch: int, state: MemberState, assigned: Owned, revoking: Owned) -> ConsumerMember:
        """The member with another assignment; its epoch until now becomes the previous one."""
        return self._replace(
            epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )

    def assignment_epoch(self, topic: TopicId, partition: int) -> int | None:
        """When it got a partition that it owns; None when it does not own it."""
        epoch = self.assigned.get(topic, {}).get(partition)
        return epoch if epoch is not None else self.revoking.get(topic, {}).get(partition)

    def __repr__(self) -> str:
        count = sum(map(len, self.assigned.values()))
        return f"<ConsumerMember {self.id} epoch={self.epoch} {self.state.name} of {count} partitions>"
