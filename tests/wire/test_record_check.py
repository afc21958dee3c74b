"""The pass over a batch's records that makes no record: it finds what reading them all would find."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest

from barnabas.errors import CorruptRecordError
from barnabas.wire.codec.primitives import varint
from barnabas.wire.compression import Codec, compress, decompress, packer, pieces
from barnabas.wire.record_check import RecordFacts, check_records
from barnabas.wire.record_stream import check_stream
from barnabas.wire.records import HEADER_SIZE, Record, read_batch_header, read_records, write_batch

BASE = 1_700_000_000_000


def drawn(rng: random.Random, count: int) -> list[Record]:
    """Records of all widths of numbers."""

    def some(most: int) -> bytes | None:
        return None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 63, 64, 70, most)))

    return [
        Record(
            index,
            BASE + rng.choice((0, 0, 1, -1, 63, 64, -64, -65, 9000, -(1 << 40), 1 << 41)) * (index > 0),
            some(9_000),
            some(20_000),
            [(f"name{n}", some(100)) for n in range(rng.choice((0, 0, 1, 3)))],
        )
        for index in range(count)
    ]


def body_of(records: list[Record]) -> bytes:
    return bytes(write_batch(records)[HEADER_SIZE:])


def rows(rng: random.Random, count: int) -> list[Record]:
    """Records of one size, as a table's rows are; now and then one is not."""
    key = rng.choice((None, b"k" * 7, b"k" * 80))
    size = rng.choice((10, 100, 1_000))
    odd = rng.choice((0.0, 0.02))
    return [
        Record(
            index,
            BASE + (rng.choice((-1, 0, 63, 64, 9_000)) if rng.random() < odd and index else index % 9),
            b"other" if rng.random() < odd else key,
            bytes(size + (1 if rng.random() < odd else 0)),
        )
        for index in range(count)
    ]


def cut(data: bytes, rng: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = rng.choice((1, 2, 7, 100, 5_000))
        yield data[at : at + size]
        at += size


def streamed(chunks: Iterator[bytes], count: int) -> RecordFacts:
    check = check_stream(chunks, count)
    while True:
        try:
            next(check)
        except StopIteration as end:
            facts: RecordFacts = end.value
            return facts


@pytest.mark.parametrize("seed", range(30))
def test_the_facts_are_those_of_the_records(seed: int) -> None:
    rng = random.Random(seed)
    make = rows if seed % 2 else drawn
    records = make(rng, rng.choice((1, 2, 70, 300)))
    data = body_of(records)
    stamps = [record.timestamp - BASE for record in records]
    expected = RecordFacts(max(stamps), min(stamps), sum(record.key is None for record in records), True)
    assert check_records(data, len(records)) == expected
    assert streamed(cut(data, rng), len(records)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_whole_and_piece_by_piece_refuse_the_same_damaged_bytes(seed: int) -> None:
    """And what they take, the reader of records takes: the other way round it may be stricter about text."""
    rng = random.Random(seed)
    records = rows(rng, 12) if seed % 2 else drawn(rng, 12)
    records = [r._replace(key=r.key and r.key[:9], value=r.value and r.value[:70]) for r in records]
    whole = bytearray(write_batch(records))
    refused = 0
    for _ in range(60):
        batch = bytearray(whole)
        for _ in range(rng.choice((1, 1, 4))):
            batch[rng.randrange(HEADER_SIZE, min(len(batch), HEADER_SIZE + 4_000))] ^= 1 << rng.randrange(8)
        data = bytes(batch[HEADER_SIZE:])
        outcomes: list[RecordFacts | None] = []
        for check in (lambda d: check_records(d, 12), lambda d: streamed(cut(d, rng), 12)):
            try:
                outcomes.append(check(data))
            except CorruptRecordError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]
        if outcomes[0] is None:
            refused += 1
        else:
            assert len(read_records(batch, 0, read_batch_header(batch))) == 12
    assert refused > 4


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, 1000, 700_000])
def test_pieces_are_small_and_together_what_decompress_gives(codec: Codec, size: int) -> None:
    data = (b"some words that repeat, %d; " * 40_000)[:size]
    packed = compress(codec, data)
    found = list(pieces(codec, memoryview(packed), size))
    assert b"".join(found) == decompress(codec, packed, size) == data
    assert codec is Codec.NONE or all(len(piece) <= 256 * 1024 for piece in found)
    if size > 1 and codec is not Codec.NONE:
        with pytest.raises(CorruptRecordError, match=f"more than {size - 1} bytes"):
            list(pieces(codec, packed, size - 1))


@pytest.mark.parametrize("codec", Codec)
def test_what_is_packed_piece_by_piece_unpacks(codec: Codec) -> None:
    rng = random.Random(codec)
    data = rng.randbytes(300_000) + bytes(300_000)
    stream = packer(codec)
    packed = b"".join([stream.add(piece) for piece in cut(data, rng)] + [stream.end()])
    assert decompress(codec, packed, len(data)) == data
    empty = packer(codec)
    assert decompress(codec, empty.add(b"") + empty.end(), 10) == b""


def test_an_endless_record_is_looked_at_without_being_kept() -> None:
    """100 MB in one record: the check of its pieces holds two of them at most."""
    size = 100 << 20
    start = bytes((0, 0, 0, 2)) + b"k" + varint(size)
    start = varint(len(start) + size + 1) + start

    def chunks() -> Iterator[bytes]:
        yield start
        left = size
        while left:
            some = min(left, 256 * 1024)
            yield bytes(some)
            left -= some
        yield b"\0"

    tracemalloc.start()
    facts = streamed(chunks(), 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert facts == RecordFacts(0, 0, 0, True)
    assert peak < 2 << 20
