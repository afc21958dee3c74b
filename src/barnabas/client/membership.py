"""Being a member of a consumer group over blocking connections: join, heartbeat, commit, leave.

What is asked and what an answer means is `group_member`, for KIP-848 `consumer_member`.  A small thread sends
heartbeats while the user's code works; everything else happens in the caller's thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.group_member import ClassicMember
from barnabas.client.group_offsets import commit_offsets, committed_offsets
from barnabas.client.group_options import GroupMachine, may_pass
from barnabas.client.waits.background import as_ours
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicId, TopicPartition
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatRequest

__all__ = ["Membership", "Reader", "Release"]

T = TypeVar("T")


class Release(Protocol):
    """Give these up (None: all); `lost`: they are another member's already."""

    def __call__(self, partitions: Collection[TopicPartition] | None, *, lost: bool) -> None: ...


class Reader(NamedTuple):
    """Who reads the partitions of a membership, as what it can do."""

    release: Release
    acquire: Callable[[Collection[TopicPartition]], None]
    """Read these, too, from where the group has committed."""


class Membership:
    """`Membership(cluster, ClassicMember(...)).rebalance(reader)`.

    `cluster` is for this membership alone, for heartbeats must not wait for fetches.  `stable`: offsets that an
    open transaction may change are waited for.
    """

    def __init__(
        self,
        cluster: Cluster,
        member: GroupMachine,
        *,
        stable: bool = False,
        interval: PollInterval | None = None,
    ) -> None:
        self.cluster = cluster
        self.member = member
        self.stable = stable
        self.interval = interval or PollInterval()
        self._count_due = monotonic() + cluster.metadata.max_age
        self.failure: BarnabasError | None = None
        self._coordinator: BlockingConnection | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Membership {self.member!r}>"

    @property
    def must_join(self) -> bool:
        """Whether the partitions are (or may be) others now: `rebalance`."""
        return self.member.must_join

    def polled(self) -> None:
        """`membership.polled()`: the application asks for records."""
        self.interval.polled(monotonic())

    def rebalance(self, reader: Reader) -> None:
        """`membership.rebalance(reader)`: the reader reads what the group has given to this member.

        In a classic group it gives up all, and waits until the group has come together.  Raises KafkaError for
        what no repetition mends.
        """
        member = self.member
        if isinstance(member, ClassicMember):
            reader.release(None, lost=member.lost)
            self._raise_failure()
            partitions = self._join(member)
            self._start_heartbeats()
            try:
                reader.acquire(partitions)
            except BaseException:
                member.fence()  # it reads nothing now: join again
                raise
        else:
            self._reconcile(member, reader)
        self.polled()

    def _raise_failure(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _reconcile(self, member: ConsumerGroupMember, reader: Reader) -> None:
        """One step of KIP-848: join where needed, give up, take over, and tell the coordinator at once."""
        change = member.change()
        if change.release:
            reader.release(member.partitions(change.release), lost=change.lost)
            member.released(change)
        self._raise_failure()
        if not member.generation:
            with self._lock:
                self._with_coordinator(lambda c: self._beat(c, joins=True))
                self.polled()
        self._start_heartbeats()
        if member.names_missing:
            with self._lock:  # a connection is for one thread at a time
                member.learn_names(self._names(member.subscription))
        change = member.change()
        if change.acquire and not change.lost:
            reader.acquire(member.partitions(change.acquire))
            member.acquired(change)
        if member.acknowledges and not member.change().release:
            self.heartbeat()

    def _names(self, subscription: Subscription) -> dict[TopicId, str]:
        if subscription.pattern is not None:
            return {info.id: info.name for info in self.cluster.refresh().values()}
        found: dict[TopicId, str] = {}
        for topic in subscription.topics:
            with contextlib.suppress(KafkaError):  # it is not there (yet)
                found[self.cluster.topic(topic, refresh=True).id] = topic
        return found

    def _join(self, member: ClassicMember) -> list[TopicPartition]:
        while True:
            try:
                with self._lock:
                    partitions = self._with_coordinator(lambda c: self._join_once(member, c))
                    self.polled()
                    return partitions
            except KafkaError as error:
                member.join_failed(error)

    def _join_once(self, member: ClassicMember, coordinator: BlockingConnection) -> list[TopicPartition]:
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
        while not self._ended.wait(self.member.heartbeat_interval):
            try:
                self._stay()
            except Exception as error:
                self.failure = as_ours("the heartbeat of the group's member", error)
                self.member.fence()

    def _stay(self) -> None:
        """Keep this member in the group; once its application has worked for too long, it leaves."""
        with self._lock:
            if self.member.joined_in and self.interval.is_over(monotonic()):
                self.interval.tell(self.member.group)
                self._say_goodbye()
                self.member.fence()
            else:
                self.heartbeat()
                self._count_partitions()

    def _count_partitions(self) -> None:
        """Look from time to time whether topics of a classic group have grown or are new."""
        member = self.member
        if monotonic() < self._count_due or not isinstance(member, ClassicMember):
            return
        self._count_due = monotonic() + self.cluster.metadata.max_age
        if topics := member.counted_topics:
            with contextlib.suppress(BarnabasError):  # the next look may succeed
                member.counted({name: len(t.partitions) for name, t in self.cluster.find(topics).items()})

    def heartbeat(self) -> None:
        """`membership.heartbeat()`: tell that this member is alive; learn whether the group rebalances."""
        with self._lock:
            if self._ended.is_set():
                return
            try:
                self._with_coordinator(self._beat)
            except BarnabasError as error:
                if not may_pass(error):
                    raise
                self._coordinator = None  # the next heartbeat tries again; the session may outlive it

    def _beat(self, coordinator: BlockingConnection, *, joins: bool = False) -> None:
        member = self.member
        request: Message | None
        if joins and isinstance(member, ConsumerGroupMember):
            request = member.join_request(coordinator.version_of(ConsumerGroupHeartbeatRequest))
        else:
            request = member.heartbeat_request()
        if request is not None:
            member.heard(coordinator.request(request))

    def leave(self) -> None:
        """`membership.leave()`: tell the group, so that it need not wait for the session to end."""
        self._ended.set()
        with self._lock:
            if self.member.generation >= 0:
                self._say_goodbye()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.member.heartbeat_interval + 1.0)

    def _say_goodbye(self) -> None:
        with contextlib.suppress(BarnabasError):  # the session's end will do it
            coordinator = self._with_coordinator(lambda c: c)
            request = self.member.leave_request(coordinator.version_of(self.member.LEAVES_WITH))
            if request is not None:
                coordinator.request(request, timeout=5.0)

    # -- offsets ---------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`membership.commit({TopicPartition("t", 0): 42})`: the next record to read is 42.

        Raises KafkaError; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH when the partitions are
        another's now.
        """
        try:
            self._commit(offsets)
        except KafkaError as error:
            if error.code != ErrorCode.STALE_MEMBER_EPOCH:
                raise
            self.heartbeat()  # its answer has the member's epoch as it is now
            self._commit(offsets)

    def _commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
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
            return self.cluster.ask_coordinator(self._coordinator, talk)

        def look_again() -> None:
            self._coordinator = None

        return self.cluster.retrying(attempt, on_retry=look_again)
