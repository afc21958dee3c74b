"""A cluster as a client sees it: who the brokers are, who leads what, and how to ask again.

`ClusterOf` keeps one connection per address and a cache of metadata, asks for more when an answer says that the
cache is stale, and repeats with growing pauses what may be repeated, until its time is over.  `Cluster` and
`AsyncCluster` say how to connect and to pause.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from barnabas.client.both.awaited import AnyConnection
from barnabas.client.connection import ConnectionFailed
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
from barnabas.client.waits.silence import CONNECT_S, DIAL_S, SILENCE, WITNESS_S, dial_limits
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.groups import FindCoordinatorRequest

__all__ = ["Address", "AnyCluster", "ClusterOf"]

T = TypeVar("T")
L = TypeVar("L", bound=AnyConnection)
C = TypeVar("C", bound=AnyConnection, covariant=True)
Address = tuple[str, int]


class ClusterOf(Generic[C]):
    """`await cluster.topic("t")`: a cluster over connections of one kind.

    `timeout` (seconds) bounds every call with all its repetitions.  `security`: options by Kafka's names.
    `metadata_max_age`: seconds after which a topic is asked for anew even when nothing failed.
    """

    AWAITED = True
    """See `for_both`."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas",
        timeout: float = 30.0,
        security: SecurityOptions = None,
        metadata_max_age: float = METADATA_AGE,
    ) -> None:
        self.metadata = Metadata(parse_bootstrap(bootstrap), metadata_max_age)
        self.client_id = client_id
        self.timeout = timeout
        self.security = Security.parse(security)
        self._connections: dict[Address, C] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.metadata!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """`await cluster.close()`: close all connections."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    def _options(self, limit: float) -> dict[str, Any]:
        """Return the options of a connection that is opened within `limit` seconds."""
        return {
            "client_id": self.client_id,
            "timeout": self.timeout,
            "connect_timeout": min(limit, self.timeout),
            "security": self.security,
        }

    # -- what each kind does in its way ----------------------------------------------------------

    def now(self) -> float:
        """Return the time in seconds since some moment."""
        raise NotImplementedError

    async def pause(self, seconds: float) -> None:
        """Wait for so many seconds."""
        raise NotImplementedError

    async def dial(self, host: str, port: int, limit: float = DIAL_S) -> C:
        """`await cluster.dial("h", 9093)` -> a connection to a node that is not known as a broker; close it."""
        raise NotImplementedError

    async def reach(self, address: Address, limit: float) -> C:
        """Connect to a broker, whose silence is looked into (`is_out`) as long as the connection is used."""
        raise NotImplementedError

    async def ask_each(self, asked: Sequence[tuple[C, Message]]) -> list[Any]:
        """Send all of these requests, then return an answer to each, or the KafkaError or ConnectionFailed."""
        raise NotImplementedError

    # -- who is there ----------------------------------------------------------------------------

    async def cluster_id(self) -> str:
        """`await cluster.cluster_id()` -> the id of the cluster, as the brokers tell it."""
        if not self.metadata.cluster_id:
            await self.refresh([])
        return self.metadata.cluster_id

    async def brokers(self) -> list[Broker]:
        """`await cluster.brokers()` -> the live brokers, by id."""
        if not self.metadata.brokers:
            await self.refresh([])
        return [self.metadata.brokers[node] for node in sorted(self.metadata.brokers)]

    async def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicInfo:
        """`await cluster.topic("t")` -> its id and partitions; KafkaError UNKNOWN_TOPIC_OR_PARTITION.

        With `create` a broker that allows it makes the topic, and we wait for its leaders.
        """
        known = None if refresh else self.metadata.topic(name, self.now())
        if known is not None:
            return known
        if not create:
            return (await self.refresh([name]))[name]

        async def look() -> TopicInfo:
            return check_leaders((await self.refresh([name], create=True))[name])

        return await self.retrying(look, patient=True)

    async def refresh(
        self, names: Sequence[str] | None = None, *, create: bool = False
    ) -> dict[str, TopicInfo]:
        """`await cluster.refresh(["t"])` -> fresh metadata (None: of all topics; []: of the brokers only).

        Raises the KafkaError of the first topic that has one.
        """
        response = await self.ask(metadata_request(names, create=create))
        return self.metadata.take(response, names, self.now())

    async def find(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """`await cluster.find(["t", "u"])` -> those of them that there are, asked for now, in one request.

        Raises the KafkaError of the first that has another error than UNKNOWN_TOPIC_OR_PARTITION.
        """
        wanted = sorted(set(names))
        response = await self.ask(metadata_request(wanted, create=False))
        return self.metadata.take(response, wanted, self.now(), missing_ok=True)

    async def learn(self, names: Iterable[str]) -> None:
        """`await cluster.learn(["t", "u"])`: ask for those that the cache does not hold, in one request.

        Raises the KafkaError of the first topic that has one.
        """
        unknown = sorted({name for name in names if self.metadata.topic(name, self.now()) is None})
        if unknown:
            await self.refresh(unknown)

    async def leader(self, topic: str, partition: int) -> Broker:
        """`await cluster.leader("t", 0)` -> its leader; KafkaError LEADER_NOT_AVAILABLE when there is none now."""
        return self.metadata.leader(await self.topic(topic), partition)

    def forget(self, topic: str) -> None:
        """`cluster.forget("t")`: what the cache says of the topic is stale; ask anew when it is needed."""
        self.metadata.forget(topic)

    # -- connections -----------------------------------------------------------------------------

    async def connection(self, node: NodeId, *, leads: bool = False) -> C:
        """`await cluster.connection(3)` -> the connection to that broker, made anew when it broke.

        KafkaError BROKER_NOT_AVAILABLE when it is not in the cluster, LEADER_NOT_AVAILABLE, which passes, for one
        that was chosen because it `leads`.
        """
        if node not in self.metadata.brokers:
            await self.refresh([])
        broker = self.metadata.brokers.get(node)
        if broker is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE if leads else ErrorCode.BROKER_NOT_AVAILABLE
            raise KafkaError(code, f"broker {node} is not in the cluster")
        return await self._connect((broker.host, broker.port))

    async def to_leader(self, topic: str, partition: int) -> C:
        """`await cluster.to_leader("t", 0)` -> the connection to the partition's leader."""
        return await self.connection((await self.leader(topic, partition)).id, leads=True)

    async def any(self) -> C:
        """`await cluster.any()` -> a connection to some live broker, the bootstrap addresses last."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        addresses = self.metadata.addresses()
        failures: dict[Address, ConnectionFailed] = {}
        for limit in dial_limits(len(addresses), min(CONNECT_S, self.timeout)):
            for address in addresses:
                if address in failures and not failures[address].silent:
                    continue
                try:
                    return await self._connect(address, limit)
                except ConnectionFailed as error:
                    failures[address] = error
        raise nobody_reached(list(failures.values()))

    async def _connect(self, address: Address, limit: float = CONNECT_S) -> C:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            try:
                connection = self._connections[address] = await self.reach(address, limit)
            except KafkaError as error:
                if error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
                    self.metadata.rebootstrap()
                raise
        return connection

    # -- brokers that are silent, or cut off -----------------------------------------------------

    async def is_out(self, host: str, port: int) -> bool:
        """`await cluster.is_out("h1", 9092)`: whether another broker says that the silent one there is out.

        False, too, where no other broker answers within a few seconds.
        """
        answer = await self._ask_another(host, port, [])
        return answer is not None and self.metadata.is_out(host, port, answer)

    async def left(self, connection: AnyConnection) -> bool:
        """`await cluster.left(connection)`: close it if its broker is out, and return whether it is."""
        for address, known in list(self._connections.items()):
            if known is connection and await self.is_out(*address):
                await self._leave(address)
                return True
        return False

    async def look_past(self, partitions: Iterable[TopicPartition]) -> None:
        """`await cluster.look_past([TopicPartition("t", 0)])`: ask others than the leaders who leads these.

        Connections to a leader that is out are closed: it may still answer, with what was.
        """
        for address, topics in self.metadata.led(partitions).items():
            answer = await self._ask_another(*address, topics)
            if answer is not None and self.metadata.hear(*address, answer, self.now()):
                await self._leave(address)

    async def _leave(self, address: Address) -> None:
        if (connection := self._connections.pop(address, None)) is not None:
            await connection.close()

    async def _ask_another(self, host: str, port: int, topics: Sequence[str]) -> Any:
        """The metadata that another broker than the one there tells; None where no other answers soon."""
        until = self.now() + SILENCE
        for address in self.metadata.witnesses(host, port):
            if self.now() >= until:
                break
            with contextlib.suppress(BarnabasError):
                witness = await self.dial(*address, WITNESS_S)
                try:
                    return await witness.request(metadata_request(topics, create=False), None, WITNESS_S)
                finally:
                    await witness.close()
        return None

    # -- coordinators ----------------------------------------------------------------------------

    async def coordinator(self, key: str, *, transaction: bool = False) -> C:
        """`await cluster.coordinator("g")` -> the connection to the broker that coordinates the group."""
        connection = await self.any()
        version = connection.version_of(FindCoordinatorRequest)
        response = await connection.request(coordinator_request(key, transaction, version), version)
        found = found_coordinator(response, version, key, transaction=transaction)
        self.metadata.meet(found)
        return await self.connection(found.id)

    async def at_coordinator(
        self, key: str, talk: Callable[[C], Awaitable[T]], *, transaction: bool = False
    ) -> T:
        """`await cluster.at_coordinator("g", describe)`: what the coordinator says, tried until the time is over.

        What a coordinator refuses that is out does not count: the one after it is asked.
        """

        async def attempt() -> T:
            return await self.ask_coordinator(await self.coordinator(key, transaction=transaction), talk)

        return await self.retrying(attempt)

    async def ask_coordinator(self, coordinator: L, talk: Callable[[L], Awaitable[T]]) -> T:
        """`await cluster.ask_coordinator(connection, describe)`: what this coordinator says.

        Raises KafkaError: NOT_COORDINATOR where one refuses that is out, and its connection is closed.
        """
        try:
            return await talk(coordinator)
        except KafkaError as error:
            if may_be_old(error) and await self.left(coordinator):
                raise from_an_old_coordinator(error) from error
            raise

    # -- asking again ----------------------------------------------------------------------------

    async def ask(self, request: Message) -> Any:
        """`await cluster.ask(DescribeClusterRequest())` -> the answer of any broker, tried until the time is over.

        Only lost connections are tried again: what the answer says is the caller's to judge.
        """

        async def attempt() -> Any:
            return await (await self.any()).request(request)

        return await self.retrying(attempt)

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        on_retry: Callable[[], None] | None = None,
        patient: bool = False,
    ) -> T:
        """`await cluster.retrying(once)`: repeat on retriable errors with growing pauses.

        `on_retry` runs after a failure (to forget stale metadata).  What is repeated says `Retrying`; when the
        time is over, the last error is raised as it is.
        """
        retrying = Retrying(self.now(), self.timeout, patient=patient)
        while True:
            try:
                return await attempt()
            except (ConnectionFailed, KafkaError) as error:
                known = bool(self.metadata.brokers)
                pause = retrying.pause_after(error, self.now(), brokers_known=known)
            await self.pause(pause)
            if on_retry is not None:
                on_retry()


AnyCluster: TypeAlias = ClusterOf[AnyConnection]
"""A cluster whose calls are awaited, of either kind."""
