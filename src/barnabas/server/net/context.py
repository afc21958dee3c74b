"""The client of a connection and its requests: what handlers and cores get besides the request itself."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.errors import BarnabasError
from barnabas.server.net.secure.session import Session
from barnabas.wire.frame import RequestHeader

__all__ = ["Client", "NoAnswerError", "RequestContext"]


class NoAnswerError(BarnabasError):
    """A request that cannot be answered: its connection ends."""


class Client:
    """The other side of one connection, and the listener that it dialled.

    `id` counts the connections of the node.  `kind` of the listener: "B" serves clients, "C" controllers;
    `advertised`: clients are told a configured address instead of the one they dialled.
    """

    __slots__ = (
        "_principal",
        "advertised",
        "began",
        "by_token",
        "hang_up",
        "host",
        "id",
        "is_forwarded",
        "kind",
        "listener",
        "local_host",
        "local_port",
        "login",
        "port",
        "principal_changed",
        "software",
    )

    def __init__(
        self, id_: int, listener: str, kind: str, advertised: bool, hang_up: Callable[[], None]
    ) -> None:
        self.id = id_
        self.listener = listener
        self.kind = kind
        self.advertised = advertised
        self.hang_up = hang_up
        """Sends what is ready, and ends the connection."""
        self.principal_changed: Callable[[], None] | None = None
        """Called when the client turns out to be somebody: what was learned of it as somebody else is void."""
        self._principal = "User:ANONYMOUS"
        self.began: float | None = None
        """When it began its TLS handshake, by the clock of the event loop; None: there was none."""
        self.by_token = False
        """Whether it came by a delegation token: it may not ask for another."""
        self.is_forwarded = False
        """Whether a broker has sent its request on."""
        self.login: Session | None = None
        """Its login; None where the listener asks for none."""
        self.software = ""
        """Name and version of the client's library, once it said so (ApiVersions v3)."""
        self.host = self.local_host = ""
        """`local_host` is the address that the client dialled."""
        self.port = self.local_port = 0

    @property
    def principal(self) -> str:
        """Who it is: type and name, as "User:alice"."""
        return self._principal

    @principal.setter
    def principal(self, principal: str) -> None:
        self._principal = principal
        if self.principal_changed is not None:
            self.principal_changed()

    def for_another(self, principal: str, host: str, by_token: bool = False) -> Client:
        """The client whose request this one (a broker) forwards."""
        client = Client(self.id, self.listener, self.kind, self.advertised, self.hang_up)
        client.principal, client.software = principal, self.software
        client.by_token, client.is_forwarded = by_token, True
        client.host, client.port = host, self.port
        client.local_host, client.local_port = self.local_host, self.local_port
        return client

    def __repr__(self) -> str:
        return f"<Client {self.id} {self.host}:{self.port}>"


class RequestContext:
    """One request.  What belongs to its connection is read from its client.

    `request_id` counts all requests of the node; `received` is in monotonic seconds, `size` in bytes.
    """

    __slots__ = (
        "api_key",
        "between_brokers",
        "client",
        "client_id",
        "correlation_id",
        "received",
        "request_id",
        "size",
        "version",
        "wait_s",
    )

    def __init__(
        self, client: Client, header: RequestHeader, request_id: int, received: float, size: int = 0
    ) -> None:
        self.client = client
        self.api_key, self.version, self.correlation_id, self.client_id = header
        self.request_id = request_id
        self.received = received
        self.size = size
        self.wait_s = 0.0
        """How long its client must wait, because of a quota."""
        self.between_brokers = False
        """Whether a broker replicates by it, or asks what only brokers ask: no quota limits that."""

    @property
    def header(self) -> RequestHeader:
        """The header with which it came."""
        return RequestHeader(self.api_key, self.version, self.correlation_id, self.client_id)

    @property
    def connection_id(self) -> int:
        return self.client.id

    @property
    def principal(self) -> str:
        return self.client.principal

    @property
    def user(self) -> str:
        """The principal without its type: whom quotas name."""
        return self.client.principal.partition(":")[2]

    @property
    def listener(self) -> str:
        return self.client.listener

    @property
    def client_host(self) -> str:
        return self.client.host

    @property
    def client_port(self) -> int:
        return self.client.port

    @property
    def local_host(self) -> str:
        """The address the client dialled."""
        return self.client.local_host

    @property
    def local_port(self) -> int:
        return self.client.local_port

    def __repr__(self) -> str:
        return f"<RequestContext {self.request_id} api={self.api_key} v{self.version} {self.client_host}>"
