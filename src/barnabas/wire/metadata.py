"""Reading and writing the records of the metadata log (the classes: `metadata_records`).

In front of each stand three unsigned varints: the frame's version (1), the record's type, its version.
"""

from __future__ import annotations

from typing import Any

from barnabas.errors import WireError
from barnabas.ports import Buffer
from barnabas.wire.codec.message import MetadataRecord, decode, encode
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.registry import record_class
from barnabas.wire.schemas import metadata_records as _records
from barnabas.wire.schemas.metadata_records import *  # noqa: F403  # one door to all of them

__all__ = [*_records.__all__, "read_record", "read_record_version", "write_record"]  # noqa: PLE0604

_FRAME_VERSION = 1


def write_record(message: MetadataRecord, version: int | None = None) -> bytes:
    """The value of a metadata record; `version` is the newest unless given.  Raises WireError."""
    if version is None:
        version = message.VERSIONS[1]
    assert message.KEY is not None
    return b"".join(
        (uvarint(_FRAME_VERSION), uvarint(message.KEY), uvarint(version), encode(message, version))
    )


def read_record(data: Buffer) -> Any:
    """The metadata record in a value.  Raises WireError, also for types and versions we do not know."""
    return read_record_version(data)[0]


def read_record_version(data: Buffer) -> tuple[Any, int]:
    """The same, with the version it was written in."""
    if len(data) > 2 and data[0] == _FRAME_VERSION and data[1] < 128 and data[2] < 128:
        type_, version, position = data[1], data[2], 3  # each takes one byte, as always up to now
    else:
        frame, position = read_uvarint(data, 0)
        if frame != _FRAME_VERSION:
            raise WireError(f"a metadata record has the frame version {frame}, not {_FRAME_VERSION}")
        type_, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    message, end = decode(record_class(type_), data, version, position)
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow a {message.NAME}")
    return message, version
