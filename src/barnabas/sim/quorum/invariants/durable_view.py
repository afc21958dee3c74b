"""What a power cut now would leave of a metadata log: read from the durable copy, batch header by batch header."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from struct import Struct

from barnabas.model import Epoch, Offset
from barnabas.raft.entries import ElectionState
from barnabas.server.kraft.election_state import QUORUM_STATE, read_election
from barnabas.sim.kernel.disk import MemoryDisk

__all__ = ["durable_batches", "saved_election", "survives_power_cut"]

_HEAD = Struct(">qii")
_DELTA = Struct(">i")
_SMALLEST = 61


class _Reading:
    """How far a segment was read, in which generation of its bytes; each batch's end and epoch."""

    __slots__ = ("ends", "epochs", "generation", "position")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.position = 0
        self.ends: list[Offset] = []
        self.epochs: list[Epoch] = []


def survives_power_cut(disk: MemoryDisk, path: str, end: Offset, epoch: Epoch) -> bool:
    """Whether everything below `end`, whose last record is of `epoch`, would survive a power cut now."""
    names = disk.durable_names(path)
    padded = f"{end:020}"
    if any(name >= padded and name.endswith(".checkpoint") for name in names):
        return True
    for name in reversed(names):
        if name < padded and name.endswith(".log"):
            reading = _read(disk, f"{path}/{name}")
            at = bisect_left(reading.ends, end)
            return at < len(reading.ends) and reading.epochs[at] == epoch
    return end == 0


def durable_batches(disk: MemoryDisk, path: str) -> list[tuple[str, int, int, Offset]]:
    """Every batch that a power cut would leave: its file, from where to where, the offset after it."""
    found = []
    for name in disk.durable_names(path):
        inode = disk.durable_file(f"{path}/{name}") if name.endswith(".log") else None
        position, data = 0, b"" if inode is None else bytes(inode.durable)
        while position + _SMALLEST <= len(data):
            first, length, _ = _HEAD.unpack_from(data, position)
            if length < _SMALLEST - 12 or position + 12 + length > len(data):
                break
            end = first + _DELTA.unpack_from(data, position + 23)[0] + 1
            found.append((f"{path}/{name}", position, position + 12 + length, end))
            position += 12 + length
    return found


def _read(disk: MemoryDisk, path: str) -> _Reading:
    inode = disk.durable_file(path)
    assert inode is not None
    reading = inode.reading
    if not isinstance(reading, _Reading) or reading.generation != inode.generation:
        reading = inode.reading = _Reading(inode.generation)
    data, position = inode.durable, reading.position
    while position + _SMALLEST <= len(data):
        first, length, epoch = _HEAD.unpack_from(data, position)
        if length < _SMALLEST - 12 or position + 12 + length > len(data):
            break
        reading.ends.append(first + _DELTA.unpack_from(data, position + 23)[0] + 1)
        reading.epochs.append(epoch)
        position += 12 + length
    reading.position = position
    return reading


def saved_election(disk: MemoryDisk, path: str) -> ElectionState | None:
    """The election state that a power cut now would leave."""
    inode = disk.durable_file(f"{path}/{QUORUM_STATE}")
    return None if inode is None else _election(bytes(inode.durable), path)


@lru_cache(256)  # invariants look at the same file again and again
def _election(content: bytes, path: str) -> ElectionState | None:
    return read_election(_OneFile(content), path)  # type: ignore[arg-type]


class _OneFile:
    """As much of a disk as it takes to read one file."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def exists(self, path: str) -> bool:
        return True

    def read(self, path: str) -> bytes:
        return self._content
