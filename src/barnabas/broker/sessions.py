"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only what changed.

    (session id, epoch)   the client wants
    (0, -1)               everything it names, no session (what versions below 7 always do)
    (0, 0), (id, 0)       everything it names, and a new session; an old one is dropped first
    (id, n > 0)           the partitions of the session, with these changes
    (id, -1)              the session closed, and everything it names

A session costs memory, so there is a fixed number of slots.  A newcomer takes the slot of a session that
idled for two minutes; else that of the least valuable one that may be evicted, if it is worth strictly
more itself: a follower is worth more than a consumer, then more partitions than fewer.  Who gets no slot is
answered session id 0 and fetches in full, which is only slower.  (Apache Kafka splits its slots into eight
shards for its threads; there is one thread here and one shard.)

A session watches its partitions (`watching`) and looks only at those that moved.  A position is at rest
when its client knows all there is to know of it: no error, no records, the high watermark and the log start
told.  For a follower's position at rest each fetch of the session counts as one from the leader's end, so that
its replica stays in sync however rarely it is named (`replica_progress`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.replicas.replica_progress import NEVER
from barnabas.broker.watching import END, FOLLOWED, HIGH_WATERMARK, START, STATE
from barnabas.errors import ErrorCode
from barnabas.model import Epoch, NodeId, Now, Offset
from barnabas.ports import Randomness

if TYPE_CHECKING:
    from barnabas.broker.replicas.partition import Partition
    from barnabas.broker.replicas.replica_progress import ReplicaProgress
    from barnabas.broker.watching import ParkedFetch
    from barnabas.wire.plane.fetch_asked import Asked, AskedRow, Terms

__all__ = [
    "Asker",
    "FetchPosition",
    "FetchSession",
    "SessionCache",
    "SessionStatistics",
    "next_epoch",
]

EVICTABLE_AFTER = 120.0
"""Any session may be evicted after so many idle seconds; a less valuable one after living for so many seconds."""
MOST_POSITIONS = 100_000
"""A session holds at most so many partitions, whether they exist or not."""
_LAST_EPOCH = (1 << 31) - 1


def next_epoch(epoch: int) -> int:
    """The session epoch after this one: 0 is never used again."""
    return 1 if epoch >= _LAST_EPOCH else epoch + 1


class Asker(NamedTuple):
    """Who fetches, and what besides the position decides what it is answered."""

    replica: NodeId
    """The follower; NO_NODE: a consumer."""
    epoch: int
    """The follower's broker epoch, -1 where it does not state it."""
    committed: bool
    """Whether it reads only committed transactions."""
    rack: str
    """The consumer's, where it counts."""
    generation: int
    """The broker's, where the answer depends on who else is there: a consumer with a rack."""
    rights: tuple[str, int] | None = None
    """Who it is and the generation of the ACLs, where an authorizer is on."""


_NOBODY = Asker(-2, -1, False, "", -1)


class FetchPosition:
    """One partition of a fetch: where the client reads, and what it was last told.

    `topic` is an id, or a name in UTF-8, as in a row; `partition` is what it reads from, which holds as long as
    the broker's generation is `located_in`.
    """

    __slots__ = (
        "_progress",
        "at_end",
        "current_leader_epoch",
        "doubted",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "located_in",
        "log_start",
        "max_bytes",
        "offset",
        "partition",
        "place",
        "replica_log_start",
        "session",
        "still",
        "topic",
    )

    def __init__(self, session: FetchSession, topic: bytes, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.place = 0
        """Its turn among those of its session."""
        self.offset: Offset = 0
        self.max_bytes = 0
        self.current_leader_epoch: Epoch = -1
        self.last_fetched_epoch: Epoch = -1
        self.replica_log_start: Offset = -1
        self.high_watermark: Offset = -1
        self.log_start: Offset = -1
        self.partition: Partition | None = None
        self.located_in = -1
        self.at_end = False
        """True if, once its client knows the offsets, there is nothing more to say until something moves."""
        self.still = True
        """True if the last look found no records: a follower's rests at the second such look in a row."""
        self.doubted = False
        """True if its follower reads again what it had before."""
        self._progress: ReplicaProgress | None = None
        """While a follower's position is at rest: what its leader knows of it."""

    def ask(self, row: AskedRow) -> None:
        """Take over what the client asks now; what it was told stays, and there may be more to say."""
        (
            _,
            _,
            self.current_leader_epoch,
            self.offset,
            self.last_fetched_epoch,
            self.replica_log_start,
            self.max_bytes,
        ) = row
        if self not in self.session._marked:
            self.session.note(self)

    def begin_anew(self) -> None:
        """Its client knows nothing (any more)."""
        self.high_watermark = self.log_start = -1
        self.still = True

    @property
    def watches_for(self) -> int:
        """What concerns its session."""
        return self.session.looks_at

    def moved(self, what: int) -> ParkedFetch | None:
        """This moved in its partition: look at it with the next fetch.  Returns the one to wake."""
        session = self.session
        if what & session.looks_at:
            if self not in session._marked:
                session.note(self)
            if what & session.wakes_for:
                return session.parked
        return None

    def resume(self) -> None:
        """It is at rest no longer."""
        if self._progress is not None:
            self._progress.resumes(self.session)
            self._progress = None

    def rest(self) -> None:
        """Its client knows everything."""
        session, partition = self.session, self.partition
        if partition is not None and (progress := partition.leading.progress.get(session.asker.replica)):
            self._progress = progress
            progress.rests(session)

    def __repr__(self) -> str:
        return f"<FetchPosition {self.topic!r}-{self.index} @{self.offset}>"


Positions = dict[tuple[bytes, int], FetchPosition]


class FetchSession:
    """What one client fetches.  `epoch` is the one its next request must carry.

    `id` is 0 while it is not in the cache: a request that belongs to no session has one of its own.
    """

    __slots__ = (
        "_marked",
        "_places",
        "_watching",
        "asker",
        "by_id",
        "created",
        "ended",
        "epoch",
        "fetched_at",
        "follower",
        "id",
        "looks_at",
        "parked",
        "positions",
        "used",
        "wakes_for",
    )

    def __init__(self, by_id: bool, now: Now) -> None:
        self.id = 0
        self.ended = False
        """Whether it left the cache."""
        self.epoch = 1
        self.positions: Positions = {}
        self.by_id = by_id
        self.asker = _NOBODY
        self.follower = False
        self.created = now.mono
        self.used = now.mono
        self.fetched_at = NEVER
        """When its client fetched last (mono s)."""
        self.looks_at = self.wakes_for = 0
        self.parked: ParkedFetch | None = None
        """Its fetch that waits."""
        self._marked: dict[FetchPosition, None] = {}
        self._places = 0
        self._watching = False

    @property
    def worth(self) -> tuple[bool, int]:
        return self.follower, len(self.positions)

    def update(self, asked: Asked) -> None:
        """Add and change what a request names, then remove what it forgets."""
        positions = self.positions
        for row in asked.rows:
            position = positions.get(row[:2])
            if position is None:
                position = self._position(row[0], row[1])
            position.ask(row)
        for place in asked.forgotten:
            gone = positions.pop(place, None)
            if gone is not None:
                self.note(gone)
                del self._marked[gone]
                self.found(gone, None)

    def _position(self, topic: bytes, index: int) -> FetchPosition:
        """Make a position, behind the others."""
        position = self.positions[topic, index] = FetchPosition(self, topic, index)
        self._places += 1
        position.place = self._places
        return position

    def asked_by(self, asker: Asker, *, rack_aware: bool) -> None:
        """This one asks from now on.  Another one than before may read something else, everywhere."""
        if asker != self.asker:
            self.note_all()
            for position in self.positions.values():
                position.located_in = -1  # (it may be something that this one may not read)
            self.follower = asker.replica >= 0
            if self.follower:
                self.looks_at = END | START | STATE | HIGH_WATERMARK
                self.wakes_for = self.looks_at if rack_aware else END | START | STATE
            else:
                self.wakes_for = HIGH_WATERMARK | START | STATE
                self.looks_at = self.wakes_for | (FOLLOWED if asker.rack else 0)
            if self._watching:
                self.watch()
        self.asker = asker

    # ---- what moved --------------------------------------------------------------------------------------

    @property
    def marked(self) -> list[FetchPosition]:
        """The positions of which there may be something to say, in the order of their turns."""
        marked = list(self._marked)
        if len(marked) > 1:
            marked.sort(key=_place)
        return marked

    def note(self, position: FetchPosition) -> None:
        """There may be something to say of it."""
        if position not in self._marked:
            self._marked[position] = None
            position.resume()

    def note_all(self) -> None:
        """There may be something to say of all of them."""
        for position in self.positions.values():
            self.note(position)

    def rest(self, position: FetchPosition) -> None:
        """There is nothing more to say of it until it moves."""
        if self._marked.pop(position, self) is None:
            position.rest()

    def found(self, position: FetchPosition, partition: Partition | None) -> None:
        """This is what it reads from now; None: nothing that is here."""
        before = position.partition
        if partition is not before:
            position.partition = partition
            if self._watching:
                if before is not None:
                    before.watchers.discard(position)
                if partition is not None:
                    partition.watchers.add(position)

    def watch(self) -> None:
        """From now on be told what moves."""
        self._watching = True
        for position in self.positions.values():
            if position.partition is not None:
                position.partition.watchers.add(position)

    def unwatch(self) -> None:
        """Be told nothing any more."""
        if self._watching:
            self._watching = False
            for position in self.positions.values():
                if position.partition is not None:
                    position.partition.watchers.discard(position)

    def end(self) -> None:
        """It is over: leave nothing to the garbage collector."""
        self.ended = True
        self.unwatch()
        self.positions.clear()
        self._marked.clear()

    def move_to_end(self, positions: Iterable[FetchPosition]) -> None:
        """Put these last: they got records, so the others come first next time."""
        for position in positions:
            self._places = position.place = self._places + 1

    def __repr__(self) -> str:
        kind = "follower" if self.follower else "consumer"
        return f"<FetchSession {self.id} {kind} epoch={self.epoch} partitions={len(self.positions)}>"


def _place(position: FetchPosition) -> int:
    return position.place


class SessionStatistics(NamedTuple):
    sessions: int
    partitions: int
    evictions: int


class SessionCache:
    """All fetch sessions of this node, in order of their last use."""

    __slots__ = ("_random", "_sessions", "evictions", "slots")

    def __init__(self, slots: int, random: Randomness) -> None:
        self.slots = slots
        self.evictions = 0
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def take(self, terms: Terms, asked: Asked, now: Now) -> FetchSession | ErrorCode:
        """Return the session of a request, with its positions changed; the error that answers the request, or NONE
        where it reads nothing (any more).

        One that belongs to no session, or begins one, gets a session that is not in the cache.
        """
        session_id, epoch = terms.session_id, asked.session_epoch
        if epoch <= 0:
            if session_id:
                self._remove(session_id)
            single = FetchSession(terms.by_id, now)
            single.update(asked)
            return single
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != terms.by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(asked)
        if not 0 < (count := len(session.positions)) <= MOST_POSITIONS:
            self._remove(session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND if count else ErrorCode.NONE
        session.epoch = next_epoch(epoch)
        session.used = now.mono
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def create(self, session: FetchSession, now: Now) -> int:
        """Keep the session of one request; returns its id, or 0 when there is no slot for it."""
        if len(session.positions) > MOST_POSITIONS:
            return 0
        if len(self._sessions) >= self.slots and not self._evict(session.worth, now):
            return 0
        session_id = self._random.integer(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = self._random.integer(1, _LAST_EPOCH)
        session.id = session_id
        session.created = session.used = now.mono
        session.watch()
        self._sessions[session_id] = session
        return session_id

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def _evict(self, worth: tuple[bool, int], now: Now) -> bool:
        """Free one slot for a newcomer of this worth, if the rules allow it."""
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now.mono - victim.used <= EVICTABLE_AFTER:
            follower = worth[0]
            evictable = [
                session
                for session in self._sessions.values()
                if now.mono - session.created > EVICTABLE_AFTER or (follower and not session.follower)
            ]
            if not evictable:
                return False
            victim = min(evictable, key=lambda session: (session.worth, session.id))
            if victim.worth >= worth:
                return False
        self._remove(victim.id)
        self.evictions += 1
        return True

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def __len__(self) -> int:
        return len(self._sessions)

    def statistics(self) -> SessionStatistics:
        partitions = sum(len(session.positions) for session in self._sessions.values())
        return SessionStatistics(len(self._sessions), partitions, self.evictions)

    def __repr__(self) -> str:
        return f"<SessionCache {len(self._sessions)} of {self.slots}>"
