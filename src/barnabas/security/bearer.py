"""OAUTHBEARER (RFC 7628, KIP-255) from the server's side: the client's first message, and what a refusal says.

    client  n,[a=NAME],^Aauth=Bearer TOKEN^A[KEY=VALUE^A]^A
    server  nothing (it is logged in), or {"status":"invalid_token"}, to which the client answers ^A

Who the token names is asked elsewhere (`jwt`); its text goes no further than that.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.security.scram import LoginRefused

__all__ = ["INVALID_TOKEN", "MOST_TOKEN", "Bearer", "BearerMessage", "read_bearer"]

INVALID_TOKEN = b'{"status":"invalid_token"}'
MOST_TOKEN = 32 << 10
"""Characters of a token: those with hundreds of groups have 10,000."""

_HEADER = re.compile(r"n,(?:a=((?:[^\0=,\x01]|=2C|=3D)+))?,")
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[!-~ \t\r\n]+")
_AUTH = re.compile(r"(\w+) +([-_.A-Za-z0-9]+)", re.ASCII)
_NO_BEARER = "Authentication failed: Invalid OAUTHBEARER client first message"


class BearerMessage(NamedTuple):
    """What the client says first.  `name` is whom it wants to be, "" where it leaves that to its token."""

    token: str
    name: str
    extensions: dict[str, str]

    def __repr__(self) -> str:
        return f"<BearerMessage name={self.name!r}>"


class Bearer(NamedTuple):
    """Whom a token names, and until when (seconds since 1970)."""

    user: str
    until: float


def read_bearer(message: bytes) -> BearerMessage:
    """The client's first message.  Raises LoginRefused, which never quotes it."""
    if len(message) > MOST_TOKEN + 4096:
        raise LoginRefused(f"the client's first message has {len(message)} bytes", said=_NO_BEARER)
    try:
        text = bytes(message).decode()
    except UnicodeDecodeError:
        raise LoginRefused("the client's first message is not UTF-8", said=_NO_BEARER) from None
    header, first, rest = text.partition("\x01")
    found = _HEADER.fullmatch(header)
    if found is None or not first or not (rest == "\x01" or rest.endswith("\x01\x01")):
        raise LoginRefused("the client's first message is not OAUTHBEARER's", said=_NO_BEARER)
    pairs: dict[str, str] = {}
    for pair in rest.split("\x01")[:-2]:
        key, equals, value = pair.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise LoginRefused("the client's first message has no pair key=value", said=_NO_BEARER)
        if key in pairs:
            raise LoginRefused(f"the client's first message has {key[:40]} twice", said=_NO_BEARER)
        pairs[key] = value
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None or auth[1].lower() != "bearer":
        raise LoginRefused("the client's first message has no auth=Bearer and a token", said=_NO_BEARER)
    if len(auth[2]) > MOST_TOKEN:
        raise LoginRefused(f"the client's token has {len(auth[2])} characters", said=_NO_BEARER)
    name = (found[1] or "").replace("=2C", ",").replace("=3D", "=")
    return BearerMessage(auth[2], name, pairs)
