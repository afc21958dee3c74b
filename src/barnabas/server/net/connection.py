"""One client connection: frames in, answers out, in the order of the requests.

In: the bytes of this loop step are in the shared receive_buffer.  The connection handles whole frames in place, as
many as its share of the step allows, and the rest in the next step.  `receiving` keeps the beginning of an
incomplete frame.

Out: an unanswered request has a `Slot` in the queue.  When the first one is done, it and the done ones after it
are encoded, and they leave together at the end of the loop step (a small one that is alone, at once).

The connection stops reading while its queue is full, while the peer does not take its answers, or while the
node's memory for clients is used up and this connection holds more than its share of it.  Bytes received
before wait.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from struct import Struct
from time import monotonic
from typing import Any, Protocol, cast

from barnabas.errors import ShortFileError, StorageError, WireError
from barnabas.model import Now
from barnabas.server.loop.memory import MemoryBudget
from barnabas.server.net.bind import unpace
from barnabas.server.net.context import Client, RequestContext
from barnabas.server.net.frame_reader import MUCH_BYTES, Receiving
from barnabas.server.net.network import Network
from barnabas.server.net.route import Route
from barnabas.server.net.send_queue import SendQueue
from barnabas.server.net.slot import FetchesIn, Place, ProducesIn, Slot
from barnabas.server.net.throttle import Throttle
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Counter
from barnabas.wire.frame import write_response
from barnabas.wire.plane.fetch_told import FetchAnswer, write_fetch_answer

__all__ = ["Acceptor", "Connection", "TakeFrame"]

_LENGTH = Struct(">i")
SHARE_OF_STEP_S = 0.0015
"""How long (seconds) one connection's requests are served before others have their turn."""
SENT_AT_ONCE_BYTES = 512 * 1024
"""Answers of more bytes do not wait for the end of the loop step: what the peer does not take is counted."""


class Acceptor(Protocol):
    """The listener of a connection."""

    name: str
    kind: str
    advertised: bool
    memory: MemoryBudget
    bytes_in: Counter
    malformed: Counter

    def opened(self, connection: Connection) -> None:
        """A new connection is there."""
        ...

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""
        ...


TakeFrame = Callable[["Connection", memoryview, int, int, int, float], tuple[int, bool]]
"""Serves the frame data[begin:end] and maybe whole ones behind it; given data, begin, end, total, and time.

Returns where the last of them ends, and whether their bytes must stay untouched until the end of the step."""


class Connection(asyncio.BufferedProtocol):
    """See the module.  Made by `listener`, one for each socket; `take` serves its frames."""

    __slots__ = (
        "_closing",
        "_dirty",
        "_network",
        "_paused",
        "_receiving",
        "_stopping",
        "_take",
        "_transport",
        "_unmute",
        "_waits_for_memory",
        "_yields",
        "client",
        "fetches",
        "id",
        "last_active",
        "line",
        "listener",
        "max_frame",
        "more",
        "produces",
        "send_queue",
    )

    def __init__(self, network: Network, listener: Acceptor, take: TakeFrame, connection_id: int) -> None:
        self._network = network
        self._take = take
        self.listener = listener
        self.id = connection_id
        self.client = Client(connection_id, listener.name, listener.kind, listener.advertised, self.close)
        self.last_active = monotonic()
        self.max_frame = network.limits.max_request
        self.send_queue: SendQueue = cast("SendQueue", None)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.line: deque[Place] = deque()
        self.more = 0
        """Unanswered requests beyond one for each place in the line."""
        self.produces: ProducesIn | None = None
        self.fetches: FetchesIn | None = None
        """The ways in for its requests to produce and to fetch; None before the first."""
        self.client.principal_changed = self.forget_doors
        self._receiving: Receiving = cast("Receiving", None)
        self._closing = False
        self._dirty = False
        self._paused = False
        self._stopping = False
        self._unmute: asyncio.TimerHandle | None = None
        """While a quota keeps it from reading: what ends that."""
        self._waits_for_memory = False
        self._yields = False
        """Whether it had its share of this loop step, and goes on in the next."""

    # -- asyncio's calls --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        client, network = self.client, self._network
        if peer:
            client.host, client.port = peer[0], peer[1]
        if local:
            client.local_host, client.local_port = local[0], local[1]
        if peer and local and peer[0] == local[0]:
            unpace(transport.get_extra_info("socket"))
        account = self.listener.memory.account(self.id, client.host, self._memory_back, self.abort)
        self._receiving = Receiving(network.receive_buffer, account)
        tls = transport.get_extra_info("tls_session")
        make_queue = network.platform.send_queue if tls is None else tls.send_queue
        self.send_queue = make_queue(
            network.loop,
            transport.get_extra_info("socket").fileno(),
            account,
            sendfile_from=network.limits.sendfile_from,
            on_progress=self._sent_some,
            on_error=self._send_failed,
        )
        self.listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.send_queue is not None:
            self.send_queue.close()
        self._closing = True
        if self._receiving is not None:
            self._receiving.drop()
            self._receiving.account.close()
        if self._unmute is not None:
            self._unmute.cancel()
        slots, self.line = self.line, deque()
        for slot in slots:
            slot.cancel()
        if slots:
            self._network.step.soon()  # nobody needs to wait for this client any more
        self.listener.closed(self)

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiving.room()

    def buffer_updated(self, nbytes: int) -> None:
        receiving, network, listener = self._receiving, self._network, self.listener
        self.last_active = monotonic()
        listener.bytes_in.value += nbytes
        if receiving.buffer is not None:
            self._fill_buffer(nbytes)
        else:
            receive_buffer = network.receive_buffer
            lent, total = receive_buffer.lent, nbytes
            if rest := receiving.rest:
                total += len(rest)
                receiving.set_rest(b"")
            used, keep = self._take_frames(lent, total)
            if used and (receiving.large or receiving.account.received):
                receiving.took()
            if used < total and not self._closing:
                receiving.keep(lent[used:total])
            if keep:
                receive_buffer.keep(used)
        if (served := self._end_of_read()) is not None:
            network.step.end_of_read(self, self.last_active, served)
        if nbytes >= MUCH_BYTES and receiving.had_its_share(network.platform.monotonic(), SHARE_OF_STEP_S):
            self._yields = True
        if not self._paused and not self._closing:
            limits, memory = network.limits, listener.memory
            if receiving.buffer is not None and receiving.full:
                self._wait_for_memory()
            elif self._yields:
                self._pause()
                self.look_again()
            elif (
                len(self.line) + self.more >= limits.max_pipelined  # (`_line_is_full`, without a call)
                or self.send_queue.pending > limits.max_unsent
            ):
                self._pause()
            elif (
                memory.used >= memory.open_to_all and receiving.buffer is None and receiving.account.exhausted
            ):
                self._wait_for_memory()  # (a buffer of its own is counted already)

    # -- frames --

    def _end_of_read(self) -> Now | None:
        """Every frame of one read was handed on.  Returns when they were served if the loop step must end because
        of them."""
        served = None if self.produces is None else self.produces.end_of_read()
        if self.fetches is not None and (ends := self.fetches.end_of_read()) is not None:
            served = ends
        return served

    def forget_doors(self) -> None:
        """The client is somebody else from now on, or has to log in anew: what it sends is looked at anew."""
        if self._end_of_read() is not None:
            self._network.step.soon()
        self.produces = self.fetches = None

    def _take_frames(self, data: memoryview, total: int) -> tuple[int, bool]:
        """Hand on the whole frames of data[:total]; returns the bytes used and whether they must stay."""
        position, keep, until = 0, False, 0.0
        serve, received, most = self._take, self.last_active, self.max_frame
        clock = self._network.platform.monotonic
        self._yields = False
        while total - position >= 4:
            size = _LENGTH.unpack_from(data, position)[0]
            if not 0 < size <= most:
                self._refuse_frame(bytes(data[position : min(total, position + 64)]), size)
                return total, keep
            end = position + 4 + size
            busy = self.line or self.send_queue.pending
            if end > total or self._unmute is not None or (busy and self._line_is_full()):
                break
            if not until and total - end >= 4:
                until = clock() + SHARE_OF_STEP_S
            position, kept = serve(self, data, position + 4, end, total, received)
            keep |= kept
            if self._closing:
                return total, keep
            if until and total - position >= 4 and clock() > until:
                self._yields = True
                break
        return position, keep

    def _fill_buffer(self, nbytes: int) -> None:
        """`nbytes` more of a large frame arrived in its buffer."""
        receiving = self._receiving
        if not receiving.fill(nbytes):
            if receiving.full and not receiving.grow():
                self._wait_for_memory()
            return
        buffer, size = receiving.whole()
        _, keep = self._take(self, buffer, 0, size, size, self.last_active)
        receiving.done(buffer, keep)

    def _refuse_frame(self, head: bytes, size: int) -> None:
        """The length in front of a frame is none: say what it looks like, and hang up."""
        client = f"{self.client.host}:{self.client.port}"
        tls, http = head[:2] == b"\x16\x03", head.split(b" ")[0] in _HTTP
        if tls or http:
            looks_like = "TLS" if tls else "HTTP"
            events.emit(
                events.FOREIGN_PROTOCOL,
                reason=looks_like,
                client=client,
                looks_like=looks_like,
                listener=self.listener.name,
            )
            if http:
                self.send_queue.add([_NOT_HTTP], len(_NOT_HTTP))
        elif size <= 0:
            events.emit(events.FRAME_NEGATIVE, reason="", client=client, length=size)
        else:
            events.emit(events.FRAME_TOO_LARGE, reason="", client=client, length=size, limit=self.max_frame)
        self.listener.malformed.value += 1
        self.close()

    # -- answers --

    def expect(self, context: RequestContext, route: Route) -> Slot:
        """Take the next place in the line."""
        slot = Slot(self, context, route)
        self.line.append(slot)
        return slot

    def answer(self, context: RequestContext, route: Route, response: Any, handled: float) -> None:
        """Answer a request at once (in its turn, when others are before it)."""
        if self.line:
            slot = self.expect(context, route)
            slot.handled = handled
            slot.done = True
            slot.response = response
        else:
            self.encode(context, route, response, handled, handled)

    def slot_done(self, slot: Place) -> None:
        """A slot of the line was completed: encode what can go now."""
        slots = self.line
        if not slots or slots[0] is not slot or self._closing:
            return
        now = monotonic()
        while slots and slots[0].send(now):
            slots.popleft()
        if self._paused:
            self.look_again()

    def encode(
        self, context: RequestContext, route: Route, response: Any, handled: float, done: float
    ) -> None:
        if response is not None:
            if (throttle := self.throttle) is not None:
                response = throttle.answering(self, context, response)
            parts: list[Any] = []
            try:
                if isinstance(response, FetchAnswer):
                    size = write_fetch_answer(parts, context.correlation_id, context.version, response)
                else:
                    size = write_response(parts, context.correlation_id, route.key, context.version, response)
            except (WireError, StorageError) as error:
                events.emit(events.REQUEST_FAILED, api=route.name, version=context.version, error=error)
                self.close()
                return
            self.send_queue.add(parts, size)
            if self.send_queue.pending > SENT_AT_ONCE_BYTES:
                self.send_queue.flush()
            self.look_again()
        route.finished(context, handled, done)

    def look_again(self) -> None:
        """Have `flush` called at the end of this loop step."""
        if not self._dirty:
            self._dirty = True
            self._network.step.flush_later(self)

    def flush(self) -> None:
        """The end of a loop step: send what was answered in it; stop reading or go on as it turned out."""
        self._dirty = False
        if self._closing:
            return
        if (queue := self.send_queue).pending:
            queue.flush()
        if self._yields:
            self._network.loop.call_soon(self._try_resume)  # after the answers of others
        elif self._paused:
            self._try_resume()
        elif queue.pending > self._network.limits.max_unsent and not self._closing:
            self._pause()

    def _sent_some(self) -> None:
        self.last_active = monotonic()
        if self._paused:
            self.look_again()

    def _send_failed(self, error: Exception) -> None:
        if not isinstance(error, (OSError, ShortFileError)):
            events.emit(events.REQUEST_FAILED, client=self.client.host, error=error)
        rotten = getattr(error.__cause__, "errno", 0) == errno.EIO
        if isinstance(error, ShortFileError) or (isinstance(error, StorageError) and rotten):
            self._network.on_unreadable(error)
        self.abort()

    # -- pausing --

    def _line_is_full(self) -> bool:
        limits, unanswered = self._network.limits, len(self.line) + self.more
        return unanswered >= limits.max_pipelined or self.send_queue.pending > limits.max_unsent

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    @property
    def throttle(self) -> Throttle | None:
        """What counts its requests for quotas; None while nobody is limited, and for controllers."""
        throttle = self._network.throttle
        return throttle if throttle.quotas.active and self.client.kind == "B" else None

    def mute(self, seconds: float) -> None:
        """Read nothing for so long; what is in the line is answered meanwhile."""
        loop, unmute = self._network.loop, self._unmute
        if self._closing or (unmute is not None and unmute.when() >= loop.time() + seconds):
            return
        if unmute is not None:
            unmute.cancel()
        self._unmute = loop.call_later(seconds, self._unmuted)
        self._pause()

    def _unmuted(self) -> None:
        self._unmute = None
        self.look_again()

    def _wait_for_memory(self) -> None:
        self._waits_for_memory = True
        self._pause()
        self._receiving.account.wait()

    def stop_reading(self) -> None:
        """The node stops: what was received is answered, nothing more is read."""
        self._stopping = True
        self._pause()

    def _memory_back(self) -> None:
        self._waits_for_memory = False
        self.look_again()

    def _try_resume(self) -> None:
        """Read on, if nothing speaks against it any more; frames that had to wait come first."""
        if not self._paused or self._closing or self._stopping:
            return
        if self._waits_for_memory or self._line_is_full() or self._unmute is not None:
            return
        receiving = self._receiving
        if receiving.full and not receiving.grow():  # (a complete frame is never left in its buffer)
            self._wait_for_memory()
            return
        if receiving.buffer is None and len(receiving.rest) >= 4:
            waiting = memoryview(bytearray(receiving.rest))
            receiving.set_rest(b"")
            used, _ = self._take_frames(waiting, len(waiting))
            if self._end_of_read() is not None:
                self._network.step.soon()
            if self._closing:
                return
            if used:
                receiving.took()
            if used < len(waiting):
                receiving.keep(waiting[used:])
            if receiving.full:
                self._wait_for_memory()
                return
            if self._yields:
                self.look_again()
                return
            if self._line_is_full() or self._unmute is not None:
                return
        self._paused = self._yields = False
        self._transport.resume_reading()

    # -- ending --

    @property
    def holds_memory(self) -> bool:
        """Whether something of it waits in this node's memory."""
        return self._receiving.account.held > 0

    @property
    def stuck_because(self) -> events.Event:
        """Who has to move before its memory is free again: its client, by taking or by sending, or this node."""
        if self.send_queue.held:
            return events.CONNECTION_STALLED
        return events.CONNECTION_GIVEN_UP if self._paused else events.CONNECTION_SLOW

    @property
    def busy(self) -> bool:
        """Whether something is still to be answered or sent."""
        return not self._closing and bool(self.line or self.send_queue.pending)

    @property
    def unanswered(self) -> int:
        """Requests of the line."""
        return len(self.line) + self.more

    def close(self) -> None:
        """Send what is ready and hang up."""
        if not self._closing:
            self.send_queue.flush()
            self.abort()

    def abort(self) -> None:
        """Hang up at once."""
        if not self._closing:
            self._closing = True
            self._transport.abort()

    def __repr__(self) -> str:
        state = ("closing " if self._closing else "") + ("paused " if self._paused else "")
        return f"<Connection {self.id} {self.client.host}:{self.client.port} {state}line={len(self.line)}>"


_HTTP = frozenset((b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH", b"PRI"))
_NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 57\r\n\r\n"
    b"This port speaks the Kafka protocol. It serves no pages.\n"
)
