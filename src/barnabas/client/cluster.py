"""A cluster over blocking connections: the calls of `both.cluster`, each of which has returned by itself.

One thread at a time; every producer and consumer has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from barnabas.client.blocking import BlockingConnection
from barnabas.client.both.awaited import BlockingLine, at_once, awaited
from barnabas.client.both.cluster import Address, ClusterOf
from barnabas.client.connection import ConnectionFailed
from barnabas.client.metadata import METADATA_AGE, Broker, TopicInfo
from barnabas.client.security.options import SecurityOptions
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.silence import DIAL_S
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import NodeId, Uuid
from barnabas.wire.codec.message import Message

__all__ = ["Cluster"]

T = TypeVar("T")
P = ParamSpec("P")


class _Lines(ClusterOf[BlockingLine]):
    """Cluster whose calls never wait for a loop, but block."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        **view: Any,
    ) -> None:
        super().__init__(bootstrap, **view)
        self._clock = clock
        self._sleep = sleep

    def now(self) -> float:
        return self._clock()

    async def pause(self, seconds: float) -> None:
        self._sleep(seconds)

    async def dial(self, host: str, port: int, limit: float = DIAL_S) -> BlockingLine:
        return self._open(host, port, limit)

    async def reach(self, address: Address, limit: float) -> BlockingLine:
        def is_out(host: str, port: int) -> bool:
            return at_once(self.is_out(host, port))

        return self._open(*address, limit, is_out=is_out, meant=self.metadata.meant(*address))

    def _open(self, host: str, port: int, limit: float, **options: Any) -> BlockingLine:
        return BlockingLine(BlockingConnection(host, port, **self._options(limit), **options))

    async def ask_each(self, asked: Sequence[tuple[BlockingLine, Message]]) -> list[Any]:
        posted = [_or_error(line.connection.post, request) for line, request in asked]
        return [
            ticket if isinstance(ticket, BarnabasError) else _or_error(line.connection.collect, ticket)
            for (line, _), ticket in zip(asked, posted, strict=True)
        ]


def _or_error(call: Callable[[Any], Any], given: Any) -> Any:
    try:
        return call(given)
    except (ConnectionFailed, KafkaError) as error:
        return error


def _blocking(
    method: Callable[Concatenate[ClusterOf[BlockingLine], P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Cluster, P], T]:
    """Return a method of `ClusterOf` as one that blocks."""

    def call(self: Cluster, /, *given: P.args, **options: P.kwargs) -> T:
        return at_once(method(self.awaited, *given, **options))

    update_wrapper(call, method)
    call.__doc__ = (method.__doc__ or "").replace("`await ", "`")
    return call


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
        self.awaited = _Lines(
            bootstrap,
            clock,
            sleep,
            client_id=client_id,
            timeout=timeout,
            security=security,
            metadata_max_age=metadata_max_age,
        )
        """The same cluster for work that is written for both clients (`for_both`)."""
        self.metadata = self.awaited.metadata
        self.client_id = client_id
        self.timeout = timeout
        self.security = self.awaited.security

    def __repr__(self) -> str:
        return f"<Cluster {self.metadata!r}>"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    close = _blocking(ClusterOf.close)

    # -- who is there ----------------------------------------------------------------------------

    cluster_id = _blocking(ClusterOf.cluster_id)
    brokers = _blocking(ClusterOf.brokers)
    refresh = _blocking(ClusterOf.refresh)
    find = _blocking(ClusterOf.find)

    def topics(self) -> dict[str, TopicInfo]:
        """`cluster.topics()` -> all topics by name, asked for now."""
        return self.refresh(None)

    def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicInfo:
        """As `ClusterOf.topic`; what is known, as it is for each fetch, takes no coroutine."""
        known = None if refresh else self.metadata.topic(name, self.awaited.now())
        return known or at_once(self.awaited.topic(name, refresh=refresh, create=create))

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
        """`cluster.connection(3)` -> the connection to that broker, made anew when it broke (`ClusterOf`)."""
        return at_once(self.awaited.connection(node, leads=leads)).connection

    def to_leader(self, topic: str, partition: int) -> BlockingConnection:
        """`cluster.to_leader("t", 0)` -> the connection to the partition's leader."""
        return self.connection(self.leader(topic, partition).id, leads=True)

    def any(self) -> BlockingConnection:
        """`cluster.any()` -> a connection to some live broker, the bootstrap addresses last."""
        return at_once(self.awaited.any()).connection

    def coordinator(self, key: str, *, transaction: bool = False) -> BlockingConnection:
        """`cluster.coordinator("g")` -> the connection to the broker that coordinates the group."""
        return at_once(self.awaited.coordinator(key, transaction=transaction)).connection

    is_out = _blocking(ClusterOf.is_out)
    look_past = _blocking(ClusterOf.look_past)

    # -- asking again ----------------------------------------------------------------------------

    ask = _blocking(ClusterOf.ask)

    def retrying(
        self, attempt: Callable[[], T], *, on_retry: Callable[[], None] | None = None, patient: bool = False
    ) -> T:
        """`cluster.retrying(lambda: once())`: repeat on retriable errors with growing pauses (`ClusterOf`)."""
        return at_once(self.awaited.retrying(awaited(attempt), on_retry=on_retry, patient=patient))
