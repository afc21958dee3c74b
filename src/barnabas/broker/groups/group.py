"""One classic consumer group: its members and where it stands in a rebalance.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
      ^            |    ^                  |                 |
      +------------+    +------------------+-----------------+        any -> Dead

In PreparingRebalance members hand in what they support (JoinGroup) and wait; in CompletingRebalance the leader
of the group decides who reads what (SyncGroup) and the others wait; in Stable everybody has its assignment.
This file holds the state and the questions one may ask it; `group_membership` moves it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from barnabas.broker.groups.consumer.java_order import grown_capacity, in_java_order
from barnabas.broker.groups.timers import Timer
from barnabas.broker.purgatory import Waiting
from barnabas.model import Now
from barnabas.wire.java_hash import string_hash

__all__ = ["ClassicGroup", "GroupState", "Member", "Parked", "ParkedRequests", "Protocols"]

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignment protocols in order of preference, each with the member's metadata."""

NEW_MEMBER_JOIN_TIMEOUT = 300.0
"""Seconds a new member may stay parked in its first JoinGroup (clients retry)."""


class GroupState(Enum):
    """Where a group stands; the values are Apache Kafka's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MOVES = {
    GroupState.EMPTY: {GroupState.PREPARING, GroupState.DEAD},
    GroupState.PREPARING: {GroupState.COMPLETING, GroupState.EMPTY, GroupState.DEAD},
    GroupState.COMPLETING: {GroupState.STABLE, GroupState.PREPARING, GroupState.DEAD},
    GroupState.STABLE: {GroupState.PREPARING, GroupState.DEAD},
    GroupState.DEAD: set(),
}


class ParkedRequests:
    """How many requests are parked, over all groups."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __repr__(self) -> str:
        return f"<ParkedRequests {self.count}>"


class Parked(Waiting):
    """A JoinGroup or SyncGroup that waits for the others.  It has no deadline of its own: the group's timers
    answer it.

    `on_gone` is called when its connection ends.  A JoinGroup keeps its place then (the others need not
    wait for its member), until the group answers it.
    """

    __slots__ = ("_all", "gone", "member", "on_gone", "version")

    def __init__(
        self, member: Member, parked: ParkedRequests, on_gone: Callable[[Parked], None], version: int
    ) -> None:
        """`version` is that of the request."""
        super().__init__(float("inf"))
        self.version = version
        self.member = member
        self._all = parked
        self.on_gone = on_gone
        self.gone = False
        parked.count += 1

    def cancel(self) -> None:
        self.on_done = None
        if not self.done and not self.gone:
            self.gone = True
            self.on_gone(self)

    def release(self) -> None:
        self._all.count -= 1
        if self.member.joining is self:
            self.member.joining = None
        if self.member.syncing is self:
            self.member.syncing = None

    def expired(self, now: Now) -> None:
        raise AssertionError("a parked member has no deadline")


class Member:
    """A member of a group.  Timeouts are in seconds, `expires` in monotonic seconds."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "expires",
        "id",
        "instance_id",
        "is_new",
        "joining",
        "protocols",
        "rebalance_timeout",
        "session_timeout",
        "syncing",
        "timer",
        "waking",
    )

    def __init__(
        self,
        id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout: float,
        rebalance_timeout: float,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.id = id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout = session_timeout
        self.rebalance_timeout = rebalance_timeout
        self.protocols = protocols
        self.assignment = assignment
        self.joining: Parked | None = None
        self.syncing: Parked | None = None
        self.is_new = False
        self.expires = 0.0
        self.timer = 0.0
        """When the one timer that counts looks at `expires`; 0 when there is none."""
        self.waking: Timer | None = None

    @property
    def is_static(self) -> bool:
        """Whether it has a group.instance.id (KIP-345)."""
        return self.instance_id is not None

    def metadata(self, protocol: str) -> bytes:
        """What it said about one protocol; empty when it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def __repr__(self) -> str:
        where = " joining" if self.joining else " syncing" if self.syncing else ""
        return f"<Member {self.id}{where}>"


class ClassicGroup:
    """A group of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup)."""

    __slots__ = (
        "deadline",
        "generation",
        "id",
        "initial_until",
        "leader_id",
        "members",
        "newcomer",
        "pending",
        "protocol",
        "protocol_type",
        "since_ms",
        "state",
        "static",
        "waking",
    )

    def __init__(self, id: str, now: Now) -> None:
        self.id = id
        self.state = GroupState.EMPTY
        self.since_ms = now.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        self.pending: dict[str, Timer] = {}
        """Ids that were given to members who have not joined with them yet."""
        self.waking: Timer | None = None
        """What looks whether the running phase is over."""
        self.deadline = 0.0
        """When the running phase (join or sync) is cut off, in monotonic seconds."""
        self.initial_until = 0.0
        """End of the longest wait for more members of a group that was empty; 0 in later rebalances."""
        self.newcomer = False
        """Whether somebody new joined during that wait."""

    def move(self, state: GroupState, now: Now) -> None:
        """Go to another state."""
        assert state in MOVES[self.state], f"{self.id}: {self.state} -> {state}"
        self.state = state
        self.since_ms = now.wall_ms

    def add(self, member: Member) -> None:
        """Take in a member; the first one leads."""
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader_id is None:
            self.leader_id = member.id
        self.no_longer_pending(member.id)

    def no_longer_pending(self, member_id: str) -> bool:
        """Expect nobody under this id any more; whether somebody was expected."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def cancel_timers(self) -> None:
        """Wake nobody: the group is no longer here."""
        for timer in (self.waking, *self.pending.values(), *(m.waking for m in self.members.values())):
            if timer is not None:
                timer.cancel()

    def remove(self, member: Member) -> None:
        """Let a member go; the next one leads when it was the leader."""
        del self.members[member.id]
        if member.waking is not None:
            member.waking.cancel()
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if self.leader_id == member.id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member came back under a new id and keeps its place."""
        was_leader = self.leader_id == member.id
        self.members = {new_id if id == member.id else id: found for id, found in self.members.items()}
        member.id = new_id
        assert member.instance_id is not None
        self.static[member.instance_id] = new_id
        if was_leader:
            self.leader_id = new_id

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a newcomer with these protocols fits in with all who are here."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        common = self.common_protocols()
        return any(name in common for name, _ in protocols)

    def common_protocols(self) -> list[str]:
        """Protocols that every member supports, in the first member's order."""
        members = list(self.members.values())
        if not members:
            return []
        return [
            name
            for name, _ in members[0].protocols
            if all(any(name == other for other, _ in member.protocols) for member in members[1:])
        ]

    def choose_protocol(self) -> str:
        """Each member votes for its first choice among those all support, and most votes win.

        Of two with as many it is the one that Java's hash table of names has first.
        """
        common = self.common_protocols()
        votes = dict.fromkeys(common, 0)
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in votes)] += 1
        return max(
            in_java_order(common, string_hash, grown_capacity(len(votes))), key=lambda name: votes[name]
        )

    @property
    def rebalance_timeout(self) -> float:
        """Seconds a rebalance may take: the longest any member asked for."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def everybody_joined(self) -> bool:
        return not self.pending and all(member.joining for member in self.members.values())

    @property
    def waiting_to_join(self) -> int:
        return sum(1 for member in self.members.values() if member.joining)

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.id} {self.state.value} generation={self.generation} of {len(self.members)}>"
        )
