"""A few pages over HTTP, on a port of their own: /metrics (?names=jmx), /health/live, /health/ready.

Live: the event loop runs (otherwise there would be no answer). Ready: the node has started, knows a leader of
the quorum, and every log directory that it needs is online; otherwise 503 and the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import h11

from barnabas.server.observe import events

if TYPE_CHECKING:
    import socket

    from barnabas.server.observe.metrics import Metrics

__all__ = ["HttpServer", "Page"]

LONGEST_S = 10.0
"""A client gets this long for its request."""


class Page(NamedTuple):
    """One answer."""

    status: int
    content_type: str
    body: bytes


def text(status: int, line: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", line.encode() + b"\n")


class HttpServer:
    """Serves the pages on a bound socket."""

    __slots__ = ("_metrics", "_not_ready", "_server", "_socket", "_tasks")

    def __init__(self, bound: socket.socket, metrics: Metrics, not_ready: Callable[[], str | None]) -> None:
        self._socket = bound
        self._metrics = metrics
        self._not_ready = not_ready
        """Why this node is not ready, or None."""
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def address(self) -> str:
        """`HOST:PORT` where it listens."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def port(self) -> int:
        return cast("int", self._socket.getsockname()[1])

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, sock=self._socket, limit=16384)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks[task] = None
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.CancelledError):
            pass  # the client is slow or gone, or we are stopping
        except h11.RemoteProtocolError as error:
            events.emit(events.HTTP_FAILED, reason="", error=error, client=writer.get_extra_info("peername"))
        finally:
            self._tasks.pop(task, None)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = h11.Connection(h11.SERVER)
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(await reader.read(4096))
            elif isinstance(event, h11.Request):
                page = self._page(event.method, *event.target.partition(b"?")[::2])
                headers = [
                    ("Content-Type", page.content_type),
                    ("Content-Length", str(len(page.body))),
                    ("Connection", "close"),
                ]
                head = protocol.send(h11.Response(status_code=page.status, headers=headers)) or b""
                body = b"" if event.method == b"HEAD" else protocol.send(h11.Data(data=page.body)) or b""
                writer.write(head + body)
                await writer.drain()
                return
            else:
                return

    def _page(self, method: bytes, target: bytes, query: bytes) -> Page:
        if method not in (b"GET", b"HEAD"):
            return text(405, "only GET")
        if target == b"/metrics":
            from barnabas.server.observe.exposition import CONTENT_TYPE, Names, exposition

            style = Names.JMX if query == b"names=jmx" else Names.KAFKA
            return Page(200, CONTENT_TYPE, exposition(self._metrics, style))
        if target == b"/health/live":
            return text(200, "live")
        if target == b"/health/ready":
            reason = self._not_ready()
            return text(200, "ready") if reason is None else text(503, reason)
        return text(404, "there are /metrics, /health/live and /health/ready")

    def __repr__(self) -> str:
        return f"<HttpServer {len(self._tasks)} requests>"
