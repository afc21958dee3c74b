"""Being a member of a consumer group: find the coordinator, join, share out, beat, commit, leave.

The classic protocol (JoinGroup, SyncGroup, Heartbeat).  Whoever the coordinator names leader shares out
the partitions with the `range` assignor.  A small thread beats while the user's code works; everything
else happens in the caller's thread.  Reactions to error codes follow what brokers expect of Kafka's own
consumer: join again when the generation has ended, look for the coordinator again when it has moved, and
give up on the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.client.assignment import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.group_offsets import commit_offsets, committed_offsets
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

__all__ = ["Membership"]

T = TypeVar("T")
_PROTOCOL = "range"
_LOOK_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_JOIN_AGAIN = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class Membership:
    """`Membership(cluster, "group", ["topic"]).join()` -> the partitions this member may read.

    `session_timeout`: seconds after which a silent member is put out; `rebalance_timeout`: seconds the
    group waits for a member to come back when partitions are shared out anew.  `cluster` is for this
    membership alone, for beats must not wait behind fetches.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        *,
        session_timeout: float = 45.0,
        rebalance_timeout: float = 60.0,
        heartbeat_interval: float = 3.0,
        instance_id: str | None = None,
        stable: bool = False,
    ) -> None:
        """`stable`: offsets that an open transaction may change are waited for."""
        self.cluster = cluster
        self.group = group
        self.topics = list(topics)
        self.session_timeout = session_timeout
        self.rebalance_timeout = rebalance_timeout
        self.heartbeat_interval = heartbeat_interval
        self.instance_id = instance_id
        self.stable = stable
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.must_join = True
        """Whether the partitions are (or may be) no longer ours: `join` again."""
        self.failure: BarnabasError | None = None
        self._coordinator: BlockingConnection | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        state = (
            "to join" if self.must_join else f"generation={self.generation}{' leads' if self.leads else ''}"
        )
        return f"<Membership {self.group!r} {self.member_id or '?'} {state}>"

    # -- joining ---------------------------------------------------------------------------------

    def join(self) -> list[TopicPartition]:
        """`membership.join()` -> the partitions this member may read now.

        Waits until the group has come together.  Raises KafkaError for what no repetition mends.
        """
        while True:
            try:
                with self._lock:
                    assigned = self._with_coordinator(self._join_once)
            except KafkaError as error:
                if error.code not in _JOIN_AGAIN:
                    raise
                if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                continue
            self.must_join = False
            self._start_beating()
            return assigned

    def _join_once(self, coordinator: BlockingConnection) -> list[TopicPartition]:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(self.session_timeout * 1000),
            rebalance_timeout_ms=int(self.rebalance_timeout * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=encode_subscription(self.topics))],
        )
        response = coordinator.request(request, timeout=self.rebalance_timeout + 10.0)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return self._join_once(coordinator)
        _raise(response.error_code, f"joining group {self.group}")
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.leads = response.leader == response.member_id
        shares: dict[str, bytes] = {}
        if self.leads and not response.skip_assignment:
            shares = self._share_out({m.member_id: decode_subscription(m.metadata) for m in response.members})
        synced = coordinator.request(
            SyncGroupRequest(
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
            ),
            timeout=self.rebalance_timeout + 10.0,
        )
        _raise(synced.error_code, f"joining group {self.group}")
        return decode_assignment(synced.assignment)

    def _share_out(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
        counts: dict[str, int] = {}
        for topic in {topic for topics in wanted.values() for topic in topics}:
            try:
                counts[topic] = len(self.cluster.topic(topic, refresh=True).partitions)
            except KafkaError:
                counts[topic] = 0  # nobody can read what is not there (yet)
        return {member: encode_assignment(share) for member, share in assign_range(wanted, counts).items()}

    # -- staying ---------------------------------------------------------------------------------

    def _start_beating(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="barnabas-heartbeat", daemon=True)
            self._thread.start()

    def _beat(self) -> None:
        while not self._ended.wait(self.heartbeat_interval):
            try:
                self.heartbeat()
            except BarnabasError as error:
                self.failure = error
                self.must_join = True

    def heartbeat(self) -> None:
        """`membership.heartbeat()`: tell that this member is alive; learn whether the group rebalances."""
        with self._lock:
            if self.must_join or self._ended.is_set():
                return
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
            try:
                response = self._with_coordinator(lambda c: c.request(request))
            except ConnectionFailed:
                return  # the next beat tries again; the session may outlive it
            code = ErrorCode(response.error_code)
            if code in _JOIN_AGAIN:
                self.must_join = True
                if code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
            elif code in _LOOK_AGAIN:
                self._coordinator = None
            elif code:
                raise KafkaError(code, f"beating for group {self.group}")

    def leave(self) -> None:
        """`membership.leave()`: tell the group, so that it need not wait for the session to end."""
        self._ended.set()
        with self._lock:
            if self.member_id and self.instance_id is None and self.generation >= 0:
                try:
                    coordinator = self._with_coordinator(lambda c: c)
                    old = coordinator.version_of(LeaveGroupRequest) < 3
                    coordinator.request(
                        LeaveGroupRequest(
                            group_id=self.group,
                            member_id=self.member_id if old else "",
                            members=[] if old else [MemberIdentity(member_id=self.member_id)],
                        ),
                        timeout=5.0,
                    )
                except BarnabasError:
                    pass  # the session's end will do it
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.heartbeat_interval + 1.0)

    # -- offsets ---------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`membership.commit({TopicPartition("t", 0): 42})`: the next record to read is 42.

        Raises KafkaError; ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID when the partitions are another's now.
        """
        with self._lock:
            self._with_coordinator(
                lambda c: commit_offsets(
                    c, self.group, offsets, member_id=self.member_id, generation=self.generation
                )
            )

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """`membership.committed([...])` -> offsets committed by the group, where there are any."""
        with self._lock:
            return self._with_coordinator(
                lambda c: committed_offsets(c, self.group, list(partitions), stable=self.stable)
            )

    def _with_coordinator(self, talk: Callable[[BlockingConnection], T]) -> T:
        """Talk to the coordinator, found again where it moved or broke."""

        def attempt() -> T:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = self.cluster.coordinator(self.group)
            return talk(self._coordinator)

        def look_again() -> None:
            self._coordinator = None

        return self.cluster.retrying(attempt, on_retry=look_again)


def _raise(code: int, doing: str) -> None:
    if code:
        raise KafkaError(ErrorCode(code), doing)
