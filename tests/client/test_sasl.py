"""SCRAM by the vectors of its RFCs, and every way in which a server may lie in it."""

from __future__ import annotations

import base64
import time

import pytest

from barnabas.client.security.login import AuthenticationFailed, Login
from barnabas.client.security.sasl import (
    Exchange,
    ExchangeError,
    OAuthBearer,
    Plain,
    Scram,
)
from barnabas.security.scram import salted_password, server_signature
from barnabas.wire.schemas.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws," + FIRST.partition(b",")[0] + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(nonce: str = NONCE) -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce)


def asked() -> Scram:
    exchange = scram()
    exchange.respond(None)
    return exchange


def test_the_vector_of_rfc_7677() -> None:
    exchange = scram()
    assert exchange.respond(None) == b"n,,n=user,r=" + NONCE.encode()
    assert exchange.respond(FIRST) == PROOF
    assert not exchange.complete
    assert exchange.respond(FINAL) is None
    assert exchange.complete


def test_the_vector_of_rfc_5802() -> None:
    exchange = Scram("SCRAM-SHA-1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")
    assert exchange.respond(None) == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    first = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    proof = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert exchange.respond(first) == proof
    assert exchange.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None


def test_a_name_with_commas_and_equals_signs_is_escaped() -> None:
    assert Scram("SCRAM-SHA-512", "a,b=c", "x", "n").respond(None) == b"n,,n=a=2Cb=3Dc,r=n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FIRST.replace(b"r=rOpr", b"r=XXXX"), "nonce"),
        (FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "nonce"),
        (b"r=,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (FIRST.replace(b"4096", b"4095"), "iterations"),
        (FIRST.replace(b"4096", b"2147483648"), "iterations"),
        (FIRST.replace(b"4096", b"16385"), "iterations"),
        (FIRST.replace(b"4096", b"-1"), "hashed"),
        (FIRST.replace(b"4096", b"9" * 5000), "hashed"),
        (FIRST.replace(b"i=4096", "i=\u0664\u0660\u0669\u0666".encode()), "hashed"),
        (FIRST.replace(b",i=4096", b""), "hashed"),
        (FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "field s"),
        (FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=%%%"), "field s"),
        (b"m=hm," + FIRST, "extension"),
        (b"", "no SCRAM"),
        (b"\xff\xfe", "no SCRAM"),
        (b"a=1," * 20000, "bytes"),
    ],
)
def test_cve_2026_10143_a_hostile_first_answer_is_refused_before_any_work(answer: bytes, why: str) -> None:
    exchange = asked()
    began = time.process_time()
    with pytest.raises(ExchangeError, match=why):
        exchange.respond(answer)
    assert time.process_time() - began < 0.05
    assert not exchange.complete


@pytest.mark.parametrize(
    "answer", [b"", b"v=", b"e=other-error", FINAL.replace(b"6rri", b"7rri"), b"v=AAAA", FIRST]
)
def test_a_server_that_does_not_know_the_password_is_not_believed(answer: bytes) -> None:
    exchange = asked()
    exchange.respond(FIRST)
    with pytest.raises(ExchangeError):
        exchange.respond(answer)
    assert not exchange.complete


def test_a_signature_of_another_login_is_not_believed() -> None:
    salt = base64.b64decode(b"W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password("SCRAM-SHA-256", b"pencil", salt, 4096)
    other = base64.b64encode(server_signature("SCRAM-SHA-256", salted, b"n=user,r=another"))
    exchange = asked()
    exchange.respond(FIRST)
    with pytest.raises(ExchangeError, match="does not know this user's password"):
        exchange.respond(b"v=" + other)


def login(mechanism: str, exchange: Exchange) -> Login:
    made = Login(mechanism, exchange, "broker:9093")
    made.begin()
    made.take(SaslHandshakeResponse())
    return made


def test_a_broker_that_says_yes_too_early_is_not_believed() -> None:
    made = login("SCRAM-SHA-256", scram())
    with pytest.raises(AuthenticationFailed, match="no SCRAM"):
        made.take(SaslAuthenticateResponse(auth_bytes=b""))


def test_a_refused_token_is_acknowledged_and_never_taken_for_a_login() -> None:
    made = login("OAUTHBEARER", OAuthBearer("token"))
    acknowledged = made.take(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    assert acknowledged is not None and acknowledged.auth_bytes == b"\x01"  # type: ignore[attr-defined]
    with pytest.raises(AuthenticationFailed, match="too early"):
        made.take(SaslAuthenticateResponse(auth_bytes=b""))


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are() -> None:
    made = Login("PLAIN", Plain("ada", "secret"), "broker:9093")
    with pytest.raises(AuthenticationFailed, match="it takes OAUTHBEARER, SCRAM-SHA-512"):
        made.take(SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"]))


def test_what_a_broker_says_stays_on_one_line() -> None:
    made = login("PLAIN", Plain("ada", "secret"))
    with pytest.raises(AuthenticationFailed) as raised:
        made.take(
            SaslAuthenticateResponse(error_code=58, error_message="no\nsuch\r\nuser \x1b[31m" + "x" * 5000)
        )
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value) and len(str(raised.value)) < 500


def test_no_secret_is_in_what_is_printed() -> None:
    for exchange in (
        Scram("SCRAM-SHA-256", "ada", "geheim", "n"),
        Plain("ada", "geheim"),
        OAuthBearer("geheim"),
    ):
        exchange.respond(None)
        assert "geheim" not in repr(exchange)
