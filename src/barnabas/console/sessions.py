"""The people who are logged in: each has connections to the cluster of their own, and nobody has others'."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from barnabas.client.admin.admin import Admin
from barnabas.client.security.options import Security

__all__ = ["Session", "Sessions"]

Found = TypeVar("Found")
MOST = 16
"""People at once; for one more, whoever has asked for nothing for longest goes."""
IDLE_S = 15 * 60.0
LONGEST_S = 8 * 3600.0
CALL_S = 10.0
"""How long the cluster may take for one question."""
_THREADS = 8
_TOKEN_BYTES = 32


class Session:
    """`user` is "" where the cluster has no login.  `ask` runs in a thread, one question at a time."""

    __slots__ = ("_has_ended", "_lock", "_threads", "admin", "began", "last", "user")

    def __init__(self, admin: Admin, user: str, now: float, threads: ThreadPoolExecutor) -> None:
        self.admin, self.user = admin, user
        self.began = self.last = now
        self._lock = asyncio.Lock()
        self._threads = threads
        self._has_ended = False

    async def ask(self, question: Callable[[Admin], Found]) -> Found:
        """What the cluster answers to this person.  Raises BarnabasError.

        The next question waits for this one, also when nobody waits for its answer any more.
        """
        await self._lock.acquire()
        asked = asyncio.get_running_loop().run_in_executor(self._threads, question, self.admin)
        asked.add_done_callback(self._answered)
        return await asyncio.shield(asked)

    def _answered(self, asked: asyncio.Future[Found]) -> None:
        self._lock.release()
        if not asked.cancelled():
            asked.exception()  # (whoever asked may have gone)
        if self._has_ended:
            self.admin.close()

    def close(self) -> None:
        """End its connections: now, or when the question under way is answered."""
        self._has_ended = True
        if not self._lock.locked():
            self.admin.close()

    def __repr__(self) -> str:
        return f"<Session of {self.user!r}>"


class Sessions:
    """`begin` logs in and returns what the browser keeps; `of` finds a session by it."""

    def __init__(self, bootstrap: str, now: Callable[[], float] = time.monotonic) -> None:
        self._bootstrap, self._now = bootstrap, now
        self._sessions: dict[bytes, Session] = {}
        """By the hash of what the browser keeps: a look-up tells nobody what that is.  Who asked last is last."""
        self._threads = ThreadPoolExecutor(_THREADS, "console")

    def __len__(self) -> int:
        return len(self._sessions)

    def __repr__(self) -> str:
        return f"<Sessions {len(self._sessions)}>"

    async def begin(self, security: Security, user: str) -> str:
        """Log in to the cluster.  Raises BarnabasError where it does not let this person in."""
        loop = asyncio.get_running_loop()
        admin = await loop.run_in_executor(self._threads, partial(_logged_in, self._bootstrap, security))
        self._sweep()
        if len(self._sessions) >= MOST:
            self._end(next(iter(self._sessions)))
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._sessions[_key(token)] = Session(admin, user, self._now(), self._threads)
        return token

    def of(self, token: str) -> Session | None:
        """The session, which counts as used; None: there is none, or it has ended."""
        self._sweep()
        key = _key(token)
        found = self._sessions.pop(key, None)
        if found is not None:
            found.last = self._now()
            self._sessions[key] = found
        return found

    def end(self, token: str) -> None:
        """Log out."""
        if (key := _key(token)) in self._sessions:
            self._end(key)

    def stop(self) -> None:
        """End all of them."""
        for key in list(self._sessions):
            self._end(key)
        self._threads.shutdown(wait=False)

    def _sweep(self) -> None:
        now = self._now()
        for key, session in list(self._sessions.items()):
            if now - session.last > IDLE_S or now - session.began > LONGEST_S:
                self._end(key)

    def _end(self, key: bytes) -> None:
        self._sessions.pop(key).close()


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _logged_in(bootstrap: str, security: Security) -> Admin:
    admin = Admin(bootstrap, client_id="barnabas-console", timeout=CALL_S, security=security)
    try:
        admin.describe_cluster()
    except BaseException:
        admin.close()
        raise
    return admin
