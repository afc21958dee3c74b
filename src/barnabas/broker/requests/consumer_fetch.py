"""The fetches of one consumer's connection, one after the other, without a request and an answer made of objects.

While all is well with the partitions (they are led from here, in the epoch that the consumer knows, it may read
them, and its offsets lie in their logs), there is nothing to say of them but offsets and records: these are read
here, and the answer is left as plain rows (`ConsumerAnswer`), which become bytes at once.  Of everything else, and
where the answer has to wait, the usual reader (`fetch_reader`) says what it is; it would answer the same here.

What was found of a partition holds until the metadata or somebody's rights move (the broker's `generation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.fetch import FetchWaiting, serve
from barnabas.broker.requests.fetch_reader import READ_COMMITTED, FetchReader, diverging_from, rights_of
from barnabas.broker.sessions import TOPIC_IDS_SINCE, FetchPlan, FetchSession
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.searching import aborted_transactions
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.log.segments.scan import FileSlice
from barnabas.model import NO_EPOCH, Epoch, Now, Offset
from barnabas.wire.consumer_fetch import (
    NO_SESSION_EPOCH,
    ConsumerAnswer,
    ConsumerRow,
    ReadRow,
    topic_bytes,
    topic_of,
)
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.partition import Partition
    from barnabas.broker.sessions import FetchPosition, TopicKey
    from barnabas.wire.codec.declaration import LazyBytes

__all__ = ["ConsumerFetches", "SessionFetches", "fetches_like"]

_Answer = FetchResponse | Waiting | ConsumerAnswer


def fetches_like(
    broker: Broker, context: RequestContext, request: FetchRequest, version: int
) -> ConsumerFetches | None:
    """Who serves the fetches of a consumer that look like this one, which the usual way has served."""
    if request.session_epoch > 0:
        session = broker.sessions.get(request.session_id)
        if session is None or session.follower:
            return None
        return SessionFetches(broker, context, request, version, session)
    if request.session_epoch == NO_SESSION_EPOCH and not request.session_id:
        return ConsumerFetches(broker, context, request, version)
    return None


class ConsumerFetches:
    """Fetches that belong to no session: each names all that it reads."""

    __slots__ = ("_committed", "_context", "_generation", "_known", "_request", "_version", "broker")

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, version: int) -> None:
        """What `request` says, but for its positions, they all say."""
        self.broker = broker
        self._context = context
        self._request = request
        self._version = version
        self._committed = request.isolation_level == READ_COMMITTED
        self._generation = -1
        self._known: dict[tuple[bytes | TopicKey, int], Partition] = {}
        """What was found since then."""

    def fetch(self, epoch: int, rows: list[ConsumerRow], now: Now) -> _Answer | None:
        """Serve a fetch of these positions.  None: nothing was done, for more is to be said than offsets and
        records, or it is another one."""
        if epoch != NO_SESSION_EPOCH or not self._is_plain():
            return None
        answer, settled = self._read_rows(rows)
        if answer is not None or not settled:
            return answer
        return self._wait(rows, now)

    def _read_rows(self, rows: list[ConsumerRow]) -> tuple[ConsumerAnswer | None, bool]:
        """The answer if there is enough for one, and whether nothing is to be said but offsets and records."""
        known = self._known
        found: list[Partition] = []
        for topic, index, leader_epoch, offset, last_epoch, _, _ in rows:
            partition = known.get((topic, index))
            if partition is None:
                key = topic_of(self._version, topic)
                partition = None if key is None else self._find(key, index)
                if partition is None:
                    return None, False
                known[topic, index] = partition
            if not _is_well(partition, leader_epoch, offset, last_epoch):
                return None, False
            found.append(partition)
        if len(rows) > 1 and len({row[:2] for row in rows}) < len(rows):
            return None, False
        most, total, counts_for = self.most_bytes, 0, 0
        sizes: list[int] = []
        topics: dict[bytes, list[ReadRow]] = {}
        try:
            for (topic, index, _, offset, _, _, size), partition in zip(rows, found, strict=True):
                row = self._read(partition, index, offset, min(size, most - total), first=not total)
                sizes.append(len(row[5]))
                total += sizes[-1]
                counts_for += _counted(row[5])
                topics.setdefault(topic, []).append(row)
        except (StorageError, KafkaError):
            return None, False
        if rows and not self._is_enough(counts_for):
            return None, True
        for partition, size in zip(found, sizes, strict=True):
            partition.leading.traffic.bytes_out += size
        return ConsumerAnswer(0, topics), True

    def _is_enough(self, counts_for: int) -> bool:
        """Whether an answer whose records count for so many bytes does not wait for more."""
        request = self._request
        return counts_for >= min(request.min_bytes, self.most_bytes) or request.max_wait_ms <= 0

    @property
    def most_bytes(self) -> int:
        """Of records in an answer."""
        return min(self._request.max_bytes, self.broker.fetch_max_bytes)

    def _is_plain(self) -> bool:
        """Whether nothing speaks against these fetches in general; forgets what may have changed."""
        broker = self.broker
        if self._generation != broker.generation:
            self._known.clear()
            self._generation = broker.generation
        return not OPEN_FILES.short and not (broker.rack_aware and self._request.rack_id)

    def _find(self, topic: TopicKey, index: int) -> Partition | None:
        """A partition that is here and may be read."""
        broker = self.broker
        by_id = self._version >= TOPIC_IDS_SINCE
        hosted = broker.topic_with(topic) if by_id else broker.topic(topic)  # type: ignore[arg-type]
        partition = None if hosted is None else hosted.partitions.get(index)
        if hosted is None or partition is None:
            return None
        may = allowed(
            broker.authorizer, self._context, Operation.READ, ResourceType.TOPIC, hosted.name, asked=False
        )
        return partition if may else None

    def _read(self, partition: Partition, index: int, offset: Offset, most: int, *, first: bool) -> ReadRow:
        """What there is to say of a partition, with at most so many bytes (more, if it is the first batch of the
        answer).  Raises StorageError, KafkaError."""
        log, high_watermark, stable = partition.log, partition.high_watermark, partition.last_stable_offset
        records: LazyBytes | bytes = b""
        committed = self._committed
        aborted: Iterable[tuple[int, Offset]] | None = () if committed else None
        end = stable if committed else high_watermark
        if offset < end and (first or most > 0):
            records = found = log.read(offset, max(0, most), end, at_least_one=first)
            if committed and len(records):
                gone = aborted_transactions(log, offset, end, found)
                aborted = [(one.producer_id, one.first_offset) for one in gone]
        return index, high_watermark, stable, log.log_start_offset, aborted, records

    def _reader(self, plan: FetchPlan) -> FetchReader:
        return FetchReader(self.broker, self._context, self._request, self._version, plan)

    def _wait(self, rows: list[ConsumerRow], now: Now) -> _Answer:
        """There is not enough yet: let it wait for more."""
        session = FetchSession(self._version >= TOPIC_IDS_SINCE, now)
        for topic, index, *asked in rows:
            key = topic_of(self._version, topic)
            assert key is not None  # it was found
            position = session.position(key, index)
            position.ask(*asked)
        reader = self._reader(FetchPlan(ErrorCode.NONE, session, 0, False))
        answer = serve(reader, self._request, reader.asker(self._request), now)
        if isinstance(answer, FetchWaiting) and self._request.min_bytes <= 1:
            answer.first = partial(self._woken, rows)
        return answer  # type: ignore[return-value]

    def _woken(self, rows: list[ConsumerRow]) -> tuple[ConsumerAnswer | None, bool]:
        """Something moved in a partition of a fetch that waits for anything (see `FetchWaiting.first`)."""
        return self._read_rows(rows) if self._is_plain() else (None, False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} v{self._version} known={len(self._known)}>"


class _Read(NamedTuple):
    """What there is to say of one position of a session."""

    position: FetchPosition
    partition: Partition
    row: ReadRow
    news: bool
    """Whether the consumer does not know it."""


class SessionFetches(ConsumerFetches):
    """Fetches of one session: each names only what changed."""

    __slots__ = ("_asker", "_topics", "session")

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: FetchRequest,
        version: int,
        session: FetchSession,
    ) -> None:
        super().__init__(broker, context, request, version)
        self.session = session
        self._asker = session.asker
        self._topics: dict[bytes, TopicKey] = {}

    def fetch(self, epoch: int, rows: list[ConsumerRow], now: Now) -> _Answer | None:
        """Serve the next fetch of the session, with these positions changed.  See ConsumerFetches."""
        session, broker = self.session, self.broker
        if not self._is_next(epoch):
            return None
        asked: list[FetchPosition] = []
        for topic, index, *_ in rows:
            key = self._topics.get(topic) or self._topic(topic)
            position = None if key is None else session.positions.get((key, index))
            if position is None:
                return None
            asked.append(position)
        for row, position in zip(rows, asked, strict=True):
            position.ask(*row[2:])
        broker.sessions.go_on(session, now)
        session.asked_by(self._asker, rack_aware=broker.rack_aware, now=now)
        if (found := self._read_all()) is not None:
            if self._is_enough(sum(_counted(one.row[5]) for one in found)):
                return self._tell(found)
        reader = self._reader(FetchPlan(ErrorCode.NONE, session, session.epoch, False))
        answer = serve(reader, self._request, self._asker, now)
        if isinstance(answer, FetchWaiting):
            answer.first = partial(self._go_on, session.epoch)
        return answer  # type: ignore[return-value]

    def _go_on(self, epoch: int) -> tuple[ConsumerAnswer | None, bool]:
        """Something moved in a partition of the fetch after which the session had this epoch."""
        if not self._is_next(epoch) or (found := self._read_all()) is None:
            return None, False
        if self._is_enough(sum(_counted(one.row[5]) for one in found)):
            return self._tell(found), True
        return None, True

    def _is_next(self, epoch: int) -> bool:
        """Whether the session goes on with this epoch, and who asks has the same rights as before."""
        session = self.session
        return (
            session.epoch == epoch
            and not session.ended
            and self._asker.rights == rights_of(self.broker, self._context)
            and self._is_plain()
        )

    def _topic(self, topic: bytes) -> TopicKey | None:
        key = topic_of(self._version, topic)
        if key is not None and any(known == key for known, _ in self.session.positions):
            self._topics[topic] = key
        return key

    def _read_all(self) -> list[_Read] | None:
        """What there is to say; None: more than offsets and records."""
        places: list[tuple[FetchPosition, Partition]] = []
        for position in self.session.marked:
            place = (position.topic, position.index)
            if (partition := self._known.get(place)) is None:
                if (partition := self._find(*place)) is None:
                    return None
                self._known[place] = partition
            if partition is not position.partition or not _is_well(
                partition, position.current_leader_epoch, position.offset, position.last_fetched_epoch
            ):
                return None
            places.append((position, partition))
        most, total = self.most_bytes, 0
        found: list[_Read] = []
        try:
            for position, partition in places:
                size = min(position.max_bytes, most - total)
                row = self._read(partition, position.index, position.offset, size, first=not total)
                total += len(row[5])
                told = (row[1], row[3]) == (position.high_watermark, position.log_start)
                found.append(_Read(position, partition, row, len(row[5]) > 0 or not told))
        except (StorageError, KafkaError):
            return None
        return found

    def _tell(self, found: list[_Read]) -> ConsumerAnswer:
        """Make the answer, and remember in the session what the consumer is told by it."""
        session = self.session
        topics: dict[bytes, list[ReadRow]] = {}
        moved: list[FetchPosition] = []
        for position, partition, row, news in found:
            _, high_watermark, stable, log_start, _, records = row
            position.high_watermark, position.log_start = high_watermark, log_start
            if position.offset >= (stable if self._committed else high_watermark):
                session.rest(position)
            if size := len(records):
                partition.leading.traffic.bytes_out += size
                moved.append(position)
            if news:
                topics.setdefault(topic_bytes(self._version, position.topic), []).append(row)
        session.move_to_end(moved)
        return ConsumerAnswer(session.id, topics)


def _counted(records: Sized) -> int:
    """Bytes that these count for where a consumer waits for so many."""
    return records.counts_for if isinstance(records, FileSlice) else len(records)


def _is_well(partition: Partition, leader_epoch: Epoch, offset: Offset, last_epoch: Epoch) -> bool:
    """Whether there is nothing to say of it but offsets and records."""
    log = partition.log
    if not (
        partition.is_leader
        and not partition.offline
        and leader_epoch in (NO_EPOCH, partition.leader_epoch)
        and log.log_start_offset <= offset <= log.log_end_offset
    ):
        return False
    if last_epoch < 0 or last_epoch == log.latest_epoch:
        return True
    return diverging_from(log, last_epoch, offset) is None
