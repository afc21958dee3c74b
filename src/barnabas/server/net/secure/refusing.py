"""What the log says of a login that is refused: the same fields, wherever that happens."""

from __future__ import annotations

from barnabas.security.scram import LoginRefused
from barnabas.server.net.context import Client
from barnabas.server.observe import events

__all__ = ["say_refused"]


def say_refused(client: Client, error: LoginRefused, mechanism: str = "") -> None:
    """Say in the log that, and why, a client is not let in."""
    events.emit(
        events.LOGIN_REFUSED,
        reason=f"{client.host} {mechanism}",
        client=f"{client.host}:{client.port}",
        listener=client.listener,
        mechanism=mechanism,
        error=error,
    )
