"""What controllers hand to each other from their disks: log records, and pieces of snapshots.

Both directions check what they touch.  A leader reads its own records back with their CRC: a disk that
changed them stops this node, and the follower is never given them.  A follower checks again before it
appends, and installs a downloaded snapshot only when all of it can be read.
"""

from __future__ import annotations

from collections.abc import Generator

from barnabas.errors import CorruptRecordError, NewerReleaseError, StorageError, WireError
from barnabas.log.files import snapshot as files
from barnabas.log.files.snapshot import START_ANEW
from barnabas.log.log import Log
from barnabas.log.results import finished
from barnabas.ports import Buffer, Disk
from barnabas.raft.effects import InstallSnapshot, WriteSnapshot
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.raft.messages import ReadLog, ReadSnapshot
from barnabas.server.kraft.records import (
    SnapshotContent,
    decode_in_steps,
    named_end,
    of_another,
    read_snapshot,
)
from barnabas.wire.records import batches, check_crc

__all__ = [
    "InstallJob",
    "SnapshotDownload",
    "check_snapshot",
    "read_log",
    "read_piece",
    "take_batches",
    "take_in_steps",
]


MOST_READ_BYTES = 8 << 20
"""Bytes read for one answer, whatever was asked for: it is done on the loop."""


def read_log(log: Log, wanted: ReadLog) -> bytes:
    """The records a FetchResponse speaks of.  Raises StorageError (fatal) when the disk changed them."""
    data = log.read(wanted.offset, min(wanted.max_bytes, MOST_READ_BYTES), wanted.end).read()
    for position, header in batches(data):
        if not check_crc(data, position, header):
            raise StorageError(
                f"{log.path} holds a batch at offset {header.base_offset} whose CRC is wrong",
                directory=log.path,
                next_step=START_ANEW,
                fatal=True,
            )
    return data


def take_batches(data: Buffer) -> tuple[Batch, ...]:
    """The batches a leader sent, all at once; see `take_in_steps`."""
    return finished(take_in_steps(data))


def take_in_steps(data: Buffer) -> Generator[None, None, tuple[Batch, ...]]:
    """The batches a leader sent, a record at a time.

    Raises CorruptRecordError or WireError; nothing of it is taken then.
    """
    taken = []
    for position, header in batches(data):
        if not check_crc(data, position, header):
            raise CorruptRecordError(f"the leader sent offset {header.base_offset} with a wrong CRC")
        taken.append((yield from decode_in_steps(data, position, header)))
    return tuple(taken)


def read_piece(disk: Disk, path: str, wanted: ReadSnapshot) -> bytes:
    """A piece of a finished snapshot in the directory `path`.  Raises StorageError."""
    file = files.open_snapshot(disk, path, files.SnapshotId(*wanted.snapshot))
    try:
        return file.read_at(wanted.position, min(wanted.max_bytes, MOST_READ_BYTES))
    finally:
        file.close()


def check_snapshot(disk: Disk, path: str, at: SnapshotId) -> str:
    """Why a finished snapshot must not be given to anybody; "" when it is whole.  Raises StorageError.

    Every CRC, the header and the footer; for a thread, because it reads the whole file.
    """
    data = files.read_snapshot(disk, path, files.SnapshotId(*at))
    end, first, last = 0, None, None
    try:
        for position, header in batches(data):
            if not check_crc(data, position, header):
                return f"its batch at position {position} has a wrong CRC"
            first, last, end = first or header, header, position + header.size
    except CorruptRecordError as error:
        return error.message
    if first is None or last is None or not (first.is_control and last.is_control) or end != len(data):
        return "its header or its footer is missing"
    return of_another(named_end(data, first), at.end_offset)


class InstallJob:
    """Checks and freezes a downloaded snapshot; `run` once, in the disk thread."""

    __slots__ = ("_disk", "_writer", "content")

    def __init__(self, disk: Disk, writer: files.SnapshotWriter) -> None:
        self.content: SnapshotContent
        self._disk = disk
        self._writer = writer

    def run(self) -> None:
        """Raises CorruptRecordError when it is not whole, NewerReleaseError when we cannot know what it says.

        It is gone then.  Raises StorageError.
        """
        try:
            self.content = read_snapshot(self._disk.read(self._writer.part), self._writer.snapshot.end_offset)
        except NewerReleaseError:
            self._writer.abort()
            raise
        except (CorruptRecordError, WireError) as error:
            self._writer.abort()
            raise CorruptRecordError(error.message) from error
        self._writer.freeze()


class SnapshotDownload:
    """A snapshot on its way from the leader to the directory `path`."""

    __slots__ = ("_disk", "_path", "_writer")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._writer: files.SnapshotWriter | None = None

    def __repr__(self) -> str:
        return f"<SnapshotDownload {self._writer or 'idle'}>"

    def write(self, effect: WriteSnapshot) -> None:
        """Add a piece; position 0 begins the file anew.  Raises StorageError."""
        if effect.position == 0:
            if self._writer is not None:
                self._writer.abort()
            snapshot = files.SnapshotId(*effect.snapshot)
            self._writer = files.SnapshotWriter(self._disk, self._path, snapshot, mark="-download")
        writer, data = self._writer, effect.data
        if writer is None or writer.size != effect.position or tuple(writer.snapshot) != effect.snapshot:
            raise StorageError(f"a piece of {effect.snapshot} at {effect.position} does not fit {self!r}")
        assert isinstance(data, bytes | bytearray | memoryview)
        writer.append([data])

    def job(self, effect: InstallSnapshot) -> InstallJob:
        """What makes it a finished snapshot."""
        writer, self._writer = self._writer, None
        if writer is None or writer.size != effect.size or tuple(writer.snapshot) != effect.snapshot:
            raise StorageError(f"snapshot {effect.snapshot} has not arrived whole", directory=self._path)
        return InstallJob(self._disk, writer)
