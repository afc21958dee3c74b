"""Creating, deleting and growing topics: every check, and that a decision touches nothing."""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster, assigned, directory

from barnabas.controller.decisions.topic_names import collision, is_valid
from barnabas.controller.image import MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.wire.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.wire.schemas.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


def create(
    cluster: Cluster, *topics: CreatableTopic, version: int = 7, only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=only)
    return cluster.answer(CreateTopicsResponse, request, version).topics


def wish(name: str = "flights", partitions: int = -1, replicas: int = -1, **settings: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()],
    )


# Creating.


def test_a_topic_is_created_with_its_record_its_settings_and_its_partitions_in_this_order() -> None:
    cluster = Cluster(1, 2, 3)
    request = CreateTopicsRequest(topics=[wish("flights", 2, 3, retention_ms="1000")])
    records = cluster.decide(request).records
    assert [type(record) for record in records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    [first, second] = records[2:]
    assert isinstance(first, PartitionRecord) and isinstance(second, PartitionRecord)
    assert (first.partition_id, first.leader_epoch, first.partition_epoch) == (0, 0, 0)
    assert first.leader == first.replicas[0]
    assert first.isr == first.replicas
    assert sorted(first.replicas) == [1, 2, 3]
    assert first.directories == [directory(broker) for broker in first.replicas]
    assert first.leader != second.leader


def test_deciding_touches_nothing() -> None:
    cluster = Cluster(1)
    before = cluster.image.copy()
    cluster.decide(CreateTopicsRequest(topics=[wish()]))
    for part in MetadataImage.__slots__:
        assert getattr(cluster.image, part) == getattr(before, part)


def test_the_answer_tells_the_id_the_counts_and_every_setting_with_its_source() -> None:
    cluster = Cluster(1)
    [result] = create(cluster, wish(partitions=3, retention_ms="1000"))
    topic = cluster.image.topic("flights")
    assert topic is not None
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (topic.id, 3, 1)
    assert result.error_message is None
    settings = {c.name: (c.value, c.config_source) for c in result.configs or []}
    assert settings["retention.ms"] == ("1000", 1)
    assert settings["segment.bytes"] == ("1073741824", 5)
    assert settings["min.insync.replicas"] == ("1", 3)  # set for all brokers when the cluster was made


def test_versions_below_5_get_no_settings() -> None:
    assert create(Cluster(1), wish(), version=4)[0].configs == []


def test_minus_one_means_the_defaults_of_the_controller() -> None:
    cluster = Cluster(1, 2, num_partitions="4", default_replication_factor="2")
    [result] = create(cluster, wish())
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_placement_by_number_goes_on_where_a_topic_that_grows_has_ended() -> None:
    cluster = Cluster(1, 2, 3, barnabas_replica_placement="number")
    cluster.create("flights", partitions=2, replicas=2)
    assert grow(cluster, more(4)) == [0]
    topic = cluster.image.topics_by_name["flights"]
    assert [tuple(topic.partitions[n].replicas) for n in range(4)] == [(1, 2), (2, 3), (3, 1), (1, 3)]


def test_validate_only_answers_the_same_and_writes_nothing() -> None:
    cluster = Cluster(1)
    [result] = create(cluster, wish(), only=True)
    assert result.error_code == 0
    assert cluster.image.topic("flights") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "ä", "a b", "a/b", "a\n"])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    assert not is_valid(name)
    assert create(Cluster(1), wish(name))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_longest_and_oddest_legal_names_are_taken() -> None:
    for name in ("a" * 249, "a.b-C_9", "...", "-"):
        assert create(Cluster(1), wish(name))[0].error_code == 0


def test_the_name_of_the_metadata_log_is_refused_as_a_request() -> None:
    assert create(Cluster(1), wish("__cluster_metadata"))[0].error_code == ErrorCode.INVALID_REQUEST


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    cluster = Cluster(1)
    cluster.create("a.b")
    assert create(cluster, wish("a_b"))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(cluster, wish("a-b"))[0].error_code == 0
    results = create(cluster, wish("x.y"), wish("x_y"))
    assert [r.error_code for r in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert collision("a_b", ["a_b", "c"]) is None


def test_a_topic_that_exists_is_refused_and_the_others_of_the_request_are_made() -> None:
    cluster = Cluster(1)
    cluster.create("a")
    results = create(cluster, wish("a"), wish("b"))
    assert [r.error_code for r in results] == [ErrorCode.TOPIC_ALREADY_EXISTS, 0]
    assert cluster.image.topic("b") is not None


def test_a_topic_twice_in_a_request_is_refused_once_and_not_made() -> None:
    cluster = Cluster(1)
    results = create(cluster, wish("a"), wish("a"), wish("b"))
    assert [(r.name, r.error_code) for r in results] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
    assert cluster.image.topic("a") is None


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 3, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_counts_that_cannot_be_are_refused(partitions: int, replicas: int, code: ErrorCode) -> None:
    assert create(Cluster(1, 2), wish("a", partitions, replicas))[0].error_code == code


def test_fenced_brokers_count_for_the_replication_factor_but_do_not_lead() -> None:
    cluster = Cluster(1)
    cluster.register(2)
    cluster.create("a", partitions=6, replicas=2)
    for index in range(6):
        state = cluster.state("a", index)
        assert sorted(state.replicas) == [1, 2]
        assert (state.leader, state.isr) == (1, (1,))


def test_without_an_unfenced_broker_nothing_can_be_made() -> None:
    cluster = Cluster()
    cluster.register(1)
    assert create(cluster, wish())[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_more_than_ten_thousand_partitions_in_a_request_are_refused_for_all_of_it() -> None:
    results = create(Cluster(1), wish("a", 9_999), wish("b", 2))
    assert [r.error_code for r in results] == [ErrorCode.POLICY_VIOLATION] * 2


@pytest.mark.parametrize(
    "settings", [{"retention_ms": "soon"}, {"cleanup_policy": "shred"}, {"no_such_setting": "1"}]
)
def test_settings_that_the_log_would_not_take_are_refused(settings: dict[str, str]) -> None:
    [result] = create(Cluster(1), wish("a", -1, -1, **settings))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message


def test_a_setting_without_a_value_is_refused() -> None:
    topic = CreatableTopic(
        name="a",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value=None)],
    )
    assert create(Cluster(1), topic)[0].error_code == ErrorCode.INVALID_CONFIG


# Assigning by hand.


def test_an_assignment_by_hand_is_taken_as_it_is() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([3, 1], [1, 2])
    assert [cluster.state(index=i).replicas for i in (0, 1)] == [(3, 1), (1, 2)]
    assert [cluster.state(index=i).leader for i in (0, 1)] == [3, 1]


@pytest.mark.parametrize("assignment", [[[1, 1]], [[1, 9]], [[1], [1, 2]], [[]], [[3]]], ids=str)
def test_an_assignment_that_cannot_be_is_refused(assignment: list[list[int]]) -> None:
    cluster = Cluster(1, 2)
    cluster.register(3)
    [result] = create(cluster, assigned("a", *assignment))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_with_gaps_or_with_counts_beside_it_is_refused() -> None:
    cluster = Cluster(1)
    gap = CreatableTopic(
        name="a",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=1, broker_ids=[1])],
    )
    assert create(cluster, gap)[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    counted = CreatableTopic(
        name="a",
        num_partitions=1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
    )
    assert create(cluster, counted)[0].error_code == ErrorCode.INVALID_REQUEST


# Deleting.


def delete(cluster: Cluster, request: DeleteTopicsRequest, version: int = 6) -> list[tuple[str | None, int]]:
    answer = cluster.answer(DeleteTopicsResponse, request, version)
    return [(result.name, result.error_code) for result in answer.responses]


def test_topics_are_deleted_by_name_and_by_id() -> None:
    cluster = Cluster(1)
    cluster.create("a")
    cluster.create("b")
    a = cluster.image.topics_by_name["a"].id
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=a), DeleteTopicState(name="b")]
    )
    assert [type(record) for record in cluster.decide(request).records] == [RemoveTopicRecord] * 2
    assert delete(cluster, request) == [("a", 0), ("b", 0)]
    assert cluster.image.topics == {}


def test_old_versions_name_topics_in_a_plain_list() -> None:
    cluster = Cluster(1)
    cluster.create("a")
    assert delete(cluster, DeleteTopicsRequest(topic_names=["a", "b"]), 5) == [
        ("a", 0),
        ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_delete_that_is_unclear_or_unknown_is_refused() -> None:
    cluster = Cluster(1)
    cluster.create("a")
    a = cluster.image.topics_by_name["a"].id
    states = [
        DeleteTopicState(name="a", topic_id=a),
        DeleteTopicState(name=None),
        DeleteTopicState(name=None, topic_id=Uuid.of(9, 9)),
    ]
    codes = [code for _, code in delete(cluster, DeleteTopicsRequest(topics=states))]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID]
    twice = DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=a)])
    assert [code for _, code in delete(cluster, twice)] == [ErrorCode.INVALID_REQUEST] * 2
    assert cluster.image.topic("a") is not None


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deleting_can_be_switched_off(version: int, code: ErrorCode) -> None:
    cluster = Cluster(1, delete_topic_enable="false")
    cluster.create("a")
    assert delete(cluster, DeleteTopicsRequest(topic_names=["a"]), version) == [("a", code)]


# Growing.


def grow(cluster: Cluster, *topics: CreatePartitionsTopic, only: bool = False) -> list[int]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=only)
    return [result.error_code for result in cluster.answer(CreatePartitionsResponse, request).results]


def more(count: int, *brokers: list[int], name: str = "flights") -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers] or None
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def test_partitions_are_added_behind_the_ones_there_are() -> None:
    cluster = Cluster(1, 2)
    cluster.create(partitions=2, replicas=2)
    before = [cluster.state(index=0), cluster.state(index=1)]
    assert grow(cluster, more(4)) == [0]
    assert [cluster.state(index=0), cluster.state(index=1)] == before
    assert [len(cluster.state(index=i).replicas) for i in (2, 3)] == [2, 2]


def test_partitions_can_be_added_by_hand_and_only_tried() -> None:
    cluster = Cluster(1, 2)
    cluster.create()
    assert grow(cluster, more(2, [2]), only=True) == [0]
    assert len(cluster.image.topics_by_name["flights"].partitions) == 1
    assert grow(cluster, more(2, [2])) == [0]
    assert cluster.state(index=1).replicas == (2,)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (more(2), ErrorCode.INVALID_PARTITIONS),
        (more(1), ErrorCode.INVALID_PARTITIONS),
        (more(3, name="none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more(4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(20_000), ErrorCode.POLICY_VIOLATION),
    ],
    ids=str,
)
def test_a_growth_that_cannot_be_is_refused(asked: CreatePartitionsTopic, code: ErrorCode) -> None:
    cluster = Cluster(1, 2)
    cluster.create(partitions=2)
    assert grow(cluster, asked) == [code]


def test_a_topic_twice_in_a_growth_is_refused() -> None:
    cluster = Cluster(1)
    cluster.create()
    assert grow(cluster, more(2), more(3)) == [ErrorCode.INVALID_REQUEST]
