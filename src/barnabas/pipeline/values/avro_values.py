"""A value that is one Avro datum, there and back.

Reading is ours (`avro_reading`, which is strict); fastavro writes, and reads schemas.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

from barnabas.pipeline.values.avro_reading import resolved
from barnabas.pipeline.values.avro_schemas import Schema, fastavro, parsed
from barnabas.pipeline.values.options import BadValueError

__all__ = ["avro_reader", "avro_writer", "reader_between"]


def avro_reader(text: str) -> Callable[[bytes], dict[str, Any]]:
    """What reads a datum of this schema; it raises BadValueError."""
    schema = parsed(text)
    return reader_between(schema, schema)


def reader_between(writer: Schema, reader: Schema) -> Callable[[bytes], dict[str, Any]]:
    """What reads a datum of one schema as a value of another; it raises BadValueError.  So does this."""
    read_one = resolved(writer, reader)

    def read(data: bytes) -> dict[str, Any]:
        try:
            found: dict[str, Any]
            found, end = read_one(data, 0)
        except (IndexError, struct.error):
            raise BadValueError("it ends before what the Avro schema says") from None
        if end < len(data):
            raise BadValueError(f"{len(data) - end} bytes are left after what the Avro schema says")
        return found

    return read


def avro_writer(text: str) -> Callable[[dict[str, Any]], bytes]:
    """What writes a datum; it raises BadValueError."""
    schema = parsed(text).tree
    write_one = fastavro().schemaless_writer

    def write(row: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        try:
            write_one(stream, schema, row, strict=True)
        except Exception as error:  # what fastavro raises is not one class, and may quote the value
            raise BadValueError(f"it does not fit the Avro schema ({type(error).__name__})") from None
        return stream.getvalue()

    return write
