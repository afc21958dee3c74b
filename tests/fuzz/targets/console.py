"""The pages of the console, asked for in any words: by nobody, and by somebody who is logged in."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Hashable, Iterator
from types import SimpleNamespace
from typing import Any, cast

from tests.fuzz.engine.target import Target

from barnabas.client.admin.described import ClusterDescription
from barnabas.console.door import COOKIE, Ask, Door
from barnabas.console.entrance import Entrance
from barnabas.console.routes import ROUTES, Routes
from barnabas.console.sessions import Sessions
from barnabas.errors import ErrorCode, KafkaError

__all__ = ["TARGETS"]

LOGGED_IN = "logged-in"
_STATUS = (
    b"",
    b"200",
    b"303",
    b"400",
    b"403",
    b"404",
    b"405",
    b"413",
    b"415",
    b"421",
    b"431",
    b"501",
    b"502",
)


_OWN = {b"localhost", b"127.0.0.1", b"["}
_ELEMENTS = set(
    b"!doctype html head meta title link body header b a span form button main h p br nav table thead tbody tr th td "
    b"label input".split()
)


class _Said:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.data = b""
        self.transport = SimpleNamespace(abort=lambda: None)

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None: ...
    def close(self) -> None: ...


class _Admin:
    """A cluster that knows nothing of what it is asked for, and says so with the words it was asked in."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*words: object, **options: object) -> Any:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} {words}")

        return refuse

    def describe_cluster(self, **options: object) -> ClusterDescription:
        return ClusterDescription("an id", 1, ())


class _Session:
    """Somebody who is logged in, without threads."""

    user = "<ada>"
    admin = _Admin()

    async def ask(self, question: Any) -> Any:
        return question(self.admin)


class _Sessions(Sessions):
    """One person, by a cookie that the fuzzer knows."""

    def __init__(self) -> None:
        self.asked = 0

    def of(self, token: str) -> Any:
        self.asked += token == LOGGED_IN
        return _Session() if token == LOGGED_IN else None

    def end(self, token: str) -> None: ...

    async def begin(self, security: object, user: str) -> str:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"user {user} is not let in")


class _Console:
    """A page is made for who is logged in only, and what was asked for comes back as text."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._sessions = _Sessions()
        entrance = Entrance(self._sessions, {"security.protocol": "SASL_SSL"})
        self._routes = Routes(entrance, self._sessions)
        self._open = {route.path for route in ROUTES if route.open is not None}
        logging.getLogger("barnabas").propagate = False
        logging.getLogger("barnabas").addHandler(logging.NullHandler())

    def put(self, data: bytes) -> Hashable:
        return self._loop.run_until_complete(self._ask(data))

    async def _ask(self, data: bytes) -> Hashable:
        asked: list[Ask] = []

        async def serve(ask: Ask) -> Any:
            asked.append(ask)
            return await self._routes.serve(ask)

        reader, said = asyncio.StreamReader(limit=16384), _Said()
        reader.feed_data(data)
        reader.feed_eof()
        before = self._sessions.asked
        await Door(serve).connected(reader, cast("asyncio.StreamWriter", said))
        status = said.data[9:12]
        assert status in _STATUS, said.data[:80]
        assert said.data.count(b"HTTP/1.1 ") <= 1, "one request is answered twice"
        head, _, body = said.data.partition(b"\r\n\r\n")
        assert not status or b"default-src 'none'" in head, head
        if asked and status == b"200" and asked[0].path not in self._open:
            assert self._sessions.asked > before, "a page was made for nobody"
        if asked:
            hosts = re.findall(rb"(?im)^host:[ \t]*([a-z0-9.\[\]]*)", data)
            assert {host.lower() for host in hosts} & _OWN, "another machine was asked for"
        if asked and asked[0].method == "POST":
            assert b"\norigin:" in data.lower(), "a form without an origin was served"
        if asked and asked[0].path != "/style.css" and b"text/html" in head:
            names = re.findall(rb"<([a-zA-Z!?]+)", body)
            assert set(names) <= _ELEMENTS and names.count(b"b") <= 2, "what was asked for became HTML"
        path = asked[0].path if asked and asked[0].path in {route.path for route in ROUTES} else ""
        return status, path, len(asked[0].fields) if asked else -1


def _seeds() -> Iterator[bytes]:
    for cookie in ("", f"Cookie: {COOKIE}={LOGGED_IN}\r\n", f"Cookie: {COOKIE}=x\r\n"):
        for route in ROUTES:
            if route.method == "GET":
                for query in ("", "?name=%3Cb%3E", "?topic=a&partition=0&offset=1", "?after=x"):
                    yield f"GET {route.path}{query} HTTP/1.1\r\nHost: localhost:1\r\n{cookie}\r\n".encode()
    for fields in ("user=a&password=b", "", "user=%3Cb%3E&password=x&c=d"):
        for path in ("/login", "/logout"):
            head = f"POST {path} HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\n"
            kind = "Content-Type: application/x-www-form-urlencoded\r\n"
            yield f"{head}{kind}Content-Length: {len(fields)}\r\n\r\n{fields}".encode()


_WORDS = (
    b"GET ", b"POST ", b" HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n", b"\r\n\r\n", b"Content-Length: ", b"Origin: http://localhost:1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Sec-Fetch-Site: same-site\r\n", b"/messages?topic=", b"&partition=", b"%3Cscript%3E", b"%00",
    b"//", b"/../", b";", f"{COOKIE}={LOGGED_IN}".encode(), b"Host: evil\r\n", b"null",
)  # fmt: skip

TARGETS = [Target("console", "the pages of the console", lambda: _Console().put, (), _seeds, _WORDS)]
