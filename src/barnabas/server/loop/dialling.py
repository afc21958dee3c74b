"""Dialling another node.  Where one of the two does not believe the other, the log says so."""

from __future__ import annotations

import logging

from barnabas.client.aio.connection import AsyncConnection, IsOut
from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Security
from barnabas.server.observe import events
from barnabas.wire.frame import HEAP, FrameMemory

__all__ = ["dial"]

NOT_BELIEVED = events.register(
    "node.not-believed",
    logging.WARNING,
    "another node does not let this one in, or this one does not believe who it is",
)


async def dial(
    host: str,
    port: int,
    *,
    client_id: str,
    security: Security,
    connect_timeout: float,
    timeout: float = 30.0,  # noqa: ASYNC109  the default of later requests, as in AsyncConnection.connect
    memory: FrameMemory = HEAP,
    is_out: IsOut | None = None,
) -> AsyncConnection:
    """Connect and log in, with `is_out` as AsyncConnection.connect takes it.

    Raises as AsyncConnection.connect: ConnectionFailed, AuthenticationFailed.
    """
    try:
        return await AsyncConnection.connect(
            host,
            port,
            client_id=client_id,
            timeout=timeout,
            connect_timeout=connect_timeout,
            memory=memory,
            security=security,
            is_out=is_out,
        )
    except AuthenticationFailed as error:
        where = f"{host}:{port}"
        events.emit(NOT_BELIEVED, reason=where, address=where, error=error, next=error.next_step or "")
        raise
