"""Work that waits, written once for the blocking client and for that of asyncio.

    @for_both
    async def users_of(cluster: AnyCluster) -> list[User]:
        answer = await cluster.ask(DescribeUserScramCredentialsRequest(users=None))
        ...

    users_of(Cluster("127.0.0.1:9092"))                 # -> the users
    await users_of(AsyncCluster("127.0.0.1:9092"))      # -> the users

Such a function is a coroutine over `AnyCluster`, a cluster whose calls are awaited, or over `AnyConnection`.  Over
what blocks it runs to its end `at_once`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from barnabas.client.blocking import BlockingConnection
from barnabas.client.both.awaited import AnyConnection, BlockingLine, at_once
from barnabas.client.both.cluster import AnyCluster
from barnabas.client.cluster import Cluster

__all__ = ["AnyCluster", "AnyConnection", "as_method", "for_both"]

T = TypeVar("T")
P = ParamSpec("P")


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
        self, where: AnyCluster | AnyConnection, *given: P.args, **options: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def __call__(self, where: Any, *given: P.args, **options: P.kwargs) -> Any:
        if getattr(where, "AWAITED", False):
            return self._work(where, *given, **options)
        awaited = BlockingLine(where) if isinstance(where, BlockingConnection) else where.awaited
        return at_once(self._work(awaited, *given, **options))


class _Blocks(Protocol):
    """Whose `cluster` blocks."""

    @property
    def cluster(self) -> Cluster: ...


class _Waits(Protocol):
    """The calls of whose `cluster` are awaited."""

    @property
    def cluster(self) -> AnyCluster: ...


class as_method(Generic[P, T]):  # noqa: N801  used as a decorator
    """`topics = as_method(topics)` in a class: `admin.topics()` is `topics(admin.cluster)`.

    It blocks in a class whose cluster does, and is a coroutine function in one that says AWAITED.
    """

    def __init__(self, work: for_both[P, T]) -> None:
        self._work = work
        self._methods: dict[bool, Callable[..., Any]] = {}

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: _Blocks, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: _Waits, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        awaited = getattr(owner, "AWAITED", False)
        if awaited not in self._methods:
            self._methods[awaited] = self._made(awaited)
        method = self._methods[awaited]
        return method if instance is None else MethodType(method, instance)

    def _made(self, awaited: bool) -> Callable[..., Any]:
        work = self._work

        def blocks(self: Any, /, *given: Any, **options: Any) -> Any:
            return work(self.cluster, *given, **options)

        async def waits(self: Any, /, *given: Any, **options: Any) -> Any:
            return await work(self.cluster, *given, **options)

        method = waits if awaited else blocks
        signature = inspect.signature(work.__wrapped__)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        _, *taken = signature.parameters.values()
        method.__name__ = method.__qualname__ = self._name
        method.__doc__ = said_of_a_method(work.__doc__ or "", work.__name__, self._name, awaited=awaited)
        method.__dict__["__signature__"] = signature.replace(parameters=[own, *taken])
        return method


def said_of_a_method(said: str, function: str, method: str, *, awaited: bool) -> str:
    """Have a docstring that calls the function with a cluster call the method of an admin."""
    call = re.compile(rf"`{function}\(cluster(?:, )?([^`]*?)\)(?=([`.\[]?))")
    plain = f"admin.{method}"

    def called(found: re.Match[str]) -> str:
        given, then = found.groups()
        if not awaited:
            return f"`{plain}({given})"
        return f"`(await {plain}({given}))" if then in (".", "[") else f"`await {plain}({given})"

    return call.sub(called, said)
