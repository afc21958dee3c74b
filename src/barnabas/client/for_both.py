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
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from barnabas.client.blocking import BlockingConnection
from barnabas.client.both.awaited import AnyConnection, BlockingLine, at_once
from barnabas.client.both.cluster import AnyCluster
from barnabas.client.both.methods import either_way
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


class as_method(either_way[P, T]):  # noqa: N801  used as a decorator
    """`topics = as_method(topics)` in a class with a `cluster`: `admin.topics()` is `topics(admin.cluster)`."""

    def __init__(self, work: for_both[P, T]) -> None:
        async def method(self: Any, /, *given: Any, **options: Any) -> T:
            found: T = await work(getattr(self.cluster, "awaited", self.cluster), *given, **options)
            return found

        self._function = work
        super().__init__(method)

    def _made(self, awaited: bool) -> Callable[..., Any]:
        function = self._function
        signature = inspect.signature(function.__wrapped__)
        _, *taken = signature.parameters.values()
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._work.__dict__["__signature__"] = signature.replace(parameters=[own, *taken])
        called = rf"`{function.__name__}\(cluster(, )?"
        self._work.__doc__ = re.sub(called, f"`admin.{self._name}(", function.__doc__ or "")
        return super()._made(awaited)
