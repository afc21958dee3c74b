"""The tasks of one node: started by name, ended in the opposite order, none lost silently.

(asyncio's own TaskGroup cancels in the order of a set, which differs from run to run.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from barnabas.server.observe import events

__all__ = ["Tasks", "after"]

_T = TypeVar("_T")
_U = TypeVar("_U")


def after(first: asyncio.Future[_T], then: Callable[[_T], _U]) -> asyncio.Future[_U]:
    """What `then` makes of the result of `first`; its error, or its end, where there is no result."""
    later: asyncio.Future[_U] = first.get_loop().create_future()

    def finish(done: asyncio.Future[_T]) -> None:
        error = None if done.cancelled() else done.exception()  # read also where nobody waits any more
        if later.done():
            return
        if done.cancelled():
            later.cancel()
        elif error is not None:
            later.set_exception(error)
        else:
            later.set_result(then(done.result()))

    first.add_done_callback(finish)
    return later


class Tasks:
    """`start(coroutine, name)`: run it beside the others; an error that escapes it is the node's."""

    __slots__ = ("_loop", "_on_error", "_running")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_error: Callable[[Exception], None]) -> None:
        self._loop = loop
        self._on_error = on_error
        self._running: dict[asyncio.Task[Any], str] = {}

    def start(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        task = self._loop.create_task(work, name=name)
        self._running[task] = name
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._running.pop(task, task.get_name())
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Exception):
            events.emit(events.TASK_FAILED, task=name, error=error)
            self._on_error(error)

    async def stop(self) -> None:
        """Cancel the tasks, the youngest first, and wait until each has ended."""
        for task in reversed(list(self._running)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def __repr__(self) -> str:
        return f"<Tasks {' '.join(self._running.values())}>"
