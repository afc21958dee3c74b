"""SCRAM users: what is refused (as by Apache Kafka, see tests/compat/test_logins), and what a snapshot keeps."""

from __future__ import annotations

from tests.controller.cluster import Cluster

from barnabas.controller.decisions.users.scram_users import describe_user_scram_credentials
from barnabas.controller.snapshot import image_from, image_records
from barnabas.errors import ErrorCode
from barnabas.security.scram import credential_of
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)


def up(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"s" * 32
    )


def gone(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def change(
    cluster: Cluster,
    *upsertions: ScramCredentialUpsertion,
    deletions: list[ScramCredentialDeletion] | None = None,
) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(upsertions=list(upsertions), deletions=deletions or [])
    answer = cluster.answer(AlterUserScramCredentialsResponse, request)
    return {row.user: ErrorCode(row.error_code) for row in answer.results}


def test_a_user_is_kept_as_what_proves_its_password() -> None:
    cluster = Cluster(1)
    assert change(cluster, up("ada")) == {"ada": ErrorCode.NONE}
    kept = cluster.image.scram["ada", 1]
    made = credential_of("SCRAM-SHA-256", b"s" * 32, b"salt", 4096)
    assert (kept.salt, kept.stored_key, kept.server_key) == (b"salt", made.stored_key, made.server_key)
    assert b"s" * 32 not in (kept.stored_key, kept.server_key)


def test_what_no_credential_can_be_is_refused_user_by_user() -> None:
    cluster = Cluster(1)
    assert change(
        cluster,
        up("ada"),
        up(""),
        up("few", 1, 4095),
        up("many", 1, 16385),
        up("odd", 3),
        deletions=[gone("eve")],
    ) == {
        "ada": ErrorCode.NONE,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert list(cluster.image.scram) == [("ada", 1)]
    assert change(cluster, up("bob"), up("bob", 2)) == {"bob": ErrorCode.DUPLICATE_RESOURCE}


def test_users_are_described_and_survive_a_snapshot() -> None:
    cluster = Cluster(1)
    change(cluster, up("ada"), up("bob", 2, 8192))
    change(cluster, up("ada", 2))
    records = list(image_records(cluster.image))
    again = image_from(records, cluster_id="c", end_offset=1, epoch=1, timestamp_ms=0)
    assert again.scram == cluster.image.scram
    found = describe_user_scram_credentials(again, DescribeUserScramCredentialsRequest(users=None)).results
    assert [(row.user, [(i.mechanism, i.iterations) for i in row.credential_infos]) for row in found] == [
        ("ada", [(1, 4096), (2, 4096)]),
        ("bob", [(2, 8192)]),
    ]
    asked = DescribeUserScramCredentialsRequest(users=[UserName(name=n) for n in ("ada", "ada", "eve")])
    codes = {row.user: row.error_code for row in describe_user_scram_credentials(again, asked).results}
    assert codes == {"ada": ErrorCode.DUPLICATE_RESOURCE, "eve": ErrorCode.RESOURCE_NOT_FOUND}
    change(cluster, deletions=[gone("ada"), gone("bob", 2)])
    assert list(cluster.image.scram) == [("ada", 2)]
