"""Methods that are written once and block in one class, and are coroutine functions in the other."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any, ClassVar, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from barnabas.client.both.awaited import at_once

__all__ = ["either_way"]

T = TypeVar("T")
P = ParamSpec("P")


class _Blocks(Protocol):
    AWAITED: ClassVar[Literal[False]]


class _Waits(Protocol):
    AWAITED: ClassVar[Literal[True]]


class either_way(Generic[P, T]):  # noqa: N801  used as a decorator
    """Method of a class that says AWAITED: where that is False it blocks, where it is True it is awaited.

    It is written as a coroutine function; its docstring says how it is called where it blocks.
    """

    def __init__(self, work: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._work = self.__wrapped__ = work
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
            return at_once(work(self, *given, **options))

        async def waits(self: Any, /, *given: Any, **options: Any) -> Any:
            return await work(self, *given, **options)

        method = waits if awaited else blocks
        said = work.__doc__ or ""
        method.__name__ = method.__qualname__ = self._name
        method.__doc__ = _awaited(said, self._name) if awaited else said
        method.__dict__["__signature__"] = inspect.signature(work)
        return method


def _awaited(said: str, name: str) -> str:
    """Have a docstring await the calls of the method."""

    def called(found: re.Match[str]) -> str:
        call, then = found.groups()
        return f"`(await {call})" if then in (".", "[") else f"`await {call}"

    return re.sub(rf"`(\w+\.{name}\([^`]*?\))(?=([`.\[]?))", called, said)
