"""A log whose directory has one file that is anything: it opens or is refused, and what is read is checked.

No record that a reader gets was not written, and the log can be appended to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress

from tests.fuzz.engine.target import Target
from tests.log.log_building import NOW, PATH, append, batch, contents, fill, later, marker, new_disk, open_log

from barnabas.errors import CorruptRecordError, KafkaError, StorageError
from barnabas.log.log import Log
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, check_crc, read_records

__all__ = ["TARGETS"]


_LATER = (NOW.wall_ms + 1000).to_bytes(8, "big")


def written() -> MemoryDisk:
    """A log of a few segments, with producers, transactions and epochs, closed cleanly."""
    disk = new_disk()
    log = open_log(disk)
    fill(log, 12, size=120)
    append(log, batch(b"in a transaction", producer=(7, 0, 0), transactional=True), 1)
    append(log, marker(False, 7, 0), 1)
    log.write()
    fill(log, 9, size=150, epoch=2, start=12)
    append(log, batch(b"of a producer", producer=(8, 1, 0), timestamp=NOW.wall_ms + 1), 3)
    log.write()
    log.sync()
    log.close(NOW)
    return disk


def files(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list(PATH) if not disk.is_directory(f"{PATH}/{name}")]


class _Door:
    def __init__(self) -> None:
        self.disk = written()
        self.names = [*files(self.disk), "barnabas-damage", "leader-epoch-checkpoint", "partition.metadata"]
        log = open_log(self.disk.clone(), clean=True)
        self.values = {value for _, value in contents(log)}

    def put(self, data: bytes) -> Hashable:
        if not data:
            return None
        name, clean = self.names[(data[0] >> 1) % len(self.names)], bool(data[0] & 1)
        disk = self.disk.clone()
        path = f"{PATH}/{name}"
        if disk.exists(path):
            disk.remove(path)
        disk.put(path, data[1:])
        log = open_log(disk, clean=clean)
        self._read(log, name)
        end = log.log_end_offset
        append(log, batch(b"afterwards"), 9, later(1))
        log.write()
        log.sync()
        return name, clean, end, len(log.segments)

    def _read(self, log: Log, name: str) -> None:
        """Only a segment's own bytes may hold records that we did not write."""
        found: set[bytes | None] = set()
        offset = log.log_start_offset
        with suppress(KafkaError, CorruptRecordError):
            while offset < log.written_end_offset and (
                data := log.read(offset, 300, log.written_end_offset).read()
            ):
                before = offset
                for position, header in batches(data):
                    if not check_crc(data, position, header):  # (as every consumer does)
                        return
                    if not header.is_control:
                        found |= {record.value for record in read_records(data, position, header)}
                    offset = max(offset, header.last_offset + 1)
                if offset == before:
                    break
        if not name.endswith(".log"):
            assert found <= self.values, f"records that nobody wrote come from {name}"


def _make() -> object:
    return _Door().put


def _seeds() -> Iterator[bytes]:
    door = _Door()
    for number, name in enumerate(door.names):
        path = f"{PATH}/{name}"
        content = door.disk.read(path) if door.disk.exists(path) else b"0 5 a bad sector\n"
        for clean in (0, 1):
            yield bytes((number << 1 | clean,)) + content
            if name.endswith(".log"):
                for at, _ in batches(
                    content
                ):  # (no CRC covers a base offset; after a clean stop none is asked)
                    yield bytes((number << 1 | clean,)) + content[:at] + b"\x00\x01" + content[at + 2 :]
                    far = content[:at] + b"\x00\x01" + content[at + 2 : at + 35] + _LATER
                    yield bytes((number << 1 | clean,)) + far + content[at + 43 :]


_WORDS = (
    b"\x00" * 8,
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x7f\xff\xff\xff",
    b"\n",
    b"0\n",
    b"-1",
    b"9223372036854775807 ",
    b"\x02",
)

TARGETS = [
    Target(
        "segments",
        "one file of a log's directory: segments, indexes, producers, epochs",
        _make,  # type: ignore[arg-type]
        (StorageError, CorruptRecordError, KafkaError),
        _seeds,
        _WORDS,
    )
]
