"""A cluster as a client sees it: who the brokers are, who leads what, and how to ask again.

`Cluster` keeps one connection per broker and a cache of metadata, asks for more when an answer says that
the cache is stale, and repeats with growing pauses what may be repeated, until its time is over.  One
thread at a time; every producer and consumer has its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.coordinators import (
    coordinator_request,
    found_coordinator,
    from_an_old_coordinator,
    may_be_old,
)
from barnabas.client.metadata import (
    METADATA_AGE,
    Broker,
    Metadata,
    Retrying,
    TopicInfo,
    check_leaders,
    metadata_request,
    nobody_reached,
    parse_bootstrap,
)
from barnabas.client.security.options import Security, SecurityOptions
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.silence import CONNECT_S, SILENCE, WITNESS_S, dial_limits
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition, Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.groups import FindCoordinatorRequest

__all__ = ["Cluster"]

T = TypeVar("T")


class Cluster:
    """`with Cluster("127.0.0.1:9092") as cluster: cluster.topic("t").partitions[0].leader`.

    `timeout` (seconds) bounds every call with all its repetitions.  `security`: options by Kafka's names.
    `metadata_max_age`: seconds after which a topic is asked for anew even when nothing failed.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas",
        timeout: float = 30.0,
        security: SecurityOptions = None,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = time.sleep,
        metadata_max_age: float = METADATA_AGE,
    ) -> None:
        self.metadata = Metadata(parse_bootstrap(bootstrap), metadata_max_age)
        self.client_id = client_id
        self.timeout = timeout
        self.security = Security.parse(security)
        self._clock = clock
        self._sleep = sleep
        self._connections: dict[NodeId, BlockingConnection] = {}
        self._entry: BlockingConnection | None = None

    def __repr__(self) -> str:
        return f"<Cluster {self.metadata!r}>"

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
        if not self.metadata.cluster_id:
            self.refresh([])
        return self.metadata.cluster_id

    def brokers(self) -> list[Broker]:
        """`cluster.brokers()` -> the live brokers, by id."""
        if not self.metadata.brokers:
            self.refresh([])
        return [self.metadata.brokers[node] for node in sorted(self.metadata.brokers)]

    def controller(self) -> NodeId:
        """`cluster.controller()` -> the broker to send administrative requests to."""
        if self.metadata.controller < 0:
            self.refresh([])
        return self.metadata.controller

    def topics(self) -> dict[str, TopicInfo]:
        """`cluster.topics()` -> all topics by name, asked for now."""
        return self.refresh(None)

    def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicInfo:
        """`cluster.topic("t")` -> its id and partitions.  KafkaError UNKNOWN_TOPIC_OR_PARTITION if not there.

        With `create` a broker that allows it makes the topic, and we wait for its leaders.
        """
        known = None if refresh else self.metadata.topic(name, self._clock())
        if known is not None:
            return known
        if not create:
            return self.refresh([name])[name]
        return self.retrying(lambda: check_leaders(self.refresh([name], create=True)[name]), patient=True)

    def refresh(self, names: Sequence[str] | None = None, *, create: bool = False) -> dict[str, TopicInfo]:
        """`cluster.refresh(["t"])` -> fresh metadata of these topics (None: of all; []: of the brokers only).

        Raises the KafkaError of the first topic that has one.
        """
        response = self.ask(metadata_request(names, create=create))
        return self.metadata.take(response, names, self._clock())

    def find(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """`cluster.find(["t", "u"])` -> those of them that there are, asked for now, in one request.

        Raises the KafkaError of the first that has another error than UNKNOWN_TOPIC_OR_PARTITION.
        """
        wanted = sorted(set(names))
        response = self.ask(metadata_request(wanted, create=False))
        return self.metadata.take(response, wanted, self._clock(), missing_ok=True)

    def learn(self, names: Iterable[str]) -> None:
        """`cluster.learn(["t", "u"])`: ask for those that the cache does not hold, in one request.

        Raises the KafkaError of the first topic that has one.
        """
        unknown = sorted({name for name in names if self.metadata.topic(name, self._clock()) is None})
        if unknown:
            self.refresh(unknown)

    def topic_name(self, topic_id: Uuid) -> str | None:
        """`cluster.topic_name(id)` -> the name of a topic that the cache holds."""
        return self.metadata.topic_name(topic_id)

    def leader(self, topic: str, partition: int) -> Broker:
        """`cluster.leader("t", 0)` -> its leader; KafkaError LEADER_NOT_AVAILABLE when there is none now."""
        return self.metadata.leader(self.topic(topic), partition)

    def forget(self, topic: str) -> None:
        """`cluster.forget("t")`: what the cache says of the topic is stale; ask anew when it is needed."""
        self.metadata.forget(topic)

    # -- connections -----------------------------------------------------------------------------

    def connection(self, node: NodeId, *, leads: bool = False) -> BlockingConnection:
        """`cluster.connection(3)` -> the connection to that broker, made anew when it broke.

        KafkaError BROKER_NOT_AVAILABLE when it is not in the cluster, LEADER_NOT_AVAILABLE, which passes, for one
        that was chosen because it `leads`.
        """
        connection = self._connections.get(node)
        if connection is not None and not connection.closed:
            return connection
        broker = self.metadata.brokers.get(node)
        if broker is None:
            self.refresh([])
            broker = self.metadata.brokers.get(node)
        if broker is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE if leads else ErrorCode.BROKER_NOT_AVAILABLE
            raise KafkaError(code, f"broker {node} is not in the cluster")
        connection = self._connections[node] = self._dial(broker.host, broker.port)
        return connection

    def to_leader(self, topic: str, partition: int) -> BlockingConnection:
        """`cluster.to_leader("t", 0)` -> the connection to the partition's leader."""
        return self.connection(self.leader(topic, partition).id, leads=True)

    def any(self) -> BlockingConnection:
        """`cluster.any()` -> a connection to some live broker, the bootstrap addresses last."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        if self._entry is not None and not self._entry.closed:
            return self._entry
        addresses = self.metadata.addresses()
        failures: dict[tuple[str, int], ConnectionFailed] = {}
        for limit in dial_limits(len(addresses), min(CONNECT_S, self.timeout)):
            for address in addresses:
                if address in failures and not failures[address].silent:
                    continue
                try:
                    self._entry = self._dial(*address, limit)
                    return self._entry
                except ConnectionFailed as error:
                    failures[address] = error
        raise nobody_reached(list(failures.values()))

    def is_out(self, host: str, port: int) -> bool:
        """`cluster.is_out("h1", 9092)`: whether another broker says that the silent one there is out.

        False, too, where no other broker answers within a few seconds.
        """
        answer = self._ask_another(host, port, [])
        out = answer is not None and self.metadata.is_out(host, port, answer)
        if out:
            self._leave(host, port)
        return out

    def left(self, connection: BlockingConnection) -> bool:
        """`cluster.left(connection)`: close it if its broker is out, and return whether it is (see `is_out`)."""
        return self.is_out(connection.host, connection.port)

    def look_past(self, partitions: Iterable[TopicPartition]) -> None:
        """`cluster.look_past([TopicPartition("t", 0)])`: ask others than the leaders who leads these partitions.

        Connections to a leader that is out are closed: it may still answer, with what was.
        """
        for address, topics in self.metadata.led(partitions).items():
            answer = self._ask_another(*address, topics)
            if answer is not None and self.metadata.hear(*address, answer, self._clock()):
                self._leave(*address)

    def _leave(self, host: str, port: int) -> None:
        for connection in [*self._connections.values(), *([self._entry] if self._entry else [])]:
            if (connection.host, connection.port) == (host, port):
                connection.close()

    def _ask_another(self, host: str, port: int, topics: Sequence[str]) -> Any:
        """The metadata that another broker than the one there tells; None where no other answers soon."""
        until = monotonic() + SILENCE
        for address in self.metadata.witnesses(host, port):
            if monotonic() >= until:
                break
            with (
                contextlib.suppress(BarnabasError),
                BlockingConnection(
                    *address, client_id=self.client_id, connect_timeout=WITNESS_S, security=self.security
                ) as witness,
            ):
                return witness.request(metadata_request(topics, create=False), timeout=WITNESS_S)
        return None

    def coordinator(self, group: str, *, transaction: bool = False) -> BlockingConnection:
        """`cluster.coordinator("g")` -> the connection to the broker that coordinates the group."""
        connection = self.any()
        version = connection.version_of(FindCoordinatorRequest)
        found = found_coordinator(
            connection.request(coordinator_request(group, transaction, version)),
            version,
            group,
            transaction=transaction,
        )
        self.metadata.meet(found)
        return self.connection(found.id)

    def at_coordinator(
        self, group: str, talk: Callable[[BlockingConnection], T], *, transaction: bool = False
    ) -> T:
        """`cluster.at_coordinator("g", describe)`: what the coordinator says, tried until the time is over.

        What a coordinator refuses that is out does not count: the one after it is asked.
        """

        return self.retrying(
            lambda: self.ask_coordinator(self.coordinator(group, transaction=transaction), talk)
        )

    def ask_coordinator(self, coordinator: BlockingConnection, talk: Callable[[BlockingConnection], T]) -> T:
        """`cluster.ask_coordinator(connection, describe)`: what this coordinator says.

        Raises KafkaError: NOT_COORDINATOR where one refuses that is out, and its connection is closed.
        """
        try:
            return talk(coordinator)
        except KafkaError as error:
            if may_be_old(error) and self.left(coordinator):
                raise from_an_old_coordinator(error) from error
            raise

    def _dial(self, host: str, port: int, limit: float = CONNECT_S) -> BlockingConnection:
        try:
            return BlockingConnection(
                host,
                port,
                client_id=self.client_id,
                timeout=self.timeout,
                connect_timeout=min(limit, self.timeout),
                security=self.security,
                is_out=self.is_out,
                meant=self.metadata.meant(host, port),
            )
        except KafkaError as error:
            if error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
                self.metadata.rebootstrap()
            raise

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

        `on_retry` runs after a failure (to forget stale metadata).  What is repeated says `Retrying`; when the
        time is over, the last error is raised as it is.
        """
        retrying = Retrying(self._clock(), self.timeout, patient=patient)
        while True:
            try:
                return attempt()
            except (ConnectionFailed, KafkaError) as error:
                known = bool(self.metadata.brokers)
                pause = retrying.pause_after(error, self._clock(), brokers_known=known)
            self._sleep(pause)
            if on_retry is not None:
                on_retry()
