"""Log directories as the controller knows them: where each replica is, which are lost, which are cordoned
(KIP-858).

A broker with several directories chooses one for each replica and reports it (AssignReplicasToDirs). Its
heartbeats name directories that failed and, from metadata.version 4.3-IV0 on, those that take no new replicas
(cordoned, KIP-1066). Only replicas in a lost directory leave the in-sync sets.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import cache

from barnabas.controller.decisions.partitions import Election, change_partition, concerned_in_steps, without
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import BrokerState, PartitionState, Topic
from barnabas.controller.versions import CORDONED, DIRECTORIES
from barnabas.controller.view import BATCH_LIMIT, Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    DirectoryId,
    NodeId,
    TopicId,
)
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.wire.schemas.reassignment import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)

__all__ = ["assign_replicas_to_dirs", "directories_reported"]


def assign_replicas_to_dirs(view: View, request: AssignReplicasToDirsRequest) -> Deciding:
    """AssignReplicasToDirs (key 73), each replica by itself.

    Raises KafkaError(STALE_BROKER_EPOCH, UNSUPPORTED_VERSION).
    """
    if view.image.feature(METADATA_VERSION) < DIRECTORIES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "this metadata.version knows no directories")
    broker = view.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {request.broker_id} has another epoch by now")
    records: dict[tuple[TopicId, int], MetadataRecord] = {}
    directories: list[AssignReplicasToDirsResponseDirectoryData] = []
    for lies_in in request.directories:
        topics = []
        for asked in lies_in.topics:
            topic = view.image.topics.get(asked.topic_id)
            rows = []
            for index in (row.partition_index for row in asked.partitions):
                yield
                code = ErrorCode.NONE
                try:
                    if len(records) == BATCH_LIMIT:
                        raise KafkaError(ErrorCode.POLICY_VIOLATION)
                    record = _assign(view, broker, topic, index, lies_in.id)
                    if record is not None:
                        records[asked.topic_id, index] = record
                except KafkaError as error:
                    code = error.code
                rows.append(AssignReplicasToDirsResponsePartitionData(partition_index=index, error_code=code))
            topics.append(AssignReplicasToDirsResponseTopicData(topic_id=asked.topic_id, partitions=rows))
        directories.append(AssignReplicasToDirsResponseDirectoryData(id=lies_in.id, topics=topics))
    return Decision(AssignReplicasToDirsResponse(directories=directories), list(records.values()))


def _assign(
    view: View, broker: BrokerState, topic: Topic | None, index: int, directory: DirectoryId
) -> PartitionChangeRecord | None:
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    state = topic.partitions.get(index)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.id not in state.replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    rules = view.rules(topic)
    where = {broker.id: directory}
    if _online(broker, directory):
        return change_partition(topic, state, rules._replace(election=Election.ONLINE), directories=where)
    return change_partition(
        topic, state, without(rules, broker.id), isr=_isr_without(state, broker.id), directories=where
    )


def _online(broker: BrokerState, directory: DirectoryId) -> bool:
    if directory == DIRECTORY_LOST:
        return False
    unknown = directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or not broker.directories
    return unknown or directory in broker.directories


def _isr_without(state: PartitionState, broker: NodeId) -> tuple[NodeId, ...]:
    return tuple(member for member in state.isr if member != broker)


def directories_reported(
    view: View, broker: BrokerState, offline: Iterable[DirectoryId], cordoned: Iterable[DirectoryId] | None
) -> Generator[None, None, list[MetadataRecord]]:
    """What a heartbeat says of the broker's directories, as records; [] when it is known already.

    The partitions in a lost directory keep its id, so that they may be led again when it comes back.
    """
    lost = set(offline) & set(broker.directories)
    records: list[MetadataRecord] = []
    rules = cache(lambda topic_id: without(view.rules(view.image.topics[topic_id]), broker.id))

    def concerned(topic: Topic, state: PartitionState) -> bool:
        return state.directory_of(broker.id) in lost

    for found in concerned_in_steps(view.image, concerned) if lost else ():
        yield
        if found is None:
            continue
        topic, state = found
        change = change_partition(topic, state, rules(topic.id), isr=_isr_without(state, broker.id))
        if change is not None:
            records.append(change)
    if lost:
        left = [directory for directory in broker.directories if directory not in lost]
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
        )
    if cordoned is not None and view.image.feature(METADATA_VERSION) >= CORDONED:
        named = tuple(cordoned)
        if set(named) != set(broker.cordoned):
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(named)
                )
            )
    return records
