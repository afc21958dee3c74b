"""Delegation tokens (KIP-48, KIP-900): made, renewed and ended by the controller, described by any broker.

Codes are those of Apache Kafka's DelegationTokenControlManager.  The metadata have a token without its HMAC, which
is computed from `delegation.token.secret.key`.  What Kafka does not have: bounds on what one user may keep.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from itertools import islice

from barnabas.config import Config
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import MetadataImage
from barnabas.controller.view import BATCH_LIMIT, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.security.delegation import token_hmac
from barnabas.wire.codec.message import MetadataRecord, replace
from barnabas.wire.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from barnabas.wire.schemas.sasl import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

__all__ = [
    "MOST_OF_ONE",
    "MOST_RENEWERS",
    "create_token",
    "creation_of",
    "describe_tokens",
    "ended_tokens",
    "expire_token",
    "has_strange_renewer",
    "owner_of",
    "renew_token",
    "secret_of",
]

MOST_OF_ONE = 1000
"""Tokens that one user may have asked for, and that have not ended."""
MOST_RENEWERS = 100
_LONGEST_NAME = 1000
_FIRST_METADATA_VERSION = 14
"""3.6-IV2: the first that has tokens."""
_USER = "User"


def secret_of(config: Config) -> str:
    """delegation.token.secret.key; "" where there is none, and so no tokens."""
    return config.optional_str("delegation.token.secret.key") or ""


def owner_of(request: CreateDelegationTokenRequest, sender: str) -> str:
    """Whose the token shall be: the sender's, unless it names somebody else."""
    name = request.owner_principal_name
    return f"{request.owner_principal_type or ''}:{name}" if name else sender


def creation_of(
    request: CreateDelegationTokenRequest, sender: str, version: int
) -> CreateDelegationTokenResponse:
    """An answer that says whose the token is and, from version 3 on, who asked for it."""
    owner_type, _, owner_name = owner_of(request, sender).partition(":")
    requester_type, _, requester_name = sender.partition(":") if version >= 3 else ("", "", "")
    return CreateDelegationTokenResponse(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
    )


def has_strange_renewer(request: CreateDelegationTokenRequest) -> bool:
    """Whether a renewer is no user."""
    return any(one.principal_type != _USER for one in request.renewers)


def create_token(view: View, request: CreateDelegationTokenRequest) -> Decision:
    """CreateDelegationToken (key 38): for the sender, or for an owner whom it may make tokens for."""
    owner = owner_of(request, view.sender)
    answer = creation_of(request, view.sender, view.version)
    secret = secret_of(view.config)
    if (code := _refusal_of(view, secret, owner, request)) is not ErrorCode.NONE:
        return Decision(replace(answer, error_code=code))
    now, longest = view.now.wall_ms, view.config.int("delegation.token.max.lifetime.ms")
    if request.max_lifetime_ms > 0:
        longest = min(longest, request.max_lifetime_ms)
    token_id = str(view.randomness.uuid())
    record = DelegationTokenRecord(
        owner=owner,
        requester=view.sender,
        renewers=[f"{one.principal_type}:{one.principal_name}" for one in request.renewers],
        issue_timestamp=now,
        max_timestamp=now + longest,
        expiration_timestamp=now + min(longest, view.config.int("delegation.token.expiry.time.ms")),
        token_id=token_id,
    )
    made = replace(
        answer,
        issue_timestamp_ms=now,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=token_id,
        hmac=token_hmac(secret, token_id),
    )
    return Decision(made, [record])


def _refusal_of(view: View, secret: str, owner: str, request: CreateDelegationTokenRequest) -> ErrorCode:
    if not secret:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if view.image.feature(METADATA_VERSION) < _FIRST_METADATA_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if has_strange_renewer(request):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    names = [owner, *(one.principal_name for one in request.renewers)]
    mine = sum(1 for token in view.image.tokens.values() if token.requester == view.sender)
    if mine >= MOST_OF_ONE or len(request.renewers) > MOST_RENEWERS or max(map(len, names)) > _LONGEST_NAME:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def renew_token(view: View, request: RenewDelegationTokenRequest) -> Decision:
    """RenewDelegationToken (key 39): its owner or a renewer has it count for longer, up to its longest life."""
    try:
        token = _meant(view, bytes(request.hmac))
    except KafkaError as error:
        return Decision(RenewDelegationTokenResponse(error_code=error.code))
    period = view.config.int("delegation.token.expiry.time.ms")
    if request.renew_period_ms > 0:
        period = min(period, request.renew_period_ms)
    until = min(token.max_timestamp, view.now.wall_ms + period)
    answer = RenewDelegationTokenResponse(expiry_timestamp_ms=until)
    return Decision(answer, [replace(token, expiration_timestamp=until)])


def expire_token(view: View, request: ExpireDelegationTokenRequest) -> Decision:
    """ExpireDelegationToken (key 40): its owner or a renewer has it end then, or at once (a negative period)."""
    try:
        token = _meant(view, bytes(request.hmac))
    except KafkaError as error:
        return Decision(ExpireDelegationTokenResponse(error_code=error.code))
    period = request.expiry_time_period_ms
    if period < 0:
        gone = RemoveDelegationTokenRecord(token_id=token.token_id)
        return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=view.now.wall_ms), [gone])
    until = min(token.max_timestamp, view.now.wall_ms + period)
    answer = ExpireDelegationTokenResponse(expiry_timestamp_ms=until)
    return Decision(answer, [replace(token, expiration_timestamp=until)])


def _meant(view: View, shown: bytes) -> DelegationTokenRecord:
    """The token with that HMAC, which the sender may change.  Raises KafkaError."""
    secret = secret_of(view.config)
    if not secret:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    for token in view.image.tokens.values():
        if hmac.compare_digest(token_hmac(secret, token.token_id), shown):
            break
    else:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if min(token.max_timestamp, token.expiration_timestamp) < view.now.wall_ms:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if view.sender not in (token.owner, *token.renewers):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token


def ended_tokens(view: View) -> list[MetadataRecord]:
    """Records that remove the tokens whose time is over, as many as fit into one batch."""
    now = view.now.wall_ms
    over = (token.token_id for token in view.image.tokens.values() if token.expiration_timestamp < now)
    return [RemoveDelegationTokenRecord(token_id=token_id) for token_id in islice(over, BATCH_LIMIT)]


def describe_tokens(
    image: MetadataImage,
    secret: str,
    request: DescribeDelegationTokenRequest,
    sender: str,
    version: int,
    may_see: Callable[[DelegationTokenRecord], bool],
) -> DescribeDelegationTokenResponse:
    """DescribeDelegationToken (key 41): the sender's own, and those that it may see.  `owners` None: of all."""
    owners = None
    if request.owners is not None:
        owners = {f"{one.principal_type}:{one.principal_name}" for one in request.owners}
    tokens = []
    for token_id, token in sorted(image.tokens.items()):
        concerned = {token.owner, token.requester, *token.renewers}
        if owners is not None and not owners & concerned:
            continue
        if sender in concerned or may_see(token):
            tokens.append(_described(token, token_hmac(secret, token_id), version))
    return DescribeDelegationTokenResponse(tokens=tokens)


def _described(token: DelegationTokenRecord, mac: bytes, version: int) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    pairs = [one.partition(":") for one in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type if version >= 3 else "",
        token_requester_principal_name=requester_name if version >= 3 else "",
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=mac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in pairs
        ],
    )
