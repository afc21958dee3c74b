"""The console while it runs: a port of this machine, and what stands behind it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

from barnabas.client.metadata import parse_bootstrap
from barnabas.console.door import LARGEST_HEAD_BYTES, Door
from barnabas.console.entrance import Entrance
from barnabas.console.routes import Routes
from barnabas.console.sessions import Sessions
from barnabas.errors import ConfigError

__all__ = ["Console", "run"]

HOST = "127.0.0.1"
"""Nowhere else: there is no TLS, and who reaches it may type a password into it."""


class Console:
    """`async with Console("127.0.0.1:9092", {}) as console: console.url`."""

    def __init__(self, bootstrap: str, options: Mapping[str, str], port: int = 0) -> None:
        """Raises ConfigError for an address that is none, and for options that hold somebody's credentials."""
        parse_bootstrap(bootstrap)
        self.sessions = Sessions(bootstrap)
        self._routes = Routes(Entrance(self.sessions, options), self.sessions)
        self._port = port
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Console {self.sessions!r}>"

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        assert self._server is not None, "it serves"
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/"

    async def __aenter__(self) -> Console:
        door = Door(self._routes.serve)
        try:
            self._server = await asyncio.start_server(
                door.connected, HOST, self._port, limit=LARGEST_HEAD_BYTES
            )
        except OSError as error:
            raise ConfigError(
                f"the console cannot listen at {HOST}:{self._port}: {os.strerror(error.errno or 0)}",
                next_step="give another --port",
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.sessions.stop()


def run(bootstrap: str, options: Mapping[str, str], port: int, say: Callable[[str], object]) -> None:
    """Serve until Ctrl-C or SIGTERM; `say` hears the address.  Raises ConfigError."""

    async def serve() -> None:
        ended = asyncio.Event()
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(one, ended.set)
        async with Console(bootstrap, options, port) as console:
            say(console.url)
            await ended.wait()

    asyncio.run(serve())
