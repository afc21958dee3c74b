"""One consumer group: what its records say.  Nothing changes it but the replay of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from barnabas.broker.groups.consumer.java_order import LEAST_TIMELINE_CAPACITY, in_timeline_order
from barnabas.broker.groups.consumer.member import ConsumerMember, Owned, Target
from barnabas.model import TopicId

__all__ = ["ConsumerGroup", "ConsumerGroupState", "ResolvedPattern"]

FIRST_EPOCH = 1
"""Epoch of a group before its first member, and of its assignment."""
FORGOTTEN_EPOCH = -1
"""Epoch of the assignment of a group that is being forgotten."""


class ConsumerGroupState(Enum):
    """Where a group stands; the values are Apache Kafka's words."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedPattern(NamedTuple):
    """The topics that a pattern matched, the metadata's offset that they come from, and when (milliseconds)."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerGroup:
    """Members, epochs and the target assignment of one group."""

    __slots__ = (
        "assigned_ms",
        "assignment_epoch",
        "assignors",
        "capacity",
        "epoch",
        "had_partition_metadata",
        "id",
        "members",
        "metadata_hash",
        "owners",
        "partition_epochs",
        "pattern_users",
        "patterns",
        "refresh_epoch",
        "refresh_ms",
        "static",
        "target",
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.capacity = LEAST_TIMELINE_CAPACITY
        """Slots of the table in which Apache Kafka would have the members."""
        self.static: dict[str, str] = {}
        """Instance ids of static members, each with the member that has it."""
        self.target: dict[str, Target] = {}
        self.owners: dict[TopicId, dict[int, str]] = {}
        """Whose target a partition is in."""
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = 0
        """When the target was computed; 0 where nobody knows."""
        self.partition_epochs: dict[TopicId, dict[int, int]] = {}
        """The epoch of the member that owns a partition now."""
        self.patterns: dict[str, ResolvedPattern] = {}
        self.pattern_users: Counter[str] = Counter()
        """How many members use each pattern, resolved or not."""
        self.assignors: Counter[str] = Counter()
        """Number of members that name each assignor."""
        self.had_partition_metadata = False
        """A release before 4.1 left a record that is to be removed (key type 4)."""
        self.refresh_ms = 0
        """From when on the next heartbeat looks whether the topics changed."""
        self.refresh_epoch = 0

    # -- what one may ask -------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Where the group stands now."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.reached(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def topics(self) -> set[str]:
        """All topics that somebody subscribes to, by name or by pattern."""
        topics = set[str]().union(*(member.topics for member in self.members.values()))
        return topics.union(*(found.topics for found in self.patterns.values()))

    def members_with(self, member: ConsumerMember, replaced: str | None) -> list[ConsumerMember]:
        """The members once one is as given, and a static one that it replaces is gone."""
        members = {**self.members, member.id: member}
        if replaced is not None and replaced != member.id:
            members.pop(replaced, None)
        return list(members.values())

    def in_kafkas_order(self, members: Sequence[ConsumerMember]) -> list[ConsumerMember]:
        """Members of this group as Apache Kafka's assignors would meet them, newcomers last."""
        known = {member.id: member for member in members}
        order = in_timeline_order((id for id in self.members if id in known), self.capacity)
        return [*(known.pop(id) for id in order), *known.values()]

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this instance id."""
        if instance_id is None or instance_id not in self.static:
            return None
        return self.members.get(self.static[instance_id])

    def target_of(self, member: ConsumerMember) -> Target:
        """What a member shall own; a static member that came back has the target of its former self."""
        id = member.id if member.instance_id is None else self.static.get(member.instance_id, "")
        return self.target.get(id, {})

    def partition_epoch(self, topic: TopicId, partition: int) -> int:
        """The epoch of the member that owns a partition; -1 when nobody does."""
        return self.partition_epochs.get(topic, {}).get(partition, -1)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something of a member's target is still owned by another one."""
        return any(
            self.partition_epoch(topic, partition) != -1
            for topic, partitions in self.target.get(member.id, {}).items()
            for partition in partitions
            if partition not in member.assigned.get(topic, {})
        )

    def refresh_due(self, wall_ms: int) -> bool:
        """Whether a heartbeat now looks at the topics anew."""
        return wall_ms >= self.refresh_ms or self.epoch < self.refresh_epoch

    # -- how records change it --------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """A member is new, or another than it was."""
        before = self.members.get(member.id)
        if before is not None:
            self._release(before)
        if (len(self.members) + 1) * 3 / 4 > self.capacity:
            self.capacity *= 2
        self.members[member.id] = member
        if member.regex:
            self.pattern_users[member.regex] += 1
        if member.assignor is not None:
            self.assignors[member.assignor] += 1
        for owned in (member.assigned, member.revoking):
            for topic, partitions in owned.items():
                epochs = self.partition_epochs.setdefault(topic, {})
                for partition in partitions:
                    epochs[partition] = member.epoch
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)

    def _release(self, member: ConsumerMember) -> None:
        """Free what a member owned and its instance id, as far as nobody got them since.

        Its pattern and its assignor count for one member less.
        """
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if member.regex:
            self.pattern_users[member.regex] -= 1
            if not self.pattern_users[member.regex]:
                del self.pattern_users[member.regex]
        if member.assignor is not None:
            self.assignors[member.assignor] -= 1
            if not self.assignors[member.assignor]:
                del self.assignors[member.assignor]
        for owned in (member.assigned, member.revoking):
            self._release_owned(owned, member.epoch)

    def _release_owned(self, owned: Owned, epoch: int) -> None:
        for topic, partitions in owned.items():
            epochs = self.partition_epochs.get(topic)
            if epochs is None:
                continue
            for partition in partitions:
                if epochs.get(partition) == epoch:
                    del epochs[partition]
            if not epochs:
                del self.partition_epochs[topic]

    def aim(self, member_id: str, target: Target | None) -> None:
        """A member shall own other partitions; None: it has no target any more."""
        before = self.target.get(member_id, {})
        after: Mapping[TopicId, frozenset[int]] = target or {}
        for topic in before.keys() | after.keys():
            owners = self.owners.setdefault(topic, {})
            wanted = after.get(topic, frozenset())
            for partition in before.get(topic, frozenset()) - wanted:
                if owners.get(partition) == member_id:
                    del owners[partition]
            for partition in wanted:
                owners[partition] = member_id
            if not owners:
                del self.owners[topic]
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.id} {self.state.value} epoch={self.epoch} of {len(self.members)}>"
