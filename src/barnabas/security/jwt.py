"""JSON Web Tokens of a listener: the keys that their issuer publishes (JWKS), and whom a token names.

Only the compact form is read, and only signatures with public keys: an algorithm of `ALGORITHMS`, by a key of the
issuer's that is made for it.  joserfc checks the signature; what is read of a token is read here, strictly, before
and after.  Nothing of a token is ever quoted but its algorithm and the names of issuer, audience and key.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from joserfc import jwk, jws
from joserfc.errors import JoseError, SecurityWarning

from barnabas.errors import ConfigError
from barnabas.security.bearer import MOST_TOKEN, Bearer
from barnabas.security.scram import LoginRefused

__all__ = ["ALGORITHMS", "Keys", "TokenRules", "UnknownKey", "read_keys", "token_bearer"]

ALGORITHMS: dict[str, tuple[str, str]] = {
    "RS256": ("RSA", ""),
    "RS384": ("RSA", ""),
    "RS512": ("RSA", ""),
    "PS256": ("RSA", ""),
    "PS384": ("RSA", ""),
    "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""What is taken, with the type of its keys and their curve.  No `none`, and nothing with a shared secret."""
_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_RSA_BITS = range(2048, 8193)
_MOST_KEYS = 1000
_MOST_NAME = 255
_LATEST = 2.0**40
_PART = re.compile(r"[A-Za-z0-9_-]+")
warnings.filterwarnings("ignore", category=SecurityWarning)
# (they are of the name EdDSA, which most issuers still write, and of weak keys, which are passed over here)


class UnknownKey(LoginRefused):
    """The token names a key that we have not seen: its issuer may have a new one."""

    may_pass_later = True


class TokenRules(NamedTuple):
    """What a listener asks of a token.  `skew_s` is how far the issuer's clock may be from ours."""

    issuer: str
    audiences: tuple[str, ...]
    skew_s: int = 30
    scope_claim: str = "scope"
    user_claim: str = "sub"


class _Key(NamedTuple):
    kid: str | None
    alg: str | None
    kind: str
    curve: str
    key: Any

    def is_for(self, algorithm: str) -> bool:
        return ALGORITHMS[algorithm] == (self.kind, self.curve) and self.alg in (None, algorithm)


class Keys:
    """The public keys of an issuer."""

    __slots__ = ("_keys",)

    def __init__(self, keys: tuple[_Key, ...] = ()) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<Keys {', '.join(str(key.kid)[:40] for key in self._keys[:10])}>"

    def key_of(self, kid: str | None, algorithm: str) -> Any:
        """The one key that is meant.  Raises LoginRefused, UnknownKey."""
        named = self._keys if kid is None else [key for key in self._keys if key.kid == kid]
        fitting = [key.key for key in named if key.is_for(algorithm)]
        if len(fitting) == 1:
            return fitting[0]
        which = "without a name" if kid is None else repr(kid[:80])
        if not named:
            raise UnknownKey(f"the token is signed with the key {which}, which its issuer does not publish")
        if not fitting:
            raise LoginRefused(f"the token's key {which} is not one for {algorithm}")
        raise LoginRefused(f"the token's key {which} may be each of {len(fitting)} of its issuer's")


# -- keys ------------------------------------------------------------------------------------------


def read_keys(content: bytes) -> Keys:
    """A JSON Web Key Set (RFC 7517).  Keys that sign none of ours are passed over.  Raises ConfigError."""
    try:
        tree = json.loads(content, object_pairs_hook=_once)
        listed = tree["keys"]
        if not isinstance(listed, list):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(
            "what the JWKS endpoint answers is no JSON Web Key Set",
            next_step="check sasl.oauthbearer.jwks.endpoint.url: it is the issuer's jwks_uri",
        ) from None
    if len(listed) > _MOST_KEYS:
        raise ConfigError(f"the JWKS endpoint answers with {len(listed)} keys: we take {_MOST_KEYS}")
    keys = tuple(key for one in listed if (key := _key_of(one)) is not None)
    if not keys:
        raise ConfigError(
            f"none of the {len(listed)} keys of the JWKS endpoint is one that we take",
            next_step=f"have the issuer sign with one of {', '.join(ALGORITHMS)} (RSA of 2048 bits or more)",
        )
    return Keys(keys)


def _key_of(one: Any) -> _Key | None:
    """The public part of one key; None: it is of a kind, or for a use, that we do not take."""
    if not isinstance(one, dict):
        return None
    kind, kid, algorithm = one.get("kty"), one.get("kid"), one.get("alg")
    if not isinstance(kind, str) or not isinstance(kid, str | None) or not isinstance(algorithm, str | None):
        return None
    uses = one.get("key_ops", ["verify"])
    if one.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        return None
    curve = one.get("crv", "") if kind != "RSA" else ""
    if (kind, curve) not in ALGORITHMS.values():
        return None
    public: dict[str, str | list[str]] = {
        name: value for name in _PUBLIC[kind] if isinstance(value := one.get(name), str)
    }
    if len(public) < len(_PUBLIC[kind]) or max(map(len, public.values())) >= 2048:
        return None
    try:
        found: Any = jwk.import_key({"kty": kind, **public})
        bits = found.public_key.key_size if kind == "RSA" else 0
    except (JoseError, ValueError, TypeError, OverflowError):
        return None
    if kind == "RSA" and bits not in _RSA_BITS:
        return None
    return _Key(kid, algorithm, kind, curve, found)


# -- tokens ----------------------------------------------------------------------------------------


def token_bearer(token: str, keys: Keys, rules: TokenRules, now: float) -> Bearer:
    """Whom `token` names, `now` in seconds since 1970.  Raises LoginRefused; UnknownKey: look for new keys."""
    parts = token.split(".")
    if len(token) > MOST_TOKEN or len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        raise LoginRefused("the client's token is no JSON Web Token of the compact form, or is not signed")
    header = _tree(parts[0])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise LoginRefused(
            f"the token is signed by {str(algorithm)[:40]!r}",
            next_step=f"have the issuer sign with one of {', '.join(ALGORITHMS)}",
        )
    if "crit" in header or "b64" in header:
        raise LoginRefused("the token's header has crit: what it asks to be understood is not")
    if not isinstance(kid, str | None):
        raise LoginRefused("the name of the token's key is no text")
    key = keys.key_of(kid, algorithm)
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = MOST_TOKEN
    try:
        signed = jws.deserialize_compact(token, key, registry=registry)
    except (JoseError, ValueError, TypeError) as error:
        raise LoginRefused(f"the token's signature is not its issuer's ({type(error).__name__})") from None
    if signed.protected != header:
        raise LoginRefused("the token's header can be read in two ways")
    return _bearer(_tree(parts[1]), rules, now)


def _bearer(claims: Mapping[str, Any], rules: TokenRules, now: float) -> Bearer:
    """Whether a signed token is for us, and now."""
    if (issuer := claims.get("iss")) != rules.issuer:
        raise LoginRefused(
            f"the token was issued by {str(issuer)[:150]!r}, not by {rules.issuer[:150]!r}",
            next_step="see sasl.oauthbearer.expected.issuer",
        )
    audience = claims.get("aud")
    listed = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(one, str) and one in rules.audiences for one in listed):
        raise LoginRefused(
            f"the token is for {str(audience)[:150]!r}, not for {' or '.join(rules.audiences)[:150]}",
            next_step="see sasl.oauthbearer.expected.audience",
        )
    until, since = _time(claims, "exp"), _time(claims, "iat")
    if until <= now - rules.skew_s:
        raise LoginRefused(
            f"the token ended {now - until:.0f} s ago", next_step="if it is fresh, compare the clocks"
        )
    begins = max(since, _time(claims, "nbf")) if "nbf" in claims else since
    if begins > now + rules.skew_s:
        raise LoginRefused(
            f"the token counts from {begins - now:.0f} s from now on", next_step="compare the clocks"
        )
    scope = claims.get(rules.scope_claim, "")
    if not isinstance(scope, str) and not (
        isinstance(scope, list) and all(isinstance(one, str) for one in scope)
    ):
        raise LoginRefused(f"the token's {rules.scope_claim[:40]} is no text and no list of texts")
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip() or len(user) > _MOST_NAME or not user.isprintable():
        raise LoginRefused(
            f"the token's {rules.user_claim[:40]} is no name of 1 to {_MOST_NAME} printable characters",
            next_step="see sasl.oauthbearer.sub.claim.name",
        )
    return Bearer(user, until)


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise LoginRefused(f"the token's {name} is missing, or no time")
    return float(value)


def _tree(part: str) -> dict[str, Any]:
    """A part of a token as JSON; a name may be there once only, or two readers see two tokens."""
    try:
        content = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        tree = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, binascii.Error, RecursionError):
        raise LoginRefused("the client's token cannot be read as JSON") from None
    if not isinstance(tree, dict):
        raise LoginRefused("a part of the client's token is no JSON object")
    return tree


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(text)
