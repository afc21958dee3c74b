"""`barnabas log compaction DIR`: how far each log of a data directory is compacted, without a node running."""

from __future__ import annotations

import argparse
import os
from typing import Any

from barnabas.cli.exits import Exit, MissingFileError
from barnabas.cli.output import show
from barnabas.log.files.checkpoint import CLEANER_OFFSETS, read_offsets
from barnabas.log.files.disk import OsDisk
from barnabas.model import Offset, TopicPartition

__all__ = ["compaction"]

COLUMNS = ["topic", "partition", "compacted_to", "segments", "compacted_bytes", "new_bytes", "new_percent"]


def compaction(args: argparse.Namespace) -> int:
    """List the logs that were ever compacted.  Raises StorageError when DIR is no data directory."""
    root = args.directory
    if not os.path.isdir(root):
        raise MissingFileError(f"there is no directory {root}", next_step="give a data directory (log.dirs)")
    marks = read_offsets(OsDisk(), os.path.join(root, CLEANER_OFFSETS))
    rows = [row for where, mark in sorted(marks.items()) if (row := _row(root, where, mark)) is not None]
    show(args, "log.compaction", rows, COLUMNS)
    return Exit.OK


def _row(root: str, where: TopicPartition, mark: Offset) -> dict[str, Any] | None:
    """What the files of one log say; the segment that grows counts as new."""
    place = os.path.join(root, f"{where.topic}-{where.partition}")
    if not os.path.isdir(place):
        return None
    names = sorted(name for name in os.listdir(place) if name.endswith(".log") and name[:-4].isdecimal())
    sizes = [os.path.getsize(os.path.join(place, name)) for name in names]
    ends = [int(name[:-4]) for name in names[1:]]  # of the segment before each
    old = sum(size for size, end in zip(sizes, ends, strict=False) if end <= mark)
    whole = sum(sizes)
    return {
        "topic": where.topic,
        "partition": where.partition,
        "compacted_to": mark,
        "segments": len(names),
        "compacted_bytes": old,
        "new_bytes": whole - old,
        "new_percent": round(100 * (whole - old) / whole, 1) if whole else 0.0,
    }
