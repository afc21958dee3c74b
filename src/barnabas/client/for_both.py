"""Work that waits, written once for the blocking client and for that of asyncio.

    @for_both
    async def users_of(cluster: AnyCluster) -> list[User]:
        answer = await cluster.ask(DescribeUserScramCredentialsRequest(users=None))
        ...

    users_of(Cluster("127.0.0.1:9092"))                 # -> the users
    await users_of(AsyncCluster("127.0.0.1:9092"))      # -> the users

Such a function is a coroutine over `AnyCluster`, a cluster whose calls are awaited, or over `AnyConnection`; those
of asyncio are such.  Over a blocking one every call has returned by the time it is awaited, so the coroutine runs
to its end in one step: no loop, no task and no thread is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import Broker, Metadata, TopicInfo
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, OffsetAt, list_offsets_at
from barnabas.client.waits.silence import DIAL_S
from barnabas.model import NodeId, TopicPartition
from barnabas.wire.codec.message import Message

if TYPE_CHECKING:
    from barnabas.client.aio.cluster import AsyncCluster
    from barnabas.client.aio.connection import AsyncConnection

__all__ = ["AnyCluster", "AnyConnection", "at_once", "for_both"]

T = TypeVar("T")
P = ParamSpec("P")


class AnyConnection(Protocol):
    """A connection whose answers are awaited."""

    @property
    def address(self) -> str: ...

    async def request(
        self,
        message: Message,
        version: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  that of the connection
    ) -> Any: ...

    def version_of(self, request: type[Message] | Message) -> int: ...

    def serves(self, request: type[Message]) -> bool: ...

    async def close(self) -> None: ...


class AnyCluster(Protocol):
    """A cluster whose calls are awaited; they are those of `Cluster`."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def timeout(self) -> float: ...

    async def ask(self, request: Message) -> Any: ...

    async def any(self) -> AnyConnection: ...

    async def connection(self, node: NodeId, *, leads: bool = False) -> AnyConnection: ...

    async def dial(self, host: str, port: int) -> AnyConnection:
        """Connect to a node that is not known as a broker; the caller closes it."""
        ...

    async def brokers(self) -> list[Broker]: ...

    async def topic(self, name: str, *, refresh: bool = False) -> TopicInfo: ...

    async def refresh(self, names: Sequence[str] | None = None) -> dict[str, TopicInfo]: ...

    async def offsets(
        self, question: Mapping[TopicPartition, int], level: int = 0
    ) -> dict[TopicPartition, OffsetAt]:
        """The offset of each partition at a time (ms, or one of `special_time`), asked of the leaders."""
        ...

    async def at_coordinator(self, group: str, talk: Callable[[AnyConnection], Awaitable[T]]) -> T: ...

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        on_retry: Callable[[], None] | None = None,
        patient: bool = False,
    ) -> T: ...


def at_once(work: Awaitable[T]) -> T:
    """`at_once(work)` -> its result; it awaits nothing that is still to come."""
    steps = iter(work.__await__())
    try:
        next(steps)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError(f"{work!r} waits for a loop")


class for_both(Generic[P, T]):  # noqa: N801  used as a decorator
    """Called with what blocks it returns the result, with what is awaited what is to be awaited, too."""

    def __init__(self, work: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._work = self.__wrapped__ = work
        self.__name__ = work.__name__
        update_wrapper(self, work)

    @overload
    def __call__(self, where: Cluster | BlockingConnection, *given: P.args, **options: P.kwargs) -> T: ...
    @overload
    def __call__(
        self,
        where: AsyncCluster | AsyncConnection | AnyCluster | AnyConnection,
        *given: P.args,
        **options: P.kwargs,
    ) -> Coroutine[Any, Any, T]: ...
    def __call__(self, where: Any, *given: P.args, **options: P.kwargs) -> Any:
        if getattr(where, "AWAITED", False):
            return self._work(where, *given, **options)
        blocking = BlockingLine(where) if isinstance(where, BlockingConnection) else Blocking(where)
        return at_once(self._work(blocking, *given, **options))


class BlockingLine:
    """A blocking connection as an `AnyConnection`."""

    AWAITED = True

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        return self._connection.address

    def __repr__(self) -> str:
        return repr(self._connection)

    async def request(
        self,
        message: Message,
        version: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  that of the connection
    ) -> Any:
        return self._connection.request(message, version, timeout)

    def version_of(self, request: type[Message] | Message) -> int:
        return self._connection.version_of(request)

    def serves(self, request: type[Message]) -> bool:
        return self._connection.serves(request)

    async def close(self) -> None:
        self._connection.close()


class Blocking:
    """A blocking cluster as an `AnyCluster`."""

    AWAITED = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def metadata(self) -> Metadata:
        return self._cluster.metadata

    @property
    def timeout(self) -> float:
        return self._cluster.timeout

    def __repr__(self) -> str:
        return repr(self._cluster)

    async def ask(self, request: Message) -> Any:
        return self._cluster.ask(request)

    async def any(self) -> AnyConnection:
        return BlockingLine(self._cluster.any())

    async def connection(self, node: NodeId, *, leads: bool = False) -> AnyConnection:
        return BlockingLine(self._cluster.connection(node, leads=leads))

    async def dial(self, host: str, port: int) -> AnyConnection:
        cluster = self._cluster
        line = BlockingConnection(
            host,
            port,
            client_id=cluster.client_id,
            timeout=cluster.timeout,
            connect_timeout=min(DIAL_S, cluster.timeout),
            security=cluster.security,
        )
        return BlockingLine(line)

    async def brokers(self) -> list[Broker]:
        return self._cluster.brokers()

    async def topic(self, name: str, *, refresh: bool = False) -> TopicInfo:
        return self._cluster.topic(name, refresh=refresh)

    async def refresh(self, names: Sequence[str] | None = None) -> dict[str, TopicInfo]:
        return self._cluster.refresh(names)

    async def offsets(
        self, question: Mapping[TopicPartition, int], level: int = 0
    ) -> dict[TopicPartition, OffsetAt]:
        isolation = READ_COMMITTED if level else READ_UNCOMMITTED
        [found] = list_offsets_at(self._cluster, [question], isolation=isolation)
        return found

    async def at_coordinator(self, group: str, talk: Callable[[AnyConnection], Awaitable[T]]) -> T:
        return self._cluster.at_coordinator(group, lambda connection: at_once(talk(BlockingLine(connection))))

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        on_retry: Callable[[], None] | None = None,
        patient: bool = False,
    ) -> T:
        return self._cluster.retrying(lambda: at_once(attempt()), on_retry=on_retry, patient=patient)
