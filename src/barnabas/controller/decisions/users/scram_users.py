"""SCRAM users: AlterUserScramCredentials, a decision, and DescribeUserScramCredentials, an answer (KIP-554).

Texts and codes are those of Apache Kafka's ScramControlManager and ScramImage: a user may stand once in a
request, whatever its mechanism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import MetadataImage
from barnabas.controller.view import BATCH_LIMIT, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.security.scram import (
    FEWEST_ITERATIONS,
    MECHANISMS,
    MOST_ITERATIONS,
    ScramCredential,
    credential_of,
)
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import (
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

__all__ = ["alter_user_scram_credentials", "describe_user_scram_credentials", "user_record"]

_FIRST_METADATA_VERSION = 11
"""3.5-IV2: the first that has SCRAM records."""
_LONGEST_NAME = 32767
_Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(view: View, request: AlterUserScramCredentialsRequest) -> Decision:
    """AlterUserScramCredentials (key 51): each user of the request succeeds or fails on its own.

    The first change of a user that is refused tells how; another one after it is not looked at.
    """
    records: dict[str, MetadataRecord] = {}
    errors: dict[str, KafkaError] = {}
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        name = change.name
        if name in errors:
            continue
        try:
            if records.pop(name, None) is not None:
                text = "A user credential cannot be altered twice in the same request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
            if view.image.feature(METADATA_VERSION) < _FIRST_METADATA_VERSION:
                text = "The current metadata.version does not support SCRAM"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            if len(records) == BATCH_LIMIT:
                text = f"one request may change at most {BATCH_LIMIT} users"
                raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
            records[name] = _changed(view.image, change)
        except KafkaError as error:
            errors[name] = error
    results = [AlterUserScramCredentialsResult(user=name, error_message=None) for name in records]
    results += [
        AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
        for name, error in errors.items()
    ]
    gone = _tokens_of_removed(view.image, records.values())
    return Decision(AlterUserScramCredentialsResponse(results=results), [*records.values(), *gone])


def _tokens_of_removed(
    image: MetadataImage, records: Iterable[MetadataRecord]
) -> Iterator[RemoveDelegationTokenRecord]:
    """Yield what removes the delegation tokens of those users whose last credential goes: they are out.

    A user without any credential here is known by other means, and keeps its tokens.
    """
    mechanisms = Counter(name for name, _ in image.scram)
    removed = {r.name for r in records if isinstance(r, RemoveUserScramCredentialRecord)}
    owners = {f"User:{name}" for name in removed if mechanisms[name] == 1}
    for token in image.tokens.values() if owners else ():
        if token.owner in owners:
            yield RemoveDelegationTokenRecord(token_id=token.token_id)


def _changed(image: MetadataImage, change: _Change) -> MetadataRecord:
    """The record of one change.  Raises KafkaError."""
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(change.name.encode()) > _LONGEST_NAME:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username is too long")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, change.mechanism) not in image.scram:
            text = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < FEWEST_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MOST_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    made = credential_of(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
    return user_record(change.name, change.mechanism, made)


def user_record(name: str, code: int, made: ScramCredential) -> UserScramCredentialRecord:
    """What the metadata keep of a user; `code` is its mechanism's."""
    return UserScramCredentialRecord(
        name=name,
        mechanism=code,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def describe_user_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials (key 50): mechanisms and iterations; without names, of everybody."""
    found: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), record in sorted(image.scram.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        found.setdefault(name, []).append(info)
    times = Counter(user.name for user in request.users or ())
    results = []
    for name in times or found:
        code, message = ErrorCode.NONE, None
        if times[name] > 1:
            code = ErrorCode.DUPLICATE_RESOURCE
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        elif name not in found:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {name}"
        infos = [] if code else found[name]
        results.append(
            DescribeUserScramCredentialsResult(
                user=name, error_code=code, error_message=message, credential_infos=infos
            )
        )
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)
