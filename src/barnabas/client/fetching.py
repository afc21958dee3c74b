"""Reading an exact range of a partition, batch by batch, without decoding records.

`fetch_range` is what the pipeline's tasks run: whole record batches with their CRC checked, in order,
control batches and (read committed) aborted ones left out, the next fetch already under way while the
caller works on what it has.  `Visible` decides which batches may
be seen, `whole_batches` whether they are any; the consumer uses both, too.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import FIRST_PAUSE, LONGEST_PAUSE
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, isolation_level
from barnabas.client.security.rights import granting
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.silence import Resting
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, NodeId, Offset, TopicPartition, Uuid
from barnabas.ports import Buffer
from barnabas.wire.control import ControlType, read_control
from barnabas.wire.records import BatchHeader, batches, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = [
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "RawBatch",
    "Unreadable",
    "Visible",
    "fetch_range",
    "isolation_level",
    "no_batch_there",
    "whole_batches",
]

_WAIT_MS = 500
_LEAST_BYTES = 64 << 10
_GUESS = 1024.0
"""Bytes of an offset, as long as nothing is known of the topic."""
_SPARE = 1.25
"""What follows is asked for with so much to spare: records differ in size."""
_MENDED_S = 3.0
"""For so long what cannot be read is asked for again."""
_STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors of a fetch after which the metadata are asked for anew."""


class RawBatch(NamedTuple):
    """One whole record batch, not decoded.

    `buffer` holds exactly its bytes; of its records those with `first` <= offset < `end` were asked for (a
    batch may begin before the range or pass its end).
    """

    buffer: memoryview
    header: BatchHeader
    first: Offset
    end: Offset


class Visible:
    """`Visible(aborted).sees(buffer, pos, header)`: which batches of one answer a reader may see.

    `aborted` are the (producer_id, first_offset) pairs of a read-committed fetch: data of that producer
    from there on are aborted, up to its abort marker (KIP-98).  Control batches are never seen.
    """

    __slots__ = ("_aborted", "_open")

    def __init__(self, aborted: Iterable[tuple[int, Offset]] = ()) -> None:
        self._aborted = [(first, producer) for producer, first in aborted]
        heapq.heapify(self._aborted)
        self._open: set[int] = set()

    def __repr__(self) -> str:
        return f"<Visible aborting={sorted(self._open)} to come={len(self._aborted)}>"

    def sees(self, buffer: memoryview, position: int, header: BatchHeader) -> bool:
        """Whether the batch at `position` holds records for the reader; call it for every batch in order."""
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            self._open.add(heapq.heappop(self._aborted)[1])
        if header.is_control:
            if header.producer_id in self._open:
                for record in read_records(buffer, position, header, 1 << 16):  # none once it was compacted
                    if read_control(record)[0] == ControlType.ABORT:
                        self._open.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._open)


def aborted_of(data: Any) -> list[tuple[int, Offset]]:
    """`aborted_of(partition_data)`: the aborted list of a fetch answer, as `Visible` takes it."""
    return [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]


def fetch_range(
    where: Cluster | str,
    topic: str,
    partition: int,
    start: Offset,
    end: Offset,
    *,
    max_bytes: int = 16 << 20,
    isolation: str = READ_UNCOMMITTED,
    topic_id: Uuid | None = None,
    verify: bool = True,
    timeout: float = 60.0,
    stop: Callable[[], bool] | None = None,
    rack: str = "",
) -> Iterator[RawBatch]:
    """`for batch in fetch_range("127.0.0.1:9092", "t", 0, 0, 1000): ...` reads exactly offsets 0 to 999.

    Yields batches in order and ends when every offset below `end` has been passed (offsets that were
    compacted away do not come).  `verify` checks every CRC.  `max_bytes` bounds one fetch; `timeout` is
    the longest time without any progress, in seconds; `stop()` true ends it early.  With `topic_id` a
    topic deleted and created again under its name is noticed.  `rack` is where the caller runs: a leader
    elsewhere may name a replica there (KIP-392), which is read until it fails.

    Raises KafkaError: OFFSET_OUT_OF_RANGE (the offsets are no longer, or not yet, there),
    UNKNOWN_TOPIC_ID (another topic), REQUEST_TIMED_OUT; CorruptRecordError (for 3 s it asks again: another
    replica may lead by then); ConnectionFailed.
    """
    if start >= end:
        return
    reader = _RangeReader(
        where if isinstance(where, Cluster) else Cluster(where, timeout=timeout),
        topic,
        partition,
        isolation=isolation_level(isolation),
        max_bytes=max_bytes,
        end=end,
        topic_id=topic_id,
        timeout=timeout,
        rack=rack,
    )
    try:
        position = start
        visible = Visible()
        while position < end and not (stop is not None and stop()):
            try:
                data, found = reader.good_batches(position, verify=verify)
            except CorruptRecordError as error:
                reader.ask_again(position, error)
                continue
            if not found:
                reader.no_progress(position, data)
                continue
            records = memoryview(data.records)
            before, position = position, max(position, found[-1][1].last_offset + 1)
            reader.learn(len(records), position - found[0][1].base_offset)
            if position < end:
                reader.ahead(position)
            visible = Visible(aborted_of(data))
            for at, header in found:
                if header.base_offset >= end:
                    break
                raw = records[at : at + header.size]
                seen = visible.sees(raw, 0, header)
                if seen and header.last_offset >= before:
                    yield RawBatch(
                        raw, header, max(before, header.base_offset), min(end, header.last_offset + 1)
                    )
    finally:
        reader.close(also_cluster=not isinstance(where, Cluster))


_VERIFY = "fetch again; if it stays so, run `barnabas log verify` on the leader"


def whole_batches(
    target: object, records: Buffer, asked: Offset, end: Offset
) -> list[tuple[int, BatchHeader]]:
    """The whole batches in what a fetch at offset `asked` brought; `end` is the high watermark, -1 if unknown.

    No CRC covers the base offset of a batch: that it is damaged shows by its neighbours alone.  Taken as it is, it
    would lead the reader past records.  Batches before bytes that are none come first.  Raises CorruptRecordError.
    """
    found: list[tuple[int, BatchHeader]] = []
    last = -1
    try:
        for at, header in batches(records):
            found.append((at, header))
            if header.base_offset <= last or header.last_offset < asked or 0 <= end <= header.last_offset:
                break
            last = header.last_offset
        else:
            return found
    except CorruptRecordError as error:
        if found:
            return found
        raise CorruptRecordError(
            f"{target}: there is no batch at offset {asked}: {error.message}", next_step=_VERIFY
        ) from error
    limits = f"the log ends at {end}"
    if header.base_offset <= last:
        limits = f"the one before ends at {last}"
    elif header.last_offset < asked:
        limits = f"{asked} was asked for"
    raise CorruptRecordError(
        f"{target}: a batch says that it has offsets {header.base_offset} to {header.last_offset}, and {limits}",
        next_step=_VERIFY,
    )


def no_batch_there(target: object, offset: Offset) -> CorruptRecordError:
    """What CORRUPT_MESSAGE means in the answer to a fetch: this leader has no such batch, another may."""
    said = f"{target}: the leader finds no batch at offset {offset} in its log"
    return CorruptRecordError(said, next_step=_VERIFY)


class Unreadable:
    """`Unreadable(timeout=30.0)`: what could not be read, and since when.

    A leader that is asked again at once checks what it sends, and another with a good copy takes over.
    """

    def __init__(self, timeout: float) -> None:
        self._patience = min(_MENDED_S, timeout)
        self._since: dict[TopicPartition, tuple[Offset, float]] = {}

    def __repr__(self) -> str:
        return f"<Unreadable {self._since}>"

    def stays(self, target: TopicPartition, offset: Offset, now: float) -> bool:
        """Return whether it has been so for too long to ask again; `now` in monotonic seconds."""
        known, since = self._since.get(target, (-1, now))
        if known != offset:
            self._since[target] = offset, now
            return False
        return now - since >= self._patience

    def read(self, target: TopicPartition) -> None:
        """It could be read."""
        self._since.pop(target, None)


class _RangeReader:
    """One partition's fetches: at most one under way, sent again elsewhere when the leader moved."""

    __slots__ = (
        "_ahead",
        "_cluster",
        "_end",
        "_isolation",
        "_max_bytes",
        "_near",
        "_partition",
        "_per_offset",
        "_progress",
        "_rack",
        "_resting",
        "_target",
        "_timeout",
        "_topic",
        "_topic_id",
        "_unreadable",
    )

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        *,
        isolation: int,
        max_bytes: int,
        end: Offset,
        topic_id: Uuid | None,
        timeout: float,
        rack: str,
    ) -> None:
        self._rack = rack
        self._near: NodeId | None = None
        """The replica in our rack, once the leader has named it."""
        self._cluster = cluster
        self._end = end
        self._per_offset = _GUESS
        self._topic = topic
        self._partition = partition
        self._target = TopicPartition(topic, partition)
        self._unreadable = Unreadable(timeout)
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._topic_id = topic_id
        self._timeout = timeout
        self._progress = monotonic()
        self._resting = Resting(cluster.metadata.max_age)
        self._ahead: tuple[Offset, BlockingConnection, int] | None = None

    def __repr__(self) -> str:
        under_way = f" under way at {self._ahead[0]}" if self._ahead else ""
        return f"<RangeReader {self._target}{under_way}>"

    def learn(self, size: int, offsets: int) -> None:
        """So many bytes held so many offsets: a range that is short is not asked for with much behind it."""
        self._per_offset = size / max(offsets, 1)

    def ahead(self, offset: Offset) -> None:
        """Send the next fetch now; a failure shows when it is taken."""
        try:
            self._ahead = self._post(offset)
        except (ConnectionFailed, KafkaError):
            self._ahead = None

    def good_batches(self, offset: Offset, *, verify: bool) -> tuple[Any, list[tuple[int, BatchHeader]]]:
        """The partition's data of a fetch at `offset`, and where its whole batches lie, up to the first bad one.

        Raises CorruptRecordError if that is the first of all.
        """
        data = self.take(offset)
        records = data.records or b""
        good: list[tuple[int, BatchHeader]] = []
        for at, header in whole_batches(self._target, records, offset, data.high_watermark):
            if verify and header.base_offset < self._end and not check_crc(records, at, header):
                if good:
                    break
                raise CorruptRecordError(
                    f"{self._target}: the batch at {header.base_offset} does not match its CRC",
                    next_step=_VERIFY,
                )
            good.append((at, header))
        if records and not good:
            raise CorruptRecordError(
                f"{self._target}: the broker sent {len(records)} bytes at offset {offset} "
                "that are no whole record batch",
                next_step=_VERIFY,
            )
        self._unreadable.read(self._target)
        return data, good

    def ask_again(self, offset: Offset, error: CorruptRecordError) -> None:
        """What came is not readable: pause, and look who leads; raise it if that has not helped for long."""
        if self._left_near():
            return
        if self._unreadable.stays(self._target, offset, monotonic()):
            raise error
        self._cluster.forget(self._topic)
        time.sleep(FIRST_PAUSE)

    def take(self, offset: Offset) -> Any:
        """The partition's data of a fetch at `offset`, the one under way if it is that; repeats it."""
        pause = FIRST_PAUSE
        while True:
            try:
                under_way, self._ahead = self._ahead, None
                if under_way is None or under_way[0] != offset:
                    under_way = self._post(offset)
                _, connection, ticket = under_way
                data = self._judge(connection.collect(ticket, self._timeout), offset)
                if data.preferred_read_replica < 0 or data.records:
                    return data
                self._near = data.preferred_read_replica
                continue
            except ConnectionFailed:
                if self._left_near():
                    continue
                if monotonic() - self._progress + pause >= self._timeout:
                    raise
                self._cluster.forget(self._topic)
            except KafkaError as error:
                if self._left_near():
                    continue
                late = monotonic() - self._progress + pause >= self._timeout
                if (
                    late
                    or not (error.code.retriable or error.code in _STALE)
                    or self._is_another_topic(error)
                ):
                    raise
                self._cluster.forget(self._topic)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _left_near(self) -> bool:
        """Whether it was the replica in our rack that failed: the rest comes from the leader."""
        if self._near is None:
            return False
        self._near, self._rack = None, ""
        return True

    def no_progress(self, position: Offset, data: Any) -> None:
        """Nothing came: wait on, unless it takes too long."""
        self._cluster.look_past(self._resting.due({self._target: position}, monotonic()))
        if monotonic() - self._progress >= self._timeout:
            readable = data.last_stable_offset if self._isolation else data.high_watermark
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._target}: waited {self._timeout:g} s for offset {position} "
                f"of the range up to {self._end}; readable are offsets below {readable}",
                next_step="an open transaction or replicas that lag hold the rest back; try again later",
            )

    def close(self, *, also_cluster: bool) -> None:
        """Give up what is under way."""
        if self._ahead is not None:
            self._ahead[1].forget(self._ahead[2])
            self._ahead = None
        if also_cluster:
            self._cluster.close()

    def _post(self, offset: Offset) -> tuple[Offset, BlockingConnection, int]:
        info = self._cluster.topic(self._topic)
        if (
            self._topic_id is not None
            and ZERO_UUID not in (info.id, self._topic_id)
            and info.id != self._topic_id
        ):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {self._topic} is not the one it was: its id is {info.id}, expected {self._topic_id}",
                next_step="it was deleted and created again; start from its new offsets",
            )
        if self._near is not None:
            connection = self._cluster.connection(self._near)
        else:
            connection = self._cluster.to_leader(self._topic, self._partition)
        connection.reuse_memory()
        size = int(self._per_offset * _SPARE * (self._end - offset))
        size = min(self._max_bytes, max(_LEAST_BYTES, size))
        wanted = FetchPartition(partition=self._partition, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=self._topic, topic_id=info.id, partitions=[wanted])],
            rack_id=self._rack,
        )
        version = connection.version_of(request)
        if version > 12 and info.id == ZERO_UUID:
            version = 12
        return offset, connection, connection.post(request, version, timeout=self._timeout)

    def _judge(self, response: Any, offset: Offset) -> Any:
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), f"fetching {self._target}")
        if not response.responses or not response.responses[0].partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no answer for {self._target}")
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.CORRUPT_MESSAGE:
            raise no_batch_there(self._target, offset)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            known = data.log_start_offset >= 0
            there = f": it begins at {data.log_start_offset}, ends at {data.high_watermark}" if known else ""
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._target} has no offset {offset} (any more, or yet){there}",
                next_step="retention deleted the records, or the topic was created again; pick another start",
            )
        if data.error_code:
            code = ErrorCode(data.error_code)
            said = f"fetching {self._target}"
            raise KafkaError(code, said, next_step=granting(code, "Read", self._topic))
        if data.records:
            self._progress = monotonic()
        return data

    def _is_another_topic(self, error: KafkaError) -> bool:
        """Whether the topic we were told to read has been replaced: repeating cannot help."""
        return self._topic_id is not None and "is not the one" in error.message
