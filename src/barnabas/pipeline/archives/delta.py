"""An archive as a Delta table: the same Parquet files, listed in a Delta log beside Spark's own list.

    barnabas pipeline run archive 127.0.0.1:9092/flights /data/archive --format delta
    DeltaTable("/data/archive/records").to_pandas()            # or DuckDB, Polars, Spark with Delta's jar

The files are those that whole micro-batches wrote (`file_log`), so a row is in the table once or not yet.  Each
commit adds the files that the table does not have, and is whole or not there: a run that was cut off adds the rest
the next time.  `deltalake` writes the log; no jar, no Java.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from barnabas.errors import BarnabasError
from barnabas.extras import library
from barnabas.pipeline.archives.directory import ArchiveDirectory
from barnabas.pipeline.archives.file_log import LISTED, DamagedArchiveError, damaged, newest_batch

__all__ = ["DeltaLog"]

_COLUMNS = ("offset", "timestamp")
"""Those whose smallest and largest values the log has, so that readers pass over files."""
_PARTITIONED = ["topic", "partition"]


class DeltaLog:
    """`DeltaLog(place).add_new()` after micro-batches; raises BarnabasError where deltalake is not installed."""

    def __init__(self, place: ArchiveDirectory) -> None:
        self._place = place
        self._library = library("deltalake", of="--format delta", extra="delta")
        self._newest = -1
        """The micro-batch up to which the table was looked at."""

    @staticmethod
    def is_there(place: ArchiveDirectory) -> bool:
        """Whether an archive is a Delta table already."""
        return os.path.isdir(os.path.join(place.records, "_delta_log"))

    def __repr__(self) -> str:
        return f"<DeltaLog {self._place.records}>"

    def add_new(self) -> int:
        """Add the files of whole micro-batches that the table does not have; how many.  Raises BarnabasError."""
        if not self._place.check_list():
            return 0
        batch = newest_batch(self._place.records, LISTED)
        if batch == self._newest:
            return 0
        paths = self._place.files()
        table = self._table()
        known = set() if table is None else {unquote(path) for path in self._paths(table)}
        mine = {os.path.relpath(path, self._place.records): path for path in paths}
        if strange := sorted(known - mine.keys()):
            raise DamagedArchiveError(
                f"the Delta table {self._place.records} has {strange[0]}, which the archive has not",
                next_step="it was changed by somebody else: remove its _delta_log, and run the archive again",
            )
        if new := sorted(mine.keys() - known):
            self._commit(table, [(name, mine[name]) for name in new], batch)
        self._newest = batch
        return len(new)

    def _table(self) -> Any:
        try:
            if not self._library.DeltaTable.is_deltatable(self._place.records):
                return None
            return self._library.DeltaTable(self._place.records)
        except self._library.exceptions.DeltaError as error:
            raise self._failed(error) from None

    def _paths(self, table: Any) -> list[str]:
        import pyarrow as pa

        return [str(path) for path in pa.table(table.get_add_actions()).column("path").to_pylist()]

    def _commit(self, table: Any, files: list[tuple[str, str]], batch: int) -> None:
        """One commit.  (Where another one was faster, deltalake refuses: one driver writes an archive.)"""
        from deltalake.transaction import CommitProperties, Transaction, create_table_with_add_actions

        actions = [self._action(name, path) for name, path in files]
        said = CommitProperties(
            custom_metadata={"barnabas.batch": str(batch)}, app_transactions=[Transaction("barnabas", batch)]
        )
        schema = _schema(files[0][1])
        try:
            if table is None:
                create_table_with_add_actions(
                    self._place.records,
                    schema,
                    actions,
                    partition_by=_PARTITIONED,
                    commit_properties=said,
                )
            else:
                table.create_write_transaction(
                    actions, "append", schema, partition_by=_PARTITIONED, commit_properties=said
                )
        except (OSError, self._library.exceptions.DeltaError) as error:
            raise self._failed(error) from None

    def _action(self, name: str, path: str) -> Any:
        from deltalake.transaction import AddAction

        folders = dict(part.split("=", 1) for part in name.split("/")[:-1])
        try:
            found = os.stat(path)
            return AddAction(
                name,
                found.st_size,
                {key: unquote(folders[key]) for key in _PARTITIONED},
                int(found.st_mtime * 1000),
                True,
                _statistics(path),
            )
        except (OSError, KeyError) as error:
            raise damaged(path, error) from error

    def _failed(self, error: Exception) -> BarnabasError:
        said = " ".join(str(error).split())[:300]
        return BarnabasError(
            f"the Delta table {self._place.records}: {said}",
            next_step="the Parquet files are whole: run the same command again, it adds what the table lacks",
        )


def _schema(path: str) -> Any:
    """The table's columns: those of the files, and the two that are in their paths."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import Schema

    fields = [
        pa.field(field.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else field.type)
        for field in pq.read_schema(path).remove_metadata()
    ]
    return Schema.from_arrow(
        pa.schema([*fields, pa.field("topic", pa.string()), pa.field("partition", pa.int32())])
    )


def _statistics(path: str) -> str:
    """What the footer says, in Delta's JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(path)
        names = footer.schema.to_arrow_schema().names
        least, most = {}, {}
        for name in _COLUMNS:
            parts = [
                footer.row_group(number).column(names.index(name)).statistics
                for number in range(footer.num_row_groups)
            ]
            if parts and all(part is not None and part.has_min_max for part in parts):
                with suppress(OverflowError):  # after the year 9999: readers look into such a file
                    bounds = _text(min(part.min for part in parts)), _text(max(part.max for part in parts))
                    least[name], most[name] = bounds
        return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": most})
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, error) from error


def _text(value: Any) -> Any:
    return (
        value
        if isinstance(value, int)
        else f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    )
