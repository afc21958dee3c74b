"""Frames to a node: of a stranger who has not logged in, and of a user who has few rights.

A stranger is answered ApiVersions and the steps of a login, nothing else; no connection is ever a super user's.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

from tests.fuzz.engine.draw import Draw, piece
from tests.fuzz.engine.target import Target
from tests.fuzz.messages import World, draw_request
from tests.fuzz.targets.node_inside import NodeInside, framed, login_frames

from barnabas.errors import WireError
from barnabas.model import Uuid
from barnabas.server.api.table import TABLE
from barnabas.wire.frame import RequestHeader, write_request
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

__all__ = ["TARGETS"]

ONE, RAW, SEVERAL = range(3)
_BEFORE_LOGIN = (17, 18, 36)
_RAW_TOKENS = b"\x00\x11\x00\x00"
"""SaslHandshake v0: what follows are tokens without a header, whatever API they look like."""
_WORLD = World("fuzz-cluster-id-of-22-c", [Uuid(bytes([1]) * 16)])


def _sent(data: bytes) -> tuple[bytes, ...]:
    """What an input sends, read by read."""
    kind, rest = (data[0] % 3, data[1:]) if data else (RAW, b"")
    if kind == ONE:
        return (framed(rest),)
    if kind == RAW:
        return (rest[: len(rest) // 2], rest[len(rest) // 2 :])
    draw = Draw(rest)
    return tuple(framed(draw.some()) for _ in range(12) if draw)


class _Door:
    """A node, and what is said to it."""

    def __init__(self, *, logged_in: bool) -> None:
        self.inside = NodeInside()
        self.logged_in = logged_in

    def put(self, data: bytes) -> Hashable:
        whole = bool(data) and data[0] % 3 != RAW
        return self.inside.run(self._talk(_sent(data), whole))  # type: ignore[no-any-return]

    async def _talk(self, sent: tuple[bytes, ...], whole: bool) -> Hashable:
        line = self.inside.line()
        client = line._connection.client
        try:
            if self.logged_in:
                await line.send(login_frames())
                assert client.principal == "User:ada", client.principal
            seen = []
            is_raw = False
            owed: list[bytes] = []
            """Correlation ids of steps of a login that are not answered yet: a refusal comes late."""
            for frames in sent:
                answer = await line.send(frames)
                key = int.from_bytes(frames[4:6], "big")
                seen.append((key if key < 100 else -1, len(answer).bit_length()))
                if self.logged_in:
                    continue
                assert client.principal == "User:ANONYMOUS", f"a stranger is {client.principal}"
                is_one = whole and frames == framed(frames[4:])
                if answer[4:8] in owed:
                    owed.remove(answer[4:8])
                elif key in _BEFORE_LOGIN:
                    owed += [frames[8:12]] * (not answer)
                else:
                    assert not answer or is_raw or not is_one, f"API {key} is answered"
                is_raw |= frames[4:8] == _RAW_TOKENS
        finally:
            hung_up = await line.end()
        return hung_up, tuple(seen[-2:])


def _frame(key: int, message: object, version: int) -> bytes:
    parts = write_request(RequestHeader(key, version, 7, "me"), message)  # type: ignore[arg-type]
    return b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]


def _strangers() -> Iterator[bytes]:
    versions = _frame(18, ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    yield bytes((ONE,)) + versions
    for mechanism, token in (
        ("PLAIN", b"\0ada\0wrong"),
        ("SCRAM-SHA-256", b"n,,n=ada,r=abcdef"),
        ("SCRAM-SHA-512", b"n,a=bob,n=ada,r=abcdef"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer x.y.z\x01\x01"),
    ):
        for version in (0, 1):
            chosen = _frame(17, SaslHandshakeRequest(mechanism=mechanism), version)
            said = token if not version else _frame(36, SaslAuthenticateRequest(auth_bytes=token), 2)
            yield bytes((SEVERAL,)) + piece(versions) + piece(chosen) + piece(said) + piece(said)
    yield bytes((RAW,)) + b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(60)
    yield bytes((RAW,)) + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    yield bytes((RAW,)) + framed(versions) * 3
    for body in _requests(1):
        yield bytes((ONE,)) + body
        yield bytes((SEVERAL,)) + piece(versions) + piece(body)


def _users() -> Iterator[bytes]:
    bodies = list(_requests(3))
    yield from (bytes((ONE,)) + body for body in bodies)
    few = [body for body in bodies if len(body) < 400]
    rng = random.Random(2)
    for _ in range(40):
        yield bytes((SEVERAL,)) + b"".join(piece(body) for body in rng.sample(few, 4))
    yield bytes((RAW,)) + b"".join(framed(body) for body in few[:6])


def _requests(each: int) -> Iterator[bytes]:
    """Well-formed requests of every API that clients are served, in drawn versions."""
    rng = random.Random(1)
    wanted = {row.key: each for row in TABLE if "B" in row.listeners}
    while wanted:
        row, _, frame = draw_request(rng, _WORLD, "B")
        if wanted.get(row.key) and len(frame) < 3000:
            wanted[row.key] -= 1
            if not wanted[row.key]:
                del wanted[row.key]
            yield frame[4:]


_WORDS = (b"fuzz-0", b"fuzz-1", b"group-a", b"\x00\x12\x00\x04", b"\x00\x24\x00\x02", b"\x00\x11\x00\x01", b"\xff\xff\xff\xff",
          b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x00\x00")  # fmt: skip

TARGETS = [
    Target(
        "stranger",
        "frames to a node before the login",
        lambda: _Door(logged_in=False).put,
        (WireError,),
        _strangers,
        _WORDS,
        slow_start=True,
    ),
    Target(
        "user",
        "frames to a node after the login, with an authorizer",
        lambda: _Door(logged_in=True).put,
        (WireError,),
        _users,
        _WORDS,
        slow_start=True,
    ),
]
