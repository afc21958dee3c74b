"""A login over Kafka's messages, without sockets: SaslHandshake, then SaslAuthenticate until both are content.

    for the shell:  request = login.begin(); while request: request = login.take(send(request))

`lifetime_ms` is how long the session may last; a shell logs in again on the same connection before that (KIP-368).
"""

from __future__ import annotations

from typing import Any

from barnabas.client.security.sasl import Exchange, ExchangeError
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

__all__ = ["AuthenticationFailed", "Login"]

_ROUNDS = 8
"""More steps than any mechanism has."""


class AuthenticationFailed(KafkaError):  # noqa: N818  says what happened, as Kafka's clients do
    """Who we are was not believed, or we do not believe who they are.  Nothing is tried again by itself."""

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
        next_step: str | None = None,
    ) -> None:
        super().__init__(code, message, next_step=next_step)

    def __str__(self) -> str:
        return self.message


class Login:
    """One login at `address` with one mechanism."""

    def __init__(self, mechanism: str, exchange: Exchange, address: str) -> None:
        self.mechanism = mechanism
        self.address = address
        self.lifetime_ms = 0
        """0: the session has no end."""
        self._exchange = exchange
        self._rounds = 0

    def __repr__(self) -> str:
        return f"<Login {self.mechanism} at {self.address}>"

    def begin(self) -> Message:
        """The first request."""
        return SaslHandshakeRequest(mechanism=self.mechanism)

    def take(self, answer: Any) -> Message | None:
        """The next request after this answer; None: logged in.  Raises AuthenticationFailed."""
        try:
            if isinstance(answer, SaslHandshakeResponse):
                self._check_handshake(answer)
                return SaslAuthenticateRequest(auth_bytes=self._exchange.respond(None) or b"")
            return self._step(answer)
        except ExchangeError as error:
            raise self._refused(f"{error}", next_step=error.next_step) from None

    def _check_handshake(self, answer: SaslHandshakeResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            return
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(sorted(answer.mechanisms)) or "none"
            raise self._refused(
                f"the broker does not take {self.mechanism}; it takes {enabled}",
                code=code,
                next_step="set sasl.mechanism to one of these",
            )
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise self._refused(
                "the listener asks for no login",
                code=code,
                next_step="set security.protocol to PLAINTEXT or SSL, or use the port of its SASL listener",
            )
        raise self._refused(code.name, code=code)

    def _step(self, answer: SaslAuthenticateResponse) -> Message | None:
        if answer.error_code != ErrorCode.NONE:
            raise self._refused(
                f"the broker says: {answer.error_message or ErrorCode(answer.error_code).name}",
                code=ErrorCode(answer.error_code),
                next_step=_CHECK[self.mechanism == "OAUTHBEARER"],
            )
        self._rounds += 1
        if self._rounds > _ROUNDS:
            raise ExchangeError("the broker does not come to an end")
        said_next = self._exchange.respond(answer.auth_bytes)
        if said_next is not None:
            return SaslAuthenticateRequest(auth_bytes=said_next)
        if not self._exchange.complete:
            raise ExchangeError("the broker ended the login too early")
        self.lifetime_ms = answer.session_lifetime_ms
        return None

    def _refused(
        self,
        why: str,
        *,
        code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
        next_step: str | None = None,
    ) -> AuthenticationFailed:
        line = "".join(letter if letter.isprintable() else " " for letter in why[:300])
        return AuthenticationFailed(
            f"{self.address}: login with {self.mechanism} failed: {line}",
            code=code,
            next_step=next_step or "check the broker's log for what it says of this login",
        )


_CHECK = ("check username and password", "check the token: its issuer, audience and expiry")
