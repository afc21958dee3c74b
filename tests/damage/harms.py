"""What is done to which file, drawn from a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

SEGMENT = r"0{19}\d|\d{20}"
KINDS: dict[str, str] = {
    "identity": r"meta\.properties",
    "bootstrap": r"bootstrap\.checkpoint",
    "clean marker": r"\.kafka_cleanshutdown",
    "last life": r"barnabas-last-life",
    "lock": r"\.lock",
    "recovery points": r"recovery-point-offset-checkpoint",
    "log starts": r"log-start-offset-checkpoint",
    "high watermarks": r"replication-offset-checkpoint",
    "compacted ends": r"cleaner-offset-checkpoint",
    "records": r"events-\d/\d+\.log",
    "compacted records": r"keyed-0/\d+\.log",
    "group records": r"__consumer_offsets-\d/\d+\.log",
    "offset index": r"(events|keyed)-\d/\d+\.index",
    "time index": r"(events|keyed)-\d/\d+\.timeindex",
    "producers": r"(events|keyed)-\d/\d+\.snapshot",
    "epochs": r"(events|keyed|__consumer_offsets)-\d/leader-epoch-checkpoint",
    "partition identity": r"(events|keyed|__consumer_offsets)-\d/partition\.metadata",
    "metadata records": r"__cluster_metadata-0/\d+\.log",
    "metadata snapshot": r"__cluster_metadata-0/\d+-\d+\.checkpoint",
    "metadata indexes": r"__cluster_metadata-0/\d+\.(index|timeindex|snapshot)",
    "quorum state": r"__cluster_metadata-0/quorum-state",
    "metadata epochs": r"__cluster_metadata-0/leader-epoch-checkpoint",
    "metadata point": r"__cluster_metadata-0/recovery-point[^/]*",
    "metadata synced end": r"__cluster_metadata-0/barnabas-synced-end",
    "metadata identity": r"__cluster_metadata-0/partition\.metadata",
}


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))] if content else content


def flip(content: bytes, chance: random.Random) -> bytes:
    if not content:
        return content
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]


def zero(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) or 1)
    size = min(len(content) - start, chance.choice((1, 8, 64, 512, 1 << 20)))
    return content[:start] + bytes(size) + content[start + size :]


def empty(content: bytes, chance: random.Random) -> bytes:
    return b""


def junk(content: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return content + chance.randbytes(chance.randrange(1, 200))
    start = chance.randrange(len(content) or 1)
    size = min(len(content) - start, chance.choice((1, 8, 64, 512)))
    return content[:start] + chance.randbytes(size) + content[start + size :]


def delete(content: bytes, chance: random.Random) -> None:
    return None


HARMS: tuple[Callable[[bytes, random.Random], bytes | None], ...] = (cut, flip, zero, empty, delete, junk)


def damage(folder: Path, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> str | None:
    """Damage one file of these kinds; what was done, None where that left the file as it was."""
    chance = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    harm = HARMS[(seed // len(kinds)) % len(HARMS)]
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and re.fullmatch(KINDS[kind], str(path.relative_to(folder)))
    )
    if not files:
        return None
    path = chance.choice(files)
    content = path.read_bytes()
    changed = harm(content, chance)
    if changed == content:
        return None
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    return f"{kind}: {harm.__name__} {path.relative_to(folder)} ({len(content)} bytes)"
