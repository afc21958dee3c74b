"""A connection whose client logs in: its login, and what depends on how far that is."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Protocol

from barnabas.security.login import ServerLogin

__all__ = ["Guarded", "Session"]


class Guarded(Protocol):
    """The connection, as far as its login changes it."""

    max_frame: int

    def forget_doors(self) -> None:
        """Look anew at whatever comes next."""
        ...

    def mute(self, seconds: float) -> None:
        """Hear nothing for so long."""
        ...

    def close(self) -> None:
        """Send what is ready and hang up."""
        ...


class Session:
    """`login` says what is admitted; `timer` ends the login, and later the session.

    `take_raw` takes a token that has no header.
    """

    __slots__ = ("connection", "lasts_ms", "login", "take_raw", "timer")

    def __init__(self, login: ServerLogin, connection: Guarded, take_raw: Callable[[bytes], None]) -> None:
        self.login = login
        self.connection = connection
        self.take_raw = take_raw
        self.lasts_ms = 0
        """How long the session may last from its login on; 0: for ever."""
        self.timer: TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Session {self.login!r}>"

    def set_timer(self, timer: TimerHandle | None) -> None:
        """Have this timer instead of the one before."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = timer
