"""TLS between a socket and its connection: records in, plain bytes out, and the other way round.

The session is what the event loop calls; to its connection it is the transport.  The connection exists from the
end of the handshake on, so a stranger costs the node this object and OpenSSL's, for as long as a login may take.

What is received goes to OpenSSL record by record, because memory between (a BIO) stays as large as it was filled.
All connections of a listener receive in one buffer.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from time import time as _wall_clock
from typing import Any, Protocol, cast

from barnabas.errors import BarnabasError
from barnabas.security.certificate import read_certificate
from barnabas.server.net.admission.newcomers import Newcomer
from barnabas.server.net.connection import Connection
from barnabas.server.net.tls.identity import Identity
from barnabas.server.net.tls.records import RecordEnds
from barnabas.server.net.tls.refusals import HUNG_UP, Refused, in_words, looks_like
from barnabas.server.net.tls.sealing import SealedQueue
from barnabas.server.net.tls.turns import Turns

__all__ = ["BUFFER_BYTES", "Door", "TlsSession"]

BUFFER_BYTES = 256 * 1024
LONGEST_TIMER_S = 86400.0


class Door(Protocol):
    """The listener, as far as its handshakes concern it."""

    name: str
    identity: Identity
    handshake_s: float
    buffer: memoryview
    """Where all its connections receive."""
    turns: Turns

    def knocked(self, who: Newcomer, host: str, descriptor: int) -> bool:
        """Somebody begins a handshake; False: it may not, and is sent away."""
        ...

    def let_in(self, who: Newcomer, host: str) -> None:
        """A handshake has ended."""
        ...

    def refused(self, client: str, why: str) -> None:
        """A handshake failed."""
        ...


class TlsSession(asyncio.BufferedProtocol):
    """Made for each socket; `make` makes the connection, once it is known who is there."""

    __slots__ = (
        "_answered",
        "_began",
        "_connection",
        "_counted",
        "_door",
        "_ends",
        "_heard",
        "_incoming",
        "_loop",
        "_make",
        "_outgoing",
        "_over",
        "_paused",
        "_peer",
        "_queue",
        "_raw",
        "_ssl",
        "_timer",
        "_waiting",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, door: Door, make: Callable[[], Connection]) -> None:
        self._loop = loop
        self._door = door
        self._make = make
        self._ends = RecordEnds()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = door.identity.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw: asyncio.Transport = cast("asyncio.Transport", None)
        self._connection: Connection | None = None
        self._queue: SealedQueue | None = None
        self._peer = ""
        self._began = 0.0
        self._counted = False
        self._heard = False
        self._answered = False
        """Whether it has seen what this node shows."""
        self._paused = False
        self._over = False
        self._waiting = b""
        """What came before it was this handshake's turn."""
        self._timer: asyncio.TimerHandle | None = None

    # -- what the event loop calls --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw, door = cast("asyncio.Transport", transport), self._door
        self._peer = (transport.get_extra_info("peername") or ("",))[0]
        self._began = self._loop.time()
        if not door.knocked(self, self._peer, transport.get_extra_info("socket").fileno()):
            self.pause_reading()
            return
        self._counted = True
        self._timer = self._loop.call_later(door.handshake_s, self._too_late)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._door.buffer[:nbytes]
        if not self._counted and self._connection is None:
            return  # it was not let in, and is held before it is sent away
        if not self._heard:
            self._heard = True
            if other := looks_like(data):
                self._refuse(other)
                return
        if self._connection is None and (self._waiting or not self._door.turns.begin()):
            self._wait(data)
        else:
            self._take(data)

    def _wait(self, data: memoryview) -> None:
        """It is the turn of another handshake: hear no more until it is this one's."""
        if not self._waiting:
            self._raw.pause_reading()
            self._door.turns.wait(self._peer, self._take_waiting)
        self._waiting += data

    def _take_waiting(self) -> None:
        data, self._waiting = self._waiting, b""
        if not self._over:
            self._raw.resume_reading()
            self._take(memoryview(data))

    def _take(self, data: memoryview) -> None:
        at, nbytes, ends, write = 0, len(data), self._ends, self._incoming.write
        while at < nbytes and not self._over:
            if self._paused:
                while at < nbytes:  # (they wait in there)
                    end = ends.cut(data, at, nbytes)
                    at += write(data[at:end])
            elif self._connection is None:
                at += write(data[at : ends.cut(data, at, nbytes)])
                self._shake_hands()
                self._go_on()  # (its first requests may have come with the end of the handshake)
            else:
                at = self._open(self._connection, data, at)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._counted and self._answered and not self._over:
            self._door.refused(self._peer, str(HUNG_UP))
        self._end_handshake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._over = True
        if self._connection is not None:
            self._connection.connection_lost(exc)

    # -- what the connection calls: it takes this for its transport --

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "tls_session" else self._raw.get_extra_info(name, default)

    def send_queue(self, *args: Any, **given: Any) -> SealedQueue:
        """What seals and sends; arguments are those of `Platform.send_queue`."""
        self._queue = SealedQueue(*args, **given, seal=self._ssl, sealed=self._outgoing)
        return self._queue

    def pause_reading(self) -> None:
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self._raw.resume_reading()
        if self._incoming.pending or self._ssl.pending():
            self._loop.call_soon(self._go_on)

    def abort(self) -> None:
        """Hang up at once, after telling the peer so if it listens."""
        if self._over:
            return
        self._over = True
        if self._queue is not None and not self._queue.blocked:
            with suppress(ssl.SSLError):  # (it waits for the peer to say the same, which we do not)
                self._ssl.unwrap()
            with suppress(OSError):
                self._queue.send_own()
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._over

    # -- inside --

    def _go_on(self) -> None:
        """Hand on what has waited in OpenSSL for its connection."""
        if self._connection is not None:
            self._open(self._connection, memoryview(b""), 0)

    def _open(self, connection: Connection, data: memoryview, at: int) -> int:
        """Hand on the plain bytes of the records from `data[at]` on, in as few pieces as there is room for.

        Returns where it ended: with the data, or where the connection would hear no more.
        """
        try:
            more = True
            while more and not self._paused and not self._over:
                at, filled, more = self._fill(connection.get_buffer(-1), data, at)
                if filled:
                    connection.buffer_updated(filled)
            if self._outgoing.pending and not self._over and self._queue and not self._queue.send_own():
                self.abort()  # it asks for new keys and does not take ours
        except OSError:
            self.abort()
        return at

    def _fill(self, room: memoryview, data: memoryview, at: int) -> tuple[int, int, bool]:
        """Open records into `room`: where it ended, how much there is, and whether there is more to come."""
        read = cast("Callable[[int, memoryview], int]", self._ssl.read)
        incoming, ends = self._incoming, self._ends
        size, length, filled = len(data), len(room), 0
        is_empty = not self._ssl.pending() and not incoming.pending
        """Whether OpenSSL has nothing more to give without another record."""
        while filled < length:
            if is_empty:
                if at == size:
                    return at, filled, False
                at += incoming.write(data[at : ends.cut(data, at, size)])
            try:
                got = read(length - filled, room[filled:])
            except ssl.SSLWantReadError:  # (a record that carries nothing, or the rest of one is missing)
                is_empty = True
                continue
            except ssl.SSLError as error:
                self._door.refused(self._peer, in_words(error).why)
                got = 0
            if not got:
                self.abort()
                break
            filled += got
            is_empty = not incoming.pending  # (there was room for the whole record, or the loop ends)
        return at, filled, True

    def _shake_hands(self) -> None:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            if said := self._outgoing.read():
                self._answered = True
                self._raw.write(said)
            return
        except ssl.SSLError as error:
            self._refuse(in_words(error))
            return
        try:
            said = self._outgoing.read()
            if said and os.write(self._raw.get_extra_info("socket").fileno(), said) != len(said):
                raise BlockingIOError  # (the peer has taken all that was said before)
            principal = self._principal()
        except OSError:
            self.abort()
            return
        except BarnabasError as error:
            self._refuse(Refused(error.message, ""))
            return
        self._end_handshake()
        connection = self._connection = self._make()
        if principal is not None:
            connection.client.principal = principal
        connection.client.began = self._began
        connection.connection_made(cast("asyncio.BaseTransport", self))

    def _principal(self) -> str | None:
        """Who the client's certificate says it is; None: it has shown none, or has to log in besides."""
        der = self._ssl.getpeercert(True)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if der is None:
            return None
        certificate = read_certificate(der)
        self._watch_end(certificate.ends)
        rules = self._door.identity.rules
        if rules is None:
            return None
        name = rules.name_of(certificate.subject)
        if name is None:
            raise BarnabasError(
                f"no rule of ssl.principal.mapping.rules fits {certificate.subject[:200]}",
                next_step="add a rule, or DEFAULT at the end",
            )
        return f"User:{name}"

    def _watch_end(self, ends: float) -> None:
        """The client's certificate ends then; so does its connection."""
        left = ends - _wall_clock()
        if left <= 0:
            self._door.refused(self._peer, "its certificate has expired")
            self._loop.call_soon(self.abort)
        else:
            self._timer = self._loop.call_later(min(left, LONGEST_TIMER_S), self._watch_end, ends)

    def _too_late(self) -> None:
        self._refuse(Refused(f"no handshake within {self._door.handshake_s:g} s", ""))

    def _refuse(self, refused: Refused) -> None:
        """The handshake failed: tell the peer what TLS has a word for, and say why."""
        if self._over:
            return
        self._over = True
        self._end_handshake()
        if said := self._outgoing.read():
            self._raw.write(said)
        self._door.refused(self._peer, str(refused))
        self._raw.close()

    def _end_handshake(self) -> None:
        if self._counted:
            self._counted = False
            self._door.let_in(self, self._peer)

    def __repr__(self) -> str:
        return f"<TlsSession {self._peer} {self._connection or 'in its handshake'}>"
