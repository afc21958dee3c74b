"""What stands under a simulated node: sockets of the simulated network, a disk that takes its time.

`VirtualPlatform` is `server.net.platform.Platform` for one run of a node: the node's own listener, connection and
outlet run on it unchanged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, cast

from barnabas.errors import StorageError
from barnabas.log.files.sync import Job
from barnabas.server.loop.sync_threads import Stepwise
from barnabas.server.net.platform import Platform
from barnabas.server.net.send_queue import SendQueue
from barnabas.server.node.storage_setup import run_in_steps
from barnabas.sim.cluster.sockets import BoundSocket
from barnabas.sim.kernel.disk import Crashed, MemoryDisk

if TYPE_CHECKING:
    import socket

    from barnabas.model import Endpoint
    from barnabas.ports import Buffer
    from barnabas.server.loop.memory import Account
    from barnabas.server.loop.sync_threads import Syncing
    from barnabas.server.observe.metrics import Histogram
    from barnabas.sim.cluster.loop import VirtualLoop
    from barnabas.sim.cluster.sockets import End, Host
    from barnabas.sim.kernel.clock import NodeClock

__all__ = ["SlowDisk", "VirtualPlatform"]

_SYNCS_AT_ONCE = 4


class SlowDisk(MemoryDisk):
    """A `MemoryDisk` that takes time, and of which a power cut at a chosen step ends a node.

    `stalled_until` (true time): no sync ends before it, and a loop that calls one itself stands still so long.
    """

    def __init__(self, seed: int, clock: NodeClock) -> None:
        super().__init__(seed)
        self.rng = random.Random(f"disk {seed}")
        self.latency = (0.0001, 0.002)
        self.stalled_until = 0.0
        self.on_crash: Callable[[str], None] = lambda where: None
        self.on_stall: Callable[[], None] = lambda: None
        self._clock = clock

    @property
    def wall_ms(self) -> int:
        """What files are stamped with: the node's idea of the time."""
        return self._clock.now().wall_ms

    @wall_ms.setter
    def wall_ms(self, value: int) -> None: ...

    def takes(self, now: float) -> float:
        """Seconds that the next sync takes, asked for now."""
        low, high = self.latency
        seconds = low + (high - low) * self.rng.random()
        return max(seconds, self.stalled_until + seconds - now)

    def step(self, operation: str, path: str) -> None:
        try:
            super().step(operation, path)
        except Crashed as crash:
            self.on_crash(str(crash))
            raise
        if operation == "sync" and self.stalled_until:
            self.on_stall()


class VirtualPlatform(Platform):
    """Sockets and syncs for one run of a node."""

    __slots__ = ("disk", "host", "loop")

    slice_steps = 2  # so that what happens between two slices happens here too
    reads_apart_s = inf  # no decision depends on real time: loop steps end when the loop says so

    def __init__(self, host: Host, loop: VirtualLoop, disk: SlowDisk) -> None:
        self.host = host
        self.loop = loop
        self.disk = disk

    def monotonic(self) -> float:
        return self.loop.time()

    def bind(self, endpoint: Endpoint) -> list[socket.socket]:
        return [cast("socket.socket", BoundSocket(self.host, self.loop, endpoint))]

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
        queue = VirtualSendQueue(
            loop, descriptor, budget, sendfile_from=sendfile_from, on_progress=on_progress, on_error=on_error
        )
        queue.end = self.host.ends(self.loop)[descriptor]
        return queue

    def run_syncs(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.run()

    async def run_aside(self, works: Sequence[Stepwise], most: int) -> None:
        await run_in_steps(works, most)

    def syncer(self, loop: asyncio.AbstractEventLoop, seconds: Histogram) -> Syncing:
        return VirtualSyncer(self, seconds)


class VirtualSendQueue(SendQueue):
    """The real outlet; its system calls go to the simulated kernel."""

    __slots__ = ("end",)
    end: End

    def _write(self, parts: list[Buffer]) -> int:
        return self.end.send(bytes(parts[0]) if len(parts) == 1 else b"".join(parts))

    def _duplicate(self) -> socket.socket:
        return cast("socket.socket", self)

    def sendmsg(self, parts: list[Buffer], *_: Any) -> int:
        return self._write(parts)

    def _watch(self) -> None:
        self.end.watch(self._writable)

    def _unwatch(self) -> None:
        self.end.on_writable = None

    def close(self) -> None:
        self.end.on_writable = None
        super().close()


class VirtualSyncer:
    """`server.loop.sync_threads.Syncer`: a few syncs at a time, each ended by the disk when it is done with it."""

    def __init__(self, platform: VirtualPlatform, seconds: Histogram) -> None:
        self.in_flight = 0
        self.seconds = seconds
        self._platform = platform
        self._free = [0.0] * _SYNCS_AT_ONCE
        """When each thread is done with what it has."""

    def submit(self, job: Job, done: Callable[[Job, StorageError | None], None]) -> None:
        self.in_flight += 1
        loop, disk = self._platform.loop, self._platform.disk
        now = loop.time()
        thread = self._free.index(min(self._free))
        begins = max(now, self._free[thread])
        ends = self._free[thread] = begins + disk.takes(begins)
        loop.host.later(ends - now, self._run, job, done, ends - begins)

    def _run(self, job: Job, done: Callable[[Job, StorageError | None], None], seconds: float) -> None:
        loop, disk = self._platform.loop, self._platform.disk
        if loop.ended:
            return
        if disk.stalled_until > loop.time():  # it began to stall meanwhile
            loop.host.later(disk.stalled_until - loop.time(), self._run, job, done, seconds)
            return
        error: StorageError | None = None
        try:
            job.run()
        except StorageError as failed:
            error = failed
        except Crashed:
            return
        loop.call_soon(self._done, job, done, error, seconds)

    def _done(
        self,
        job: Job,
        done: Callable[[Job, StorageError | None], None],
        error: StorageError | None,
        seconds: float,
    ) -> None:
        self.in_flight -= 1
        self.seconds.observe(seconds)
        done(job, error)

    def stop(self) -> None: ...
