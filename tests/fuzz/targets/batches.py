"""Batches of records, in every codec: what a producer sends, what a consumer gets, what a compaction reads.

A batch that is taken holds exactly the records that a reader finds in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial

from crc32c import crc32c
from tests.fuzz.engine.target import Target

from barnabas.broker.replicas.batch_checks import RefusedError
from barnabas.broker.requests.validation import Rules, check_content, check_in_steps, check_shape
from barnabas.config import LogConfig
from barnabas.errors import CorruptRecordError, WireError
from barnabas.wire.compression import decompress
from barnabas.wire.record_check import check_records, walk_records
from barnabas.wire.records import Record, batches, check_crc, read_batch_header, read_records, write_batch

__all__ = ["TARGETS"]

PRODUCED, FETCHED, UNPACKED, CHECKED = range(4)
MOST = 16 << 20
_CONFIG = LogConfig()
_CRC_AT, _ATTRIBUTES_AT = 17, 21
_NOW = 1_760_000_000_000


def _with_crc(data: bytes) -> bytearray:
    """The same batch, with a CRC that fits: mutation would hardly ever get past it."""
    fixed = bytearray(data)
    if len(fixed) > _ATTRIBUTES_AT:
        length = int.from_bytes(fixed[8:12], "big", signed=True) + 12
        fixed[_CRC_AT:_ATTRIBUTES_AT] = crc32c(
            bytes(fixed[_ATTRIBUTES_AT : max(length, _ATTRIBUTES_AT)])
        ).to_bytes(4, "big")
    return fixed


def _produced(data: bytearray, version: int, codec: int) -> Hashable:
    rules = Rules(False, False, -(1 << 62), 1 << 62, codec, 1_048_588, MOST)
    header = check_shape(data, version)
    del data[header.size :]
    check_content(data, header, _CONFIG)
    steps = check_in_steps(data, header, rules)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        batch, header = end.value
    records = list(read_records(batch, 0, header, MOST))
    assert len(records) == header.count, f"{len(records)} records in a batch that says {header.count}"
    assert [record.offset for record in records] == list(range(header.count)), "its offsets are not its own"
    assert header.last_offset_delta == header.count - 1, "it ends elsewhere than its last record"
    assert check_crc(batch, 0, header), "what is appended has a wrong CRC"
    return "produced", header.codec, header.count.bit_length(), len(batch).bit_length()


def _fetched(data: bytearray) -> Hashable:
    found = 0
    for position, header in batches(data):
        check_crc(data, position, header)
        found += sum(1 for _ in read_records(data, position, header, MOST))
    return "fetched", found.bit_length()


def _checked(data: bytes) -> Hashable:
    """The walk and the check by which it is doubted say the same."""
    count, body = data[0] if data and data[0] else 1, data[1:]  # (no batch is said to have no records)
    walked = walk_records(body, count)
    if walked is not None:
        assert check_records(body, count) == walked, "two checks of the same records differ"
    return "checked", check_records(body, count).contiguous


def _make() -> object:
    def one(data: bytes) -> Hashable:
        kind, rest = (data[0], data[1:]) if data else (0, b"")
        if kind & 3 == PRODUCED:
            codec = (kind >> 2) % 6 - 1
            return _produced(_with_crc(rest), 3 + (kind >> 2) % 10, codec)
        if kind & 3 == FETCHED:
            return _fetched(_with_crc(rest))
        if kind & 3 == UNPACKED:
            return "unpacked", kind >> 2, len(decompress((kind >> 2) % 6, rest, MOST)).bit_length()
        return _checked(rest)

    return one


def _seeds() -> Iterator[bytes]:
    plain = [Record(0, _NOW, b"key", b"value", ())]
    headed = [Record(i, _NOW + i, None, b"v" * 30, (("h", b"x"), ("n", None))) for i in range(3)]
    for codec in range(5):
        for records in (plain, headed, [Record(i, _NOW, b"k", None, ()) for i in range(60)]):
            batch = bytes(write_batch(records, codec=codec))
            for kind in (PRODUCED, PRODUCED | (codec + 2) % 6 << 2, FETCHED):
                yield bytes((kind,)) + batch
            yield bytes((UNPACKED | codec << 2,)) + batch[61:]
            if not codec:
                yield bytes((CHECKED, len(records))) + batch[61:]
    producer = partial(write_batch, plain, producer_id=7, producer_epoch=1, base_sequence=5)
    yield bytes((PRODUCED | 24,)) + bytes(producer(transactional=True))
    yield bytes((FETCHED,)) + bytes(producer()) * 3
    assert read_batch_header(producer()).count == 1


_WORDS = (b"\x00\x00\x00\x02", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x82SNAPPY\x00", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd",
          b"\x1f\x8b\x08", b"\x50\x2a\x4d\x18", b"\x01", b"\xff\xff\xff\x7f")  # fmt: skip

TARGETS = [
    Target(
        "batches",
        "record batches as they are produced, fetched and unpacked",
        _make,  # type: ignore[arg-type]
        (RefusedError, CorruptRecordError, WireError),
        _seeds,
        _WORDS,
        longest=8192,
    )
]
