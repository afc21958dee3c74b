"""Where a partition begins and ends, and which offset belongs to a time (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Epoch, NodeId, Offset
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

__all__ = [
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "OffsetAt",
    "checked_start",
    "isolation_level",
    "list_offsets",
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


def list_offsets(
    cluster: Cluster,
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
    timestamp = special_time(when)
    level = isolation_level(isolation)
    found: dict[int, OffsetAt] = {}
    wanted = None if partitions is None else set(partitions)

    def attempt() -> dict[int, OffsetAt]:
        info = cluster.topic(topic)
        missing = (set(info.partitions) if wanted is None else wanted) - found.keys()
        by_leader: dict[NodeId, list[int]] = {}
        for partition in sorted(missing):
            by_leader.setdefault(cluster.leader(topic, partition).id, []).append(partition)
        for leader, theirs in by_leader.items():
            found.update(_ask(cluster, leader, topic, theirs, timestamp, level))
        return dict(sorted(found.items()))

    return cluster.retrying(attempt, on_retry=lambda: cluster.forget(topic))


def _ask(
    cluster: Cluster, leader: NodeId, topic: str, partitions: list[int], timestamp: int, level: int
) -> dict[int, OffsetAt]:
    request = offsets_request(topic, partitions, timestamp, level, cluster.timeout)
    return read_offsets(cluster.connection(leader).request(request))


def offsets_request(
    topic: str, partitions: Iterable[int], timestamp: int, level: int, timeout: float
) -> ListOffsetsRequest:
    """The request for the offsets that belong to a time (ms, or one of `special_time`) at one leader."""
    asked = [ListOffsetsPartition(partition_index=p, timestamp=timestamp) for p in partitions]
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=level,
        topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        timeout_ms=int(timeout * 1000),
    )


def read_offsets(response: Any) -> dict[int, OffsetAt]:
    """What the answer to `offsets_request` says, by partition.  Raises KafkaError."""
    found: dict[int, OffsetAt] = {}
    [topic] = response.topics
    for data in topic.partitions:
        if data.error_code:
            raise KafkaError(ErrorCode(data.error_code), f"offsets of {topic.name}-{data.partition_index}")
        found[data.partition_index] = OffsetAt(data.offset, data.timestamp, data.leader_epoch)
    return found


def special_time(when: str | int) -> int:
    """`special_time("latest")` -> -1, as the protocol writes it; a time in ms stays as it is."""
    return _SPECIAL[when] if isinstance(when, str) else when
