"""A broker that answers what it was not asked, or in words of a later release: the call fails by our error.

Found by the fuzz target `answers`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.admin.groups import delete_group
from barnabas.client.admin.quorum_detail import described
from barnabas.client.both.awaited import awaited
from barnabas.client.coordinators import found_coordinator
from barnabas.client.group_offsets import read_committed_offsets
from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.wire.schemas.groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    FindCoordinatorResponse,
    OffsetFetchResponse,
)
from barnabas.wire.schemas.quorum import DescribeQuorumResponse, DescribeQuorumResponseTopicData


@pytest.mark.parametrize("code", [137, 32767, -2])
def test_an_error_code_of_a_later_release_is_an_error_of_the_server(code: int) -> None:
    assert ErrorCode(code) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not ErrorCode(code).retriable and not ErrorCode(code).definite
    with pytest.raises(KafkaError) as failed:
        read_committed_offsets(OffsetFetchResponse(error_code=code), 5, "group")
    assert failed.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_answer_without_the_group_that_was_asked_for_is_refused() -> None:
    with pytest.raises(WireError, match="says nothing of group group"):
        read_committed_offsets(OffsetFetchResponse(groups=[]), 8, "group")


def test_an_answer_without_the_coordinator_that_was_asked_for_is_refused() -> None:
    with pytest.raises(WireError, match="says nothing of the coordinator"):
        found_coordinator(FindCoordinatorResponse(coordinators=[]), 6, "g", transaction=False)


@pytest.mark.parametrize("topics", [[], [DescribeQuorumResponseTopicData()]])
def test_a_description_of_a_quorum_without_a_quorum_is_refused(
    topics: list[DescribeQuorumResponseTopicData],
) -> None:
    with pytest.raises(WireError, match="says nothing of the quorum"):
        described(DescribeQuorumResponse(topics=topics), "cluster")


def test_what_a_broker_says_of_a_group_that_it_did_not_delete_reaches_the_user() -> None:
    """DeleteGroups 3: a broker whose plugin refused says why."""
    result = DeletableGroupResult(
        group_id="g", error_code=ErrorCode.GROUP_DELETION_FAILED, error_message="the plugin is down"
    )
    answer = awaited(lambda *_: DeleteGroupsResponse(results=[result]))
    coordinator = SimpleNamespace(request=answer)
    cluster: Any = SimpleNamespace(at_coordinator=lambda group, attempt: attempt(coordinator))
    cluster.awaited = cluster
    with pytest.raises(KafkaError, match=r"group g: the plugin is down \(GROUP_DELETION_FAILED\)"):
        delete_group(cluster, "g")
