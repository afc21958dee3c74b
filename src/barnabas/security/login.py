"""The server's side of SASL on one connection: which requests are admitted when, and who the client is.

    NEW --ApiVersions--> ASKED --SaslHandshake--> CHOSEN --SaslAuthenticate (one or more)--> DONE
     `------------------SaslHandshake---------------^                                          |
                                                    `-------------SaslHandshake (KIP-368)------'

Anything else than the next step ends the connection, as in Apache Kafka (SaslServerAuthenticator).  Nothing here
waits or hashes for long: `answer` may return a `PasswordCheck` or a `TokenCheck`, which the shell makes elsewhere
and tells of.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.errors import ErrorCode
from barnabas.security.bearer import INVALID_TOKEN, Bearer, BearerMessage, read_bearer
from barnabas.security.scram import LoginRefused, ScramCredential, ScramServer

__all__ = [
    "LOGIN_KEYS",
    "Delegated",
    "LoginRules",
    "PasswordCheck",
    "Said",
    "ServerLogin",
    "State",
    "TokenCheck",
    "Users",
]

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
LOGIN_KEYS = frozenset((API_VERSIONS, HANDSHAKE, AUTHENTICATE))
"""The APIs that somebody may use who has not logged in."""
_MOST_STEPS = 8
_MOST_PASSWORD = 4096


class Delegated(NamedTuple):
    """A delegation token that counts: whose it is, until when (seconds since 1970), and what proves it."""

    owner: str
    until: float
    credential: ScramCredential


class Users(Protocol):
    """Who may log in."""

    def credential(self, name: str, mechanism: str) -> ScramCredential | None:
        """What is kept of that user's password."""
        ...

    def token(self, token_id: str, mechanism: str) -> Delegated | None:
        """The delegation token of that id; None: there is none, or it has ended."""
        ...

    def made_up_token(self, token_id: str, mechanism: str) -> ScramCredential:
        """What a token that does not exist is asked with: like that of a real one, and no password fits."""
        ...

    def made_up(self, name: str, mechanism: str) -> ScramCredential:
        """What a user who does not exist is asked with: like a real one, and no password fits."""
        ...

    def usual(self) -> str:
        """The mechanism of which most users have a credential."""
        ...


class LoginRules(NamedTuple):
    """What a listener takes.  `plain_users` are its own, by name; `session_ms` is how long a session lasts."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]
    session_ms: int = 0

    def __repr__(self) -> str:
        return f"<LoginRules {', '.join(self.mechanisms)}>"


class State(Enum):
    """How far a login is."""

    NEW = "nothing was said"
    ASKED = "it asked for versions"
    CHOSEN = "it chose a mechanism"
    CHECKING = "its password or token is being checked"
    DONE = "it is logged in"
    FAILED = "it was refused"


class Said(NamedTuple):
    """What to answer.  `done`: the client is logged in."""

    token: bytes
    done: bool


class PasswordCheck(NamedTuple):
    """Hash `password` and compare: takes milliseconds, so it is not made here.  `login.checked` hears of it."""

    user: str
    password: bytes
    credential: ScramCredential
    is_made_up: bool

    def __repr__(self) -> str:
        return f"<PasswordCheck of {self.user!r}>"


class TokenCheck(NamedTuple):
    """Ask `jwt` whom the token of a message names.  `login.token_checked` hears of it."""

    message: BearerMessage


class ServerLogin:
    """The login of one connection.  `user` is None before it is over; `expired` is set by the shell.

    `credential` is what proved the user, None for a listener's own.  `until` is when what proved it ends (seconds
    since 1970), None: never.  `token` is the id of the delegation token that did, if one did.  `nonce` makes what
    nobody can guess (secrets.token_urlsafe).
    """

    __slots__ = (
        "_asked",
        "_nonce",
        "_refused",
        "_rules",
        "_scram",
        "_steps",
        "_users",
        "credential",
        "expired",
        "mechanism",
        "raw",
        "state",
        "token",
        "until",
        "user",
        "using",
    )

    def __init__(self, rules: LoginRules, users: Users, nonce: Callable[[], str]) -> None:
        self._rules, self._users, self._nonce = rules, users, nonce
        self.state = State.NEW
        self.user: str | None = None
        self.credential: ScramCredential | None = None
        self.until: float | None = None
        self.token: str | None = None
        self._asked: ScramCredential | None = None
        """What the SCRAM under way asks the client to prove."""
        self.mechanism = ""
        """That of the session; `using` is that of the login under way."""
        self.using = ""
        self.raw = False
        """Its tokens come without a header: SaslHandshake v0."""
        self.expired = False
        self._scram: ScramServer | None = None
        self._refused: LoginRefused | None = None
        """Why its token is not taken: the client has been told, and has to say that it heard."""
        self._steps = 0

    def __repr__(self) -> str:
        return f"<ServerLogin {self.state.name} user={self.user!r}>"

    @property
    def takes_raw_token(self) -> bool:
        """Whether the next frame is a token without a header: after SaslHandshake v0."""
        return self.raw and self.state is State.CHOSEN

    @property
    def again(self) -> bool:
        """Whether a client that is logged in logs in again."""
        return self.user is not None and self.state is not State.DONE

    def refusal(self, key: int, name: str) -> str | None:
        """Why a request of that API ends the connection now; None: it is admitted.  ApiVersions counts at once."""
        if self.state is State.DONE:
            if self.expired and key != HANDSHAKE:
                return f"the session of {self.user} is over, and it has not logged in again"
            return None
        expected = {
            State.NEW: (API_VERSIONS, HANDSHAKE),
            State.ASKED: (HANDSHAKE,),
            State.CHOSEN: (AUTHENTICATE,),
            State.CHECKING: (),
            State.FAILED: (),
        }[self.state]
        if key not in expected:
            return f"it sends {name} before it has logged in"
        if key == API_VERSIONS:
            self.state = State.ASKED
        return None

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """The client chooses a mechanism.  ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM, or NONE."""
        if self.state not in (State.NEW, State.ASKED, State.DONE):
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._rules.mechanisms:
            self.state = State.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.state, self.using = State.CHOSEN, mechanism
        self.raw = version == 0
        self._scram, self._refused, self._steps = None, None, 0
        return ErrorCode.NONE

    def answer(self, token: bytes) -> Said | PasswordCheck | TokenCheck:
        """The client's next token.  Raises LoginRefused, after which nothing is admitted any more."""
        if self.state is not State.CHOSEN:
            self.state = State.FAILED
            raise LoginRefused("the client sends a token where none is due")
        try:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise LoginRefused("the login does not come to an end")
            if self.mechanism and self.using != self.mechanism:
                raise LoginRefused(f"it logs in again with {self.using}; its session has {self.mechanism}")
            step = _STEPS.get(self.using, ServerLogin._scrammed)
            answer = step(self, token)
            if not isinstance(answer, Said):
                self.state = State.CHECKING
            return answer
        except LoginRefused:
            self.state = State.FAILED
            raise

    def checked(self, check: PasswordCheck, fits: bool) -> Said:
        """The outcome of a check.  Raises LoginRefused."""
        try:
            if check.is_made_up:
                raise LoginRefused(f"there is no user {check.user[:100]}", said=_WRONG)
            if not fits:
                raise LoginRefused(f"the password of user {check.user[:100]} is wrong", said=_WRONG)
            return self._is(check.user, b"", check.credential)
        except LoginRefused:
            self.state = State.FAILED
            raise

    def token_checked(self, check: TokenCheck, found: Bearer | LoginRefused) -> Said:
        """The outcome of a check.  Raises LoginRefused; a token that is not taken is told in two steps."""
        try:
            if isinstance(found, Bearer):
                if (name := check.message.name) and name != found.user:
                    raise LoginRefused(f"the token of {found.user[:100]} asks to be {name[:100]}")
                return self._is(found.user, b"", None, found.until)
            self._refused, self.state = found, State.CHOSEN
            found.said = INVALID_TOKEN.decode()
            return Said(INVALID_TOKEN, False)
        except LoginRefused:
            self.state = State.FAILED
            raise

    def _borne(self, token: bytes) -> Said | TokenCheck:
        """RFC 7628: a token, or, after its refusal, that the client heard of it."""
        if self._refused is not None:
            raise self._refused  # whatever it says now
        return TokenCheck(read_bearer(token))

    def _scrammed(self, token: bytes) -> Said:
        if self._scram is not None:
            if self._scram.by_token:
                return self._delegated(self._scram, token)
            return self._is(self._scram.user, self._scram.finish(token), self._asked)
        scram = self._scram = ScramServer(token)
        if scram.by_token:
            return self._asked_for_token(scram)
        found = self._asked = self._users.credential(scram.user, self.using)
        credential = found or self._users.made_up(scram.user, self.using)
        return Said(scram.challenge(credential, self._nonce(), is_made_up=found is None), False)

    def _asked_for_token(self, scram: ScramServer) -> Said:
        """A login with a delegation token (KIP-48): its id is the name, its HMAC the password."""
        found = self._users.token(scram.user, self.using)
        self._asked = None if found is None else found.credential
        credential = self._asked or self._users.made_up_token(scram.user, self.using)
        return Said(scram.challenge(credential, self._nonce(), is_made_up=found is None), False)

    def _delegated(self, scram: ScramServer, token: bytes) -> Said:
        last, found = scram.finish(token), self._users.token(scram.user, self.using)
        if found is None or found.credential != self._asked:
            raise LoginRefused(f"the delegation token {scram.user[:100]} ended while its bearer logged in")
        said = self._is(found.owner, last, None, found.until)
        self.token = scram.user
        return said

    def _plain(self, token: bytes) -> Said | PasswordCheck:
        """RFC 4616: `authzid NUL user NUL password`."""
        if len(token) > _MOST_PASSWORD:
            raise LoginRefused(f"the client's token has {len(token)} bytes", said=_NO_PLAIN)
        try:
            parts = bytes(token).decode().split("\0")
        except UnicodeDecodeError:
            raise LoginRefused("the client's token is not UTF-8", said=_NO_PLAIN) from None
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise LoginRefused("the client's token is not PLAIN's", said=_NO_PLAIN)
        other, user, password = parts[0], parts[1], parts[2].encode()
        if other and other != user:
            raise LoginRefused(f"user {user[:100]} asks to be {other[:100]}", said=_WRONG)
        if (known := self._rules.plain_users.get(user)) is not None:
            if not hmac.compare_digest(known.encode(), password):
                # It takes as long as with a user who does not exist, and fits nothing.
                return PasswordCheck(user, password, self._made_up(user), False)
            return self._is(user, b"", None)
        for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256"):
            if (credential := self._users.credential(user, mechanism)) is not None:
                return PasswordCheck(user, password, credential, False)
        return PasswordCheck(user, password, self._made_up(user), True)

    def _made_up(self, user: str) -> ScramCredential:
        return self._users.made_up(user, self._users.usual())

    def _is(
        self, user: str, token: bytes, credential: ScramCredential | None, until: float | None = None
    ) -> Said:
        if credential is not None and self._users.credential(user, credential.mechanism) != credential:
            raise LoginRefused(f"user {user[:100]} was changed while it logged in")
        if self.user is not None and user != self.user:
            raise LoginRefused(f"{self.user[:100]} logs in again as {user[:100]}")
        self.user, self.mechanism, self.credential, self.until = user, self.using, credential, until
        self.state, self.expired, self._scram, self.token = State.DONE, False, None, None
        return Said(token, True)

    def session_ms(self, now: float) -> int:
        """How long the session may last from `now` on (seconds since 1970); 0: for ever."""
        if self.until is None:
            return self._rules.session_ms
        rest = max(1, int((self.until - now) * 1000))  # (0 would mean for ever)
        return min(rest, self._rules.session_ms or rest)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Those of the listener."""
        return self._rules.mechanisms


_STEPS: dict[str, Callable[[ServerLogin, bytes], Said | PasswordCheck | TokenCheck]] = {
    "PLAIN": ServerLogin._plain,
    "OAUTHBEARER": ServerLogin._borne,
}
"""By mechanism; every other one is SCRAM."""
_WRONG = "Authentication failed: Invalid username or password"
_NO_PLAIN = "Invalid SASL/PLAIN response: it is not [authzid] NUL user NUL password"
