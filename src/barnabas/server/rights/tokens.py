"""Who may ask about delegation tokens: by which connections, and for whom one is made."""

from __future__ import annotations

from typing import Any

from barnabas.broker.ports import Operation, ResourceType
from barnabas.config import Config
from barnabas.controller.decisions.users.delegation_tokens import creation_of, has_strange_renewer, owner_of
from barnabas.errors import ErrorCode
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler, Row
from barnabas.server.rights.rights import Rights
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.sasl import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)

__all__ = ["TOKEN_KEYS", "TokenDoor", "create_token"]

_CREATE, _RENEW, _EXPIRE, _DESCRIBE = 38, 39, 40, 41
TOKEN_KEYS = frozenset((_CREATE, _RENEW, _EXPIRE, _DESCRIBE))
_NONE = -1


class TokenDoor:
    """Before all four APIs: a client has to have shown who it is, and by something else than a token.

    What a broker forwards has passed its door; but who has come by a token is refused there too.
    """

    __slots__ = ("_config", "_handler", "_key")

    def __init__(self, config: Config, row: Row, handler: Handler) -> None:
        self._config = config
        self._key = row.key
        self._handler = handler

    def serve(self, context: RequestContext, request: Any) -> Any:
        """DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, or what the handler says."""
        client = context.client
        if client.by_token or not (client.is_forwarded or self._is_known(context)):
            return _refused(self._key, context, request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if self._key == _CREATE and client.kind == "B" and has_strange_renewer(request):
            return _refused(self._key, context, request, ErrorCode.INVALID_PRINCIPAL_TYPE)
        return self._handler(context, request)

    def _is_known(self, context: RequestContext) -> bool:
        protocol = self._config.protocol_of(context.listener)
        return protocol != "PLAINTEXT" and (protocol != "SSL" or context.principal != "User:ANONYMOUS")

    def __repr__(self) -> str:
        return f"<TokenDoor {self._key}>"


def _refused(key: int, context: RequestContext, request: Any, code: ErrorCode) -> Message:
    """The answer of that API that is nothing but an error, with Kafka's -1 for times that there are not."""
    if key == _CREATE:
        return replace(
            creation_of(request, context.principal, context.version),
            error_code=code,
            issue_timestamp_ms=_NONE,
            expiry_timestamp_ms=_NONE,
            max_timestamp_ms=_NONE,
        )
    if key == _RENEW:
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_NONE)
    if key == _EXPIRE:
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_NONE)
    return DescribeDelegationTokenResponse(error_code=code)


def create_token(
    rights: Rights, row: Row, context: RequestContext, request: CreateDelegationTokenRequest, handler: Handler
) -> Any:
    """CreateDelegationToken: for oneself everybody may; for another owner with CREATE_TOKENS on that user."""
    owner = owner_of(request, context.principal)
    operation, user = Operation.CREATE_TOKENS, ResourceType.USER
    if owner == context.principal or rights.authorizer.authorize(context, operation, user, owner):
        return handler(context, request)
    return _refused(row.key, context, request, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
