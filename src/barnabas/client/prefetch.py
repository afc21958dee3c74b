"""Fetching from all leaders at once, one request ahead of the reader.

`Prefetcher` keeps at most one fetch under way per broker, waits for whichever answers first, and hands out
decoded records with the offset at which each partition goes on.  What a seek or a rebalance has made
stale meanwhile is dropped.  `consumer` drives it.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.fetching import Visible, aborted_of
from barnabas.errors import BarnabasError, CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, NodeId, Offset, TopicPartition
from barnabas.wire.records import Record, batches, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = ["Fetched", "Prefetcher", "PrefetcherStatistics"]

_MAX_DECOMPRESSED = 1 << 30
PAUSE = 0.1
"""Seconds to wait before asking again after an error."""


class Fetched(NamedTuple):
    """What came of one partition: records from offset `asked` on, and where to go on.

    `error` instead, when the caller must decide (offset out of range, not authorised, corrupt records).
    """

    target: TopicPartition
    asked: Offset
    records: list[Record]
    next_offset: Offset
    high_watermark: Offset
    error: BarnabasError | None = None


class PrefetcherStatistics(NamedTuple):
    """Fetches sent and bytes of records received so far."""

    fetches: int
    record_bytes: int


class _UnderWay(NamedTuple):
    connection: BlockingConnection
    ticket: int
    asked: dict[TopicPartition, Offset]


class Prefetcher:
    """`Prefetcher(cluster, isolation=0).poll({TopicPartition("t", 0): 42}, timeout=1)` -> [Fetched, ...]."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: int,
        max_wait: float = 0.5,
        max_bytes: int = 16 << 20,
        partition_max_bytes: int = 4 << 20,
    ) -> None:
        self.cluster = cluster
        self.isolation = isolation
        self.max_wait = max_wait
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self._under_way: dict[NodeId, _UnderWay] = {}
        self._fetches = 0
        self._record_bytes = 0
        self._paused_until = 0.0
        self._failing_since: float | None = None

    def __repr__(self) -> str:
        return f"<Prefetcher under way={sorted(self._under_way)} fetches={self._fetches}>"

    def statistics(self) -> PrefetcherStatistics:
        """`prefetcher.statistics().fetches`: totals."""
        return PrefetcherStatistics(self._fetches, self._record_bytes)

    def poll(self, positions: dict[TopicPartition, Offset], timeout: float) -> list[Fetched]:
        """Records from these positions on, from whichever broker answers first; [] after `timeout` seconds.

        The next fetches leave before this returns.
        """
        deadline = time.monotonic() + timeout
        while True:
            self._send(positions)
            left = deadline - time.monotonic()
            if not self._under_way:
                if left <= 0:
                    return []
                time.sleep(min(left, PAUSE))
                continue
            fetched = [f for f in self._receive(max(left, 0.0)) if positions.get(f.target) == f.asked]
            if fetched:
                onward = {f.target: f.next_offset for f in fetched if f.error is None}
                stopped = {f.target for f in fetched if f.error is not None}
                self._send({t: onward.get(t, at) for t, at in positions.items() if t not in stopped})
                return fetched
            if time.monotonic() >= deadline:
                return []

    def outdated(self, positions: dict[TopicPartition, Offset]) -> bool:
        """Whether a fetch under way was sent before a seek: nothing is known of these positions yet."""
        return any(
            positions.get(target, offset) != offset
            for under_way in self._under_way.values()
            for target, offset in under_way.asked.items()
        )

    def forget(self) -> None:
        """Drop what is under way (the assignment has changed)."""
        for under_way in self._under_way.values():
            under_way.connection.forget(under_way.ticket)
        self._under_way.clear()

    # -- asking ----------------------------------------------------------------------------------

    def _send(self, positions: dict[TopicPartition, Offset]) -> None:
        if time.monotonic() < self._paused_until:
            return
        by_leader: dict[NodeId, dict[TopicPartition, Offset]] = {}
        try:
            for target, offset in positions.items():
                leader = self.cluster.leader(*target).id
                if leader not in self._under_way:
                    by_leader.setdefault(leader, {})[target] = offset
            for leader, asked in by_leader.items():
                connection = self.cluster.connection(leader)
                ticket = self._post(connection, asked)
                self._under_way[leader] = _UnderWay(connection, ticket, asked)
                self._fetches += 1
        except (ConnectionFailed, KafkaError) as error:
            self._trouble(error, {target.topic for target in positions})
        else:
            if by_leader:
                self._failing_since = None

    def _post(self, connection: BlockingConnection, asked: dict[TopicPartition, Offset]) -> int:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, partition), offset in asked.items():
            wanted = FetchPartition(
                partition=partition, fetch_offset=offset, partition_max_bytes=self.partition_max_bytes
            )
            topics.setdefault(topic, []).append(wanted)
        ids = {topic: self.cluster.topic(topic).id for topic in topics}
        request = FetchRequest(
            max_wait_ms=int(self.max_wait * 1000),
            min_bytes=1,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            topics=[FetchTopic(topic=t, topic_id=ids[t], partitions=parts) for t, parts in topics.items()],
        )
        version = connection.version_of(request)
        return connection.post(request, min(version, 12) if ZERO_UUID in ids.values() else version)

    # -- hearing ---------------------------------------------------------------------------------

    def _receive(self, timeout: float) -> list[Fetched]:
        connections = {under_way.connection: leader for leader, under_way in self._under_way.items()}
        at_hand = [u.connection for u in self._under_way.values() if u.connection.has_arrived(u.ticket)]
        at_hand += [c for c in connections if c.closed]
        readable = at_hand or select.select(list(connections), [], [], timeout)[0]
        answered: list[Fetched] = []
        for connection in readable:
            under_way = self._under_way.pop(connections[connection])
            try:
                response = connection.collect(under_way.ticket)
                if response.error_code:
                    raise KafkaError(ErrorCode(response.error_code), "fetching")
            except (ConnectionFailed, KafkaError) as error:
                self._trouble(error, {target.topic for target in under_way.asked})
                continue
            for topic in response.responses:
                name = topic.topic or self.cluster.topic_name(topic.topic_id) or ""
                for data in topic.partitions:
                    target = TopicPartition(name, data.partition_index)
                    if target in under_way.asked:
                        answered += self._judge(target, under_way.asked[target], data)
        return answered

    def _judge(self, target: TopicPartition, asked: Offset, data: Any) -> Iterator[Fetched]:
        code = ErrorCode(data.error_code)
        if code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            error = KafkaError(code, f"fetching {target} at offset {asked}")
            yield Fetched(target, asked, [], asked, data.high_watermark, error)
        elif code:
            self._trouble(KafkaError(code, f"fetching {target}"), {target.topic})
        elif data.records:
            self._record_bytes += len(data.records)
            try:
                records, following = decode(
                    memoryview(data.records), target, asked, Visible(aborted_of(data))
                )
            except CorruptRecordError as error:
                yield Fetched(target, asked, [], asked, data.high_watermark, error)
            else:
                yield Fetched(target, asked, records, following, data.high_watermark)

    def _trouble(self, error: BarnabasError, topics: Iterable[str]) -> None:
        """Ask for metadata anew and pause; raise an error that no retry mends, or that has lasted too long."""
        now = time.monotonic()
        if isinstance(error, KafkaError) and not error.code.retriable:
            raise error
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > self.cluster.timeout:
            raise error
        self._paused_until = now + PAUSE
        for topic in topics:
            self.cluster.forget(topic)


def decode(
    buffer: memoryview, target: TopicPartition, offset: Offset, visible: Visible
) -> tuple[list[Record], Offset]:
    """`decode(records, target, 42, Visible())` -> (records from 42 on, offset after the last batch).

    What stands before a batch that cannot be read is handed out first.  Raises CorruptRecordError when the
    first batch is such a one: its CRC does not match, or its records are not what their lengths say.
    """
    found: list[Record] = []
    following = offset
    for at, header in batches(buffer):
        try:
            if not check_crc(buffer, at, header):
                raise CorruptRecordError(f"the batch at offset {header.base_offset} does not match its CRC")
            seen = visible.sees(buffer, at, header)
            records = read_records(buffer, at, header, _MAX_DECOMPRESSED) if seen else []
        except CorruptRecordError as error:
            if following > offset:
                return found, following
            raise CorruptRecordError(
                f"{target}: {error.message}",
                next_step=f"to go on after it, seek to offset {header.last_offset + 1}",
            ) from error
        following = max(following, header.last_offset + 1)
        if seen:
            found += records if header.base_offset >= offset else [r for r in records if r.offset >= offset]
    return found, following
