"""The offsets a group has committed: read and written at its coordinator (OffsetFetch, OffsetCommit)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.client.connection import first_of
from barnabas.client.for_both import AnyConnection, for_both
from barnabas.client.security.rights import granting
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

__all__ = [
    "check_committed",
    "commit_offsets",
    "commit_request",
    "committed_offsets",
    "committed_request",
    "read_committed_offsets",
]

_GROUPS_SINCE = 8
_STABLE_SINCE = 7
_BY_NAME = 9
"""From version 10 on both APIs name topics by id alone; 9 does all that we need."""


@for_both
async def commit_offsets(
    coordinator: AnyConnection,
    group: str,
    offsets: Mapping[TopicPartition, Offset],
    *,
    member_id: str = "",
    generation: int = -1,
) -> None:
    """`commit_offsets(cluster.coordinator("g"), "g", {TopicPartition("t", 0): 42})`.

    Without a member id and generation the group must have no members (an administrative reset).  Raises
    KafkaError of the first partition that is refused.
    """
    if not offsets:
        return
    request, version = commit_request(
        group,
        offsets,
        coordinator.version_of(OffsetCommitRequest),
        member_id=member_id,
        generation=generation,
    )
    check_committed(await coordinator.request(request, version), group)


def commit_request(
    group: str, offsets: Mapping[TopicPartition, Offset], served: int, *, member_id: str, generation: int
) -> tuple[OffsetCommitRequest, int]:
    """The request that commits these offsets, and its version: at most `served`."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
    )
    return request, min(served, _BY_NAME)


def check_committed(response: Any, group: str) -> None:
    """Raises KafkaError of the first partition that the answer to `commit_request` refuses."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                where = f"{topic.name}-{partition.partition_index}"
                code = ErrorCode(partition.error_code)
                right = granting(code, "Read", group if "GROUP" in code.name else topic.name)
                raise KafkaError(code, f"committing {where} for group {group}", next_step=right)


@for_both
async def committed_offsets(
    coordinator: AnyConnection,
    group: str,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    stable: bool = False,
) -> dict[TopicPartition, Offset]:
    """`committed_offsets(cluster.coordinator("g"), "g")` -> {partition: next offset to read}.

    Of all partitions the group has committed, or of those named.  Raises KafkaError; `stable`: also
    UNSTABLE_OFFSET_COMMIT, while a transaction is open that may change one of them (KIP-447).
    """
    served = coordinator.version_of(OffsetFetchRequest)
    request, version = committed_request(group, partitions, served, stable=stable)
    return read_committed_offsets(await coordinator.request(request, version), version, group)


def committed_request(
    group: str, partitions: Sequence[TopicPartition] | None, served: int, *, stable: bool
) -> tuple[OffsetFetchRequest, int]:
    """The request for what a group has committed, and its version: at most `served`."""
    by_topic: dict[str, list[int]] | None = None
    if partitions is not None:
        by_topic = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
    version = min(served, _BY_NAME)
    if version >= _GROUPS_SINCE:
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
    wait = stable and version >= _STABLE_SINCE
    return OffsetFetchRequest(group_id=group, topics=old, require_stable=wait), version


def read_committed_offsets(response: Any, version: int, group: str) -> dict[TopicPartition, Offset]:
    """What the answer to `committed_request` says: the next offset to read, by partition.  Raises KafkaError."""
    answer = first_of(response.groups, f"group {group}") if version >= _GROUPS_SINCE else response
    if answer.error_code:
        code = ErrorCode(answer.error_code)
        raise KafkaError(code, f"offsets of group {group}", next_step=granting(code, "Describe", group))
    found: dict[TopicPartition, Offset] = {}
    for topic_data in answer.topics:
        for data in topic_data.partitions:
            if data.error_code:
                where = f"{topic_data.name}-{data.partition_index}"
                raise KafkaError(ErrorCode(data.error_code), f"offset of {where} for group {group}")
            if data.committed_offset >= 0:
                found[TopicPartition(topic_data.name, data.partition_index)] = data.committed_offset
    return found
