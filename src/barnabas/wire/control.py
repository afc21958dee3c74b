"""Control records: the only records whose key gives their type.

Key: version (int16) and type (int16). Value: a message; a transaction marker's value starts with its version
(int16), the quorum's have it as their first field.  A reader skips types that it does not know.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from barnabas.errors import WireError
from barnabas.wire.codec.message import Message, decode, encode
from barnabas.wire.records import Record
from barnabas.wire.schemas.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

__all__ = [
    "ControlType",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
    "control_type",
    "read_control",
    "write_control",
]

_KEY = struct.Struct(">hh")


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_MESSAGES: dict[ControlType, type[Message]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def control_type(key: bytes | None) -> ControlType | None:
    """The type that a control record's key names; None for one we do not know.  Raises WireError."""
    if key is None or len(key) < _KEY.size:
        raise WireError(f"a control record has the key {key!r}")
    version, type_ = _KEY.unpack_from(key)
    if version < 0:
        raise WireError(f"a control record has the version {version}")
    try:
        return ControlType(type_)
    except ValueError:
        return None


def read_control(record: Record) -> tuple[ControlType | None, Message | None]:
    """The type of a control record and its message; (None, None) for a type we do not know.

    Raises WireError when it is malformed.
    """
    type_ = control_type(record.key)
    if type_ is None:
        return None, None
    cls = _MESSAGES[type_]
    value = record.value or b""
    if len(value) < 2:
        raise WireError(f"a control record of type {type_.name} has no version")
    version = min(int.from_bytes(value[:2], "big", signed=True), cls.VERSIONS[1])
    message, _ = decode(cls, value, version, 2 if cls is EndTxnMarker else 0)
    return type_, message


def write_control(type_: ControlType, message: Message, version: int | None = None) -> tuple[bytes, bytes]:
    """Key and value of a control record.

    `version` is the message's own (its first field), where it has one; 0 for a transaction marker.
    """
    if version is None:
        version = getattr(message, "version", 0)
    value = encode(message, version)
    if isinstance(message, EndTxnMarker):
        value = version.to_bytes(2, "big") + value
    return _KEY.pack(0, type_), value
