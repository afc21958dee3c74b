"""Consumer groups (KIP-848) answer, assign and hash as Apache Kafka 4.4.0 does.

`consumer_assignments.json` holds what Kafka's own assignor classes gave for drawn groups: members that join and
leave, static ones among them, topics that grow, the same subscription for all and different ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.consumer_walk import TOPICS, Walk
from tests.broker.consumer_world import ConsumerWorld
from tests.broker.test_groups import OffsetsPartition

from barnabas.broker.groups.consumer.assignors import ASSIGNORS
from barnabas.broker.groups.consumer.group_spec import AssignableMember, GroupSpec
from barnabas.broker.groups.consumer.member import Target
from barnabas.broker.groups.consumer.records import target_assigned
from barnabas.broker.groups.consumer.subscriptions import metadata_hash, preferred_assignor
from barnabas.controller.image import PartitionState, Topic
from barnabas.model import Uuid
from barnabas.wire.records import batches
from barnabas.wire.schemas.groups import ListGroupsRequest

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures" / "kafka-4.3.1"
FLIGHTS_HASH, BOTH_HASH = 807007707803290257, 5530871244780855331


def test_seven_hundred_heartbeats_and_commits_are_answered_as_by_apache_kafka() -> None:
    recorded = json.loads((HERE / "consumer_walk_answers.json").read_text())
    ids = {name: Uuid.parse(text) for name, text in recorded["topics"].items()}
    ours = Walk(ids).run(ConsumerWorld(TOPICS, ids=ids).ask)
    for step, (theirs, given) in enumerate(zip(recorded["answers"], ours, strict=True)):
        assert given == theirs, f"step {step}"
    codes = {answer for _, answer in ours if isinstance(answer, int)}
    assert {25, 42, 69, 82, 110, 111, 112, 113} <= codes, "the walk met every fencing code"


def test_both_assignors_give_what_those_of_apache_kafka_give() -> None:
    cases = json.loads((HERE / "consumer_assignments.json").read_text())
    assert len(cases) > 80
    for number, case in enumerate(cases):
        members = {id: _member(said) for id, said in case["members"].items()}
        owners: dict[Uuid, dict[int, str]] = {}
        for id, member in members.items():
            for topic, partitions in member.target.items():
                owners.setdefault(topic, {}).update(dict.fromkeys(partitions, id))
        partitions = {Uuid.parse(topic): count for topic, count in case["topics"].items()}
        given = ASSIGNORS[case["assignor"]](GroupSpec(members, case["same"], owners, partitions))
        for id, said in case["members"].items():
            assert given.get(id, {}) == _target(said["gets"]), (number, case["assignor"], id)


def _member(said: dict[str, Any]) -> AssignableMember:
    topics = tuple(map(Uuid.parse, said["topics"]))
    return AssignableMember(topics, len(topics), said["instance"], _target(said["had"]))


def _target(said: dict[str, list[int]]) -> Target:
    return {Uuid.parse(topic): frozenset(partitions) for topic, partitions in said.items() if partitions}


@pytest.mark.parametrize("same", [True, False])
def test_topics_whose_ids_share_a_bucket_are_given_up_in_the_order_of_javas_table(same: bool) -> None:
    """The one that a member got last is in front; records keep that order.  Different topics go by their ids."""
    first, second = (Uuid.parse(text) for text in ("qEUmlagaQRKfMXAH49yE3Q", "h3ExQkFEQqu93Adwqb8FgA"))
    partitions = {first: 1, second: 1}
    alone = AssignableMember((first, second), 2, None, {})
    target = ASSIGNORS["uniform"](GroupSpec({"a": alone}, same, {}, partitions))["a"]
    assert list(target) == ([second, first] if same else [first, second])
    written: Any = target_assigned("g", "a", target).value
    assert [one.topic_id for one in written.topic_partitions] == list(target)


@pytest.mark.parametrize(
    ("votes", "before", "after", "preferred"),
    [
        ({}, None, None, "uniform"),
        ({"range": 1}, None, None, "range"),
        ({"range": 2, "uniform": 1}, None, None, "range"),
        ({"range": 1, "sticky": 5}, None, None, "range"),
        ({"range": 1, "uniform": 1}, None, None, "uniform"),
        ({"range": 1}, None, "uniform", "uniform"),
        ({"uniform": 1}, None, "range", "range"),
        ({"range": 1, "uniform": 1}, "range", "range", "range"),
        ({"range": 1, "uniform": 1}, "uniform", "uniform", "uniform"),
        ({"range": 1, "uniform": 2}, "uniform", "range", "range"),
        ({"range": 2, "uniform": 2}, "range", "range", "uniform"),
        ({"range": 1}, "range", None, "uniform"),
    ],
)
def test_of_assignors_with_as_many_votes_the_one_that_only_the_asking_member_names_is_preferred(
    votes: Mapping[str, int], before: str | None, after: str | None, preferred: str
) -> None:
    assert preferred_assignor(votes, ["uniform", "range"], before, after) == preferred


def test_the_order_of_the_setting_says_which_assignor_is_the_default_and_decides_no_tie() -> None:
    assert preferred_assignor({}, ["range", "uniform"]) == "range"
    assert preferred_assignor({"range": 1, "uniform": 1}, ["range", "uniform"]) == "uniform"


def test_topics_hash_to_the_number_that_apache_kafka_writes() -> None:
    """The numbers are those of hash4j, the library that Kafka uses."""
    flights = Topic("flights", Uuid.parse("CfYDLLbJR0yxZhjxY0OEHA"), _partitions((1,), (1,), (1,)))
    planes = Topic("planes", Uuid.parse("TUVcLm-wRI-If3FvOLK8qg"), _partitions((3, 2), (3,)))
    racks = {1: None, 2: "east", 3: "west"}
    image: Any = SimpleNamespace(
        topics_by_name={"flights": flights, "planes": planes},
        brokers={id: SimpleNamespace(rack=rack) for id, rack in racks.items()},
    )
    assert metadata_hash(["flights"], image) == FLIGHTS_HASH
    assert metadata_hash(["planes", "nowhere", "flights"], image) == BOTH_HASH
    assert metadata_hash(["nowhere"], image) == 0


def _partitions(*replicas: tuple[int, ...]) -> dict[int, PartitionState]:
    return {index: PartitionState(index, who, who) for index, who in enumerate(replicas)}


def test_a_partition_that_apache_kafka_wrote_is_loaded_as_kafka_described_its_groups() -> None:
    """`consumer-groups.log` is a segment of its __consumer_offsets, copied while members were in the groups."""
    told = json.loads((FIXTURES / "consumer-groups.json").read_text())
    ids = {name: Uuid.parse(text) for name, text in told["topics"].items()}
    partition = OffsetsPartition()
    partition.raw += (FIXTURES / "consumer-groups.log").read_bytes()
    *_, (_, last) = batches(bytes(partition.raw))
    partition.log.log_end_offset = last.last_offset + 1
    world = ConsumerWorld(TOPICS, ids=ids, partition=partition)
    while world.groups.statistics().loading:
        world.run()
    assert world.groups.unreadable == 0
    walk = Walk(ids)
    for name, described in told["groups"].items():
        assert walk.describe(world.ask, name) == described
        group = world.group(name)
        assert metadata_hash(group.topics, world.broker.image) == group.metadata_hash
    listed = world.groups.list(world.context(5), ListGroupsRequest(), world.now).groups
    assert sorted([one.group_id, one.group_type, one.group_state] for one in listed) == told["listed"]
    assert world.position("simple") == 5
