"""The logins of one node: from the connection to the session, and to its end.

A connection begins with 64 KiB frames and ten seconds.  A session ends when its time is over and its client has
not logged in again, and at once when its user is deleted or gets another password.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.controller.decisions.users.delegation_tokens import secret_of
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.errors import ErrorCode, KafkaError
from barnabas.security.bearer import Bearer
from barnabas.security.login import LoginRules, PasswordCheck, Said, ServerLogin, TokenCheck
from barnabas.security.scram import LoginRefused, ScramCredential
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.admission.connections import Connections
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import Client
from barnabas.server.net.secure.guessing import PasswordChecks, RefusalDelays
from barnabas.server.net.secure.refusing import say_refused
from barnabas.server.net.secure.session import Session
from barnabas.server.net.secure.users import ScramUsers
from barnabas.server.observe import events

if TYPE_CHECKING:
    from barnabas.server.net.secure.bearers import BearerRules, Bearers

__all__ = ["Logins"]

Answer = TypeVar("Answer")
_NONCE_BYTES = 24
_REMEMBERED_S = 300.0
_MOST_REMEMBERED = 1000
_LONGEST_TIMER_S = 10 * 365 * 86400.0


class _Remembered(NamedTuple):
    """A password that was right: which one (as a keyed hash), for which credential, and until when."""

    credential: ScramCredential
    digest: bytes
    until: float


class Logins:
    """One per node.  `begin` for each connection of a listener with rules; `step` for each token."""

    def __init__(
        self,
        runtime: Runtime,
        image: MetadataImage,
        rules: Mapping[str, LoginRules | None],
        bearer_rules: Mapping[str, BearerRules | None],
        connections: Connections,
    ) -> None:
        """`rules` and `bearer_rules` are those of each listener; `connections` count who has logged in."""
        config = runtime.config
        self.users = ScramUsers(image, secret_of(config), lambda: runtime.clock.now().wall_ms / 1000)
        self._rules = rules
        self._runtime = runtime
        self._loop = runtime.loop
        self._first_frame = config.int("sasl.server.max.receive.size")
        self._patience_s = config.int("barnabas.login.timeout.ms") / 1000
        self._delays = RefusalDelays(config.int("connection.failed.authentication.delay.ms") / 1000)
        self._connections = connections
        self._sessions: dict[Client, Session] = {}
        self._checks = PasswordChecks(runtime.loop)
        self._bearers: Bearers | None = None
        if taken := {listener: found for listener, found in bearer_rules.items() if found is not None}:
            from barnabas.server.net.secure.bearers import Bearers

            self._bearers = Bearers(runtime.tasks, taken)
        self._key = os.urandom(32)
        self._remembered: dict[str, _Remembered] = {}
        base = "kafka.server:type=socket-server-metrics,name="
        metrics = runtime.metrics
        self._succeeded = metrics.counter(f"{base}successful-authentication-total", "Logins that succeeded")
        self._failed = metrics.counter(f"{base}failed-authentication-total", "Logins that were refused")

    def __repr__(self) -> str:
        return f"<Logins {len(self._sessions)} sessions>"

    def guard_of(self, listener: str) -> Guarding | None:
        """What has the clients of a listener log in; None: they need not."""
        rules = self._rules.get(listener)
        return None if rules is None else Guarding(self, rules)

    def begin(self, connection: Connection, rules: LoginRules) -> None:
        """A connection was accepted: its client has to log in."""
        client = connection.client
        login = ServerLogin(rules, self.users, lambda: secrets.token_urlsafe(_NONCE_BYTES))
        session = client.login = Session(login, connection, partial(self._take_raw, connection))
        connection.max_frame = self._first_frame
        self._sessions[client] = session
        began = self._loop.time() if client.began is None else client.began
        session.set_timer(self._loop.call_at(began + self._patience_s, self._too_late, client, session))

    def ended(self, client: Client) -> None:
        """The connection is gone."""
        if (session := self._sessions.pop(client, None)) is not None:
            session.set_timer(None)

    def step(self, client: Client, token: bytes) -> Said | asyncio.Future[Said]:
        """The client's next token.  Raises LoginRefused, at once or by the future."""
        session = self._sessions[client]
        answer = session.login.answer(token)
        if isinstance(answer, PasswordCheck):
            if not self._remembers(answer):
                return asyncio.ensure_future(self._checked(client, session, answer))
            answer = session.login.checked(answer, True)
        if isinstance(answer, TokenCheck):
            return self._looked_at(client, session, answer)
        return self._said(client, session, answer)

    def refused(self, client: Client, error: LoginRefused) -> str:
        """Say in the log why a login was refused, and return what the client may know of it."""
        session = self._sessions.get(client)
        if not error.is_logged:
            error.is_logged = True
            self._failed.value += 1
            say_refused(client, error, "" if session is None else session.login.using)
        if error.said or session is None:
            return error.said
        what = "re-authentication" if session.login.user else "authentication"
        mechanism = session.login.using
        return (
            f"Authentication failed during {what} due to invalid credentials with SASL mechanism {mechanism}"
        )

    def held(self, client: Client, answer: Answer) -> asyncio.Future[Answer]:
        """The answer to a client that is refused, after a while; then its connection ends.

        Nothing more is heard of it: by a request behind it would learn of its refusal before its time.
        """
        delay = self._delays.of(client.host, self._loop.time())
        if (session := self._sessions.get(client)) is not None:
            session.connection.mute(delay + 1)
            session.set_timer(None)  # it hears that it is refused, not that it took too long
        return asyncio.ensure_future(self._late(client, answer, delay))

    async def _late(self, client: Client, answer: Answer, delay: float) -> Answer:
        await asyncio.sleep(delay)
        self._loop.call_later(0.01, client.hang_up)  # after the answer has left
        return answer

    def metadata_changed(self, delta: ImageDelta) -> None:
        """Users and tokens may be gone, users have other passwords, tokens end sooner: so do their sessions."""
        if not (delta.scram or delta.tokens):
            return
        for client, session in list(self._sessions.items()):
            login, held = session.login, session.login.credential
            if login.user is None:
                continue
            if login.token is not None:
                self._token_changed(client, session, login.token)
            elif held is not None and self.users.credential(login.user, held.mechanism) != held:
                self._end(client, session, "the user was deleted or has another password")

    def stop(self) -> None:
        """The node ends."""
        self._checks.stop()

    # -- inside --

    def _token_changed(self, client: Client, session: Session, token_id: str) -> None:
        login, found = session.login, self.users.token(token_id, session.login.mechanism)
        if found is None:
            self._end(client, session, "its delegation token was removed or has ended")
        elif login.until is not None and found.until < login.until:
            login.until = found.until
            self._lasts(client, session)

    def _end(self, client: Client, session: Session, why: str) -> None:
        events.emit(
            events.SESSION_ENDED,
            reason=str(session.login.user),
            client=f"{client.host}:{client.port}",
            user=session.login.user,
            why=why,
        )
        session.connection.close()

    def _take_raw(self, connection: Connection, token: bytes) -> None:
        """A token as SaslHandshake v0 has them: its answer has no header, and a refusal none at all."""
        client = connection.client
        try:
            said = self.step(client, token)
        except LoginRefused as error:
            self._refused_raw(connection, error)
            return
        if isinstance(said, Said):
            _send_raw(connection, said)
        else:
            said.add_done_callback(partial(self._raw_checked, connection))

    def _raw_checked(self, connection: Connection, checked: asyncio.Future[Said]) -> None:
        error = None if checked.cancelled() else checked.exception()
        if isinstance(error, LoginRefused):
            self._refused_raw(connection, error)
        elif error is None and not checked.cancelled():
            _send_raw(connection, checked.result())

    def _refused_raw(self, connection: Connection, error: LoginRefused) -> None:
        self.refused(connection.client, error)
        delay = self._delays.of(connection.client.host, self._loop.time())
        connection.mute(delay + 1)
        self._loop.call_later(delay, connection.close)

    def _said(self, client: Client, session: Session, said: Said) -> Said:
        login = session.login
        if not said.done:
            return said
        assert login.user is not None
        client.principal = f"User:{login.user}"
        session.connection.max_frame = self._runtime.config.int("socket.request.max.bytes")
        session.connection.forget_doors()
        self._succeeded.value += 1
        if not self._connections.known(client):
            self._loop.call_soon(session.connection.close)  # all that are left are for others
        client.by_token = login.token is not None
        self._lasts(client, session)
        return said

    def _lasts(self, client: Client, session: Session) -> None:
        """Have the session end when its time is over."""
        session.lasts_ms = session.login.session_ms(self._runtime.clock.now().wall_ms / 1000)
        lasts = min(session.lasts_ms / 1000, _LONGEST_TIMER_S)
        session.set_timer(self._loop.call_later(lasts, self._over, client, session) if lasts else None)

    async def _checked(self, client: Client, session: Session, check: PasswordCheck) -> Said:
        fits = await self._checks.check(client.host, check, lambda: client in self._sessions)
        if client not in self._sessions:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection has ended")
        said = session.login.checked(check, fits)
        self._remember(check)
        return self._said(client, session, said)

    def _looked_at(self, client: Client, session: Session, check: TokenCheck) -> Said | asyncio.Future[Said]:
        """Whom a token names; one with a key not seen before waits for its issuer's keys."""
        assert self._bearers is not None
        found = self._bearers.look(client.listener, check.message.token)
        if isinstance(found, LoginRefused) and found.may_pass_later:
            if (renewal := self._bearers.renewal(client.listener)) is not None:
                return asyncio.ensure_future(self._looked_at_again(client, session, check, renewal))
        return self._token_said(client, session, check, found)

    async def _looked_at_again(
        self, client: Client, session: Session, check: TokenCheck, renewal: asyncio.Future[None]
    ) -> Said:
        assert self._bearers is not None
        await renewal
        if client not in self._sessions:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection has ended")
        found = self._bearers.look(client.listener, check.message.token)
        return self._token_said(client, session, check, found)

    def _token_said(
        self, client: Client, session: Session, check: TokenCheck, found: Bearer | LoginRefused
    ) -> Said:
        if isinstance(found, LoginRefused):
            self.refused(client, found)  # now: who hears it may hang up without a word
        return self._said(client, session, session.login.token_checked(check, found))

    def _remembers(self, check: PasswordCheck) -> bool:
        kept = self._remembered.get(check.user)
        if kept is None or kept.credential != check.credential or kept.until < self._loop.time():
            return False
        return hmac.compare_digest(kept.digest, self._digest(check.password))

    def _remember(self, check: PasswordCheck) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        until = self._loop.time() + _REMEMBERED_S
        self._remembered[check.user] = _Remembered(check.credential, self._digest(check.password), until)

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._key, password, hashlib.sha256)

    def _too_late(self, client: Client, session: Session) -> None:
        late = LoginRefused(f"it has not logged in within {self._patience_s:g} s")
        say_refused(client, late, session.login.using)
        session.connection.close()

    def _over(self, client: Client, session: Session) -> None:
        """The session's time is over: the next request that is no login ends the connection.

        With a delegation token that has ended, the connection ends now: there is no login to come.
        """
        if session.login.token and self.users.token(session.login.token, session.login.mechanism) is None:
            self._end(client, session, "its delegation token has ended")
        session.login.expired = True
        session.connection.forget_doors()


class Guarding:
    """The logins of one listener (`listener.Guard`)."""

    __slots__ = ("_logins", "_rules")

    def __init__(self, logins: Logins, rules: LoginRules) -> None:
        self._logins, self._rules = logins, rules

    def __repr__(self) -> str:
        return f"<Guarding {self._rules!r}>"

    def opened(self, connection: Connection) -> None:
        """A connection was accepted."""
        self._logins.begin(connection, self._rules)

    def closed(self, connection: Connection) -> None:
        """It has ended."""
        self._logins.ended(connection.client)


def _send_raw(connection: Connection, said: Said) -> None:
    token = len(said.token).to_bytes(4, "big") + said.token
    connection.send_queue.add([token], len(token))
    connection.look_again()
