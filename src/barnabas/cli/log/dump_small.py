"""The small files beside a segment as text: indexes, aborted transactions, producers; as DumpLogSegments does.

What an index says is compared with the log beside it; mismatches go to stderr.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import TextIO

from barnabas.cli.log.file_batches import FileBatch, file_batches
from barnabas.log.producers.snapshot import decode_producers

__all__ = ["offset_index", "producer_snapshot", "time_index", "transaction_index"]

_OFFSET_ENTRY = struct.Struct(">ii")  # offset relative to the segment's, position
_TIME_ENTRY = struct.Struct(">qi")  # timestamp, relative offset
_ABORTED = struct.Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset


def offset_index(path: str, out: TextIO, err: TextIO) -> None:
    """`offset: N position: P` per entry, compared with the batch at that position."""
    base = _base_offset(path)
    entries = [(base + relative, position) for relative, position in _entries(path, _OFFSET_ENTRY)]
    positions = {batch.position: batch for batch in _batches_beside(path)}
    if not entries:
        out.write(f"{path} is empty.\n")
    mismatches: list[tuple[int, int]] = []
    for number, (offset, position) in enumerate(entries):
        if offset == base and number > 0:
            return  # an open segment's index is filled up with zeros
        out.write(f"offset: {offset} position: {position}\n")
        batch = positions.get(position)
        if batch is not None and batch.header.last_offset != offset and offset != base:
            mismatches.append((offset, batch.header.last_offset))
    if mismatches:
        err.write(f"Mismatches in :{os.path.abspath(path)}\n")
        for offset, found in mismatches:
            err.write(f"  Index offset: {offset}, log offset: {found}\n")


def time_index(path: str, out: TextIO, err: TextIO) -> None:
    """`timestamp: T offset: N` per entry, compared with the batch that holds that offset."""
    base = _base_offset(path)
    batches = list(_batches_beside(path))
    mismatches: list[str] = []
    disordered: list[str] = []
    missing: list[str] = []
    before = -1
    at = 0
    for number, (timestamp, relative) in enumerate(_entries(path, _TIME_ENTRY)):
        offset = base + relative
        if offset == base and number > 0:
            break  # an open segment's index is filled up with zeros
        while at < len(batches) and batches[at].header.last_offset < offset:
            at += 1
        if at == len(batches):
            missing.append(f"Indexed offset: {offset}, found log offset: -1")
        elif batches[at].header.last_offset != offset:
            found = batches[at].header.last_offset
            missing.append(f"Indexed offset: {offset}, found log offset: {found}")
        elif batches[at].header.max_timestamp != timestamp:
            real = batches[at].header.max_timestamp
            mismatches.append(f"  Index timestamp: {timestamp}, log timestamp: {real}")
        if before >= timestamp:
            disordered.append(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}")
        out.write(f"timestamp: {timestamp} offset: {offset}\n")
        before = timestamp
    where = os.path.abspath(path)
    for title, lines in (
        (f"Found timestamp mismatch in :{where}", mismatches),
        (f"Found out of order timestamp in :{where}", disordered),
        (f"The following indexed offsets are not found in :{where}", missing),
    ):
        if lines:
            err.write("\n".join([title, *lines]) + "\n")


def transaction_index(path: str, out: TextIO) -> None:
    """The aborted transactions of a segment."""
    for version, producer, first, last, stable in _entries(path, _ABORTED):
        out.write(
            f"version: {version} producerId: {producer} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}\n"
        )


def producer_snapshot(path: str, out: TextIO) -> None:
    """The idempotent producers that a log knew at some offset."""
    with open(path, "rb") as file:
        content = file.read()
    for entry in decode_producers(content):
        began = entry.first_offset_of_transaction
        out.write(
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if began < 0 else f'OptionalLong[{began}]'} "
            f"lastTimestamp: {entry.timestamp} "
        )
        if entry.last_sequence >= 0:
            out.write(
                f"firstSequence: {entry.last_sequence - entry.offset_delta} "
                f"lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
                f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        out.write("\n")


def _base_offset(path: str) -> int:
    return int(os.path.basename(path).split(".")[0])


def _entries(path: str, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    with open(path, "rb") as file:
        while len(chunk := file.read(entry.size)) == entry.size:
            yield entry.unpack(chunk)


def _batches_beside(path: str) -> Iterator[FileBatch]:
    """The batches of the log that an index belongs to."""
    with open(os.path.splitext(path)[0] + ".log", "rb") as file:
        yield from file_batches(file)
