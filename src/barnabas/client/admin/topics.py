"""Topics, where they begin and end, and the deletion of their records, as an administrator asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from barnabas.client.admin.described import CreatedTopic
from barnabas.client.admin.quorum import ask_active
from barnabas.client.admin.settings import setting_text, topic_advice
from barnabas.client.connection import first_of
from barnabas.client.for_both import AnyCluster, for_both
from barnabas.client.metadata import TopicInfo, check_leaders
from barnabas.client.offsets import OffsetAt, list_offsets
from barnabas.client.security.rights import granting
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId, Offset, TopicPartition
from barnabas.wire.schemas.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

__all__ = [
    "add_partitions",
    "create_topic",
    "delete_records",
    "delete_topic",
    "describe_topic",
    "offsets",
    "topics",
]

_BY_STATE = 6  # DeleteTopics: the first version that names topics by id, too
_ADVICE = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or delete the topic first",
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for at most as many replicas as there are brokers",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see what there is with `barnabas topics list`",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use 1 to 249 letters, digits, dots, underscores and hyphens",
    ErrorCode.INVALID_PARTITIONS: "`barnabas topics describe` shows how many a topic has; there can only be more",
    ErrorCode.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers",
}


@for_both
async def create_topic(
    cluster: AnyCluster,
    name: str,
    *,
    partitions: int = -1,
    replication: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """`create_topic(cluster, "orders", partitions=6, configs={"retention.ms": "3600000"})` -> CreatedTopic.

    -1: as many as the brokers make by default.  Returns when every partition has a leader.
    `validate_only` asks whether it would be done.
    """
    given = configs or {}
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        configs=[CreatableTopicConfig(name=n, value=setting_text(n, v)) for n, v in given.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_ms(cluster), validate_only=validate_only)
    result = first_of((await ask_active(cluster, request)).topics, f"topic {name}")
    _check(result, f"topic {name}", lambda code: topic_advice(code, given))
    if not validate_only:

        async def look() -> None:
            check_leaders(await cluster.topic(name, refresh=True))

        await cluster.retrying(look, patient=True)
    return CreatedTopic(name, result.topic_id, result.num_partitions, result.replication_factor)


@for_both
async def delete_topic(cluster: AnyCluster, name: str) -> None:
    """`delete_topic(cluster, "orders")`: the topic with all its records."""
    old = (await cluster.any()).version_of(DeleteTopicsRequest) < _BY_STATE
    request = DeleteTopicsRequest(
        topics=[] if old else [DeleteTopicState(name=name)],
        topic_names=[name] if old else [],
        timeout_ms=_ms(cluster),
    )
    result = first_of((await ask_active(cluster, request)).responses, f"topic {name}")
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, f"there is no topic {name}", next_step=_ADVICE[code])
    _check(result, f"topic {name}")
    cluster.metadata.forget(name)


@for_both
async def add_partitions(cluster: AnyCluster, name: str, total: int) -> None:
    """`add_partitions(cluster, "orders", 12)`: grow to 12 partitions in all (keys then map elsewhere)."""
    topic = CreatePartitionsTopic(name=name, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=_ms(cluster))
    _check(first_of((await ask_active(cluster, request)).results, f"topic {name}"), f"topic {name}")
    cluster.metadata.forget(name)


@for_both
async def topics(cluster: AnyCluster, *, internal: bool = False) -> list[TopicInfo]:
    """`topics(cluster)` -> all topics by name; those of the brokers' own too with `internal`."""
    found = await cluster.refresh(None)
    return [found[name] for name in sorted(found) if internal or not found[name].internal]


@for_both
async def describe_topic(cluster: AnyCluster, name: str) -> TopicInfo:
    """`describe_topic(cluster, "orders").partitions[0].leader`, asked for now."""
    return await cluster.topic(name, refresh=True)


@for_both
async def offsets(
    cluster: AnyCluster, topic: str, when: str | int = "latest", partitions: Iterable[int] | None = None
) -> dict[int, OffsetAt]:
    """`offsets(cluster, "orders", "earliest")` -> {partition: OffsetAt}; `when` as in `list_offsets`."""
    return await list_offsets(cluster, topic, when, partitions)


@for_both
async def delete_records(
    cluster: AnyCluster, before: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, Offset]:
    """`delete_records(cluster, {TopicPartition("orders", 0): 42})`: delete what is before; where each begins now.

    -1: all records that consumers see.
    """
    begins: dict[TopicPartition, Offset] = {}

    async def attempt() -> dict[TopicPartition, Offset]:
        by_leader: dict[NodeId, dict[str, list[DeleteRecordsPartition]]] = {}
        for target, offset in before.items():
            if target not in begins:
                leader = cluster.metadata.leader(await cluster.topic(target.topic), target.partition).id
                wanted = DeleteRecordsPartition(partition_index=target.partition, offset=offset)
                by_leader.setdefault(leader, {}).setdefault(target.topic, []).append(wanted)
        for leader, theirs in by_leader.items():
            named = [DeleteRecordsTopic(name=name, partitions=parts) for name, parts in theirs.items()]
            request = DeleteRecordsRequest(topics=named, timeout_ms=_ms(cluster))
            connection = await cluster.connection(leader, leads=True)
            _read_begins(await connection.request(request), begins)
        return begins

    def forget() -> None:
        for target in before.keys() - begins.keys():
            cluster.metadata.forget(target.topic)

    return await cluster.retrying(attempt, on_retry=forget)


def _read_begins(response: Any, begins: dict[TopicPartition, Offset]) -> None:
    failed: KafkaError | None = None
    for topic in response.topics:
        for data in topic.partitions:
            where = TopicPartition(topic.name, data.partition_index)
            code = ErrorCode(data.error_code)
            if not code:
                begins[where] = data.low_watermark
            elif failed is None:
                out = code is ErrorCode.OFFSET_OUT_OF_RANGE
                step = f"`barnabas topics describe {topic.name}` shows where it ends" if out else None
                step = step or granting(code, "Delete", topic.name)
                failed = KafkaError(code, f"deleting records of {where}", next_step=step)
    if failed is not None:
        raise failed


def _ms(cluster: AnyCluster) -> int:
    return int(cluster.timeout * 1000)


def _check(result: Any, what: str, advice: Callable[[ErrorCode], str | None] = _ADVICE.get) -> None:
    if result.error_code:
        code = ErrorCode(result.error_code)
        said = getattr(result, "error_message", None) or "refused"
        raise KafkaError(code, f"{what}: {said}", next_step=advice(code) or _ADVICE.get(code))
