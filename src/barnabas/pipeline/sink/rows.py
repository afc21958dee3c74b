"""Rows of Spark as records: which columns there are, and their values out of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import NO_TIMESTAMP

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["Row", "check_columns", "rows_of"]

Bytes: TypeAlias = bytes | str | None
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
Row: TypeAlias = tuple[str, Bytes, Bytes, int | None, Headers, int | None, int | None]
"""Topic, value, key, partition, headers, timestamp (ms since 1970), offset where it comes from."""

_TYPES = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
_STRUCT = 'make a struct of the columns: selectExpr("struct(*) AS value")'
_MAP = (
    "make an array of it: transform(map_entries(headers), "
    "one -> struct(one.key AS key, CAST(one.value AS BINARY) AS value)) AS headers"
)
_ORIGIN = {"offset": ("bigint",)}


def check_columns(
    schema: StructType, topic: str | None, *, mapped: bool = False, structs: bool = False
) -> None:
    """Whether rows of this schema can be records.  Raises ConfigError that says what to select.

    `mapped`: with the offsets that they have where they come from.  `structs`: the value is checked elsewhere.
    """
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    types = _TYPES | _ORIGIN if mapped else _TYPES
    if mapped and "offset" not in found:
        raise ConfigError("offsetMap needs the column offset", next_step="select that of the source, too")
    if len(found) < len(schema.fields):
        twice = next(name for name in found if schema.names.count(name) > 1)
        raise ConfigError(f"there are two columns {twice}", next_step=f"select one of them as {twice}")
    for name, type_ in found.items():
        if name not in types and (meant := name.lower()) in types:
            raise ConfigError(
                f"the sink has no column {name}: it writes {meant}",
                next_step=f'rename it: selectExpr(..., "{name} AS {meant}")',
            )
        if name not in types:
            raise ConfigError(
                f"the sink has no column {name}: it writes {', '.join(types)}",
                next_step=_STRUCT
                if structs
                else 'put it into the value, for example with selectExpr("to_json(struct(*)) AS value")',
            )
        if type_ not in types[name] and not (structs and name == "value"):
            raise ConfigError(
                f"the column {name} is {type_}, not {' or '.join(types[name])}",
                next_step=_MAP
                if (name, type_[:4]) == ("headers", "map<")
                else f"cast it: {_cast(name, types[name][0])}",
            )
    if "value" not in found:
        raise ConfigError(
            "there is no column value",
            next_step=_STRUCT if structs else "select one as value, binary or string",
        )
    if topic is None and "topic" not in found:
        raise ConfigError(
            "nothing says where the rows go", next_step='give .option("topic", ...) or a column topic'
        )


def _cast(name: str, type_: str) -> str:
    return f"CAST({name} AS {type_.upper() if type_.isalpha() else type_})"


def rows_of(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[Row]:
    """The rows as records; `topic` is where all of them go, None: their column says it."""
    for batch in batches:
        columns = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
        yield from _rows(columns, batch.num_rows, topic)


def _rows(columns: dict[str, pa.Array], count: int, topic: str | None) -> Iterator[Row]:
    def listed(name: str) -> list[Any]:
        return columns[name].to_pylist() if name in columns else [None] * count

    stamps = [None] * count
    if "timestamp" in columns:
        import pyarrow as pa

        stamps = columns["timestamp"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist()
    topics = listed("topic") if topic is None else [topic] * count
    for where, value, key, partition, headers, stamp, origin in zip(
        topics,
        listed("value"),
        listed("key"),
        listed("partition"),
        listed("headers"),
        stamps,
        listed("offset"),
        strict=True,
    ):
        if where is None:
            raise BarnabasError(
                "a row has no topic", next_step='filter such rows out, or give .option("topic", ...)'
            )
        if (
            stamp is not None and stamp < NO_TIMESTAMP
        ):  # (a record without one has -1: it is written so again)
            raise BarnabasError(
                f"a row has a timestamp before 1970 ({stamp} ms)",
                next_step="leave the column timestamp out, or null: then it is that of the writing",
            )
        if headers and not all(one and one["key"] is not None for one in headers):
            raise BarnabasError("a row has a header without a key", next_step="filter such headers out")
        pairs = tuple((one["key"], one["value"]) for one in headers or ())
        yield where, value, key, partition, pairs, stamp, origin
