"""One partition that this node follows: what it heard from the leader, and what it tells it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.model import NodeId, Now, Offset, Uuid
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from barnabas.broker.replicas.partition import Partition

__all__ = ["Followed", "FollowerStatistics", "Key", "where_to_begin"]

Key = tuple[Uuid, int]
"""Topic id and partition."""


class Fetching(Protocol):
    """What fetches from one leader (`fetcher.Follower`)."""

    def moved(self, followed: Followed) -> None:
        """Its position moved: the next fetch tells the leader."""
        ...

    def pause(self, followed: Followed, paused: bool) -> None:
        """Its disk has no room, or has room again."""
        ...

    def safe(self, followed: Followed) -> None:
        """Everything it appended is acknowledged by our log."""
        ...

    def remove(self, followed: Followed) -> None:
        """Follow it no longer."""
        ...


class Followed:
    """One partition that this node follows, in one leader epoch.

    `high_watermark` and `start` are the leader's, as last heard; they count here as far as our own log
    reaches.  `sent` is the position that the leader was last told.
    """

    __slots__ = ("failures", "follower", "high_watermark", "key", "partition", "sent", "start")

    def __init__(self, follower: Fetching, partition: Partition) -> None:
        self.follower = follower
        self.partition = partition
        self.key: Key = (partition.topic_id, partition.index)
        self.high_watermark: Offset = -1
        self.start: Offset = -1
        self.sent: tuple[int, Offset] | None = None
        self.failures = 0

    def advanced(self, now: Now) -> None:
        """Our log was written or synced, or the leader said something new: apply it as far as our log reaches."""
        partition, log = self.partition, self.partition.log
        here = log.written_end_offset if log.page_cache else log.acknowledged_end_offset
        high_watermark = self.high_watermark if self.high_watermark < here else here
        known = log.high_watermark
        if high_watermark > known:
            log.high_watermark = high_watermark
            known = log.high_watermark
        partition.high_watermark = known
        if log.log_start_offset < self.start <= known:
            log.increment_log_start(self.start)
            self.follower.moved(self)
        if here >= log.log_end_offset:
            self.follower.safe(self)

    def pause(self, paused: bool) -> None:
        """Its disk has no room for records any more, or has room again."""
        self.follower.pause(self, paused)

    def release(self) -> None:
        """Follow it no longer."""
        self.follower.remove(self)

    def __repr__(self) -> str:
        return (
            f"<Followed {self.partition.topic}-{self.partition.index} @{self.partition.log.log_end_offset}>"
        )


def where_to_begin(node_id: NodeId, lost: Iterable[tuple[Followed, int]]) -> ListOffsetsRequest:
    """Ask for partitions whose end the leader does not have: where its log ends, or starts (a timestamp each)."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for followed, timestamp in lost:
        partition = followed.partition
        followed.sent = (partition.leader_epoch, partition.log.log_end_offset)
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.index,
                current_leader_epoch=partition.leader_epoch,
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=node_id,
        topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


class FollowerStatistics(NamedTuple):
    """What was fetched from one leader so far."""

    leader: NodeId
    partitions: int
    resting: int
    fetches: int
    bytes: int
    truncations: int
    errors: int
