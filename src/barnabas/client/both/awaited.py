"""Connections whose calls are awaited, blocking ones among them, and the step that runs work over these."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from barnabas.client.blocking import BlockingConnection
from barnabas.wire.codec.message import Message

__all__ = ["AnyConnection", "BlockingLine", "ThreadLock", "at_once", "awaited"]

T = TypeVar("T")
P = ParamSpec("P")


class AnyConnection(Protocol):
    """A connection whose answers are awaited."""

    @property
    def address(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    @property
    def finalized(self) -> dict[str, int]: ...

    async def request(
        self,
        message: Message,
        version: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  that of the connection
    ) -> Any: ...

    def version_of(self, request: type[Message] | Message) -> int: ...

    def serves(self, request: type[Message]) -> bool: ...

    async def close(self) -> None: ...


class BlockingLine:
    """A blocking connection as an `AnyConnection`."""

    AWAITED = True
    """See `for_both`."""

    __slots__ = ("connection",)

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection

    @property
    def address(self) -> str:
        return self.connection.address

    @property
    def closed(self) -> bool:
        return self.connection.closed

    @property
    def finalized(self) -> dict[str, int]:
        return self.connection.finalized

    def __repr__(self) -> str:
        return repr(self.connection)

    async def request(
        self,
        message: Message,
        version: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  that of the connection
    ) -> Any:
        return self.connection.request(message, version, timeout)

    def version_of(self, request: type[Message] | Message) -> int:
        return self.connection.version_of(request)

    def serves(self, request: type[Message]) -> bool:
        return self.connection.serves(request)

    async def close(self) -> None:
        self.connection.close()


class ThreadLock:
    """`async with lock: ...` where several threads run such work `at_once`; one may take it again."""

    __slots__ = ("threads",)

    def __init__(self) -> None:
        self.threads = threading.RLock()

    async def __aenter__(self) -> None:
        self.threads.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.threads.release()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """`at_once(work)` -> its result; it awaits nothing that is still to come."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError(f"{work!r} waits for a loop")


def awaited(call: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`awaited(call)`: the same, to be awaited by work that runs `at_once`."""

    async def called(*given: P.args, **options: P.kwargs) -> T:
        return call(*given, **options)

    return called
