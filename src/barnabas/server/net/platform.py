"""The platform of a node besides the four interfaces of `ports`: listening sockets, the send queue of a
connection, threads that wait for disks, and the time that passes within a loop step.

There is one for real machines, and one with several nodes in one thread and virtual time (`sim.cluster`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from time import monotonic

from barnabas.config import Config
from barnabas.log.files.sync import Job
from barnabas.model import Endpoint
from barnabas.ports import Clock, Randomness
from barnabas.server.loop.memory import Account
from barnabas.server.loop.runtime import Runtime
from barnabas.server.loop.sync_threads import Stepwise, Syncer, Syncing, run_aside, run_together
from barnabas.server.net.bind import bind
from barnabas.server.net.send_queue import SendQueue
from barnabas.server.observe.metrics import Histogram

__all__ = ["Platform"]


class Platform:
    """The real one."""

    __slots__ = ()

    slice_steps = 1 << 30
    """Steps of applying metadata in a loop step, whatever time they take (`replication.applier`)."""
    reads_apart_s = 15e-6
    """A read that begins sooner (seconds) after the end of a loop step has waited for it (`loop.loop_step`)."""

    def monotonic(self) -> float:
        """Seconds, for decisions inside a loop step; where time is virtual it stands still there."""
        return monotonic()

    def runtime(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        random: Randomness,
        on_fatal: Callable[[Exception], None],
    ) -> Runtime:
        """What all parts of a node work with; `on_fatal` hears of an error after which it must stop."""
        return Runtime(
            config,
            loop,
            clock,
            random,
            syncer=self.syncer,
            on_fatal=on_fatal,
            reads_apart_s=self.reads_apart_s,
        )

    def bind(self, endpoint: Endpoint) -> list[socket.socket]:
        """Sockets bound to `endpoint` (not listening yet).  Raises ConfigError with the next step."""
        return bind(endpoint)

    def send_queue(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        budget: Account,
        *,
        sendfile_from: int,
        on_progress: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> SendQueue:
        """What sends through this socket."""
        return SendQueue(
            loop,
            descriptor,
            budget,
            sendfile_from=sendfile_from,
            on_progress=on_progress,
            on_error=on_error,
        )

    def syncer(self, loop: asyncio.AbstractEventLoop, seconds: Histogram) -> Syncing:
        """Threads for fsync."""
        return Syncer(loop, seconds)

    def run_syncs(self, jobs: Sequence[Job]) -> None:
        """Run them in threads, waiting: a disk takes many syncs at once.  Raises the first StorageError."""
        run_together(jobs)

    async def run_aside(self, works: Sequence[Stepwise], most: int) -> None:
        """Do them in at most so many threads, while the loop goes on."""
        await run_aside(works, most)
