"""Delegation tokens, as their owners make, see, renew and end them (KIP-48)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.sasl import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

__all__ = ["DelegationToken", "create_token", "end_token", "renew_token", "tokens_of"]

_LONGEST_MS = -1
"""As long as the cluster allows."""


class DelegationToken(NamedTuple):
    """`password` is its HMAC in base64, a secret.  Times are ms since 1970; `max_ms` is its last possible end."""

    id: str
    password: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    until_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"<DelegationToken {self.id} of {self.owner}>"


@for_both
async def create_token(
    cluster: AnyCluster, *, owner: str = "", renewers: Sequence[str] = (), life_ms: int = _LONGEST_MS
) -> DelegationToken:
    """`create_token(cluster, renewers=["User:etl"])`: of whoever asks, or of `owner`.  Raises KafkaError."""
    kind, _, name = owner.partition(":")
    named = {"owner_principal_type": kind, "owner_principal_name": name} if owner else {}
    parts = [one.partition(":") for one in renewers]
    made = await cluster.ask(
        CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, _, name in parts],
            max_lifetime_ms=life_ms,
            **named,
        )
    )
    _check(made.error_code, "no token was made")
    return _token(made, renewers, made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms)


@for_both
async def tokens_of(cluster: AnyCluster, owners: Sequence[str] | None = None) -> list[DelegationToken]:
    """`tokens_of(cluster)` -> those that one may see, or those of `owners`, oldest first.  Raises KafkaError."""
    named = None
    if owners is not None:
        parts = [owner.partition(":") for owner in owners]
        named = [DescribeDelegationTokenOwner(principal_type=k, principal_name=n) for k, _, n in parts]
    found = await cluster.ask(DescribeDelegationTokenRequest(owners=named))
    _check(found.error_code, "tokens cannot be listed")
    tokens = [
        _token(
            one,
            [f"{each.principal_type}:{each.principal_name}" for each in one.renewers],
            one.issue_timestamp,
            one.expiry_timestamp,
            one.max_timestamp,
        )
        for one in found.tokens
    ]
    return sorted(tokens, key=lambda token: (token.issued_ms, token.id))


@for_both
async def renew_token(cluster: AnyCluster, token: DelegationToken, period_ms: int = _LONGEST_MS) -> int:
    """`renew_token(cluster, token)` -> when it ends now, in ms since 1970.  Raises KafkaError."""
    request = RenewDelegationTokenRequest(hmac=base64.b64decode(token.password), renew_period_ms=period_ms)
    answer = await cluster.ask(request)
    _check(answer.error_code, f"token {token.id} was not renewed")
    return int(answer.expiry_timestamp_ms)


@for_both
async def end_token(cluster: AnyCluster, token: DelegationToken) -> None:
    """`end_token(cluster, token)`: it is gone, and so are the connections by it.  Raises KafkaError."""
    request = ExpireDelegationTokenRequest(hmac=base64.b64decode(token.password), expiry_time_period_ms=-1)
    _check((await cluster.ask(request)).error_code, f"token {token.id} was not ended")


def _token(
    said: CreateDelegationTokenResponse | DescribedDelegationToken,
    renewers: Sequence[str],
    issued_ms: int,
    until_ms: int,
    max_ms: int,
) -> DelegationToken:
    """(The two answers share all names but those of the times and renewers.)"""
    return DelegationToken(
        said.token_id,
        base64.b64encode(bytes(said.hmac)).decode(),
        f"{said.principal_type}:{said.principal_name}",
        f"{said.token_requester_principal_type}:{said.token_requester_principal_name}",
        tuple(renewers),
        issued_ms,
        until_ms,
        max_ms,
    )


def _check(code: int, what: str) -> None:
    if code:
        error = ErrorCode(code)
        raise KafkaError(error, f"{what}: {_WHY.get(error, error.name)}", next_step=_HELPS.get(error))


_WHY = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the cluster has no secret for tokens",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "who asks has not logged in, or has by a token",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "who asks may not make tokens of that user",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "who asks is neither its owner nor a renewer",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "it has ended",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no such token",
    ErrorCode.POLICY_VIOLATION: "one user has 1,000 tokens at most, one token 100 renewers",
}
_HELPS = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key, the same at all nodes",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "log in with a password or a certificate: --command-config FILE"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "have somebody give you CREATE_TOKENS on that user",
}
