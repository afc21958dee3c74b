"""Who logs in with a token (OAUTHBEARER): what each listener asks of tokens, and the keys to check them with."""

from __future__ import annotations

import asyncio
import ipaddress
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.client.security.options import Security
from barnabas.config import Config
from barnabas.errors import ConfigError
from barnabas.security.bearer import Bearer
from barnabas.security.jaas import JaasEntry
from barnabas.security.jwt import TokenRules, UnknownKey, token_bearer
from barnabas.security.scram import LoginRefused
from barnabas.server.loop.tasks import Tasks
from barnabas.server.net.secure.jwks import JwksEndpoint, JwksSource

__all__ = ["BearerRules", "Bearers", "bearer_rules"]

_URL, _ISSUER = "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.expected.issuer"
_AUDIENCE = "sasl.oauthbearer.expected.audience"
_ALLOWED = "barnabas.oauthbearer.allowed.urls"


class BearerRules(NamedTuple):
    """What a listener asks of tokens, and where their keys are."""

    rules: TokenRules
    source: JwksSource


class Bearers:
    """`look` says whom a token names; `renewal` asks its issuer for new keys."""

    __slots__ = ("_endpoints", "_now", "_rules")

    def __init__(
        self,
        tasks: Tasks,
        rules: Mapping[str, BearerRules],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`rules` are those of each listener, by name.  Listeners share the keys of one source."""
        self._rules, self._now = rules, now
        sources = {rule.source for rule in rules.values()}
        self._endpoints = {source: JwksEndpoint(source) for source in sources}
        for endpoint in self._endpoints.values():
            tasks.start(endpoint.run(), "keys of tokens")

    def __repr__(self) -> str:
        return f"<Bearers {', '.join(self._rules)}>"

    def look(self, listener: str, token: str) -> Bearer | LoginRefused:
        """Whom the token names, or why it is not taken."""
        rules, source = self._rules[listener]
        keys = self._endpoints[source].keys
        if not len(keys):
            return UnknownKey(
                "the issuer's keys are not here yet",
                next_step=f"see the event login.keys-failed, and {_URL}",
            )
        try:
            return token_bearer(token, keys, rules, self._now())
        except LoginRefused as error:
            return error

    def renewal(self, listener: str) -> asyncio.Future[None] | None:
        """A fetch of new keys that is under way or begins; None: they are not older than a minute."""
        return self._endpoints[self._rules[listener].source].renewal()


def bearer_rules(config: Config, listener: str, jaas: JaasEntry | None) -> BearerRules:
    """What a listener with OAUTHBEARER is told to ask of tokens.  Raises ConfigError."""
    at = config.at(listener)
    missing = [name for name in (_URL, _ISSUER, _AUDIENCE) if not at[name]]
    if missing:
        raise ConfigError(
            f"listener {listener}: OAUTHBEARER without {' and '.join(missing)} would take tokens of anybody",
            next_step=f"set {missing[0]}, for all listeners or as listener.name.{listener.lower()}.{missing[0]}",
        )
    url = at.str(_URL)
    _check_url(url, at.list(_ALLOWED))
    trusting = {
        name: text for name, text in (jaas.options if jaas else {}).items() if name.startswith("ssl.")
    }
    tls = Security.parse({"security.protocol": "SSL", **trusting}).tls
    assert tls is not None
    return BearerRules(
        TokenRules(
            at.str(_ISSUER),
            at.list(_AUDIENCE),
            at.int("sasl.oauthbearer.clock.skew.seconds"),
            at.str("sasl.oauthbearer.scope.claim.name"),
            at.str("sasl.oauthbearer.sub.claim.name"),
        ),
        JwksSource(
            url,
            tls,
            at.int("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
            at.int("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
            at.int("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
        ),
    )


def _check_url(url: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError for a URL that could be read, or changed, on the way, or that is no endpoint's."""
    parts = urllib.parse.urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigError(f"{_URL} has a user or a password in it", next_step="leave them out")
    if url in allowed and parts.scheme in ("https", "http", "file"):
        return
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"[:200]
    if parts.scheme != "https" or not parts.hostname:
        raise ConfigError(
            f"{_URL}: {shown} is not https",
            next_step=f"name the issuer's https URL; or list this one in {_ALLOWED}, if its keys are safe",
        )
    try:
        is_linked = ipaddress.ip_address(parts.hostname).is_link_local
    except ValueError:
        is_linked = False
    if is_linked:
        raise ConfigError(
            f"{_URL}: {shown} is the address of a machine's own services",
            next_step=f"name the issuer's URL, or list this one in {_ALLOWED}",
        )
