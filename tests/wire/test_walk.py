"""What the compiled walk makes of records is what the loops in Python make of them, damaged or not.

Where nothing is compiled, the walk runs interpreted here: it is the same code.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.pipeline.varints import record_starts
from barnabas.wire import record_check, record_stream, walk
from barnabas.wire.records import HEADER_SIZE, Record, write_batch

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
