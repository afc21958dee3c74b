"""An asyncio loop without a selector, without threads, and without time of its own.

`Scheduler` holds the true time and everything that is to happen; time passes only when nothing is left to do
at the present moment.  `VirtualLoop` is one program's view of it: the event loop of one run of one node, or
of one client host.  Several of them run side by side in one thread.  A loop can pause (everything that it
should do waits, as in a stopped process) and can end (nothing of it ever happens again: its timers, tasks and
sockets vanish in the middle of their work).

What a real loop does in a thread (`run_in_executor`, a sync) is done here at once when it ends, after the
time that the simulated disk takes for it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol, cast

from barnabas.sim.kernel.disk import Crashed

__all__ = ["Handle", "LoopHost", "RoundInCircles", "Scheduler", "VirtualLoop"]

_set_running_loop = asyncio._set_running_loop
MOST_AT_ONCE = 20_000
"""Callbacks in one moment of virtual time; more of them mean that somebody waits for time by spinning."""
A_LOT = 100
"""After so many of them a little time has passed."""
_MOMENT = 1e-5


class RoundInCircles(Exception):  # noqa: N818 - the name of what happened
    """Very many callbacks, and time did not pass."""


class Connection(Protocol):
    """A connection that was dialled; `made` gives it to a protocol."""

    def made(self, protocol: Any) -> asyncio.Transport: ...


class LoopHost(Protocol):
    """The machine on which a loop runs, as far as the loop needs it: its name, its kernel, its network."""

    name: str
    loops: list[VirtualLoop]

    def later(self, delay: float, action: Callable[..., object], *args: Any) -> None: ...
    def heard_of(self, error: BaseException, text: str) -> None: ...
    def dial(self, loop: VirtualLoop, name: str, port: int) -> Awaitable[Connection]: ...


class Handle:
    """Something that is to happen in a loop (`asyncio.Handle` and `asyncio.TimerHandle` in one)."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_loop", "_when")

    def __init__(
        self,
        loop: VirtualLoop,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        when: float,
    ) -> None:
        self._loop = loop
        self._callback = callback
        self._args = args
        self._context = context
        self._when = when
        self._cancelled = False

    def cancel(self) -> None:
        """It is not to happen."""
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        """The time it is for."""
        return self._when

    def __repr__(self) -> str:
        return f"<Handle {self._callback!r} at {self._when:.4f}{' cancelled' if self._cancelled else ''}>"


class Scheduler:
    """True time, in seconds since the beginning of the world, and what happens when."""

    __slots__ = ("_serial", "_timers", "alarm", "current", "events", "on_event", "ready", "time")

    def __init__(self) -> None:
        self.time = 0.0
        self.events = 0
        self.ready: deque[Handle] = deque()
        self.current: VirtualLoop | None = None
        """Whose callback runs just now."""
        self.alarm: BaseException | None = None
        """Ends the run, whoever raised it (a task would keep it for itself)."""
        self.on_event: list[Callable[[], None]] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._serial = 0

    def __repr__(self) -> str:
        return f"<Scheduler time={self.time:.4f} events={self.events} ready={len(self.ready)}>"

    def add(self, when: float, handle: Handle) -> None:
        """Have it happen at that time (now, if that is past)."""
        if when <= self.time:
            self.ready.append(handle)
        elif when < inf:
            self._serial += 1
            heappush(self._timers, (when, self._serial, handle))

    def run(self, end: float, until: Callable[[], bool] | None = None) -> bool:
        """Let things happen up to a time.  True as soon as `until` holds (it is asked between two moments)."""
        ready, timers = self.ready, self._timers
        try:
            while True:
                if ready:
                    self._moment()
                if until is not None and until():
                    return True
                if not timers or timers[0][0] > end:
                    self.time = max(self.time, end)
                    return False
                self.time = timers[0][0]
                while timers and timers[0][0] == self.time:
                    ready.append(heappop(timers)[2])
        finally:
            _set_running_loop(None)
            self.current = None

    def _moment(self) -> None:
        """Everything that is to happen now."""
        ready, hooks = self.ready, self.on_event
        events = 0
        while ready:
            handle = ready.popleft()
            loop = handle._loop
            if handle._cancelled or loop.ended:
                continue
            if loop.stands_still:
                loop.backlog.append(handle)
                continue
            events += 1
            if loop is not self.current:
                self.current = loop
                _set_running_loop(loop)
            try:
                if handle._context is None:
                    handle._callback(*handle._args)
                else:
                    handle._context.run(handle._callback, *handle._args)
            except Crashed:
                pass  # whose disk it was has seen to it
            except Exception as error:
                loop.on_error(error, handle)
            if self.alarm is not None:
                raise self.alarm
            for hook in hooks:
                hook()
            if events % A_LOT == 0:
                self._time_for_it()
            if events > MOST_AT_ONCE:
                raise RoundInCircles(f"{events} callbacks at {self.time:.4f}, the last one {handle!r}")
        self.events += events

    def _time_for_it(self) -> None:
        """So much work in one moment takes some time, as it does on real machines: who waits for a time that
        is a rounding error away must not wait for ever."""
        soon = self.time + _MOMENT
        self.time = min(soon, self._timers[0][0]) if self._timers else soon


class VirtualLoop(asyncio.AbstractEventLoop):
    """See the module.  `on_error(error, what)` is told of whatever escapes from a callback."""

    def __init__(
        self,
        scheduler: Scheduler,
        host: LoopHost,
        name: str,
        *,
        on_error: Callable[[BaseException, object], None],
        disk_time: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.scheduler = scheduler
        self.host = host
        self.name = name
        self.on_error = on_error
        self.disk_time = disk_time
        self.ended = False
        self.stands_still = False
        self.backlog: deque[Handle] = deque()
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Its connections, by descriptor."""
        self._disk_free = 0.0
        host.loops.append(self)

    def __repr__(self) -> str:
        state = "ended" if self.ended else "stands still" if self.stands_still else "runs"
        return f"<VirtualLoop {self.name} {state}>"

    @classmethod
    def of(cls, *args: Any, **kwargs: Any) -> VirtualLoop:
        """A loop.  (It has only those methods of a loop that somebody calls.)"""
        made: VirtualLoop = cast("Any", cls)(*args, **kwargs)
        return made

    # What the world does with it.

    def stop_still(self) -> None:
        """Do nothing, until `go_on`."""
        self.stands_still = True

    def go_on(self) -> None:
        """What was to be done meanwhile is to be done now."""
        self.stands_still = False
        self.scheduler.ready.extend(self.backlog)
        self.backlog.clear()

    def end(self) -> None:
        """Nothing of it happens any more."""
        self.ended = True
        self.backlog.clear()

    def bury(self) -> None:
        """At the end of the world: close what its tasks were in the middle of, without a word."""
        self.ended = True
        for task in list(self.tasks):
            cast("Any", task)._log_destroy_pending = False
            coroutine = task.get_coro()
            try:
                if coroutine is not None:
                    coroutine.close()
            except (Exception, Crashed):
                pass
        self.tasks.clear()

    # What asyncio and the code under test ask of a loop.

    def time(self) -> float:
        return self.scheduler.time

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        handle = Handle(self, callback, args, context, self.scheduler.time)
        self.scheduler.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        handle = Handle(self, callback, args, context, when)
        self.scheduler.add(when, handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Handle:
        return self.call_at(self.scheduler.time + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self.tasks[task] = None
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """One job after the other, each as long as the disk takes for it."""
        future = self.create_future()
        self._disk_free = max(self._disk_free, self.time()) + self.disk_time()
        self.host.later(self._disk_free - self.time(), self._work, future, func, args)
        return future

    def _work(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """The end of a job: the thread goes on although the loop may stand still."""
        if self.ended:
            return
        result: Any = None
        error: BaseException | None = None
        try:
            result = func(*args)
        except Crashed:
            return
        except Exception as failed:
            error = failed
        self.call_soon(self._worked, future, result, error)

    @staticmethod
    def _worked(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.ended

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self.ended:
            self.host.heard_of(error, context.get("message", ""))

    # Sockets.

    async def create_server(self, protocol_factory: Any, *args: Any, **kwargs: Any) -> Any:
        return kwargs["sock"].listen(protocol_factory)

    async def create_connection(
        self, protocol_factory: Any, host: str | None = None, port: int | None = None, **kwargs: Any
    ) -> Any:
        assert host is not None and port is not None
        end = await self.host.dial(self, host, port)  # (a name is resolved at every dial)
        protocol = protocol_factory()
        return end.made(protocol), protocol
