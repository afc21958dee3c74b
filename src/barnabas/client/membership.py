"""Being a member of a consumer group over blocking connections: join, heartbeat, commit, leave.

What is asked and what an answer means is `group_member`.  A small thread sends heartbeats while the user's code
works; everything else happens in the caller's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.group_member import ClassicMember
from barnabas.client.group_offsets import commit_offsets, committed_offsets
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.wire.schemas.groups import LeaveGroupRequest

__all__ = ["Membership"]

T = TypeVar("T")


class Membership:
    """`Membership(cluster, ClassicMember(...)).join()` -> the partitions this member may read.

    `cluster` is for this membership alone, for heartbeats must not wait for fetches.  `stable`: offsets that an
    open transaction may change are waited for.
    """

    def __init__(self, cluster: Cluster, member: ClassicMember, *, stable: bool = False) -> None:
        self.cluster = cluster
        self.member = member
        self.stable = stable
        self.failure: BarnabasError | None = None
        self._coordinator: BlockingConnection | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Membership {self.member!r}>"

    @property
    def must_join(self) -> bool:
        """Whether the partitions are (or may be) no longer ours: `join` again."""
        return self.member.must_join

    def join(self) -> list[TopicPartition]:
        """`membership.join()` -> the partitions this member may read now.

        Waits until the group has come together.  Raises KafkaError for what no repetition mends.
        """
        while True:
            try:
                with self._lock:
                    assigned = self._with_coordinator(self._join_once)
            except KafkaError as error:
                self.member.join_failed(error)
                continue
            self._start_heartbeats()
            return assigned

    def _join_once(self, coordinator: BlockingConnection) -> list[TopicPartition]:
        member = self.member
        patience = member.times.rebalance + 10.0
        wanted = None
        while wanted is None:
            response = coordinator.request(member.join_request(), timeout=patience)
            wanted = member.joined(response)
        counts = {topic: self._count(topic) for topic in {t for topics in wanted.values() for t in topics}}
        return member.synced(
            coordinator.request(member.sync_request(response, wanted, counts), timeout=patience)
        )

    def _count(self, topic: str) -> int:
        try:
            return len(self.cluster.topic(topic, refresh=True).partitions)
        except KafkaError:
            return 0  # nobody can read what is not there (yet)

    # -- staying ---------------------------------------------------------------------------------

    def _start_heartbeats(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._send_heartbeats, name="barnabas-heartbeat", daemon=True
            )
            self._thread.start()

    def _send_heartbeats(self) -> None:
        while not self._ended.wait(self.member.times.heartbeat):
            try:
                self.heartbeat()
            except BarnabasError as error:
                self.failure = error
                self.member.must_join = True

    def heartbeat(self) -> None:
        """`membership.heartbeat()`: tell that this member is alive; learn whether the group rebalances."""
        with self._lock:
            if self.must_join or self._ended.is_set():
                return
            request = self.member.heartbeat_request()
            try:
                response = self._with_coordinator(lambda c: c.request(request))
            except ConnectionFailed:
                return  # the next heartbeat tries again; the session may outlive it
            if self.member.heard(response):
                self._coordinator = None

    def leave(self) -> None:
        """`membership.leave()`: tell the group, so that it need not wait for the session to end."""
        self._ended.set()
        with self._lock:
            if self.member.generation >= 0:
                try:
                    coordinator = self._with_coordinator(lambda c: c)
                    request = self.member.leave_request(coordinator.version_of(LeaveGroupRequest))
                    if request is not None:
                        coordinator.request(request, timeout=5.0)
                except BarnabasError:
                    pass  # the session's end will do it
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.member.times.heartbeat + 1.0)

    # -- offsets ---------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`membership.commit({TopicPartition("t", 0): 42})`: the next record to read is 42.

        Raises KafkaError; ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID when the partitions are another's now.
        """
        member = self.member
        with self._lock:
            self._with_coordinator(
                lambda c: commit_offsets(
                    c, member.group, offsets, member_id=member.member_id, generation=member.generation
                )
            )

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """`membership.committed([...])` -> offsets committed by the group, where there are any."""
        wanted = list(partitions)
        with self._lock:
            return self._with_coordinator(
                lambda c: committed_offsets(c, self.member.group, wanted, stable=self.stable)
            )

    def _with_coordinator(self, talk: Callable[[BlockingConnection], T]) -> T:
        """Talk to the coordinator, found again where it moved or broke."""

        def attempt() -> T:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = self.cluster.coordinator(self.member.group)
            return talk(self._coordinator)

        def look_again() -> None:
            self._coordinator = None

        return self.cluster.retrying(attempt, on_retry=look_again)
