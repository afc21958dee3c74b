"""The schedule of compaction: one log after the other, in the background, at a bounded rate.

From time to time (`log.cleaner.backoff.ms`) the cleaner checks the compacted logs, a few per step, and picks
the one with the largest uncompacted part.  The round runs in a thread, in pieces of a few milliseconds.  After
each piece the thread pauses for as long as the piece took, or for as long as
`log.cleaner.io.max.bytes.per.second` requires.  So compaction takes at most half of one core from clients
that wait for an answer.

The cleaner skips a log that it cannot compact (its files are damaged) until the log was cut, to be fetched again,
or the node starts again.  The scrubber reads such a log next, to find where it is damaged.  If the disk is full,
the cleaner tries again after a minute.  In both cases other logs are compacted, and the log itself is written and
read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.walk import Walk
from barnabas.config import Config
from barnabas.errors import BarnabasError, LostFileError, StorageError
from barnabas.log.cleaning.compaction import Compaction, CompactionStatistics
from barnabas.log.cleaning.dirty_range import DirtyRange, find_dirty_range
from barnabas.model import Now

if TYPE_CHECKING:
    from barnabas.broker.ports import BrokerHost
    from barnabas.log.directories.log_directories import LogDirectories
    from barnabas.log.log import Log

__all__ = ["Cleaner", "CleanerStatistics"]

_LOGS_PER_STEP = 50
_FULL_DISK_PAUSE_S = 60.0
"""Seconds until the cleaner tries a log again after its disk was full."""


class CleanerStatistics(NamedTuple):
    """Bytes and rounds since the start; seconds; parts of one."""

    rounds: int
    read_bytes: int
    written_bytes: int
    set_aside: int
    dirtiest: float
    overdue_seconds: float
    last_seconds: float
    last_utilization: float
    idle_seconds: float


class Cleaner:
    """Chooses, hands out pieces (`next_piece`) and takes them back (`returned`).  Times are mono seconds."""

    __slots__ = (
        "_aside",
        "_begun",
        "_best",
        "_done",
        "_enabled",
        "_handed",
        "_host",
        "_last",
        "_log",
        "_logs",
        "_look_at",
        "_on_lost",
        "_on_unreadable",
        "_pause",
        "_rate",
        "_resting",
        "_resume_at",
        "_room",
        "_seen",
        "_stopped",
        "_walk",
        "_worst",
        "rounds",
        "running",
    )

    def __init__(
        self,
        config: Config,
        logs: LogDirectories,
        host: BrokerHost,
        on_lost: Callable[[Log, LostFileError, Now], None],
        on_unreadable: Callable[[Log], None],
    ) -> None:
        """`on_lost` hears of a log of which a file is gone, `on_unreadable` of one that cannot be compacted."""
        self._logs = logs
        self._host = host
        self._on_lost = on_lost
        self._on_unreadable = on_unreadable
        self.running: Compaction | None = None
        """The round that is under way."""
        self._log: Log
        """The log of that round."""
        self.rounds = 0
        self._stopped = False
        self._walk: Walk[Log] = Walk()
        self._best: tuple[float, DirtyRange, Log] | None = None
        self._seen = [0.0, 0]
        self._worst = (0.0, 0)
        self._look_at = 0.0
        self._resume_at = inf
        self._handed: tuple[float, int] | None = None
        self._begun = self._done = 0.0
        self._last: tuple[float, CompactionStatistics] | None = None
        self._aside: dict[Log, tuple[BarnabasError, int]] = {}
        """Logs that are left as they are: why, and which generation of them."""
        self._resting: dict[Log, float] = {}
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the settings, now and whenever they change; a round that runs keeps its memory."""
        self._enabled = config.bool("log.cleaner.enable") and config.int("log.cleaner.threads") > 0
        self._pause = config.int("log.cleaner.backoff.ms") / 1000.0
        self._rate = config.float("log.cleaner.io.max.bytes.per.second")
        buffer = config.int("log.cleaner.dedupe.buffer.size")
        self._room = int(buffer * config.float("log.cleaner.io.buffer.load.factor"))

    # ---- choosing ----------------------------------------------------------------------------------------

    @property
    def looking(self) -> bool:
        """Whether a look at all logs is under way, so that the next step should not wait for long."""
        return self._walk.running

    def step(self, now: Now) -> None:
        """Look at some logs; begin a round when one is due.  A directory that fails goes offline."""
        if not self._enabled or self._stopped or self.running is not None:
            return
        if not self._walk.running:
            if now.mono < self._look_at:
                return
            self._best, self._seen = None, [0.0, 0]
            self._walk.begin(self._logs.all_logs())
        for log in self._walk.slice(_LOGS_PER_STEP):
            if log.config.compact and log.failed is None and not self._is_left_out(log, now):
                self._consider(log, now)
        if not self._walk.running:
            self._decide(now)

    def _is_left_out(self, log: Log, now: Now) -> bool:
        if log in self._aside or self._logs.is_moving(log):
            return True
        until = self._resting.get(log)
        if until is not None and until <= now.mono:
            del self._resting[log]
            until = None
        return until is not None

    def _consider(self, log: Log, now: Now) -> None:
        try:
            part = find_dirty_range(log, now)
        except BarnabasError as error:
            self._failed(log, error, now)
            return
        self._seen[0] = max(self._seen[0], part.ratio)
        self._seen[1] = max(self._seen[1], part.overdue_ms)
        if part.due(log) and (self._best is None or part.ratio > self._best[0]):
            self._best = part.ratio, part, log

    def _decide(self, now: Now) -> None:
        self._worst = self._seen[0], int(self._seen[1])
        best, self._best = self._best, None
        self._aside = {
            log: left
            for log, left in self._aside.items()
            if log.failed is None and log.unsynced.generation == left[1]
        }
        self._resting = {log: until for log, until in self._resting.items() if log.failed is None}
        if best is None:
            self._look_at = now.mono + self._pause
            return
        _, _, log = best
        try:
            part = find_dirty_range(log, now)  # the look took a while
            if log.failed is None and part.due(log):
                self.running, self._log = Compaction(log, part, now, memory=self._room), log
        except BarnabasError as error:
            self._failed(log, error, now)
        self._begun = self._resume_at = now.mono

    def _failed(self, log: Log, error: BarnabasError, now: Now) -> None:
        """A look at a log failed."""
        if isinstance(error, StorageError) and not isinstance(error, LostFileError):
            self._logs.fail(log, error)
        else:
            self._set_aside(log, error, now)

    def _set_aside(self, log: Log, error: BarnabasError, now: Now) -> None:
        if isinstance(error, StorageError) and not isinstance(error, LostFileError):
            self._resting[log] = now.mono + _FULL_DISK_PAUSE_S
        else:
            self._aside[log] = error, log.unsynced.generation
            if isinstance(error, LostFileError):
                self._on_lost(log, error, now)
            else:
                self._on_unreadable(log)
        self._host.not_compacted(log.topic_partition, error)

    # ---- running -----------------------------------------------------------------------------------------

    def next_piece(self, now: Now) -> Compaction | None:
        """What a thread should `run` now; `returned` when it has."""
        cleaning = self.running
        if cleaning is None or self._handed is not None or self._stopped or now.mono < self._resume_at:
            return None
        self._handed = now.mono, cleaning.read_bytes + cleaning.written_bytes
        return cleaning

    def next_deadline(self) -> float | None:
        """When `next_piece` has something without anything else happening."""
        waits = self.running is not None and self._handed is None and not self._stopped
        return self._resume_at if waits else None

    def returned(self, cleaning: Compaction, error: StorageError | None, now: Now) -> None:
        """A piece came back; `error`: the disk failed.  Its directory goes offline then."""
        handed, self._handed = self._handed, None
        if cleaning is not self.running or handed is None:
            return
        if error is None and cleaning.ready and not cleaning.cancelled:
            try:
                cleaning.install(now)
            except StorageError as failed:
                error = failed
        if error is not None:
            self._logs.fail(self._log, error)
            cleaning.cancel()
            self._over(cleaning, now)
        elif cleaning.finished:
            self._over(cleaning, now)
        else:
            begun, before = handed
            worked = cleaning.read_bytes + cleaning.written_bytes - before
            self._resume_at = max(now.mono + (now.mono - begun), begun + worked / self._rate)

    def _over(self, cleaning: Compaction, now: Now) -> None:
        self.running = None
        self._look_at = now.mono
        if cleaning.conclude():
            self.rounds += 1
            self._done = now.mono
            self._last = now.mono - self._begun, cleaning.statistics()
            self._logs.checkpoint_compacted(self._log)
            self._host.compacted(self._log.topic_partition, cleaning.statistics(), now.mono - self._begun)
        elif cleaning.failure is not None and not cleaning.cancelled:
            self._set_aside(self._log, cleaning.failure, now)

    def stop(self) -> None:
        """The node stops: cancel the round; its leftovers do not disturb the next start."""
        self._stopped = True
        if self.running is not None:
            self.running.cancel()

    # ---- views -------------------------------------------------------------------------------------------

    def set_aside(self) -> dict[Log, BarnabasError]:
        """The logs that are not compacted any more, and why."""
        return {log: error for log, (error, _) in self._aside.items()}

    def statistics(self, now: Now) -> CleanerStatistics:
        seconds, last = self._last or (0.0, None)
        return CleanerStatistics(
            self.rounds,
            last.read_bytes if last else 0,
            last.written_bytes if last else 0,
            len(self._aside),
            self._worst[0],
            self._worst[1] / 1000.0,
            seconds,
            last.utilization if last else 0.0,
            now.mono - self._done,
        )

    def __repr__(self) -> str:
        return f"<Cleaner rounds={self.rounds} running={self.running!r} aside={len(self._aside)}>"
