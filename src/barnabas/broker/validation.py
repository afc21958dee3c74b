"""What a produced batch must be before it may enter a log.

Two depths.  The header is always looked at (`check_header`; the CRC with it): it says almost everything, in
constant time.  The records inside are only looked at where they can change the answer (`must_read`): a
compacted topic needs keys, a topic with a limit on old timestamps needs every timestamp, another codec
needs them anyway, and a header that names a time too far in the future deserves an answer that says which
record it was.  A setting makes it always.

The rows that the comments name are those of the order of checks of Apache Kafka's produce path.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack_into

from crc32c import crc32c

from barnabas.broker.partition import Partition
from barnabas.config import LogConfig
from barnabas.doors import Buffer
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, WireError
from barnabas.model import NO_TIMESTAMP, Now
from barnabas.wire.records import (
    BatchHeader,
    Record,
    check_crc,
    read_batch_header,
    read_records,
    write_batch,
)

__all__ = [
    "RefusedError",
    "check_content",
    "check_shape",
    "must_read",
    "plain_header",
    "read_and_check",
    "restamp",
]

_MAGIC_AT = 16
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_CRC_AT = 17
_HEADER_SIZE = 61
_SMALLEST_LENGTH = 14
_SHOWN = 3
_FIELDS = Struct(">qiibIhiqqqhii").unpack_from
_new = tuple.__new__


class RefusedError(KafkaError):
    """A batch that may not enter the log; `records` are the culprits as (index, what is wrong)."""

    def __init__(self, code: ErrorCode, message: str, records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, message)
        self.records = records


def check_shape(records: Buffer | None, version: int) -> BatchHeader:
    """Row 5: exactly one batch of magic 2, and no codec that this version of Produce may not carry.

    Stricter than Apache Kafka in one point: bytes behind the batch that are too few for another one are
    refused, not dropped.  Raises RefusedError (INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE,
    CORRUPT_MESSAGE).
    """
    if records is None or len(records) < _HEADER_SIZE or records[_MAGIC_AT] != 2:
        raise _shapeless(records)
    try:
        header = read_batch_header(records)
    except (CorruptRecordError, WireError) as error:
        raise RefusedError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    size = header.batch_length + 12
    if size != len(records):
        if size > len(records):
            raise RefusedError(ErrorCode.INVALID_RECORD, f"a batch of {size} bytes, cut at {len(records)}")
        raise RefusedError(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    codec = header.attributes & 7
    if codec >= 4 and (codec > 4 or version < 7):
        raise RefusedError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"codec {codec} is unknown to version {version} of Produce",
        )
    return header


def _shapeless(records: Buffer | None) -> RefusedError:
    """Why these bytes are no batch, in the order in which Apache Kafka finds out."""
    if records is None or len(records) == 0:
        return RefusedError(ErrorCode.INVALID_RECORD, "no batch for the partition")
    if len(records) >= 12 and int.from_bytes(records[8:12], "big", signed=True) < _SMALLEST_LENGTH:
        return RefusedError(ErrorCode.CORRUPT_MESSAGE, "a batch that is shorter than any can be")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != 2:
        magic = records[_MAGIC_AT]
        code = ErrorCode.INVALID_RECORD if magic < 2 else ErrorCode.CORRUPT_MESSAGE
        return RefusedError(code, f"a batch of magic {magic}; only 2 is taken")
    return RefusedError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are too few for a batch")


def check_content(records: Buffer, header: BatchHeader, config: LogConfig) -> None:
    """Rows 12 and 13: base offset, size, CRC, count, no control batch, a sequence where there is a producer.

    Raises RefusedError (INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE).
    """
    base, _, _, _, crc, attributes, last_delta, _, _, producer, _, sequence, count = header
    if (
        base != 0
        or count <= 0
        or last_delta + 1 != count
        or len(records) > config.max_message_bytes
        or attributes & 0x20
        or (producer >= 0 and sequence < 0)
        or crc32c(memoryview(records)[_ATTRIBUTES_AT:]) != crc
    ):
        raise _refuse_content(records, header, config)


def _refuse_content(records: Buffer, header: BatchHeader, config: LogConfig) -> RefusedError:
    """Something is wrong; what, in the order of the rows."""
    if header.base_offset != 0:
        return RefusedError(
            ErrorCode.INVALID_RECORD, f"a batch of a producer starts at 0, not {header.base_offset}"
        )
    if len(records) > config.max_message_bytes:
        return RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(records)} bytes; max.message.bytes is {config.max_message_bytes}",
        )
    if not check_crc(records, 0, header):
        return RefusedError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        return RefusedError(
            ErrorCode.INVALID_RECORD,
            f"{header.count} records that end at offset delta {header.last_offset_delta}",
        )
    if header.attributes & 0x20:
        return RefusedError(ErrorCode.INVALID_RECORD, "a producer may not write control records")
    return RefusedError(
        ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent the sequence {header.base_sequence}"
    )


def plain_header(records: memoryview, most_codec: int, partition: Partition, now: Now) -> BatchHeader | None:
    """The header of a batch that `check_shape` and `check_content` accept and nobody `must_read`.

    All their conditions in one place and in the cheapest order; None when one of them does not hold.
    `records` has at least the bytes of a header.
    """
    fields = _FIELDS(records)
    base, length, _, magic, crc, attributes, last_delta, _, newest, producer, _, sequence, count = fields
    size = len(records)
    if (
        magic != 2
        or length + 12 != size
        or base != 0
        or count <= 0
        or last_delta + 1 != count
        or not 0 <= attributes <= most_codec
        or size > partition.plain_size
        or newest - now.wall_ms > partition.config.timestamp_after_max_ms
        or (producer >= 0 and sequence < 0)
        or crc32c(records[_ATTRIBUTES_AT:]) != crc
    ):
        return None
    return _new(BatchHeader, fields)


def must_read(partition: Partition, header: BatchHeader, now: Now) -> bool:
    """Whether the records of a batch can change the answer."""
    attributes = header.attributes
    return (
        partition.always_check_records
        or (partition.target_codec >= 0 and attributes & 7 != partition.target_codec)
        or attributes & 8 != 0
        or (
            not partition.log_append_time
            and header.max_timestamp > now.wall_ms + partition.config.timestamp_after_max_ms
        )
    )


def read_and_check(
    records: Buffer, header: BatchHeader, partition: Partition, now: Now
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Rows 14 and 15: read every record, refuse the batch if one is wrong, write it anew where it must be.

    Returns what to append (the same bytes wherever possible) and its header.  Raises RefusedError.
    """
    config = partition.config
    try:
        inside = read_records(records, 0, header, config.max_decompressed_bytes)
    except (CorruptRecordError, WireError) as error:
        raise RefusedError(ErrorCode.INVALID_RECORD, error.message) from error
    if len(inside) != header.count:
        raise RefusedError(ErrorCode.INVALID_RECORD, f"{len(inside)} records; the header says {header.count}")
    wrong, late = _wrong_records(inside, header, config, now)
    if wrong:
        code = ErrorCode.INVALID_TIMESTAMP if late else ErrorCode.INVALID_RECORD
        shown = "; ".join(f"record {index}: {reason}" for index, reason in wrong[:_SHOWN])
        raise RefusedError(code, f"{len(wrong)} of {header.count} records are refused: {shown}", wrong)
    codec = header.codec
    target = codec if partition.target_codec < 0 else partition.target_codec
    contiguous = all(record.offset == index for index, record in enumerate(inside))
    if target == codec and contiguous:
        batch = records if isinstance(records, (bytearray, memoryview)) else bytearray(records)
    else:
        batch = write_batch(
            [record._replace(offset=index) for index, record in enumerate(inside)],
            codec=target,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
        header = read_batch_header(batch)
        if len(batch) > config.max_message_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(batch)} bytes once compressed anew; max.message.bytes is {config.max_message_bytes}",
            )
    if not partition.log_append_time:
        newest = max(record.timestamp for record in inside)
        if header.max_timestamp != newest or header.timestamp_type:
            header = restamp(batch, header, 0, newest)
    return batch, header


def _wrong_records(
    inside: Sequence[Record], header: BatchHeader, config: LogConfig, now: Now
) -> tuple[list[tuple[int, str]], bool]:
    """The records that are refused and why, and whether a timestamp is among the reasons."""
    wrong: list[tuple[int, str]] = []
    late = False
    oldest = now.wall_ms - config.timestamp_before_max_ms
    newest = now.wall_ms + config.timestamp_after_max_ms
    appended = header.timestamp_type == 1
    for index, record in enumerate(inside):
        timestamp = record.timestamp
        if config.compact and record.key is None:
            wrong.append((index, "no key, and the topic is compacted"))
        elif not config.log_append_time and timestamp != NO_TIMESTAMP:
            if not oldest <= timestamp <= newest:
                late = True
                wrong.append((index, f"timestamp {timestamp} is not within [{oldest}, {newest}]"))
        elif appended:
            late = True
            wrong.append((index, "the time of the append is not for a producer to set"))
    return wrong, late


def restamp(
    batch: bytearray | memoryview, header: BatchHeader, timestamp_type: int, max_timestamp: int
) -> BatchHeader:
    """Set timestamp type (0 create, 1 append) and newest timestamp in the batch, and its CRC anew."""
    attributes = header.attributes & ~8 | timestamp_type << 3
    pack_into(">h", batch, _ATTRIBUTES_AT, attributes)
    pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    crc = crc32c(memoryview(batch)[_ATTRIBUTES_AT:])
    pack_into(">I", batch, _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)
