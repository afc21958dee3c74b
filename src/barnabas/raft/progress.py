"""What another replica's fetches tell the leader: how far it is, and which fetch still waits for an answer."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from barnabas.model import Now, Offset
from barnabas.raft.messages import FetchRequest

__all__ = ["WITHOUT_ROLE", "ParkedFetch", "Progress"]

WITHOUT_ROLE = "runs without the controller role (process.roles), so it cannot vote"
"""What is said of a replica that does not count for this reason."""


@dataclass(slots=True)
class Progress:
    """What the leader knows of one replica.

    `end_offset` None: it has not fetched in this epoch.  Times are monotonic seconds, None: never; the
    wall times (ms) are for DescribeQuorum.  A *round* is a stretch of replication that ends when the
    replica has everything the leader had when the round began; a voter-to-be must end a few of them in
    good time (`rounds`) before it is let in.  `can_vote`: its node has the controller role, as its last fetch
    said; `last_able`: when it was heard of last and had it.  `steady_since`: the autopilot has seen it keep up
    from then on; `looked_at`: when the autopilot looked at it first.
    """

    end_offset: Offset | None = None
    last_fetch: float | None = None
    last_fetch_ms: int = -1
    can_vote: bool = True
    last_able: float | None = None
    caught_up_ms: int = -1
    leader_end: Offset = -1
    acknowledged: bool = False
    round_end: Offset = -1
    round_began: float = 0.0
    rounds: int = 0
    steady_since: float | None = None
    looked_at: float = -inf

    def fetched(self, offset: Offset, leader_end: Offset, now: Now, round_limit: float) -> bool:
        """A valid fetch from `offset` came.  Whether it moved the end offset."""
        if offset >= leader_end:
            self.caught_up_ms = now.wall_ms
        elif offset >= self.leader_end >= 0 and self.last_fetch_ms >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        moved = self.end_offset != offset
        self.end_offset = offset
        self.heard(now)
        self.leader_end = leader_end
        self._count_round(offset, leader_end, now, round_limit)
        return moved

    def heard(self, now: Now) -> None:
        """Any request came that shows it is alive, not what it has."""
        self.last_fetch = now.mono
        self.last_fetch_ms = now.wall_ms
        if self.can_vote:
            self.last_able = now.mono
        self.leader_end = -1

    def _count_round(self, offset: Offset, leader_end: Offset, now: Now, limit: float) -> None:
        if self.round_end < 0:
            self.round_end, self.round_began = leader_end, now.mono
            if offset < leader_end:
                return
        if now.mono - self.round_began > limit and offset < self.round_end:
            self.rounds = 0  # too slow: it starts over
        if offset >= self.round_end:
            in_time = now.mono - self.round_began <= limit or offset >= leader_end
            self.rounds = self.rounds + 1 if in_time else 0
            self.round_end, self.round_began = leader_end, now.mono


@dataclass(slots=True)
class ParkedFetch:
    """A valid fetch that waits for something to say.  `seen` is the high watermark when it came."""

    token: object
    request: FetchRequest
    deadline: float
    seen: Offset
