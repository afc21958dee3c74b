"""The checks that a produced batch must pass before it may enter a log.

The header comes first (`check_shape`, `check_content`; the CRC with it), then every record, in one pass that
creates no objects for records (`wire.record_check`). The loop checks small batches at once; a thread checks
large ones, and those that decompress to much, in steps (`replicas.batch_checks`). Both end in
`check_in_steps`.

The rows that the comments name are those of the order of checks in Apache Kafka's produce path.  Where Kafka
answers UNKNOWN_SERVER_ERROR because one of its codecs or conversions threw, so do we.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from struct import pack_into
from typing import NamedTuple

from crc32c import crc32c

from barnabas.broker.replicas.batch_checks import RefusedError
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.replicas.partition_settings import PartitionSettings
from barnabas.config import LogConfig
from barnabas.errors import CorruptRecordError, ErrorCode, UnreadableError, WireError
from barnabas.model import NO_TIMESTAMP, Now
from barnabas.ports import Buffer
from barnabas.wire import walk
from barnabas.wire.compression import Packer, decompress, is_linked, packer, pieces
from barnabas.wire.plane.produce_asked import ProduceRows
from barnabas.wire.record_check import RecordFacts, check_records, walk_records
from barnabas.wire.record_stream import Lengths, check_stream
from barnabas.wire.records import (
    APPEND_TIME,
    CONTROL,
    CRC_COUNTS_FROM,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    check_crc,
    read_batch_header,
    read_records,
    write_batch,
)

__all__ = [
    "LeftToAThread",
    "Rules",
    "all_within",
    "check_at_once",
    "check_content",
    "check_in_steps",
    "check_shape",
    "restamp",
]

RECORDS_AT_ONCE = 2000
RECORDS_WALKED_AT_ONCE = 40_000 if walk.COMPILED else RECORDS_AT_ONCE
BYTES_AT_ONCE = (1 << 20) + 12
PACKED_AT_ONCE = 16 * 1024
UNPACKED_AT_ONCE = 64 * 1024
CONVERTED_AT_ONCE = 4 * 1024
"""What the loop looks at itself: records, bytes of a batch; of a packed one, its bytes before and after; of one
that is to be packed with another codec, its bytes after.  All of it costs less than a millisecond; more records
are walked over by compiled code where that is there, as long as they are good."""
STEPS_AT_ONCE = 10
"""Steps of a check: honest records need fewer, and those that must be looked at one by one may need many."""
READ_AGAIN = 16 << 20
"""Records are read one by one, to say which are wrong or to number them anew, if they unpack to no more."""

_MAGIC_AT = 16
_MAX_TIMESTAMP_AT = 35
_CRC_AT = 17
_SMALLEST_LENGTH = 14
_SHOWN = 3
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class LeftToAThread(Exception):  # noqa: N818  # nothing is wrong
    """The records of a batch are too much for the loop: `check_in_steps` looks at them."""


class Rules(NamedTuple):
    """What a topic asks of records at a certain time.  Timestamps in ms; codec -1: as the producer packed it."""

    compact: bool
    log_append_time: bool
    oldest: int
    newest: int
    codec: int
    max_message_bytes: int
    max_decompressed_bytes: int

    @staticmethod
    def of(partition: Partition, now: Now) -> Rules:
        config = partition.config
        append_time, codec, _, compact, before_max_ms, after_max_ms, _, _ = partition.settings
        oldest, newest = now.wall_ms - before_max_ms, now.wall_ms + after_max_ms
        sizes = config.max_message_bytes, config.max_decompressed_bytes
        return _new(Rules, (compact, append_time, oldest, newest, codec, *sizes))


def check_shape(records: Buffer | None, version: int) -> BatchHeader:
    """Row 5: exactly one batch of magic 2, and no codec that this version of Produce may not carry.

    Too few bytes for another batch may come after it (`header.size` is where it ends): they do not count.
    Raises RefusedError (INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR).
    """
    if records is None or len(records) < HEADER_SIZE or records[_MAGIC_AT] != 2:
        raise _shapeless(records)
    try:
        header = read_batch_header(records)
    except (CorruptRecordError, WireError) as error:
        raise RefusedError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    size = header.batch_length + 12
    if size != len(records):
        if size > len(records):
            raise RefusedError(ErrorCode.INVALID_RECORD, f"a batch of {size} bytes, cut at {len(records)}")
        _check_rest(memoryview(records)[size:])
    codec = header.attributes & 7
    if codec > 4:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no codec {codec}")
    if codec == 4 and version < 7:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd is unknown to version {version} of Produce"
        )
    return header


def _check_rest(rest: memoryview) -> None:
    """What comes after the batch must not look like another one, whole or broken."""
    if len(rest) < 12:
        return
    length = int.from_bytes(rest[8:12], "big", signed=True)
    if length < _SMALLEST_LENGTH:
        raise RefusedError(ErrorCode.CORRUPT_MESSAGE, "the bytes after the batch are too few for another")
    if len(rest) > _MAGIC_AT and not 0 <= rest[_MAGIC_AT] <= 2:
        raise RefusedError(ErrorCode.CORRUPT_MESSAGE, "the bytes after the batch are no batch")
    if len(rest) > _MAGIC_AT and length + 12 <= len(rest):
        raise RefusedError(ErrorCode.INVALID_RECORD, "more than one batch for a partition")


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
        or attributes & CONTROL
        or (producer >= 0 and sequence < 0)
        or crc32c(memoryview(records)[CRC_COUNTS_FROM:]) != crc
    ):
        raise _refuse_content(records, header, config)


def _refuse_content(records: Buffer, header: BatchHeader, config: LogConfig) -> RefusedError:
    """Find what is wrong, in the order of the rows."""
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
    if header.attributes & CONTROL:
        return RefusedError(ErrorCode.INVALID_RECORD, "a producer may not write control records")
    return RefusedError(
        ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent the sequence {header.base_sequence}"
    )


def all_within(settings: PartitionSettings, found: ProduceRows, wall_ms: int) -> bool:
    """Row 14 for all plain batches of a read at once: none of their records can be one that `_judge` would refuse,
    nor is a batch too large."""
    _, _, plain_size, compact, before_max_ms, after_max_ms, _, _ = settings
    return (
        found.newest - wall_ms <= after_max_ms
        and wall_ms - found.oldest <= before_max_ms
        and found.largest <= plain_size
        and not (compact and found.keyless)
    )


def check_at_once(
    records: Buffer, header: BatchHeader, rules: Rules
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Rows 14 and 15 on the loop: what to append, and its header.

    Raises RefusedError, and LeftToAThread when nothing is known yet because it would take too long.
    """
    codec, count = header.codec, header.count
    stays = rules.codec < 0 or rules.codec == codec
    if count > (RECORDS_AT_ONCE if codec or not stays else RECORDS_WALKED_AT_ONCE) or len(records) > (
        PACKED_AT_ONCE if codec else BYTES_AT_ONCE
    ):
        raise LeftToAThread
    body, most = memoryview(records)[HEADER_SIZE:], UNPACKED_AT_ONCE if stays else CONVERTED_AT_ONCE
    source = None
    if codec:
        try:
            source = decompress(codec, body, min(most, rules.max_decompressed_bytes))
        except UnreadableError as error:
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error
        except CorruptRecordError:
            raise LeftToAThread from None
    elif not stays and len(body) > most:
        raise LeftToAThread
    if is_linked(codec, body):
        raise _linked()
    if stays and (facts := _facts_at_once(bytes(body) if source is None else source, count)):
        return _as_it_is(records, header, facts, rules)
    if count > RECORDS_AT_ONCE:
        raise LeftToAThread
    steps = check_in_steps(records, header, rules, None if source is None else iter((source,)))
    try:
        for _ in range(STEPS_AT_ONCE):
            next(steps)
    except StopIteration as end:
        checked: tuple[bytearray | memoryview, BatchHeader] = end.value
        return checked
    raise LeftToAThread


def _facts_at_once(data: bytes, count: int) -> RecordFacts | None:
    """What is known of the records of a batch without a gap between them; None: the steps have to look."""
    try:
        facts = check_records(data, count) if count <= RECORDS_AT_ONCE else walk_records(data, count)
    except CorruptRecordError:
        return None
    return facts if facts is not None and facts.contiguous else None


def _as_it_is(
    records: Buffer, header: BatchHeader, facts: RecordFacts, rules: Rules
) -> tuple[bytearray | memoryview, BatchHeader]:
    """A batch whose records stay as they are, if they are allowed.  Raises RefusedError."""
    newest = _judge(records, header, facts, rules)
    batch = records if isinstance(records, (bytearray, memoryview)) else bytearray(records)
    return batch, _stamped(batch, header, newest, rules)


def _stamped(batch: bytearray | memoryview, header: BatchHeader, newest: int, rules: Rules) -> BatchHeader:
    """The header with the newest timestamp that the records have; that of the append is set later."""
    if not rules.log_append_time and (header.max_timestamp != newest or header.timestamp_type):
        return restamp(batch, header, 0, newest)
    return header


def _linked() -> RefusedError:
    return RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "lz4 blocks that depend on each other")


def check_in_steps(
    records: Buffer, header: BatchHeader, rules: Rules, source: Iterator[bytes] | None = None
) -> Generator[None, None, tuple[bytearray | memoryview, BatchHeader]]:
    """Rows 14 and 15: check every record, refuse the batch if one is wrong, rewrite it if that is needed.

    Yields after each bounded step of work; holds a piece of what is unpacked at a time.  Returns what to
    append (the same bytes wherever possible) and its header.  `source`: the records, if they are unpacked
    already.  Raises RefusedError.
    """
    if is_linked(header.codec, memoryview(records)[HEADER_SIZE:]):
        raise _linked()
    codec, target = header.codec, header.codec if rules.codec < 0 else rules.codec
    if source is None:
        source = pieces(codec, memoryview(records)[HEADER_SIZE:], rules.max_decompressed_bytes)
    packed = _Packed(packer(target), rules.max_message_bytes) if target != codec else None
    try:
        lengths = Lengths.CHECKED
        if codec:
            lengths = Lengths.POSSIBLE if packed is None else Lengths.CHECKED_UNPACKED
        along = source if packed is None else packed.along(source)
        facts = yield from check_stream(along, header.count, lengths, rules.max_decompressed_bytes)
    except UnreadableError as error:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error
    except CorruptRecordError as error:
        raise RefusedError(ErrorCode.INVALID_RECORD, error.message) from error
    if facts.contiguous and packed is None:
        return _as_it_is(records, header, facts, rules)
    newest = _judge(records, header, facts, rules)
    if codec and packed is None:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "the offsets of its records are not 0, 1, 2 ...")
    if packed is not None and (
        header.base_timestamp + facts.oldest < NO_TIMESTAMP or header.producer_id >= 0 > header.producer_epoch
    ):
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "a timestamp or a producer epoch below zero")
    yield
    batch = _renumbered(records, header, target) if not facts.contiguous else packed.batch(header, target)  # type: ignore[union-attr]  # one of the two
    header = read_batch_header(batch)
    if len(batch) > rules.max_message_bytes:
        raise RefusedError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{len(batch)} bytes after recompression; max.message.bytes is {rules.max_message_bytes}",
        )
    return batch, _stamped(batch, header, newest, rules)


class _Packed:
    """The records of a batch, packed with another codec while they are looked at.

    A batch of more than `most` bytes is refused anyway, so the rest is only counted.
    """

    def __init__(self, stream: Packer, most: int) -> None:
        self._stream = stream
        self._most = most
        self._out = bytearray(HEADER_SIZE)

    def along(self, source: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces of `source`, and pack them."""
        for piece in source:
            if len(self._out) <= self._most:
                self._out += self._stream.add(piece)
            yield piece
        if len(self._out) <= self._most:
            self._out += self._stream.end()

    def batch(self, header: BatchHeader, codec: int) -> bytearray:
        """The repacked batch; its header keeps what does not depend on the codec."""
        out = self._out
        attributes = codec | header.attributes & (TRANSACTIONAL | APPEND_TIME)
        pack_into(">qiib", out, 0, 0, len(out) - 12, -1, 2)
        pack_into(">hiqqqhii", out, CRC_COUNTS_FROM, attributes, *header[6:])
        pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[CRC_COUNTS_FROM:]))
        return out


def _renumbered(records: Buffer, header: BatchHeader, codec: int) -> bytearray:
    """The batch with its records renumbered from 0."""
    try:
        inside = read_records(records, 0, header, READ_AGAIN)
    except CorruptRecordError as error:
        raise RefusedError(
            ErrorCode.INVALID_RECORD, f"records are not numbered from 0 on: {error}"
        ) from error
    return write_batch(
        [record._replace(offset=index) for index, record in enumerate(inside)],
        codec=codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )


def _judge(records: Buffer, header: BatchHeader, facts: RecordFacts, rules: Rules) -> int:
    """Row 14, after all records were looked at: the newest timestamp.  Raises RefusedError."""
    if header.timestamp_type:
        newest = oldest = header.max_timestamp
    else:
        newest, oldest = header.base_timestamp + facts.newest, header.base_timestamp + facts.oldest
    if rules.compact and facts.keyless:
        raise _wrong(records, header, rules, ErrorCode.INVALID_RECORD, "records without a key")
    if rules.log_append_time:
        if header.timestamp_type:
            raise _wrong(
                records, header, rules, ErrorCode.INVALID_TIMESTAMP, "append time, set by a producer"
            )
    elif not max(rules.oldest, _LEAST) <= oldest <= newest <= min(rules.newest, _MOST):
        if newest == oldest == NO_TIMESTAMP and not header.timestamp_type:
            return newest
        refused = _wrong(records, header, rules, ErrorCode.INVALID_TIMESTAMP, "timestamps out of bounds")
        if refused.records or newest > rules.newest or not _LEAST <= oldest <= newest <= _MOST:
            raise refused
    elif header.timestamp_type and newest == NO_TIMESTAMP:
        raise _wrong(records, header, rules, ErrorCode.INVALID_TIMESTAMP, "append time, set by a producer")
    return newest


def _wrong(records: Buffer, header: BatchHeader, rules: Rules, code: ErrorCode, why: str) -> RefusedError:
    """The refusal, with the records that it is about unless they are too many to be read again."""
    try:
        inside = read_records(records, 0, header, min(READ_AGAIN, rules.max_decompressed_bytes))
    except (CorruptRecordError, WireError):
        return RefusedError(code, why, ((0, why),))
    wrong, late = _wrong_records(inside, header, rules)
    shown = "; ".join(f"record {index}: {reason}" for index, reason in wrong[:_SHOWN])
    code = ErrorCode.INVALID_TIMESTAMP if late else ErrorCode.INVALID_RECORD
    return RefusedError(code, f"{len(wrong)} of {header.count} records are refused: {shown}", wrong)


def _wrong_records(
    inside: Sequence[Record], header: BatchHeader, rules: Rules
) -> tuple[list[tuple[int, str]], bool]:
    """The records that are refused and why, and whether a timestamp is among the reasons."""
    wrong: list[tuple[int, str]] = []
    late = False
    appended = header.timestamp_type == 1
    for index, record in enumerate(inside):
        timestamp = record.timestamp
        if rules.compact and record.key is None:
            wrong.append((index, "no key, and the topic is compacted"))
        elif not rules.log_append_time and timestamp != NO_TIMESTAMP:
            if not rules.oldest <= timestamp <= rules.newest:
                late = True
                wrong.append((index, f"timestamp {timestamp} is not within [{rules.oldest}, {rules.newest}]"))
        elif appended:
            late = True
            wrong.append((index, "the time of the append is not for a producer to set"))
    return wrong, late


def restamp(
    batch: bytearray | memoryview, header: BatchHeader, timestamp_type: int, max_timestamp: int
) -> BatchHeader:
    """Set timestamp type (0 create, 1 append) and newest timestamp in the batch, and its CRC anew."""
    attributes = header.attributes & ~8 | timestamp_type << 3
    pack_into(">h", batch, CRC_COUNTS_FROM, attributes)
    pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    crc = crc32c(memoryview(batch)[CRC_COUNTS_FROM:])
    pack_into(">I", batch, _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)
