"""Record batches: what is written reads back, and what is broken is called so."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.errors import CorruptRecordError
from barnabas.wire.compression import Codec
from barnabas.wire.control import (
    ControlType,
    EndTxnMarker,
    LeaderChangeMessage,
    control_type,
    read_control,
    write_control,
)
from barnabas.wire.records import (
    HEADER_SIZE,
    Record,
    batches,
    check_crc,
    patch,
    read_batch_header,
    read_records,
    restamp,
    write_batch,
)

RECORDS = [
    Record(10, 1_000, b"key", b"value"),
    Record(11, 990, None, b"x" * 300, (("h", b"1"), ("h", None), ("é", b""))),
    Record(15, 1_000_000_000_000, b"", None),
]

nullable = st.none() | st.binary(max_size=80) | st.just(b"z" * 200)
record = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 1 << 45),
    nullable,
    nullable,
    st.lists(st.tuples(st.text(max_size=9), nullable), max_size=3).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(record, max_size=12), st.sampled_from(Codec), st.integers(0, 1 << 60), st.data())
def test_records_read_back_as_written(
    records: list[Record], codec: Codec, base: int, data: st.DataObject
) -> None:
    offset = base
    placed = []
    for each in records:
        placed.append(each._replace(offset=offset))
        offset += data.draw(st.integers(1, 100))
    batch = write_batch(placed, base_offset=base, codec=codec)
    header = read_batch_header(batch)
    assert check_crc(batch, 0, header)
    assert header.size == len(batch)
    assert header.codec == codec
    assert header.count == len(records)
    assert read_records(batch, 0, header) == placed


def test_the_header_says_what_was_asked_for() -> None:
    batch = write_batch(
        RECORDS,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=2,
        base_sequence=0x7FFFFFFE,
        transactional=True,
        last_offset=20,
    )
    header = read_batch_header(batch)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (10, 20, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 0x7FFFFFFE)
    assert header.last_sequence == 8
    assert header.is_transactional
    assert not header.is_control
    assert header.timestamp_type == 0
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_000_000_000_000)
    assert header.delete_horizon is None
    assert read_batch_header(write_batch(RECORDS)).last_sequence == -1


def test_offset_and_epoch_are_patched_without_touching_the_crc() -> None:
    batch = bytearray(b"..") + write_batch(RECORDS)
    patch(memoryview(batch), 2, 500, 9)
    header = read_batch_header(batch, 2)
    assert (header.base_offset, header.leader_epoch) == (500, 9)
    assert check_crc(batch, 2, header)
    assert [each.offset for each in read_records(batch, 2, header)] == [500, 501, 505]


def test_the_append_time_is_everybodys_time() -> None:
    batch = write_batch(RECORDS)
    restamp(batch, 0, read_batch_header(batch), 5_000)
    header = read_batch_header(batch)
    assert header.timestamp_type == 1
    assert check_crc(batch, 0, header)
    assert {each.timestamp for each in read_records(batch, 0, header)} == {5_000}
    assert batch == write_batch(RECORDS, append_time=5_000)


def test_a_delete_horizon_stands_in_place_of_the_base_timestamp() -> None:
    batch = write_batch(RECORDS, delete_horizon=123_456)
    header = read_batch_header(batch)
    assert header.delete_horizon == 123_456
    assert read_records(batch, 0, header) == RECORDS


def test_an_empty_batch_keeps_its_offsets() -> None:
    batch = write_batch([], base_offset=40, last_offset=44, producer_id=1, producer_epoch=0, base_sequence=0)
    header = read_batch_header(batch)
    assert (header.size, header.count, header.last_offset) == (HEADER_SIZE, 0, 44)
    assert read_records(batch, 0, header) == []


def test_a_record_before_its_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="before the base offset"):
        write_batch(RECORDS, base_offset=11)


def test_batches_are_walked_and_an_incomplete_last_one_is_left_out() -> None:
    one, two = write_batch(RECORDS), write_batch([Record(16, 1)])
    log = one + two
    assert [(p, h.base_offset) for p, h in batches(log)] == [(0, 10), (len(one), 16)]
    for cut in range(len(one), len(log)):
        assert [p for p, _ in batches(log[:cut])] == [0]
    assert [p for p, _ in batches(log, len(one))] == [len(one)]
    assert [p for p, _ in batches(log, 0, len(one))] == [0]


def test_what_is_no_batch_is_a_corrupt_record() -> None:
    batch = write_batch(RECORDS)
    with pytest.raises(CorruptRecordError, match="61 bytes, here are 60"):
        read_batch_header(batch[:60])
    old = bytearray(batch)
    old[16] = 1
    with pytest.raises(CorruptRecordError, match="magic 1"):
        read_batch_header(old)
    for length in (-1, 0, HEADER_SIZE - 13):
        lying = bytearray(batch)
        lying[8:12] = length.to_bytes(4, "big", signed=True)
        with pytest.raises(CorruptRecordError, match=f"length {length}"):
            list(batches(lying))
    assert not check_crc(batch[:-1], 0, read_batch_header(batch))


def test_the_crc_sees_every_bit_from_the_attributes_on() -> None:
    batch = write_batch(RECORDS)
    header = read_batch_header(batch)
    for place in range(21, len(batch)):
        batch[place] ^= 0x10
        assert not check_crc(batch, 0, header)
        batch[place] ^= 0x10
    assert check_crc(batch, 0, header)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_with_changed_bytes_reads_or_is_a_corrupt_record(codec: Codec) -> None:
    rng = random.Random(codec)
    batch = write_batch([each for each in RECORDS for _ in range(3)], base_offset=0, codec=codec)
    for _ in range(400):
        broken = bytearray(batch)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(HEADER_SIZE - 4, len(broken))] = rng.randrange(256)
        with contextlib.suppress(CorruptRecordError):
            read_records(broken, 0, read_batch_header(broken), 1 << 16)


@pytest.mark.parametrize("count", [-1, 2, 4, 0x7FFFFFFF])
def test_a_lying_count_is_a_corrupt_record(count: int) -> None:
    batch = write_batch(RECORDS)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordError):
        read_records(batch, 0, read_batch_header(batch))


def test_a_batch_unpacks_only_to_its_limit() -> None:
    batch = write_batch([Record(0, 0, None, bytes(100_000))], codec=Codec.GZIP)
    header = read_batch_header(batch)
    assert len(read_records(batch, 0, header, 100_100)) == 1
    with pytest.raises(CorruptRecordError, match="more than 99999 bytes"):
        read_records(batch, 0, header, 99_999)


def test_control_records_read_back_as_written() -> None:
    for type_, message in (
        (ControlType.COMMIT, EndTxnMarker(coordinator_epoch=5)),
        (ControlType.LEADER_CHANGE, LeaderChangeMessage(version=1, leader_id=3)),
    ):
        key, value = write_control(type_, message)
        assert read_control(Record(0, 0, key, value)) == (type_, message)


def test_a_control_record_that_we_do_not_know_is_passed_over() -> None:
    assert read_control(Record(0, 0, b"\0\0\0\x63", b"\0\0")) == (None, None)
    assert control_type(b"\0\1\0\1more") is ControlType.COMMIT


def test_a_malformed_control_record_is_an_error() -> None:
    from barnabas.errors import WireError

    for key, value in ((None, b""), (b"\0\0", b""), (b"\xff\xff\0\1", b""), (b"\0\0\0\2", None)):
        with pytest.raises(WireError):
            read_control(Record(0, 0, key, value))
