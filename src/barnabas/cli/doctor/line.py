"""The address that is examined, and what speaks there: one connection after the other."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.client.connection import Connection
from barnabas.client.security.options import Security

__all__ = ["PROBE", "Address", "connect", "dial", "first_words", "says_http", "speaks"]

PROBE = "barnabas-doctor"
"""Our client id, and a mechanism that nobody has: a listener that asks for a login answers with its own."""

_ENOUGH = 16
_LARGEST = 1 << 20
"""No answer to ApiVersions has more bytes."""


class Address(NamedTuple):
    """A listener's address, and how long (s) each step may take."""

    host: str
    port: int
    timeout: float

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def dial(address: Address) -> socket.socket:
    """Open a connection.  Raises OSError."""
    return socket.create_connection((address.host, address.port), address.timeout)


def connect(address: Address, security: Security) -> BlockingConnection:
    """Open a connection that speaks the protocol, logged in.  Raises BarnabasError."""
    return BlockingConnection(
        address.host,
        address.port,
        client_id=PROBE,
        timeout=address.timeout,
        connect_timeout=address.timeout,
        security=security,
    )


def first_words(address: Address, said: bytes) -> bytes:
    """Return what is answered first to these bytes; b"": the connection is ended, or nothing comes."""
    got = b""
    with contextlib.suppress(OSError), dial(address) as line:
        line.sendall(said)
        while len(got) < _ENOUGH and (more := line.recv(_ENOUGH)):
            got += more
    return got


def speaks(address: Address) -> str:
    """Return what is spoken there: "Kafka", "TLS", "HTTP" or "" (none of them)."""
    sent = Connection(PROBE).negotiate()
    assert sent is not None
    request = b"".join(bytes(part) for part in sent.parts)
    answer = first_words(address, request)
    size = int.from_bytes(answer[:4], "big")
    if 6 <= size < _LARGEST and answer[4:8] == sent.correlation_id.to_bytes(4, "big"):
        return "Kafka"
    if says_http(answer):
        return "HTTP"
    if answer[:2] == b"\x15\x03" or first_words(address, _hello(address.host))[:2] in (
        b"\x16\x03",
        b"\x15\x03",
    ):
        return "TLS"
    return "HTTP" if says_http(first_words(address, b"GET / HTTP/1.0\r\n\r\n")) else ""


def says_http(answer: bytes) -> bool:
    """Return whether that is how a web server begins."""
    return answer[:5] == b"HTTP/"


def _hello(host: str) -> bytes:
    """Return what a client that speaks TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()
