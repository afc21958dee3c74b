"""Create and delete topics, and add partitions to them: decisions only (KIP-4, KIP-195, KIP-464, KIP-516).

Each topic of a request succeeds or fails by itself; what is wrong with the request as a whole fails all
its topics.  The order of the records is Topic, its settings, its partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence

from barnabas.controller.decisions import configs
from barnabas.controller.decisions.placement import place_by_number, place_in_steps
from barnabas.controller.decisions.topic_names import check_topic_name, collision
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import RESOURCE_TOPIC, Topic
from barnabas.controller.versions import DIRECTORIES
from barnabas.controller.view import BATCH_LIMIT, Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, NodeId, TopicId
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

__all__ = ["create_partitions", "create_topics", "delete_topics"]

_DEFAULT = -1


# Creating.


def create_topics(view: View, request: CreateTopicsRequest) -> Deciding:
    """CreateTopics (key 19): check every topic, place its replicas, answer with what it became."""
    repeated = {name for name, count in Counter(t.name for t in request.topics).items() if count > 1}
    too_many = sum(_asked_partitions(view, topic) for topic in request.topics) > BATCH_LIMIT
    records: list[MetadataRecord] = []
    results: list[CreatableTopicResult] = []
    creating: list[str] = []
    for topic in request.topics:
        if topic.name in repeated:
            if not any(result.name == topic.name for result in results):
                refused = KafkaError(ErrorCode.INVALID_REQUEST, "the topic is in the request more than once")
                results.append(_create_refused(topic, refused))
            continue
        try:
            if too_many:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"one request may create at most {BATCH_LIMIT} partitions"
                )
            topic_records, result = yield from _create(view, topic, creating)
        except KafkaError as error:
            results.append(_create_refused(topic, error))
            continue
        creating.append(topic.name)
        records += topic_records
        results.append(result)
    return Decision(CreateTopicsResponse(topics=results), [] if request.validate_only else records)


def _asked_partitions(view: View, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return max(
        0, view.config.int("num.partitions") if topic.num_partitions == _DEFAULT else topic.num_partitions
    )


def _create(
    view: View, topic: CreatableTopic, creating: Sequence[str]
) -> Generator[None, None, tuple[list[MetadataRecord], CreatableTopicResult]]:
    """The records of one new topic and its answer.  Raises KafkaError."""
    check_topic_name(topic.name)
    if topic.name in view.image.topics_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name} exists already")
    if other := collision(topic.name, (*view.image.topics_by_name, *creating)):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {topic.name} collides with {other}: names may not differ in '.' and '_' only",
        )
    settings = _settings(view, topic)
    assignment = _manual(view, topic) if topic.assignments else (yield from _automatic(view, topic))
    topic_id = view.randomness.uuid()
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += (
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in settings.items()
    )
    records += yield from _new_partitions(view, topic_id, 0, assignment)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assignment),
        replication_factor=len(assignment[0]),
        configs=configs.created_topic_configs(view, settings) if view.version >= 5 else [],
    )
    return records, result


def _settings(view: View, topic: CreatableTopic) -> dict[str, str]:
    settings: dict[str, str] = {}
    for entry in topic.configs:
        if entry.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"setting {entry.name} has no value")
        settings[entry.name] = entry.value
    configs.check_topic_settings(view.config, settings)
    return settings


def _automatic(view: View, topic: CreatableTopic) -> Generator[None, None, list[tuple[NodeId, ...]]]:
    partitions, replicas = topic.num_partitions, topic.replication_factor
    if partitions == _DEFAULT:
        partitions = view.config.int("num.partitions")
    if partitions <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions: give at least 1, or -1 for the default"
        )
    if replicas == _DEFAULT:
        replicas = view.config.int("default.replication.factor")
    if replicas <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replicas}: give at least 1, or -1 for the default",
        )
    return (yield from _placed(view, 0, partitions, replicas))


def _placed(
    view: View, first: int, partitions: int, replicas: int
) -> Generator[None, None, list[tuple[NodeId, ...]]]:
    """Replicas for so many partitions of a topic, of which `first` is the first number, in the way that is set."""
    brokers = view.image.brokers.values()
    if view.config.str("barnabas.replica.placement") == "number":
        return place_by_number(brokers, first=first, partitions=partitions, replicas=replicas)
    return (
        yield from place_in_steps(
            brokers, partitions=partitions, replicas=replicas, randomness=view.randomness
        )
    )


def _manual(view: View, topic: CreatableTopic) -> list[tuple[NodeId, ...]]:
    for given, what in (
        (topic.num_partitions, "the number of partitions"),
        (topic.replication_factor, "the replication factor"),
    ):
        if given != _DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"with a manual assignment {what} must be -1, not {given}"
            )
    by_index = {a.partition_index: tuple(a.broker_ids) for a in topic.assignments}
    if len(by_index) != len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned more than once")
    if sorted(by_index) != list(range(len(by_index))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions must be numbered from 0 without gaps, not {sorted(by_index)[:10]}",
        )
    assignment = [by_index[index] for index in range(len(by_index))]
    _check_assignment(view, assignment, replicas=len(assignment[0]))
    return assignment


def _check_assignment(view: View, assignment: Iterable[tuple[NodeId, ...]], *, replicas: int) -> None:
    """Each partition has `replicas` different registered brokers, one of them active."""
    for index, brokers in enumerate(assignment):
        if not brokers:
            why = "has no replicas"
        elif len(set(brokers)) != len(brokers):
            why = f"names a broker twice: {list(brokers)}"
        elif unknown := [broker for broker in brokers if broker not in view.image.brokers]:
            why = f"names broker {unknown[0]}, which is not registered"
        elif len(brokers) != replicas:
            why = f"has {len(brokers)} replicas, others have {replicas}"
        elif not _active(view, brokers):
            why = "has only brokers that are fenced or shutting down"
        else:
            continue
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition number {index} {why}")


def _active(view: View, brokers: Iterable[NodeId]) -> tuple[NodeId, ...]:
    return tuple(broker for broker in brokers if view.image.brokers[broker].active)


def _new_partitions(
    view: View, topic_id: TopicId, first: int, assignment: Iterable[tuple[NodeId, ...]]
) -> Generator[None, None, list[PartitionRecord]]:
    """The records of the partitions from `first` on."""
    records = []
    for index, replicas in enumerate(assignment, first):
        records.append(new_partition(view, topic_id, index, replicas))
        yield
    return records


def new_partition(view: View, topic_id: TopicId, index: int, replicas: tuple[NodeId, ...]) -> PartitionRecord:
    """The record of a new partition: its ISR are the active replicas, the first of them leads."""
    isr = _active(view, replicas)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"all replicas of partition {index} are fenced"
        )
    known = view.image.feature(METADATA_VERSION) >= DIRECTORIES
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(isr),
        removing_replicas=[],
        adding_replicas=[],
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[view.default_directory(broker) for broker in replicas] if known else [],
    )


def _create_refused(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=ZERO_UUID,
        error_code=error.code,
        error_message=error.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


# Deleting.


def delete_topics(view: View, request: DeleteTopicsRequest) -> Decision:
    """DeleteTopics (key 20), by name or, from version 6, by id."""
    wanted: list[tuple[str | None, TopicId]] = [(name, ZERO_UUID) for name in request.topic_names]
    wanted += [(state.name, state.topic_id) for state in request.topics]
    if not view.config.bool("delete.topic.enable"):
        code = ErrorCode.INVALID_REQUEST if view.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        disabled = KafkaError(code, "deleting topics is switched off (delete.topic.enable)")
        return Decision(DeleteTopicsResponse(responses=[_delete_refused(*w, disabled) for w in wanted]))
    found = Counter(topic.id for w in wanted if (topic := _find(view, *w)) is not None)
    records: list[MetadataRecord] = []
    results: list[DeletableTopicResult] = []
    for name, topic_id in wanted:
        try:
            topic = _deletable(view, name, topic_id, found)
        except KafkaError as error:
            results.append(_delete_refused(name, topic_id, error))
            continue
        records.append(RemoveTopicRecord(topic_id=topic.id))
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, error_message=None))
    return Decision(DeleteTopicsResponse(responses=results), records)


def _find(view: View, name: str | None, topic_id: TopicId) -> Topic | None:
    return view.image.topics.get(topic_id) if name is None else view.image.topics_by_name.get(name)


def _deletable(view: View, name: str | None, topic_id: TopicId, found: Counter[TopicId]) -> Topic:
    if (name is None) == (topic_id == ZERO_UUID):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "name a topic either by its name or by its id")
    topic = _find(view, name, topic_id)
    if topic is None and name is not None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}")
    if found[topic.id] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic is in the request more than once")
    return topic


def _delete_refused(name: str | None, topic_id: TopicId, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
    )


# More partitions.


def create_partitions(view: View, request: CreatePartitionsRequest) -> Deciding:
    """CreatePartitions (key 37): grow topics to a count; existing partitions stay as they are."""
    repeated = {name for name, count in Counter(t.name for t in request.topics).items() if count > 1}
    records: list[MetadataRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    for topic in request.topics:
        if topic.name in repeated and any(result.name == topic.name for result in results):
            continue
        try:
            if topic.name in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic is in the request more than once")
            added = yield from _grow(view, topic)
            if len(records) + len(added) > BATCH_LIMIT:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"one request may create at most {BATCH_LIMIT} partitions"
                )
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
            )
            continue
        records += added
        results.append(CreatePartitionsTopicResult(name=topic.name, error_message=None))
    return Decision(CreatePartitionsResponse(results=results), [] if request.validate_only else records)


def _grow(view: View, asked: CreatePartitionsTopic) -> Generator[None, None, list[PartitionRecord]]:
    topic = view.image.topics_by_name.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {asked.name} does not exist")
    have = len(topic.partitions)
    if asked.count <= have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name} has {have} partitions; {asked.count} would not be more",
        )
    more = asked.count - have
    if more > BATCH_LIMIT:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"one request may create at most {BATCH_LIMIT} partitions"
        )
    replicas = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        assignment = yield from _placed(view, have, more, replicas)
    else:
        assignment = [tuple(a.broker_ids) for a in asked.assignments]
        if len(assignment) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{more} partitions are added, but {len(assignment)} assignments are given",
            )
        _check_assignment(view, assignment, replicas=replicas)
    return (yield from _new_partitions(view, topic.id, have, assignment))
