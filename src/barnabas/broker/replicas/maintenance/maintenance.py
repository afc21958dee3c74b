"""The duties of a node to its logs besides serving them: retention, compaction, checkpoints, expiry, scrubbing.

Each duty has its own interval (Kafka's settings). `step` does one small piece: retention walks through a few
logs at a time, so that a node with many logs never holds its loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from barnabas.broker.replicas.maintenance.cleaner import Cleaner
from barnabas.broker.replicas.maintenance.scrubber import Scrub, Scrubber
from barnabas.config import Config
from barnabas.errors import LostFileError
from barnabas.log.directories.checkpoints import CheckpointJob
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.removal import Removal
from barnabas.log.log import Log
from barnabas.log.retention import Retention
from barnabas.log.segments.damage import DamagedError
from barnabas.model import Now

if TYPE_CHECKING:
    from barnabas.broker.ports import BrokerHost

__all__ = ["Maintenance"]

_LOGS_PER_STEP = 25
_TICKED_PER_STEP = 1000
_ROWS_PER_STEP = 2000
"""Logs that the duties of one step look at in all: with many logs each duty has a step of its own."""


class Maintenance:
    """The duties and when each is due next (monotonic seconds)."""

    __slots__ = (
        "_clock_agrees",
        "_due",
        "_host",
        "_logs",
        "_on_damage",
        "_on_retained",
        "_overdue",
        "_retaining",
        "_retention",
        "_stopped",
        "_ticking",
        "cleaner",
        "doing",
        "scrubber",
        "waiting",
    )

    def __init__(
        self,
        config: Config,
        logs: LogDirectories,
        host: BrokerHost,
        clock_agrees: Callable[[], bool],
        retention: Callable[[Log], Retention],
        on_retained: Callable[[Log], None],
        on_damage: Callable[[Log, DamagedError | LostFileError, Now], None],
    ) -> None:
        """`clock_agrees` says whether this node's clock may decide what is old, `retention` what this node may
        decide about a log; `on_retained` is called with each log of which retention deleted something, `on_damage`
        with each of which a duty found records that cannot be read, or a file gone."""
        self._logs = logs
        self._host = host
        self._clock_agrees = clock_agrees
        self._retention = retention
        self._on_retained = on_retained
        self._on_damage = on_damage
        self.scrubber = Scrubber(config, logs, on_damage)
        self.cleaner = Cleaner(config, logs, host, on_damage, self.scrubber.hasten)
        self.waiting: deque[Removal | CheckpointJob | Scrub] = deque()
        self._stopped = False
        self.doing: Removal | CheckpointJob | Scrub | None = None
        """What a thread does now: one thing at a time, syncs need the threads too."""
        self._retaining: Generator[tuple[Log, list[str]], None, None] | None = None
        self._ticking: Generator[Log, None, list[Removal]] | None = None
        self._overdue = False
        """A duty that is due waits for the next step."""
        self._due: dict[str, tuple[float, float, Callable[[Now], object]]] = {}
        self._add(
            "high watermarks",
            config.int("replica.high.watermark.checkpoint.interval.ms"),
            self._high_watermarks,
        )
        self._add(
            "recovery points", config.int("log.flush.offset.checkpoint.interval.ms"), self._recovery_points
        )
        self._add("retention", config.int("log.retention.check.interval.ms"), self._retain)
        self._add("deleted files", 1000, self._deleted)

    def _add(self, name: str, interval_ms: int, duty: Callable[[Now], object]) -> None:
        self._due[name] = (-1.0, interval_ms / 1000.0, duty)

    def _high_watermarks(self, now: Now) -> None:
        self.waiting.extend(self._logs.high_watermarks())

    def _recovery_points(self, now: Now) -> None:
        self.waiting.extend(self._logs.recovery_points())

    def _deleted(self, now: Now) -> None:
        if self._ticking is None:
            self._ticking = self._logs.tick_in_steps(now)

    def _tick(self) -> None:
        """Go on with what `_deleted` began."""
        ticking = self._ticking
        if ticking is None:
            return
        try:
            for _ in range(_TICKED_PER_STEP):
                log = next(ticking)
                if remade := log.take_remade():
                    self._host.index_remade(log, remade)
        except StopIteration as end:
            self._ticking = None
            self.waiting.extend(end.value)

    def next_job(self) -> Removal | CheckpointJob | Scrub | None:
        """Return what a thread should remove, write down or read now; call `done` when it has."""
        if self.doing is not None or not self.waiting or self._stopped:
            return None
        self.doing = self.waiting.popleft()
        return self.doing

    def done(self, job: Removal | CheckpointJob | Scrub, now: Now) -> None:
        """It is done, or could not be done."""
        if isinstance(job, Scrub):
            self.scrubber.returned(job, now)
        if self.doing is job:
            self.doing = None

    def stop(self) -> None:
        """The node stops: what is left to remove waits for its next start."""
        self._stopped = True
        self.cleaner.stop()
        if self.doing is not None:
            self.doing.cancelled = True

    def _retain(self, now: Now) -> None:
        if self._retaining is None:
            self._retaining = self._logs.retain_in_steps(now, self._retention, self._on_damage)

    def step(self, now: Now) -> None:
        """Do what is due.  A directory that fails meanwhile goes offline; that raises nothing."""
        self._overdue, rows = False, 0
        for name, (due, interval, duty) in self._due.items():
            if due < 0.0:
                self._due[name] = (now.mono + interval, interval, duty)
            elif now.mono >= due:
                if rows > _ROWS_PER_STEP:
                    self._overdue = True
                    break
                self._due[name] = (now.mono + interval, interval, duty)
                duty(now)
                rows += sum(len(directory.logs) for directory in self._logs.directories)
        self._tick()
        for _ in range(_LOGS_PER_STEP):
            if self._retaining is None:
                break
            done = next(self._retaining, None)
            if done is None:
                self._retaining = None
            elif done[1]:
                self._on_retained(done[0])
        if (scrub := self.scrubber.step(now)) is not None:
            self.waiting.append(scrub)
        if self._clock_agrees():  # else it would take tombstones away too early
            self.cleaner.step(now)

    @property
    def busy(self) -> bool:
        """Whether a walk is under way, so that the next step should not wait for long."""
        return (
            self._overdue or self._retaining is not None or self._ticking is not None or self.cleaner.looking
        )

    def __repr__(self) -> str:
        return f"<Maintenance busy={self.busy}>"
