"""ACLs as the controller decides about them: duplicates, filters that overlap, limits, snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.cluster import Cluster

from barnabas.controller.snapshot import image_from, image_records
from barnabas.errors import ErrorCode, KafkaError
from barnabas.security.acl import Acl
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.wire.schemas.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")


def creation(name: str, principal: str = "User:alice", host: str = "*") -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal=principal,
        host=host,
        operation=3,
        permission_type=3,
    )


def create(cluster: Cluster, *acls: AclCreation) -> list[int]:
    answer = cluster.answer(CreateAclsResponse, CreateAclsRequest(creations=list(acls)))
    return [result.error_code for result in answer.results]


def delete(cluster: Cluster, *filters: dict[str, Any]) -> list[int]:
    """How many ACLs each filter found."""
    asked = [DeleteAclsFilter(**{**ANY, **one}) for one in filters]
    answer = cluster.answer(DeleteAclsResponse, DeleteAclsRequest(filters=asked))
    assert [result.error_code for result in answer.filter_results] == [0] * len(filters)
    return [len(result.matching_acls) for result in answer.filter_results]


def test_what_is_there_already_succeeds_without_a_record(cluster: Cluster) -> None:
    before = cluster.image.offset
    assert create(cluster, creation("a"), creation("a"), creation("b")) == [0, 0, 0]
    assert len(cluster.image.acls) == cluster.image.offset - before == 2
    assert create(cluster, creation("a")) == [0]
    assert len(cluster.image.acls) == cluster.image.offset - before == 2


def test_what_two_filters_find_is_removed_once_and_in_both_answers(cluster: Cluster) -> None:
    create(cluster, creation("a"), creation("b"), creation("b", "User:bob"))
    assert delete(cluster, {"resource_name_filter": "b"}, {"principal_filter": "User:alice"}) == [2, 2]
    assert cluster.image.acls == {}
    assert cluster.image.acl_ids == {}
    assert create(cluster, creation("a")) == [0]


def test_a_request_changes_ten_thousand_acls_or_none(cluster: Cluster) -> None:
    many = [creation(f"t{number}") for number in range(10_001)]
    with pytest.raises(KafkaError) as too_many:
        create(cluster, *many)
    assert too_many.value.code is ErrorCode.INVALID_REQUEST
    assert create(cluster, *many[:6000]) == [0] * 6000
    assert create(cluster, *many[6000:]) == [0] * 4001
    with pytest.raises(KafkaError) as caught:
        delete(cluster, {})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert len(cluster.image.acls) == 10_001


def test_without_an_authorizer_nothing_is_kept() -> None:
    with pytest.raises(KafkaError) as caught:
        create(Cluster(1), creation("a"))
    assert caught.value.code is ErrorCode.SECURITY_DISABLED


def test_a_snapshot_has_the_acls_with_their_ids(cluster: Cluster) -> None:
    create(cluster, creation("a"), creation("b"))
    image = cluster.image
    again = image_from(
        image_records(image),
        cluster_id=image.cluster_id,
        end_offset=image.offset + 1,
        epoch=image.epoch,
        timestamp_ms=image.timestamp_ms,
    )
    assert again.acls == image.acls and again.acl_ids == image.acl_ids
    assert set(again.acls.values()) == {Acl(2, n, 3, "User:alice", "*", 3, 3) for n in ("a", "b")}


@pytest.mark.parametrize(("level", "code"), [(31, ErrorCode.UNSUPPORTED_VERSION), (32, ErrorCode.NONE)])
def test_a_range_of_addresses_is_taken_from_the_level_on_that_all_brokers_enforce(
    cluster: Cluster, level: int, code: ErrorCode
) -> None:
    cluster.image.features["metadata.version"] = level
    cluster.controller.image.features["metadata.version"] = level
    assert create(cluster, creation("a", host="10.0.0.0/8")) == [code]
    assert create(cluster, creation("b", host="10.0.0.1")) == [ErrorCode.NONE]


@pytest.mark.parametrize("host", ["10.0.0.0/33", "", "example.com/8"])
def test_a_host_that_can_never_be_enforced_is_refused(cluster: Cluster, host: str) -> None:
    assert create(cluster, creation("a", host=host)) == [ErrorCode.INVALID_REQUEST]
