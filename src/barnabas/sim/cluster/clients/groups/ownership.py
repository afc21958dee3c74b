"""Who owns which partition of a group: G2 at the coordinator, G3 between members of KIP-848.

G2, in the state of one coordinator: a partition is owned (assigned, or to be revoked) by one member at most, the
group's table of owners says the same as its members, a partition is in one target at most, and no member is ahead
of its group.  In a stable group of the classic protocol no two assignments have a partition in common.

G3, between members: a partition is held by one member at a time.  A member holds it from the answer that grants
it until the first of these, by its own clock:

1. it sends a heartbeat that says that it does not own the partition;
2. it learns that it is fenced, or it leaves;
3. the session timeout is over, counted from when it sent the last heartbeat that was answered: the coordinator
   counts from when it got that heartbeat, or later, so it gives the partition away afterwards;
4. the rebalance timeout is over, counted from when it sent the first heartbeat that may have been answered by a
   request to revoke this partition, or another one that it owns still.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.group import ClassicGroup, GroupState
from barnabas.model import TopicId
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.codec.message import decode
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolAssignment

__all__ = ["Holdings", "check_classic", "check_coordinator"]


def check_coordinator(group: ConsumerGroup) -> None:
    """G2, for one group as its coordinator has it.  Raises InvariantViolation."""
    owners: dict[tuple[TopicId, int], str] = {}
    for member in group.members.values():
        if member.epoch > group.epoch:
            raise InvariantViolation("G2", f"{member} is ahead of {group}")
        for owned in (member.assigned, member.revoking):
            for topic, partitions in owned.items():
                for partition in partitions:
                    other = owners.setdefault((topic, partition), member.id)
                    if other != member.id:
                        raise InvariantViolation(
                            "G2", f"{group}: {other} and {member.id} own {topic}-{partition}"
                        )
                    if group.partition_epoch(topic, partition) != member.epoch:
                        raise InvariantViolation(
                            "G2",
                            f"{group}: {member} owns {topic}-{partition}, which the group has in epoch "
                            f"{group.partition_epoch(topic, partition)}",
                        )
    for topic, epochs in group.partition_epochs.items():
        for partition in epochs:
            if (topic, partition) not in owners:
                raise InvariantViolation(
                    "G2", f"{group}: nobody owns {topic}-{partition}, and it is not free"
                )
    _check_targets(group)


def check_classic(group: ClassicGroup) -> None:
    """G2, for a group of the classic protocol.  Raises InvariantViolation."""
    if group.members and group.leader_id not in group.members:
        raise InvariantViolation("G2", f"{group}: {group.leader_id} leads it, and is not in it")
    for instance_id, member_id in group.static.items():
        if member_id not in group.members or group.members[member_id].instance_id != instance_id:
            raise InvariantViolation("G2", f"{group}: {member_id} is not the member {instance_id}")
    if group.state is not GroupState.STABLE:
        return
    owners: dict[tuple[str, int], str] = {}
    for member in group.members.values():
        if not member.assignment:
            continue
        raw = bytes(member.assignment)
        assignment = decode(ConsumerProtocolAssignment, raw, int.from_bytes(raw[:2], "big"), 2)[0]
        for one in assignment.assigned_partitions:
            for index in one.partitions:
                if (other := owners.setdefault((one.topic, index), member.id)) != member.id:
                    raise InvariantViolation(
                        "G2", f"{group}: {other} and {member.id} own {one.topic}-{index}"
                    )


def _check_targets(group: ConsumerGroup) -> None:
    wanted: dict[tuple[TopicId, int], str] = {}
    for member_id, target in group.target.items():
        for topic, partitions in target.items():
            for partition in partitions:
                other = wanted.setdefault((topic, partition), member_id)
                if other != member_id:
                    raise InvariantViolation(
                        "G2", f"{group}: {topic}-{partition} is in the targets of {other} and {member_id}"
                    )


class _Held(NamedTuple):
    """`until`: when the member ceases to hold it, in seconds, if it does not hear of its group until then."""

    member: str
    until: float


class Holdings:
    """What the members of one group hold, by what they were granted.  Times are seconds of virtual time."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._held: dict[tuple[TopicId, int], _Held] = {}
        self._last: dict[tuple[TopicId, int], str] = {}

    def granted(self, member: str, place: tuple[TopicId, int], now: float, until: float) -> None:
        """An answer says that a member owns a partition, or still owns it; `until` as rules 3 and 4 say.

        Raises InvariantViolation when another member holds it.
        """
        self._check(member, place, now)
        if until > now:
            self._last[place] = member
            self._held[place] = _Held(member, until)

    def shown(self, member: str, place: tuple[TopicId, int], now: float) -> None:
        """The same for a member of the classic protocol, of which nobody knows how long it holds a partition."""
        self._check(member, place, now)
        self._last.pop(place, None)

    def _check(self, member: str, place: tuple[TopicId, int], now: float) -> None:
        other = self._held.get(place)
        if other is not None and other.member != member and other.until > now:
            raise InvariantViolation(
                "G3",
                f"group {self.group_id}: {member} gets {place[0]}-{place[1]}, which {other.member} holds "
                f"until {other.until:.3f}",
            )

    def last(self, place: tuple[TopicId, int]) -> str | None:
        """Who was given a partition last, as far as is known."""
        return self._last.get(place)

    def given_up(self, member: str, place: tuple[TopicId, int]) -> None:
        """A member sends that it does not own a partition any more."""
        held = self._held.get(place)
        if held is not None and held.member == member:
            del self._held[place]

    def owns_only(self, member: str, places: Collection[tuple[TopicId, int]]) -> None:
        """A member sends that it owns these; also where another client was this static member until now."""
        for place in [place for place, held in self._held.items() if held.member == member]:
            if place not in places:
                del self._held[place]

    def gone(self, member: str) -> None:
        """A member left, or learned that it is fenced."""
        for place in [place for place, held in self._held.items() if held.member == member]:
            del self._held[place]

    def __repr__(self) -> str:
        return f"<Holdings of {self.group_id}: {len(self._held)}>"
