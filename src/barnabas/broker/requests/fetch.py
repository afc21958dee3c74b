"""Fetch: read whole batches, or wait until there are enough.

A fetch is answered at once when it has the bytes it asked for, when one of its partitions has something to
report (an error, a diverging epoch), or when it does not want to wait.  Otherwise it parks: its session watches
its partitions.  It wakes (at the end of a loop step, after the writes) when the readable end of one of them
moved, and reads again (`reading`).

Only those positions are looked at of which there may be something to say (`sessions`); the answer to a request
that belongs to no session tells of all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import RequestContext
from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.reading import Reader
from barnabas.broker.sessions import Asker, FetchPosition, FetchSession
from barnabas.errors import ErrorCode
from barnabas.model import NodeId, Now
from barnabas.wire.plane.fetch_asked import NO_SESSION_EPOCH, Asked, Terms
from barnabas.wire.plane.fetch_told import FetchAnswer, ToldRow

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["FetchWaiting", "Fetches"]

_ENDPOINTS_SINCE = 16
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
_Read = tuple[FetchPosition, ToldRow]


class Fetches:
    """The fetches of one client on the same terms, one after the other: `serve` answers each, or lets it wait."""

    __slots__ = ("_alone", "_asker", "_generation", "broker", "context", "least", "most", "reader", "terms")

    def __init__(self, broker: Broker, context: RequestContext, terms: Terms) -> None:
        """`context` says whose they are."""
        self.broker = broker
        self.context = context
        self.terms = terms
        self.most = min(terms.max_bytes, broker.fetch_max_bytes)
        """Bytes of an answer at most."""
        self.least = min(terms.min_bytes, self.most)
        """Bytes that are enough for an answer."""
        self.reader = Reader(broker, context, terms)
        self._alone: FetchSession | None = None
        """The positions of the last one that belonged to no session: the next one mostly names the same."""
        self._asker: Asker | None = None
        self._generation = -1
        """Of the broker, when it was known who asks."""

    def serve(self, asked: Asked, now: Now) -> FetchAnswer | FetchWaiting:
        """Serve one request: its answer, or what waits for it."""
        broker, terms, epoch = self.broker, self.terms, asked.session_epoch
        session: FetchSession | ErrorCode
        if epoch == NO_SESSION_EPOCH and not terms.session_id:
            session = self._positions_alone(asked, now)
        else:
            session = broker.sessions.take(terms, asked, now)
        if isinstance(session, ErrorCode):
            return FetchAnswer(0, {}, session)
        if self._asker is None or self._generation != broker.generation:
            self._generation = broker.generation
            self._asker = self.reader.asker()
        if session.asker is not self._asker:
            session.asked_by(self._asker, rack_aware=broker.rack_aware)
        session.fetched_at = now.mono
        positions = session.marked if epoch > 0 else list(session.positions.values())
        found, counts_for, urgent = self._read(session, positions, now, fetched=True)
        if urgent or counts_for >= self.least or terms.max_wait_ms <= 0 or not session.positions:
            return self._tell(session, epoch, found, now)
        waiting = FetchWaiting(self, session, epoch, now)
        return waiting if waiting.park(now) else self._tell(session, epoch, found, now)

    def _positions_alone(self, asked: Asked, now: Now) -> FetchSession:
        """Return the positions of a request that belongs to no session."""
        session = self._alone
        if session is not None and session.parked is None:
            if len(asked.rows) == len(session.positions):
                for row, position in zip(asked.rows, session.positions.values(), strict=True):
                    if row[0] != position.topic or row[1] != position.index:
                        break
                    position.ask(row)
                    position.begin_anew()
                else:
                    return session
            session.end()
        session = self._alone = FetchSession(self.terms.by_id, now)
        session.update(asked)
        return session

    def _read(
        self, session: FetchSession, positions: list[FetchPosition], now: Now, *, fetched: bool = False
    ) -> tuple[list[_Read], int, bool]:
        """Read these positions: what is to be told, the bytes it counts for, and whether it must not wait.

        The bytes are those of all positions of the session: there are none in those that are at rest.  `fetched`:
        the client asks now, so a follower holds what lies below its offsets.
        """
        broker, reader, most = self.broker, self.reader, self.most
        generation, follower = broker.generation, self.terms.replica >= 0
        found: list[_Read] = []
        total = counts_for = 0
        urgent = False
        for position in positions:
            if position.located_in != generation:
                reader.locate(position)
            row, counts = reader.read(position, most - total, not total, fetched, now)
            total += len(row[7])
            counts_for += counts
            told = row[2] == position.high_watermark and row[4] == position.log_start
            if row[1] or row[8] is not None or row[6] >= 0:
                urgent = True
            elif follower and position.log_start >= 0 and not told:
                urgent |= row[4] != position.log_start or (
                    broker.rack_aware and row[2] != position.high_watermark
                )
            still, position.still = position.still, not len(row[7])
            if position.at_end and (told or not session.id) and (still or not follower):
                session.rest(position)
            found.append((position, row))
        return found, counts_for, urgent

    def _tell(self, session: FetchSession, epoch: int, found: list[_Read], now: Now) -> FetchAnswer:
        """Make the answer, and remember in the session what the client is told by it."""
        broker, reader = self.broker, self.reader
        if epoch == 0:
            broker.sessions.create(session, now)
        follower = self.terms.replica >= 0
        topics: dict[bytes, list[ToldRow]] = {}
        moved: list[FetchPosition] = []
        leaders: set[NodeId] = set()
        for position, row in found:
            _, error, high_watermark, _, log_start, _, replica, records, extra = row
            if size := len(records):
                moved.append(position)
                if follower:
                    reader.count_replicated(position, size, now)
                elif position.partition is not None:
                    position.partition.leading.traffic.bytes_out += size
            elif (
                epoch > 0
                and not error
                and extra is None
                and replica < 0
                and high_watermark == position.high_watermark
                and log_start == position.log_start
            ):
                continue  # the client knows it
            position.high_watermark = -1 if error else high_watermark
            position.log_start = log_start
            if position.at_end and (position.still or not follower):
                session.rest(position)
            if extra is not None and extra.leader is not None:
                leaders.add(extra.leader[0])
            topics.setdefault(position.topic, []).append(row)
        if session.id:
            session.move_to_end(moved)
        else:
            self.left(session)
        endpoints = reader.endpoints(leaders) if leaders and self.terms.version >= _ENDPOINTS_SINCE else ()
        return _new(FetchAnswer, (session.id, topics, 0, endpoints, 0))

    def read_again(self, waiting: FetchWaiting, now: Now) -> FetchAnswer | None:
        """Something moved that this fetch reads: return its answer if there is enough for one."""
        session = waiting.session
        found, counts_for, urgent = self._read(session, session.marked, now)
        if urgent or counts_for >= self.least or waiting.is_outdated:
            return self._tell_all(waiting, found, now)
        return None

    def answer_now(self, waiting: FetchWaiting, now: Now) -> FetchAnswer:
        """Answer with what there is."""
        session = waiting.session
        return self._tell_all(waiting, self._read(session, session.marked, now)[0], now)

    def _tell_all(self, waiting: FetchWaiting, found: list[_Read], now: Now) -> FetchAnswer:
        """Tell what was found; of the other positions too, where the client is told of all."""
        session, epoch = waiting.session, waiting.epoch
        if waiting.is_outdated:
            return FetchAnswer(session.id, {}, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if epoch <= 0 and (len(session.positions) > 1 or not found):
            found = self._read(session, list(session.positions.values()), now)[0]
        return self._tell(session, epoch, found, now)

    def left(self, session: FetchSession) -> None:
        """Leave nothing of a session to the garbage collector that nobody goes on with."""
        if not session.id and session is not self._alone:
            session.end()

    def __repr__(self) -> str:
        return f"<Fetches {self.terms}>"


class FetchWaiting(Waiting):
    """A parked fetch.  Its session watches its partitions: for good, or until it is done."""

    __slots__ = ("_next_epoch", "epoch", "fetches", "session")

    def __init__(self, fetches: Fetches, session: FetchSession, epoch: int, now: Now) -> None:
        super().__init__(now.mono + fetches.terms.max_wait_ms / 1000.0)
        self.fetches = fetches
        self.session = session
        self.epoch = epoch
        """Of the session, in the request."""
        self._next_epoch = session.epoch

    def park(self, now: Now) -> bool:
        """Wait from now on; False when the purgatory is full."""
        if not self.fetches.broker.purgatory.add(self):
            return False
        session = self.session
        if not session.id:
            session.watch()
        session.parked, outdated = self, session.parked
        if outdated is not None:
            outdated.wake(now)
        return True

    @property
    def is_outdated(self) -> bool:
        """Return whether its session is over, or a later request took its place."""
        session = self.session
        return self.epoch > 0 and (session.ended or session.epoch != self._next_epoch)

    def wake(self, now: Now) -> None:
        """Something that it reads moved: read again, and answer if that is enough."""
        if not self.done and (answer := self.fetches.read_again(self, now)) is not None:
            self.complete(answer)

    def expired(self, now: Now) -> None:
        """Answer with what there is."""
        self.complete(self.fetches.answer_now(self, now))

    def release(self) -> None:
        session = self.session
        if session.parked is self:
            session.parked = None
        if not session.id:
            session.unwatch()
            self.fetches.left(session)
