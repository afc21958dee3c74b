"""The sender of a request and its listener: what handlers and cores get besides the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.server.net.connection import Connection
    from barnabas.wire.frame import RequestHeader

__all__ = ["NoAnswerError", "RequestContext"]


class NoAnswerError(BarnabasError):
    """A request that cannot be answered: its connection ends."""


class RequestContext:
    """One request.  What belongs to its connection is read from there.

    `request_id` counts all requests of the node; `received` is in monotonic seconds.
    """

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "received", "request_id", "version")

    def __init__(
        self, connection: Connection, header: RequestHeader, request_id: int, received: float
    ) -> None:
        self.connection = connection
        self.api_key, self.version, self.correlation_id, self.client_id = header
        self.request_id = request_id
        self.received = received

    @property
    def connection_id(self) -> int:
        return self.connection.id

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def listener(self) -> str:
        return self.connection.listener.name

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def client_port(self) -> int:
        return self.connection.client_port

    @property
    def local_host(self) -> str:
        """The address the client dialled."""
        return self.connection.local_host

    @property
    def local_port(self) -> int:
        return self.connection.local_port

    def __repr__(self) -> str:
        return f"<RequestContext {self.request_id} api={self.api_key} v{self.version} {self.client_host}>"
