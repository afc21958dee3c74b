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
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import ErrorCode
from barnabas.model import Epoch, Now, Offset, Uuid
from barnabas.ports import Randomness

if TYPE_CHECKING:
    from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest

__all__ = ["FetchPlan", "FetchPosition", "FetchSession", "SessionCache", "SessionStatistics", "next_epoch"]

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


class FetchPosition:
    """One partition of a fetch: where the client reads, and what it was last told."""

    __slots__ = (
        "current_leader_epoch",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "replica_log_start",
        "topic",
    )

    def __init__(self, topic: TopicKey, index: int) -> None:
        self.topic = topic
        self.index = index
        self.offset: Offset = 0
        self.max_bytes = 0
        self.current_leader_epoch: Epoch = -1
        self.last_fetched_epoch: Epoch = -1
        self.replica_log_start: Offset = -1
        self.high_watermark: Offset = -1
        self.log_start: Offset = -1

    def ask(self, asked: FetchPartition) -> None:
        """Take over what the client asks now; what it was told stays."""
        self.offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.replica_log_start = asked.log_start_offset

    def __repr__(self) -> str:
        return f"<FetchPosition {self.topic}-{self.index} @{self.offset}>"


Positions = dict[tuple[TopicKey, int], FetchPosition]


class FetchSession:
    """What one client fetches.  `epoch` is the one its next request must carry."""

    __slots__ = ("by_id", "created", "epoch", "follower", "id", "positions", "used")

    def __init__(self, session_id: int, positions: Positions, by_id: bool, follower: bool, now: Now) -> None:
        self.id = session_id
        self.epoch = 1
        self.positions = positions
        self.by_id = by_id
        self.follower = follower
        self.created = now.mono
        self.used = now.mono

    @property
    def worth(self) -> tuple[bool, int]:
        return self.follower, len(self.positions)

    def update(self, request: FetchRequest) -> None:
        """Add and change what the request names, then remove what it forgets."""
        for topic in request.topics:
            key: TopicKey = topic.topic_id if self.by_id else topic.topic
            for asked in topic.partitions:
                position = self.positions.get((key, asked.partition))
                if position is None:
                    position = self.positions[key, asked.partition] = FetchPosition(key, asked.partition)
                position.ask(asked)
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if self.by_id else forgotten.topic
            for index in forgotten.partitions:
                self.positions.pop((key, index), None)

    def move_to_end(self, positions: Iterable[FetchPosition]) -> None:
        """Put these last: they got records, so the others come first next time."""
        for position in positions:
            key = (position.topic, position.index)
            if self.positions.pop(key, None) is not None:
                self.positions[key] = position

    def __repr__(self) -> str:
        kind = "follower" if self.follower else "consumer"
        return f"<FetchSession {self.id} {kind} epoch={self.epoch} partitions={len(self.positions)}>"


class FetchPlan(NamedTuple):
    """What one fetch request reads, worked out by `SessionCache.plan`.

    `error` answers the request as a whole.  `session` is the one an incremental request belongs to, with
    `epoch` what its epoch must still be when the answer leaves.  `create`: a new session is wanted.
    """

    error: ErrorCode
    positions: Positions
    session: FetchSession | None
    epoch: int
    create: bool


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
                self._sessions.pop(request.session_id, None)
            positions: Positions = {}
            for topic in request.topics:
                key: TopicKey = topic.topic_id if by_id else topic.topic
                for asked in topic.partitions:
                    position = positions[key, asked.partition] = FetchPosition(key, asked.partition)
                    position.ask(asked)
            create = request.session_epoch == 0
            return FetchPlan(ErrorCode.NONE, positions, None, 0, create)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchPlan(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, {}, None, 0, False)
        if session.epoch != request.session_epoch:
            return FetchPlan(ErrorCode.INVALID_FETCH_SESSION_EPOCH, {}, None, 0, False)
        if session.by_id != by_id:
            return FetchPlan(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, {}, None, 0, False)
        session.update(request)
        if not session.positions:
            del self._sessions[session.id]
            return FetchPlan(ErrorCode.NONE, {}, None, 0, False)
        if len(session.positions) > MOST_POSITIONS:
            del self._sessions[session.id]
            return FetchPlan(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, {}, None, 0, False)
        session.epoch = next_epoch(session.epoch)
        session.used = now.mono
        self._sessions[session.id] = self._sessions.pop(session.id)
        return FetchPlan(ErrorCode.NONE, session.positions, session, session.epoch, False)

    def create(self, positions: Positions, by_id: bool, follower: bool, now: Now) -> int:
        """Keep these positions as a new session; returns its id, or 0 when there is no slot for it."""
        if len(positions) > MOST_POSITIONS:
            return 0
        if len(self._sessions) >= self.slots and not self._evict((follower, len(positions)), now):
            return 0
        session_id = self._random.integer(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = self._random.integer(1, _LAST_EPOCH)
        self._sessions[session_id] = FetchSession(session_id, positions, by_id, follower, now)
        return session_id

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
        del self._sessions[victim.id]
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
