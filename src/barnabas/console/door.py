"""The HTTP port of the console: what a request has to be before a route sees it, and what every answer says.

It listens on the loopback only, because there is no TLS.  A request has to ask for this machine by name (a page in
somebody's browser cannot: DNS rebinding), and one that changes something has to come from a page of the console.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import h11

from barnabas.console.markup import Markup

__all__ = ["Answer", "Ask", "Door", "RefusedRequest"]

_LOG = logging.getLogger("barnabas.console")
LONGEST_S = 30.0
"""From the first byte of a request to the last of its answer."""
HEAD_S = 10.0
"""A client gets this long for its request."""
LARGEST_HEAD_BYTES = 16 * 1024
LARGEST_BODY_BYTES = 8 * 1024
MOST_AT_ONCE = 32
MOST_FIELDS = 10
NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
"""What this machine is called in a URL."""
COOKIE = "barnabas-console"
_FORM = "application/x-www-form-urlencoded"
_ALWAYS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
)
"""Of every answer.  (Without any referrer a browser would not say where a form comes from.)"""


class RefusedRequest(Exception):  # noqa: N818  says what happened
    """A request that no route sees."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Ask(NamedTuple):
    """A request that is in order.  `fields` are those of its query, or of its form; `session` is its cookie."""

    method: str
    path: str
    fields: Mapping[str, str]
    session: str = ""


class Answer(NamedTuple):
    """`to` sends the browser elsewhere; `session` sets its cookie, "" takes it away, None leaves it."""

    status: int
    body: Markup | str = ""
    kind: str = "text/html"
    to: str = ""
    session: str | None = None


Serve = Callable[[Ask], Awaitable[Answer]]


class Door:
    """`serve` is asked for what is in order; all else is answered here."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._open = 0

    def __repr__(self) -> str:
        return f"<Door {self._open} requests>"

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request, and then it ends."""
        if self._open >= MOST_AT_ONCE:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._one(reader, writer)
        except (TimeoutError, OSError):
            pass  # its client is slow, or gone
        finally:
            self._open -= 1
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD_BYTES)
        is_head = False
        try:
            async with asyncio.timeout(HEAD_S):
                request, body = await _received(protocol, reader)
            is_head = request.method == b"HEAD"
            answer = await self._serve(checked(request, body))
        except RefusedRequest as refused:
            answer = Answer(refused.status, refused.why + "\n", "text/plain")
        except h11.RemoteProtocolError as error:
            if protocol.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                return
            answer = Answer(error.error_status_hint, "this is no request\n", "text/plain")
        except OSError:
            raise  # its client has gone
        except Exception:
            _LOG.exception("the console cannot make a page")
            answer = Answer(500, "the console made a mistake: its log has more\n", "text/plain")
        writer.write(_sent(protocol, answer, with_body=not is_head))
        await writer.drain()


async def _received(protocol: h11.Connection, reader: asyncio.StreamReader) -> tuple[h11.Request, bytes]:
    """A request with its body.  Raises RefusedRequest, RemoteProtocolError, ConnectionError."""
    request: h11.Request | None = None
    body = b""
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(await reader.read(4096))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
            if len(body) > LARGEST_BODY_BYTES:
                raise RefusedRequest(413, f"a form has at most {LARGEST_BODY_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None, "h11 begins with the head"
            return request, body
        else:
            raise ConnectionResetError("the client has gone")


def checked(request: h11.Request, body: bytes) -> Ask:
    """The request as routes see it.  Raises RefusedRequest."""
    method = request.method.decode("ascii", "replace")
    host = _only(request, b"host")
    if _name_of(host) not in NAMES:
        raise RefusedRequest(421, "the console is for this machine: ask for 127.0.0.1 or localhost")
    if method not in ("GET", "POST"):
        raise RefusedRequest(405, "there are GET and POST")
    site = _only(request, b"sec-fetch-site")
    if method == "POST":
        if _only(request, b"origin") != f"http://{host}" or site not in ("", "same-origin"):
            raise RefusedRequest(403, "this form does not come from a page of the console")
        if _only(request, b"content-type").partition(";")[0].strip().lower() != _FORM:
            raise RefusedRequest(415, f"a form is {_FORM}")
    elif body:
        raise RefusedRequest(400, "a page is asked for without a body")
    try:
        path, _, query = request.target.decode("ascii").partition("?")
    except UnicodeDecodeError:
        raise RefusedRequest(400, "a path is ASCII") from None
    if method == "POST" and query:
        raise RefusedRequest(400, "a form has its fields in its body")
    fields = _fields(body if method == "POST" else query.encode())
    return Ask(method, path, fields, _session(_only(request, b"cookie")))


def _only(request: h11.Request, name: bytes) -> str:
    """A header that may be there once; "" if it is not there.  Raises RefusedRequest."""
    found = [value for one, value in request.headers if one == name]
    if len(found) > 1:
        raise RefusedRequest(400, f"{name.decode()} is there twice")
    return found[0].decode("latin-1") if found else ""


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isascii() and port.isdecimal() else host.lower()


def _fields(text: bytes) -> dict[str, str]:
    """The fields of a query or a form, each there once.  Raises RefusedRequest."""
    if not text:
        return {}
    try:
        pairs = urllib.parse.parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise RefusedRequest(400, "these are no fields of a form") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RefusedRequest(400, "a field is there twice")
    return found


def _session(cookies: str) -> str:
    """The session among the cookies of this machine; "" where there is none, or more than one."""
    pairs = [one.strip().partition("=") for one in cookies.split(";")]
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 else ""


def _sent(protocol: h11.Connection, answer: Answer, *, with_body: bool) -> bytes:
    """The bytes of an answer."""
    content = answer.body.encode()
    headers = [
        *_ALWAYS,
        ("Content-Type", f"{answer.kind}; charset=utf-8"),
        ("Content-Length", str(len(content))),
    ]
    if answer.to:
        headers.append(("Location", answer.to))
    if answer.session is not None:
        until = "" if answer.session else "; Max-Age=0"
        headers.append(("Set-Cookie", f"{COOKIE}={answer.session}; Path=/; HttpOnly; SameSite=Strict{until}"))
    head = protocol.send(h11.Response(status_code=answer.status, headers=headers)) or b""
    return head + ((protocol.send(h11.Data(data=content)) or b"") if with_body else b"")
