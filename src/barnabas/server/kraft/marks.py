"""Marks beside the metadata log: lower bounds of what this directory must still hold.

A log alone cannot tell a write that a crash tore from records that a disk lost: both look like a bad end.

`recovery-point.json` says from time to time: everything below this offset was durable here *and* committed, and
the record before it has this epoch.  The node refuses a log that ends below this offset, or is damaged below it;
otherwise it would forget what it acknowledged, and vote.  Only what is committed counts, because that is never
undone.  So no truncation can make the recovery point too high, not even one by an Apache Kafka node that ran on
the directory meanwhile and does not know the file.  The file may be old; then it protects less.  It is not part
of any append: one small file every few seconds.

`barnabas-synced-end` says after each sync, before anybody hears of it, where the log ended, and after each vote in
which epoch it was.  A log that ends before that lost entries that this voter may have acknowledged; a
`quorum-state` that is older forgot a vote (`raft.log_view`, `raft.election`).  A row of it is written without a
sync of its own: a kill of the process leaves it in the page cache.  A power cut may take the newest rows, and
then the file protects less; never does it claim what was not synced, because a row that goes back, where a leader
has the log cut, is synced before the cut.  The newest row whose checksum is right counts.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.errors import StorageError
from barnabas.log.files.snapshot import START_ANEW
from barnabas.model import Epoch, Offset
from barnabas.ports import Disk, DiskFile
from barnabas.raft.entries import SyncedEnd

__all__ = [
    "NO_POINT",
    "NO_ROW",
    "POINT_EVERY_S",
    "RECOVERY_POINT",
    "SYNCED_END",
    "RecoveryPoint",
    "SyncedEndFile",
    "SyncedRow",
    "read_point",
    "read_synced_end",
    "write_point",
]

RECOVERY_POINT: Final = "recovery-point.json"
POINT_EVERY_S: Final = 5.0
"""Seconds between two writes of the file, at least."""


class RecoveryPoint(NamedTuple):
    """Everything below `offset` is durable and committed; `epoch` is that of the record before it."""

    offset: Offset
    epoch: Epoch

    @property
    def checksum(self) -> int:
        return int(crc32c(b"%d %d" % self))


NO_POINT: Final = RecoveryPoint(0, 0)


def read_point(disk: Disk, directory: str) -> RecoveryPoint:
    """What the file says, NO_POINT where there is none (a new directory, or one of Apache Kafka).

    Raises StorageError (fatal) when it is senseless: it is replaced atomically, so the disk changed it.
    """
    path = f"{directory}/{RECOVERY_POINT}"
    if not disk.exists(path):
        return NO_POINT
    try:
        content = json.loads(disk.read(path))
        if content["version"] != 0:
            raise ValueError(f"version {content['version']} is not known")
        point = RecoveryPoint(int(content["offset"]), int(content["epoch"]))
        if content["checksum"] != point.checksum:
            raise ValueError("its checksum is wrong")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StorageError(
            f"{path} is senseless: {error}",
            directory=directory,
            next_step=START_ANEW,
            fatal=True,
        ) from error
    return point


def write_point(disk: Disk, directory: str, point: RecoveryPoint) -> None:
    """Replace the file, atomically and durably.  Raises StorageError."""
    content = {"version": 0, "offset": point.offset, "epoch": point.epoch, "checksum": point.checksum}
    disk.replace(f"{directory}/{RECOVERY_POINT}", json.dumps(content, separators=(",", ":")).encode())


SYNCED_END: Final = "barnabas-synced-end"
_ROW: Final = Struct(">qiiiI")
"""End offset, its epoch, voters there, the newest epoch with a vote; CRC-32C of the other bytes."""
_MOST_BYTES: Final = 4096 * _ROW.size
"""The file begins anew with its newest row when it is as long as this."""


class SyncedRow(NamedTuple):
    """Where the log ended when it was synced, and the newest epoch in which this voter voted."""

    end: SyncedEnd
    voted: Epoch

    def encoded(self) -> bytes:
        row = _ROW.pack(self.end.end_offset, self.end.epoch, self.end.voters, self.voted, 0)[:-4]
        return row + int(crc32c(row)).to_bytes(4, "big")


NO_ROW: Final = SyncedRow(SyncedEnd(), 0)


def read_synced_end(disk: Disk, directory: str) -> SyncedRow | None:
    """The newest row; NO_ROW without a file, None where the file has no row that can be read.

    Raises StorageError.
    """
    path = f"{directory}/{SYNCED_END}"
    if not disk.exists(path):
        return NO_ROW
    content = disk.read(path)
    for place in reversed(range(0, len(content) - _ROW.size + 1, _ROW.size)):
        offset, epoch, voters, voted, checksum = _ROW.unpack_from(content, place)
        if checksum == crc32c(content[place : place + _ROW.size - 4]):
            return SyncedRow(SyncedEnd(epoch, offset, voters), voted)
    return None


class SyncedEndFile:
    """The file.  `begin` it with the row that is right when the store opens."""

    __slots__ = ("_disk", "_file", "_path", "row")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{SYNCED_END}"
        self._file: DiskFile | None = None
        self.row = NO_ROW

    def __repr__(self) -> str:
        return f"<SyncedEndFile {self.row}>"

    def begin(self, row: SyncedRow) -> None:
        """Begin the file with this row, durably; without room those that are there stay.  Raises StorageError."""
        try:
            self._disk.replace(self._path, row.encoded())
        except StorageError as error:
            if not error.full:
                raise
        self.row = row

    def synced(self, end: SyncedEnd) -> None:
        """The log is synced up to there.  Raises StorageError."""
        self._write(self.row._replace(end=end))

    def voted(self, epoch: Epoch) -> None:
        """This node voted in that epoch.  Raises StorageError."""
        self._write(self.row._replace(voted=max(epoch, self.row.voted)))

    def cut(self, end: SyncedEnd) -> None:
        """The log is going to be cut there, rightfully: say so durably.  Raises StorageError."""
        if end != self.row.end:
            self._write(self.row._replace(end=end), durable=True)

    def close(self) -> None:
        """Make the newest row durable, and close the file.  Raises StorageError."""
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None

    def _write(self, row: SyncedRow, *, durable: bool = False) -> None:
        if row == self.row:
            return
        try:
            file = self._file or self._disk.open(self._path, create=True)
            if file.size() >= _MOST_BYTES:
                file = self._short_file(file)
            self._file = file
            file.append([row.encoded()])
            if durable:
                file.sync()
        except StorageError as error:
            if error.full:  # the rows that are there protect less, and claim nothing wrong
                return
            raise
        self.row = row

    def _short_file(self, long: DiskFile) -> DiskFile:
        """Put a short file in the place of the long one, which says as much should a power cut undo that."""
        temporary = f"{self._path}.tmp"
        file = self._disk.open(temporary, create=True)
        file.truncate(0)
        file.append([self.row.encoded()])
        self._disk.rename(temporary, self._path)
        long.close()
        return file
