"""The bulk decode gives what the plain decode gives, for every codec, and refuses what is damaged."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.hostile_batches import hostile_batches, known_answers, lying

from barnabas.errors import BarnabasError, CorruptRecordError, WireError
from barnabas.pipeline.records import ARROW_SCHEMA, ArrowDecoder, arrow_batches
from barnabas.pipeline.varints import zigzags
from barnabas.wire.codec.primitives import varlong
from barnabas.wire.records import Record, batches, patch, read_batch_header, read_records, write_batch
from barnabas.wire.spans import hollow, spans, thin_out, unpack, with_horizon

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

blobs = st.none() | st.binary(max_size=40) | st.integers(0, 70).map(lambda n: b"v" * n * n)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=20)), max_size=4)
one_record = st.tuples(st.integers(1, 3), st.integers(-(2**33), 2**41), blobs, blobs, headers)


def records_of(drawn: Sequence[tuple], base: int) -> list[Record]:
    """Records with growing offsets, with gaps as compaction leaves them."""
    offset, found = base, []
    for step, timestamp, key, value, its_headers in drawn:
        found.append(Record(offset, timestamp, key, value, tuple(its_headers)))
        offset += step
    return found


def rows_of(tables: Sequence[pa.RecordBatch]) -> list[tuple]:
    found: list[tuple] = []
    for table in tables:
        columns = [column.to_pylist() for column in table.columns]
        found += zip(*columns, strict=True)
    return found


def plain(buffers: Sequence[bytes], start: int, end: int) -> list[tuple]:
    """The same rows by the decode that reads one record after the other."""
    found = []
    for buffer in buffers:
        for position, header in batches(buffer):
            for record in read_records(buffer, position, header):
                if not start <= record.offset < end:
                    continue
                its_headers = [{"key": key, "value": value} for key, value in record.headers] or None
                when = EPOCH + record.timestamp * MILLISECOND
                found.append(
                    (
                        record.key,
                        record.value,
                        "t",
                        3,
                        record.offset,
                        when,
                        header.timestamp_type,
                        its_headers,
                    )
                )
    return found


def decoded(buffers: Sequence[bytes], **options: object) -> list[pa.RecordBatch]:
    decoder = ArrowDecoder("t", 3, **options)
    whole = [(memoryview(b)[p : p + h.size], h) for b in buffers for p, h in batches(b)]
    return list(arrow_batches(decoder, whole))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(one_record, min_size=1, max_size=12),
            st.integers(0, 4),
            st.none() | st.integers(0, 2**41),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 30),
    st.integers(1, 60),
)
def test_the_bulk_decode_gives_the_rows_of_the_plain_decode(drawn: list, start: int, length: int) -> None:
    buffers, base = [], 0
    for its_records, codec, append_time in drawn:
        records = records_of(its_records, base)
        buffers.append(bytes(write_batch(records, codec=codec, append_time=append_time)))
        base = records[-1].offset + 5
    end = start + length
    assert rows_of(decoded(buffers, start=start, end=end, include_headers=True)) == plain(buffers, start, end)
    without = rows_of(decoded(buffers, start=start, end=end))
    assert without == [row[:-1] for row in plain(buffers, start, end)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
def test_numbers_of_all_sizes_are_read_together(numbers: list[int]) -> None:
    import numpy as np

    encoded = [bytes(varlong(number)) for number in numbers]
    at = np.cumsum([0, *map(len, encoded)])
    values, behind = zigzags(np.frombuffer(b"".join(encoded), np.uint8), at[:-1].astype(np.int64))
    assert values.tolist() == numbers
    assert behind.tolist() == at[1:].tolist()


def test_the_columns_are_those_of_sparks_own_connector() -> None:
    [table] = decoded([bytes(write_batch([Record(0, 1, b"k", b"v", ())]))])
    assert table.schema == ARROW_SCHEMA
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert table.schema.names == names


@pytest.mark.parametrize("codec", range(5))
def test_compacted_batches_are_decoded_with_their_gaps_and_their_times(codec: int) -> None:
    whole = write_batch(
        [
            Record(100 + i, 1_700_000_000_000 + i, b"k%d" % i, b"v%d" % i if i % 3 else None)
            for i in range(10)
        ],
        codec=codec,
    )
    header = read_batch_header(whole)
    data = unpack(whole, header)
    kept = spans(data, header)[2::2]
    buffers = [
        bytes(thin_out(header, data, kept)),
        bytes(with_horizon(whole, header, 1_800_000_000_000, {1, 5, 9})),
        bytes(hollow(header)),
    ]
    assert rows_of(decoded(buffers, start=0, end=1000, include_headers=True)) == plain(buffers, 0, 1000)
    assert len(plain(buffers, 0, 1000)) == 7


def test_control_batches_are_left_out() -> None:
    control = bytes(write_batch([Record(0, 1, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], control=True))
    data = bytes(write_batch([Record(1, 1, None, b"v", ())], base_offset=1))
    assert [row[4] for row in rows_of(decoded([control, data]))] == [1]


def test_nothing_in_the_range_gives_no_table() -> None:
    assert decoded([bytes(write_batch([Record(0, 1, b"k", b"v", ())]))], start=5) == []
    assert ArrowDecoder("t", 0).take() is None


def test_many_small_batches_become_few_tables() -> None:
    buffers = [bytes(write_batch([Record(n, 1, b"k", b"v", ())], base_offset=n)) for n in range(300)]
    [table] = decoded(buffers)
    assert table.column("offset").to_pylist() == list(range(300))


def test_a_decoder_says_what_it_did() -> None:
    decoder = ArrowDecoder("t", 0)
    batch = bytes(write_batch([Record(0, 1, b"k", b"v", ())]))
    list(arrow_batches(decoder, [(batch, read_batch_header(batch))]))
    assert (decoder.statistics().batches, decoder.statistics().rows) == (1, 1)
    assert "t-0" in repr(decoder)


def test_a_header_key_that_is_no_utf8_is_shown_with_marks_and_not_fatal() -> None:
    batch = bytearray(write_batch([Record(0, 1, b"k", b"v", (("abc", b"1"),))]))
    at = bytes(batch).index(b"abc")
    batch[at] = 0xFF
    [row] = rows_of(decoded([bytes(batch)], include_headers=True))
    assert row[-1] == [{"key": "\ufffdbc", "value": b"1"}]


@pytest.mark.parametrize("stamp", [1_800_000_000_000_000_000, -(2**62)])
def test_a_time_that_spark_cannot_hold_is_an_error_that_names_its_record(stamp: int) -> None:
    batch = bytes(write_batch([Record(5, 1, b"k", b"v", ()), Record(6, stamp, b"k", b"w", ())]))
    with pytest.raises(BarnabasError, match=f"t-3: the record at offset 6 has the timestamp {stamp} ms"):
        decoded([batch])
    assert [row[1] for row in rows_of(decoded([batch], end=6))] == [b"v"], "the records before it can be read"
    without = decoded([batch], columns=("value", "offset"))
    assert rows_of(without) == [(b"v", 5), (b"w", 6)], "so can all of them, without their times"


@pytest.mark.parametrize("ms", [-(2**63 - 1) // 1000 + 1, (2**63 - 1) // 1000])
def test_the_first_and_the_last_time_that_spark_can_hold_are_read(ms: int) -> None:
    [rows] = decoded([bytes(write_batch([Record(0, ms, b"k", b"v", ())]))])
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [ms * 1000]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_records_are_refused_or_stay_inside_their_batch(data: st.DataObject) -> None:
    """Whatever the bytes, nothing but our own errors comes out, and no row from outside the range."""
    records = [Record(n, n, b"key%d" % n, b"value" * n, (("h", b"1"),)) for n in range(6)]
    batch = bytearray(write_batch(records))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        rows = rows_of(decoded([bytes(batch)], start=0, end=100, include_headers=True))
    except (BarnabasError, WireError):
        return
    assert len(rows) <= 6 and all(0 <= row[4] < 100 for row in rows)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_count_that_the_records_do_not_fill_is_refused(cut: int) -> None:
    batch = write_batch([Record(n, 1, b"k", b"v", ()) for n in range(30)])
    header = read_batch_header(batch)._replace(count=30 - cut)
    decoder = ArrowDecoder("t", 0)
    decoder.add(batch, header)
    with pytest.raises(CorruptRecordError):
        decoder.take()


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_records_whose_lengths_lie_are_an_error_that_names_their_batch(codec: int) -> None:
    good = bytes(write_batch([Record(0, 1, b"k", b"v", ())]))
    bad = bytearray(lying(b"1", b"2", at=1, codec=codec))
    patch(bad, 0, 7, 0)
    with pytest.raises(CorruptRecordError, match="t-3: the batch at offset 7 cannot be read") as caught:
        decoded([good, bytes(bad), good])
    assert caught.value.next_step == "to go on after it, start at offset 9"


def test_of_the_hostile_batches_that_a_broker_takes_both_decodes_read_the_same() -> None:
    """Lengths below -1, numbers with too many bits, lies: what one reads the other reads, or neither does."""
    answers, read, refused = known_answers(), 0, 0
    for case in hostile_batches(1_700_000_000_000):
        if answers[case.name]["plain"][0] or "int64" in case.name or "2^62" in case.name:
            continue  # no column of microseconds holds such a time
        try:
            rows = plain([case.batch], 0, 1 << 40)
        except CorruptRecordError:
            refused += 1
            with pytest.raises(CorruptRecordError):
                decoded([case.batch], include_headers=True)
        else:
            read += 1
            assert rows_of(decoded([case.batch], include_headers=True)) == rows, case.name
    assert read > 60
    assert refused > 80
