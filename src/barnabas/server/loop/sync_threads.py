"""The threads that wait for disks, so that the loop never does: each fsync, and at a start and a stop whole logs.

A few plain threads and a queue: half the cost per sync of an executor's futures.  The broker hands out at
most one sync per log at a time, so the queue is never longer than there are logs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic, thread_time
from typing import Protocol, TypeVar, runtime_checkable

from barnabas.errors import StorageError
from barnabas.log.files.sync import Job
from barnabas.server.observe.metrics import Histogram

__all__ = ["Stepwise", "Syncer", "Syncing", "run_aside", "run_together"]

_Work = TypeVar("_Work")
_TOGETHER = 32


class Syncing(Protocol):
    """Whoever calls fsync for the loop (`Syncer`, or the simulator)."""

    in_flight: int

    def submit(self, job: Job, done: Callable[[Job, StorageError | None], None]) -> None: ...
    def stop(self) -> None: ...


@runtime_checkable
class Paced(Protocol):
    """A job after which its owner rests, by what it took: seconds of CPU, and seconds in all."""

    cpu_s: float
    ran_s: float


class Syncer:
    """`submit(job, done)`: run `job.run()` in a thread, then `done(job, error)` in the loop."""

    __slots__ = ("_idle", "_loop", "_most", "_queue", "_threads", "in_flight", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: Histogram, most: int = 4) -> None:
        self._loop = loop
        self._most = most
        self._queue: SimpleQueue[tuple[Job, Callable[[Job, StorageError | None], None]] | None]
        self._queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.in_flight = 0
        self.seconds = seconds

    def submit(self, job: Job, done: Callable[[Job, StorageError | None], None]) -> None:
        """Start a sync; `done` is called in the loop, with the error that ended it or None."""
        self.in_flight += 1
        if self.in_flight > len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name=f"sync-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put((job, done))

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            job, done = item
            error: StorageError | None = None
            begun, worked = monotonic(), thread_time()
            try:
                job.run()
            except StorageError as failed:
                error = failed
            except Exception as failed:
                error = StorageError(f"a sync failed in a way nobody foresaw: {failed!r}", fatal=True)
            if isinstance(job, Paced):
                job.cpu_s, job.ran_s = thread_time() - worked, monotonic() - begun
            try:
                self._loop.call_soon_threadsafe(self._done, job, done, error, monotonic() - begun)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _done(
        self,
        job: Job,
        done: Callable[[Job, StorageError | None], None],
        error: StorageError | None,
        seconds: float,
    ) -> None:
        self.in_flight -= 1
        if getattr(job, "measured", False):
            self.seconds.observe(seconds)
        done(job, error)

    def stop(self) -> None:
        """End the threads once they are done with what they have."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=5)
        self._threads.clear()

    def __repr__(self) -> str:
        return f"<Syncer {len(self._threads)} threads, {self.in_flight} in flight>"


def run_together(jobs: Sequence[Job]) -> None:
    """Run all of them in threads; returns when all have ended.  Raises the first StorageError.

    The file system writes its journal once for many syncs that wait at the same time.
    """
    if len(jobs) < 2:
        for job in jobs:
            job.run()
        return
    left = deque(enumerate(jobs))
    errors: dict[int, StorageError] = {}

    def work() -> None:
        while (item := _next(left)) is not None:
            place, job = item
            try:
                job.run()
            except StorageError as error:
                errors[place] = error

    threads = min(_TOGETHER, len(jobs))
    with ThreadPoolExecutor(threads, thread_name_prefix="last-sync") as pool:
        ended = [pool.submit(work) for _ in range(threads)]
    for one in ended:
        one.result()
    if errors:
        raise errors[min(errors)]


def _next(left: deque[_Work]) -> _Work | None:
    """What is to be done next; several threads ask."""
    with suppress(IndexError):
        return left.popleft()
    return None


class Stepwise(Protocol):
    """Work for a thread that may be left off between two steps."""

    def steps(self) -> Iterator[None]:
        """Do it, a step at a time."""
        ...


async def run_aside(works: Sequence[Stepwise], most: int) -> None:
    """Do all of them in at most so many threads, while the loop goes on.

    Who is cancelled meanwhile leaves no thread behind."""
    left = deque(works)

    def work() -> None:
        while (one := _next(left)) is not None:
            for _ in one.steps():
                if over.is_set():
                    return

    over = threading.Event()
    threads = min(most, len(works))
    pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="aside")
    try:
        await asyncio.gather(
            *(asyncio.get_running_loop().run_in_executor(pool, work) for _ in range(threads))
        )
    finally:
        over.set()
        pool.shutdown()
