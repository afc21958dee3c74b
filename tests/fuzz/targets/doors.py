"""What stands before a connection: TLS, whose handshake nobody passes without a certificate, and HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from tests.client.certificates import Authority
from tests.fuzz.engine.draw import Draw
from tests.fuzz.engine.target import Target
from tests.server.harness import World

from barnabas.server.net.http import HttpServer
from barnabas.server.observe.metrics import Metrics

__all__ = ["TARGETS"]

RAW, CLIENT = 0, 1
_STEPS = 12


class _Wire(asyncio.Transport):
    """The raw side of a handshake: what the node says is kept."""

    def __init__(self, null: int) -> None:
        super().__init__()
        self.said = bytearray()
        self.ended = False
        self._null = null

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2), "socket": self}.get(name, default)

    def fileno(self) -> int:
        return self._null

    def setsockopt(self, *_: object) -> None: ...

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class _Tls:
    """A listener that wants certificates, and clients that have none of its authority's."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="barnabas-fuzz-"))
        authority, foreign = Authority(folder / "own"), Authority(folder / "foreign", "foreign")
        settings = {
            "ssl.keystore.location": str(authority.issue("node")),
            "ssl.truststore.location": str(authority.ca),
            "ssl.client.auth": "required",
        }
        self._clients = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for certificate in (None, foreign.issue("mallory")):
                context = ssl.create_default_context(cafile=str(authority.ca))
                context.maximum_version = version
                if certificate is not None:
                    context.load_cert_chain(certificate)
                self._clients.append(context)
        self._loop = asyncio.new_event_loop()
        self._null = os.open(os.devnull, os.O_WRONLY)
        logging.getLogger("barnabas").addHandler(logging.NullHandler())
        logging.getLogger("barnabas").propagate = False
        self._world = self._loop.run_until_complete(self._open(settings))

    async def _open(self, settings: dict[str, str]) -> World:
        return World(asyncio.get_running_loop(), settings, ssl.create_default_context())

    def put(self, data: bytes) -> Hashable:
        return self._loop.run_until_complete(self._talk(data))

    async def _talk(self, data: bytes) -> Hashable:
        made: list[None] = []

        def nobody() -> Any:
            made.append(None)
            raise AssertionError("somebody without a certificate gets a connection")

        assert self._world.listener.tls is not None
        session: Any = self._world.listener.tls.before(nobody)()
        wire = _Wire(self._null)
        session.connection_made(wire)
        kind, rest = (data[0] & 1, data[1:]) if data else (RAW, b"")
        try:
            if kind == RAW:
                _hand_over(session, wire, rest)
            else:
                self._shake_hands(session, wire, Draw(rest))
        finally:
            session.connection_lost(None)
        assert not made
        await asyncio.sleep(0)
        return kind, wire.ended, len(wire.said).bit_length()

    def _shake_hands(self, session: Any, wire: _Wire, draw: Draw) -> None:
        """A real client's handshake, a few bytes of which are changed on the way."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = draw.of(self._clients).wrap_bio(incoming, outgoing, server_hostname="localhost")
        for _ in range(_STEPS):
            incoming.write(bytes(wire.said))
            wire.said.clear()
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                break
            sent = bytearray(outgoing.read())
            for _ in range(draw.below(4)):
                at, value = draw.below(2048), draw.byte()
                if at < len(sent):
                    sent[at] ^= value
            if draw.below(16) == 15:
                del sent[draw.below(512) :]
            if not sent or wire.ended:
                break
            _hand_over(session, wire, bytes(sent))


def _hand_over(session: Any, wire: _Wire, data: bytes) -> None:
    view = memoryview(data)
    while view and not wire.ended:
        room = session.get_buffer(-1)
        size = min(len(room), len(view))
        room[:size] = view[:size]
        session.buffer_updated(size)
        view = view[size:]


def _tls_seeds() -> Iterator[bytes]:
    for client in range(4):
        yield bytes((CLIENT, client))
        yield bytes((CLIENT, client, 0, 0, 0, 1, 0, 40, 1))
        yield bytes((CLIENT, client)) + bytes(20)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    said = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        yield bytes((RAW,)) + said.read()
    yield bytes((RAW,)) + b"GET / HTTP/1.1\r\n\r\n"
    yield bytes((RAW,)) + b"\0\0\0\x0b\0\x12\0\x04\0\0\0\1\0\2me"
    yield bytes((RAW,)) + b"\x16\x03\x01\x40\x00" + bytes(300)
    yield bytes((RAW,)) + b"\x15\x03\x03\x00\x02\x02\x28"


class _Said:
    """An HTTP client's side."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None: ...
    def close(self) -> None: ...
    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)


class _Bound:
    """A socket, as far as its address is asked for."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 1


class _Http:
    """The pages of a node, asked for in any words.  Only what is in its table is answered by 200."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._server = HttpServer([_Bound()], Metrics(), lambda: "it\nstarts")  # type: ignore[arg-type]
        logging.getLogger("barnabas").propagate = False
        logging.getLogger("barnabas").addHandler(logging.NullHandler())

    def put(self, data: bytes) -> Hashable:
        return self._loop.run_until_complete(self._ask(data))

    async def _ask(self, data: bytes) -> Hashable:
        reader, said = asyncio.StreamReader(limit=16384), _Said()
        reader.feed_data(data)
        reader.feed_eof()
        await self._server._connected(reader, said)  # type: ignore[arg-type]
        status = said.data[9:12]
        assert status in (b"", b"200", b"400", b"404", b"405", b"421", b"431", b"501", b"503"), said.data[:80]
        if status == b"200":
            target = data.split(b" ", 2)[1].partition(b"?")[0] if data.count(b" ") > 1 else b""
            assert target in (b"/metrics", b"/health/live"), target
        assert said.data.count(b"HTTP/1.1 ") <= 1, "one request is answered twice"
        return status, len(said.data).bit_length()


def _http_seeds() -> Iterator[bytes]:
    for line in (b"GET /metrics", b"HEAD /metrics?names=jmx", b"GET /health/live", b"GET /health/ready", b"POST /metrics",
                 b"GET //metrics", b"GET /health/../metrics", b"GET /metrics;x", b"GET /METRICS/", b"OPTIONS *"):  # fmt: skip
        yield line + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield b"GET /health/live HTTP/1.0\r\n\r\n"
    yield b"PUT / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"


_HTTP_WORDS = (b"GET ", b" HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: ", b"/metrics",
               b"/health/ready", b"%2e", b"Upgrade: h2c\r\n", b"Connection: keep-alive\r\n", b"\x00")  # fmt: skip

TARGETS = [
    Target("tls", "handshakes with a listener that wants certificates", lambda: _Tls().put, (), _tls_seeds),
    Target("http", "the HTTP port", lambda: _Http().put, (), _http_seeds, _HTTP_WORDS),
]
