"""A network of hosts in memory, as their kernels present it: ordered streams of bytes, or none.

A cut link loses packets, and TCP sends them again: programs see silence.  When the link is restored, the
delayed bytes arrive in order, or the connection turns out to be reset.  A process that dies closes its
sockets (its kernel lives). A host that loses its power closes nothing, and answers with a reset once it is
back.  A port without a listener refuses; a host that is off or cut off does not answer.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any

from barnabas.errors import ConfigError
from barnabas.sim.cluster.loop import Handle, Scheduler, VirtualLoop

if TYPE_CHECKING:
    from barnabas.model import Endpoint

__all__ = ["BoundSocket", "End", "Host", "Network"]

_FIN, _RST = "FIN", "RST"
_MOST_AT_ONCE = 256 * 1024
"""Bytes that a plain protocol is handed at a time."""
_SYN_TRIES = 6
Packet = bytes | str


class Host:
    """A machine: its name, its ports, whether it has power."""

    def __init__(self, network: Network, name: str, address: str) -> None:
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
        self._next_port = 40_000
        self._free: list[int] = []
        self._descriptors = 10

    def __repr__(self) -> str:
        return f"<Host {self.name} {'' if self.powered else 'off '}ports={list(self.ports)}>"

    def later(self, delay: float, action: Callable[..., object], *args: Any) -> None:
        """The kernel does something in so many seconds, whatever the programs do."""
        self.network.later(delay, action, *args)

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

    def process_died(self, ends: Iterable[End]) -> None:
        """The kernel closes what a process had open."""
        self.ports.clear()
        for end in list(ends):
            end.close_socket()

    def power_lost(self, ends: Iterable[End]) -> None:
        """Nobody is told of anything."""
        self.powered = False
        self.ports.clear()
        for end in list(ends):
            end.gone = end.closed = True
            end.incoming.clear()

    def power_back(self) -> None:
        """The kernel runs again: who sends to what there is no more is told so."""
        self.powered = True
        orphans, self.orphans = self.orphans, []
        for end in orphans:
            end.refuse()


class BoundSocket:
    """A port that a program has taken (`socket.socket` as far as the listener uses it)."""

    def __init__(self, loop: VirtualLoop, endpoint: Endpoint) -> None:
        host = loop.host
        self.loop = loop
        self.port = endpoint.port or host.new_port()
        if self.port in host.ports:
            raise ConfigError(f"{endpoint}: port {self.port} is taken by another process")
        host.ports[self.port] = self
        self.factory: Callable[[], Any] | None = None

    def __repr__(self) -> str:
        return f"<BoundSocket {self.loop.host.name}:{self.port}{' listens' if self.factory else ''}>"

    def getsockname(self) -> tuple[str, int]:
        return self.loop.host.address, self.port

    def setsockopt(self, *_: object) -> None: ...

    def listen(self, factory: Callable[[], Any]) -> BoundSocket:
        """Take connections (what `create_server` gives back)."""
        self.factory = factory
        return self

    def close(self) -> None:
        """Take no more."""
        self.factory = None
        if self.loop.host.ports.get(self.port) is self:
            del self.loop.host.ports[self.port]

    def accept(self, end: End) -> None:
        """In the program: a connection came."""
        if self.factory is None:
            end.close_socket()
        else:
            end.made(self.factory())


class End:
    """One end of a connection, in the kernel of one machine."""

    __slots__ = (
        "_arrival",
        "_scheduled",
        "_unacknowledged",
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

    def __init__(self, loop: VirtualLoop, port: int) -> None:
        self.loop = loop
        self.host = loop.host
        self.network = loop.host.network
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
        self._arrival = 0.0
        self._scheduled = False
        self._unacknowledged = 0
        loop.ends[self.descriptor] = self

    def __repr__(self) -> str:
        return f"<End {self.host.name}:{self.port}{' closed' if self.closed else ''}>"

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
            self._carry(_RST if unread else _FIN)
        self.forget()

    def forget(self) -> None:
        """The program has let go of it."""
        if self.loop.ends.get(self.descriptor) is self:
            del self.loop.ends[self.descriptor]
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
        if first == _FIN:
            incoming.popleft()
            transport.end_of_stream()
        elif first == _RST:
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
        self._arrival = arrival = max(arrival, self._arrival)
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
            if packet == _RST:
                self.incoming.clear()
            self.incoming.append(packet)
            self.wake()

    def refuse(self) -> None:
        """The other side's kernel knows nothing of this connection."""
        network = self.network
        if not self.closed and not network.is_cut(self.peer.host, self.host):
            network.later(network.latency(self.peer.host, self.host), self.take, _RST)

    def mended(self) -> None:
        """The link carries again: what was lost comes through."""
        if self.network.is_cut(self.host, self.peer.host):
            self.network.holds(self)
            return
        self._send_acknowledgements()
        held, self.held = self.held, deque()
        for packet in held:
            self.peer.take(packet)

    def _send_acknowledgements(self) -> None:
        if self._unacknowledged:
            size, self._unacknowledged = self._unacknowledged, 0
            self.peer.acknowledged(size)

    def given_up(self) -> None:
        """Sent again often enough."""
        if self.held and not self.closed and self.network.is_cut(self.host, self.peer.host):
            self.held.clear()
            self.take(_RST)


class VirtualTransport(asyncio.Transport):
    """What a protocol sees of its end."""

    def __init__(self, end: End, protocol: Any) -> None:
        self.end = end
        self.paused = False
        self.closing = False
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._unsent = bytearray()
        self._told_to_wait = False
        self._eof_after = False

    def __repr__(self) -> str:
        return f"<VirtualTransport {self.end!r}>"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        end = self.end
        if name == "peername":
            return end.peer.host.address, end.peer.port
        if name == "sockname":
            return end.host.address, end.port
        return self if name == "socket" else default

    def fileno(self) -> int:
        """(It is its own socket.)"""
        return self.end.descriptor

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    # Reading.

    def is_reading(self) -> bool:
        return not self.paused and not self.closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        self.end.wake()

    def receive(self, incoming: deque[Packet]) -> None:
        """Hand on what has come, as much as one read takes."""
        if self._buffered:
            room = self._protocol.get_buffer(-1)
            most = len(room)
            data = _up_to(incoming, most)
            room[: len(data)] = data
            self.end.taken(len(data))
            self._protocol.buffer_updated(len(data))
        else:
            data = _up_to(incoming, _MOST_AT_ONCE)
            self.end.taken(len(data))
            self._protocol.data_received(data)

    def end_of_stream(self) -> None:
        if not self._protocol.eof_received():
            self.close()

    # Writing.

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def write(self, data: Any) -> None:
        if self.closing or not data:
            return
        if not self._unsent:
            try:
                sent = self.end.send(bytes(data))
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.lost(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self.end.watch(self._writable)
        self._unsent += data
        if len(self._unsent) > 64 * 1024 and not self._told_to_wait:
            self._told_to_wait = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def _writable(self) -> None:
        try:
            sent = self.end.send(bytes(self._unsent))
        except BlockingIOError:
            return
        except OSError as error:
            self.lost(error)
            return
        del self._unsent[:sent]
        if self._told_to_wait and len(self._unsent) < 16 * 1024:
            self._told_to_wait = False
            self._protocol.resume_writing()
        if not self._unsent:
            self.end.on_writable = None
            if self.closing:
                self.end.loop.call_soon(self._over, None)

    # Ending.

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            if not self._unsent:
                self.end.loop.call_soon(self._over, None)

    def abort(self) -> None:
        self._end_with(None)

    def lost(self, error: Exception) -> None:
        """The connection broke."""
        self._end_with(error)

    def _end_with(self, error: Exception | None) -> None:
        if self._unsent or not self.closing:
            self._unsent.clear()
            self.closing = True
            self.end.on_writable = None
            self.end.loop.call_soon(self._over, error)

    def _over(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self.end.close_socket()


def _up_to(incoming: deque[Packet], most: int) -> bytes:
    """Take up to so many bytes of what has come."""
    taken: list[bytes] = []
    while incoming and most > 0:
        first = incoming[0]
        if not isinstance(first, bytes):
            break
        if len(first) > most:
            taken.append(first[:most])
            incoming[0] = first[most:]
            break
        taken.append(first)
        most -= len(first)
        incoming.popleft()
    return taken[0] if len(taken) == 1 else b"".join(taken)


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
            for end in loop.ends.values():
                if end.peer.host.name == pair[1]:
                    end._send_acknowledgements()

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
                one.take(_RST)

    def reset(self, host: str) -> None:
        """The connections of a host break, and everybody sees it."""
        for loop in self.loops(host):
            for end in list(loop.ends.values()):
                self._reset(end)

    # Connecting.

    async def dial(self, loop: VirtualLoop, name: str, port: int) -> End:
        """Connect.  Raises OSError."""
        target = self.hosts.get(name)
        if target is None:  # a number: a node tells a client the one that it dialled
            target = next((host for host in self.hosts.values() if host.address == name), None)
        if target is None:
            raise socket.gaierror(socket.EAI_NONAME, f"{name}: Name or service not known")
        future: asyncio.Future[End] = loop.create_future()
        self._try(loop, target, port, future, 0)
        return await future

    def _try(
        self, loop: VirtualLoop, target: Host, port: int, future: asyncio.Future[End], tries: int
    ) -> None:
        if future.done() or loop.ended:
            return
        source = loop.host
        if self.is_cut(source, target) or self.is_cut(target, source) or not target.powered:
            if tries == _SYN_TRIES:
                loop.call_soon(_fail, future, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            else:
                self.later(1.0 * 2**tries, self._try, loop, target, port, future, tries + 1)
            return
        self.later(self.latency(source, target), self._asked, loop, target, port, future, tries)

    def _asked(
        self, loop: VirtualLoop, target: Host, port: int, future: asyncio.Future[End], tries: int
    ) -> None:
        if loop.ended:
            return
        source = loop.host
        back = self.latency(target, source)
        if not target.powered or self.is_cut(target, source):
            self.later(1.0, self._try, loop, target, port, future, tries + 1)
            return
        bound = target.ports.get(port)
        if bound is None or bound.factory is None:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            self.later(back, lambda: loop.call_soon(_fail, future, refused))
            return
        near, far = End(loop, source.new_port()), End(bound.loop, port)
        near.peer, far.peer = far, near
        near._arrival = self.time + back
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
