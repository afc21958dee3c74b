"""Reads every segment once in a while, so that rot is found while other replicas have the records.

A node reads all its segments in `barnabas.scrub.interval.ms`, evenly: in each second as many bytes as that takes,
at most `_MOST_BYTES`.  After each piece it rests for at least 99 times as long as the piece took: 1 % of a core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING

from barnabas.config import Config
from barnabas.errors import CorruptRecordError, StorageError
from barnabas.log.reading import damaged_at
from barnabas.log.segments.damage import DamagedError
from barnabas.log.segments.scan import batches_of
from barnabas.model import Now, Offset

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.log.segments.segment import Segment
    from barnabas.log.storage.log_directories import LogDirectories

__all__ = ["Scrub", "Scrubber"]

_LEAST_BYTES, _MOST_BYTES = 64 << 10, 4 << 20
_STEP_S = 1.0
_REST = 99
_LOOK_AGAIN_S = 60.0
_SEGMENTS_PER_STEP = 200


class Scrub:
    """A piece of what is durable of one segment; `run` may be called in any thread, once."""

    __slots__ = (
        "cancelled",
        "end",
        "generation",
        "log",
        "offset",
        "position",
        "read",
        "reason",
        "segment",
        "size",
    )

    def __init__(self, log: Log, segment: Segment) -> None:
        self.log = log
        self.segment = segment
        self.position = 0
        self.offset: Offset = segment.base
        self.reason = ""
        """The fault of the batch at `offset`, "" while none was found."""
        self.read = 0
        """Bytes that the last run has read."""
        self.cancelled = False
        self.end = min(segment.end_position, segment.durable)
        self.generation = log.unsynced.generation
        self.size = 0
        """Bytes to read in a run at least, up to the end of a batch."""

    @property
    def directory(self) -> str:
        """Return the directory that the log lies in."""
        return self.log.path.rpartition("/")[0]

    @property
    def more(self) -> bool:
        """Return whether the segment has batches that were not read."""
        return not self.reason and self.position < self.end

    def run(self) -> None:
        """Read and check.  A segment that cannot be opened is gone, or is met by whoever reads it next.

        Raises StorageError where the disk cannot read.
        """
        try:
            file = self.log.disk.open(self.segment.path(".log"), read_only=True)
        except StorageError:
            self.position = self.end
            return
        begun = self.position
        try:
            for at, header, _ in batches_of(file, begun, self.end):
                if not self.offset <= header.base_offset <= header.last_offset < self.segment.limit:
                    self.reason = f"{file.path}: offset {header.base_offset} at {at} is no successor"
                    break
                self.position, self.offset = at + header.size, header.last_offset + 1
                if self.position - begun >= self.size or self.cancelled:
                    break
        except CorruptRecordError as error:
            self.reason = error.message
        finally:
            file.close()
        self.read = self.position - begun

    def __repr__(self) -> str:
        return f"<Scrub {self.segment.path('.log')} {self.position} of {self.end}>"


class Scrubber:
    """Hands out pieces to read (`step`) and takes them back (`returned`).  Times are monotonic seconds."""

    __slots__ = (
        "_due",
        "_handed_at",
        "_interval",
        "_logs",
        "_on_damage",
        "_route",
        "_scrub",
        "_total",
        "read_bytes",
        "rounds",
    )

    def __init__(
        self, config: Config, logs: LogDirectories, on_damage: Callable[[Log, DamagedError, Now], None]
    ) -> None:
        """`on_damage` hears of a log of which records cannot be read."""
        self._logs = logs
        self._on_damage = on_damage
        self._due = 0.0
        self._handed_at = 0.0
        self._scrub: Scrub | None = None
        self._route: Iterator[Scrub] = iter(())
        self._total = 0
        self.rounds = 0
        """Times that every segment was read."""
        self.read_bytes = 0
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the settings, now and whenever they change."""
        self._interval = config.int("barnabas.scrub.interval.ms") / 1000.0

    def step(self, now: Now) -> Scrub | None:
        """Return what a thread should read now; nothing while a piece is out or none is due."""
        if self._interval <= 0 or now.mono < self._due:
            return None
        scrub = self._scrub
        if scrub is None or not scrub.more or not _is_there(scrub):
            scrub = self._scrub = self._next(now)
        if scrub is None:
            return None
        scrub.size = min(max(int(self._total * _STEP_S / self._interval), _LEAST_BYTES), _MOST_BYTES)
        self._handed_at, self._due = now.mono, inf
        return scrub

    def _next(self, now: Now) -> Scrub | None:
        """Return the next segment to read; None: there is none among those looked at, or the round is over."""
        for _ in range(_SEGMENTS_PER_STEP):
            scrub = next(self._route, None)
            if scrub is None:
                self.rounds += self._total > 0
                self._route = self._every_segment(now)
                self._due = now.mono + min(_LOOK_AGAIN_S, self._interval)
                return None
            if _is_there(scrub):
                return scrub
        return None

    def _every_segment(self, now: Now) -> Iterator[Scrub]:
        """Return what is to be read in a round, which begins elsewhere after each start of the node."""
        logs = list(self._logs.all_logs())
        self._total = sum(log.size for log in logs)
        begin = now.wall_ms % max(1, len(logs))
        return (Scrub(log, segment) for log in logs[begin:] + logs[:begin] for segment in log.segments)

    def returned(self, scrub: Scrub, now: Now) -> None:
        """A piece was read, or could not be."""
        pause = max(_STEP_S, scrub.read * self._interval / max(self._total, 1))
        self._due = now.mono + max(pause, _REST * (now.mono - self._handed_at))
        self.read_bytes += scrub.read
        if scrub.reason and _is_there(scrub):
            self._on_damage(scrub.log, damaged_at(scrub.log, scrub.offset, scrub.reason), now)

    def __repr__(self) -> str:
        return f"<Scrubber rounds={self.rounds} {self._scrub!r}>"


def _is_there(scrub: Scrub) -> bool:
    """Return whether the log has what is to be read, and was not cut since the first piece was made."""
    log, segment = scrub.log, scrub.segment
    return (
        0 < scrub.end <= segment.end_position
        and log.failed is None
        and log.unsynced.generation == scrub.generation
        and segment in log.segments
    )
