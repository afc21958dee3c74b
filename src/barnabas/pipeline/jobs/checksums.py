"""What a partition's records come to: how many, from where to where, and a checksum of their contents in order.

A task sees runs of a partition's records; runs are joined by their offsets.  The checksum of a run is
sum(hash[i] * B ** (n - 1 - i)) modulo 2 ** 64 over the hashes of its n records: it changes when a record
changes, is missing, is twice or stands elsewhere, and joining two runs needs no record.  Offsets are not in it,
for a restored topic has other ones (the ends of transactions take offsets, too).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RUN_SCHEMA", "Run", "join_runs", "run_of_row", "runs_of"]

_BASE = 0x9E3779B97F4A7C15 ^ 0x6
"""Odd, and 3 modulo 4, so that _BASE - 1 has the factor 2 only once."""
_MODULUS = 1 << 64

RUN_SCHEMA = "topic string, partition int, first long, last long, records long, checksum long"
"""Of the rows that `runs_of` gives to Spark."""


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one partition, one after the other: offsets of the first and last, count, checksum."""

    where: TopicPartition
    first: int
    last: int
    records: int
    checksum: int

    def joined(self, after: Run) -> Run:
        """This run and one after it, as one."""
        checksum = (self.checksum * pow(_BASE, after.records, _MODULUS) + after.checksum) % _MODULUS
        return Run(self.where, self.first, after.last, self.records + after.records, checksum)


def join_runs(runs: Iterable[Run]) -> dict[TopicPartition, Run]:
    """One run for each partition.  Raises BarnabasError where two overlap: they were not read from one log."""
    found: dict[TopicPartition, Run] = {}
    for run in sorted(runs, key=lambda run: (run.where, run.first)):
        before = found.get(run.where)
        if before is not None and run.first <= before.last:
            raise BarnabasError(f"{run.where}: offset {run.first} was read twice")
        found[run.where] = run if before is None else before.joined(run)
    return found


def runs_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of a task's rows (topic, partition, offset, hash) the runs, as rows of RUN_SCHEMA.  For mapInArrow."""
    import pyarrow as pa

    runs: list[Run] = []
    for batch in batches:
        for run in _runs(batch):
            last = runs[-1] if runs else None
            if last is not None and last.where == run.where and last.last < run.first:
                runs[-1] = last.joined(run)
            else:
                runs.append(run)
    columns: list[pa.Array] = [
        pa.array([run.where.topic for run in runs], pa.string()),
        pa.array([run.where.partition for run in runs], pa.int32()),
        pa.array([run.first for run in runs], pa.int64()),
        pa.array([run.last for run in runs], pa.int64()),
        pa.array([run.records for run in runs], pa.int64()),
        pa.array([_signed(run.checksum) for run in runs], pa.int64()),
    ]
    names = ["topic", "partition", "first", "last", "records", "checksum"]
    yield pa.RecordBatch.from_arrays(columns, names=names)


def run_of_row(row: Any) -> Run:
    """A row of RUN_SCHEMA that came back from Spark."""
    where = TopicPartition(row["topic"], row["partition"])
    return Run(where, row["first"], row["last"], row["records"], row["checksum"] % _MODULUS)


def _signed(value: int) -> int:
    return value - _MODULUS if value >= _MODULUS >> 1 else value


def _runs(batch: pa.RecordBatch) -> Iterator[Run]:
    """The runs within one batch: cut where the partition changes or offsets do not grow."""
    import numpy as np

    if not batch.num_rows:
        return
    topics = batch.column("topic").to_pylist()
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    hashes = batch.column("hash").to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    other = np.array(
        [before is not after and before != after for before, after in itertools.pairwise(topics)]
    )
    cuts = np.flatnonzero(
        (partitions[1:] != partitions[:-1]) | (offsets[1:] <= offsets[:-1]) | other.astype(bool)
    )
    edges = [0, *(int(cut) + 1 for cut in cuts), batch.num_rows]
    powers = _powers(max(after - before for before, after in itertools.pairwise(edges)))
    for begin, end in itertools.pairwise(edges):
        checksum = int((hashes[begin:end] * powers[len(powers) - (end - begin) :]).sum(dtype=np.uint64))
        where = TopicPartition(topics[begin], int(partitions[begin]))
        yield Run(where, int(offsets[begin]), int(offsets[end - 1]), end - begin, checksum)


def _powers(count: int) -> Any:
    """_BASE ** (count - 1), ..., _BASE, 1, modulo 2 ** 64."""
    import numpy as np

    factors = np.full(count, _BASE, dtype=np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors, dtype=np.uint64)[::-1]
