"""What the compiled walk makes of records is what the loops in Python make of them, damaged or not.

Where nothing is compiled, the walk runs interpreted here: it is the same code.
"""

from __future__ import annotations

import importlib.util
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.frames import frame

from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.pipeline.varints import record_starts
from barnabas.wire import record_check, record_stream, walk
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import read_request_header
from barnabas.wire.records import HEADER_SIZE, Record, read_batch_header, write_batch
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
sizes = st.sampled_from((0, 1, 62, 63, 64, 200, 8191, 8192, 20_000))
values = st.none() | sizes.map(bytes)
records = st.builds(
    Record,
    st.integers(0, 40),
    st.sampled_from((1000, 1001, 900, 1 << 20, (1 << 41) + 3)),
    st.none() | st.binary(max_size=100),
    values,
    headers,
)
batches = st.lists(records, min_size=1, max_size=40)


def body(found: list[Record]) -> bytes:
    """The records of a batch, unpacked."""
    offsets = [record._replace(offset=n if n % 7 else record.offset) for n, record in enumerate(found)]
    offsets[0] = offsets[0]._replace(offset=0)
    return bytes(write_batch(offsets)[HEADER_SIZE:])


def checked(data: bytes, count: int) -> Any:
    try:
        return record_check.check_records(data, count)
    except BarnabasError as error:
        return type(error), error.message


def streamed(pieces: list[bytes], count: int, lengths: record_stream.Lengths) -> Any:
    steps = record_stream.check_stream(iter(pieces), count, lengths)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value
    except BarnabasError as error:
        return type(error), error.message


def started(data: bytes, count: int) -> Any:
    starts = [7]
    try:
        record_starts(data, 0, len(data), count, starts)
    except CorruptRecordError as error:
        return error.message
    return starts


def same(monkeypatch: pytest.MonkeyPatch, data: bytes, count: int, cut: int) -> Any:
    """The same found by walking as by the loops in Python; returns it."""
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(walk, "COMPILED", compiled)
        found.append(
            [
                checked(data, count),
                started(data, count),
                *(streamed([data[:cut], data[cut:]], count, lengths) for lengths in record_stream.Lengths),
            ]
        )
    assert found[0] == found[1]
    return found[0][0]


@given(batches, st.integers(0, 1000))
def test_good_records_are_found_alike(found: list[Record], cut: int) -> None:
    data = body(found)
    with pytest.MonkeyPatch.context() as patch:
        facts = same(patch, data, len(found), min(cut, len(data)))
        assert isinstance(facts, record_check.RecordFacts)
        same(patch, data, len(found) + 1, cut)
        same(patch, data, len(found) - 1, cut)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records_are_refused_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    good = body(
        [
            Record(
                n, 1000 + chance.randrange(3), chance.choice((None, b"key")), bytes(chance.randrange(90)), ()
            )
            for n in range(12)
        ]
    )
    refused = 0
    for _ in range(300):
        data = bytearray(good)
        for _ in range(chance.choice((1, 1, 2))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF))
        end = chance.choice((len(data), len(data), chance.randrange(len(data))))
        refused += isinstance(same(monkeypatch, bytes(data[:end]), 12, chance.randrange(end + 1)), tuple)
    assert refused > 100


def test_plain_records_are_walked_over_to_their_end() -> None:
    found = [
        Record(n, 1000 + n, b"key", bytes(n % 90), (("name", b"value"), ("null", None))) for n in range(300)
    ]
    data = body([record._replace(offset=n) for n, record in enumerate(found)])
    position, index, newest, oldest, keyless, _ = walk.good_records(data, 0, 0, 300)
    assert (position, index, newest, oldest, keyless) == (len(data), 300, 299, 0, 0)
    starts: list[int] = []
    assert walk.starts_of_records(data, 0, len(data), 300, starts)
    assert len(starts) == 300
    assert not walk.starts_of_records(data, 0, len(data), 299, starts)
    assert len(starts) == 300


def test_a_walk_stops_in_front_of_a_record_that_is_wrong() -> None:
    data = bytearray(body([Record(n, 1000, None, b"value", ()) for n in range(10)]))
    size = len(data) // 10
    data[4 * size + 1 + 4] += 2  # the value claims a byte more
    position, index, *_, keyless, _ = walk.good_records(bytes(data), 0, 0, 10)
    assert (position, index, keyless) == (4 * size, 4, 4)


def test_a_record_that_ends_before_the_value_of_its_last_header_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = bytes(
        [0, 0, 0, 1, 1, 4, 0, 0, 0]
    )  # two headers, of which the second has a name and nothing else
    data = bytes([2 * len(record)]) + record
    assert isinstance(same(monkeypatch, data, 1, 3), tuple)
    assert walk.good_records(data, 0, 0, 1)[1] == 0


def source_of_walk() -> Any:
    """The module as it runs where nothing is compiled."""
    path = Path(walk.__file__).with_name("walk.py")
    spec = importlib.util.spec_from_file_location("walk_as_source", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module


def produced(chance: random.Random) -> bytes:
    """The topics of a Produce request: two, of three partitions each."""
    body = bytearray([3])
    for name in (b"one", b"another"):
        body += bytes([len(name) + 1]) + name + b"\x04"
        for index in range(3):
            value = bytes(chance.choice((0, 10, 300)))
            found = [Record(n, 1000 + chance.randrange(3), None, value, ()) for n in range(3)]
            batch = write_batch(found, producer_id=chance.choice((-1, 1 << 40)), base_sequence=5)
            size = len(batch) + 1
            length = bytes([size & 0x7F | 0x80, size >> 7]) if size > 0x7F else bytes([size])
            body += index.to_bytes(4, "big") + length + batch + b"\0"
        body += b"\0"
    return bytes(body + b"\0")


def said(found: Any) -> Any:
    """All that is said of the batches that were found."""
    numbers = (found.newest, found.oldest, found.keyless, found.largest, found.size, found.records)
    batches = [(*batch[:2], bytes(batch[2]), *batch[3:]) for batch in found.batches]
    return batches, numbers, found.numbered, found.rising, found.end


def read_by(module: Any, data: bytes) -> Any:
    topics: list[Any] = []
    found = module.Plain()
    plain = found.request(memoryview(data), 0, False, 100, topics)
    return plain, topics, said(found)


def damaged(chance: random.Random, good: bytes, at: int) -> bytes:
    """Cut now and then, and changed in two places."""
    data = bytearray(good[: chance.choice((len(good), len(good), at))])
    for place in (at, chance.randrange(len(good))):
        if place < len(data):
            data[place] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, data[place] ^ 1 << chance.randrange(8))
            )
    return bytes(data)


@pytest.mark.parametrize("seed", range(10))
def test_requests_are_read_alike_by_machine_code_and_by_its_source(seed: int) -> None:
    chance, source = random.Random(seed), source_of_walk()
    good = produced(chance)
    plain, topics, (batches, numbers, numbered, rising, _) = read_by(walk, good)
    assert plain and rising and [topic[-1] for topic in topics] == [3, 3] and len(batches) == 6
    times, keyless, sizes, records = [], 0, [], 0
    for index, _, batch, count, newest, producer in batches:
        header = read_batch_header(batch)
        facts = record_check.check_records(batch[HEADER_SIZE:], count)
        assert facts is not None and index in range(3) and header.size == len(batch)
        assert (header.count, header.max_timestamp, header.producer_id) == (count, newest, producer)
        times += [newest, header.base_timestamp + facts.oldest]
        keyless, records = keyless + facts.keyless, records + count
        sizes.append(len(batch))
    assert numbers == (max(times), min(times), keyless, max(sizes), sum(sizes), records)
    assert numbered == sum(batch[-1] >= 0 for batch in batches)
    seen = 0
    for at in range(len(good)):
        data = damaged(chance, good, at)
        found = read_by(walk, data)
        assert found == read_by(source, data), (seed, at)
        seen += found[0]
    assert seen < len(good)


def frames_of(chance: random.Random, version: int, count: int) -> list[bytes]:
    """Produce requests that are alike but for their partition and their records."""
    frames = []
    for number in range(count):
        value = bytes(chance.choice((0, 10, 300)))
        made = [Record(n, 1000 + chance.randrange(3), None, value, ()) for n in range(3)]
        batch = write_batch(made, producer_id=chance.choice((-1, 1 << 40)), base_sequence=5)
        data = [PartitionProduceData(index=chance.choice((0, 1, 70_000)), records=batch)]
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="one", partition_data=data)]
        )
        frames.append(frame(request, version, number))
    return frames


def taken_by(module: Any, data: bytes, version: int, most: int = 100) -> Any:
    """What is read of frames of which the first is as long as it says."""
    first = frames_of(random.Random(1), version, 1)[0]
    at = first.index(b"one") + len(b"one") + (1 if version >= 9 else 4)
    found = module.Plain()
    end = int.from_bytes(data[:4], "big", signed=True)
    found.frames(memoryview(data)[4:], end, version >= 9, first[4:8], first[12:at], 100, 100_000, most)
    return said(found)


@pytest.mark.parametrize("version", [8, 9, 12])
@pytest.mark.parametrize("seed", range(5))
def test_frames_of_one_read_are_taken_alike_by_machine_code_and_by_its_source(
    version: int, seed: int
) -> None:
    chance, source = random.Random(seed), source_of_walk()
    frames = frames_of(chance, version, 5)
    good = b"".join(frames)
    batches, *_, end = taken_by(walk, good, version)
    assert end == len(good) - 4 and [batch[1] for batch in batches] == list(range(5))
    assert len(taken_by(walk, good, version, 2)[0]) == 2
    for whole, (index, _, batch, *_) in zip(frames, batches, strict=True):
        _, position = read_request_header(memoryview(whole)[4:])
        request: Any = decode(ProduceRequest, memoryview(whole)[4:], version, position)[0]
        (data,) = request.topic_data[0].partition_data
        assert (data.index, bytes(data.records)) == (index, batch)
    fewer = 0
    for at in range(len(good)):
        data = damaged(chance, good, at)
        if len(data) < 4:
            continue
        found = taken_by(walk, data, version)
        assert found == taken_by(source, data, version), (seed, at)
        fewer += len(found[0]) < 5
        ends, position = [], 0
        for _ in found[0]:  # what is taken are whole frames, one behind the other
            position += 4 + int.from_bytes(data[position : position + 4], "big", signed=True)
            ends.append(position)
        assert not ends or ends[-1] == 4 + found[-1] <= len(data)
    assert fewer > len(good) / 2


def test_times_beyond_all_time_are_not_plain() -> None:
    """Machine integers would wrap where Python's grow: such batches are left to those who refuse them."""
    whole = bytearray(write_batch([Record(0, 1000, None, b"value", ())]))

    def is_plain(module: Any) -> bool:
        struct.pack_into(">I", whole, 17, crc32c(memoryview(whole)[21:]))
        taken: bool = module.Plain().take(memoryview(whole), bytes(whole), 0, len(whole), 10, 0, 0)
        return taken

    assert is_plain(walk)
    for first in (-1, -(1 << 63), 1 << 56, (1 << 63) - 1):
        struct.pack_into(">q", whole, 27, first)
        struct.pack_into(">q", whole, 35, first)
        assert not is_plain(walk) and not is_plain(source_of_walk())
