"""The bytes behind the cut of a log: searched for records, and kept in `.damaged` files.

A stop of the machine tears the end of what was not synced, so a whole batch behind the first bad one tells of
damage most of the time (pages that were not synced reach a disk in any order).
"""

from __future__ import annotations

from barnabas.errors import CorruptRecordError, StorageError
from barnabas.model import Epoch, Offset
from barnabas.ports import Disk, DiskFile
from barnabas.wire.records import HEADER_SIZE, check_crc, read_batch_header

__all__ = ["DAMAGED", "keep_aside", "records_follow"]

DAMAGED = ".damaged"
"""The suffix of a file that keeps what lay behind a cut."""
_CHUNK = 1 << 20
_MAGIC_AT = 16
_MAGIC = b"\x02"
_MOST_UNSYNCED = 64 << 20
"""Bytes behind a cut that a stop can have torn; the tail of a log is synced long before it is that large."""


def records_follow(file: DiskFile, position: int, end: Offset, epoch: Epoch) -> bool:
    """Return whether a whole batch lies at `position` of a segment file or later, its offset at or above `end`.

    `end` and `epoch` are those of the last good batch before.
    """
    size = file.size()
    if size - position > _MOST_UNSYNCED:
        return True
    while position + HEADER_SIZE <= size:
        window = file.read_at(position, min(_CHUNK, size - position))
        last = len(window) - HEADER_SIZE
        at = window.find(_MAGIC, _MAGIC_AT)
        while 0 <= at - _MAGIC_AT <= last:
            if _is_batch(file, window, at - _MAGIC_AT, position, size, end, epoch):
                return True
            at = window.find(_MAGIC, at + 1)
        position += last + 1
    return False


def _is_batch(
    file: DiskFile, window: bytes, at: int, position: int, size: int, end: Offset, epoch: Epoch
) -> bool:
    """Return whether a whole batch begins at `at` in the window, which begins at `position` of the file."""
    try:
        header = read_batch_header(window, at)
    except CorruptRecordError:
        return False
    here = position + at
    if header.base_offset < end or header.last_offset_delta < 0 or header.leader_epoch < epoch:
        return False
    return here + header.size <= size and check_crc(file.read_at(here, header.size), 0, header)


def keep_aside(disk: Disk, file: DiskFile, position: int) -> None:
    """Copy the end of a segment file, from `position` on, into a `.damaged` file, if the disk has room for it.

    Raises StorageError for any other failure.
    """
    path, size = file.path + DAMAGED, file.size()
    if position >= size:
        return
    copy = disk.open(path, create=True)
    try:
        copy.truncate(0)
        while position < size:
            data = file.read_at(position, min(_CHUNK, size - position))
            position += copy.append([data])
    except StorageError as error:
        if not error.full:
            raise
        disk.remove(path)
    finally:
        copy.close()
