"""A network of hosts in memory, as their kernels present it: ordered streams of bytes, or none.

A cut link loses packets, and TCP sends them again: programs see silence.  When the link is restored, the
delayed bytes arrive in order, or the connection turns out to be reset.  A port without a listener refuses; a
host that is off or cut off does not answer.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from barnabas.sim.cluster.loop import Handle, Scheduler, VirtualLoop
from barnabas.sim.cluster.sockets import RST, End, Host

__all__ = ["Network"]

_SYN_TRIES = 6


class Network:
    """All links between all hosts.  Times in seconds, sizes in bytes."""

    def __init__(self, scheduler: Scheduler, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.rng = rng
        self.hosts: dict[str, Host] = {}
        self.window = 256 * 1024
        self.base = (0.0001, 0.0008)
        self.tail = 0.0
        self.tail_delay = 0.0
        self.slow: dict[str, float] = {}
        """Seconds more to and from a host."""
        self.resets = 0.3
        """Share of the connections over a mended link that turn out to be reset."""
        self.patience = inf
        """Seconds after which a kernel gives up on a connection over a cut link."""
        self.partial = 0.01
        """Share of the sends of which the kernel takes a part only."""
        self.kernel = VirtualLoop.of(scheduler, Host(self, "kernel", "0.0.0.0"), "kernel", on_error=_raise)
        self._cuts: dict[tuple[str, str], int] = {}
        self._holding: dict[tuple[str, str], list[End]] = {}

    def __repr__(self) -> str:
        return f"<Network {len(self.hosts)} hosts, {len(self._cuts)} cuts>"

    @property
    def time(self) -> float:
        return self.scheduler.time

    def host(self, name: str) -> Host:
        """A new machine."""
        number = len(self.hosts) + 1
        host = self.hosts[name] = Host(self, name, f"10.0.{number >> 8}.{number & 255}")
        return host

    def later(self, delay: float, action: Callable[..., object], *args: Any) -> None:
        """Something that no program does, in so many seconds."""
        when = self.scheduler.time + delay
        self.scheduler.add(when, Handle(self.kernel, action, args, None, when))

    def latency(self, source: Host, target: Host) -> float:
        """Seconds that the next packet takes."""
        if source is target:
            return 0.00005
        low, high = self.base
        rng = self.rng
        seconds = low + (high - low) * rng.random()
        if self.slow:
            seconds += self.slow.get(source.name, 0.0) + self.slow.get(target.name, 0.0)
        if self.tail and rng.random() < self.tail:
            seconds += self.tail_delay * rng.random()
        return seconds

    def some_of(self, size: int) -> int:
        """How much of that a kernel takes at once: nearly always all."""
        if size > 1 and self.rng.random() < self.partial:
            return self.rng.randint(1, size - 1)
        return size

    # Cuts.

    def is_cut(self, source: Host, target: Host) -> bool:
        """Whether packets that way are lost."""
        return bool(self._cuts) and (source.name, target.name) in self._cuts

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Lose everything that goes that way, until it is mended as often as it was cut."""
        for pair in pairs:
            self._cuts[pair] = self._cuts.get(pair, 0) + 1

    def mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            count = self._cuts.get(pair, 0)
            if count > 1:
                self._cuts[pair] = count - 1
            elif count:
                del self._cuts[pair]
                self._mended(pair)

    def mend_all(self) -> None:
        """Every link carries."""
        pairs = list(self._cuts)
        self._cuts.clear()
        for pair in pairs:
            self._mended(pair)

    def _mended(self, pair: tuple[str, str]) -> None:
        for end in self._holding.pop(pair, []):
            wait = self.rng.uniform(0.0, 0.3)
            if self.rng.random() < self.resets:
                self.later(wait, self._reset, end)
            else:
                self.later(wait, end.mended)
        for loop in self.loops(pair[0]):
            for end in self.hosts[pair[0]].ends(loop).values():
                if end.peer.host.name == pair[1]:
                    end.send_acknowledgements()

    def loops(self, host: str) -> list[VirtualLoop]:
        """The loops whose sockets are on that host."""
        return [loop for loop in self.hosts[host].loops if not loop.ended]

    def holds(self, end: End) -> None:
        """That end has something to say that is lost."""
        self._holding.setdefault((end.host.name, end.peer.host.name), []).append(end)
        if self.patience < inf:
            self.later(self.patience, end.given_up)

    def _reset(self, end: End) -> None:
        end.held.clear()
        for one in (end, end.peer):
            if not one.closed:
                one.take(RST)

    def reset(self, host: str) -> None:
        """The connections of a host break, and everybody sees it."""
        for loop in self.loops(host):
            for end in list(self.hosts[host].ends(loop).values()):
                self._reset(end)

    # Connecting.

    async def dial(self, source: Host, loop: VirtualLoop, name: str, port: int) -> End:
        """Connect.  Raises OSError."""
        target = self.hosts.get(name)
        if target is None:  # a number: a node tells a client the one that it dialled
            target = next((host for host in self.hosts.values() if host.address == name), None)
        if target is None:
            raise socket.gaierror(socket.EAI_NONAME, f"{name}: Name or service not known")
        future: asyncio.Future[End] = loop.create_future()
        self._try(source, loop, target, port, future, 0)
        return await future

    def _try(
        self,
        source: Host,
        loop: VirtualLoop,
        target: Host,
        port: int,
        future: asyncio.Future[End],
        tries: int,
    ) -> None:
        if future.done() or loop.ended:
            return
        if self.is_cut(source, target) or self.is_cut(target, source) or not target.powered:
            if tries == _SYN_TRIES:
                loop.call_soon(_fail, future, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            else:
                self.later(1.0 * 2**tries, self._try, source, loop, target, port, future, tries + 1)
            return
        self.later(self.latency(source, target), self._asked, source, loop, target, port, future, tries)

    def _asked(
        self,
        source: Host,
        loop: VirtualLoop,
        target: Host,
        port: int,
        future: asyncio.Future[End],
        tries: int,
    ) -> None:
        if loop.ended:
            return
        back = self.latency(target, source)
        if not target.powered or self.is_cut(target, source):
            self.later(1.0, self._try, source, loop, target, port, future, tries + 1)
            return
        bound = target.ports.get(port)
        if bound is None or bound.factory is None:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            self.later(back, lambda: loop.call_soon(_fail, future, refused))
            return
        near, far = End(source, loop, source.new_port()), End(target, bound.loop, port)
        near.peer, far.peer = far, near
        near.arrival = self.time + back
        bound.loop.call_soon(bound.accept, far)
        self.later(back, lambda: loop.call_soon(_connected, future, near))


def _raise(error: BaseException, handle: object) -> None:
    raise error


def _fail(future: asyncio.Future[End], error: OSError) -> None:
    if not future.done():
        future.set_exception(error)


def _connected(future: asyncio.Future[End], end: End) -> None:
    if future.done():
        end.close_socket()
    else:
        future.set_result(end)
