"""Tokens of an issuer: the client's first message, the compact form, signed claims, and the issuer's key set.

No token is taken whose header and claims the issuer has not signed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Hashable, Iterator

import pytest
from tests.fuzz.engine.target import Target

from barnabas.errors import ConfigError
from barnabas.security.bearer import read_bearer
from barnabas.security.jwt import TokenRules, read_keys, token_bearer
from barnabas.security.scram import LoginRefused

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["TARGETS"]

MESSAGE, TOKEN, CLAIMS, HEADER, KEYS = range(5)
ISSUER, NOW = "https://issuer.example/", 1_800_000_000.0
RULES = TokenRules(ISSUER, ("kafka",))
_PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_HEAD = b'{"alg":"EdDSA","kid":"one"}'
_CLAIMS = b'{"iss":"%s","aud":"kafka","exp":1800000600,"iat":1800000000,"sub":"ada"}' % ISSUER.encode()


def coded(data: bytes) -> bytes:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def signed(head: bytes, claims: bytes) -> bytes:
    """A token of the issuer."""
    said = coded(head) + b"." + coded(claims)
    return said + b"." + coded(_PRIVATE.sign(said))


def key_set() -> bytes:
    """What the issuer publishes."""
    public = coded(_PRIVATE.public_key().public_bytes_raw()).decode()
    return json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": public}]}).encode()


class _Door:
    def __init__(self) -> None:
        self.keys = read_keys(key_set())
        self.signed = {signed(_HEAD, _CLAIMS).rpartition(b".")[0].decode()}

    def put(self, data: bytes) -> Hashable:
        kind, rest = (data[0] % 5, data[1:]) if data else (MESSAGE, b"")
        if kind == KEYS:
            return kind, len(read_keys(rest))
        if kind == CLAIMS:
            user = token_bearer(signed(_HEAD, rest).decode(), self.keys, RULES, NOW).user
            assert user.strip() and user.isprintable() and len(user) < 256, "that is no name for an ACL"
            return kind, user[:4]
        if kind == HEADER:
            return kind, token_bearer(signed(rest, _CLAIMS).decode(), self.keys, RULES, NOW).user[:4]
        name, text = "", rest.decode("utf-8", "replace")
        if kind == MESSAGE:
            text, name, _ = read_bearer(rest)
        bearer = token_bearer(text, self.keys, RULES, NOW)
        assert text.rpartition(".")[0] in self.signed, "a token is taken that nobody has signed"
        return kind, bearer.user, name[:4]


def _seeds() -> Iterator[bytes]:
    token = signed(_HEAD, _CLAIMS)
    for header in (b"n,,", b"n,a=ada,", b"n,a=a=2Cb=3D,", b"y,,"):
        yield bytes((MESSAGE,)) + header + b"\x01auth=Bearer " + token + b"\x01traceId=7\x01\x01"
    yield bytes((TOKEN,)) + token
    yield bytes((TOKEN,)) + coded(b'{"alg":"none"}') + b"." + coded(_CLAIMS) + b"."
    yield bytes((TOKEN,)) + coded(b'{"alg":"HS256","kid":"one"}') + token[token.index(b".") :]
    yield bytes((CLAIMS,)) + _CLAIMS
    yield bytes((CLAIMS,)) + _CLAIMS[:-1] + b',"nbf":1800000001.5,"scope":["a","b"],"aud":["x","kafka"]}'
    yield bytes((CLAIMS,)) + b'{"exp":1e999,"iat":NaN,"sub":"a\\u0000"}'
    yield bytes((CLAIMS,)) + _CLAIMS.replace(b"ada", b"a\\u0007da")
    yield bytes((HEADER,)) + _HEAD
    yield bytes((HEADER,)) + b'{"alg":"EdDSA","kid":"one","crit":["b64"],"b64":false}'
    yield bytes((HEADER,)) + b'{"alg":"EdDSA","kid":"one","jwk":{"kty":"OKP"},"typ":"at+jwt"}'
    yield bytes((KEYS,)) + key_set()
    yield (
        bytes((KEYS,))
        + b'{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","alg":"ES256"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}'
    )


_WORDS = (b'"alg":', b'"EdDSA"', b'"RS256"', b'"none"', b'"kid":', b'"crit":', b'"exp":', b'"nbf":', b'"aud":', b'["kafka"]', b'"sub":',
          b'"iss":', b"1e999", b"-0", b"null", b"\\u0000", b"[" * 30, b"\x01", b"auth=Bearer ", b"n,a=", b'"use":"enc"', b'"keys":[',
          b'"kty":"RSA"', b'"kty":"EC"', b"\xff", b"\x00")  # fmt: skip

TARGETS = [
    Target("tokens", "OAUTHBEARER's first message, tokens, claims, key sets", lambda: _Door().put,
           (LoginRefused, ConfigError), _seeds, _WORDS),
]  # fmt: skip
