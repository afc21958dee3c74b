"""Spark reads an archive in the order of its offsets: a batch, or a stream whose micro-batches are repeatable.

    spark.dataSource.register(ArchiveSource)
    spark.readStream.format("barnabas-archive").option("index", PATH).load()

Spark's own reader of Parquet files knows no order.  Here one task reads the files of one partition, one after
the other, and a micro-batch that is run again has the same rows: so a sink that writes exactly once restores a
topic exactly once.  `index` is a file that `index.write_index` wrote.
"""

# ruff: noqa: N802 (the names of the methods are Spark's)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.errors import ConfigError
from barnabas.pipeline.archives.file_log import damaged
from barnabas.pipeline.archives.index import ArchivedFile, FilesInOrder, read_index
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.options import COLUMNS
from barnabas.pipeline.plain_errors import plainly

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArchiveSource", "admit_files"]

_ROWS = 10_000
"""Of one Arrow batch."""
_TASK_ROWS = 250_000
"""A task of a batch reads files of so many rows, or one."""


class ArchiveSource(DataSource):
    """`spark.read.format("barnabas-archive")`, once it is registered."""

    @classmethod
    def name(cls) -> str:
        return "barnabas-archive"

    def schema(self) -> str:
        return ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        return ArchiveReader(_index(self.options))

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        rows = self.options.get("maxRowsPerTrigger", "200000")
        if not rows.isdecimal():
            raise ConfigError(f"maxRowsPerTrigger={rows}: it is a whole number")
        return ArchiveStreamReader(_index(self.options), int(rows))


def _index(options: Mapping[str, str]) -> FilesInOrder:
    path = options.get("index")
    if path is None:
        raise ConfigError("the option index is missing", next_step="name the file that write_index wrote")
    return FilesInOrder(read_index(path))


@dataclass(frozen=True)
class Files(InputPartition):
    """The part of one task: files of one partition, by offset."""

    files: tuple[ArchivedFile, ...]


def admit_files(files: FilesInOrder, start: Offsets, rows: int | None) -> Offsets:
    """Where a micro-batch from `start` ends: a file of each partition in turn, until there are so many rows."""
    ends = dict(start)
    left, total = files.partitions(), 0
    while left and (rows is None or total < rows):
        for where in list(left):
            file = files.first_from(where, ends.get(where, 0))
            if file is None:
                left.remove(where)
                continue
            ends[where] = file.last + 1
            total += file.records
            if rows is not None and total >= rows:
                break
    return ends


def _read(part: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(part, Files):
        for file in part.files:
            yield from _read_file(file)


def _read_file(file: ArchivedFile) -> Iterator[pa.RecordBatch]:
    """The rows of one file.  Raises DamagedArchiveError where they are not those of the index, or out of order."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    before, rows = file.first - 1, 0
    try:
        with pq.ParquetFile(file.path, page_checksum_verification=True) as parquet:
            for batch in parquet.iter_batches(_ROWS):
                offsets = batch.column("offset").to_numpy(zero_copy_only=False)
                if offsets[0] <= before or (offsets[1:] <= offsets[:-1]).any():
                    raise ValueError(f"its offsets are out of order after {before}")
                before, rows = int(offsets[-1]), rows + batch.num_rows
                columns = {
                    "topic": pa.repeat(file.topic, batch.num_rows),
                    "partition": pa.repeat(pa.scalar(file.partition, pa.int32()), batch.num_rows),
                }
                for name in COLUMNS.keys() - columns.keys():
                    columns[name] = batch.column(name)
                columns["timestamp"] = pc.cast(columns["timestamp"], pa.timestamp("us", "UTC"))
                yield pa.RecordBatch.from_arrays([columns[name] for name in COLUMNS], names=list(COLUMNS))
        if (before, rows) != (file.last, file.records):
            raise ValueError(
                f"it has {rows} rows up to offset {before}, not {file.records} up to {file.last}"
            )
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise damaged(file.path, error) from error


class ArchiveReader(DataSourceReader):
    """Reads all files once, each partition in its order."""

    def __init__(self, files: FilesInOrder) -> None:
        self.files = files

    def partitions(self) -> list[InputPartition]:
        parts: list[InputPartition] = []
        taken: list[ArchivedFile] = []
        for file in self.files.all():
            if taken and (taken[0].where != file.where or sum(one.records for one in taken) >= _TASK_ROWS):
                parts.append(Files(tuple(taken)))
                taken = []
            taken.append(file)
        return [*parts, Files(tuple(taken))] if taken else parts

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(partition)


class ArchiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files a few at a time; positions are the offsets of the archived topic."""

    def __init__(self, files: FilesInOrder, rows: int) -> None:
        self.files = files
        self.rows = rows

    def prepareForTriggerAvailableNow(self) -> None:
        pass  # the index does not change

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.rows)

    def initialOffset(self) -> dict[str, Any]:
        return Positions(dict.fromkeys(self.files.partitions(), 0), {}).tree()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = None if isinstance(limit, ReadAllAvailable) else self.rows
        return Positions(admit_files(self.files, Positions.read(start).offsets, most), {}).tree()

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun, ends = Positions.read(start).offsets, Positions.read(end).offsets
        found = [self.files.between(where, begun.get(where, 0), ends[where]) for where in sorted(ends)]
        return [Files(tuple(files)) for files in found if files]

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(partition)
