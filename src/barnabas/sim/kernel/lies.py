"""Disks that lie: what is read back is not what was written, and nobody is told.

    lie(disk, "/data/t-0/00000000000000000000.log", rng)  ->  "bit 3 of byte 77 of ... flipped"

The change is durable, as on a real disk: no crash takes it back.  A block is a sector, so that small files have
some.  `Memory` remembers what files held, for stale blocks and copies.  All draws come from the caller.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from barnabas.errors import StorageError
from barnabas.sim.kernel.disk import MemoryDisk

__all__ = ["LIES", "Change", "Memory", "files_below", "lie"]

BLOCK = 512


class Memory:
    """Earlier contents of a disk's files, of each the last few that differ."""

    MOST = 4

    def __init__(self) -> None:
        self._held: dict[str, list[bytes]] = {}

    def __repr__(self) -> str:
        return f"<Memory of {len(self._held)} files>"

    def note(self, disk: MemoryDisk, root: str) -> None:
        """Remember what the files below `root` hold now."""
        for path in files_below(disk, root):
            versions = self._held.setdefault(path, [])
            if (content := _content(disk, path)) and content not in versions:
                versions.append(content)
                del versions[: -self.MOST]

    def of(self, path: str, now: bytes) -> list[bytes]:
        """Return earlier contents that differ from what is there now."""
        return [content for content in self._held.get(path, ()) if content != now]


def files_below(disk: MemoryDisk, root: str) -> list[str]:
    """Return the paths of all files below a directory, sorted."""
    found = []
    for name in disk.list(root) if disk.is_directory(root) else ():
        path = f"{root}/{name}"
        found += files_below(disk, path) if disk.is_directory(path) else [path]
    return found


def lie(
    disk: MemoryDisk, path: str, rng: random.Random, memory: Memory | None = None, kind: str = ""
) -> str | None:
    """Change what a file holds in one of the ways of `LIES`; in words, None where that changes nothing."""
    content = _content(disk, path)
    chosen = kind or rng.choice(sorted(LIES))
    earlier = [] if memory is None else memory.of(path, content)
    found = LIES[chosen](content, rng, earlier) if content else None
    if found is None or found[0] == content:
        return None
    disk.rewrite(path, found[0])
    return f"{found[1]} of {path} ({len(content)} bytes)"


Change = tuple[bytes, str]


def _flip(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change:
    at, bit = rng.randrange(len(content)), rng.randrange(8)
    return _with(content, at, bytes([content[at] ^ 1 << bit])), f"bit {bit} of byte {at} flipped"


def _zero(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change:
    at = _block(content, rng)
    return _with(content, at, bytes(len(content[at : at + BLOCK]))), f"block {at // BLOCK} zeroed"


def _swap(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change | None:
    whole = len(content) // BLOCK
    if whole < 2:
        return None
    one, two = rng.sample(range(whole), 2)
    first = content[one * BLOCK :][:BLOCK]
    changed = _with(content, one * BLOCK, content[two * BLOCK :][:BLOCK])
    return _with(changed, two * BLOCK, first), f"blocks {one} and {two} swapped"


def _misdirect(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change:
    """A write that went elsewhere: a block has what another place should have."""
    at, other = _block(content, rng), rng.randrange(len(content))
    block = content[other : other + BLOCK][: len(content) - at]
    return _with(content, at, block), f"block {at // BLOCK} overwritten with bytes from {other}"


def _stale_block(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change | None:
    """A write that never came: a block has what it had before, which is nothing where the file was shorter."""
    if not earlier:
        return None
    before, at = rng.choice(earlier), _block(content, rng)
    size = len(content[at : at + BLOCK])
    return _with(content, at, before[at : at + size].ljust(size, b"\0")), f"block {at // BLOCK} stale"


def _stale_copy(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change | None:
    return (rng.choice(earlier), "an older copy") if earlier else None


def _cut(content: bytes, rng: random.Random, earlier: list[bytes]) -> Change:
    size = rng.randrange(len(content))
    return content[:size], f"all behind byte {size} lost"


LIES: dict[str, Callable[[bytes, random.Random, list[bytes]], Change | None]] = {
    "bit": _flip,
    "zeroed": _zero,
    "swapped": _swap,
    "misdirected": _misdirect,
    "stale block": _stale_block,
    "older copy": _stale_copy,
    "cut": _cut,
}
"""The ways, by name.  Each returns the new content and what it is in words."""


def _block(content: bytes, rng: random.Random) -> int:
    """Where a block begins."""
    return rng.randrange(0, len(content), BLOCK)


def _with(content: bytes, at: int, part: bytes) -> bytes:
    return content[:at] + part + content[at + len(part) :]


def _content(disk: MemoryDisk, path: str) -> bytes:
    try:
        return disk.peek(path)
    except StorageError:
        return b""
