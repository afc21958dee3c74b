"""The proof: what came out at the end is what the data set says, and nothing else.

Two results are held against the answer computed straight from the file: the rows that the streaming query
wrote, read back one by one from the Parquet files in Spark's commit log (every row number once; flights and
delays per key and per carrier and hour), and the table that Spark computed from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from barnabas.errors import BarnabasError
from barnabas.pipeline.jobs.flights import COLUMNS, Delays, FlightsAnswer, answer_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["committed_files", "differences", "spark_cells"]


def committed_files(directory: str) -> list[str]:
    """The Parquet files that a streaming query committed to a directory (its `_spark_metadata` log)."""
    log = os.path.join(directory, "_spark_metadata")
    try:
        names = [name for name in os.listdir(log) if name.removesuffix(".compact").isdigit()]
    except OSError as error:
        raise BarnabasError(f"the streaming query wrote nothing: {error}") from error
    files: set[str] = set()
    for name in names:
        with open(os.path.join(log, name), encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines.read().splitlines()[1:]]
        files |= {os.path.basename(entry["path"]) for entry in entries if entry["action"] == "add"}
    return sorted(os.path.join(directory, name) for name in files)


def rows_written(directory: str) -> Iterator[pa.RecordBatch]:
    """The committed rows, in batches."""
    import pyarrow.parquet as parquet

    for path in committed_files(directory):
        yield from parquet.ParquetFile(path).iter_batches(columns=list(COLUMNS))


def spark_cells(spark: dict[str, Any]) -> dict[tuple[str, int], Delays]:
    """The table by carrier and hour as Spark computed it."""
    return {(carrier, hour): Delays(*rest) for carrier, hour, *rest in spark["cells"]}


def differences(output: str, spark: dict[str, Any], expected: FlightsAnswer) -> list[str]:
    """In words, where either result is not the expected one; empty: proven."""
    found = answer_of(rows_written(os.path.join(output, "flights"))).differences(expected)
    keys = {key: Delays(*rest) for key, *rest in spark["keys"]}
    if spark_cells(spark) != expected.cells:
        found.append("Spark's table by carrier and hour is not the expected one")
    if keys != expected.keys:
        found.append("Spark's table by key is not the expected one")
    return found
