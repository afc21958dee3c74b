"""Fetch requests for several partitions: where they go, and what an answer says of each.  No socket, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.client.fetching import Unreadable, Visible, aborted_of, no_batch_there, whole_batches
from barnabas.client.metadata import Metadata
from barnabas.client.security.rights import granting
from barnabas.client.waits.silence import Resting
from barnabas.errors import BarnabasError, CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, NodeId, Offset, TopicId, TopicPartition
from barnabas.wire.records import Record, check_crc, read_records
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = [
    "FetchErrors",
    "FetchLimits",
    "Fetched",
    "Fetches",
    "decode",
    "fetch_request",
    "outdated",
    "read_answer",
]

PAUSE = 0.1
"""Seconds to wait before asking again after an error."""
_MAX_DECOMPRESSED = 1 << 30
_READERS_ERRORS = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_BY_NAME = 12  # the last version of Fetch that names topics


class FetchLimits(NamedTuple):
    """How long a broker may wait (s) for `min_bytes`; the bytes it may send, in all and of one partition.

    `rack`: where the reader is; a leader elsewhere names a replica there (KIP-392).
    """

    max_wait: float = 0.5
    max_bytes: int = 16 << 20
    partition_max_bytes: int = 4 << 20
    min_bytes: int = 1
    rack: str = ""

    def checked(self, timeout: float) -> FetchLimits:
        """Return the limits, with no longer a wait than requests of so many seconds allow.

        Raises ValueError for what cannot be.
        """
        if self.max_wait < 0:
            raise ValueError(f"fetch_wait is 0 s or more, not {self.max_wait!r}")
        sizes = {"fetch_max_bytes": self.max_bytes, "partition_max_bytes": self.partition_max_bytes}
        for name, size in {**sizes, "fetch_min_bytes": self.min_bytes}.items():
            if not 0 < size < 1 << 31:
                raise ValueError(f"{name} is between 1 and {(1 << 31) - 1} bytes, not {size!r}")
        return self._replace(max_wait=min(self.max_wait, timeout / 2))


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


class Fetches:
    """`Fetches(metadata, 30.0, isolation=0, limits=FetchLimits())`: what a fetcher asks whom, and what it hears.

    At most one fetch is under way per broker; the fetchers, who wait for them, are `prefetch` and `aio.fetcher`.
    """

    def __init__(self, metadata: Metadata, timeout: float, *, isolation: int, limits: FetchLimits) -> None:
        """`timeout`: seconds for which errors that pass are waited for."""
        self._metadata = metadata
        self._isolation = isolation
        self._limits = limits
        self._errors = FetchErrors(timeout)
        self._resting = Resting(metadata.max_age)
        self._near: dict[TopicPartition, tuple[NodeId, float]] = {}
        """The replica in our rack that the leader has named, and until when it is read."""
        self._paused_until = 0.0

    def __repr__(self) -> str:
        return f"<Fetches near={len(self._near)}>"

    def is_time(self, now: float) -> bool:
        """Return whether to ask now (monotonic s), and not only a while after an error."""
        return now >= self._paused_until

    def broker_of(self, target: TopicPartition, leader: NodeId, now: float) -> NodeId:
        """Return whom to ask for this partition."""
        if target not in self._near:
            return leader
        near, until = self._near[target]
        if now < until:
            return near
        del self._near[target]
        return leader

    def request(
        self, asked: Mapping[TopicPartition, Offset], ids: Mapping[str, TopicId], served: int
    ) -> tuple[FetchRequest, int]:
        """As `fetch_request`."""
        return fetch_request(asked, ids, served, isolation=self._isolation, limits=self._limits)

    def heard(
        self, node: NodeId, response: Any, asked: Mapping[TopicPartition, Offset], now: float
    ) -> list[Fetched]:
        """Return all that the answer of this broker has for the reader.

        Raises BarnabasError for what no repetition mends, or what has lasted for too long.
        """
        try:
            answers = list(read_answer(response, asked, self._metadata.topic_name))
        except KafkaError as error:
            self.trouble(error, asked, now)
            return []
        found: list[Fetched] = []
        for fetched in answers:
            near = self._near.get(fetched.target)
            if fetched.error is not None and near is not None and near[0] == node:
                del self._near[fetched.target]  # the leader knows better
            elif self._errors.for_the_reader(fetched, now):
                found.append(fetched)
            elif fetched.error is not None:
                self.trouble(fetched.error, [fetched.target], now)
        if self._limits.rack:
            for target, named in _named_replicas(response, self._metadata.topic_name):
                self._near[target] = named, now + self._metadata.max_age
        self._errors.over()
        return found

    def trouble(self, error: BarnabasError, targets: Iterable[TopicPartition], now: float) -> None:
        """Look anew who leads these, and pause; raises what no repetition mends, or what has lasted too long."""
        self._errors.seen(error, now)
        self._paused_until = now + PAUSE
        for target in targets:
            self._near.pop(target, None)
            self._metadata.forget(target.topic)

    def resting(self, positions: Mapping[TopicPartition, Offset], now: float) -> list[TopicPartition]:
        """Return the positions that have stood still, and about which another broker is asked now."""
        return self._resting.due(positions, now)


def outdated(
    asked: Iterable[Mapping[TopicPartition, Offset]], positions: Mapping[TopicPartition, Offset]
) -> bool:
    """Tell if one of the fetches under way was sent before a seek: nothing is known of these positions yet."""
    return any(positions.get(target, offset) != offset for one in asked for target, offset in one.items())


class Fetched(NamedTuple):
    """Records of one partition from offset `asked` on, and where to go on.

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
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=isolation,
        topics=[FetchTopic(topic=t, topic_id=ids[t], partitions=parts) for t, parts in topics.items()],
        rack_id=limits.rack,
    )
    return request, min(served, _BY_NAME) if ZERO_UUID in (ids[t] for t in topics) else served


def read_answer(
    response: Any, asked: Mapping[TopicPartition, Offset], topic_name: Callable[[TopicId], str | None]
) -> Iterator[Fetched]:
    """Read what the answer says of each partition that has news.

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


def _named_replicas(
    response: Any, topic_name: Callable[[TopicId], str | None]
) -> Iterator[tuple[TopicPartition, NodeId]]:
    for topic in response.responses:
        name = topic.topic or topic_name(topic.topic_id) or ""
        for data in topic.partitions:
            if data.preferred_read_replica >= 0:
                yield TopicPartition(name, data.partition_index), data.preferred_read_replica


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
