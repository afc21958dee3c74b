"""What strangers and users can do on purpose to a node that speaks TLS and asks for logins: see `bench.secured`.

Strangers come from an address of their own, 127.0.0.2.  Each attack runs until its time is over, prints `begun`
when it is in full swing, and connects anew where the node hangs up.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.client.security.options import Security
from barnabas.errors import BarnabasError
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.compression import Codec
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from bench.attacks import MIB, bomb, produce_request, rounds

__all__ = ["SECURED_ATTACKS", "Target"]

ATTACKER = "127.0.0.2"
HELLO = bytes.fromhex("16030100c8010000c40303")
"""The beginning of a ClientHello."""


class Target(NamedTuple):
    """Where the node is, whom to trust, and how a user with few rights logs in."""

    port: int
    ca: str
    security: dict[str, str]

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(ATTACKER, 0))

    def dial_tls(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.ca)
        return context.wrap_socket(self.dial(), server_hostname="localhost")

    def log_in(self, password: str | None = None) -> BlockingConnection:
        options = self.security if password is None else self.security | {"sasl.password": password}
        return BlockingConnection(
            "127.0.0.1", self.port, timeout=60, connect_timeout=60, security=Security.parse(options)
        )


Attack = Callable[[Target, float], None]


def _begun(first: Callable[[], socket.socket]) -> socket.socket | None:
    """A connection begun by `first`; None where the node did not want it."""
    with contextlib.suppress(OSError):
        made = first()
        made.setblocking(False)
        return made
    return None


def half_open_tls(target: Target, seconds: float) -> None:
    """A thousand begin a handshake and say no more; who is sent away comes again."""

    def first() -> socket.socket:
        made = target.dial()
        made.sendall(HELLO)
        return made

    _again_and_again(seconds, first, b"")


def slow_before_login(target: Target, seconds: float) -> None:
    """A thousand shake hands, and then say a byte a second of their first request."""

    def first() -> socket.socket:
        made = target.dial_tls()
        made.sendall(struct.pack(">i", 5000))
        return made

    _again_and_again(seconds, first, b"\0")


def _again_and_again(seconds: float, first: Callable[[], socket.socket], more: bytes) -> None:
    attackers = [_begun(first) for _ in range(1000)]
    for turn, _ in enumerate(rounds(seconds, 0.01)):
        for index in range(turn % 100, len(attackers), 100):
            attacker = attackers[index]
            try:
                if attacker is None or (not more and attacker.recv(1) == b""):
                    raise ConnectionResetError
                attacker.send(more)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except OSError:
                if attacker is not None:
                    attacker.close()
                attackers[index] = _begun(first)


def _frames_before_login(body: Callable[[], bytes]) -> Attack:
    """Four at a time send a frame before any login, hear the end, and come again."""

    def attack(target: Target, seconds: float) -> None:
        data = body()
        for _ in rounds(seconds, 0.01):
            with contextlib.suppress(OSError), target.dial_tls() as attacker:
                attacker.settimeout(1)
                attacker.sendall(data)
                attacker.recv(1)

    return _by_threads(4, attack)


def _tags() -> bytes:
    """ApiVersions whose header announces 20 million tagged fields; as many are there as a frame takes."""
    header = struct.pack(">hhih", 18, 3, 1, -1) + uvarint(20_000_000)
    fields = b"".join(uvarint(number) + b"\0" for number in range(20_000))
    return struct.pack(">i", 60_000) + (header + fields)[:60_000].ljust(60_000, b"\0")


def _array() -> bytes:
    """SaslAuthenticate whose bytes are said to be 100 MiB, in a frame of 100 MiB of which little comes."""
    return struct.pack(">ihhih", 100 * MIB, 36, 1, 1, -1) + struct.pack(">i", 100 * MIB) + bytes(50_000)


def shake_hands(target: Target, seconds: float) -> None:
    """Handshakes, one after the other; nothing is said after."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            target.dial_tls().close()


def guess_passwords(target: Target, seconds: float) -> None:
    """One password after the other."""
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        tried += 1
        with contextlib.suppress(BarnabasError):
            target.log_in(f"guess {tried}").close()


def bombs(codec: int, size: int) -> Attack:
    """Users send batches of a few kilobytes that unpack to very many."""
    requests: list[bytes] = []

    def attack(target: Target, seconds: float) -> None:
        if not requests:
            requests.append(bomb(codec, size))
        until = time.monotonic() + seconds
        with target.log_in() as connection:
            while time.monotonic() < until:
                connection.request(produce_request("compacted", requests[0]), 9)

    return _by_threads(8, attack)


def slow_readers(target: Target, seconds: float) -> None:
    """A hundred users ask for 20 MB of records and read nothing."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=20 * MIB)
    topics = [FetchTopic(topic="read", partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=20 * MIB, topics=topics)
    connections = []
    for _ in range(100):
        with contextlib.suppress(BarnabasError):
            connections.append(target.log_in())
    for turn, _ in enumerate(rounds(seconds, 0.05)):
        for connection in connections[turn % 10 :: 10]:
            with contextlib.suppress(BarnabasError, OSError):
                connection.post(request, 11)


def _by_threads(count: int, attack: Attack) -> Attack:
    def together(target: Target, seconds: float) -> None:
        threads = [threading.Thread(target=attack, args=(target, seconds)) for _ in range(count)]
        print("begun", flush=True)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return together


SECURED_ATTACKS: dict[str, Attack] = {
    "1,000 half-open handshakes": half_open_tls,
    "1,000 at a byte a second": slow_before_login,
    "20 million tagged fields": _frames_before_login(_tags),
    "arrays of 100 MiB": _frames_before_login(_array),
    "a storm of handshakes": _by_threads(8, shake_hands),
    "guessed passwords": _by_threads(8, guess_passwords),
    "gzip bombs": bombs(Codec.GZIP, 95 * MIB),
    "snappy bombs": bombs(Codec.SNAPPY, 15 * MIB),
    "lz4 bombs": bombs(Codec.LZ4, 95 * MIB),
    "zstd bombs": bombs(Codec.ZSTD, 95 * MIB),
    "100 slow readers": slow_readers,
}
