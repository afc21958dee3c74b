"""Harms: where the files of the columns are, and each harm as a change of bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.damage.harms import cut, delete, flip
from tests.damage.matrix.plan import BIT, DELETED, OLDER, SWAPPED, TRUNCATED, ZEROED

from barnabas.log.files.checkpoint import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from barnabas.model import METADATA_TOPIC

__all__ = ["EVENTS", "GROUPS", "TRANSACTIONS", "Harmed", "choose", "damage", "log_of", "pick"]

EVENTS, GROUPS, TRANSACTIONS, METADATA = (
    "events-0",
    "__consumer_offsets-0",
    "__transaction_state-0",
    f"{METADATA_TOPIC}-0",
)
BLOCKS = (4096, 512, 64)
"""Sizes of a block: the largest of which a file has two."""
_NAMES: dict[str, tuple[str, str]] = {
    "active segment": (EVENTS, r"\d+\.log"),
    "sealed segment": (EVENTS, r"\d+\.log"),
    "index": (EVENTS, r"\d+\.index"),
    "time index": (EVENTS, r"\d+\.timeindex"),
    "producer snapshot": (EVENTS, r"\d+\.snapshot"),
    "epoch checkpoint": (EVENTS, r"leader-epoch-checkpoint"),
    "high-watermark checkpoint": (".", re.escape(HIGH_WATERMARKS)),
    "recovery point": (".", re.escape(RECOVERY_POINTS)),
    "log starts": (".", re.escape(LOG_STARTS)),
    "metadata log": (METADATA, r"\d+\.log"),
    "metadata snapshot": (METADATA, r"\d+-\d+\.checkpoint"),
    "quorum-state": (METADATA, r"quorum-state"),
    "group log": (GROUPS, r"\d+\.log"),
    "transaction log": (TRANSACTIONS, r"\d+\.log"),
}
"""By file: the folder below the data directory, and a pattern for its name."""
_NEWEST = ("active segment", "producer snapshot", "metadata snapshot")
"""Of these only the newest counts: nobody reads an older one while it is whole."""


class Harmed(NamedTuple):
    """A damaged file: its path below the data directory, its size before, its content then (None: it is gone).

    `ends_early`: the content begins what there was.
    """

    path: str
    size: int
    left: bytes | None
    ends_early: bool = False


def log_of(file: str) -> str:
    """Return the partition whose file it is; that of the events where the file is about all of them."""
    folder = _NAMES[file][0]
    return EVENTS if folder == "." else folder


def pick(root: Path, file: str, chance: random.Random, events: str = EVENTS) -> Path | None:
    """Choose a file of this kind that has content; None: there is none.  `events`: the partition written to."""
    folder, pattern = _NAMES[file]
    folder = events if folder == EVENTS else folder
    found = sorted(path for path in (root / folder).glob("*") if re.fullmatch(pattern, path.name))
    if file == "sealed segment":
        found = found[:-1]
    if file in _NEWEST:
        found = found[-1:]
    full = [path for path in found if path.stat().st_size]
    return chance.choice(full) if full else None


def choose(
    root: Path, older: Path, file: str, harm: str, chance: random.Random, events: str = EVENTS
) -> Harmed | None:
    """Choose a file of this kind and what the harm makes of it; None where there is none that it changes.

    `older`: a copy of `root` as it was some seconds before.
    """
    for _ in range(20):
        if (path := pick(root, file, chance, events)) is None:
            return None
        content = path.read_bytes()
        before = _older(path, older / path.relative_to(root)) if harm == OLDER else None
        changed = before if harm == OLDER else _CHANGES[harm](content, chance)
        if changed != content and (changed is not None or harm == DELETED):
            early = changed is not None and content.startswith(changed)
            return Harmed(str(path.relative_to(root)), len(content), changed, early)
    return None


def damage(
    root: Path, older: Path, file: str, harm: str, chance: random.Random, events: str = EVENTS
) -> Harmed | None:
    """Do the harm to the file that `choose` chooses, in place."""
    if (found := choose(root, older, file, harm, chance, events)) is not None:
        path = root / found.path
        if found.left is None:
            path.unlink()
        else:
            path.write_bytes(found.left)
    return found


def _older(path: Path, before: Path) -> bytes | None:
    """Return what the file held before; of one that never changes, what another one holds."""
    if before.exists() and (content := before.read_bytes()) != path.read_bytes():
        return content
    siblings = sorted(other for other in path.parent.glob(f"*{path.suffix}") if other != path)
    return siblings[-1].read_bytes() if siblings and path.suffix else None


def _block(content: bytes) -> int:
    return next((size for size in BLOCKS if len(content) >= 2 * size), BLOCKS[-1])


def _zero(content: bytes, chance: random.Random) -> bytes:
    size = _block(content)
    at = chance.randrange(0, max(1, len(content) - size + 1), size)
    return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]


def _swap(content: bytes, chance: random.Random) -> bytes:
    """Two whole blocks in each other's place; a file that has no two stays as it is."""
    size = _block(content)
    places = range(0, len(content) - size + 1, size)
    if len(places) < 2:
        return content
    one, two = sorted(chance.sample(places, 2))
    return (
        content[:one]
        + content[two : two + size]
        + content[one + size : two]
        + content[one : one + size]
        + content[two + size :]
    )


_CHANGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    BIT: flip,
    ZEROED: _zero,
    SWAPPED: _swap,
    TRUNCATED: cut,
    DELETED: delete,
}
