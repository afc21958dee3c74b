"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.security.login import Said
from barnabas.security.scram import LoginRefused
from barnabas.server.net.context import Client, RequestContext
from barnabas.wire.schemas.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from barnabas.server.net.secure.logins import Logins

__all__ = ["SaslApi"]


class SaslApi:
    """Without a login on its listener, a client is told ILLEGAL_SASL_STATE."""

    __slots__ = ("_logins",)

    def __init__(self, logins: Logins | None) -> None:
        self._logins = logins

    def handshake(
        self, context: RequestContext, request: SaslHandshakeRequest
    ) -> SaslHandshakeResponse | asyncio.Future[SaslHandshakeResponse]:
        """SaslHandshake (key 17): the client chooses a mechanism; a wrong one ends the connection."""
        client, logins = context.client, self._logins
        if client.login is None or logins is None:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        login = client.login.login
        code = login.handshake(request.mechanism, context.version)
        if client.principal_changed is not None:
            client.principal_changed()  # no fast path serves it before it is known again
        answer = SaslHandshakeResponse(error_code=code, mechanisms=list(login.mechanisms))
        if code is ErrorCode.NONE:
            return answer
        logins.refused(client, LoginRefused(f"it asks for the mechanism {request.mechanism[:40]!r}"))
        return logins.held(client, answer)

    def authenticate(
        self, context: RequestContext, request: SaslAuthenticateRequest
    ) -> SaslAuthenticateResponse | asyncio.Future[SaslAuthenticateResponse]:
        """SaslAuthenticate (key 36): one step of the mechanism."""
        client, logins = context.client, self._logins
        if client.login is None or logins is None:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        try:
            said = logins.step(client, bytes(request.auth_bytes))
        except LoginRefused as error:
            return self._refused(client, error)
        if isinstance(said, Said):
            return _answer(client, said)
        return asyncio.ensure_future(self._checked(client, said))

    async def _checked(self, client: Client, said: asyncio.Future[Said]) -> SaslAuthenticateResponse:
        try:
            return _answer(client, await said)
        except LoginRefused as error:
            return await self._refused(client, error)

    def _refused(self, client: Client, error: LoginRefused) -> asyncio.Future[SaslAuthenticateResponse]:
        assert self._logins is not None
        text = self._logins.refused(client, error)
        answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
        return self._logins.held(client, answer)


def _answer(client: Client, said: Said) -> SaslAuthenticateResponse:
    if client.login is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    lasts = client.login.lasts_ms if said.done else 0
    return SaslAuthenticateResponse(error_message=None, auth_bytes=said.token, session_lifetime_ms=lasts)
