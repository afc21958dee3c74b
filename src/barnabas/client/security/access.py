"""What a shell needs to secure one connection: a TLS context, and a login for each session."""

from __future__ import annotations

import secrets
import ssl

from barnabas.client.security.login import Login
from barnabas.client.security.options import Security
from barnabas.client.security.sasl import Exchange, OAuthBearer, Plain, Scram
from barnabas.client.security.tls import context_of
from barnabas.client.security.tokens import token_of

__all__ = ["login_at", "renew_after", "tls_context"]

_NONCE_BYTES = 24
_RENEW_AT = 0.85
"""Part of a session's life after which we log in again; Kafka's clients do between 0.85 and 0.95."""


def tls_context(security: Security) -> ssl.SSLContext | None:
    """The context for connections; None without TLS.  Raises ConfigError."""
    return None if security.tls is None else context_of(security.tls)


def login_at(security: Security, address: str) -> Login | None:
    """A fresh login; None without SASL.  May wait for a token.  Raises AuthenticationFailed, ConfigError."""
    sasl = security.sasl
    if sasl is None:
        return None
    exchange: Exchange
    if sasl.mechanism == "PLAIN":
        exchange = Plain(sasl.username, sasl.password)
    elif sasl.mechanism == "OAUTHBEARER":
        exchange = OAuthBearer(token_of(sasl), dict(sasl.extensions))
    else:
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        exchange = Scram(sasl.mechanism, sasl.username, sasl.password, nonce, by_token=sasl.by_token)
    return Login(sasl.mechanism, exchange, address)


def renew_after(login: Login, now: float) -> float:
    """When to log in again (s of the same clock)."""
    return now + _RENEW_AT * login.lifetime_ms / 1000 if login.lifetime_ms > 0 else float("inf")
