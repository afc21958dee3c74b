"""OAUTHBEARER's messages, and the login that they make up."""

from __future__ import annotations

import contextlib
import random

import pytest
from tests.ada import Ada
from tests.security.test_login import AUTHENTICATE, HANDSHAKE, METADATA

from barnabas.client.security.sasl import OAuthBearer
from barnabas.errors import ErrorCode
from barnabas.security.bearer import INVALID_TOKEN, Bearer, read_bearer
from barnabas.security.login import LoginRules, Said, ServerLogin, State, TokenCheck
from barnabas.security.scram import LoginRefused

NOW = 1_800_000_000.0


def chosen(*, session_ms: int = 0, login: ServerLogin | None = None) -> ServerLogin:
    if login is None:
        login = ServerLogin(
            LoginRules(("OAUTHBEARER", "PLAIN"), {}, session_ms), Ada(b"secret"), lambda: "nonce"
        )
    assert login.refusal(HANDSHAKE, "SaslHandshake") is None
    assert login.handshake("OAUTHBEARER", 1) is ErrorCode.NONE
    return login


def asked(login: ServerLogin, name: str = "") -> TokenCheck:
    header = f"n,a={name}," if name else "n,,"
    check = login.answer(f"{header}\x01auth=Bearer a.b.c\x01\x01".encode())
    assert isinstance(check, TokenCheck) and login.state is State.CHECKING
    return check


def test_what_clients_say_is_understood() -> None:
    ours = OAuthBearer("a.b-c_d.e", {"traceId": "12", "logicalCluster": "l-1"}).respond(None) or b""
    assert read_bearer(ours) == ("a.b-c_d.e", "", {"traceId": "12", "logicalCluster": "l-1"})
    java = b"n,,\x01auth=Bearer abc.def.\x01\x01"
    assert read_bearer(java) == ("abc.def.", "", {})
    named = b"n,a=Ada=2C=3DL,\x01auth=bEARER  x\x01k=a b\x01\x01"
    assert read_bearer(named) == ("x", "Ada,=L", {"k": "a b"})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a\x01\x01",
        b"n,a=,\x01auth=Bearer a\x01\x01",
        b"n,b=x,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a/b\x01\x01",
        b"n,,\x01k=v\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01auth=Bearer a\x01k\x01\x01",
        b"n,,\x01auth=Bearer a\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer a\x01k=\x01\x01",
        b"n,,\x01auth=Bearer a\x01\x01more",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * 40_000 + b"\x01\x01",
        b"\x01" * 30_000,
    ],
)
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginRefused) as refused:
        read_bearer(message)
    assert refused.value.said == "Authentication failed: Invalid OAUTHBEARER client first message"


def test_damaged_messages_are_read_or_refused_and_nothing_else() -> None:
    rng, good = random.Random(3), b"n,a=ada,\x01auth=Bearer aa.bb.cc\x01key=value\x01\x01"
    for _ in range(3000):
        damaged = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 44, 61, 65, 200, rng.randrange(256)))
        with contextlib.suppress(LoginRefused):
            read_bearer(bytes(damaged))


def test_whoever_the_token_names_is_logged_in() -> None:
    login = chosen()
    said = login.token_checked(asked(login), Bearer("ada", NOW + 60))
    assert said == Said(b"", True) and (login.user, login.mechanism) == ("ada", "OAUTHBEARER")
    assert login.refusal(METADATA, "Metadata") is None
    login = chosen()
    assert login.token_checked(asked(login, "ada"), Bearer("ada", NOW + 60)).done


def test_nobody_becomes_another_than_the_token_names() -> None:
    login = chosen()
    with pytest.raises(LoginRefused, match="asks to be root"):
        login.token_checked(asked(login, "root"), Bearer("ada", NOW + 60))
    assert login.state is State.FAILED and login.user is None


def test_a_refusal_is_told_and_ends_the_login_whatever_is_said_then() -> None:
    for last in (b"\x01", b"", b"n,,\x01auth=Bearer x\x01\x01"):
        login = chosen()
        said = login.token_checked(asked(login), LoginRefused("the token ended"))
        assert said == Said(INVALID_TOKEN, False)
        assert login.refusal(METADATA, "Metadata") is not None
        with pytest.raises(LoginRefused) as refused:
            login.answer(last)
        assert refused.value.said == INVALID_TOKEN.decode(), "why is for the log alone"
        assert login.state is State.FAILED and login.refusal(AUTHENTICATE, "it") is not None


def test_a_token_has_one_look_at_a_time() -> None:
    login = chosen()
    asked(login)
    assert login.refusal(AUTHENTICATE, "SaslAuthenticate") is not None


def test_a_session_lasts_as_its_token_or_as_the_setting_says() -> None:
    for session_ms, rest, lasts in ((0, 60, 60_000), (5000, 60, 5000), (90_000, 60, 60_000), (0, -20, 1)):
        login = chosen(session_ms=session_ms)
        login.token_checked(asked(login), Bearer("ada", NOW + rest))
        assert login.session_ms(NOW) == lasts


def test_logging_in_again_prolongs_the_session_of_the_same_user_only() -> None:
    login = chosen()
    login.token_checked(asked(login), Bearer("ada", NOW + 60))
    login.expired = True
    assert login.refusal(METADATA, "Metadata") is not None
    chosen(login=login)
    login.token_checked(asked(login), Bearer("ada", NOW + 600))
    assert login.session_ms(NOW) == 600_000 and login.refusal(METADATA, "Metadata") is None
    chosen(login=login)
    with pytest.raises(LoginRefused, match="logs in again as root"):
        login.token_checked(asked(login), Bearer("root", NOW + 600))


def test_a_session_keeps_its_mechanism() -> None:
    login = chosen()
    login.token_checked(asked(login), Bearer("ada", NOW + 60))
    assert login.refusal(HANDSHAKE, "SaslHandshake") is None
    login.handshake("PLAIN", 1)
    with pytest.raises(LoginRefused, match="logs in again with PLAIN"):
        login.answer(b"\0ada\0secret")
