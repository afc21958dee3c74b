"""The whole record batches of a log file, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from barnabas.errors import CorruptRecordError, WireError
from barnabas.wire.records import HEADER_SIZE, BatchHeader, read_batch_header

__all__ = ["FileBatch", "file_batches"]

LARGEST_BATCH_BYTES = 1 << 30
"""A larger size in a header is damage."""


class FileBatch(NamedTuple):
    """A whole batch of a file and where it begins."""

    position: int
    header: BatchHeader
    raw: memoryview


def file_batches(file: BinaryIO, limit: int | None = None) -> Iterator[FileBatch]:
    """`file_batches(file)`: the whole batches of an open file; ends at the first thing that is none."""
    position = 0
    while limit is None or position < limit:
        head = file.read(HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return
        try:
            header = read_batch_header(head)
        except (WireError, CorruptRecordError):
            return
        if header.size > LARGEST_BATCH_BYTES:
            return
        raw = head + file.read(header.size - HEADER_SIZE)
        if len(raw) < header.size:
            return
        yield FileBatch(position, header, memoryview(raw))
        position += header.size
