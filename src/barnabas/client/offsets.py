"""Where a partition begins and ends, and which offset belongs to a time (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.client.connection import ConnectionFailed
from barnabas.client.for_both import AnyCluster, AnyConnection, for_both
from barnabas.client.metadata import TopicInfo
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Epoch, NodeId, Offset, TopicPartition
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

__all__ = [
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "OffsetAt",
    "checked_start",
    "isolation_level",
    "list_offsets",
    "list_offsets_at",
    "offsets_request",
    "read_offsets",
    "special_time",
]

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"

EARLIEST = "earliest"
LATEST = "latest"
MAX_TIMESTAMP = "max-timestamp"
_SPECIAL = {LATEST: -1, EARLIEST: -2, MAX_TIMESTAMP: -3}


def isolation_level(isolation: str) -> int:
    """`isolation_level("read_committed")` -> 1, as the protocol writes it."""
    if isolation not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise ValueError(f"isolation is {READ_COMMITTED!r} or {READ_UNCOMMITTED!r}, not {isolation!r}")
    return int(isolation == READ_COMMITTED)


def checked_start(start: str) -> str:
    """`checked_start("earliest")` -> the same; ValueError for a word that says no place to start at."""
    if start not in (LATEST, EARLIEST, "error"):
        raise ValueError(f"start is 'latest', 'earliest' or 'error', not {start!r}")
    return start


class OffsetAt(NamedTuple):
    """An answer of ListOffsets: offset -1 when no record is that young; timestamp -1 unless asked for."""

    offset: Offset
    timestamp: int
    leader_epoch: Epoch


@for_both
async def list_offsets(
    cluster: AnyCluster,
    topic: str,
    when: str | int = LATEST,
    partitions: Iterable[int] | None = None,
    *,
    isolation: str = READ_UNCOMMITTED,
) -> dict[int, OffsetAt]:
    """`list_offsets(cluster, "t", "latest")` -> {partition: OffsetAt(offset, ...)}.

    `when` is "earliest", "latest" (the high watermark; read committed: the last stable offset),
    "max-timestamp", or a time in ms since 1970: the first record not older than it.  All partitions
    unless told.  Asks the leaders, again where they have moved.
    """

    async def look() -> TopicInfo:
        return await cluster.topic(topic)

    info = await cluster.retrying(look, on_retry=lambda: cluster.forget(topic))
    wanted = info.partitions if partitions is None else partitions
    timestamp = special_time(when)
    question = {TopicPartition(topic, partition): timestamp for partition in wanted}
    [found] = await list_offsets_at(cluster, [question], isolation=isolation)
    return {where.partition: at for where, at in sorted(found.items())}


@for_both
async def list_offsets_at(
    cluster: AnyCluster,
    questions: Sequence[Mapping[TopicPartition, int]],
    *,
    isolation: str = READ_UNCOMMITTED,
) -> list[dict[TopicPartition, OffsetAt]]:
    """`list_offsets_at(cluster, [{TopicPartition("t", 0): -2}, {TopicPartition("t", 0): -1}])`.

    Each question says a time in ms, or one of `special_time`, for each partition; the answers are in their order.
    One request for each leader and question, all of them under way at once.  Asks the leaders again where they
    have moved.  Raises KafkaError, ConnectionFailed.
    """
    level = isolation_level(isolation)
    answers: list[dict[TopicPartition, OffsetAt]] = [{} for _ in questions]

    async def attempt() -> list[dict[TopicPartition, OffsetAt]]:
        left = [
            {where: when for where, when in asked.items() if where not in answer}
            for asked, answer in zip(questions, answers, strict=True)
        ]
        await cluster.learn({where.topic for asked in left for where in asked})
        await _ask_leaders(cluster, left, level, answers)
        return answers

    def forget() -> None:
        for asked, answer in zip(questions, answers, strict=True):
            for topic in {where.topic for where in asked.keys() - answer.keys()}:
                cluster.forget(topic)

    return await cluster.retrying(attempt, on_retry=forget)


async def _ask_leaders(
    cluster: AnyCluster,
    questions: Iterable[Mapping[TopicPartition, int]],
    level: int,
    answers: Sequence[dict[TopicPartition, OffsetAt]],
) -> None:
    """Send every request, then read all answers, also those after one that failed."""
    asked: list[tuple[AnyConnection, ListOffsetsRequest]] = []
    fill: list[dict[TopicPartition, OffsetAt]] = []
    failure: BarnabasError | None = None
    try:
        for question, answer in zip(questions, answers, strict=True):
            by_leader: dict[NodeId, dict[TopicPartition, int]] = {}
            for where, when in sorted(question.items()):
                leader = await cluster.leader(where.topic, where.partition)
                by_leader.setdefault(leader.id, {})[where] = when
            for node, theirs in by_leader.items():
                connection = await cluster.connection(node, leads=True)
                asked.append((connection, offsets_request(theirs, level, cluster.timeout)))
                fill.append(answer)
    except (KafkaError, ConnectionFailed) as error:
        failure = error
    for told, answer in zip(await cluster.ask_each(asked), fill, strict=True):
        try:
            if isinstance(told, BarnabasError):
                raise told
            read_offsets(told, answer)
        except (KafkaError, ConnectionFailed) as error:
            failure = failure or error
    if failure is not None:
        raise failure


def offsets_request(when: Mapping[TopicPartition, int], level: int, timeout: float) -> ListOffsetsRequest:
    """The request for the offsets that belong to a time (ms, or one of `special_time`) at one leader."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in when.items():
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(topic, []).append(asked)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=level,
        topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()],
        timeout_ms=int(timeout * 1000),
    )


def read_offsets(response: Any, found: dict[TopicPartition, OffsetAt]) -> None:
    """Put what the answer to `offsets_request` says into `found`.

    Raises the KafkaError of the first partition that has one; the others are found all the same.
    """
    failed: KafkaError | None = None
    for topic in response.topics:
        for data in topic.partitions:
            where = TopicPartition(topic.name, data.partition_index)
            if not data.error_code:
                found[where] = OffsetAt(data.offset, data.timestamp, data.leader_epoch)
            elif failed is None:
                failed = KafkaError(ErrorCode(data.error_code), f"offsets of {where}")
    if failed is not None:
        raise failed


def special_time(when: str | int) -> int:
    """`special_time("latest")` -> -1, as the protocol writes it; a time in ms stays as it is."""
    return _SPECIAL[when] if isinstance(when, str) else when
