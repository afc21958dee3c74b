"""A login from the server's side: any steps in any order, beside an honest client who knows the password.

Nobody gets in who does not know it, and whoever does is who they say they are.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Hashable, Iterator
from functools import lru_cache

from tests.ada import USER, Ada
from tests.fuzz.engine.draw import Draw, piece
from tests.fuzz.engine.target import Target

from barnabas.client.security import sasl
from barnabas.client.security.sasl import ExchangeError, Scram
from barnabas.errors import ErrorCode
from barnabas.security.login import LoginRules, PasswordCheck, ServerLogin, State
from barnabas.security.scram import (
    LoginRefused,
    salted_password,
)

__all__ = ["TARGETS"]

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
PASSWORD, STATIC = "correct horse battery staple", "another-long-secret"
API, CHOOSE, TOKEN, HONEST, CONTINUED, CHECK, EXPIRE = range(7)


class _Play:
    """One connection: the login, the honest client's side of it, and what the last token was."""

    def __init__(self, users: Ada) -> None:
        self.login = ServerLogin(LoginRules(MECHANISMS[:3], {"bob": STATIC}), users, lambda: "server-nonce")
        self.client: Scram | None = None
        self.said: bytes | None = None
        self.check: PasswordCheck | None = None
        self.honest = False
        self.steps: list[str] = []

    def step(self, draw: Draw) -> None:
        login, kind = self.login, draw.below(7)
        if kind == API:
            key = draw.of((18, 17, 36, 3, 0))
            refused = login.refusal(key, "Api")
            assert refused is not None or login.user is not None or key in (17, 18, 36), (
                "served before the login"
            )
        elif kind == CHOOSE:
            self._choose(draw.of(MECHANISMS), draw.below(2))
        elif kind == TOKEN:
            self._answer(draw.some(), honest=False)
        elif kind == HONEST and self.client is not None:
            try:
                token = self.client.respond(self.said)
            except ExchangeError:
                return
            self._answer(token or b"", honest=True)
        elif kind == CONTINUED and self.client is not None and self.said is not None:
            try:
                right = self.client.respond(self.said) or b""
            except ExchangeError:
                return
            token = bytearray(right)
            at, value = draw.below(512), draw.byte()
            if at < len(token):
                token[at] ^= value
            self._answer(bytes(token), honest=_meaning(bytes(token)) == _meaning(right))
        elif kind == CHECK and self.check is not None:
            check, self.check = self.check, None
            fits = check.credential.fits(check.password) if draw.byte() else False
            login.checked(check, fits)
        elif kind == EXPIRE:
            login.expired = login.state is State.DONE
        self.steps.append(login.state.name)
        if login.user is not None:
            assert self.honest, f"{login.user} is let in without a password"
            assert login.user == USER, "not who it says it is"

    def _choose(self, mechanism: str, version: int) -> None:
        if self.login.handshake(mechanism, version) is ErrorCode.NONE and mechanism.startswith("SCRAM"):
            self.client, self.said, self.check = Scram(mechanism, USER, PASSWORD, "client-nonce"), None, None

    def _answer(self, token: bytes, *, honest: bool) -> None:
        said = self.login.answer(token)
        if isinstance(said, PasswordCheck):
            self.check = said
        else:
            self.said = said.token
            self.honest |= said.done and honest


def _meaning(token: bytes) -> tuple[bytes, bytes]:
    """The proof in bytes: the last digit of base64 has bits that no byte takes, as Java's decoder does not mind."""
    said, _, proof = token.rpartition(b",p=")
    try:
        return said, b64decode(proof, validate=True)
    except ValueError:
        return token, b""


def _make() -> object:
    users = Ada(PASSWORD.encode())
    sasl.salted_password = lru_cache(64)(salted_password)  # (what an honest client pays is no matter here)

    def one(data: bytes) -> Hashable:
        draw, play = Draw(data), _Play(users)
        for _ in range(24):
            if not draw:
                break
            play.step(draw)
        return tuple(play.steps)

    return one


def _seeds() -> Iterator[bytes]:
    honest = bytes((HONEST,))
    for number in range(2):
        begun = bytes((API, 0, CHOOSE, number, 1))
        yield begun + honest * 3
        yield begun + honest + bytes((CONTINUED, 0, 40, 1))
        yield begun + honest * 2 + bytes((EXPIRE, API, 3, CHOOSE, number, 1)) + honest * 2
        for first in (
            b"n,,n=ada,r=abc",
            b"n,a=ada,n=ada,r=abc",
            b"n,a=bob,n=ada,r=x",
            b"y,,n=ada,r=abc",
            b"n,,n=a=2Cb=3Dc,r=abc,tokenauth=true",
            b"p=tls-unique,,n=ada,r=abc",
        ):
            yield (
                begun
                + bytes((TOKEN,))
                + piece(first)
                + bytes((TOKEN,))
                + piece(b"c=biws,r=abcserver-nonce,p=AAAA")
            )
    plain = bytes((CHOOSE, 2, 1, TOKEN))
    for token in (
        b"\0ada\0wrong",
        b"ada\0ada\0wrong",
        b"\0bob\0wrong",
        b"x\0ada\0y",
        b"\0\0",
        b"\0ada\0",
        b"\xff\0a\0b",
    ):
        yield plain + piece(token) + bytes((CHECK, 1))


_WORDS = (
    b"n,,n=ada,r=",
    b",r=",
    b"c=biws,",
    b",p=",
    b"=2C",
    b"=3D",
    b"tokenauth=true",
    b"m=x",
    b"\0ada\0",
    b"n,a=",
    b"server-nonce",
)

TARGETS = [
    Target(
        "sasl",
        "logins by SCRAM and PLAIN, step by step",
        _make,
        (LoginRefused,),
        _seeds,
        _WORDS,
        longest=1024,
    )  # type: ignore[arg-type]
]
