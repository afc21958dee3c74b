"""A disk that lies: each way changes what is read back, for good, and spends none of the disk's own luck."""

from __future__ import annotations

import random

import pytest

from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.sim.kernel.lies import LIES, Memory, files_below, lie

PATH = "/data/t-0/00000000000000000000.log"
CONTENT = random.Random(7).randbytes(2048) + b"the end"


@pytest.fixture
def disk() -> MemoryDisk:
    found = MemoryDisk(seed=5)
    found.put(PATH, CONTENT[:700])
    return found


@pytest.fixture
def memory(disk: MemoryDisk) -> Memory:
    """What was there before the file grew to its content."""
    found = Memory()
    found.note(disk, "/data")
    disk.put(PATH, bytes(reversed(CONTENT[:600])) + CONTENT[600:])
    found.note(disk, "/data")
    disk.put(PATH, CONTENT)
    return found


@pytest.mark.parametrize("kind", LIES)
def test_each_lie_is_read_back_at_once_and_after_a_crash(disk: MemoryDisk, memory: Memory, kind: str) -> None:
    file = disk.open(PATH)
    words = next(filter(None, (lie(disk, PATH, random.Random(n), memory, kind) for n in range(9))))
    changed = file.read_at(0, 9000)
    assert changed != CONTENT and PATH in words
    disk.crash("all")
    assert disk.read(PATH) == changed


def test_one_bit_is_one_bit_and_a_swap_moves_bytes_only(disk: MemoryDisk, memory: Memory) -> None:
    lie(disk, PATH, random.Random(1), memory, "bit")
    flipped = disk.read(PATH)
    assert sum((a ^ b).bit_count() for a, b in zip(flipped, CONTENT, strict=True)) == 1
    odd = bytes(512) + bytes([1]) * 512 + bytes([2]) * 100
    disk.put(PATH, odd)
    lie(disk, PATH, random.Random(1), memory, "swapped")
    assert disk.read(PATH) == odd[512:1024] + odd[:512] + odd[1024:]


def test_a_block_that_was_never_written_is_empty_where_the_file_was_shorter(
    disk: MemoryDisk, memory: Memory
) -> None:
    for n in range(60):
        disk.put(PATH, CONTENT)
        if "block 3 stale" in (lie(disk, PATH, random.Random(n), memory, "stale block") or ""):
            assert disk.read(PATH)[1536:2048] in (bytes(512), CONTENT[1536:2048])
            return
    raise AssertionError("block 3 was never stale")


def test_without_a_memory_nothing_is_stale_and_an_empty_file_has_nothing_to_lie_about(
    disk: MemoryDisk,
) -> None:
    assert lie(disk, PATH, random.Random(1), None, "older copy") is None
    assert lie(disk, PATH, random.Random(1), Memory(), "stale block") is None
    disk.put("/data/t-0/empty", b"")
    assert lie(disk, "/data/t-0/empty", random.Random(1), None, "bit") is None
    assert lie(disk, "/data/t-0/gone", random.Random(1), None, "bit") is None


def test_lying_neither_counts_as_a_step_nor_moves_the_luck_of_the_disk(
    disk: MemoryDisk, memory: Memory
) -> None:
    before, luck = disk.steps, disk._rng.getstate()
    assert files_below(disk, "/data") == [PATH]
    for n in range(20):
        lie(disk, PATH, random.Random(n), memory)
    assert (disk.steps, disk._rng.getstate()) == (before, luck)


def test_what_is_written_after_a_lie_is_kept(disk: MemoryDisk, memory: Memory) -> None:
    file = disk.open(PATH)
    lie(disk, PATH, random.Random(2), memory, "cut")
    size = file.size()
    file.append([b"more"])
    disk.crash("all")
    assert disk.size(PATH) == size
    file = disk.open(PATH)
    file.append([b"more"])
    file.sync()
    disk.crash("all")
    assert disk.read(PATH)[size:] == b"more"
