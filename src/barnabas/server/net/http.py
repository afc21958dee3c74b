"""A few pages over HTTP, on a port of their own: /metrics (?names=jmx), /health/live, /health/ready.

Live: the event loop runs (otherwise there would be no answer). Ready: the node has started, knows a leader of
the quorum, and every log directory that it needs is online; otherwise 503 and the reason.

There is no login.  The pages change nothing; whoever reaches the port reads names of topics, groups and clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, cast

import h11

from barnabas.errors import ConfigError
from barnabas.model import Endpoint
from barnabas.server.observe import events

if TYPE_CHECKING:
    import socket

    from barnabas.server.observe.metrics import Metrics

__all__ = ["HttpServer", "Page", "http_endpoint"]

LONGEST_S = 10.0
"""A client gets this long for its request."""
LARGEST_HEAD_BYTES = 16384
MOST_AT_ONCE = 64
"""Further clients are sent away: each may hold a page of metrics."""
METHODS = ("GET", "HEAD")


class Page(NamedTuple):
    """One answer."""

    status: int
    content_type: str
    body: bytes


def http_endpoint(where: str) -> Endpoint:
    """`http_endpoint(":9644")` -> 127.0.0.1, port 9644: other machines are let in where somebody names an address.

    Raises ConfigError.
    """
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"barnabas.http.listener={where!r} is no host:port", next_step="for example 127.0.0.1:9644"
        )
    return Endpoint("HTTP", host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


def text(status: int, line: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", line.encode() + b"\n")


def is_own_address(host: bytes) -> bool:
    """Whether a Host header names an address, or this machine: a name of somebody's own that leads here does not.

    So a page in somebody's browser cannot read what is served on 127.0.0.1 (DNS rebinding).
    """
    name = host.decode("ascii", "replace").strip().lower()
    name = name.rpartition(":")[0] if name.rpartition(":")[2].isdecimal() and not name.endswith("]") else name
    if name == "localhost":
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


class HttpServer:
    """Serves the pages on bound sockets: on those of the loopback only to who asks for this machine."""

    __slots__ = ("_is_loopback", "_metrics", "_not_ready", "_routes", "_servers", "_sockets", "_tasks")

    def __init__(
        self, bound: Sequence[socket.socket], metrics: Metrics, not_ready: Callable[[], str | None]
    ) -> None:
        self._sockets = bound
        self._metrics = metrics
        self._not_ready = not_ready
        """Why this node is not ready, or None."""
        self._is_loopback = all(ip_address(one.getsockname()[0]).is_loopback for one in bound)
        self._routes: dict[bytes, Callable[[bytes], Page]] = {
            b"/metrics": self._show_metrics,
            b"/health/live": self._show_live,
            b"/health/ready": self._show_ready,
        }
        """All there is: what is not here is not served."""
        self._servers: list[asyncio.Server] = []
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def address(self) -> str:
        """`HOST:PORT` where it listens."""
        host, port = self._sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def port(self) -> int:
        return cast("int", self._sockets[0].getsockname()[1])

    async def start(self) -> None:
        for bound in self._sockets:
            self._servers.append(await asyncio.start_server(self._connected, sock=bound, limit=16384))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MOST_AT_ONCE:
            writer.transport.abort()
            return
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks[task] = None
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD_BYTES)
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._serve(protocol, reader, writer)
        except (TimeoutError, OSError, asyncio.CancelledError):
            pass  # the client is slow or gone, or we are stopping
        except h11.RemoteProtocolError as error:
            events.emit(events.HTTP_FAILED, reason="", error=error, client=writer.get_extra_info("peername"))
            if protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._answer(protocol, writer, text(error.error_status_hint, "this is no request"), b"GET")
        finally:
            self._tasks.pop(task, None)
            writer.close()

    async def _serve(
        self, protocol: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(await reader.read(4096))
            elif isinstance(event, h11.Request):
                hosts = [value for name, value in event.headers if name == b"host"]
                page = self._page(event.method, event.target, hosts)
                self._answer(protocol, writer, page, event.method)
                await writer.drain()
                return
            else:
                return

    def _answer(
        self, protocol: h11.Connection, writer: asyncio.StreamWriter, page: Page, method: bytes
    ) -> None:
        headers = [
            ("Content-Type", page.content_type),
            ("Content-Length", str(len(page.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        if page.status == 405:
            headers.append(("Allow", ", ".join(METHODS)))
        head = protocol.send(h11.Response(status_code=page.status, headers=headers)) or b""
        body = b"" if method == b"HEAD" else protocol.send(h11.Data(data=page.body)) or b""
        writer.write(head + body)

    def _page(self, method: bytes, target: bytes, hosts: list[bytes]) -> Page:
        """What is answered.  The path has to be that of a route, byte by byte: nothing is decoded or cleaned."""
        if self._is_loopback and not (len(hosts) == 1 and is_own_address(hosts[0])):
            return text(421, "this listener is for this machine: ask for 127.0.0.1 or localhost")
        path, _, query = target.partition(b"?")
        route = self._routes.get(path)
        if route is None:
            return text(404, "there are /metrics, /health/live and /health/ready")
        if method.decode("ascii", "replace") not in METHODS:
            return text(405, "only GET")
        return route(query)

    # -- the pages --

    def _show_metrics(self, query: bytes) -> Page:
        from barnabas.server.observe.exposition import CONTENT_TYPE, Names, exposition

        style = Names.JMX if query == b"names=jmx" else Names.KAFKA
        return Page(200, CONTENT_TYPE, exposition(self._metrics, style))

    def _show_live(self, query: bytes) -> Page:
        return text(200, "live")

    def _show_ready(self, query: bytes) -> Page:
        reason = self._not_ready()
        return text(200, "ready") if reason is None else text(503, reason)

    def __repr__(self) -> str:
        return f"<HttpServer {len(self._tasks)} requests>"
