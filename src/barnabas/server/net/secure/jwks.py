"""The keys of a token's issuer, fetched beside the loop: at the start, every hour, and for a key not seen before.

While the endpoint is down the keys that were fetched go on counting; a token ends by itself.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import NamedTuple

from barnabas.client.security.options import Tls
from barnabas.client.security.tls import context_of
from barnabas.client.security.tokens import opener_of
from barnabas.errors import ConfigError
from barnabas.security.jwt import Keys, read_keys
from barnabas.server.observe import events

__all__ = ["JwksEndpoint", "JwksSource", "fetched"]

MOST_BYTES = 1 << 20
TIMEOUT_S = 10.0
_LONGEST_S = 10 * 365 * 86400.0
UNKNOWN_KEY_S = 60.0
"""Tokens with keys not seen before have the endpoint asked no more often than that."""


class JwksSource(NamedTuple):
    """Where keys are, whom to trust there, and how often to ask: then, and again after a failure."""

    url: str
    tls: Tls
    refresh_s: float
    retry_s: float
    retry_most_s: float


class JwksEndpoint:
    """`keys` are what was fetched last.  `run` fetches them, `renewal` asks for a key that is not there."""

    __slots__ = ("_asked", "_awaited", "_busy", "_clock", "_fetch", "_source", "_wanted", "_works", "keys")

    def __init__(
        self,
        source: JwksSource,
        fetch: Callable[[JwksSource], bytes] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.keys = Keys()
        self._source = source
        self._fetch = fetch or fetched
        self._clock = clock
        self._asked = float("-inf")
        """When the endpoint was asked last, in monotonic seconds."""
        self._awaited: asyncio.Future[None] | None = None
        """Those who wait for the next fetch, or for the one under way."""
        self._wanted = asyncio.Event()
        self._works = True
        self._busy = False
        """Whether a thread is fetching, perhaps beyond the time that was waited for it."""

    def __repr__(self) -> str:
        return f"<JwksEndpoint {self._source.url} {len(self.keys)} keys>"

    async def run(self) -> None:
        """Fetch now and again, until it is cancelled."""
        pause = self._source.retry_s
        while True:
            self._asked = self._clock()
            self._awaited = self._awaited or asyncio.get_running_loop().create_future()
            has_worked = await self._ask()
            self._awaited.set_result(None)
            self._awaited = None
            wait = self._source.refresh_s if has_worked else pause
            pause = self._source.retry_s if has_worked else min(pause * 2, self._source.retry_most_s)
            try:
                async with asyncio.timeout(min(wait, _LONGEST_S)):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    def renewal(self) -> asyncio.Future[None] | None:
        """Ends with the fetch that may bring a key not seen before; None: the endpoint was asked just now."""
        if self._awaited is None:
            if self._clock() - self._asked < UNKNOWN_KEY_S:
                return None
            self._awaited = asyncio.get_running_loop().create_future()
            self._wanted.set()
        return asyncio.shield(self._awaited)

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                content = await self._beside()
            self.keys = read_keys(content)
        except (ConfigError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                error = ConfigError(f"it does not answer within {TIMEOUT_S:g} s")
            if self._works:
                url = self._source.url
                events.emit(events.KEYS_FAILED, reason=url, endpoint=url, keys=len(self.keys), error=error)
            self._works = False
            return False
        self._works = True
        events.emit(events.KEYS_FETCHED, endpoint=self._source.url, keys=len(self.keys))
        return True

    async def _beside(self) -> bytes:
        """Fetch in a thread that nobody waits for when the node ends."""
        if self._busy:
            raise ConfigError("it does not end its answer")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._busy = True
        threading.Thread(target=self._fetch_for, args=(answer,), name="jwks", daemon=True).start()
        return await answer

    def _fetch_for(self, answer: asyncio.Future[bytes]) -> None:
        """(in the thread)"""
        try:
            tell: Callable[[], None] = partial(_set, answer, self._fetch(self._source))
        except Exception as error:
            known = error if isinstance(error, ConfigError) else ConfigError(str(error)[:200])
            tell = partial(_fail, answer, known)
        self._busy = False
        try:
            answer.get_loop().call_soon_threadsafe(tell)
        except RuntimeError:
            return  # the node has ended


def _set(answer: asyncio.Future[bytes], content: bytes) -> None:
    if not answer.done():
        answer.set_result(content)


def _fail(answer: asyncio.Future[bytes], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


# -- one fetch -------------------------------------------------------------------------------------


def fetched(source: JwksSource) -> bytes:
    """What the endpoint has.  Waits for it.  Raises ConfigError."""
    if source.url.startswith("file:"):
        return _read(urllib.request.url2pathname(urllib.parse.urlsplit(source.url).path))
    over_tls = source.url.startswith("https:")
    opener = (
        opener_of(urllib.request.HTTPSHandler(context=context_of(source.tls))) if over_tls else opener_of()
    )
    request = urllib.request.Request(source.url, headers={"Accept": "application/json"})
    until, found = monotonic() + TIMEOUT_S, b""
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            while piece := answer.read1(1 << 16):
                found += piece
                if len(found) > MOST_BYTES:
                    raise ConfigError(f"its answer has more than {MOST_BYTES} bytes")
                if monotonic() > until:
                    raise ConfigError(f"its answer takes more than {TIMEOUT_S:g} s")
    except urllib.error.HTTPError as error:
        hint = "it redirects: name the URL that it redirects to" if 300 <= error.code < 400 else None
        raise ConfigError(f"it answers HTTP {error.code}", next_step=hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        hint = "name its authority by ssl.truststore.location in the listener's sasl.jaas.config"
        distrusted = isinstance(reason, ssl.SSLCertVerificationError)
        raise ConfigError(str(reason)[:200], next_step=hint if distrusted else None) from None
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            found = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}") from None
    if len(found) > MOST_BYTES:
        raise ConfigError(f"it has more than {MOST_BYTES} bytes")
    return found
