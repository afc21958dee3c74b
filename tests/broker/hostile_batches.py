"""Record batches that no client writes, and some that only look so: what tells an honest broker apart.

Every case is one batch for one partition of each topic in `TOPICS`.  `hostile_answers.json` holds what a real
Apache Kafka 4.4.0 answered, and whether its log end moved; `tests/compat/test_hostile_batches.py` asks it
again, and says how to write the answers anew.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lz4.frame
import zstandard
from crc32c import crc32c

from barnabas.wire.codec.primitives import append_varint
from barnabas.wire.compression import Codec, compress
from barnabas.wire.records import HEADER_SIZE, Record, restamp, write_batch
from barnabas.wire.records import read_batch_header as header_of

__all__ = [
    "ANSWERS",
    "TOPICS",
    "Hostile",
    "hostile_batches",
    "known_answers",
    "lying",
    "packed_records",
    "with_crc",
]

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "bounded-time": {
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.after.max.ms": "3600000",
    },
    "gzip": {"compression.type": "gzip"},
    "small": {"max.message.bytes": "600"},
    "unpacked": {"compression.type": "uncompressed"},
    "zstd": {"compression.type": "zstd"},
}
ANSWERS = Path(__file__).with_name("hostile_answers.json")
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
_COUNT_AT, _DELTA_AT, _CRC_AT, _BASE_TIME_AT, _NEWEST_AT = 57, 23, 17, 27, 35
_GREATEST = (1 << 31) - 1
_LATER = 7_200_000
"""Two hours, in ms: further ahead than any topic allows."""


class Hostile(NamedTuple):
    name: str
    batch: bytes


def known_answers() -> dict[str, dict[str, list[int]]]:
    """By case, then topic: the error code, and by how much the log end moved."""
    answers: dict[str, dict[str, list[int]]] = json.loads(ANSWERS.read_text())
    return answers


def hostile_batches(now: int) -> list[Hostile]:
    """All cases, in the order in which they must be sent, with timestamps around `now` (ms)."""
    families = (
        _plain,
        _counts,
        _lengths,
        _keys_and_values,
        _headers,
        _junk,
        _packed,
        _packed_lengths,
        _lying_and_more,
        _wide_numbers,
        _bodies,
        _times,
        _frames,
    )
    found = [case for family in families for case in family(now)]
    found += _numbered(now)
    assert len({case.name for case in found}) == len(found)
    return found


def lying(*values: bytes | None, at: int, codec: int = 4, key: bytes = b"key") -> bytes:
    """A packed batch with these values under one key, whose records' lengths lie: it is taken all the same."""
    records = [
        _record(n, key=key, value=value or b"", value_size=-1 if value is None else None, size=9)
        for n, value in enumerate(values)
    ]
    return _batch(compress(codec, b"".join(records)), at, count=len(records), codec=codec)


def packed_records(at: int, *sizes: int) -> bytes:
    """A packed batch of small records that say to be as long as this."""
    records = b"".join(_record(n, size=size) for n, size in enumerate(sizes))
    return _batch(compress(4, records), at, count=len(sizes), codec=4)


# ---- building --------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def _record(
    delta: int = 0,
    *,
    key: bytes = b"key",
    value: bytes = b"value",
    time: int = 0,
    size: int | None = None,
    key_size: int | None = None,
    value_size: int | None = None,
    headers: bytes = b"\0",
    behind: bytes = b"",
    attributes: int = 0,
) -> bytes:
    """The bytes of one record; every length may lie."""
    body = bytes([attributes]) + _varint(time) + _varint(delta)
    body += _varint(len(key) if key_size is None else key_size) + key
    body += _varint(len(value) if value_size is None else value_size) + value
    body += headers + behind
    return _varint(len(body) if size is None else size) + body


def _batch(
    body: bytes,
    now: int,
    *,
    count: int = 1,
    delta: int | None = None,
    codec: int = 0,
    attributes: int = 0,
    newest: int | None = None,
    base_time: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch around these bytes, with a right length and a right CRC."""
    out = bytearray(HEADER_SIZE) + body
    fields = (
        codec | attributes,
        (count - 1 if delta is None else delta),
        now if base_time is None else base_time,
        now if newest is None else newest,
        *producer,
        count,
    )
    struct.pack_into(">hiqqqhii", out, 21, *fields)
    struct.pack_into(">qiibI", out, 0, 0, len(out) - 12, -1, 2, crc32c(out[21:]))
    return bytes(out)


def _patched(batch: bytes | bytearray, form: str, at: int, value: int, *, right: bool = True) -> bytes:
    out = bytearray(batch)
    struct.pack_into(form, out, at, value)
    return bytes(with_crc(out) if right else out)


def with_crc(batch: bytearray) -> bytearray:
    """The batch, which was changed, with a right CRC again."""
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[21:]))
    return batch


def _two(now: int, **more: object) -> bytes:
    return _batch(_record(0) + _record(1), now, count=2, **more)  # type: ignore[arg-type]


# ---- the families ----------------------------------------------------------------------------------------


def _plain(now: int) -> Iterator[Hostile]:
    """Honest batches: nothing of them may be refused where Kafka takes them."""
    yield Hostile("honest", _two(now))
    for codec in CODECS:
        packed = compress(codec, _record(0) + _record(1))
        yield Hostile(f"honest, {codec.name}", _batch(packed, now, count=2, codec=codec))
    many = b"".join(_record(n, value=b"v" * (n % 90)) for n in range(300))
    yield Hostile("honest, 300 records", _batch(many, now, count=300))
    yield Hostile("honest, 300 records, GZIP", _batch(compress(1, many), now, count=300, codec=1))
    yield Hostile("honest, headers", _batch(_record(headers=b"\x04\x02a\x02b\x02c\x01"), now))
    yield Hostile("null key and value", _batch(_record(key=b"", key_size=-1, value=b"", value_size=-1), now))
    yield Hostile("record attributes 0xff", _batch(_record(attributes=0xFF), now))
    yield Hostile("offset deltas 0, 0", _batch(_record(0) + _record(0), now, count=2))
    yield Hostile("offset deltas 5, 9", _batch(_record(5) + _record(9), now, count=2))
    yield Hostile(
        "offset deltas 1, 0, LZ4", _batch(compress(3, _record(1) + _record(0)), now, count=2, codec=3)
    )


def _counts(now: int) -> Iterator[Hostile]:
    for claimed, there in ((5, 1), (1, 3), (_GREATEST, 1), (2, 1), (1, 2), (100, 99), (1, 0)):
        body = b"".join(_record(n) for n in range(there))
        yield Hostile(f"count {claimed}, records {there}", _batch(body, now, count=claimed))
    yield Hostile("count 0, delta -1", _batch(b"", now, count=0))
    yield Hostile("count -1, delta -2", _batch(_record(), now, count=-1))
    yield Hostile("count 2, delta 4", _two(now, delta=4))


def _lengths(now: int) -> Iterator[Hostile]:
    whole = len(_record()) - 1
    for size in (-1, -(1 << 31), 0, 1, 6, whole - 1, whole + 1, _GREATEST):
        yield Hostile(f"record length {size}, really {whole}", _batch(_record(size=size), now))
    body = _record()[1:]
    yield Hostile("record length in six bytes", _batch(b"\xff" * 5 + b"\x01" + body, now))
    yield Hostile(
        "record length in five bytes", _batch(bytes([_record()[0] | 0x80]) + b"\x80" * 3 + b"\0" + body, now)
    )
    yield Hostile("record length cut", _batch(_record() + b"\x80", now, count=2))
    yield Hostile("record cut", _batch(_record() + _record(1)[:4], now, count=2))
    yield Hostile("last record cut by one", _batch((_record() + _record(1))[:-1], now, count=2))


def _keys_and_values(now: int) -> Iterator[Hostile]:
    for size in (-2, -1, 0, 2, 4, 100, _GREATEST, -(1 << 31)):
        yield Hostile(f"key length {size}, really 3", _batch(_record(key_size=size), now))
    for size in (-2, -1, 0, 4, 6, 100, _GREATEST, -(1 << 31)):
        yield Hostile(f"value length {size}, really 5", _batch(_record(value_size=size), now))
    yield Hostile("key length -2 and no key", _batch(_record(key=b"", key_size=-2), now))
    yield Hostile("value length -2 and no value", _batch(_record(value=b"", value_size=-2), now))
    yield Hostile(
        "value reaches into the next record", _batch(_record(value_size=20) + _record(1), now, count=2)
    )
    long = bytes([0x86, 0x80, 0x80, 0x80, 0x80, 0x01])
    six = b"\0\0\0" + long + b"key" + b"\x0avalue\0"
    yield Hostile("key length in six bytes", _batch(_varint(len(six)) + six, now))


def _headers(now: int) -> Iterator[Hostile]:
    for count in (-1, 1, 2, _GREATEST, -(1 << 31)):
        yield Hostile(f"header count {count}, really 0", _batch(_record(headers=_varint(count)), now))
    odd = {
        "count 0, really 1": b"\0\x02a\x02b",
        "count 1, really 2": b"\x02\x02a\x02b\x02c\x02d",
        "name length -1": b"\x02\x01\x02b",
        "name length -2": b"\x02\x03\x02b",
        "name too long": b"\x02\x7ea\x02b",
        "name is no text": b"\x02\x02\xff\x02b",
        "empty name": b"\x02\x00\x02b",
        "value length -1": b"\x02\x02a\x01",
        "value length -2": b"\x02\x02a\x03",
        "value too long": b"\x02\x02a\x7eb",
    }
    for name, headers in odd.items():
        yield Hostile(f"header: {name}", _batch(_record(headers=headers), now))


def _junk(now: int) -> Iterator[Hostile]:
    honest = _batch(_record(), now)
    yield Hostile("junk behind the record", _batch(_record() + b"junk", now))
    yield Hostile("a zero behind the record", _batch(_record() + b"\0", now))
    yield Hostile("junk inside the record", _batch(_record(behind=b"junk"), now))
    yield Hostile("junk between records", _batch(_record() + b"junk" + _record(1), now, count=2))
    for size in (1, 3, 11, 12, 16, 17, 60, 61, 100):
        yield Hostile(f"{size} zeros behind the batch", honest + bytes(size))
    yield Hostile("3 letters behind the batch", honest + b"abc")
    yield Hostile("20 letters behind the batch", honest + b"a" * 20)
    yield Hostile("half a batch behind the batch", honest + honest[:40])
    yield Hostile("most of a batch behind the batch", honest + honest[:-1])
    yield Hostile("a batch behind the batch", honest + honest)


def _packed(now: int) -> Iterator[Hostile]:
    """What was wrong above, inside each codec."""
    two = _record(0) + _record(1)
    inside = {
        "count 5, records 2": (two, 5),
        "count 1, records 2": (two, 1),
        "count 2^31-1, records 2": (two, _GREATEST),
        "record length -1": (_record(size=-1), 1),
        "record length huge": (_record(size=_GREATEST), 1),
        "record length one short": (_record(size=len(_record()) - 2), 1),
        "key length -2": (_record(key_size=-2), 1),
        "key too long": (_record(key_size=100), 1),
        "value too long": (_record(value_size=100), 1),
        "header count -1": (_record(headers=b"\x01"), 1),
        "header count 2^31-1": (_record(headers=_varint(_GREATEST)), 1),
        "header name length -1": (_record(headers=b"\x02\x01\x02b"), 1),
        "junk behind the record": (_record() + b"junk", 1),
        "junk inside the record": (_record(behind=b"junk"), 1),
        "no records": (b"", 1),
    }
    for codec in CODECS:
        for name, (body, count) in inside.items():
            yield Hostile(
                f"{codec.name}: {name}", _batch(compress(codec, body), now, count=count, codec=codec)
            )


def _packed_lengths(now: int) -> Iterator[Hostile]:
    """The length in front of one of three packed records is a lie."""
    whole = len(_record()) - 1
    for codec in CODECS:
        for size in (-(1 << 31), -1, 0, 6, whole - 1, whole + 1, 2 * whole + 1, 1 << 16, _GREATEST):
            for liar in range(3):
                body = b"".join(_record(n, size=size if n == liar else None) for n in range(3))
                yield Hostile(
                    f"{codec.name}: length {size}, really {whole}, of record {liar}",
                    _batch(compress(codec, body), now, count=3, codec=codec),
                )


def _lying_and_more(now: int) -> Iterator[Hostile]:
    """A packed record lies about its length, and something else is wrong or odd."""
    one = _record(1)
    bodies = {
        "junk behind": (_record(size=9) + b"\0", 1),
        "junk between": (_record(size=15) + b"\0" + one, 2),
        "another one missing": (_record(size=9), 2),
        "cut": (_record(size=9)[:-1], 1),
        "no key": (_record(size=9, key=b"", key_size=-1) + one, 2),
        "key length -2": (_record(size=9, key=b"", key_size=-2) + one, 2),
        "key length int32's least": (_record(size=9, key=b"", key_size=-(1 << 31)) + one, 2),
        "key too long": (_record(size=9, key_size=100) + one, 2),
        "value length -2": (_record(size=9, value=b"", value_size=-2) + one, 2),
        "value reaches into the next": (_record(size=9, value_size=20) + one, 2),
        "value reaches to the end": (_record(size=9, value=b"12345" + one, value_size=5), 2),
        "header count -1": (_record(size=9, headers=b"\x01"), 1),
        "header count 2^31-1": (_record(size=9, headers=_varint(_GREATEST)), 1),
        "a header": (_record(size=9, headers=b"\x02\x02a\x02b") + one, 2),
        "header name length -1": (_record(size=9, headers=b"\x02\x01\x02b"), 1),
        "header name is no text": (_record(size=9, headers=b"\x02\x02\xff\x02b"), 1),
        "header value length -2": (_record(size=9, headers=b"\x02\x02a\x03"), 1),
        "offset deltas 0, 0": (_record(size=9) + _record(), 2),
        "offset deltas 1, 0": (_record(1, size=9) + _record(), 2),
        "too late": (_record(size=9, time=_LATER) + one, 2),
        "too early": (_record(size=9, time=-_LATER) + one, 2),
        "the other lies too": (_record(size=0) + _record(1, size=100), 2),
        "two lies that add up": (_record(size=13) + _record(1, size=15), 2),
    }
    for number, (name, (body, count)) in enumerate(bodies.items()):
        codec = CODECS[number % len(CODECS)]
        yield Hostile(
            f"{codec.name}: a length lies, {name}",
            _batch(compress(codec, body), now, count=count, codec=codec),
        )


def _wide_numbers(now: int) -> Iterator[Hostile]:
    """Numbers with more bytes than they need, and with bits that their type has no room for."""
    record = _record()
    tails = (b"\x80\x80\x80\0", b"\x80\x80\x80\x10", b"\x80\x80\x80\x70", b"\x80\x80\x80\x80\0")
    for place, at in {"length": 0, "offset": 3, "key length": 4, "value length": 8, "headers": 14}.items():
        for tail in tails:
            body = record[1:] if at else record
            at_body = max(0, at - 1)
            wide = body[:at_body] + bytes([body[at_body] | 0x80]) + tail + body[at_body + 1 :]
            inside = _varint(len(wide)) + wide if at else wide
            name = f"{place} in {len(tail) + 1} bytes, last {tail[-1]}"
            yield Hostile(name, _batch(inside, now))
            yield Hostile(f"ZSTD: {name}", _batch(compress(4, inside), now, codec=4))
    for last in (0, 1, 2, 0x7E):
        body = b"\0" + b"\x80" * 9 + bytes([last]) + record[3:]
        yield Hostile(f"time in 10 bytes, last {last}", _batch(_varint(len(body)) + body, now))


def _bodies(now: int) -> Iterator[Hostile]:
    """Bytes that are not what the codec in the header says."""
    two = _record(0) + _record(1)
    for codec in CODECS:
        packed = compress(codec, two)
        flipped = bytearray(packed)
        flipped[len(packed) // 2] ^= 0x55
        bodies = {
            "garbage": b"\xa5" * 40,
            "empty": b"",
            "cut in half": packed[: len(packed) // 2],
            "last byte cut": packed[:-1],
            "first byte only": packed[:1],
            "a byte flipped": bytes(flipped),
            "records not packed at all": two,
            "junk behind": packed + b"junk",
            "zeros behind": packed + bytes(8),
            "twice": packed + packed,
        }
        for name, body in bodies.items():
            yield Hostile(f"{codec.name} body: {name}", _batch(body, now, count=2, codec=codec))
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(two))
    yield Hostile("SNAPPY raw", _batch(raw, now, count=2, codec=2))
    yield Hostile("SNAPPY raw: length lies", _batch(b"\xff\x01" + raw[1:], now, count=2, codec=2))
    yield Hostile("SNAPPY raw: length huge", _batch(b"\xff\xff\xff\xff\x07" + raw[1:], now, count=2, codec=2))
    framed = compress(2, two)
    yield Hostile(
        "SNAPPY block length huge",
        _batch(_patched(framed, ">i", 16, _GREATEST, right=False), now, count=2, codec=2),
    )
    yield Hostile(
        "SNAPPY block length -1", _batch(_patched(framed, ">i", 16, -1, right=False), now, count=2, codec=2)
    )
    odd = {
        "linked blocks": lz4.frame.compress(two * 9000, block_linked=True, block_size=4),
        "its size": lz4.frame.compress(two, block_linked=False, store_size=True),
        "checksums": lz4.frame.compress(two, block_linked=False, content_checksum=True, block_checksum=True),
        "blocks of 4 MB": lz4.frame.compress(two, block_linked=False, block_size=7),
    }
    for name, body in odd.items():
        count = 18_000 if name == "linked blocks" else 2
        yield Hostile(f"LZ4 with {name}", _batch(body, now, count=count, codec=3))
    skip = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    yield Hostile("ZSTD: a frame to skip first", _batch(skip + compress(4, two), now, count=2, codec=4))
    yield Hostile("ZSTD: a frame to skip behind", _batch(compress(4, two) + skip, now, count=2, codec=4))
    halves = compress(4, _record(0)) + compress(4, _record(1))
    yield Hostile("ZSTD: two frames", _batch(halves, now, count=2, codec=4))
    halves = compress(1, _record(0)) + compress(1, _record(1))
    yield Hostile("GZIP: two members", _batch(halves, now, count=2, codec=1))
    halves = compress(2, _record(0)) + compress(2, _record(1))
    yield Hostile("SNAPPY: two streams", _batch(halves, now, count=2, codec=2))
    halves = compress(3, _record(0)) + compress(3, _record(1))
    yield Hostile("LZ4: two frames", _batch(halves, now, count=2, codec=3))
    sized = zstandard.ZstdCompressor(write_content_size=True).compress(two)
    lying = bytearray(sized)
    lying[5] += 1
    yield Hostile("ZSTD with its size", _batch(sized, now, count=2, codec=4))
    yield Hostile("ZSTD: size lies", _batch(bytes(lying), now, count=2, codec=4))
    yield Hostile("codec 5", _batch(two, now, count=2, codec=5))
    yield Hostile("codec 7", _batch(two, now, count=2, codec=7))


def _times(now: int) -> Iterator[Hostile]:
    least = -(1 << 63)
    yield Hostile("base timestamp int64's least", _batch(_record(), now, base_time=least, newest=least))
    yield Hostile("record delta 2^62", _batch(_record(time=1 << 62), now))
    yield Hostile("record delta -2^62", _batch(_record(time=-(1 << 62)), now))
    yield Hostile("record delta int64's greatest", _batch(_record(time=(1 << 63) - 1), now))
    yield Hostile("record + 2 h, header says now", _batch(_record(time=_LATER), now))
    yield Hostile("record + 2 h, header says so", _batch(_record(time=_LATER), now, newest=now + _LATER))
    yield Hostile("record now, header + 2 h", _batch(_record(), now, newest=now + _LATER))
    yield Hostile("record now, header - 2 h", _batch(_record(), now, newest=now - _LATER))
    yield Hostile("record - 2 h", _batch(_record(time=-_LATER), now))
    yield Hostile("second record - 2 h", _batch(_record() + _record(1, time=-_LATER), now, count=2))
    yield Hostile("second record + 2 h", _batch(_record() + _record(1, time=_LATER), now, count=2))
    yield Hostile("timestamp -1", _batch(_record(), now, base_time=-1, newest=-1))
    yield Hostile("timestamp -2", _batch(_record(), now, base_time=-2, newest=-2))
    yield Hostile("timestamp 0", _batch(_record(), now, base_time=0, newest=0))
    packed = compress(1, _record(time=_LATER))
    yield Hostile("GZIP: record + 2 h, header says now", _batch(packed, now, codec=1))
    yield Hostile("append time flag", _batch(_record(), now, attributes=8))
    yield Hostile("append time flag, - 2 h", _batch(_record(), now, attributes=8, newest=now - _LATER))
    yield Hostile("append time flag, + 2 h", _batch(_record(), now, attributes=8, newest=now + _LATER))
    yield Hostile("append time flag, -1", _batch(_record(), now, attributes=8, newest=-1))
    yield Hostile("append time flag, GZIP", _batch(compress(1, _record()), now, attributes=8, codec=1))
    yield Hostile("delete horizon flag", _batch(_record(), now, attributes=0x40))
    yield Hostile("unknown flag", _batch(_record(), now, attributes=0x100))
    stamped = write_batch([Record(0, now, b"k", b"v")])
    restamp(stamped, 0, header_of(stamped), now + 5)
    yield Hostile("append time flag, well written", bytes(stamped))


def _frames(now: int) -> Iterator[Hostile]:
    honest = _two(now)
    yield Hostile("wrong CRC", _patched(honest, ">B", 70, 7, right=False))
    for magic in (0, 1, 3, 127):
        yield Hostile(f"magic {magic}", _patched(honest, ">b", 16, magic, right=False))
    yield Hostile("base offset 5", _patched(honest, ">q", 0, 5, right=False))
    yield Hostile("length 20", _patched(honest, ">i", 8, 20, right=False))
    yield Hostile("length 48", _patched(honest, ">i", 8, 48, right=False))
    yield Hostile("length one more", _patched(honest, ">i", 8, len(honest) - 11, right=False))
    yield Hostile("length one less", _patched(honest, ">i", 8, len(honest) - 13, right=False))
    yield Hostile("control flag", _two(now, attributes=0x20))
    yield Hostile("transactional flag", _two(now, attributes=0x10, producer=(3, 0, 0)))
    yield Hostile("700 bytes", _batch(_record(value=b"v" * 630), now))
    yield Hostile(
        "700 bytes and a wrong CRC",
        _patched(_batch(_record(value=b"v" * 630), now), ">B", 70, 7, right=False),
    )
    yield Hostile("700 bytes that pack to few", _batch(compress(1, _record(value=b"v" * 630)), now, codec=1))
    yield Hostile("no key", _batch(_record() + _record(1, key=b"", key_size=-1), now, count=2))
    yield Hostile("no key, ZSTD", _batch(compress(4, _record(key=b"", key_size=-1)), now, codec=4))


def _numbered(now: int) -> Iterator[Hostile]:
    def numbered(producer: int, epoch: int, sequence: int) -> bytes:
        return _two(now, producer=(producer, epoch, sequence))

    yield Hostile("sequence -1", numbered(50, 0, -1))
    yield Hostile("epoch -1", numbered(51, -1, 0))
    yield Hostile("producer -2", numbered(-2, 0, 0))
    yield Hostile("sequence without a producer", numbered(-1, -1, 5))
    yield Hostile("first sequence 0", numbered(52, 0, 0))
    yield Hostile("the same again", numbered(52, 0, 0))
    yield Hostile("a gap", numbered(52, 0, 7))
    yield Hostile("epoch 1 from 4", numbered(52, 1, 4))
    yield Hostile("epoch 1 from 0", numbered(52, 1, 0))
    yield Hostile("epoch 0 again", numbered(52, 0, 2))
    yield Hostile("wrong count, next sequence", _batch(_record(), now, count=5, producer=(52, 1, 2)))
    yield Hostile("next sequence after a refused one", numbered(52, 1, 2))
    yield Hostile("sequence 2^31-1", numbered(53, 0, _GREATEST))
    yield Hostile("sequence wraps", numbered(53, 0, 1))
