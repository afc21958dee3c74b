"""`barnabas log verify DIR`: every batch of every segment against its CRC, offsets and length, and every segment
against its neighbours, its tables and the checkpoints of its directory: is each there that must be?

Bytes that a crash left at the end of the newest segment are no damage: opening the log cuts them off.
Anything else that is wrong is damage, and the command ends with code 6.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from barnabas.cli.exits import Exit, MissingFileError
from barnabas.cli.log.file_batches import file_batches
from barnabas.cli.output import show
from barnabas.errors import StorageError
from barnabas.log.files.checkpoint import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, read_offsets
from barnabas.log.files.disk import OsDisk
from barnabas.log.segments.index import OFFSET_ROW
from barnabas.log.segments.names import base_of, file_name
from barnabas.log.segments.scan import misfit
from barnabas.model import NO_EPOCH, NO_OFFSET, Epoch, Offset, TopicPartition
from barnabas.wire.records import check_crc

__all__ = ["PartitionCheck", "check_partition", "verify"]

_PARTITION = re.compile(r"(.+)-(\d+)")
_TABLES = (".index", ".timeindex", ".txnindex")
_END = (1 << 63) - 1


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
    root = args.directory.rstrip("/")
    if not os.path.isdir(root):
        raise MissingFileError(
            f"there is no directory {root}", next_step="give a data directory or one of its partitions"
        )
    if _names(root, ".log", *_TABLES):
        checks = [check_partition(root)]
    else:
        found = sorted(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
        known = {str(key) for key, offset in _rows(root, RECOVERY_POINTS).items() if offset > 0}
        lost = {name for name in known if not any(f"{one}.".startswith(f"{name}.") for one in found)}
        checks = [
            check_partition(path)
            for name in found
            if _names(path := os.path.join(root, name), ".log", *_TABLES) or name in known
        ]
        checks += [
            PartitionCheck(name, 0, 0, 0, 0, "its directory is missing", True) for name in sorted(lost)
        ]
    rows = [check._asdict() for check in checks]
    show(args, "log.partitions", rows, ["partition", "segments", "batches", "records", "bytes", "problem"])
    return Exit.DAMAGED if any(check.damaged for check in checks) else Exit.OK


def check_partition(path: str) -> PartitionCheck:
    """`check_partition("barnabas-data/greetings-0")` -> PartitionCheck."""
    batches = records = size = 0
    next_offset: Offset = NO_OFFSET
    epoch: Epoch = NO_EPOCH
    problem: str | None = None
    damaged = False
    segments = _names(path, ".log")
    ends: dict[Offset, Offset] = {}
    for number, name in enumerate(segments):
        full = os.path.join(path, name)
        end = 0
        bad: str | None = None
        with open(full, "rb") as file:
            for batch in file_batches(file):
                header = batch.header
                if bad is not None:  # a good batch after a bad one: no crash leaves that
                    damaged = True
                if not check_crc(batch.raw, 0, header):
                    bad = f"{name}: CRC of the batch at offset {header.base_offset} is wrong"
                elif wrong := misfit(header, next_offset, _END, epoch):
                    bad, damaged = f"{name}: {wrong}", True
                problem = problem or bad
                epoch = header.leader_epoch
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
        ends[base_of(name)] = next_offset if end else base_of(name)
    if problem is not None and not damaged:
        problem += " (a crash's torn end; the node cuts it off)"
    if (missing := _missing(path, ends)) is not None:
        problem, damaged = (problem if damaged and problem else missing), True
    return PartitionCheck(
        os.path.basename(path.rstrip("/")), len(segments), batches, records, size, problem, damaged
    )


def _missing(path: str, ends: Mapping[Offset, Offset]) -> str | None:
    """Files that are missing, by the files that are there; `ends`: where each segment ends, by its base."""
    bases = sorted(ends)
    root, name = os.path.split(path.rstrip("/"))
    found = _PARTITION.fullmatch(name)
    key = TopicPartition(found[1], int(found[2])) if found else TopicPartition(name, 0)
    first = _rows(root, LOG_STARTS).get(key, _END)
    durable = _rows(root, RECOVERY_POINTS).get(key, 0)
    compacted = _rows(root, CLEANER_OFFSETS).get(key, 0)
    deleted = {base_of(one) for one in os.listdir(path) if one.endswith(".deleted")}
    if bases and first < bases[0] and not any(base < bases[0] for base in deleted):
        return f"the segments from offset {first} up to {bases[0]} are missing"
    for base, after in pairwise(bases):
        if ends[base] < after and not (base < compacted and ends[base] > base):
            return f"{file_name(base, '.log')} ends at offset {ends[base]}, the next begins at {after}"
    for one in _names(path, *_TABLES):
        base = base_of(one)
        if bases and bases[0] < base < bases[-1] and base not in bases and base not in deleted:
            return f"{file_name(base, '.log')} is missing"
    for base in bases[:-1]:
        if _last_position(path, base) >= os.path.getsize(os.path.join(path, file_name(base, ".log"))) > 0:
            return f"{file_name(base, '.log')} is shorter than its index says"
    end = ends[bases[-1]] if bases else 0
    if end < durable:
        return f"everything up to offset {durable} was synced, what is there ends at {end}"
    return None


def _last_position(path: str, base: Offset) -> int:
    """Where the last row of a segment's offset index points; -1 without rows."""
    index = os.path.join(path, file_name(base, ".index"))
    if not os.path.exists(index) or os.path.getsize(index) < OFFSET_ROW:
        return -1
    with open(index, "rb") as file:
        file.seek(-OFFSET_ROW, os.SEEK_END)
        return int.from_bytes(file.read(OFFSET_ROW)[4:], "big", signed=True)


def _rows(root: str, name: str) -> Mapping[TopicPartition, Offset]:
    """A checkpoint of a data directory; nothing where it is none, or cannot be read."""
    try:
        return read_offsets(OsDisk(), os.path.join(root, name))
    except StorageError:
        return {}


def _names(path: str, *suffixes: str) -> list[str]:
    """The files of segments that end in one of these."""
    return sorted(
        name for name in os.listdir(path) if name.endswith(suffixes) and name.partition(".")[0].isdecimal()
    )
