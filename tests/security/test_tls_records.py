"""Whatever pieces the network makes of records of TLS, and however little room there is: the same comes out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.certificates import Authority

from barnabas.server.net.tls.records import LARGEST_BYTES, RecordEnds
from barnabas.server.net.tls.session import TlsSession
from barnabas.server.net.tls.turns import Turns

MESSAGES = st.lists(st.integers(1, 40_000), min_size=1, max_size=8)
PIECES = st.lists(st.integers(1, 30_000), min_size=1, max_size=12)
ROOMS = st.lists(st.integers(1, 50_000), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("node"))
    return server, ssl.create_default_context(cafile=str(authority.ca))


class Heard:
    """A connection that hears `rooms` bytes at a time, and pauses after some of them."""

    def __init__(self, rooms: list[int], pauses: list[bool]) -> None:
        self.client = SimpleNamespace()
        self.rooms, self.pauses = rooms, pauses
        self.session: Any = None
        self.plain = bytearray()
        self.reads = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.session = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        self.room = bytearray(self.rooms[self.reads % len(self.rooms)])
        return memoryview(self.room)

    def buffer_updated(self, nbytes: int) -> None:
        self.plain += self.room[:nbytes]
        self.reads += 1
        if self.pauses[self.reads % len(self.pauses)]:
            self.session.pause_reading()


class Wire:
    """The loop, the door and the raw transport of one session, as far as it needs them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.identity = self
        self.context, self.rules = context, None
        self.buffer = memoryview(bytearray(256 * 1024))
        self.name, self.handshake_s = "SSL", 10.0
        self.said = bytearray()
        self.soon: list[Any] = []
        self.turns = Turns(self.soon.append)
        self.complaints: list[str] = []
        self.nowhere = os.open(os.devnull, os.O_WRONLY)

    def call_later(self, delay: float, call: Any, *args: Any) -> asyncio.TimerHandle:
        return cast("asyncio.TimerHandle", self)

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)

    def run_what_is_due(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def cancel(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def knocked(self, who: object, host: str, descriptor: int) -> bool:
        return True

    def let_in(self, who: object, host: str) -> None: ...

    def time(self) -> float:
        return 0.0

    def refused(self, client: str, why: str) -> None:
        self.complaints.append(why)

    def abort(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 9) if name == "peername" else self

    def fileno(self) -> int:
        return self.nowhere

    def write(self, data: bytes) -> None:
        self.said += data


class Client:
    """OpenSSL's own client, without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake_hands(self) -> bytes:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()


def receive(session: TlsSession, wire: Wire, data: bytes, pieces: list[int]) -> None:
    at = turn = 0
    while at < len(data):
        piece = data[at : at + pieces[turn % len(pieces)]]
        room = session.get_buffer(-1)
        room[: len(piece)] = piece
        session.buffer_updated(len(piece))
        at, turn = at + len(piece), turn + 1
        wire.run_what_is_due()
        while session._paused:
            session.resume_reading()
            wire.run_what_is_due()


@settings(max_examples=150, deadline=None)
@given(messages=MESSAGES, pieces=PIECES, rooms=ROOMS, pauses=st.lists(st.booleans(), min_size=1, max_size=5))
def test_the_same_bytes_come_out(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
    messages: list[int],
    pieces: list[int],
    rooms: list[int],
    pauses: list[bool],
) -> None:
    server, trusting = contexts
    if pauses == [True]:
        pauses = [True, False]
    wire, client, heard = Wire(server), Client(trusting), Heard(rooms, pauses)
    session = TlsSession(cast("Any", wire), cast("Any", wire), lambda: cast("Any", heard))
    session.connection_made(cast("Any", wire))
    receive(session, wire, client.shake_hands(), pieces)
    client.incoming.write(bytes(wire.said))
    sealed = client.shake_hands()  # the end of the handshake goes along with the first requests
    sent = b""
    for number, size in enumerate(messages):
        message = bytes([number + 1]) * size
        at = 0
        while at < size:
            at += client.tls.write(message[at:])
        sent += message
    sealed += client.outgoing.read()
    receive(session, wire, sealed, pieces)
    assert bytes(heard.plain) == sent
    assert not wire.complaints
    os.close(wire.nowhere)


@given(
    sizes=st.lists(st.integers(0, 17_000), max_size=12),
    pieces=st.lists(st.integers(1, 40_000), min_size=1, max_size=8),
)
def test_pieces_end_with_records_and_nothing_is_left_out(sizes: list[int], pieces: list[int]) -> None:
    data = b"".join(b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size) for size in sizes)
    ends = RecordEnds()
    true_ends, position = {0}, 0
    for size in sizes:
        position += 5 + size
        true_ends.add(position)
    at = turn = 0
    while at < len(data):
        received = memoryview(data)[at : at + pieces[turn % len(pieces)]]
        inside = 0
        while inside < len(received):
            end = ends.cut(received, inside, len(received))
            assert inside < end <= inside + LARGEST_BYTES
            inside = end
            if max(sizes) <= LARGEST_BYTES - 5:
                assert ends.whole == (at + inside in true_ends)
        at, turn = at + len(received), turn + 1
    assert at == len(data)
