"""`NNN.snapshot`: what was known of producers when the log ended at offset NNN.

Kafka's format, version 1: int16 version, uint32 CRC-32C of what follows, int32 count, then per producer
{int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp,
int32 coordinator epoch, int64 first offset of the open transaction or -1}.

Apache Kafka writes one row per producer: only its last batch survives a restart, and a producer that had
several in flight when its leader was restarted finds the earlier ones refused as out of order.  We write a
row per batch that is remembered, the newest last; Kafka takes the last row of a producer, as if it were the
only one.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from barnabas.errors import CorruptRecordError
from barnabas.model import Epoch, Offset, ProducerId

__all__ = ["SnapshotRow", "decode_producers", "encode_producers"]

_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ROW = Struct(">qhiqiqiq")
_VERSION = 1


class SnapshotRow(NamedTuple):
    """One batch of a producer in a snapshot; sequence and offsets -1 when no data of it is in the log."""

    producer_id: ProducerId
    epoch: Epoch
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int
    coordinator_epoch: Epoch
    first_offset_of_transaction: Offset


def encode_producers(rows: Iterable[SnapshotRow]) -> bytes:
    """The bytes of a snapshot file."""
    packed = [_ROW.pack(*row) for row in rows]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_producers(raw: bytes) -> list[SnapshotRow]:
    """Read a snapshot file.  Raises CorruptRecordError when its bytes are not what it claims."""
    if len(raw) < _HEAD.size + _COUNT.size:
        raise CorruptRecordError(f"a producer snapshot of {len(raw)} bytes is too short")
    version, crc = _HEAD.unpack_from(raw)
    if version != _VERSION:
        raise CorruptRecordError(f"producer snapshot version {version} is not known")
    body = raw[_HEAD.size :]
    if crc32c(body) != crc:
        raise CorruptRecordError("the CRC of a producer snapshot is wrong")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or _COUNT.size + count * _ROW.size != len(body):
        raise CorruptRecordError(f"a producer snapshot claims {count} rows in {len(body)} bytes")
    return [SnapshotRow(*row) for row in _ROW.iter_unpack(body[_COUNT.size :])]
