"""When the log of a partition is synced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model import Now

if TYPE_CHECKING:
    from barnabas.config import LogConfig
    from barnabas.log.files.sync import SyncJob
    from barnabas.log.log import Log

__all__ = ["NO_LIMIT", "SyncSchedule"]

NO_LIMIT = (1 << 63) - 1


class SyncSchedule:
    """The sync that is in flight, and whether the next one is due.  Times are monotonic seconds."""

    __slots__ = ("_flush_at", "_refused", "flush_now", "in_flight")

    def __init__(self) -> None:
        self.in_flight: SyncJob | None = None
        self._refused = False
        """The last one found no room."""
        self._flush_at: float | None = None
        self.flush_now = False
        """Something is to be synced although nobody waits for that."""

    def __repr__(self) -> str:
        return f"<SyncSchedule in_flight={self.in_flight} refused={self._refused}>"

    def restart(self) -> None:
        """The partition has another log now."""
        self.in_flight = None
        self._refused = False

    def due(self, log: Log) -> bool:
        """Whether a sync should begin now: never a second one while one is in flight."""
        if self.in_flight is not None or self._refused:
            return False
        # An empty log becomes durable with its first record: a thousand new partitions cost nothing.
        holds_records = log.log_start_offset < log.log_end_offset
        if not log.page_cache:
            return holds_records and log.needs_sync
        if log.unsynced.files or (holds_records and log.epochs.dirty) or self.flush_now:
            self.flush_now = False
            return log.needs_sync
        return False

    def began(self, job: SyncJob) -> None:
        """This one is in flight."""
        self.in_flight = job

    def returned(self, job: SyncJob) -> None:
        """It is not in flight any more."""
        if self.in_flight is job:
            self.in_flight = None

    def concluded(self, job: SyncJob) -> None:
        """Its log knows what became of it."""
        self._refused = job.refused is not None

    def try_again(self) -> bool:
        """There may be room by now; whether the last one found none."""
        refused, self._refused = self._refused, False
        return refused

    def hasten(self) -> None:
        """Sync what is written, although nobody waits for that."""
        self.flush_now = True

    def flush_if_old(self, log: Log, config: LogConfig, now: Now) -> bool:
        """Where acks do not wait for syncs, flush.ms still bounds how long records stay unsynced.

        Returns whether a sync is due because of that.
        """
        if config.flush_ms >= NO_LIMIT or not log.page_cache:
            return False
        if log.written_end_offset == log.durable_end_offset:
            self._flush_at = None
        elif self._flush_at is None:
            self._flush_at = now.mono + config.flush_ms / 1000.0
        elif now.mono >= self._flush_at:
            self._flush_at = None
            self.flush_now = True
            return True
        return False
