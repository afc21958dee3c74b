"""Tokens of an issuer: which are taken, and that another library reads them the same."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from tests.issuer import (
    AUDIENCE,
    ISSUER,
    KINDS,
    by_hand,
    claims,
    coded,
    jwk_of,
    jwks,
    jwt,
    private,
    public_pem,
    token,
)

from barnabas.errors import ConfigError
from barnabas.security.jwt import ALGORITHMS, Keys, TokenRules, UnknownKey, read_keys, token_bearer
from barnabas.security.scram import LoginRefused

pytestmark = pytest.mark.filterwarnings("ignore:.*")  # joserfc's, of what is refused here
RULES = TokenRules(ISSUER, (AUDIENCE, "other"), 30)
NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def keys() -> Keys:
    return read_keys(jwks(*KINDS))


def refusal(text: str, keys: Keys, rules: TokenRules = RULES, now: float = NOW) -> str:
    with pytest.raises(LoginRefused) as refused:
        token_bearer(text, keys, rules, now)
    longest = max(text.split("."), key=len)
    assert len(longest) < 20 or longest[:20] not in f"{refused.value}", "a token is never quoted"
    return str(refused.value)


@pytest.mark.parametrize("kid", KINDS)
def test_a_token_of_each_algorithm_is_taken(keys: Keys, kid: str) -> None:
    assert set(KINDS) == set(ALGORITHMS)
    bearer = token_bearer(token(kid, NOW), keys, RULES, NOW)
    assert (bearer.user, bearer.until) == ("ada", NOW + 600)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"iss": "https://evil.example.org/"}, "issued by"),
        ({"iss": None}, "issued by"),
        ({"iss": [ISSUER]}, "issued by"),
        ({"aud": "somebody"}, "is for 'somebody'"),
        ({"aud": None}, "is for"),
        ({"aud": ["a", "b"]}, "is for"),
        ({"aud": {"kafka": 1}}, "is for"),
        ({"exp": NOW - 31}, "ended 31 s ago"),
        ({"exp": None}, "exp is missing"),
        ({"exp": "1800000600"}, "exp is missing"),
        ({"exp": True}, "exp is missing"),
        ({"exp": 10**20}, "exp is missing"),
        ({"iat": None}, "iat is missing"),
        ({"iat": NOW + 60}, "from now on"),
        ({"nbf": NOW + 60}, "from now on"),
        ({"nbf": "soon"}, "nbf is missing"),
        ({"sub": None}, "sub is no name"),
        ({"sub": ""}, "sub is no name"),
        ({"sub": " "}, "sub is no name"),
        ({"sub": 7}, "sub is no name"),
        ({"sub": "a\nb"}, "sub is no name"),
        ({"sub": "a" * 256}, "sub is no name"),
        ({"scope": {"a": 1}}, "scope is no text"),
    ],
)
def test_a_token_for_others_or_of_another_time_is_refused(
    keys: Keys, changed: dict[str, Any], why: str
) -> None:
    assert why in refusal(token("RS256", NOW, **changed), keys)


def test_clocks_may_differ_by_the_skew(keys: Keys) -> None:
    for changed in ({"exp": int(NOW) - 29}, {"iat": int(NOW) + 29}, {"nbf": int(NOW) + 29}):
        assert token_bearer(token("RS256", NOW, **changed), keys, RULES, NOW).user == "ada"


def test_another_claim_may_name_the_user(keys: Keys) -> None:
    rules = RULES._replace(user_claim="upn", scope_claim="scp")
    text = token("RS256", NOW, sub=None, upn="ada@example.org", scp=["a", "b"])
    assert token_bearer(text, keys, rules, NOW).user == "ada@example.org"


def test_cve_2026_110985_a_token_that_its_issuer_has_not_signed_is_refused(keys: Keys) -> None:
    good = token("RS256", NOW)
    head, body, signature = good.split(".")
    other = coded(json.dumps(claims(NOW, sub="root")).encode())
    assert "not its issuer's" in refusal(f"{head}.{other}.{signature}", keys)
    for place in (0, 10, len(signature) - 2):
        letter = "A" if signature[place] != "A" else "B"
        forged = f"{head}.{body}.{signature[:place]}{letter}{signature[place + 1 :]}"
        assert "not its issuer's" in refusal(forged, keys)
    stranger = jwt.encode(claims(NOW), private("RS256-stranger"), "RS256", headers={"kid": "RS256"})
    assert "not its issuer's" in refusal(stranger, keys)


@pytest.mark.parametrize(
    "name", ["none", "None", "NONE", "nOnE", "", None, 7, ["RS256"], "HS256", "RSA1_5", "dir"]
)
def test_cve_2026_28802_an_algorithm_that_is_not_of_our_list_is_refused(keys: Keys, name: Any) -> None:
    for secret in (None, b"secret", public_pem("RS256")):
        text = by_hand({"alg": name, "kid": "RS256"}, claims(NOW), secret)
        assert "signed by" in refusal(text, keys) or "not signed" in refusal(text, keys)


@pytest.mark.parametrize("name", ["HS256", "RS256", "ES256", "PS256"])
def test_a_public_key_is_no_shared_secret(keys: Keys, name: str) -> None:
    """Key confusion: the HMAC of a text that everybody can fetch."""
    for secret in (public_pem("RS256"), json.dumps(jwk_of("RS256")).encode(), b""):
        refusal(by_hand({"alg": name, "kid": "RS256"}, claims(NOW), secret), keys)


def test_a_key_is_used_for_its_own_algorithm_only() -> None:
    only_ps = json.dumps({"keys": [jwk_of("RS256", alg="PS256")]}).encode()
    assert "not one for RS256" in refusal(token("RS256", NOW), read_keys(only_ps))
    text = jwt.encode(claims(NOW), private("ES384"), "ES384", headers={"kid": "ES256"})
    assert "not one for ES384" in refusal(text, read_keys(jwks("ES256", "ES384")))


def test_a_key_that_the_issuer_does_not_publish_is_looked_for() -> None:
    with pytest.raises(UnknownKey):
        token_bearer(token("RS256-new", NOW), read_keys(jwks("RS256")), RULES, NOW)


def test_without_the_name_of_a_key_there_must_be_one_that_fits() -> None:
    text = jwt.encode(claims(NOW), private("RS256"), "RS256")
    assert token_bearer(text, read_keys(jwks("RS256", "ES256")), RULES, NOW).user == "ada"
    assert "may be each of 2" in refusal(text, read_keys(jwks("RS256", "RS384")))


@pytest.mark.parametrize(
    "extra", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}, {"b64": True}]
)
def test_cve_2026_32597_what_must_be_understood_and_is_not_is_refused(
    keys: Keys, extra: dict[str, Any]
) -> None:
    body = json.dumps(claims(NOW)).encode()
    signing = jwt.get_algorithm_by_name("RS256")
    head = coded(json.dumps({"alg": "RS256", "kid": "RS256", **extra}).encode())
    signed = f"{head}.{coded(body)}"
    text = f"{signed}.{coded(signing.sign(signed.encode(), private('RS256')))}"
    assert "crit" in refusal(text, keys)


def test_cve_2026_96760_the_json_form_is_refused(keys: Keys) -> None:
    head, body, signature = token("RS256", NOW).split(".")
    flat = {"protected": head, "payload": body, "signature": signature}
    general = {"payload": body, "signatures": [{"protected": head, "signature": signature}]}
    for text in (json.dumps(flat), json.dumps(general), "{}", "[]"):
        assert "compact form" in refusal(text, keys)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c.d.e",
        "e30.e30.e30",
        "W10.W10.W10",
        "bnVsbA.bnVsbA.bnVsbA",
        "a" * 40_000,
        f"{'a' * 20_000}.{'a' * 20_000}.a",
        f"{coded(b'[' * 15_000)}.a.a",
        f"{coded(b'1' * 15_000)}.a.a",
        coded(b'{"a":' * 3_000) + ".a.a",
        coded(b'{"alg":"RS256","alg":"none"}') + ".e30.e30",
        coded(b'{"alg":"RS256","kid":{}}') + ".e30.e30",
        coded('{"alg":"RS256"}'.encode("utf-16")) + ".e30.e30",
        coded(b'{"alg":"RS256","x":NaN}') + ".e30.e30",
        "e30.e30.e3=",
        "e30 .e30.e30",
        "\u00e9.e30.e30",
    ],
)
def test_what_is_no_token_is_refused(keys: Keys, text: str) -> None:
    begun = time.process_time()
    refusal(text, keys)
    assert time.process_time() - begun < 0.05


def test_a_name_that_is_there_twice_is_refused(keys: Keys) -> None:
    """Else one reader sees one user, and another one another."""
    signing = jwt.get_algorithm_by_name("RS256")
    body = json.dumps(claims(NOW))[:-1] + ', "sub": "root"}'
    head = coded(b'{"alg":"RS256","kid":"RS256"}')
    signed = f"{head}.{coded(body.encode())}"
    text = f"{signed}.{coded(signing.sign(signed.encode(), private('RS256')))}"
    assert "cannot be read" in refusal(text, keys)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"keys":7}', b'{"keys":[]}', b"\xff", b"[" * 100_000, b'{"keys":[1,null,"a",{}]}'],
)
def test_what_is_no_set_of_keys_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError):
        read_keys(content)


def test_keys_that_sign_none_of_ours_are_passed_over() -> None:
    weak = {**jwk_of("RS256", kid="weak"), "n": coded(b"\xff" * 128)}
    others = [
        {"kty": "oct", "k": coded(b"secret" * 8), "kid": "shared"},
        jwk_of("RS256", kid="sealing", use="enc"),
        jwk_of("RS256", kid="signing", key_ops=["sign"]),
        jwk_of("RS256", kid=7),
        {**jwk_of("ES256", kid="curve"), "crv": "secp256k1"},
        {**jwk_of("ES256", kid="point"), "x": coded(b"\1" * 32)},
        {**jwk_of("RS256", kid="empty"), "n": ""},
        {**jwk_of("RS256", kid="huge"), "n": coded(b"\xff" * 1400)},
        weak,
    ]
    found = read_keys(json.dumps({"keys": [*others, jwk_of("RS256")]}).encode())
    assert len(found) == 1
    with pytest.raises(ConfigError, match="none of the 9 keys"):
        read_keys(json.dumps({"keys": others}).encode())


def test_a_second_library_agrees_on_hundreds_of_tokens(keys: Keys) -> None:
    """PyJWT, told the same rules."""
    rng, taken = random.Random(7), 0
    for number in range(400):
        text = drawn(rng)
        try:
            ours: str | None = token_bearer(text, keys, RULES, NOW).user
        except LoginRefused:
            ours = None
        assert ours == as_pyjwt_reads_it(text), f"token {number}: {text}"
        taken += ours is not None
    assert 100 < taken < 350, "both kinds are among them"


def drawn(rng: random.Random) -> str:
    """A token that is good, or wrong in one of many ways."""
    kid = rng.choice(("RS256", "ES256", "EdDSA", "PS256", "ES512"))
    changed: dict[str, Any] = rng.choice(
        (
            {},
            {},
            {"sub": f"u{rng.randrange(99)}"},
            {"aud": [AUDIENCE, "more"]},
            {"aud": rng.choice(("kafk", "Kafka", "other"))},
            {"iss": rng.choice((ISSUER, ISSUER[:-1], ISSUER.upper()))},
            {"exp": int(NOW) + rng.choice((-3600, -31, -29, 1, 60))},
            {"iat": int(NOW) + rng.choice((-60, 29, 31, 3600))},
            {"nbf": int(NOW) + rng.choice((-60, 29, 31, 3600))},
        )
    )
    text = token(kid, NOW, **changed)
    if rng.random() < 0.3:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice("Aa0-_.z") + text[place + 1 :]
    return text


def as_pyjwt_reads_it(text: str) -> str | None:
    try:
        kid = jwt.get_unverified_header(text).get("kid")
        if kid not in KINDS:
            return None
        found = jwt.decode(
            text,
            private(kid).public_key(),
            [kid],
            audience=list(RULES.audiences),
            issuer=ISSUER,
            options={
                "require": ["exp", "iat", "sub"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    is_now = found["exp"] > NOW - 30 and max(found["iat"], found.get("nbf", 0)) <= NOW + 30
    return found["sub"] if is_now else None
