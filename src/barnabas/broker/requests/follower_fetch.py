"""The fetches of one follower's session, one after the other, without a request and an answer made of objects.

While the follower is in sync, in the epoch of its leader and not throttled, there is nothing to say of its
partitions but offsets and records: `_look` finds whether that is so, and reads; the answer is left as plain rows
(`PlainAnswer`), which become bytes at once.  Of everything else the usual reader (`fetch_reader`) says what it
is; it would answer the same here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import RequestContext
from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.fetch import FetchWaiting, serve
from barnabas.broker.requests.fetch_reader import FetchReader, Found, rights_of
from barnabas.broker.sessions import FetchPlan
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.reading import just_written
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import NO_EPOCH, Now, Offset
from barnabas.wire.replica_fetch import AnswerRow, FetchedRow, PlainAnswer
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.sessions import FetchPosition
    from barnabas.log.log import Log
    from barnabas.log.segments.scan import FileSlice
    from barnabas.wire.codec.declaration import LazyBytes

__all__ = ["FollowerFetches", "PlainWaiting"]


class _PlainReader(FetchReader):
    """Answers in plain rows where it can."""

    __slots__ = ()

    def respond(self, found: list[Found], now: Now) -> FetchResponse | PlainAnswer:
        """See FetchReader."""
        plan = self.plan
        session = plan.session
        if session.epoch != plan.epoch or session.ended:
            return super().respond(found, now)
        for one in found:
            if one.error or one.diverging is not None:
                return super().respond(found, now)
        self.count(found, now)
        topics: dict[bytes, list[AnswerRow]] = {}
        for one in found:
            if self.news(one):
                position = one.position
                row = (position.index, one.high_watermark, one.stable, one.log_start, one.records)
                topics.setdefault(position.topic, []).append(row)  # type: ignore[arg-type]  # a topic id
        session.move_to_end([one.position for one in found if len(one.records)])
        return PlainAnswer(session.id, topics)


_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
_Read = tuple["FetchPosition", Offset, Offset, Offset, "LazyBytes | bytes", bool]
"""What there is to say of a position: high watermark, last stable offset, log start, records, and whether the
follower knows the offsets."""


class FollowerFetches:
    """Made from one fetch of a session that the usual way has served; `fetch` serves those that look like it."""

    __slots__ = (
        "_asker",
        "_context",
        "_guarded",
        "_least",
        "_may_replicate",
        "_most",
        "_request",
        "_version",
        "broker",
        "session",
        "wait_s",
    )

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest, version: int) -> None:
        """`request` belongs to a session of the cache, and its follower keeps to what it says but positions.

        Raises KeyError when there is no such session.
        """
        session = broker.sessions.get(request.session_id)
        if session is None or not session.follower:
            raise KeyError(request.session_id)
        self.broker = broker
        self._context = context
        self._request = request
        self.session = session
        self._asker = session.asker
        self._version = version
        self.wait_s = request.max_wait_ms / 1000.0
        """How long a fetch may wait."""
        self._most = min(request.max_bytes, broker.fetch_max_bytes)
        self._least = min(request.min_bytes, self._most)
        """Bytes of an answer at most, and those that are enough for one."""
        self._guarded = broker.authorizer is not None or self._asker.rights is not None
        self._may_replicate = self._reader(session.epoch).may_replicate()
        """As long as its rights are the same."""

    def _reader(self, epoch: int) -> FetchReader:
        """The usual reader of the fetch after which the session has this epoch."""
        plan = FetchPlan(ErrorCode.NONE, self.session, epoch, False)
        return _PlainReader(self.broker, self._context, self._request, self._version, plan)

    def fetch(
        self, epoch: int, rows: list[FetchedRow], now: Now, waiting: PlainWaiting | None = None
    ) -> FetchResponse | Waiting | PlainAnswer | None:
        """Serve the next fetch of the session, with these positions changed.  None: nothing was done, for it is
        not the next one, or names what the session does not have.  `waiting` waits if it has to wait."""
        broker, session = self.broker, self.session
        if session.epoch != epoch or session.ended or (self._guarded and not self._has_rights()):
            return None
        known = session.positions
        asked: list[FetchPosition] = []
        for row in rows:
            position = known.get(row[:2])  # type: ignore[arg-type]  # bytes are equal to the topic's id
            if position is None:
                return None
            asked.append(position)
        for row, position in zip(rows, asked, strict=True):
            position.ask(*row[2:])
        broker.sessions.go_on(session, now)
        if session.asker is self._asker:
            session.fetched_at = now.mono
        else:
            session.asked_by(self._asker, rack_aware=broker.rack_aware, now=now)
        if (read := self._look(now)) is not None:
            found, enough = read
            if enough or self._request.max_wait_ms <= 0 or not session.positions:
                return self._tell(found)
            waiting = waiting or PlainWaiting()
            return waiting if waiting.park(self, now) else self._tell(found)
        return serve(self._reader(session.epoch), self._request, self._asker, now)

    def _has_rights(self) -> bool:
        """Whether who asks may do the same as before."""
        return self._asker.rights == rights_of(self.broker, self._context)

    def read_again(self, epoch: int) -> tuple[PlainAnswer | None, bool]:
        """For a fetch that waited, after which the session had this epoch: its answer if there is one now, and
        whether nothing else is to be looked at."""
        session = self.session
        if session.epoch != epoch or session.ended or session.asker != self._asker:
            return None, False
        if (self._guarded and not self._has_rights()) or (read := self._look(None)) is None:
            return None, False
        found, enough = read
        return (self._tell(found) if enough else None), True

    def _look(self, now: Now | None) -> tuple[list[_Read], bool] | None:
        """What there is to say of those positions of which there is something, and whether that is enough for an
        answer; None: more is to be said of one than offsets and records, or reading failed.

        `now`: this is a fetch, so the follower holds what lies below its offsets.
        """
        session, asker = self.session, self._asker
        if not self._may_replicate or OPEN_FILES.short:
            return None
        total, held_back, urgent, replica = 0, 0, False, asker.replica
        found: list[_Read] = []
        for position in session.marked:
            partition = position.partition
            if partition is None:
                return None
            log, offset, last_epoch = partition.log, position.offset, position.last_fetched_epoch
            high_watermark, log_start = partition.high_watermark, log.log_start_offset
            leader_epoch = position.current_leader_epoch
            if not (
                partition.is_leader
                and (leader_epoch == partition.leader_epoch or leader_epoch == NO_EPOCH)
                and replica in partition.leading.isr
                and log_start <= offset <= log.log_end_offset
                and (last_epoch < 0 or last_epoch == log.epochs.latest)
            ):
                return None
            if partition.offline or partition.settings.leader_throttled:
                return None
            if now is not None and not partition.fetched_by(
                replica, offset, position.replica_log_start, now, asker.epoch
            ):
                return None  # it fetches in an older registration
            records: LazyBytes | bytes = b""
            same = high_watermark == position.high_watermark
            told = same and log_start == position.log_start
            end = log.written_end_offset if log.page_cache else log.acknowledged_end_offset
            if offset >= end:
                if told and position.still:
                    session.rest(position)
                position.still = told
            elif not total or self._most > total:
                left, size = self._most - total, position.max_bytes
                fresh = just_written(log, offset, min(size, left), end)
                if fresh is None:
                    if (read := _read(log, position, end, left, first=not total)) is None:
                        return None
                    records = read
                    held_back += read.counts_for - read.size
                else:
                    records = fresh
                total += len(records)
                position.still = False
            if told and not len(records):
                continue
            if position.log_start >= 0 and not told:
                urgent |= position.log_start != log_start or (self.broker.rack_aware and not same)
            stable = (
                high_watermark if log.producers.first_unstable_offset < 0 else partition.last_stable_offset
            )
            found.append((position, high_watermark, stable, log_start, records, told))
        return found, urgent or total + held_back >= self._least

    def _tell(self, found: list[_Read]) -> PlainAnswer:
        """Make the answer, and remember in the session what the follower is told by it."""
        topics: dict[bytes, list[AnswerRow]] = {}
        moved: list[FetchPosition] = []
        for position, high_watermark, stable, log_start, records, told in found:
            if size := len(records):
                moved.append(position)
            if size or not told:
                position.high_watermark = high_watermark
                position.log_start = log_start
                row = (position.index, high_watermark, stable, log_start, records)
                topics.setdefault(position.topic, []).append(row)  # type: ignore[arg-type]  # a topic id
        self.session.move_to_end(moved)
        return _new(PlainAnswer, (self.session.id, topics))

    def usual_reader(self, epoch: int) -> tuple[FetchReader, int]:
        """The reader of a fetch that waits, and the bytes that are enough for it."""
        reader = self._reader(epoch)
        return reader, self._least

    def __repr__(self) -> str:
        return f"<FollowerFetches {self.session!r}>"


def _read(log: Log, position: FetchPosition, end: Offset, left: int, *, first: bool) -> FileSlice | None:
    """What it reads next of this log below `end`; None where reading failed.  So many bytes are `left` of what the
    answer may have; the `first` gets one batch at least."""
    size = position.max_bytes
    if not 0 <= size <= left:
        size = max(0, left) if size > 0 else 0
    try:
        return log.read(position.offset, size, end, at_least_one=first)
    except (StorageError, KafkaError):
        return None


class PlainWaiting(Waiting):
    """A parked fetch of a follower.  Where more is to be said than offsets and records, `FetchWaiting` says it."""

    __slots__ = ("_epoch", "fetches")

    def __init__(self) -> None:
        super().__init__(0.0)
        self.fetches: FollowerFetches | None = None
        """Who goes on with it, once it waits."""
        self._epoch = 0

    def park(self, fetches: FollowerFetches, now: Now) -> bool:
        """See FetchWaiting."""
        self.deadline = now.mono + fetches.wait_s
        if not fetches.broker.purgatory.add(self):
            return False
        session = fetches.session
        self.fetches, self._epoch = fetches, session.epoch
        session.parked, outdated = self, session.parked
        if outdated is not None:
            outdated.wake(now)
        return True

    def wake(self, now: Now) -> None:
        """Something that it reads moved: read again, and answer if that is enough."""
        if self.done or self.fetches is None:
            return
        answer, settled = self.fetches.read_again(self._epoch)
        if answer is not None:
            self.complete(answer)
        elif not settled:
            self._as_usual().wake(now)

    def expired(self, now: Now) -> None:
        self._as_usual().expired(now)

    def _as_usual(self) -> FetchWaiting:
        """The same fetch, to be answered by the usual reader."""
        assert self.fetches is not None
        waiting = FetchWaiting(self.deadline, *self.fetches.usual_reader(self._epoch))
        waiting.on_done = self.complete
        return waiting

    def release(self) -> None:
        if self.fetches is not None and self.fetches.session.parked is self:
            self.fetches.session.parked = None
