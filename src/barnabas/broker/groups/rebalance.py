"""Generations of a group: when one begins and ends, and the sessions of its members.

When all members have joined, or the time for that is over, a generation begins and each hears who leads
(`_complete_join`).  Answers follow Apache Kafka's classic groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.broker.groups.group import ClassicGroup, GroupState, Member
from barnabas.broker.groups.records import group_record
from barnabas.broker.groups.timers import Timer
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.wire.records import Record
from barnabas.wire.schemas.groups import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

__all__ = ["GroupJournal", "GroupLimits", "Rebalance", "generation_answer", "refused_join"]


class GroupJournal(Protocol):
    """Where groups are written, and the clock that wakes them."""

    def write(
        self, group_id: str, records: list[Record], now: Now, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append to the group's partition; `done` once it is committed, or with the error a client gets."""
        ...

    def when_safe(self, group_id: str, now: Now, done: Callable[[ErrorCode], None]) -> None:
        """`done` once everything that the group's partition has now is committed, or with an error as above."""
        ...

    def load_anew(self, group_id: str) -> None:
        """What was written of a group is gone again: read it as it is."""
        ...

    def at(self, when: float, wake: Callable[[Now], None]) -> Timer:
        """Call back at `when` (monotonic seconds)."""
        ...


class GroupLimits:
    """Bounds of the classic protocol, in seconds where they are times."""

    __slots__ = ("initial_delay", "max_session", "max_size", "max_waiting", "min_session")

    def __init__(
        self, *, min_session: float, max_session: float, initial_delay: float, max_size: int, max_waiting: int
    ) -> None:
        self.min_session = min_session
        self.max_session = max_session
        self.initial_delay = initial_delay
        self.max_size = max_size
        self.max_waiting = max_waiting


NO_PROTOCOL_FROM = 7
"""First version of JoinGroup in which the name of the protocol may be null."""


def refused_join(error: ErrorCode, member_id: str = "", version: int = 0) -> JoinGroupResponse:
    """Why a member cannot join; a newer one hears that there is no protocol, not that its name is empty."""
    name = None if version >= NO_PROTOCOL_FROM else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name)


def generation_answer(
    group: ClassicGroup, member: Member, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """What a member hears when a generation begins: who leads, and to the leader who is in it."""
    leads = member.id == group.leader_id
    protocol = group.protocol or ""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.id,
        members=[
            JoinGroupResponseMember(
                member_id=other.id,
                group_instance_id=other.instance_id,
                metadata=other.metadata(protocol),
            )
            for other in group.members.values()
        ]
        if leads
        else [],
    )


class Rebalance:
    """Moves groups from one generation to the next."""

    def __init__(self, groups: dict[str, ClassicGroup], limits: GroupLimits, journal: GroupJournal) -> None:
        self.groups = groups
        self.limits = limits
        self.journal = journal

    def go_on(self, group: ClassicGroup, now: Now) -> None:
        """Begin a rebalance, or look whether the running one is complete."""
        if group.state is not GroupState.PREPARING:
            self.begin(group, now)
        if group.initial_until == 0.0 and group.everybody_joined:
            self._complete_join(group, now)

    def begin(self, group: ClassicGroup, now: Now) -> None:
        """Begin one: everybody is to join again."""
        for member in group.members.values():
            if group.state is GroupState.COMPLETING:
                member.assignment = b""
            if member.syncing is not None:
                member.syncing.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        from_empty = group.state is GroupState.EMPTY
        if group.state is not GroupState.PREPARING:  # it is where it was loaded so
            group.move(GroupState.PREPARING, now)
        delay = self.limits.initial_delay
        if from_empty and delay > 0:
            group.initial_until = now.mono + max(delay, group.rebalance_timeout)
            group.deadline = now.mono + min(delay, group.rebalance_timeout)
            group.newcomer = False
        else:
            group.initial_until = 0.0
            group.deadline = now.mono + group.rebalance_timeout
        self._wake_at_deadline(group)

    def _wake_at_deadline(self, group: ClassicGroup) -> None:
        deadline, state, generation = group.deadline, group.state, group.generation

        def wake(now: Now) -> None:
            same = group.deadline == deadline and group.state is state and group.generation == generation
            if same and self.groups.get(group.id) is group:
                self._phase_is_over(group, now)

        if group.waking is not None:
            group.waking.cancel()
        group.waking = self.journal.at(deadline, wake)

    def _phase_is_over(self, group: ClassicGroup, now: Now) -> None:
        if group.state is GroupState.PREPARING:
            if group.initial_until and group.newcomer and now.mono < group.initial_until:
                group.newcomer = False
                group.deadline = min(now.mono + self.limits.initial_delay, group.initial_until)
                self._wake_at_deadline(group)
                return
            self._complete_join(group, now)
        elif group.state is GroupState.COMPLETING:
            silent = [member for member in group.members.values() if member.syncing is None]
            for member in silent:
                self.drop(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
            self.after_loss(group, now)

    def _complete_join(self, group: ClassicGroup, now: Now) -> None:
        """Begin the next generation with those who came."""
        group.initial_until = 0.0
        for member in [
            found for found in group.members.values() if not found.joining and not found.is_static
        ]:
            group.remove(member)
        if group.members:
            leader = group.members[group.leader_id or ""]
            joined = [member for member in group.members.values() if member.joining]
            if leader.joining is None:
                if not joined:  # only static members that are away: give them the same time again
                    group.deadline = now.mono + max(group.rebalance_timeout, 1.0)
                    self._wake_at_deadline(group)
                    return
                group.leader_id = joined[0].id
        group.generation += 1
        if not group.members:
            group.protocol = None
            group.leader_id = None
            group.move(GroupState.EMPTY, now)
            self.journal.write(group.id, [group_record(group, {}, now.wall_ms)], now, lambda error: None)
            return
        group.protocol = group.choose_protocol()
        group.move(GroupState.COMPLETING, now)
        group.deadline = now.mono + group.rebalance_timeout
        self._wake_at_deadline(group)
        for member in list(group.members.values()):
            member.expires = now.mono + member.session_timeout
            self.arm(group, member)
            member.is_new = False
            if member.joining is not None:
                member.joining.complete(generation_answer(group, member))

    def after_loss(self, group: ClassicGroup, now: Now) -> None:
        """Somebody is gone: who is left rebalances."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self.begin(group, now)
        if group.state is GroupState.PREPARING and group.initial_until == 0.0 and group.everybody_joined:
            self._complete_join(group, now)

    def drop(self, group: ClassicGroup, member: Member, error: ErrorCode) -> None:
        """A member goes; what it waits for is answered with `error`."""
        group.remove(member)
        if member.joining is not None:
            member.joining.complete(refused_join(error, "", member.joining.version))
        if member.syncing is not None:
            member.syncing.complete(SyncGroupResponse(error_code=error))

    def arm(self, group: ClassicGroup, member: Member) -> None:
        """Watch a member's session: one timer per member, which looks again when the session was moved on."""
        if member.timer and member.timer <= member.expires:
            return
        when = member.timer = member.expires
        if member.waking is not None:
            member.waking.cancel()
        member.waking = self.journal.at(when, lambda now: self._session_over(group, member, when, now))

    def _session_over(self, group: ClassicGroup, member: Member, when: float, now: Now) -> None:
        if member.timer != when:
            return  # an earlier timer was set since
        member.timer = 0.0
        if group.members.get(member.id) is not member or self.groups.get(group.id) is not group:
            return
        joining = member.joining is not None and not member.joining.gone and not member.is_new
        waits = joining or member.syncing is not None
        if waits:  # who waits for us has not gone away
            member.expires = max(member.expires, now.mono + member.session_timeout)
        if member.expires > now.mono:
            self.arm(group, member)
            return
        self.drop(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.after_loss(group, now)

    def watch(self, group: ClassicGroup, now: Now) -> None:
        """A group was loaded: the sessions of its members begin now.

        None of them knows that it leads in a group that came from the protocol of KIP-848 and had not rebalanced
        yet: nobody would look for new partitions.
        """
        for member in group.members.values():
            member.expires = now.mono + member.session_timeout
            self.arm(group, member)
        if group.state is GroupState.PREPARING:
            self.begin(group, now)

    def forget(self, group: ClassicGroup, error: ErrorCode) -> None:
        """This node no longer coordinates the group: answer all who wait."""
        group.cancel_timers()
        for member in list(group.members.values()):
            if member.joining is not None:
                member.joining.complete(refused_join(error, member.id, member.joining.version))
            if member.syncing is not None:
                member.syncing.complete(SyncGroupResponse(error_code=error))
