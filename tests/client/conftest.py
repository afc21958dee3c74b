"""Both clients under one name, so that one test holds for either: `clients.producer(...)`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.patience import PATIENCE_S

import barnabas
import barnabas.aio


class Clients:
    """The makers of one kind of client."""

    def __init__(self, kind: str, room: Any, wrapped: Callable[[Any], Any]) -> None:
        self.kind = kind
        self._room = room
        self._wrapped = wrapped

    def __repr__(self) -> str:
        return f"<Clients {self.kind}>"

    def producer(self, *given: Any, **options: Any) -> Any:
        return self._wrapped(self._room.Producer(*given, **options))

    def admin(self, *given: Any, **options: Any) -> Any:
        return self._wrapped(self._room.Admin(*given, **options))

    def consumer(self, *given: Any, **options: Any) -> Any:
        return self._wrapped(self._room.Consumer(*given, **options))


class Awaited:
    """A client of asyncio that is called like the other: each call runs the loop until it has returned."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Any) -> None:
        self.__dict__.update(_loop=loop, _client=client)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._client, name, value)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        return partial(self._call, value) if callable(value) else value

    def __enter__(self) -> Awaited:
        self._call(self._client.__aenter__)
        return self

    def __exit__(self, *error: Any) -> None:
        self._call(self._client.__aexit__, *error)

    def __iter__(self) -> Iterator[Any]:
        messages = aiter(self._client)
        done = object()
        while (message := self._call(anext, messages, done)) is not done:
            yield message

    def _call(self, work: Callable[..., Any], *given: Any, **options: Any) -> Any:
        outcome = work(*given, **options)
        if inspect.isawaitable(outcome):
            outcome = self._loop.run_until_complete(asyncio.wait_for(outcome, PATIENCE_S))
        return Outcome(self._loop, outcome) if isinstance(outcome, asyncio.Future) else outcome


class Outcome:
    """What `send` returned, called like a `Delivery`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float = PATIENCE_S) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(self._future, timeout))


@pytest.fixture(params=["threads", "asyncio"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """The clients of `barnabas`, then those of `barnabas.aio`."""
    if request.param == "threads":
        yield Clients("threads", barnabas, lambda client: client)
        return
    with asyncio.Runner() as runner:
        yield Clients("asyncio", barnabas.aio, partial(Awaited, runner.get_loop()))
