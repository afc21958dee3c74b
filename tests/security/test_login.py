"""The server's login of one connection: what is admitted when, and who the client turns out to be."""

from __future__ import annotations

import pytest
from tests.ada import Ada

from barnabas.client.security.sasl import Scram
from barnabas.errors import ErrorCode
from barnabas.security.login import LoginRules, PasswordCheck, Said, ServerLogin, State
from barnabas.security.scram import (
    LoginRefused,
)

VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, PRODUCE = 18, 17, 36, 3, 0


def fresh(*mechanisms: str, session_ms: int = 0, **plain_users: str) -> ServerLogin:
    rules = LoginRules(mechanisms or ("SCRAM-SHA-256", "PLAIN"), plain_users, session_ms)
    return ServerLogin(rules, Ada(b"secret"), lambda: "server-nonce")


def chosen(mechanism: str, **plain_users: str) -> ServerLogin:
    login = fresh(**plain_users)
    assert login.refusal(HANDSHAKE, "SaslHandshake") is None
    assert login.handshake(mechanism, 1) is ErrorCode.NONE
    return login


def logged_in(user: str = "ada", *, login: ServerLogin | None = None) -> ServerLogin:
    login = login or chosen("SCRAM-SHA-256")
    client = Scram("SCRAM-SHA-256", user, "secret", "client-nonce")
    first = login.answer(client.respond(None) or b"")
    assert isinstance(first, Said) and not first.done
    last = login.answer(client.respond(first.token) or b"")
    assert isinstance(last, Said) and last.done
    return login


@pytest.mark.parametrize("before", [(), (VERSIONS,)])
def test_nothing_is_served_before_the_login(before: tuple[int, ...]) -> None:
    for key in (METADATA, PRODUCE, AUTHENTICATE):
        login = fresh()
        assert all(login.refusal(one, "ApiVersions") is None for one in before)
        assert login.refusal(key, "Metadata") == "it sends Metadata before it has logged in"


def test_versions_may_be_asked_for_once_and_first() -> None:
    login = fresh()
    assert login.refusal(VERSIONS, "ApiVersions") is None
    assert login.refusal(VERSIONS, "ApiVersions") is not None
    assert chosen("PLAIN").refusal(VERSIONS, "ApiVersions") is not None


def test_a_mechanism_that_is_not_enabled_ends_the_login() -> None:
    login = fresh("SCRAM-SHA-512")
    assert login.handshake("PLAIN", 1) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert login.state is State.FAILED
    assert all(login.refusal(key, "it") for key in (VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA))


def test_whoever_is_logged_in_is_served() -> None:
    login = logged_in()
    assert (login.user, login.mechanism) == ("ada", "SCRAM-SHA-256")
    assert login.refusal(METADATA, "Metadata") is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"ada\0secret",
        b"\0ada\0",
        b"\0\0secret",
        b"\0ada\0secret\0more",
        b"\xff\0ada\0secret",
        b"\0" * 5000,
    ],
)
def test_a_token_that_is_not_plains_is_refused(token: bytes) -> None:
    login = chosen("PLAIN")
    with pytest.raises(LoginRefused):
        login.answer(token)
    assert login.refusal(AUTHENTICATE, "SaslAuthenticate") is not None


def test_plain_is_checked_elsewhere_and_a_user_who_does_not_exist_costs_as_much() -> None:
    for user, made_up in (("ada", False), ("eve", True)):
        login = chosen("PLAIN")
        check = login.answer(b"\0%s\0secret" % user.encode())
        assert isinstance(check, PasswordCheck) and check.is_made_up is made_up
        assert check.credential.iterations == 4096
        assert login.refusal(AUTHENTICATE, "SaslAuthenticate"), "one step after the other"
        if made_up:
            with pytest.raises(LoginRefused) as refused:
                login.checked(check, False)
        else:
            with pytest.raises(LoginRefused) as refused:
                login.checked(check, check.credential.fits(b"wrong"))
        assert refused.value.said == "Authentication failed: Invalid username or password"


def test_a_wrong_password_of_a_user_of_the_listener_takes_as_long_as_an_unknown_user() -> None:
    login = chosen("PLAIN", bob="bobs-secret")
    check = login.answer(b"\0bob\0wrong")
    assert isinstance(check, PasswordCheck) and not check.credential.fits(b"wrong")
    with pytest.raises(LoginRefused, match="password of user bob is wrong") as refused:
        login.checked(check, check.credential.fits(check.password))
    assert refused.value.said == "Authentication failed: Invalid username or password"
    assert login.user is None


def test_plain_with_the_right_password_is_a_login_for_users_of_the_cluster_and_of_the_listener() -> None:
    login = chosen("PLAIN")
    check = login.answer(b"ada\0ada\0secret")
    assert isinstance(check, PasswordCheck)
    assert login.checked(check, check.credential.fits(check.password)) == Said(b"", True)
    own = chosen("PLAIN", bob="bobs")
    assert own.answer(b"\0bob\0bobs") == Said(b"", True) and own.user == "bob"


def test_nobody_becomes_another_by_the_first_field() -> None:
    with pytest.raises(LoginRefused):
        chosen("PLAIN").answer(b"root\0ada\0secret")


def test_logging_in_again_keeps_user_and_mechanism() -> None:
    login = logged_in()
    login.expired = True
    assert login.refusal(METADATA, "Metadata") is not None
    assert login.refusal(HANDSHAKE, "SaslHandshake") is None
    assert login.handshake("SCRAM-SHA-256", 1) is ErrorCode.NONE
    assert login.refusal(METADATA, "Metadata") is not None, "not in the middle of it"
    assert logged_in(login=login).refusal(METADATA, "Metadata") is None

    assert login.handshake("PLAIN", 1) is ErrorCode.NONE
    with pytest.raises(LoginRefused, match="its session has SCRAM-SHA-256"):
        login.answer(b"\0ada\0secret")


def test_logging_in_again_as_another_is_refused() -> None:
    login = chosen("PLAIN", bob="bobs", eve="eves")
    login.answer(b"\0bob\0bobs")
    assert login.handshake("PLAIN", 1) is ErrorCode.NONE
    with pytest.raises(LoginRefused, match="bob logs in again as eve"):
        login.answer(b"\0eve\0eves")


def test_a_token_without_a_header_is_due_after_the_oldest_handshake() -> None:
    login = fresh()
    assert login.handshake("PLAIN", 0) is ErrorCode.NONE
    assert login.takes_raw_token
    login.answer(b"\0ada\0secret")
    assert not login.takes_raw_token


def test_whoever_is_changed_in_the_middle_of_its_login_is_not_let_in() -> None:
    """The old password is still right for what was asked, and worth nothing any more."""
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        users = Ada(b"secret")
        login = ServerLogin(LoginRules((mechanism,), {}), users, lambda: "server-nonce")
        login.handshake(mechanism, 1)
        client = Scram(mechanism, "ada", "secret", "client-nonce")
        first = login.answer(b"\0ada\0secret" if mechanism == "PLAIN" else client.respond(None) or b"")
        users.password = b"another"
        with pytest.raises(LoginRefused, match="changed while it logged in"):
            if isinstance(first, PasswordCheck):
                login.checked(first, True)
            else:
                login.answer(client.respond(first.token) or b"")
        assert login.user is None and login.state is State.FAILED
