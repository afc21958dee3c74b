"""`barnabas log verify DIR`: every batch of every segment against its CRC, offsets and length.

What a crash leaves at the end of the newest segment is no damage: opening the log cuts it off.  Anything
else is, and makes the command end with code 6.
"""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

from barnabas.cli.dump import file_batches
from barnabas.cli.exits import Exit
from barnabas.cli.output import show
from barnabas.errors import StorageError
from barnabas.wire.records import check_crc

__all__ = ["PartitionCheck", "check_partition", "verify"]


class PartitionCheck(NamedTuple):
    """What was found in one partition's directory.  `problem` is None when all is well."""

    partition: str
    segments: int
    batches: int
    records: int
    bytes: int
    problem: str | None
    damaged: bool


def verify(args: argparse.Namespace) -> int:
    """Check a partition's directory, or all that a data directory holds."""
    root = args.directory
    if not os.path.isdir(root):
        raise StorageError(
            f"there is no directory {root}", next_step="give a data directory or one of its partitions"
        )
    paths = [root] if _segments(root) else sorted(os.path.join(root, name) for name in os.listdir(root))
    checks = [check_partition(path) for path in paths if os.path.isdir(path) and _segments(path)]
    rows = [check._asdict() for check in checks]
    show(args, "log.partitions", rows, ["partition", "segments", "batches", "records", "bytes", "problem"])
    return Exit.DAMAGED if any(check.damaged for check in checks) else Exit.OK


def check_partition(path: str) -> PartitionCheck:
    """`check_partition("barnabas-data/greetings-0")` -> PartitionCheck."""
    batches = records = size = 0
    next_offset = -1
    problem: str | None = None
    damaged = False
    segments = _segments(path)
    for number, name in enumerate(segments):
        full = os.path.join(path, name)
        end = 0
        bad: str | None = None
        with open(full, "rb") as file:
            for batch in file_batches(file):
                header = batch.header
                if bad is not None:  # a good batch behind a bad one: no crash leaves that
                    damaged = True
                if not check_crc(batch.raw, 0, header):
                    bad = f"{name}: CRC of the batch at offset {header.base_offset} is wrong"
                elif header.base_offset < next_offset:
                    bad, damaged = f"{name}: offset {header.base_offset} comes again", True
                problem = problem or bad
                next_offset = header.last_offset + 1
                batches += 1
                records += header.count
                end = batch.position + header.size
            length = os.fstat(file.fileno()).st_size
        if end < length:
            bad = f"{name}: {length - end} bytes at the end are no batch"
            problem = problem or bad
        if bad is not None and number < len(segments) - 1:
            damaged = True
        size += length
    if problem is not None and not damaged:
        problem += " (a crash's torn end; the node cuts it off)"
    return PartitionCheck(
        os.path.basename(path.rstrip("/")), len(segments), batches, records, size, problem, damaged
    )


def _segments(path: str) -> list[str]:
    return sorted(name for name in os.listdir(path) if name.endswith(".log") and name[:-4].isdigit())
