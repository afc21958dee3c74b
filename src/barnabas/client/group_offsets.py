"""The offsets a group has committed: read and written at its coordinator (OffsetFetch, OffsetCommit)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.client.blocking import BlockingConnection
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.wire.schemas.groups import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

__all__ = ["commit_offsets", "committed_offsets"]

_BY_NAME = 9
"""From version 10 on both APIs name topics by id alone; 9 does all that we need."""


def commit_offsets(
    coordinator: BlockingConnection,
    group: str,
    offsets: Mapping[TopicPartition, Offset],
    *,
    member_id: str = "",
    generation: int = -1,
    metadata: str = "",
) -> None:
    """`commit_offsets(cluster.coordinator("g"), "g", {TopicPartition("t", 0): 42})`.

    Without a member id and generation the group must have no members (an administrative reset).  Raises
    KafkaError of the first partition that is refused.
    """
    if not offsets:
        return
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
    )
    response = coordinator.request(request, min(coordinator.version_of(request), _BY_NAME))
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                where = f"{topic.name}-{partition.partition_index}"
                raise KafkaError(ErrorCode(partition.error_code), f"committing {where} for group {group}")


def committed_offsets(
    coordinator: BlockingConnection,
    group: str,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    stable: bool = False,
) -> dict[TopicPartition, Offset]:
    """`committed_offsets(cluster.coordinator("g"), "g")` -> {partition: next offset to read}.

    Of all partitions the group has committed, or of those named.  Raises KafkaError; `stable`: also
    UNSTABLE_OFFSET_COMMIT, while a transaction is open that may change one of them (KIP-447).
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions or ():
        by_topic.setdefault(topic, []).append(partition)
    request, version = _fetch_request(coordinator, group, None if partitions is None else by_topic, stable)
    response: Any = coordinator.request(request, version)
    answer = response.groups[0] if version >= 8 else response
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), f"offsets of group {group}")
    found: dict[TopicPartition, Offset] = {}
    for topic_data in answer.topics:
        for data in topic_data.partitions:
            if data.error_code:
                where = f"{topic_data.name}-{data.partition_index}"
                raise KafkaError(ErrorCode(data.error_code), f"offset of {where} for group {group}")
            if data.committed_offset >= 0:
                found[TopicPartition(topic_data.name, data.partition_index)] = data.committed_offset
    return found


def _fetch_request(
    coordinator: BlockingConnection, group: str, by_topic: Mapping[str, list[int]] | None, stable: bool
) -> tuple[OffsetFetchRequest, int]:
    version = min(coordinator.version_of(OffsetFetchRequest), _BY_NAME)
    if version >= 8:
        topics = (
            None
            if by_topic is None
            else [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in by_topic.items()]
        )
        groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
        return OffsetFetchRequest(groups=groups, require_stable=stable), version
    old = (
        None
        if by_topic is None
        else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in by_topic.items()]
    )
    return OffsetFetchRequest(group_id=group, topics=old, require_stable=stable and version >= 7), version
