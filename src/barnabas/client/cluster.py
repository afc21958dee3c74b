"""A cluster as a client sees it: who the brokers are, who leads what, and how to ask again.

`Cluster` keeps one connection per broker and a cache of metadata, asks for more when an answer says that
the cache is stale, and repeats with growing pauses what may be repeated, until its time is over.  One
thread at a time; every producer and consumer has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Epoch, NodeId, TopicId, Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.schemas.groups import FindCoordinatorRequest

__all__ = ["Broker", "Cluster", "PartitionInfo", "TopicInfo", "parse_bootstrap"]

T = TypeVar("T")
Connect = Callable[[str, int], BlockingConnection]

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
METADATA_AGE = 300.0
"""Seconds after which metadata are asked for anew even when nothing failed."""
NEWS_DELAY = 1.0
"""Seconds for which a topic that a broker does not know may be news that has not reached it yet."""


class Broker(NamedTuple):
    """A broker as the metadata name it."""

    id: NodeId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`broker.address` -> "host:port"."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    """One partition: who leads it and who holds it (node ids); leader -1 when there is none now."""

    partition: int
    leader: NodeId
    leader_epoch: Epoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline: tuple[NodeId, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class TopicInfo(NamedTuple):
    """A topic: its id (ZERO_UUID from brokers too old to say) and its partitions by number."""

    name: str
    id: TopicId
    partitions: dict[int, PartitionInfo]
    internal: bool = False


def parse_bootstrap(bootstrap: str | Iterable[str]) -> list[tuple[str, int]]:
    """`parse_bootstrap("a:9092,[::1]:9093")` -> [("a", 9092), ("::1", 9093)]; ConfigError if it is none."""
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    found: list[tuple[str, int]] = []
    for text in (t.strip() for t in texts):
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"{text!r} is no address of a broker", next_step="write host:port, for example 127.0.0.1:9092"
            )
        found.append((host, int(port)))
    return found


class Cluster:
    """`with Cluster("127.0.0.1:9092") as cluster: cluster.topic("t").partitions[0].leader`.

    `timeout` (seconds) bounds every call with all its repetitions.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas",
        timeout: float = 30.0,
        connect: Connect | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.timeout = timeout
        self._connect = connect or self._dial
        self._clock = clock
        self._sleep = sleep
        self._cluster_id = ""
        self._controller: NodeId = -1
        self._brokers: dict[NodeId, Broker] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._fetched_at: dict[str, float] = {}
        self._connections: dict[NodeId, BlockingConnection] = {}
        self._entry: BlockingConnection | None = None

    def __repr__(self) -> str:
        return (
            f"<Cluster {self._cluster_id or '?'} brokers={sorted(self._brokers)} topics={len(self._topics)}>"
        )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """`cluster.close()`: close all connections."""
        for connection in [*self._connections.values(), *([self._entry] if self._entry else [])]:
            connection.close()
        self._connections.clear()
        self._entry = None

    # -- who is there ----------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """`cluster.cluster_id()` -> the id of the cluster, as the brokers tell it."""
        if not self._cluster_id:
            self.refresh([])
        return self._cluster_id

    def brokers(self) -> list[Broker]:
        """`cluster.brokers()` -> the live brokers, by id."""
        if not self._brokers:
            self.refresh([])
        return [self._brokers[node] for node in sorted(self._brokers)]

    def controller(self) -> NodeId:
        """`cluster.controller()` -> the broker to send administrative requests to."""
        if self._controller < 0:
            self.refresh([])
        return self._controller

    def topics(self) -> dict[str, TopicInfo]:
        """`cluster.topics()` -> all topics by name, asked for now."""
        return self.refresh(None)

    def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicInfo:
        """`cluster.topic("t")` -> its id and partitions.  KafkaError UNKNOWN_TOPIC_OR_PARTITION if not there.

        With `create` a broker that allows it makes the topic, and we wait for its leaders.
        """
        known = self._topics.get(name)
        fresh = self._clock() - self._fetched_at.get(name, 0.0) < METADATA_AGE
        if known is not None and not refresh and fresh:
            return known
        if not create:
            return self.refresh([name])[name]

        def look() -> TopicInfo:
            info = self.refresh([name], create=True)[name]
            if any(p.leader < 0 for p in info.partitions.values()) or not info.partitions:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} has no leader yet")
            return info

        return self.retrying(look, patient=True)

    def refresh(self, names: Sequence[str] | None = None, *, create: bool = False) -> dict[str, TopicInfo]:
        """`cluster.refresh(["t"])` -> fresh metadata of these topics (None: of all; []: of the brokers only).

        Raises the KafkaError of the first topic that has one.
        """
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        response: MetadataResponse = self.ask(request)
        self._brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self._cluster_id = response.cluster_id or ""
        self._controller = response.controller_id
        found: dict[str, TopicInfo] = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code and not topic.partitions:
                self._topics.pop(name, None)
                if names is not None:
                    raise _topic_error(ErrorCode(topic.error_code), name)
                continue
            partitions = {
                p.partition_index: PartitionInfo(
                    p.partition_index,
                    p.leader_id,
                    p.leader_epoch,
                    tuple(p.replica_nodes),
                    tuple(p.isr_nodes),
                    tuple(p.offline_replicas),
                    ErrorCode(p.error_code),
                )
                for p in sorted(topic.partitions, key=lambda p: int(p.partition_index))
            }
            found[name] = TopicInfo(name, topic.topic_id or ZERO_UUID, partitions, topic.is_internal)
        self._topics.update(found)
        now = self._clock()
        self._fetched_at.update(dict.fromkeys(found, now))
        return found

    def topic_name(self, topic_id: Uuid) -> str | None:
        """`cluster.topic_name(id)` -> the name of a topic that the cache holds."""
        return next((t.name for t in self._topics.values() if t.id == topic_id), None)

    def leader(self, topic: str, partition: int) -> Broker:
        """`cluster.leader("t", 0)` -> its leader; KafkaError LEADER_NOT_AVAILABLE when there is none now."""
        info = self.topic(topic).partitions.get(partition)
        if info is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has no partition {partition}",
                next_step=f"see its partitions with `barnabas topics describe {topic}`",
            )
        broker = self._brokers.get(info.leader)
        if broker is None:
            self.forget(topic)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return broker

    def forget(self, topic: str) -> None:
        """`cluster.forget("t")`: what the cache says of the topic is stale; ask anew when it is needed."""
        self._topics.pop(topic, None)

    # -- connections -----------------------------------------------------------------------------

    def connection(self, node: NodeId) -> BlockingConnection:
        """`cluster.connection(3)` -> the connection to that broker, made anew when it broke."""
        connection = self._connections.get(node)
        if connection is not None and not connection.closed:
            return connection
        broker = self._brokers.get(node)
        if broker is None:
            self.refresh([])
            broker = self._brokers.get(node)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node} is not in the cluster")
        connection = self._connections[node] = self._connect(broker.host, broker.port)
        return connection

    def to_leader(self, topic: str, partition: int) -> BlockingConnection:
        """`cluster.to_leader("t", 0)` -> the connection to the partition's leader."""
        return self.connection(self.leader(topic, partition).id)

    def any(self) -> BlockingConnection:
        """`cluster.any()` -> a connection to some live broker, the bootstrap addresses last."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        if self._entry is not None and not self._entry.closed:
            return self._entry
        known = [(b.host, b.port) for b in self._brokers.values()]
        failures: list[ConnectionFailed] = []
        for host, port in dict.fromkeys([*known, *self.bootstrap]):
            try:
                self._entry = self._connect(host, port)
                return self._entry
            except ConnectionFailed as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        reasons = "; ".join(str(failure) for failure in failures)
        raise ConnectionFailed(f"no broker can be reached: {reasons}", next_step=failures[-1].next_step)

    def coordinator(self, group: str, *, transaction: bool = False) -> BlockingConnection:
        """`cluster.coordinator("g")` -> the connection to the broker that coordinates the group."""
        connection = self.any()
        key_type = 1 if transaction else 0
        old = connection.version_of(FindCoordinatorRequest) < 4
        response = connection.request(
            FindCoordinatorRequest(
                key=group if old else "", key_type=key_type, coordinator_keys=[] if old else [group]
            )
        )
        found = response if old else response.coordinators[0]
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), found.error_message or None)
        self._brokers.setdefault(found.node_id, Broker(found.node_id, found.host, found.port))
        return self.connection(found.node_id)

    def _dial(self, host: str, port: int) -> BlockingConnection:
        return BlockingConnection(
            host,
            port,
            client_id=self.client_id,
            timeout=self.timeout,
            connect_timeout=min(10.0, self.timeout),
        )

    # -- asking again ----------------------------------------------------------------------------

    def ask(self, request: Message) -> Any:
        """`cluster.ask(DescribeClusterRequest())` -> the answer of any broker, tried until the time is over.

        Only lost connections are tried again: what the answer says is the caller's to judge.
        """
        return self.retrying(lambda: self.any().request(request))

    def retrying(
        self, attempt: Callable[[], T], *, on_retry: Callable[[], None] | None = None, patient: bool = False
    ) -> T:
        """`cluster.retrying(lambda: once())`: repeat on retriable errors with growing pauses.

        `on_retry` runs after a failure (to forget stale metadata).  When the time is over the last error
        is raised as it is.  A refused or unreachable connection at the very first try is not repeated:
        no broker is there, and the user should know at once.  An unknown topic is believed after NEWS_DELAY
        unless `patient` (it is being created).
        """
        begun = self._clock()
        deadline = begun + self.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except ConnectionFailed:
                if not self._brokers or self._clock() + pause >= deadline:
                    raise
            except KafkaError as error:
                news = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not patient
                end = min(deadline, begun + NEWS_DELAY) if news else deadline
                if not error.code.retriable or self._clock() + pause >= end:
                    raise
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            if on_retry is not None:
                on_retry()


def _topic_error(code: ErrorCode, name: str) -> KafkaError:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(
            code,
            f"there is no topic {name}",
            next_step=f"see what there is with `barnabas topics list`, or `barnabas topics create {name}`",
        )
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return KafkaError(
            code,
            f"{name!r} cannot be the name of a topic",
            next_step="use 1 to 249 letters, digits, dots, underscores and hyphens",
        )
    return KafkaError(code, f"topic {name}: {code.name}")
