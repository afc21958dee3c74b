"""A member of a classic group as a machine: which request comes next, and what an answer means.  No socket.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup.  Whoever the coordinator names leader makes the assignments with the
`range` assignor.  Reactions to error codes are those that brokers expect of Kafka's own consumer: join again when
the generation has ended, look for the coordinator again when it has moved, give up on the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.client.assignment import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.security.rights import granting
from barnabas.client.waits.poll_interval import MAX_POLL_INTERVAL
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

__all__ = ["JOIN_AGAIN", "ClassicMember", "GroupTimes"]

_PROTOCOL = "range"
_SEVERAL_LEAVE_SINCE = 3
JOIN_AGAIN = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class GroupTimes(NamedTuple):
    """Seconds: after which a silent member is out, for which a rebalance waits for it, between heartbeats."""

    session: float = 45.0
    rebalance: float = MAX_POLL_INTERVAL
    heartbeat: float = 3.0


class ClassicMember:
    """`ClassicMember("group", ["topic"], GroupTimes())`: its id, its generation, and whether it must join."""

    LEAVES_WITH = LeaveGroupRequest

    def __init__(
        self, group: str, topics: Sequence[str], times: GroupTimes, *, instance_id: str | None = None
    ) -> None:
        self.group = group
        self.topics = list(topics)
        self.times = times
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.must_join = True
        """Whether the partitions are (or may be) no longer ours."""
        self.lost = False
        """Whether they are surely another member's by now."""
        self._counts: dict[str, int] = {}
        """The number of partitions of each topic that it made the assignments for, where it leads."""

    @property
    def heartbeat_interval(self) -> float:
        """Seconds between heartbeats."""
        return self.times.heartbeat

    def __repr__(self) -> str:
        state = "to join" if self.must_join else f"generation={self.generation}{' leads' * self.leads}"
        return f"<ClassicMember {self.group!r} {self.member_id or '?'} {state}>"

    @property
    def joined_in(self) -> bool:
        """Return whether the coordinator counts on it."""
        return self.generation >= 0 and not self.lost

    # -- joining ---------------------------------------------------------------------------------

    def join_request(self) -> JoinGroupRequest:
        """Ask to be a member of the next generation."""
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(self.times.session * 1000),
            rebalance_timeout_ms=int(self.times.rebalance * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=encode_subscription(self.topics))],
        )

    def joined(self, response: Any) -> Mapping[str, Sequence[str]] | None:
        """Take the answer to `join_request`: the topics of each member if this one makes the assignments, else {}.

        None: it has an id now and asks once more.  Raises KafkaError.
        """
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return None
        self._raise(response.error_code)
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.leads = response.leader == response.member_id
        if not self.leads or response.skip_assignment:
            return {}
        return {m.member_id: decode_subscription(m.metadata) for m in response.members}

    def sync_request(
        self, response: Any, wanted: Mapping[str, Sequence[str]], counts: Mapping[str, int]
    ) -> SyncGroupRequest:
        """Ask for the assignment; a leader sends all of them.

        `response` is that of the join; `counts` says how many partitions each topic has.
        """
        self._counts = dict(counts)
        shares = {member: encode_assignment(share) for member, share in assign_range(wanted, counts).items()}
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=response.protocol_name or _PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=share)
                for member, share in shares.items()
            ],
        )

    def synced(self, response: Any) -> list[TopicPartition]:
        """Take the answer to `sync_request`: the partitions this member reads from now on.  Raises KafkaError."""
        self._raise(response.error_code)
        self.must_join = self.lost = False
        return decode_assignment(response.assignment)

    def join_failed(self, error: KafkaError) -> None:
        """Returns when joining may be tried again; raises the error for what no repetition mends."""
        if error.code not in JOIN_AGAIN:
            raise error
        if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    # -- staying and leaving ---------------------------------------------------------------------

    def heartbeat_request(self) -> HeartbeatRequest | None:
        """Tell that this member is alive, also while it has to join and still works; None unless it is one."""
        if not self.joined_in:
            return None
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def heard(self, response: Any) -> None:
        """Take the answer to a heartbeat.

        Raises KafkaError: a retriable one means that the coordinator is to be looked for and asked again.
        """
        code = ErrorCode(response.error_code)
        if code in JOIN_AGAIN:
            self.must_join = True
            self.lost = code != ErrorCode.REBALANCE_IN_PROGRESS
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif code:
            raise KafkaError(code, f"heartbeat for group {self.group}")

    @property
    def counted_topics(self) -> list[str]:
        """The topics whose partitions it watches for the group: those of all members, where it leads."""
        return sorted(self._counts) if self.leads and not self.must_join else []

    def counted(self, counts: Mapping[str, int]) -> None:
        """Take the number of partitions that the `counted_topics` have now: it joins again where that is news."""
        if self.counted_topics and any(
            counts.get(topic, 0) != known for topic, known in self._counts.items()
        ):
            self.must_join = True

    def fence(self) -> None:
        """Nothing is known of this member any more: it has to join."""
        self.must_join = self.lost = True

    def leave_request(self, version: int) -> LeaveGroupRequest | None:
        """Tell the group that this member goes; None when it need not be told."""
        if not self.member_id or self.instance_id is not None or self.generation < 0:
            return None
        old = version < _SEVERAL_LEAVE_SINCE
        return LeaveGroupRequest(
            group_id=self.group,
            member_id=self.member_id if old else "",
            members=[] if old else [MemberIdentity(member_id=self.member_id)],
        )

    def _raise(self, code: int) -> None:
        if code:
            known = ErrorCode(code)
            said = f"joining group {self.group}"
            raise KafkaError(known, said, next_step=granting(known, "Read", self.group))
