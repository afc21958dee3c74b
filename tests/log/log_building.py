"""What the tests of the log room build: batches, logs on a disk in memory, and what lies in them."""

from __future__ import annotations

from barnabas.config import NO_FLUSH, LogConfig
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.removal import Removal
from barnabas.log.log import Log
from barnabas.log.results import Appended
from barnabas.model import Now, Uuid
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.control import ControlType, write_control
from barnabas.wire.records import Record, batches, read_batch_header, read_records, write_batch
from barnabas.wire.schemas.control_records import EndTxnMarker

NOW = Now(1000.0, 1_760_000_000_000)
PATH = "/data/events-0"
PAGE_CACHE = NO_FLUSH


class Chance:
    """Randomness that counts."""

    def __init__(self) -> None:
        self.made = 0

    def uuid(self) -> Uuid:
        self.made += 1
        return Uuid.of(77, self.made)

    def uniform(self, low: float, high: float) -> float:
        return low

    def integer(self, low: int, high: int) -> int:
        return low


def later(ms: int) -> Now:
    return Now(NOW.mono + ms / 1000, NOW.wall_ms + ms)


def small(**changes: object) -> LogConfig:
    """Settings with segments of 1000 bytes and an index row every 200."""
    settings = {"segment_bytes": 1000, "index_interval_bytes": 200, "retention_ms": -1, **changes}
    return LogConfig(**settings)  # type: ignore[arg-type]


def batch(
    *values: bytes,
    timestamp: int = NOW.wall_ms,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    base_offset: int = 0,
    epoch: int = -1,
) -> bytearray:
    """A batch of records with these values; `producer` is (id, epoch, base sequence)."""
    records = [
        Record(base_offset + i, timestamp + i, b"k%d" % i, value, ()) for i, value in enumerate(values)
    ]
    producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
    return write_batch(
        records,
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    timestamp: int = NOW.wall_ms,
) -> bytearray:
    """A batch that ends a transaction."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    key, value = write_control(kind, EndTxnMarker(coordinator_epoch=coordinator_epoch))
    return write_batch(
        [Record(0, timestamp, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def append(log: Log, data: bytearray, epoch: int = 0, now: Now = NOW) -> Appended:
    return log.append_as_leader(memoryview(data), read_batch_header(data), epoch, now)


def fill(
    log: Log, count: int, *, size: int = 80, epoch: int = 0, sync: bool = True, start: int = 0
) -> list[bytes]:
    """Append `count` batches of one record; returns the values."""
    values = [b"%d:" % (start + i) + b"x" * size for i in range(count)]
    for value in values:
        append(log, batch(value), epoch)
        log.write()
    if sync:
        log.sync()
    return values


def new_disk(seed: int = 0) -> MemoryDisk:
    disk = MemoryDisk(seed, wall_ms=NOW.wall_ms)
    disk.make_directories("/data")
    disk.sync_directory("/")
    return disk


def open_log(
    disk: MemoryDisk, config: LogConfig | None = None, *, clean: bool = False, **more: object
) -> Log:
    return Log.open(disk, PATH, config or small(), clean=clean, now=NOW, **more)  # type: ignore[arg-type]


def contents(log: Log, start: int | None = None) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record from `start` (default: log start) on, read as a fetch reads."""
    offset = log.log_start_offset if start is None else start
    found: list[tuple[int, bytes | None]] = []
    while offset < log.written_end_offset:
        data = log.read(offset, 300, log.written_end_offset).read()
        assert data, f"nothing at {offset} of {log!r}"
        for position, header in batches(data):
            for record in read_records(data, position, header):
                if record.offset >= offset and not header.is_control:
                    found.append((record.offset, record.value))
            end = header.last_offset + 1
        assert end > offset
        offset = end
    return found


def values_of(log: Log) -> list[bytes | None]:
    return [value for _, value in contents(log)]


def tick(what: Log | LogDirectories, now: Now) -> None:
    """`tick`, and what it gives out is removed."""
    if isinstance(what, Log):
        Removal(what.disk, what.path, what.tick(now)).run()
    else:
        for removal in what.tick(now):
            removal.run()
