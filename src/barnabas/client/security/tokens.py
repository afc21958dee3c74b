"""OAUTHBEARER tokens from their endpoint (client credentials of RFC 6749), kept for most of their life.

An endpoint is asked over https, or on this machine; it is not followed elsewhere, and its answer is short.
Neither the secret nor the answer is ever in an error.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Sasl
from barnabas.client.waits.clock import monotonic
from barnabas.errors import ConfigError

__all__ = ["opener_of", "token_of"]

_LONGEST = 1 << 20
_TIMEOUT_S = 10.0
_FRESH = 0.8
_SECONDS = 300.0
"""How long a token counts whose endpoint does not say."""

_tokens: dict[Sasl, tuple[str, float]] = {}
_lock = threading.Lock()


def token_of(sasl: Sasl) -> str:
    """The token to log in with.  Waits for the endpoint.  Raises AuthenticationFailed, ConfigError."""
    if sasl.token:
        return sasl.token
    with _lock:
        token, until = _tokens.get(sasl, ("", 0.0))
        if monotonic() >= until:
            token, lasts = _fetched(sasl)
            _tokens[sasl] = token, monotonic() + _FRESH * lasts
        return token


class _StayHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def opener_of(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """What asks an endpoint itself: it follows no redirect, and goes by no proxy."""
    return urllib.request.build_opener(_StayHere, urllib.request.ProxyHandler({}), *handlers)


def _fetched(sasl: Sasl) -> tuple[str, float]:
    where = _checked(sasl.token_url)
    form = {"grant_type": "client_credentials"} | ({"scope": sasl.scope} if sasl.scope else {})
    pair = f"{urllib.parse.quote(sasl.client_id, '')}:{urllib.parse.quote(sasl.client_secret, '')}"
    request = urllib.request.Request(
        sasl.token_url,
        urllib.parse.urlencode(form).encode(),
        {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Accept": "application/json",
        },
    )
    try:
        with opener_of().open(request, timeout=_TIMEOUT_S) as answer:
            content = answer.read(_LONGEST + 1)
    except urllib.error.HTTPError as error:
        raise AuthenticationFailed(
            f"{where} gives no token: HTTP {error.code}", next_step="check the client's id, secret and scope"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise AuthenticationFailed(
            f"{where} cannot be asked for a token: {str(reason)[:200]}",
            next_step="check sasl.oauthbearer.token.endpoint.url, and that the endpoint runs",
        ) from None
    return _read(content, where)


def _read(content: bytes, where: str) -> tuple[str, float]:
    try:
        if len(content) > _LONGEST:
            raise ValueError
        tree = json.loads(content)
        token, lasts = tree["access_token"], float(tree.get("expires_in", _SECONDS))
        if (
            not isinstance(token, str)
            or not token.isascii()
            or not token.isprintable()
            or " " in token
            or not token
        ):
            raise ValueError
        if not 0 < lasts < 1e9:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuthenticationFailed(
            f"{where} answered with something that is no token",
            next_step="check sasl.oauthbearer.token.endpoint.url: it is the token endpoint, not the issuer",
        ) from None
    return token, lasts


def _checked(url: str) -> str:
    """The endpoint for errors (without a query).  Raises ConfigError where a secret would travel in the open."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    where = f"{parts.scheme}://{host}{parts.path}"
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_here(host)):
        raise ConfigError(
            f"sasl.oauthbearer.token.endpoint.url: {where[:200]} is not https",
            next_step="name an https endpoint",
        )
    return where


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
