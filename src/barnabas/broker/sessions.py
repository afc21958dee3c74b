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
from barnabas.model import Epoch, NodeId, Now, Offset, Uuid
from barnabas.ports import Randomness

if TYPE_CHECKING:
    from barnabas.broker.replicas.partition import Partition
    from barnabas.broker.replicas.replica_progress import ReplicaProgress
    from barnabas.broker.watching import ParkedFetch
    from barnabas.wire.schemas.fetch import FetchRequest

__all__ = [
    "Asker",
    "FetchPlan",
    "FetchPosition",
    "FetchSession",
    "SessionCache",
    "SessionStatistics",
    "TopicKey",
    "next_epoch",
]

EVICTABLE_AFTER = 120.0
"""Any session may be evicted after so many idle seconds; a less valuable one after living for so many seconds."""
MOST_POSITIONS = 100_000
"""A session holds at most so many partitions, whether they exist or not."""
TOPIC_IDS_SINCE = 13
_LAST_EPOCH = (1 << 31) - 1

TopicKey = str | Uuid
"""A topic as a fetch names it: by name below version 13, by id from there on."""


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

    `partition` is what it read from when somebody looked last.
    """

    __slots__ = (
        "_progress",
        "current_leader_epoch",
        "high_watermark",
        "index",
        "last_fetched_epoch",
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

    def __init__(self, session: FetchSession, topic: TopicKey, index: int) -> None:
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
        self.still = False
        """Whether the last look found nothing to say: a second such look lets it rest (`follower_fetch`)."""
        self._progress: ReplicaProgress | None = None
        """While a follower's position is at rest: what its leader knows of it."""

    def ask(
        self, leader_epoch: Epoch, offset: Offset, last_epoch: Epoch, log_start: Offset, max_bytes: int
    ) -> None:
        """Take over what the client asks now; what it was told stays, and there may be more to say."""
        self.offset = offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = leader_epoch
        self.last_fetched_epoch = last_epoch
        self.replica_log_start = log_start
        if self not in self.session._marked:
            self.session.note(self)

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
        return f"<FetchPosition {self.topic}-{self.index} @{self.offset}>"


Positions = dict[tuple[TopicKey, int], FetchPosition]


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

    def update(self, request: FetchRequest) -> None:
        """Add and change what the request names, then remove what it forgets."""
        positions = self.positions
        for topic in request.topics:
            key: TopicKey = topic.topic_id if self.by_id else topic.topic
            for asked in topic.partitions:
                position = self.position(key, asked.partition)
                position.ask(
                    asked.current_leader_epoch,
                    asked.fetch_offset,
                    asked.last_fetched_epoch,
                    asked.log_start_offset,
                    asked.partition_max_bytes,
                )
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if self.by_id else forgotten.topic
            for index in forgotten.partitions:
                gone = positions.pop((key, index), None)
                if gone is not None:
                    self.note(gone)
                    del self._marked[gone]
                    self.found(gone, None)

    def position(self, topic: TopicKey, index: int) -> FetchPosition:
        """Its position in a partition, behind the others if it has none yet."""
        position = self.positions.get((topic, index))
        if position is None:
            position = self.positions[topic, index] = FetchPosition(self, topic, index)
            self._last(position)
        return position

    def asked_by(self, asker: Asker, *, rack_aware: bool, now: Now) -> None:
        """A fetch of its client.  Another asker than before may read something else, everywhere."""
        if asker != self.asker:
            self.note_all()
            self.asker = asker
            self.follower = asker.replica >= 0
            if self.follower:
                self.looks_at = END | START | STATE | HIGH_WATERMARK
                self.wakes_for = self.looks_at if rack_aware else END | START | STATE
            else:
                self.wakes_for = HIGH_WATERMARK | START | STATE
                self.looks_at = self.wakes_for | (FOLLOWED if asker.rack else 0)
            if self._watching:
                self.watch()
        self.fetched_at = now.mono

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

    def end(self) -> None:
        """It is over: be told nothing any more, and leave nothing to the garbage collector."""
        self.ended = True
        if self._watching:
            self._watching = False
            for position in self.positions.values():
                if position.partition is not None:
                    position.partition.watchers.discard(position)
        self.positions.clear()
        self._marked.clear()

    def move_to_end(self, positions: Iterable[FetchPosition]) -> None:
        """Put these last: they got records, so the others come first next time."""
        for position in positions:
            self._places = position.place = self._places + 1

    def _last(self, position: FetchPosition) -> None:
        self._places += 1
        position.place = self._places

    def __repr__(self) -> str:
        kind = "follower" if self.follower else "consumer"
        return f"<FetchSession {self.id} {kind} epoch={self.epoch} partitions={len(self.positions)}>"


def _place(position: FetchPosition) -> int:
    return position.place


class FetchPlan(NamedTuple):
    """What one fetch request reads, worked out by `SessionCache.plan`.

    `error` answers the request as a whole.  `session` has its positions; an incremental request continues a
    session of the cache, with `epoch` what its epoch must still be when the answer leaves.  `create`: the
    session shall go on after this request.
    """

    error: ErrorCode
    session: FetchSession
    epoch: int
    create: bool

    @property
    def incremental(self) -> bool:
        return self.epoch > 0


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

    def plan(self, request: FetchRequest, version: int, now: Now) -> FetchPlan:
        """Work out what a request reads; an incremental one changes its session here."""
        by_id = version >= TOPIC_IDS_SINCE
        if request.session_epoch <= 0:
            if request.session_id:
                self._remove(request.session_id)
            single = FetchSession(by_id, now)
            single.update(request)
            return FetchPlan(ErrorCode.NONE, single, 0, request.session_epoch == 0)
        session = self._sessions.get(request.session_id)
        if session is None:
            return _nothing(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, by_id, now)
        if session.epoch != request.session_epoch:
            return _nothing(ErrorCode.INVALID_FETCH_SESSION_EPOCH, by_id, now)
        if session.by_id != by_id:
            return _nothing(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, by_id, now)
        session.update(request)
        if not session.positions:
            self._remove(session.id)
            return _nothing(ErrorCode.NONE, by_id, now)
        if len(session.positions) > MOST_POSITIONS:
            self._remove(session.id)
            return _nothing(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, by_id, now)
        self.go_on(session, now)
        return FetchPlan(ErrorCode.NONE, session, session.epoch, False)

    def go_on(self, session: FetchSession, now: Now) -> None:
        """The next fetch of a session in this cache came, with the epoch it must have."""
        session.epoch = next_epoch(session.epoch)
        session.used = now.mono
        self._sessions[session.id] = self._sessions.pop(session.id)

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


def _nothing(error: ErrorCode, by_id: bool, now: Now) -> FetchPlan:
    """A request that reads nothing."""
    return FetchPlan(error, FetchSession(by_id, now), 0, False)
