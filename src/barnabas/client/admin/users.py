"""SCRAM users, as an administrator sees and changes them (KIP-554)."""

from __future__ import annotations

import os
from typing import NamedTuple

from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.security.scram import MECHANISMS, MOST_ITERATIONS, salted_password
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

__all__ = ["UserCredential", "remove_user", "set_password", "users_of"]

_SALT_BYTES = 24
_CODES = {name: code for code, name in MECHANISMS.items()}


class UserCredential(NamedTuple):
    """That a user can log in by a mechanism."""

    user: str
    mechanism: str
    iterations: int


@for_both
async def users_of(cluster: AnyCluster) -> list[UserCredential]:
    """`users_of(cluster)` -> who can log in with SCRAM, by user and mechanism (KIP-554)."""
    response = await cluster.ask(DescribeUserScramCredentialsRequest(users=None))
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), response.error_message or "users cannot be listed")
    return sorted(
        UserCredential(
            found.user, MECHANISMS.get(info.mechanism, f"mechanism {info.mechanism}"), info.iterations
        )
        for found in response.results
        for info in found.credential_infos
    )


@for_both
async def set_password(
    cluster: AnyCluster,
    user: str,
    password: str,
    mechanism: str = "SCRAM-SHA-512",
    iterations: int = MOST_ITERATIONS,
) -> None:
    """`set_password(cluster, "ada", "secret")`: make the user, or change its password; its hash alone is sent."""
    salt = os.urandom(_SALT_BYTES)
    change = ScramCredentialUpsertion(
        name=user,
        mechanism=_CODES[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password.encode(), salt, iterations),
    )
    await _change(cluster, AlterUserScramCredentialsRequest(upsertions=[change]))


@for_both
async def remove_user(cluster: AnyCluster, user: str, mechanism: str = "SCRAM-SHA-512") -> None:
    """`remove_user(cluster, "ada")`: it can no longer log in by this mechanism."""
    change = ScramCredentialDeletion(name=user, mechanism=_CODES[mechanism])
    await _change(cluster, AlterUserScramCredentialsRequest(deletions=[change]))


async def _change(cluster: AnyCluster, request: AlterUserScramCredentialsRequest) -> None:
    for result in (await cluster.ask(request)).results:
        if result.error_code:
            raise KafkaError(
                ErrorCode(result.error_code), result.error_message or f"user {result.user} was not changed"
            )
