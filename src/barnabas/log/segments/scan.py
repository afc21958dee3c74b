"""Walking over the batches of a file: headers only (cheap), or whole batches with their CRC checked.

Both read in windows and stop at the end they are given; what a batch of records holds inside is never
decoded here.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.errors import CorruptRecordError, ShortFileError, WireError
from barnabas.model import NO_EPOCH, Epoch, Offset
from barnabas.ports import DiskFile
from barnabas.wire.records import HEADER_SIZE, BatchHeader, check_crc, read_batch_header

__all__ = ["FileSlice", "batches_of", "headers_of", "misfit"]

_WINDOW = 4096
_CHUNK = 1 << 20


class FileSlice:
    """A range of a segment file that begins and ends at batch boundaries; read when it is sent.

    Offered to the codec as `LazyBytes`, and to sendfile as (file.fileno(), position, len).
    """

    __slots__ = ("counts_for", "file", "position", "size")

    def __init__(self, file: DiskFile, position: int, size: int, counts_for: int | None = None) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.counts_for = size if counts_for is None else counts_for
        """Bytes that it counts for where a reader waits for so many: more than it has where more is there that
        could not go with it."""

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<FileSlice {self.file.path} {self.position}+{self.size}>"

    def read(self) -> bytes:
        """The bytes.  Raises ShortFileError when the file has fewer: it was cut."""
        if not self.size:
            return b""
        data = self.file.read_at(self.position, self.size)
        if len(data) != self.size:
            raise ShortFileError(self.file.path, self.position + self.size)
        return data


def headers_of(file: DiskFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from a batch boundary up to `end`; a partial last batch is left out.

    Raises CorruptRecordError where the bytes are no header.
    """
    window = b""
    start = position
    while position + HEADER_SIZE <= end:
        at = position - start
        if at < 0 or at + HEADER_SIZE > len(window):
            window = file.read_at(position, min(_WINDOW, end - position))
            start, at = position, 0
            if len(window) < HEADER_SIZE:
                return
        try:
            header = read_batch_header(window, at)
        except WireError as error:
            raise CorruptRecordError(f"{file.path} has no record batch at {position}: {error}") from error
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def batches_of(file: DiskFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each whole batch, CRC checked.

    Raises CorruptRecordError at the first that is not what its header says, a partial one included.
    """
    while position < end:
        chunk = memoryview(file.read_at(position, min(_CHUNK, end - position)))
        at = 0
        while at < len(chunk):
            rest = len(chunk) - at
            if rest < HEADER_SIZE:
                if position + len(chunk) >= end:
                    raise CorruptRecordError(f"{file.path} ends within a batch at {position + at}")
                break
            header = _header(file, chunk, at, position + at)
            size = header.size
            if size > rest:
                if position + at + size > end:
                    raise CorruptRecordError(f"{file.path} ends within a batch at {position + at}")
                if at or len(chunk) >= size:
                    break
                chunk = memoryview(file.read_at(position, size))
                if len(chunk) < size:
                    raise CorruptRecordError(f"{file.path} ends within a batch at {position}")
            if not check_crc(chunk, at, header):
                raise CorruptRecordError(f"{file.path}: the CRC of the batch at {position + at} is wrong")
            yield position + at, header, chunk[at : at + size]
            at += size
        if not at:
            raise CorruptRecordError(f"{file.path} ends within a batch at {position}")
        position += at


def misfit(
    header: BatchHeader,
    next_: Offset,
    limit: Offset,
    epoch: Epoch,
    known: Epoch = NO_EPOCH,
    *,
    gap: bool = True,
) -> str:
    """Return what is wrong with the place of a batch, or "": offsets from `next_` up to `limit` fit, at `next_`
    alone where there is no `gap`, and no epoch below `epoch`, that of the batch before, or other than the one
    that is `known` for its offset.

    No CRC covers either: its neighbours, and the leader epochs of the log, are the witnesses.
    """
    if not next_ <= header.base_offset <= header.last_offset < limit:
        return f"offset {header.base_offset} is no successor of {next_ - 1}"
    if header.base_offset > next_ and not gap:
        return f"offset {header.base_offset} lies where {next_} belongs"
    if header.leader_epoch < epoch:
        return f"epoch {header.leader_epoch} at offset {header.base_offset} comes after epoch {epoch}"
    if header.leader_epoch != known >= 0:
        return f"epoch {header.leader_epoch} at offset {header.base_offset} is not the {known} of its leader"
    return ""


def _header(file: DiskFile, chunk: memoryview, at: int, position: int) -> BatchHeader:
    try:
        return read_batch_header(chunk, at)
    except WireError as error:
        raise CorruptRecordError(f"{file.path} has no record batch at {position}: {error}") from error
