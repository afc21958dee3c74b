"""SCRAM (RFC 5802, RFC 7677): the formulas, what a server keeps of a password, and the server's side of a login.

A server keeps a `ScramCredential` and never the password.  It says the same to a user who does not exist as to one
who gave a wrong password: both get a salt, and both are refused after their proof.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import NamedTuple

from barnabas.errors import BarnabasError

__all__ = [
    "FEWEST_ITERATIONS",
    "MECHANISMS",
    "MOST_ITERATIONS",
    "LoginRefused",
    "ScramCredential",
    "ScramServer",
    "client_proof",
    "credential_of",
    "made_up_credential",
    "salt_size",
    "salted_password",
    "server_signature",
]

MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Name by the code that requests and metadata records use (KIP-554)."""
FEWEST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
"""What Kafka takes for a credential."""
_HASHES = {"SCRAM-SHA-1": "sha1", "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NAME = r"(?:[^\0=,]|=2C|=3D)*"
_CLIENT_FIRST = re.compile(
    rf"(n,(?:a=({_NAME}))?,)(n=({_NAME}),r=([!-+\--~]{{1,500}})((?:,[A-Za-z]=[^\0,]*|,[A-Za-z]+=[^\0,]*)*))"
)
_CLIENT_FINAL = re.compile(
    r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)((?:,[A-Za-z]+=[^\0,]*)*?)),p=([A-Za-z0-9+/=]+)"
)
_LONGEST = 16 << 10
_TEXT, _TEXT_BITS, _LONGEST_TEXT = re.compile(rb"[0-9a-z]{20,}"), 130, 26
"""A salt of Kafka's tools: a number of so many bits in base 36."""


class LoginRefused(BarnabasError):  # noqa: N818  says what happened, as AuthenticationFailed does
    """Who somebody says it is was not believed.  Its text is for the node's log; `said` may reach the client.

    `is_logged`: the log has it already.  `may_pass_later`: not for good.
    """

    may_pass_later = False

    def __init__(self, message: str, *, said: str = "", next_step: str | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.said = said
        self.is_logged = False


# -- the formulas ----------------------------------------------------------------------------------


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """SaltedPassword of RFC 5802: the costly one."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password, salt, iterations)


def client_proof(mechanism: str, salted: bytes, auth_message: bytes) -> bytes:
    """ClientProof: shows the server that the client knows the password."""
    kind = _HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", kind)
    stored_key = hashlib.new(kind, client_key).digest()
    return _xor(client_key, hmac.digest(stored_key, auth_message, kind))


def server_signature(mechanism: str, salted: bytes, auth_message: bytes) -> bytes:
    """ServerSignature: shows the client that the server knows the user."""
    kind = _HASHES[mechanism]
    return hmac.digest(hmac.digest(salted, b"Server Key", kind), auth_message, kind)


def _as_text(number: int) -> bytes:
    """A number in base 36, as Java writes it."""
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(b"0123456789abcdefghijklmnopqrstuvwxyz"[digit])
    return bytes(reversed(digits))


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# -- what a server keeps ---------------------------------------------------------------------------


class ScramCredential(NamedTuple):
    """What proves a password without telling it.  `salt` and keys are bytes; secrets: never print them."""

    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"<ScramCredential {self.mechanism} iterations={self.iterations}>"

    def fits(self, password: bytes) -> bool:
        """Whether that is the password.  Costs `iterations` hashes: milliseconds."""
        salted = salted_password(self.mechanism, password, self.salt, self.iterations)
        found = credential_of(self.mechanism, salted, self.salt, self.iterations)
        return hmac.compare_digest(found.stored_key, self.stored_key)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    kind = _HASHES[mechanism]
    stored = hashlib.new(kind, hmac.digest(salted, b"Client Key", kind)).digest()
    return ScramCredential(mechanism, salt, stored, hmac.digest(salted, b"Server Key", kind), iterations)


def salt_size(salt: bytes) -> int:
    """How many random bytes it has; 0: it is text, as Apache Kafka's tools make them."""
    return 0 if len(salt) <= _LONGEST_TEXT and _TEXT.fullmatch(salt) else len(salt)


def made_up_credential(
    mechanism: str, key: bytes, name: str, iterations: int, size: int = 24
) -> ScramCredential:
    """The credential of a user who does not exist: the same for each try, and no password fits.

    `size` is the `salt_size` of those who do: who looks at salts must not see the difference.
    """
    drawn = hmac.digest(key, b"salt " + name.encode(), "sha512")
    salt = drawn[:size] if size else _as_text(int.from_bytes(drawn) % (1 << _TEXT_BITS))
    size = hashlib.new(_HASHES[mechanism]).digest_size
    return ScramCredential(mechanism, salt, b"\0" * size, b"\0" * size, iterations)


# -- a login, from the server's side ---------------------------------------------------------------


class ScramServer:
    """`ScramServer(client-first)` names the user; then come `challenge(credential, nonce)` and `finish(last)`."""

    __slots__ = (
        "_bare",
        "_client_nonce",
        "_credential",
        "_first",
        "_header",
        "_is_made_up",
        "by_token",
        "user",
    )

    def __init__(self, client_first: bytes) -> None:
        """Reads the first message.  Raises LoginRefused."""
        found = _CLIENT_FIRST.fullmatch(_text(client_first))
        if found is None:
            raise LoginRefused("the client's first message is not SCRAM's")
        self._header, authzid, self._bare, name, self._client_nonce, extensions = found.groups()
        self.user = _plain(name)
        if not self.user:
            raise LoginRefused("the client names no user")
        if authzid and _plain(authzid) != self.user:
            raise LoginRefused(f"user {self.user[:100]} asks to be {_plain(authzid)[:100]}")
        self.by_token = re.search(r",tokenauth=true(,|$)", extensions, re.IGNORECASE) is not None
        """Whether `user` is the id of a delegation token."""
        self._first = ""
        self._credential: ScramCredential | None = None
        self._is_made_up = False

    def __repr__(self) -> str:
        return f"<ScramServer user={self.user!r}>"

    def challenge(self, credential: ScramCredential, nonce: str, *, is_made_up: bool = False) -> bytes:
        """The server's first message.  `is_made_up`: there is no such user, which only the log may say."""
        salt = base64.b64encode(credential.salt).decode()
        self._credential, self._is_made_up = credential, is_made_up
        self._first = f"r={self._client_nonce}{nonce},s={salt},i={credential.iterations}"
        return self._first.encode()

    def finish(self, client_final: bytes) -> bytes:
        """The server's last message, which proves it to the client.  Raises LoginRefused."""
        credential = self._credential
        assert credential is not None, "challenge comes first"
        found = _CLIENT_FINAL.fullmatch(_text(client_final))
        if found is None:
            raise LoginRefused("the client's last message is not SCRAM's")
        without_proof, channel, nonce, _, proof = found.groups()
        if not hmac.compare_digest(nonce, self._first[2 : self._first.index(",")]):
            raise LoginRefused("the client's nonce is not that of this login")
        if _decoded(channel) != self._header.encode():
            raise LoginRefused("the client's channel binding is not what it began with")
        kind = _HASHES[credential.mechanism]
        whole = f"{self._bare},{self._first},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, whole, kind)
        said = _decoded(proof)
        client_key = _xor(said, signature) if len(said) == len(signature) else b""
        is_right = hmac.compare_digest(hashlib.new(kind, client_key).digest(), credential.stored_key)
        what = "delegation token" if self.by_token else "user"
        if self._is_made_up and self.by_token:
            raise LoginRefused(f"there is no delegation token {self.user[:100]}, or it has ended")
        if self._is_made_up:
            raise LoginRefused(f"there is no user {self.user[:100]} with {credential.mechanism}")
        if not is_right:
            raise LoginRefused(f"the password of {what} {self.user[:100]} is wrong")
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, whole, kind))


def _text(message: bytes) -> str:
    if len(message) > _LONGEST:
        raise LoginRefused(f"the client's message has {len(message)} bytes: that is no SCRAM")
    try:
        return bytes(message).decode()
    except UnicodeDecodeError:
        raise LoginRefused("the client's message is no SCRAM: it is not UTF-8") from None


def _plain(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginRefused("the client's message is no SCRAM: it is not base64") from None
