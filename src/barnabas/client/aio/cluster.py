"""A cluster on asyncio: one connection per broker, metadata asked for when stale, repetitions with pauses.

What is known and what is repeated is `client.metadata`, as for the blocking cluster.  Any number of tasks may
use it at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from barnabas.client.aio.connection import AsyncConnection, unless_out
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
from barnabas.client.offsets import OffsetAt, offsets_request, read_offsets
from barnabas.client.security.options import Security, SecurityOptions
from barnabas.client.waits.silence import CONNECT_S, DIAL_S, SILENCE, WITNESS_S, counted_out, dial_limits
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.groups import FindCoordinatorRequest

__all__ = ["AsyncCluster"]

T = TypeVar("T")


class AsyncCluster:
    """`async with AsyncCluster("127.0.0.1:9092") as cluster: await cluster.topic("t")`.

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
        self._connections: dict[tuple[str, int], AsyncConnection] = {}
        self._dialling: dict[tuple[str, int], asyncio.Lock] = {}
        self._looking: dict[tuple[str, int], asyncio.Task[bool]] = {}

    def __repr__(self) -> str:
        return f"<AsyncCluster {self.metadata!r}>"

    async def __aenter__(self) -> AsyncCluster:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """`await cluster.close()`: close all connections."""
        for look in self._looking.values():
            look.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    # -- what is known ---------------------------------------------------------------------------

    async def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicInfo:
        """`await cluster.topic("t")` -> its id and partitions; KafkaError UNKNOWN_TOPIC_OR_PARTITION.

        With `create` a broker that allows it makes the topic, and we wait for its leaders.
        """
        known = None if refresh else self.metadata.topic(name, self._now())
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
        """`await cluster.refresh(["t"])` -> fresh metadata (None: of all topics; []: of the brokers only)."""
        response = await self.ask(metadata_request(names, create=create))
        return self.metadata.take(response, names, self._now())

    async def find(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """`await cluster.find(["t", "u"])` -> those of them that there are, asked for now, in one request.

        Raises the KafkaError of the first that has another error than UNKNOWN_TOPIC_OR_PARTITION.
        """
        wanted = sorted(set(names))
        response = await self.ask(metadata_request(wanted, create=False))
        return self.metadata.take(response, wanted, self._now(), missing_ok=True)

    async def brokers(self) -> list[Broker]:
        """`await cluster.brokers()` -> the live brokers, by id."""
        if not self.metadata.brokers:
            await self.refresh([])
        return [self.metadata.brokers[node] for node in sorted(self.metadata.brokers)]

    async def leader(self, topic: str, partition: int) -> Broker:
        """`await cluster.leader("t", 0)` -> its leader; KafkaError LEADER_NOT_AVAILABLE when there is none."""
        return self.metadata.leader(await self.topic(topic), partition)

    # -- connections -----------------------------------------------------------------------------

    async def connection(self, node: NodeId, *, leads: bool = False) -> AsyncConnection:
        """`await cluster.connection(3)` -> the connection to that broker, made anew when it broke.

        KafkaError BROKER_NOT_AVAILABLE when it is not in the cluster, LEADER_NOT_AVAILABLE, which passes, for one
        that was chosen because it `leads`.
        """
        broker = self.metadata.brokers.get(node)
        if broker is None:
            await self.refresh([])
            broker = self.metadata.brokers.get(node)
        if broker is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE if leads else ErrorCode.BROKER_NOT_AVAILABLE
            raise KafkaError(code, f"broker {node} is not in the cluster")
        return await self._connect((broker.host, broker.port))

    async def dial(self, host: str, port: int) -> AsyncConnection:
        """`await cluster.dial("h", 9093)` -> a connection to a node that is not known as a broker; close it."""
        return await AsyncConnection.connect(
            host,
            port,
            client_id=self.client_id,
            timeout=self.timeout,
            connect_timeout=min(DIAL_S, self.timeout),
            security=self.security,
        )

    async def any(self) -> AsyncConnection:
        """`await cluster.any()` -> a connection to some live broker, the bootstrap addresses last."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        addresses = self.metadata.addresses()
        failures: dict[tuple[str, int], ConnectionFailed] = {}
        for limit in dial_limits(len(addresses), min(CONNECT_S, self.timeout)):
            for address in addresses:
                if address in failures and not failures[address].silent:
                    continue
                try:
                    return await self._connect(address, limit)
                except ConnectionFailed as error:
                    failures[address] = error
        raise nobody_reached(list(failures.values()))

    async def coordinator(self, key: str, *, transaction: bool = False) -> AsyncConnection:
        """`await cluster.coordinator("g")` -> the connection to the broker that coordinates the group."""
        connection = await self.any()
        version = connection.version_of(FindCoordinatorRequest)
        response = await connection.request(coordinator_request(key, transaction, version), version)
        found = found_coordinator(response, version, key, transaction=transaction)
        self.metadata.meet(found)
        return await self.connection(found.id)

    async def _connect(self, address: tuple[str, int], limit: float = CONNECT_S) -> AsyncConnection:
        async with self._dialling.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                is_out = partial(self._is_out, address)
                dialled = asyncio.ensure_future(
                    AsyncConnection.connect(
                        *address,
                        client_id=self.client_id,
                        timeout=self.timeout,
                        connect_timeout=min(limit, self.timeout),
                        security=self.security,
                        is_out=is_out,
                        meant=self.metadata.meant(*address),
                    )
                )
                try:
                    if not await unless_out(dialled, is_out):
                        raise counted_out("{}:{}".format(*address))
                    connection = self._connections[address] = await dialled
                except KafkaError as error:
                    if error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
                        self.metadata.rebootstrap()
                    raise
                finally:
                    dialled.cancel()
            return connection

    async def _is_out(self, address: tuple[str, int]) -> bool:
        """Return whether another broker says that the silent one there is out; one question at a time."""
        look = self._looking.get(address)
        if look is None:
            look = self._looking[address] = asyncio.create_task(self._look_into(address))
            look.add_done_callback(lambda _: self._looking.pop(address, None))
        return await asyncio.shield(look)

    async def left(self, connection: AsyncConnection) -> bool:
        """`await cluster.left(connection)`: close it if its broker is out, and return whether it is."""
        for address, known in list(self._connections.items()):
            if known is connection and await self._is_out(address):
                self._connections.pop(address, None)
                await connection.close()
                return True
        return False

    async def at_coordinator(
        self, key: str, talk: Callable[[AsyncConnection], Awaitable[T]], *, transaction: bool = False
    ) -> T:
        """`await cluster.at_coordinator("g", describe)`: what the coordinator says, tried until the time is over.

        What a coordinator refuses that is out does not count: the one after it is asked.
        """

        async def attempt() -> T:
            return await self.ask_coordinator(await self.coordinator(key, transaction=transaction), talk)

        return await self.retrying(attempt)

    async def ask_coordinator(
        self, coordinator: AsyncConnection, talk: Callable[[AsyncConnection], Awaitable[T]]
    ) -> T:
        """`await cluster.ask_coordinator(connection, describe)`: what this coordinator says.

        Raises KafkaError: NOT_COORDINATOR where one refuses that is out, and its connection is closed.
        """
        try:
            return await talk(coordinator)
        except KafkaError as error:
            if may_be_old(error) and await self.left(coordinator):
                raise from_an_old_coordinator(error) from error
            raise

    async def _look_into(self, address: tuple[str, int]) -> bool:
        answer = await self._ask_another(address, [])
        return answer is not None and self.metadata.is_out(*address, answer)

    async def look_past(self, partitions: Iterable[TopicPartition]) -> None:
        """`await cluster.look_past([...])`: ask others than the leaders who leads these partitions.

        Connections to a leader that is out are closed: it may still answer, with what was.
        """
        for address, topics in self.metadata.led(partitions).items():
            answer = await self._ask_another(address, topics)
            if answer is None or not self.metadata.hear(*address, answer, self._now()):
                continue
            if (connection := self._connections.pop(address, None)) is not None:
                await connection.close()

    async def _ask_another(self, address: tuple[str, int], topics: Sequence[str]) -> Any:
        """The metadata that another broker than the one there tells; None where no other answers soon."""
        until = self._now() + SILENCE
        for host, port in self.metadata.witnesses(*address):
            if self._now() >= until:
                break
            try:
                async with await AsyncConnection.connect(
                    host,
                    port,
                    client_id=self.client_id,
                    connect_timeout=WITNESS_S,
                    security=self.security,
                ) as witness:
                    return await witness.request(metadata_request(topics, create=False), None, WITNESS_S)
            except BarnabasError:
                continue
        return None

    async def offsets(
        self, question: Mapping[TopicPartition, int], level: int = 0
    ) -> dict[TopicPartition, OffsetAt]:
        """`await cluster.offsets({TopicPartition("t", 0): -1})`: asked of the leaders, again if they moved.

        A time in ms, or one of `special_time`, for each partition.  Raises KafkaError, ConnectionFailed.
        """
        found: dict[TopicPartition, OffsetAt] = {}

        async def attempt() -> dict[TopicPartition, OffsetAt]:
            by_leader: dict[NodeId, dict[TopicPartition, int]] = {}
            for target, when in question.items():
                if target not in found:
                    by_leader.setdefault((await self.leader(*target)).id, {})[target] = when
            for leader, theirs in by_leader.items():
                connection = await self.connection(leader, leads=True)
                read_offsets(await connection.request(offsets_request(theirs, level, self.timeout)), found)
            return found

        def forget() -> None:
            for target in question.keys() - found.keys():
                self.metadata.forget(target.topic)

        return await self.retrying(attempt, on_retry=forget)

    # -- asking again ----------------------------------------------------------------------------

    async def ask(self, request: Message) -> Any:
        """`await cluster.ask(message)` -> the answer of any broker; lost connections are tried again."""

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
        """`await cluster.retrying(once)`: repeat as `Retrying` says; `on_retry` runs after a failure."""
        retrying = Retrying(self._now(), self.timeout, patient=patient)
        while True:
            try:
                return await attempt()
            except (ConnectionFailed, KafkaError) as error:
                known = bool(self.metadata.brokers)
                pause = retrying.pause_after(error, self._now(), brokers_known=known)
            await asyncio.sleep(pause)
            if on_retry is not None:
                on_retry()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
