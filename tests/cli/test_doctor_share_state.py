"""Findings of `barnabas doctor` about brokers that hold the state of share groups without serving them."""

from __future__ import annotations

import pytest

from barnabas.cli.doctor.findings import Finding, Findings
from barnabas.cli.doctor.share_groups import Kinds, examine_share_groups
from barnabas.model import SHARE_STATE_TOPIC
from barnabas.wire.schemas.cluster import MetadataResponsePartition, MetadataResponseTopic

OURS, KAFKAS = {4, 5}, {1, 2, 3}


def examined(
    *placed: list[int], ours: set[int] = OURS, kafkas: set[int] = KAFKAS, level: int = 2, made: bool = True
) -> list[Finding]:
    """The rows where the topic has these replicas, of which the first leads."""
    state = MetadataResponseTopic(
        partitions=[MetadataResponsePartition(leader_id=nodes[0], replica_nodes=nodes) for nodes in placed]
    )
    found = Findings()
    examine_share_groups(level, {}, {SHARE_STATE_TOPIC: state} if made else {}, Kinds(ours, kafkas), found)
    return found.rows


def test_a_broker_of_ours_that_leads_the_state_is_named_with_the_command_that_moves_it() -> None:
    [row] = examined([1, 2, 3], [4, 1, 2])
    assert row.state == "warning"
    assert "a broker of Barnabas leads partitions of __share_group_state (4)" in row.said
    assert "read nothing, without an error" in row.said
    assert row.next == "barnabas topics reassign __share_group_state --brokers 1,2,3 --execute --wait"


def test_one_that_follows_would_lead_if_another_died() -> None:
    [row] = examined([1, 5, 3], [2, 1, 4])
    assert row.state == "warning" and "would lead, if another broker died, partitions" in row.said
    assert "(4, 5)" in row.said


def test_where_all_of_it_lies_with_brokers_of_apache_kafka_all_is_well() -> None:
    assert [row.state for row in examined([1, 2, 3], [2, 3, 1])] == ["ok"]


def test_before_the_first_share_group_it_is_said_where_the_state_has_to_stay() -> None:
    [row] = examined(made=False)
    assert row.state == "ok" and "has to stay there" in row.said


def test_where_no_broker_of_apache_kafka_is_left_its_share_groups_are_over() -> None:
    [row] = examined([4, 5], kafkas=set())
    assert row.state == "warning" and "no broker is left that serves share groups" in row.said
    assert "barnabas topics delete __share_group_state" in row.next


@pytest.mark.parametrize(
    "cluster",
    [
        {"kafkas": set(), "made": False},  # ours alone, at the levels of its format
        {"ours": set()},  # Apache Kafka's alone
        {"level": 0},  # share groups are not in force
    ],
)
def test_clusters_that_are_not_concerned_are_told_nothing(cluster: dict[str, object]) -> None:
    assert examined([1, 2, 3], **cluster) == []  # type: ignore[arg-type]
