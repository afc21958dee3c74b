"""Reads Produce requests of several partitions straight from their bytes (flexible versions, KIP-482).

The general decoder makes objects for each topic and partition; here a partition costs a few lines.  Only what
every producer sends is read: no transaction, partitions that are hosted here, no tagged fields, lengths in
their shortest form.  For all else `read` returns None, before anything was done, and the decoder has its turn:
it alone says what is wrong with bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.ports import Operation, ResourceType, allowed
from barnabas.broker.requests.append import may_hold
from barnabas.broker.requests.produce_several import FIRST_VERSION, SeveralBatches, TopicBatches
from barnabas.broker.requests.validation import RECORDS_WALKED_AT_ONCE
from barnabas.model import Uuid
from barnabas.server.net.context import RequestContext
from barnabas.server.net.produce_answers import LEAST_BATCH_BYTES, MOST_COPIED_BYTES
from barnabas.wire import walk
from barnabas.wire.records import TRANSACTIONAL

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.hosted_partitions import HostedTopic
    from barnabas.broker.replicas.partition import Partition

__all__ = ["KnownSeveral", "PlainSeveral", "SeveralReader"]

_TOPIC_IDS_SINCE = 13
_ID_BYTES = 16
_AFTER_CORRELATION = 8
_MOST_TOPICS = 1000
_MOST_HEADS = 126
"""Topics in one answer, so that a byte counts them."""
_BEGIN = struct.Struct(">Bhi")
_begin, _begin_size = _BEGIN.unpack_from, _BEGIN.size
"""The transactional id (0: none), acks, and the timeout in ms."""
_partition = struct.Struct(">iI").unpack_from
"""A partition's index, and four bytes that begin with the length of its records."""
_TRANSACTIONAL_AT = 22
"""The low byte of a batch's attributes."""


class SeveralReader:
    """Reads requests for one broker; knows the topics of earlier ones by their bytes."""

    __slots__ = ("_broker", "_generation", "_topics")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._generation = -1
        self._topics: dict[bytes, HostedTopic] = {}

    def read(self, context: RequestContext, frame: memoryview, position: int) -> SeveralBatches | None:
        """The batches of a request whose body begins at `position`; None: have it decoded."""
        broker, version = self._broker, context.version
        if version < FIRST_VERSION or broker.purgatory.full:
            return None
        if self._generation != broker.generation:
            self._generation = broker.generation
            self._topics.clear()
        try:
            name, acks, timeout_ms = _begin(frame, position)
            if name or not (acks == -1 or acks == 1):
                return None
            count, position = _length(frame, position + 7)
            topics: list[TopicBatches] = []
            data = bytes(frame) if walk.COMPILED and len(frame) <= MOST_COPIED_BYTES else None
            for _ in range(count):
                topic, position = self._topic(frame, data, position, version >= _TOPIC_IDS_SINCE)
                topics.append(topic)
            if frame[position] or position + 1 != len(frame):
                return None
        except (_UnusualError, struct.error, IndexError):
            return None
        if not topics or (len(topics) == 1 and len(topics[0].batches) == 1):
            return None
        if broker.authorizer is not None and not all(_may_write(broker, context, one) for one in topics):
            return None
        return SeveralBatches(acks, timeout_ms, topics)

    def _topic(
        self, frame: memoryview, data: bytes | None, position: int, by_id: bool
    ) -> tuple[TopicBatches, int]:
        """The topic at `position`, and where the next one begins.  `data` is the frame for compiled code."""
        start, name_at, size = position, position, _ID_BYTES
        if not by_id:
            size, name_at = _length(frame, position)
        position = name_at + size
        key = bytes(frame[name_at:position])
        topic = self._topics.get(key)
        if topic is None:
            topic = self._find(key, by_id)
        count, position = _length(frame, position)
        if not count:
            raise _UnusualError
        head = bytes(frame[start:position])  # an answer names topics and counts partitions in the same bytes
        if data is not None:
            batches, position = _batches(frame, data, position, count, topic)
        else:
            batches, position = _batches_one_by_one(frame, position, count, topic)
        if frame[position]:
            raise _UnusualError
        return TopicBatches(topic, key, head, batches), position + 1

    def _find(self, key: bytes, by_id: bool) -> HostedTopic:
        """A topic that is hosted here, and may be written to by clients."""
        broker = self._broker
        if by_id:
            topic = broker.topics_by_id.get(Uuid(key))
        else:
            topic = broker.topics.get(key.decode("ascii", "replace"))
        if topic is None or topic.internal:
            raise _UnusualError
        self._topics[key] = topic
        return topic

    def __repr__(self) -> str:
        return f"<SeveralReader {len(self._topics)} topics>"


class PlainSeveral(NamedTuple):
    """A request whose batches are all plain.

    `heads` has for each topic the bytes of its answer in front of its partitions, and how many those are;
    `partitions` are those of the batches that were found.
    """

    correlation: int
    heads: list[tuple[bytes, int]]
    partitions: list[Partition]
    found: walk.Plain


class KnownSeveral:
    """What a producer's requests for several partitions begin with, and the topics that it was seen to write to.

    What is found out about a topic holds as long as nothing changes (the broker's `generation`).
    """

    __slots__ = ("_begin", "_by_id", "_head", "_key", "_topics", "_topics_at", "everywhere", "timeout_s")

    def __init__(self, key: bytes, head: bytes, request: SeveralBatches, by_id: bool) -> None:
        """`key` is in front of the correlation id, `head` between that and the count of topics."""
        self._key = key
        self._head = head
        self._topics_at = _AFTER_CORRELATION + len(head)
        self._begin = struct.Struct(f">4si{len(head)}s").unpack_from
        self._by_id = by_id
        self._topics: dict[bytes, dict[int, Partition]] = {}
        self.everywhere = request.acks < 0
        self.timeout_s = request.timeout_ms / 1000.0

    @classmethod
    def of(
        cls,
        frame: memoryview,
        position: int,
        request: SeveralBatches,
        version: int,
        known: KnownSeveral | None,
    ) -> KnownSeveral:
        """What to know of a request whose body begins at `position`, and of those before it."""
        key, head = bytes(frame[:4]), bytes(frame[_AFTER_CORRELATION : position + _begin_size])
        if known is None or known._key != key or known._head != head:
            known = cls(key, head, request, version >= _TOPIC_IDS_SINCE)
        for topic in request.topics:
            if len(known._topics) < _MOST_TOPICS:
                known._topics[topic.key] = topic.topic.partitions
        return known

    def read(self, frame: memoryview, wall_ms: int) -> PlainSeveral | None:
        """The batches of a request that begins as those before; None: others have to read it."""
        if not walk.COMPILED or not self._topics_at < len(frame) <= MOST_COPIED_BYTES:
            return None
        key, correlation, head = self._begin(frame)
        if key != self._key or head != self._head:
            return None
        topics: list[tuple[int, int, int, int, int]] = []
        found = walk.Plain()
        if not found.request(frame, self._topics_at, self._by_id, RECORDS_WALKED_AT_ONCE, topics):
            return None
        heads: list[tuple[bytes, int]] = []
        known: list[Partition] = []
        places = found.batches
        for begin, name, named, end, count in topics:
            partitions, at = self._topics.get(bytes(frame[name:named])), len(known)
            if partitions is None:
                return None
            try:
                known += [partitions[place[0]] for place in places[at : at + count]]
            except KeyError:
                return None
            if not may_hold(known[at], found, wall_ms):
                return None
            heads.append((bytes(frame[begin:end]), count))
        if len(heads) > _MOST_HEADS:
            return None
        if not (found.rising and len(heads) == 1) and len(set(known)) != len(known):
            return None  # a partition twice: the second batch depends on the first
        return PlainSeveral(correlation, heads, known, found)

    def __repr__(self) -> str:
        return f"<KnownSeveral {len(self._topics)} topics>"


def _may_write(broker: Broker, context: RequestContext, topic: TopicBatches) -> bool:
    return allowed(
        broker.authorizer, context, Operation.WRITE, ResourceType.TOPIC, topic.topic.name, asked=False
    )


class _UnusualError(Exception):
    """Not what producers send every day."""


def _batches(
    frame: memoryview, data: bytes, position: int, count: int, topic: HostedTopic
) -> tuple[list[tuple[Partition, memoryview]], int]:
    """The partitions of a topic with their batches, and what comes after them.  Raises _UnusualError."""
    places: list[tuple[int, int, int]] = []
    position = walk.produced_batches(data, position, count, places)
    if position < 0:
        raise _UnusualError
    partitions = topic.partitions
    try:
        return [(partitions[index], frame[begin:end]) for index, begin, end in places], position
    except KeyError:
        raise _UnusualError from None


def _batches_one_by_one(
    frame: memoryview, position: int, count: int, topic: HostedTopic
) -> tuple[list[tuple[Partition, memoryview]], int]:
    """`_batches` where nothing is compiled, and for large frames, of which no copy is made."""
    partitions, total = topic.partitions, len(frame)
    batches: list[tuple[Partition, memoryview]] = []
    for _ in range(count):
        index, four = _partition(frame, position)
        partition = partitions.get(index)
        size, start = _records(four, position + 4)
        position = start + size
        if partition is None or size < LEAST_BATCH_BYTES or position >= total or frame[position]:
            raise _UnusualError
        records = frame[start:position]
        if records[_TRANSACTIONAL_AT] & TRANSACTIONAL:
            raise _UnusualError
        batches.append((partition, records))
        position += 1
    return batches, position


def _length(frame: memoryview, position: int) -> tuple[int, int]:
    """A compact length of at most two bytes, and what comes after it.  Raises _UnusualError."""
    low = frame[position]
    if low < 0x80:
        if low:
            return low - 1, position + 1
    elif 0 < (high := frame[position + 1]) < 0x80:
        return (low & 0x7F | high << 7) - 1, position + 2
    raise _UnusualError


def _records(four: int, start: int) -> tuple[int, int]:
    """The length of records from the four bytes at `start`, and where the records begin.  Raises _UnusualError."""
    if four < 0x80000000:
        return (four >> 24) - 1, start + 1
    size, high = four >> 24 & 0x7F, four >> 16 & 0xFF
    size |= (high & 0x7F) << 7
    width = 2
    if high >= 0x80:
        high = four >> 8 & 0xFF
        size |= (high & 0x7F) << 14
        width = 3
        if high >= 0x80:
            high = four & 0xFF
            size |= high << 21
            width = 4
    if not 0 < high < 0x80:
        raise _UnusualError
    return size - 1, start + width
