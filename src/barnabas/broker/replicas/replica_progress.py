"""What a leader knows of its followers: only what their fetches say."""

from __future__ import annotations

from typing import Protocol

from barnabas.model import Now, Offset

__all__ = ["NEVER", "FetchTime", "ReplicaProgress"]

NEVER = float("-inf")
"""A time (mono s) before every other."""


class FetchTime(Protocol):
    """A follower's fetch session."""

    fetched_at: float
    """When it fetched last (mono s)."""


class ReplicaProgress:
    """How far a follower is: where its log ends, and when it last kept up (mono s).

    While nothing moves its fetches do not name the partition, and nobody looks at it.  But each of them still
    says that it is at the leader's end: it `rests`, and the time of its session's last fetch counts.
    """

    __slots__ = (
        "_caught_up_at",
        "_fetched_at",
        "_session",
        "broker_epoch",
        "leader_end_at_fetch",
        "log_end",
        "log_start",
    )

    def __init__(self, caught_up_at: float) -> None:
        self.log_end: Offset = -1
        self.log_start: Offset = -1
        self._fetched_at = NEVER
        self._caught_up_at = caught_up_at
        self._session: FetchTime | None = None
        self.leader_end_at_fetch: Offset = -1
        self.broker_epoch = -1

    @property
    def caught_up_at(self) -> float:
        """When it last had everything that the leader had (mono s)."""
        if self._session is None:
            return self._caught_up_at
        return max(self._caught_up_at, self._session.fetched_at)

    def rests(self, session: FetchTime) -> None:
        """It is at the leader's end, and each fetch of its session says so until something moves."""
        self._session = session

    def resumes(self, session: FetchTime) -> None:
        """Something moves that `session` would have to be told."""
        if self._session is session:
            self._session = None
            self._fetched_at = max(self._fetched_at, session.fetched_at)
            self._caught_up_at = max(self._caught_up_at, session.fetched_at)

    def fetched(self, offset: Offset, log_start: Offset, leader_end: Offset, now: Now, epoch: int) -> None:
        """It asked for `offset`: it holds everything below.

        Caught up now when that is the leader's end; caught up at its previous fetch when it is at least
        the end the leader had then (a busy partition is never exactly at its end).  One whose end moved back
        lost records: that it had them before counts for nothing.
        """
        if self._session is not None:
            self.resumes(self._session)  # that of an earlier connection
        if offset < self.log_end:
            self._caught_up_at = NEVER
        if offset >= leader_end:
            if now.mono > self._caught_up_at:
                self._caught_up_at = now.mono
        elif offset >= self.leader_end_at_fetch >= 0:
            self._caught_up_at = max(self._caught_up_at, self._fetched_at)
        self.log_end = offset
        self.log_start = log_start
        self._fetched_at = now.mono
        self.leader_end_at_fetch = leader_end
        self.broker_epoch = epoch

    def caught_up(self, leader_end: Offset, now: Now, max_lag: float) -> bool:
        return self.log_end == leader_end or now.mono - self.caught_up_at <= max_lag

    def __repr__(self) -> str:
        return f"<ReplicaProgress end={self.log_end}>"
