"""The SASL mechanisms as machines without sockets: what the other side said in, what to say out.

SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628), from the client's side.
Passwords are UTF-8 as they are, for Kafka's own SCRAM does so, too.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.errors import BarnabasError
from barnabas.security.scram import (
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    client_proof,
    salted_password,
    server_signature,
)

__all__ = [
    "MECHANISMS",
    "Exchange",
    "ExchangeError",
    "OAuthBearer",
    "Plain",
    "Scram",
]

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
_LONGEST = 64 << 10


class ExchangeError(BarnabasError):
    """The other side broke the rules of the mechanism, or did not prove who it is."""


class Exchange(Protocol):
    """One login.  `respond(None)` is what the client says first."""

    @property
    def complete(self) -> bool:
        """Whether the mechanism has seen all that it asks of the other side."""
        ...

    def respond(self, challenge: bytes | None) -> bytes | None:
        """What to say to the challenge; None: nothing more.  Raises ExchangeError."""
        ...


# -- the mechanisms --------------------------------------------------------------------------------


class Scram:
    """`Scram("SCRAM-SHA-512", "ada", "secret", nonce)`; the nonce is fresh for each login."""

    def __init__(
        self, mechanism: str, username: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        """`by_token`: the name is the id of a delegation token (KIP-48), and the password its HMAC in base64."""
        self.mechanism = mechanism
        self.complete = False
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}" + (",tokenauth=true" if by_token else "")
        self._signature: bytes | None = None

    def __repr__(self) -> str:
        return f"<Scram {self.mechanism} complete={self.complete}>"

    def respond(self, challenge: bytes | None) -> bytes | None:
        """First our name and nonce, then the proof, then nothing."""
        if challenge is None:
            return f"n,,{self._first}".encode()
        if self.complete:
            raise ExchangeError("the broker goes on after its signature")
        fields = _fields(challenge)
        if self._signature is None:
            return self._proof(fields, challenge.decode())
        if "e" in fields:
            raise ExchangeError(f"the broker refuses the login: {fields['e'][:100]}")
        if not hmac.compare_digest(_bytes(fields, "v"), self._signature):
            raise ExchangeError(
                "the broker's signature is wrong: it does not know this user's password",
                next_step="check that this is your broker: somebody may stand between",
            )
        self.complete = True
        return None

    def _proof(self, fields: Mapping[str, str], challenge: str) -> bytes:
        if "m" in fields:
            raise ExchangeError("the broker asks for an extension of SCRAM that we do not know")
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ExchangeError(
                "the broker's nonce does not continue ours: the answer belongs to another login"
            )
        salt, iterations = _bytes(fields, "s"), _iterations(fields.get("i", ""))
        bare = f"c=biws,r={nonce}"
        auth_message = f"{self._first},{challenge},{bare}".encode()
        salted = salted_password(self.mechanism, self._password, salt, iterations)
        self._signature = server_signature(self.mechanism, salted, auth_message)
        proof = base64.b64encode(client_proof(self.mechanism, salted, auth_message)).decode()
        return f"{bare},p={proof}".encode()


@dataclass
class Plain:
    """The password itself: for listeners with TLS."""

    username: str
    password: str = field(repr=False)
    complete: bool = False

    def respond(self, challenge: bytes | None) -> bytes | None:
        if challenge is None:
            self.complete = True
            return f"\0{self.username}\0{self.password}".encode()
        if challenge:
            raise ExchangeError("the broker asks for more than PLAIN has")
        return None


@dataclass
class OAuthBearer:
    """A token that somebody else issued; `extensions` go with it (KIP-342)."""

    token: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    complete: bool = False

    def respond(self, challenge: bytes | None) -> bytes | None:
        if challenge is None:
            self.complete = True
            pairs = "".join(f"{name}={value}\x01" for name, value in self.extensions.items())
            return f"n,,\x01auth=Bearer {self.token}\x01{pairs}\x01".encode()
        if not challenge:
            return None
        # A refusal is said in a challenge; the client acknowledges it, and the broker ends the login.
        self.complete = False
        return b"\x01"


def _fields(message: bytes) -> dict[str, str]:
    """`a=1,b=2` by letter.  The first of a letter counts."""
    if len(message) > _LONGEST:
        raise ExchangeError(f"the broker's answer has {len(message)} bytes: that is no SCRAM")
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise ExchangeError("the broker's answer is no SCRAM") from None
    found: dict[str, str] = {}
    for part in text.split(","):
        letter, equals, value = part.partition("=")
        if len(letter) != 1 or not equals:
            raise ExchangeError("the broker's answer is no SCRAM")
        found.setdefault(letter, value)
    return found


def _bytes(fields: Mapping[str, str], letter: str) -> bytes:
    try:
        found = base64.b64decode(fields.get(letter, ""), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise ExchangeError(f"the broker's answer lacks its field {letter}")
    return found


def _iterations(text: str) -> int:
    """As many as Kafka's users may have.  A hostile server asks for half an hour of work."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 10:
        raise ExchangeError("the broker does not say how often the password is hashed")
    if not FEWEST_ITERATIONS <= int(text) <= MOST_ITERATIONS:
        raise ExchangeError(
            f"the broker asks for {int(text)} iterations: we take {FEWEST_ITERATIONS} to {MOST_ITERATIONS}",
            next_step="check that this is your broker, then how its user was made (Kafka's are 4096 to 16384)",
        )
    return int(text)
