"""Damage to the metadata on one node's disk: every file that the quorum reads, in every way a disk has.

The node was killed, so the page cache is whole; one file is damaged at a time.  Within the budget: at most one
voter lacks anything, so a majority has all that was committed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from barnabas.server.kraft.election_state import QUORUM_STATE
from barnabas.server.kraft.marks import RECOVERY_POINT, SYNCED_END
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.sim.kernel.lies import LIES, Change
from barnabas.sim.quorum.invariants.committed_log import METADATA

__all__ = ["Copies", "files_of", "rot"]

_OLDER, _LOST = "an older copy", "lost"
"""What `LIES` does not have: the copy is that of a moment, and a file may be gone."""
_KINDS = ("log", "log", "log", ".checkpoint", QUORUM_STATE, QUORUM_STATE, SYNCED_END, RECOVERY_POINT)
_ROW_BYTES = 24
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
    damage = rng.choice(("bit", "zeroed", "cut", _OLDER, _LOST))
    content = files[path]
    if damage == _LOST:
        disk.remove(path)
        disk.sync_directory(METADATA)
        return f"all of {path.rpartition('/')[2]}"
    begin = max(0, len(content) - _ROW_BYTES) if damage == "bit" and kind == SYNCED_END else 0
    if damage == _OLDER:
        changed: Change | None = (older.get(path, content), damage)
    else:
        changed = LIES[damage](content[begin:], rng, [])  # (older rows say nothing that counts)
    assert changed is not None, "these lies change whatever has content"
    disk.put(path, content[:begin] + changed[0])
    return f"{changed[1]} of {path.rpartition('/')[2]}"
