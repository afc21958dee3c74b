"""Reads every segment once in a while, so that rot is found while other replicas have the records.

First it reads what was read or written lately, or what somebody is in doubt about, as that is what readers meet.
Besides, a node reads all its segments in `barnabas.scrub.interval.ms`, evenly: in each second as many bytes as
that takes, at most `_MOST_BYTES`, small segments together.  After each piece it rests, so that it takes at most
1 % of a core, and a tenth of a disk's time.  Waiting for a thread counts for neither: a busy node finds rot too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.walk import Walk
from barnabas.config import Config
from barnabas.errors import CorruptRecordError, LostFileError, StorageError
from barnabas.log.epochs import EpochCache
from barnabas.log.reading import damaged_at
from barnabas.log.sealed import write_tables_again
from barnabas.log.segments.damage import DamagedError
from barnabas.log.segments.scan import batches_of, misfit
from barnabas.log.segments.table_check import TableCheck
from barnabas.model import NO_EPOCH, Now, Offset

if TYPE_CHECKING:
    from barnabas.log.directories.log_directories import LogDirectories
    from barnabas.log.log import Log
    from barnabas.log.segments.segment import Segment

__all__ = ["Part", "Scrub", "Scrubber"]

_LEAST_BYTES, _MOST_BYTES = 64 << 10, 4 << 20
_STEP_S = 1.0
_REST, _REST_OF_DISK = 99, 9
"""By how much a rest is longer than the CPU that the piece before took, and than its reading."""
_LOOK_AGAIN_S = 60.0
_LATELY_S = 10.0
"""Seconds between two looks for what was read or written lately."""
_SMALL_BYTES = 16 << 20
"""A segment of at most so many bytes is read as a whole when some of it was read or written."""
_SEGMENTS_PER_STEP = 200
_MOST_PARTS = 64
"""Small segments that are read at once."""


class Part:
    """The durable part of one segment, and how far it was read; `run` may be called in any thread."""

    __slots__ = (
        "compacted",
        "end",
        "epochs",
        "generation",
        "limit",
        "log",
        "lost",
        "offset",
        "position",
        "read",
        "reason",
        "segment",
        "size",
        "tables",
    )

    def __init__(self, log: Log, segment: Segment, position: int = 0, offset: Offset = -1) -> None:
        """It begins at a batch boundary: at `position`, where the batch of this base offset lies."""
        self.log = log
        self.segment = segment
        self.position = position
        self.offset: Offset = max(segment.base, offset)
        self.reason = ""
        """The fault of the batch at `offset`, "" while none was found."""
        self.epochs = EpochCache(log.epochs.entries())
        """The epochs that its batches have to be of: no CRC covers theirs."""
        self.lost: LostFileError | None = None
        """The error at opening it: its file is gone."""
        self.read = 0
        """Bytes that the last run has read."""
        self.end = min(segment.end_position, segment.durable)
        self.limit = min(segment.limit, log.written_end_offset)
        """The offset below which all its batches lie."""
        self.compacted = log.may_have_gaps(segment.base)
        self.generation = log.unsynced.generation
        self.size = _MOST_BYTES
        """Bytes to read in a run at least, up to the end of a batch."""
        self.tables: TableCheck | None = None
        """While it reads the segment from its beginning: the check of its index files."""

    @property
    def more(self) -> bool:
        """Return whether the segment has batches that were not read."""
        return not self.reason and self.position < self.end

    def run(self) -> None:
        """Read some and check.  A segment that cannot be opened for another reason than that it is gone is met by
        whoever reads it next.

        Raises StorageError where the disk cannot read.
        """
        if not self.position:
            self.tables = TableCheck(self.segment)
        try:
            file = self.log.disk.open(self.segment.path(".log"), read_only=True)
        except LostFileError as error:
            self.lost, self.position = error, self.end
            return
        except StorageError:
            self.position = self.end
            return
        begun, tables = self.position, self.tables
        try:
            for at, header, _ in batches_of(file, begun, self.end):
                known = self.epochs.epoch_at(header.base_offset)
                gap = at > 0 or self.compacted
                if wrong := misfit(header, self.offset, self.limit, NO_EPOCH, known, gap=gap):
                    self.reason = f"{file.path}: {wrong}"
                    break
                if tables is not None:
                    tables.meet(at, header)
                self.position, self.offset = at + header.size, header.last_offset + 1
                if self.position - begun >= self.size:
                    break
        except CorruptRecordError as error:
            self.reason = error.message
        finally:
            file.close()
        self.read = self.position - begun

    def __repr__(self) -> str:
        return f"<Part {self.segment.path('.log')} {self.position} of {self.end}>"


class Scrub:
    """The portion that a thread reads at once: a part of a segment, or several small ones of a directory."""

    __slots__ = ("cancelled", "cpu_s", "directory", "parts", "ran_s")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.directory = _directory(parts[0])
        self.cancelled = False
        self.cpu_s = self.ran_s = 0.0
        """The times that `run` took in the thread that called it."""

    def run(self) -> None:
        """Read and check.  Raises StorageError where the disk cannot read."""
        for part in self.parts:
            if not self.cancelled:
                part.run()

    @property
    def read(self) -> int:
        """Return the bytes that were read."""
        return sum(part.read for part in self.parts)

    def __repr__(self) -> str:
        return f"<Scrub {self.parts!r}>"


class _Lately:
    """The places that were read or written lately, or are in doubt: they are read first."""

    __slots__ = ("_ends", "_found", "_logs", "_look_at", "_walk")

    def __init__(self, logs: LogDirectories) -> None:
        self._logs = logs
        self._found: deque[Part] = deque()
        self._walk: Walk[Log] = Walk()
        self._look_at = 0.0
        self._ends: dict[Log, Offset] = {}

    def hasten(self, log: Log) -> None:
        """Read all of a log next."""
        self._found.extendleft(Part(log, segment) for segment in reversed(log.segments))

    def read_on(self, log: Log, segment: Segment, offset: Offset) -> None:
        """Read a segment next from this offset on, if it is found."""
        with suppress(CorruptRecordError):
            self._found.extendleft(_from(log, segment, offset))

    def next(self, now: Now) -> Scrub | None:
        """Return what to read next; None: there is nothing in the logs looked at."""
        self._look(now)
        parts: list[Part] = []
        left = _MOST_BYTES
        while self._found and left > 0 and len(parts) < _MOST_PARTS:
            part = self._found[0]
            if parts and _directory(part) != _directory(parts[0]):
                break
            self._found.popleft()
            if _is_there(part) and part.more:
                parts.append(part)
                left -= part.end - part.position
        return Scrub(parts) if parts else None

    def returned(self, part: Part) -> None:
        """Some of it was read."""
        if part.more:
            self._found.appendleft(part)

    def _look(self, now: Now) -> None:
        if not self._walk.running:
            if self._found or now.mono < self._look_at:
                return
            self._look_at = now.mono + _LATELY_S
            logs = list(self._logs.all_logs())
            begun, ends = bool(self._ends), self._ends
            # (what was there at the start is read when it is its turn)
            self._ends = {log: ends.get(log, 0) if begun else log.durable_end_offset for log in logs}
            self._walk.begin(logs)
        for log in self._walk.slice(_SEGMENTS_PER_STEP):
            end, reads = log.durable_end_offset, log.take_reads()
            if end != self._ends.get(log):
                reads.append(max(self._ends.get(log, 0), log.active.base))
                self._ends[log] = end
            if reads and log.failed is None:
                self._found += _read_there(log, sorted(reads))


class Scrubber:
    """Hands out pieces to read (`step`) and takes them back (`returned`).  Times are monotonic seconds."""

    __slots__ = (
        "_due",
        "_interval",
        "_lately",
        "_logs",
        "_on_damage",
        "_part",
        "_rested_at",
        "_round",
        "_route",
        "_total",
        "read_bytes",
        "rounds",
    )

    def __init__(
        self,
        config: Config,
        logs: LogDirectories,
        on_damage: Callable[[Log, DamagedError | LostFileError, Now], None],
    ) -> None:
        """`on_damage` hears of a log of which records cannot be read, or a file is gone."""
        self._logs = logs
        self._on_damage = on_damage
        self._lately = _Lately(logs)
        self._due = 0.0
        self._rested_at = 0.0
        self._part: Part | None = None
        """The part of the round to go on with."""
        self._round: Scrub | None = None
        self._route: Iterator[Part] = iter(())
        self._total = 0
        self.rounds = 0
        """Times that every segment was read."""
        self.read_bytes = 0
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the settings, now and whenever they change."""
        self._interval = config.int("barnabas.scrub.interval.ms") / 1000.0

    def hasten(self, log: Log) -> None:
        """Somebody met damage somewhere in a log: read all of it next."""
        self._lately.hasten(log)

    def step(self, now: Now) -> Scrub | None:
        """Return what a thread should read now; nothing while a piece is out or none is due."""
        if self._interval <= 0 or now.mono < self._rested_at:
            return None
        scrub: Scrub | None = None
        if now.mono >= self._due and (parts := self._of_round(now)):  # (also while much is read lately)
            self._due = inf
            scrub = self._round = Scrub(parts)
        scrub = scrub or self._lately.next(now)
        if scrub is not None:
            self._rested_at = inf
        return scrub

    def _of_round(self, now: Now) -> list[Part]:
        """Return what the round reads in this step, small segments together."""
        left = min(max(int(self._total * _STEP_S / self._interval), _LEAST_BYTES), _MOST_BYTES)
        parts: list[Part] = []
        while left > 0 and len(parts) < _MOST_PARTS:
            part = self._part
            if part is None or part in parts or not part.more or not _is_there(part):
                part = self._part = self._next(now, begun=bool(parts))
            if part is None or (parts and _directory(part) != _directory(parts[0])):
                break
            part.size = left
            left -= part.end - part.position
            parts.append(part)
        return parts

    def _next(self, now: Now, *, begun: bool) -> Part | None:
        """Return the next segment to read; None: there is none among those looked at, or the round is over, which
        counts once nothing of it is `begun`."""
        for _ in range(_SEGMENTS_PER_STEP):
            part = next(self._route, None)
            if part is None:
                if not begun:
                    self.rounds += self._total > 0
                    self._route = self._every_segment(now)
                    self._due = now.mono + min(_LOOK_AGAIN_S, self._interval)
                return None
            if _is_there(part):
                return part
        return None

    def _every_segment(self, now: Now) -> Iterator[Part]:
        """Return what is to be read in a round, which begins elsewhere after each start of the node."""
        logs = list(self._logs.all_logs())
        self._total = sum(log.size for log in logs)
        begin = now.wall_ms % max(1, len(logs))
        return (Part(log, segment) for log in logs[begin:] + logs[:begin] for segment in log.segments)

    def returned(self, scrub: Scrub, now: Now) -> None:
        """A thread has read it, or could not."""
        self._rested_at = now.mono + max(_STEP_S, _REST * scrub.cpu_s, _REST_OF_DISK * scrub.ran_s)
        self.read_bytes += scrub.read
        if scrub is self._round:
            self._round = None
            self._due = now.mono + max(_STEP_S, scrub.read * self._interval / max(self._total, 1))
        else:
            for part in scrub.parts:
                self._lately.returned(part)
        for part in scrub.parts:
            if not _is_there(part):
                continue
            if part.lost is not None:
                self._on_damage(part.log, part.lost, now)
            elif part.reason:
                part.tables = None  # (it may go on behind the damage)
                self._found(part, now)
            elif part.tables is not None:
                self._look_at_tables(part)

    def _look_at_tables(self, part: Part) -> None:
        """Make the index files again that say something else than the batches."""
        log, segment, tables = part.log, part.segment, part.tables
        assert tables is not None
        if not part.more and segment is not log.active and part.end == segment.end_position:
            tables.end()
        if tables.wrong:
            write_tables_again(log, segment, sorted(tables.wrong))
            part.tables = None

    def _found(self, part: Part, now: Now) -> None:
        """A batch is wrong: tell of it, unless it was deleted, and read on behind it."""
        log, segment, behind = part.log, part.segment, part.log.log_start_offset
        deleted = False
        if part.offset < behind:
            with suppress(CorruptRecordError):
                deleted = part.position < segment.locate(behind)
        if not deleted:
            error = damaged_at(log, max(part.offset, behind), part.reason)
            self._on_damage(log, error, now)
            behind = error.damage.end
        self._lately.read_on(log, segment, behind)

    def __repr__(self) -> str:
        return f"<Scrubber rounds={self.rounds} {self._part!r}>"


def _read_there(log: Log, offsets: list[Offset]) -> Iterator[Part]:
    """Yield what to read of a log of which these offsets were read or written, once for each segment.

    A large segment is read from the first of them on.
    """
    seen: set[Offset] = set()
    for offset in offsets:
        segment = log.segments[max(0, bisect_right(log.bases, offset) - 1)]
        if segment.base in seen or not segment.end_position:
            continue
        seen.add(segment.base)
        if segment.end_position > _SMALL_BYTES:
            with suppress(StorageError, CorruptRecordError):  # else from its beginning
                yield from _from(log, segment, offset)
                continue
        yield Part(log, segment)


def _from(log: Log, segment: Segment, offset: Offset) -> Iterator[Part]:
    """Yield what to read of a segment from the batch of `offset` on.  Raises CorruptRecordError, StorageError."""
    position = segment.locate(offset)
    for _, header in segment.headers(position):
        yield Part(log, segment, position, header.base_offset)
        break


def _directory(part: Part) -> str:
    return part.log.path.rpartition("/")[0]


def _is_there(part: Part) -> bool:
    """Return whether the log has what is to be read, and was not cut since the first piece was made."""
    log, segment = part.log, part.segment
    return (
        0 < part.end <= segment.end_position
        and log.failed is None
        and log.unsynced.generation == part.generation
        and segment in log.segments
    )
