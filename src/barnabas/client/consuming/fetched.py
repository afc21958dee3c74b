"""A Fetch request for several partitions, and what its answer says of each.  No socket, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.client.fetching import Unreadable, Visible, aborted_of, no_batch_there, whole_batches
from barnabas.client.security.rights import granting
from barnabas.errors import BarnabasError, CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Offset, TopicId, TopicPartition
from barnabas.wire.records import Record, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = ["FetchErrors", "FetchLimits", "Fetched", "decode", "fetch_request", "read_answer"]

_MAX_DECOMPRESSED = 1 << 30
_READERS_ERRORS = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_BY_NAME = 12  # the last version of Fetch that names topics


class FetchLimits(NamedTuple):
    """How long a broker may wait (s) and how much it may send (bytes), of one partition and in all."""

    max_wait: float = 0.5
    max_bytes: int = 16 << 20
    partition_max_bytes: int = 4 << 20


class FetchErrors:
    """`FetchErrors(timeout=30.0)`: which errors of fetches pass, and for how long (s) they are waited for."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._since: float | None = None
        self._unreadable = Unreadable(timeout)

    def __repr__(self) -> str:
        return f"<FetchErrors since={self._since}>"

    def over(self) -> None:
        """A broker answered."""
        self._since = None

    def seen(self, error: BarnabasError, now: float) -> None:
        """Raises an error that no retry mends, or that has lasted too long; `now` in monotonic seconds."""
        if isinstance(error, KafkaError) and not error.code.retriable:
            raise error
        if self._since is None:
            self._since = now
        elif now - self._since > self._timeout:
            raise error

    def for_the_reader(self, fetched: Fetched, now: float) -> bool:
        """Return whether the reader decides: records came, or the offset is gone, forbidden or unreadable."""
        if isinstance(fetched.error, CorruptRecordError):
            return self._unreadable.stays(fetched.target, fetched.asked, now)
        self._unreadable.read(fetched.target)
        return not isinstance(fetched.error, KafkaError) or fetched.error.code in _READERS_ERRORS


class Fetched(NamedTuple):
    """What came of one partition: records from offset `asked` on, and where to go on.

    `error` instead, when nothing came of it.
    """

    target: TopicPartition
    asked: Offset
    records: list[Record]
    next_offset: Offset
    high_watermark: Offset
    error: BarnabasError | None = None


def fetch_request(
    asked: Mapping[TopicPartition, Offset],
    ids: Mapping[str, TopicId],
    served: int,
    *,
    isolation: int,
    limits: FetchLimits,
) -> tuple[FetchRequest, int]:
    """The request for these partitions from these offsets on, and its version: at most `served`."""
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, partition), offset in asked.items():
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=limits.partition_max_bytes
        )
        topics.setdefault(topic, []).append(wanted)
    request = FetchRequest(
        max_wait_ms=int(limits.max_wait * 1000),
        min_bytes=1,
        max_bytes=limits.max_bytes,
        isolation_level=isolation,
        topics=[FetchTopic(topic=t, topic_id=ids[t], partitions=parts) for t, parts in topics.items()],
    )
    return request, min(served, _BY_NAME) if ZERO_UUID in (ids[t] for t in topics) else served


def read_answer(
    response: Any, asked: Mapping[TopicPartition, Offset], topic_name: Callable[[TopicId], str | None]
) -> Iterator[Fetched]:
    """What the answer says of each partition that has news.

    Raises KafkaError where the broker refused the request as a whole.
    """
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), "fetching")
    for topic in response.responses:
        name = topic.topic or topic_name(topic.topic_id) or ""
        for data in topic.partitions:
            target = TopicPartition(name, data.partition_index)
            if target in asked and (data.error_code or data.records):
                yield _judge(target, asked[target], data)


def _judge(target: TopicPartition, asked: Offset, data: Any) -> Fetched:
    error: BarnabasError
    if data.error_code:
        if data.error_code == ErrorCode.CORRUPT_MESSAGE:
            error = no_batch_there(target, asked)
        else:
            code = ErrorCode(data.error_code)
            said = f"fetching {target} at offset {asked}"
            error = KafkaError(code, said, next_step=granting(code, "Read", target.topic))
        return Fetched(target, asked, [], asked, data.high_watermark, error)
    try:
        visible = Visible(aborted_of(data))
        records, following = decode(memoryview(data.records), target, asked, visible, data.high_watermark)
    except CorruptRecordError as corrupt:
        return Fetched(target, asked, [], asked, data.high_watermark, corrupt)
    return Fetched(target, asked, records, following, data.high_watermark)


def decode(
    buffer: memoryview, target: TopicPartition, offset: Offset, visible: Visible, end: Offset = -1
) -> tuple[list[Record], Offset]:
    """`decode(records, target, 42, Visible())` -> (records from 42 on, offset after the last batch).

    What stands before a batch that cannot be read is handed out first.  Raises CorruptRecordError when the
    first batch is such a one: its CRC does not match, or its records are not what their lengths say; and where
    batches lie about their offsets (`end`: the high watermark, -1 if unknown).
    """
    found: list[Record] = []
    following = offset
    for at, header in whole_batches(target, buffer, offset, end):
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
