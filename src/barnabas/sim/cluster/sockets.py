"""The sockets of a simulated host, as its kernel keeps them: ports, connections, and what is on its way.

A process that dies closes its sockets (its kernel lives).  A host that loses its power closes nothing, and
answers with a reset once it is back.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from typing import Any, Protocol

from barnabas.errors import ConfigError
from barnabas.model import Endpoint
from barnabas.sim.cluster.loop import VirtualLoop
from barnabas.sim.cluster.transport import Packet, VirtualTransport

__all__ = ["RST", "BoundSocket", "End", "Host"]

FIN, RST = "FIN", "RST"


class Links(Protocol):
    """The network, as far as a kernel needs it."""

    window: int

    @property
    def time(self) -> float: ...
    def later(self, delay: float, action: Callable[..., object], *args: Any) -> None: ...
    def latency(self, source: Host, target: Host) -> float: ...
    def some_of(self, size: int) -> int: ...
    def is_cut(self, source: Host, target: Host) -> bool: ...
    def holds(self, end: End) -> None: ...
    def dial(self, source: Host, loop: VirtualLoop, name: str, port: int) -> Awaitable[End]: ...


class Host:
    """A machine: its name, its ports, whether it has power."""

    def __init__(self, network: Links, name: str, address: str) -> None:
        self.network = network
        self.name = name
        self.address = address
        self.powered = True
        self.ports: dict[int, BoundSocket] = {}
        self.loops: list[VirtualLoop] = []
        """The programs that run or ran here."""
        self.orphans: list[End] = []
        """Who still sends to a connection that a power cut has ended here."""
        self.on_task_error: Callable[[BaseException, str], None] = lambda error, text: None
        self._sockets: dict[VirtualLoop, dict[int, End]] = {}
        self._next_port = 40_000
        self._free: list[int] = []
        self._descriptors = 10

    def __repr__(self) -> str:
        return f"<Host {self.name} {'' if self.powered else 'off '}ports={list(self.ports)}>"

    def later(self, delay: float, action: Callable[..., object], *args: Any) -> None:
        """The kernel does something in so many seconds, whatever the programs do."""
        self.network.later(delay, action, *args)

    def dial(self, loop: VirtualLoop, name: str, port: int) -> Awaitable[End]:
        """A program here connects.  Raises OSError."""
        return self.network.dial(self, loop, name, port)

    def ends(self, loop: VirtualLoop) -> dict[int, End]:
        """The connections of a program here, by descriptor."""
        return self._sockets.setdefault(loop, {})

    def heard_of(self, error: BaseException, text: str) -> None:
        """A task or future of a program here failed, and nobody asked for it."""
        self.on_task_error(error, text)

    def new_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def descriptor(self) -> int:
        """The lowest one that is free, as a kernel gives them out."""
        if self._free:
            return heappop(self._free)
        self._descriptors += 1
        return self._descriptors

    def release(self, descriptor: int) -> None:
        heappush(self._free, descriptor)

    def process_died(self, loop: VirtualLoop) -> None:
        """The kernel closes what a process had open."""
        self.ports.clear()
        for end in list(self.ends(loop).values()):
            end.close_socket()

    def power_lost(self, loop: VirtualLoop | None) -> None:
        """Nobody is told of anything."""
        self.powered = False
        self.ports.clear()
        for end in () if loop is None else self.ends(loop).values():
            end.gone = end.closed = True
            end.incoming.clear()

    def power_back(self) -> None:
        """The kernel runs again: whoever sends to a connection that is gone is told so."""
        self.powered = True
        orphans, self.orphans = self.orphans, []
        for end in orphans:
            end.refuse()


class BoundSocket:
    """A port that a program has taken (`socket.socket` as far as the listener uses it)."""

    def __init__(self, host: Host, loop: VirtualLoop, endpoint: Endpoint) -> None:
        self.host = host
        self.loop = loop
        self.port = endpoint.port or host.new_port()
        if self.port in host.ports:
            raise ConfigError(f"{endpoint}: port {self.port} is taken by another process")
        host.ports[self.port] = self
        self.factory: Callable[[], Any] | None = None

    def __repr__(self) -> str:
        return f"<BoundSocket {self.host.name}:{self.port}{' listens' if self.factory else ''}>"

    def getsockname(self) -> tuple[str, int]:
        return self.host.address, self.port

    def setsockopt(self, *_: object) -> None: ...

    def listen(self, factory: Callable[[], Any]) -> BoundSocket:
        """Take connections (what `create_server` gives back)."""
        self.factory = factory
        return self

    def close(self) -> None:
        """Take no more."""
        self.factory = None
        if self.host.ports.get(self.port) is self:
            del self.host.ports[self.port]

    def accept(self, end: End) -> None:
        """In the program: a connection came."""
        if self.factory is None:
            end.close_socket()
        else:
            end.made(self.factory())


class End:
    """One end of a connection, in the kernel of one machine."""

    __slots__ = (
        "_scheduled",
        "_unacknowledged",
        "arrival",
        "closed",
        "descriptor",
        "flight",
        "gone",
        "held",
        "host",
        "incoming",
        "loop",
        "network",
        "on_writable",
        "peer",
        "port",
        "transport",
    )

    def __init__(self, host: Host, loop: VirtualLoop, port: int) -> None:
        self.loop = loop
        self.host = host
        self.network = host.network
        self.port = port
        self.peer: End
        self.transport: VirtualTransport | None = None
        self.incoming: deque[Packet] = deque()
        self.held: deque[Packet] = deque()
        """What the network lost and the kernel sends again and again."""
        self.flight = 0
        """Bytes sent that the other side's program has not taken yet."""
        self.closed = False
        """The program has closed it."""
        self.gone = False
        """The machine forgot it."""
        self.on_writable: Callable[[], None] | None = None
        self.descriptor = self.host.descriptor()
        self.arrival = 0.0
        """When the packet that was sent last arrives."""
        self._scheduled = False
        self._unacknowledged = 0
        host.ends(loop)[self.descriptor] = self

    def __repr__(self) -> str:
        return f"<End {self.host.name}:{self.port}{' closed' if self.closed else ''}>"

    @property
    def address(self) -> tuple[str, int]:
        return self.host.address, self.port

    @property
    def peer_address(self) -> tuple[str, int]:
        return self.peer.host.address, self.peer.port

    # The program's side.

    def made(self, protocol: Any) -> VirtualTransport:
        """The program has it: from now on `protocol` is told."""
        self.transport = VirtualTransport(self, protocol)
        protocol.connection_made(self.transport)
        self.wake()
        return self.transport

    def send(self, data: bytes) -> int:
        """Bytes that the kernel takes.  Raises BlockingIOError where it takes none."""
        if self.closed:
            raise BrokenPipeError(errno.EPIPE, "InvariantViolation pipe")
        room = self.network.window - self.flight
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        room = self.network.some_of(min(room, len(data)))
        if room < len(data):
            data = data[:room]
        self.flight += len(data)
        self._carry(data)
        return len(data)

    def close_socket(self) -> None:
        """close(2): the other side reads to the end, or is reset where this one did not read all."""
        if not self.closed:
            self.closed = True
            unread = any(isinstance(packet, bytes) for packet in self.incoming)
            self.incoming.clear()
            self._carry(RST if unread else FIN)
        self.forget()

    def forget(self) -> None:
        """The program has let go of it."""
        ends = self.host.ends(self.loop)
        if ends.get(self.descriptor) is self:
            del ends[self.descriptor]
            self.host.release(self.descriptor)

    def wake(self) -> None:
        """Have the program look, if something is there for it."""
        transport = self.transport
        if transport is None or self._scheduled or not self.incoming or self.closed or transport.paused:
            return
        self._scheduled = True
        self.loop.call_soon(self._readable)

    def _readable(self) -> None:
        self._scheduled = False
        transport, incoming = self.transport, self.incoming
        if transport is None or not incoming or self.closed or transport.paused or transport.closing:
            return
        first = incoming[0]
        if first == FIN:
            incoming.popleft()
            transport.end_of_stream()
        elif first == RST:
            incoming.popleft()
            transport.lost(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        else:
            transport.receive(incoming)
            self.wake()

    def taken(self, size: int) -> None:
        """The program has read so many bytes: there is room for more of the other side's."""
        if self.network.is_cut(self.host, self.peer.host):
            self._unacknowledged += size
        else:
            self.peer.acknowledged(size)

    def acknowledged(self, size: int) -> None:
        self.flight -= size
        if self.on_writable is not None:
            self.loop.call_soon(self._writable)

    def watch(self, action: Callable[[], None]) -> None:
        """Have that called when there is room."""
        self.on_writable = action
        if self.flight < self.network.window:
            self.loop.call_soon(self._writable)

    def _writable(self) -> None:
        if self.on_writable is not None and not self.closed and self.flight < self.network.window:
            self.on_writable()
            if self.on_writable is not None and self.flight < self.network.window:
                self.loop.call_soon(self._writable)

    # The network's side.

    def _carry(self, packet: Packet) -> None:
        network = self.network
        arrival = network.time + network.latency(self.host, self.peer.host)
        self.arrival = arrival = max(arrival, self.arrival)
        network.later(arrival - network.time, self._arrive, packet)

    def _arrive(self, packet: Packet) -> None:
        if self.held or self.network.is_cut(self.host, self.peer.host):
            if not self.held:
                self.network.holds(self)
            self.held.append(packet)
        else:
            self.peer.take(packet)

    def take(self, packet: Packet) -> None:
        """A packet came."""
        if self.gone:
            if self.host.powered:
                self.peer.refuse()
            else:
                self.host.orphans.append(self.peer)
        elif self.closed:
            if isinstance(packet, bytes):
                self.peer.refuse()
        else:
            if packet == RST:
                self.incoming.clear()
            self.incoming.append(packet)
            self.wake()

    def refuse(self) -> None:
        """The other side's kernel knows nothing of this connection."""
        network = self.network
        if not self.closed and not network.is_cut(self.peer.host, self.host):
            network.later(network.latency(self.peer.host, self.host), self.take, RST)

    def mended(self) -> None:
        """The link carries again: what was lost comes through."""
        if self.network.is_cut(self.host, self.peer.host):
            self.network.holds(self)
            return
        self.send_acknowledgements()
        held, self.held = self.held, deque()
        for packet in held:
            self.peer.take(packet)

    def send_acknowledgements(self) -> None:
        if self._unacknowledged:
            size, self._unacknowledged = self._unacknowledged, 0
            self.peer.acknowledged(size)

    def given_up(self) -> None:
        """Sent again often enough."""
        if self.held and not self.closed and self.network.is_cut(self.host, self.peer.host):
            self.held.clear()
            self.take(RST)
