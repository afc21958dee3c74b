"""The threads that call fsync, so that the loop never does.

A few plain threads and a queue: half the cost per sync of an executor's futures.  The broker hands out at
most one sync per log at a time, so the queue is never longer than there are logs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from time import monotonic
from typing import Protocol

from barnabas.errors import StorageError
from barnabas.server.metrics import Histogram

__all__ = ["SyncJob", "Syncer", "run_together"]

_TOGETHER = 32


class SyncJob(Protocol):
    """Work for a thread."""

    def run(self) -> None:
        """Make it durable.  Raises StorageError."""
        ...


class Syncer:
    """`submit(job, done)`: run `job.run()` in a thread, then `done(job, error)` in the loop."""

    __slots__ = ("_idle", "_loop", "_most", "_queue", "_threads", "in_flight", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: Histogram, most: int = 4) -> None:
        self._loop = loop
        self._most = most
        self._queue: SimpleQueue[tuple[SyncJob, Callable[[SyncJob, StorageError | None], None]] | None]
        self._queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.in_flight = 0
        self.seconds = seconds

    def submit(self, job: SyncJob, done: Callable[[SyncJob, StorageError | None], None]) -> None:
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
            begun = monotonic()
            try:
                job.run()
            except StorageError as failed:
                error = failed
            except Exception as failed:
                error = StorageError(f"a sync failed in a way nobody foresaw: {failed!r}", fatal=True)
            try:
                self._loop.call_soon_threadsafe(self._done, job, done, error, monotonic() - begun)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _done(
        self,
        job: SyncJob,
        done: Callable[[SyncJob, StorageError | None], None],
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


def run_together(jobs: Sequence[SyncJob]) -> None:
    """Run all of them in threads; returns when all have ended.  Raises the first StorageError.

    The file system writes its journal once for many syncs that wait at the same time.
    """
    if len(jobs) < 2:
        for job in jobs:
            job.run()
        return
    with ThreadPoolExecutor(min(_TOGETHER, len(jobs)), thread_name_prefix="last-sync") as pool:
        ended = [pool.submit(job.run) for job in jobs]
    for one in ended:
        one.result()
