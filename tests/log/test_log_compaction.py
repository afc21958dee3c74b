"""Compaction: of every key the last value stays, everything else keeps its place, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.log_building import (
    NOW,
    PATH,
    append,
    contents,
    fill,
    later,
    marker,
    new_disk,
    open_log,
    small,
    tick,
)

from barnabas.config import LogConfig
from barnabas.errors import StorageError
from barnabas.log.cleaning.compaction import BYTES_PER_KEY, Compaction
from barnabas.log.cleaning.dirty_range import find_dirty_range
from barnabas.log.log import Log
from barnabas.model import Now
from barnabas.sim.kernel.disk import Crashed
from barnabas.wire.records import BatchHeader, Record, batches, read_batch_header, read_records, write_batch

DAY = 86_400_000
Keyed = tuple[bytes | None, bytes | None]


def compacted(**changes: object) -> LogConfig:
    return small(**{"cleanup_policy": frozenset({"compact"}), "segment_bytes": 600, **changes})


def keyed(
    *records: Keyed,
    timestamp: int = NOW.wall_ms,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytearray:
    rows = [Record(i, timestamp + i, key, value, [("h", key)]) for i, (key, value) in enumerate(records)]
    return write_batch(
        rows,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
    )


def put(log: Log, *records: Keyed, now: Now = NOW, **more: object) -> int:
    """Append one batch and make it safe; returns its first offset."""
    data = keyed(*records, **more)  # type: ignore[arg-type]
    first = append(log, data, now=now).first_offset
    commit(log)
    return first


def commit(log: Log) -> None:
    log.sync()
    log.high_watermark = log.log_end_offset


def begin(log: Log, now: Now = NOW, memory: int = 1 << 20) -> Compaction:
    return Compaction(log, find_dirty_range(log, now), now, memory=memory)


def drive(cleaning: Compaction, now: Now = NOW) -> bool:
    while not cleaning.finished:
        cleaning.run()
        cleaning.install(now)
    return cleaning.conclude()


def clean(log: Log, now: Now = NOW, memory: int = 1 << 20) -> Compaction:
    """Roll, and compact everything."""
    log.roll(now)
    commit(log)
    cleaning = begin(log, now, memory)
    assert drive(cleaning, now), cleaning.failure
    return cleaning


def records_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    for header, record in all_records(log):
        if not header.is_control:
            found.append((record.offset, record.key, record.value))
    return found


def all_records(log: Log) -> Iterable[tuple[BatchHeader, Record]]:
    offset = log.log_start_offset
    while offset < log.written_end_offset:
        data = log.read(offset, 300, log.written_end_offset).read()
        if not data:
            return
        for position, header in batches(data):
            for record in read_records(data, position, header):
                yield header, record
            offset = header.last_offset + 1


def headers(log: Log) -> list[BatchHeader]:
    return list(log.batches())


def test_the_last_value_of_each_key_stays_where_it_was() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(40):
        put(log, (b"k%d" % (n % 4), b"v%d" % n), (b"other", b"o%d" % n))
    cleaning = clean(log)
    assert records_of(log) == [(2 * n, b"k%d" % (n % 4), b"v%d" % n) for n in range(36, 39)] + [
        (78, b"k3", b"v39"),
        (79, b"other", b"o39"),
    ]
    assert log.compacted_offset == 80 == cleaning.end
    assert len(log.segments) < 6
    assert log.log_end_offset == 80
    assert cleaning.statistics().kept == 5


def test_the_segment_that_grows_is_never_touched() -> None:
    log = open_log(new_disk(), compacted(segment_bytes=100_000))
    for n in range(10):
        put(log, (b"k", b"%d" % n))
    assert find_dirty_range(log, NOW).dirty_bytes == 0
    assert len(records_of(log)) == 10


def test_nothing_beyond_the_high_watermark_is_compacted() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(20):
        put(log, (b"k", b"%d" % n))
    log.roll(NOW)
    log._high_watermark = 7
    assert find_dirty_range(log, NOW).limit == 7
    assert drive(begin(log))
    assert [value for _, _, value in records_of(log)] == [b"%d" % n for n in range(6, 20)]
    assert log.compacted_offset == 7


def test_a_transaction_that_is_open_ends_the_part_that_may_be_compacted() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(10):
        put(log, (b"k", b"%d" % n))
    put(log, (b"t", b"open"), producer=(7, 0, 0), transactional=True)
    for n in range(10, 20):
        put(log, (b"k", b"%d" % n))
    log.roll(NOW)
    assert find_dirty_range(log, NOW).limit == 10


def test_young_records_stay_and_old_ones_do_not_wait_for_the_ratio() -> None:
    log = open_log(new_disk(), compacted(min_compaction_lag_ms=5000))
    for n in range(20):
        put(log, (b"k", b"%d" % n), timestamp=NOW.wall_ms + n * 1000)
    log.roll(NOW)
    part = find_dirty_range(log, later(20_000))
    assert 0 < part.limit <= 16
    assert part.limit in log.bases
    log.reconfigure(compacted(max_compaction_lag_ms=30_000, min_cleanable_dirty_ratio=1.0))
    assert not find_dirty_range(log, later(20_000)).due(log)
    assert find_dirty_range(log, later(31_000)).due(log)


def test_the_ratio_counts_what_was_compacted_before() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(40):
        put(log, (b"k%d" % n, b"%d" % n))
    clean(log)
    for n in range(20):
        put(log, (b"k%d" % n, b"again %d" % n))
    log.roll(NOW)
    part = find_dirty_range(log, NOW)
    assert 0.3 < part.ratio < 0.4
    assert not part.due(log)
    for n in range(30):
        put(log, (b"k%d" % n, b"again %d" % n))
    log.roll(NOW)
    assert find_dirty_range(log, NOW).due(log)


def test_a_log_that_rolls_by_time_rolls_before_its_records_are_overdue() -> None:
    log = open_log(new_disk(), compacted(segment_bytes=1 << 20, max_compaction_lag_ms=1000))
    put(log, (b"k", b"1"))
    put(log, (b"k", b"2"), timestamp=NOW.wall_ms + 1001)
    assert len(log.segments) == 2


@pytest.mark.parametrize("codec", range(5))
def test_what_stays_of_a_batch_keeps_its_frame(codec: int) -> None:
    log = open_log(new_disk(), compacted())
    put(log, *((b"key %d" % n, b"x" * 30) for n in range(10)), codec=codec, producer=(5, 3, 40))
    before = headers(log)[0]
    put(log, *((b"key %d" % n, b"y") for n in range(8)), timestamp=NOW.wall_ms + 100)
    clean(log)
    after = headers(log)[0]
    assert after.count == 2
    assert after._replace(count=10, crc=before.crc, batch_length=before.batch_length) == before
    kept = [record for header, record in all_records(log) if header.producer_id == 5]
    assert [(r.offset, r.timestamp, r.key, r.headers) for r in kept] == [
        (n, NOW.wall_ms + n, b"key %d" % n, (("h", b"key %d" % n),)) for n in (8, 9)
    ]


def test_the_newest_timestamp_of_a_batch_is_that_of_what_stays() -> None:
    log = open_log(new_disk(), compacted())
    put(log, *((b"key %d" % n, b"x") for n in range(10)))
    put(log, (b"key 9", b"y"))
    clean(log)
    assert headers(log)[0].max_timestamp == NOW.wall_ms + 8


def test_records_without_a_key_go() -> None:
    log = open_log(new_disk(), small(segment_bytes=600))
    put(log, (None, b"old"), (b"k", b"v"))
    log.reconfigure(compacted())
    clean(log)
    assert records_of(log) == [(1, b"k", b"v")]


def test_a_deletion_mark_is_given_a_time_and_goes_after_it() -> None:
    log = open_log(new_disk(), compacted(delete_retention_ms=DAY))
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"))
    clean(log)
    assert records_of(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    horizons = [header.delete_horizon for header in headers(log)]
    assert horizons == [None, NOW.wall_ms + DAY]
    stamps = [record.timestamp for _, record in all_records(log)]
    assert stamps == [NOW.wall_ms + 1, NOW.wall_ms, NOW.wall_ms + 1]

    put(log, (b"d", b"1"))
    clean(log, later(DAY - 1))
    assert (2, b"a", None) in records_of(log)
    assert headers(log)[1].delete_horizon == NOW.wall_ms + DAY

    put(log, (b"e", b"1"))
    clean(log, later(DAY))
    assert records_of(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1"), (5, b"e", b"1")]
    assert [record.timestamp for _, record in all_records(log)][1] == NOW.wall_ms + 1


def test_aborted_records_go_at_once_and_their_marker_when_its_time_has_come() -> None:
    log = open_log(new_disk(), compacted(delete_retention_ms=DAY))
    put(log, (b"a", b"aborted"), producer=(7, 0, 0), transactional=True)
    append(log, marker(False, 7, 0))
    put(log, (b"b", b"done"), producer=(8, 0, 0), transactional=True)
    append(log, marker(True, 8, 0))
    put(log, (b"more", b"1"), producer=(7, 0, 1))
    put(log, (b"more", b"2"), producer=(8, 0, 1))
    assert len(log.aborted_transactions(0, 100)) == 1
    clean(log)
    assert records_of(log) == [(2, b"b", b"done"), (5, b"more", b"2")]
    assert [header.base_offset for header in headers(log) if header.is_control] == [1, 3]
    assert len(log.aborted_transactions(0, 100)) == 1

    put(log, (b"b", b"anew"))
    clean(log)
    marks = {header.base_offset: header.delete_horizon for header in headers(log) if header.is_control}
    assert marks == {1: NOW.wall_ms + DAY, 3: None}  # the second one's data was still there to be read
    assert log.aborted_transactions(0, 100) == []

    put(log, (b"c", b"1"))
    clean(log, later(DAY))
    marks = {header.base_offset: header.delete_horizon for header in headers(log) if header.is_control}
    assert marks == {3: NOW.wall_ms + 2 * DAY}
    put(log, (b"d", b"1"))
    clean(log, later(2 * DAY))
    assert not [header for header in headers(log) if header.is_control]


def test_aborted_records_whose_marker_is_in_the_segment_that_grows_supersede_nothing() -> None:
    log = open_log(new_disk(), compacted())
    put(log, (b"a", b"the last that counts"))
    put(log, (b"a", b"aborted"), producer=(7, 0, 0), transactional=True)
    log.roll(NOW)
    append(log, marker(False, 7, 0))
    put(log, (b"b", b"1"))
    assert drive(begin(log))
    assert (0, b"a", b"the last that counts") in records_of(log)
    assert committed(log) == [(0, b"a", b"the last that counts"), (3, b"b", b"1")]


def test_the_last_sequence_of_a_producer_outlives_its_records_and_a_restart() -> None:
    disk = new_disk()
    log = open_log(disk, compacted())
    put(log, (b"a", b"1"), (b"b", b"1"), producer=(7, 2, 10))
    put(log, (b"a", b"2"), (b"b", b"2"))
    put(log, (b"c", b"2"))
    clean(log)
    frame = headers(log)[0]
    assert (frame.base_offset, frame.last_offset, frame.count) == (0, 1, 0)
    assert (frame.producer_id, frame.producer_epoch, frame.last_sequence) == (7, 2, 11)
    for name in disk.list(PATH):
        if name.endswith(".snapshot"):
            disk.remove(f"{PATH}/{name}")
    disk.sync_directory(PATH)
    disk.crash("none")
    found = open_log(disk, compacted(), cleaned=log.compacted_offset)
    state = found.producers.get(7)
    assert state is not None
    assert (state.epoch, state.last_sequence, state.last_offset) == (2, 11, 1)
    assert found.producers.check(read_batch_header(keyed((b"z", b"1"), producer=(7, 2, 12)))) is None


def test_a_marker_stays_while_it_holds_the_epoch_of_a_producer() -> None:
    log = open_log(new_disk(), compacted(delete_retention_ms=0))
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    append(log, marker(True, 7, 1))  # the epoch was raised with it
    commit(log)
    put(log, (b"a", b"2"))
    for n in range(3):
        put(log, (b"x%d" % n, b"1"))
        clean(log)
    controls = [header for header in headers(log) if header.is_control]
    assert [(header.producer_id, header.producer_epoch, header.count) for header in controls] == [(7, 1, 0)]
    for name in log.disk.list(PATH):
        if name.endswith(".snapshot"):
            log.disk.remove(f"{PATH}/{name}")
    found = open_log(log.disk, compacted(), cleaned=log.compacted_offset)  # type: ignore[arg-type]
    state = found.producers.get(7)
    assert state is not None
    assert state.epoch == 1, "an earlier epoch stays fenced"


def test_the_latest_record_is_found_though_a_later_one_is_gone() -> None:
    log = open_log(new_disk(), compacted())
    put(log, (b"a", b"1"), timestamp=NOW.wall_ms + 5)
    put(log, (b"gone", b"1"), timestamp=NOW.wall_ms + 900, producer=(7, 0, 0))
    put(log, (b"gone", b"2"), timestamp=NOW.wall_ms + 3)
    clean(log)
    assert [header.count for header in headers(log)] == [1, 0, 1]
    found = log.max_timestamp_offset(3)
    assert found is not None
    assert (found.offset, found.timestamp) == (0, NOW.wall_ms + 5)


def test_the_end_of_a_round_is_kept_though_nothing_is_left_there() -> None:
    log = open_log(new_disk(), compacted(delete_retention_ms=0))
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    clean(log)
    put(log, (b"b", None))
    clean(log)
    assert headers(log)[-1].last_offset == 2
    assert log.log_end_offset == 3


def test_each_segment_ends_where_the_next_begins_whatever_is_gone() -> None:
    log = open_log(new_disk(), compacted(segment_bytes=1000))
    for n in range(60):
        put(log, (b"hot" if n % 2 else b"once %d" % n, b"x" * 150))
    for _ in range(2):
        clean(log)
        for place, segment in enumerate(log.segments[:-1]):
            last = [header for _, header in segment.headers()][-1]
            assert last.last_offset + 1 == log.bases[place + 1]
        put(log, (b"hot", b"again"))


def test_many_small_segments_become_few() -> None:
    log = open_log(new_disk(), compacted(segment_bytes=1000))
    for n in range(100):
        put(log, (b"k%d" % (n % 5), b"x" * 100))
    before = len(log.segments)
    clean(log)
    put(log, (b"k0", b"new"))
    clean(log)
    assert before > 15
    assert len(log.segments) <= 3
    assert log.bases[0] == 0
    assert log.bases == [segment.base for segment in log.segments]


def test_segments_are_not_merged_beyond_the_size_of_one() -> None:
    log = open_log(new_disk(), compacted(segment_bytes=1000))
    for n in range(60):
        put(log, (b"k%d" % n, b"x" * 100))
    clean(log)
    assert all(segment.end_position <= 1000 for segment in log.segments)
    assert len(records_of(log)) == 60


def test_a_segment_in_which_nothing_changes_is_left_alone() -> None:
    disk = new_disk()
    log = open_log(disk, compacted(segment_bytes=1000))
    for n in range(30):
        put(log, (b"k%d" % n, b"x" * 400))
    log.roll(NOW)
    commit(log)
    before = list(log.segments)
    assert drive(begin(log))
    assert log.segments == before
    assert not [name for name in disk.list(PATH) if "cleaned" in name or "deleted" in name]


def test_a_round_ends_where_the_memory_for_keys_does_and_the_next_goes_on() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(60):
        put(log, (b"k%d" % (n % 20), b"%d" % n))
    log.roll(NOW)
    commit(log)
    rounds = 0
    while find_dirty_range(log, NOW).dirty_bytes:
        cleaning = begin(log, memory=BYTES_PER_KEY * 6)
        assert drive(cleaning)
        assert cleaning.statistics().keys <= 6
        rounds += 1
    assert rounds >= 8
    assert {key for _, key, _ in records_of(log)} == {b"k%d" % n for n in range(20)}
    last = {key: value for _, key, value in records_of(log)}
    assert last == {b"k%d" % (n % 20): b"%d" % n for n in range(40, 60)}


def test_long_keys_are_told_apart() -> None:
    log = open_log(new_disk(), compacted())
    keys = [b"a" * 40 + b"%d" % n for n in range(10)]
    for n in range(30):
        put(log, (keys[n % 10], b"%d" % n))
    clean(log)
    assert {key: value for _, key, value in records_of(log)} == {
        key: b"%d" % (20 + n) for n, key in enumerate(keys)
    }


def test_a_reader_that_has_a_slice_reads_on_in_the_old_file() -> None:
    disk = new_disk()
    log = open_log(disk, compacted())
    for n in range(20):
        put(log, (b"k", b"%d" % n))
    slice_ = log.read(0, 300, log.written_end_offset)
    before = slice_.read()
    clean(log)
    assert slice_.read() == before
    tick(log, later(log.config.file_delete_delay_ms + 1))
    assert not [name for name in disk.list(PATH) if name.endswith(".deleted")]
    assert [value for _, _, value in records_of(log)] == [b"19"]


def test_every_offset_in_a_gap_leads_to_the_next_record() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(40):
        put(log, (b"k%d" % (n // 10), b"%d" % n))
    clean(log)
    for offset in range(40):
        expected = [o for o in (9, 19, 29, 39) if o >= offset]
        assert [o for o, _ in contents(log, offset)] == expected
    found = log.offset_for_timestamp(NOW.wall_ms, 40)
    assert found is not None
    assert found.offset == 9


def test_truncation_cancels_a_round_and_leaves_nothing_behind() -> None:
    disk = new_disk()
    log = open_log(disk, compacted())
    for n in range(30):
        put(log, (b"k", b"%d" % n))
    log.roll(NOW)
    commit(log)
    cleaning = begin(log)
    cleaning.run()
    while not cleaning.ready:
        cleaning.run()
    log.truncate_to(25, NOW)
    assert cleaning.cancelled
    assert not drive(cleaning)
    assert [value for _, _, value in records_of(log)] == [b"%d" % n for n in range(25)]
    assert not [name for name in disk.list(PATH) if name.endswith((".cleaned", ".swap"))]
    assert log.compaction is None


def test_a_truncation_below_what_was_compacted_makes_it_dirty_again() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(30):
        put(log, (b"k%d" % n, b"%d" % n))
    clean(log)
    log.truncate_to(20, NOW)
    assert log.compacted_offset == 20
    for n in range(10):
        put(log, (b"k19", b"new %d" % n))
    clean(log)
    assert records_of(log)[-1][1:] == (b"k19", b"new 9")
    assert len(records_of(log)) == 20


def test_retention_that_takes_a_segment_of_a_round_cancels_it() -> None:
    log = open_log(new_disk(), compacted(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000))
    for n in range(30):
        put(log, (b"k%d" % n, b"%d" % n))
    log.roll(NOW)
    commit(log)
    cleaning = begin(log)
    assert log.retain(later(10_000))
    assert cleaning.cancelled
    assert not drive(cleaning)
    assert records_of(log) == []


def test_deleted_records_are_no_obstacle() -> None:
    log = open_log(new_disk(), compacted())
    for n in range(30):
        put(log, (b"k%d" % n, b"%d" % n))
    log.increment_log_start(17)
    clean(log)
    assert [offset for offset, _, _ in records_of(log)] == list(range(17, 30))
    assert log.compacted_offset == 30


def test_a_broken_batch_sets_the_log_aside_and_nothing_else() -> None:
    disk = new_disk()
    log = open_log(disk, compacted())
    for n in range(30):
        put(log, (b"k", b"%d" % n))
    log.roll(NOW)
    commit(log)
    disk.corrupt(f"{PATH}/{log.bases[1]:020d}.log", 70)
    cleaning = begin(log)
    assert not drive(cleaning)
    assert "CRC" in str(cleaning.failure)
    assert log.failed is None
    assert not [name for name in disk.list(PATH) if name.endswith((".cleaned", ".swap"))]


def test_a_disk_that_fails_is_no_matter_of_one_log() -> None:
    disk = new_disk()
    log = open_log(disk, compacted())
    for n in range(30):
        put(log, (b"k", b"%d" % n))
    log.roll(NOW)
    commit(log)
    disk.fail("sync", ".cleaned")
    with pytest.raises(StorageError):
        drive(begin(log))


def test_a_log_that_is_closed_or_failed_ends_its_round() -> None:
    log = open_log(new_disk(), compacted())
    fill(log, 30)
    commit(log)
    cleaning = begin(log)
    cleaning.run()
    log.abandon()
    assert cleaning.cancelled
    assert not drive(cleaning)
    log.stop_compaction()


LIFE = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 7), st.booleans()), min_size=1, max_size=4),
        st.sampled_from(
            [
                "plain",
                "idempotent",
                "commit",
                "abort",
                "abort late",
                "roll",
                "clean",
                "clean a part",
                "restart",
            ]
        ),
        st.integers(0, 4),
    ),
    min_size=5,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(LIFE, st.integers(0, 1000))
def test_whatever_was_written_reads_back_as_the_last_value_of_each_key(
    life: list[tuple[list[tuple[int, bool]], str, int]], seed: int
) -> None:
    """`written`: every record that counts.  Whoever reads from the start ends with the same last values; what
    is left is a subset, in order; the last one of each key is there unless it is a deletion mark."""
    disk = new_disk(seed)
    config = compacted(delete_retention_ms=50)
    log = open_log(disk, config)
    written: list[tuple[int, bytes, bytes | None]] = []
    sequence, now, serial = 0, NOW, 0
    for records, kind, codec in life:
        now = Now(now.mono + 0.02, now.wall_ms + 20)
        if kind == "roll":
            log.roll(now)
        elif kind == "clean":
            clean(log, now, memory=BYTES_PER_KEY * 4)
        elif kind == "clean a part":
            if find_dirty_range(log, now).dirty_bytes:
                assert drive(begin(log, now), now)
        elif kind == "restart":
            commit(log)
            cleaned, mark = log.compacted_offset, log.high_watermark
            disk.crash("none")
            log = open_log(disk, config, cleaned=cleaned, high_watermark=mark)
        else:
            rows = []
            for key, tombstone in records:
                serial += 1
                rows.append((b"k%d" % key, None if tombstone else b"%d" % serial))
            producer = (-1, -1, -1)
            if kind != "plain":
                producer, sequence = (3, 0, sequence), sequence + len(rows)
            transactional = kind in ("commit", "abort", "abort late")
            data = keyed(
                *rows, timestamp=now.wall_ms, codec=codec, producer=producer, transactional=transactional
            )
            assert log.producers.check(read_batch_header(data)) is None
            first = append(log, data, now=now).first_offset
            if not kind.startswith("abort"):
                written += [(first + i, key, value) for i, (key, value) in enumerate(rows)]
            if kind == "abort late":
                log.roll(now)
            if transactional:
                append(log, marker(kind == "commit", 3, 0, timestamp=now.wall_ms), now=now)
            commit(log)
        check_reading(log, written)
    clean(log, now)
    check_reading(log, written)
    last = {key: (offset, value) for offset, key, value in written}
    left = committed(log)
    assert len(left) == len({key for _, key, _ in left})
    assert {key for _, key, _ in left} >= {key for key, (_, value) in last.items() if value is not None}


def committed(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """What a reader of committed records is shown."""
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    found = []
    for header, record in all_records(log):
        if header.is_control:
            continue
        if header.is_transactional and any(
            row.producer_id == header.producer_id and row.first_offset <= record.offset <= row.last_offset
            for row in aborted
        ):
            continue
        found.append((record.offset, record.key, record.value))
    return found


def check_reading(log: Log, written: list[tuple[int, bytes, bytes | None]]) -> None:
    read = committed(log)
    assert [row for row in read if row not in set(written)] == []
    assert [offset for offset, _, _ in read] == sorted(offset for offset, _, _ in read)
    now_there = {key: (offset, value) for offset, key, value in read}
    for key, (offset, value) in {key: (offset, value) for offset, key, value in written}.items():
        if value is not None:
            assert now_there[key] == (offset, value)
        else:
            assert now_there.get(key, (offset, None)) == (offset, None)


@pytest.mark.parametrize("loss", ["all", "some", "none"])
def test_a_crash_at_any_step_leaves_the_log_before_or_after(loss: str) -> None:
    step = 0
    while True:
        disk = new_disk(step)
        log = open_log(disk, compacted())
        for n in range(30):
            put(log, (b"k%d" % (n % 3), b"%d" % n))
            put(log, (b"once" if n % 2 else b"once %d" % n, b"x" * 100))  # segments too large to be merged
        for n in range(4):
            put(log, (b"once %d" % n, b"1"), producer=(7, 0, n), transactional=True)
            append(log, marker(n % 2 == 0, 7, 0))
            commit(log)
        log.roll(NOW)
        put(log, (b"k1", b"in the segment that grows"))
        before = committed(log)
        disk.crash_at(step)
        crashed = False
        try:
            drive(begin(log))
        except Crashed:
            crashed = True
        disk.crash(loss)  # type: ignore[arg-type]
        # At a start nobody knows yet that the topic is compacted, and nothing may have been written down of it.
        found = open_log(disk, small(segment_bytes=600), recovery_point=0)
        found.reconfigure(compacted())
        found.high_watermark = found.log_end_offset
        assert found.log_end_offset == log.log_end_offset
        assert found.recovery.cut_at < 0, found.recovery
        read = committed(found)
        assert {key: value for _, key, value in read} == {key: value for _, key, value in before}
        assert [row for row in read if row not in before] == []
        state = found.producers.get(7)
        assert state is not None
        assert state.last_sequence == 3
        assert not [name for name in disk.list(PATH) if name.endswith((".cleaned", ".swap", ".deleted"))]
        clean(found)
        assert len(committed(found)) == 19
        step += 1
        if not crashed:
            break
    assert step > 10
