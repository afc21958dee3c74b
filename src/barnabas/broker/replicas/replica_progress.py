"""What a leader knows of its followers: only what their fetches say."""

from __future__ import annotations

from barnabas.model import Now, Offset

__all__ = ["NEVER", "ReplicaProgress"]

NEVER = float("-inf")
"""A time (mono s) before every other."""


class ReplicaProgress:
    """How far a follower is: where its log ends, and when it last kept up (mono s)."""

    __slots__ = ("broker_epoch", "caught_up_at", "fetched_at", "leader_end_at_fetch", "log_end", "log_start")

    def __init__(self, caught_up_at: float) -> None:
        self.log_end: Offset = -1
        self.log_start: Offset = -1
        self.fetched_at = NEVER
        self.caught_up_at = caught_up_at
        self.leader_end_at_fetch: Offset = -1
        self.broker_epoch = -1

    def fetched(self, offset: Offset, log_start: Offset, leader_end: Offset, now: Now, epoch: int) -> None:
        """It asked for `offset`: it holds everything below.

        Caught up now when that is the leader's end; caught up at its previous fetch when it is at least
        the end the leader had then (a busy partition is never exactly at its end).
        """
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now.mono)
        elif offset >= self.leader_end_at_fetch >= 0:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.log_end = offset
        self.log_start = log_start
        self.fetched_at = now.mono
        self.leader_end_at_fetch = leader_end
        self.broker_epoch = epoch

    def caught_up(self, leader_end: Offset, now: Now, max_lag: float) -> bool:
        return self.log_end == leader_end or now.mono - self.caught_up_at <= max_lag

    def __repr__(self) -> str:
        return f"<ReplicaProgress end={self.log_end}>"
