"""Findings of `barnabas doctor` about share groups that read from brokers of Barnabas."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cli.doctor import cluster as behind
from barnabas.cli.doctor.findings import Finding, Findings
from barnabas.cli.doctor.line import Address
from barnabas.cli.doctor.share_groups import Kinds, examine_share_groups, topics_by_group
from barnabas.client.security.options import PLAINTEXT
from barnabas.model import OFFSETS_TOPIC, SHARE_STATE_TOPIC, Uuid
from barnabas.wire.java_hash import java_hash
from barnabas.wire.schemas.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.schemas.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.schemas.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.wire.schemas.share_groups import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

GROUPS = {"billing": {"orders"}, "audit": {"orders", "clicks"}}


def placed(name: str, *replicas: list[int]) -> MetadataResponseTopic:
    """A topic whose partitions have these replicas, of which the first leads."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=nodes[0], replica_nodes=nodes)
        for index, nodes in enumerate(replicas)
    ]
    return MetadataResponseTopic(
        name=name, topic_id=Uuid(name.encode().ljust(16)[:16]), partitions=partitions
    )


def examined(groups: dict[str, set[str]], **topics: list[list[int]]) -> list[Finding]:
    """The rows about these topics, with their partitions' replicas; 4 and 5 are ours."""
    found = Findings()
    there = {name: placed(name, *replicas) for name, replicas in topics.items()}
    examine_share_groups(2, groups, there, Kinds({4, 5}, {1, 2, 3}), found)
    return [row for row in found.rows if row.state != "ok"]


def test_a_topic_that_a_broker_of_ours_leads_is_named_with_its_groups_and_the_command_that_moves_it() -> None:
    [row] = examined(GROUPS, orders=[[1, 2, 3], [4, 1, 2]], clicks=[[1, 2, 3]])
    assert row.state == "warning"
    assert "a broker of Barnabas leads partitions that share groups read" in row.said
    assert "orders (4; read by audit, billing)" in row.said and "clicks" not in row.said
    assert "read nothing from there, without an error" in row.said
    assert row.next == "barnabas topics reassign orders --brokers 1,2,3 --execute --wait"


def test_topics_that_it_would_lead_after_a_death_have_a_row_of_their_own() -> None:
    leads, would = examined(GROUPS, clicks=[[5, 1]], orders=[[1, 4], [2, 5]])
    assert "Barnabas leads partitions" in leads.said and "clicks (5; read by audit)" in leads.said
    assert "would lead, if another broker died, partitions" in would.said
    assert "orders (4, 5; read by audit, billing)" in would.said
    assert would.next == "barnabas topics reassign orders --brokers 1,2,3 --execute --wait"


@pytest.mark.parametrize(
    ("groups", "placed"),
    [
        (GROUPS, {"orders": [[1, 2, 3]], "clicks": [[2, 3, 1]]}),  # all lies with Apache Kafka
        (GROUPS, {}),  # the topics are not there, or not to be seen
        ({"billing": set()}, {"orders": [[4]]}),  # its members are away
        ({}, {"orders": [[4]]}),  # no share group
    ],
)
def test_groups_that_are_not_concerned_are_told_nothing(
    groups: dict[str, set[str]], placed: dict[str, list[list[int]]]
) -> None:
    assert examined(groups, **placed) == []


def test_the_groups_whose_state_lies_with_a_broker_of_ours_are_named() -> None:
    """As Apache Kafka places it: by the hash of group, topic id and partition."""
    orders, state = placed("orders", [1], [1]), 7
    for group in ("audit", "billing", "cards"):
        mine = {java_hash(f"{group}:{orders.topic_id}:{index}") % state for index in (0, 1)}
        row = examined({group: {"orders"}}, orders=[[1], [1]], __share_group_state=held_by(4, mine, state))[0]
        assert f"whose state is there ({group}) read nothing" in row.said
        others = set(range(state)) - mine
        row = examined({group: {"orders"}}, orders=[[1], [1]], __share_group_state=held_by(4, others, state))[
            0
        ]
        assert "whose state is there read nothing" in row.said


def held_by(node: int, partitions: set[int], count: int) -> list[list[int]]:
    return [[node] if index in partitions else [1] for index in range(count)]


class Coordinator:
    """A broker of Apache Kafka that coordinates these share groups: name -> what each member subscribes to."""

    def __init__(self, groups: dict[str, list[list[str]]]) -> None:
        self.groups = groups
        self.asked: list[Any] = []

    def request(self, message: Any) -> Any:
        self.asked.append(message)
        if isinstance(message, ListGroupsRequest):
            return ListGroupsResponse(groups=[ListedGroup(group_id=name) for name in self.groups])
        assert isinstance(message, ShareGroupDescribeRequest)
        return ShareGroupDescribeResponse(
            groups=[
                DescribedGroup(
                    group_id=name,
                    members=[Member(subscribed_topic_names=topics) for topics in self.groups[name]],
                )
                for name in message.group_ids
            ]
        )


def test_groups_are_asked_of_their_coordinator_with_what_all_members_subscribe_to() -> None:
    broker: Any = Coordinator({"audit": [["orders"], ["orders", "clicks"]], "billing": []})
    assert topics_by_group(broker) == {"audit": {"orders", "clicks"}, "billing": set()}
    listed, described = broker.asked
    assert listed.types_filter == ["share"] and described.group_ids == ["audit", "billing"]


def test_a_broker_without_share_groups_is_asked_once() -> None:
    broker: Any = Coordinator({})
    assert topics_by_group(broker) == {}
    assert len(broker.asked) == 1


class Cluster(Coordinator):
    """One of Apache Kafka's broker 1, which coordinates, and of ours, 4; it is every connection, too."""

    def __init__(self, level: int) -> None:
        super().__init__({"billing": [["orders"]]})
        self.finalized = {"metadata.version": 33, "share.version": level}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        """Stay as it is."""

    def close(self) -> None:
        """Stay as it is."""

    def request(self, message: Any) -> Any:
        match message:
            case DescribeClusterRequest():
                brokers = [DescribeClusterBroker(broker_id=id_, host="h", port=9092) for id_ in (1, 4)]
                return DescribeClusterResponse(cluster_id="c", brokers=brokers)
            case MetadataRequest():
                there = {OFFSETS_TOPIC: 1, SHARE_STATE_TOPIC: 4, "orders": 4}
                return MetadataResponse(topics=[placed(name, [node]) for name, node in there.items()])
            case DescribeConfigsRequest(resources=[asked]):
                told = {"offsets.topic.num.partitions": "50"}
                if asked.resource_name == "4":
                    told["barnabas.fast.fencing"] = "true"
                configs = [
                    DescribeConfigsResourceResult(name=name, value=value) for name, value in told.items()
                ]
                return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])
        return super().request(message)


@pytest.mark.parametrize("level", [0, 2])
def test_a_cluster_of_both_kinds_is_looked_at_where_share_groups_are_in_force(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = Cluster(level)
    monkeypatch.setattr(behind, "connect", lambda *_: cluster)
    monkeypatch.setattr(behind, "dial", lambda _: cluster)
    monkeypatch.setattr(behind, "examine_descriptors", lambda *_: None)
    found = Findings()
    behind.examine_cluster(Address("h", 9092, 1.0), PLAINTEXT, found)
    rows = [row for row in found.rows if row.check == "share groups"]
    assert [row.next.split()[3] for row in rows] == ([SHARE_STATE_TOPIC, "orders"] if level else [])
    assert any(isinstance(message, ListGroupsRequest) for message in cluster.asked) == bool(level)
