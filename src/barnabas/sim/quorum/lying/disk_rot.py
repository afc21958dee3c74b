"""Damage to the metadata on one node's disk: every file that the quorum reads, in every way a disk has.

The node was killed, so the page cache is whole; one file is damaged at a time.  Within the budget: at most one
voter lacks anything, so a majority has all that was committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from barnabas.server.kraft.election_state import QUORUM_STATE
from barnabas.server.kraft.marks import RECOVERY_POINT, SYNCED_END
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.sim.quorum.invariants.committed_log import METADATA

__all__ = ["Copies", "files_of", "rot"]

_BLOCK = 512
_KINDS = ("log", "log", "log", ".checkpoint", QUORUM_STATE, QUORUM_STATE, SYNCED_END, RECOVERY_POINT)
Copies = Mapping[str, bytes]
"""What the files of a node held at some time, by path."""


def files_of(disk: MemoryDisk) -> dict[str, bytes]:
    """The files of the quorum on a disk, and what they hold."""
    if not disk.is_directory(METADATA):
        return {}
    names = [name for name in disk.list(METADATA) if name.endswith(_KINDS)]
    return {f"{METADATA}/{name}": disk.read(f"{METADATA}/{name}") for name in names}


def rot(disk: MemoryDisk, older: Copies, rng: random.Random) -> str:
    """Damage one file, durably.  Returns what was done, in words; "" where there was nothing to damage."""
    files = files_of(disk)
    kind = rng.choice(_KINDS)
    paths = sorted(path for path in files if path.endswith(kind) and files[path])
    if not paths:
        return ""
    path = paths[-1] if rng.random() < 0.6 else rng.choice(paths)
    damage = rng.choice((_bit, _zeroed, _lost_end, _older, _lost))
    if damage is _bit and kind == QUORUM_STATE:
        damage = _zeroed  # its text has no checksum: another digit is another vote, and nobody can tell
    content, what = damage(path, files[path], older, rng)
    if content is None:
        disk.remove(path)
        disk.sync_directory(METADATA)
    else:
        disk.put(path, content)
    return f"{what} of {path.rpartition('/')[2]}"


_Damage = Callable[[str, bytes, Copies, random.Random], tuple[bytes | None, str]]


def _bit(path: str, content: bytes, older: Copies, rng: random.Random) -> tuple[bytes | None, str]:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :], f"a bit at {at}"


def _zeroed(path: str, content: bytes, older: Copies, rng: random.Random) -> tuple[bytes | None, str]:
    at = rng.randrange(0, len(content), _BLOCK)
    size = min(_BLOCK, len(content) - at)
    return content[:at] + bytes(size) + content[at + size :], f"the block at {at}"


def _lost_end(path: str, content: bytes, older: Copies, rng: random.Random) -> tuple[bytes | None, str]:
    size = rng.randrange(len(content))
    return content[:size], f"what follows {size}"


def _older(path: str, content: bytes, older: Copies, rng: random.Random) -> tuple[bytes | None, str]:
    return older.get(path, content), "the newer content"


def _lost(path: str, content: bytes, older: Copies, rng: random.Random) -> tuple[bytes | None, str]:
    return None, "all"
