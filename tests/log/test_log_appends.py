"""Appending, writing, syncing: which offset moves when, and what a reader may see."""

from __future__ import annotations

import pytest
from tests.log.log_building import (
    NOW,
    PAGE_CACHE,
    append,
    batch,
    contents,
    fill,
    later,
    new_disk,
    open_log,
    small,
    values_of,
)

from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, ShortFileError
from barnabas.log.reading import just_written
from barnabas.wire.records import read_batch_header


def test_an_append_gives_offsets_and_patches_the_header_in_place() -> None:
    log = open_log(new_disk())
    first, second = batch(b"a", b"b"), batch(b"c")
    assert append(log, first, epoch=7) == (0, 1)
    assert append(log, second, epoch=7) == (2, 2)
    header = read_batch_header(second)
    assert (header.base_offset, header.leader_epoch) == (2, 7)
    log.write()
    assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_what_the_last_write_wrote_is_read_from_its_buffers_and_nothing_else() -> None:
    log, much = open_log(new_disk()), 1 << 20
    append(log, batch(b"before"))
    log.write(keep=True)
    append(log, batch(b"a", b"b"))
    append(log, batch(b"c"))
    assert just_written(log, 1, much, 4) is None, "nobody reads what is not written yet"
    log.write(keep=True)
    for _ in range(2):
        assert just_written(log, 1, much, 4) == log.read(1, much, 4).read()
    size = len(log.read(1, much, 4))
    others = [(0, much, 4), (2, much, 4), (1, much, 3), (1, size - 1, 4)]
    assert [just_written(log, *other) for other in others] == [None] * 4
    log.truncate_to(3, NOW)
    assert just_written(log, 1, much, 3) is just_written(log, 1, much, 4) is None, "what was cut is gone"


def test_each_offset_moves_at_its_own_step() -> None:
    log = open_log(new_disk())

    def offsets() -> tuple[int, int, int]:
        return log.durable_end_offset, log.written_end_offset, log.log_end_offset

    append(log, batch(b"a"))
    assert offsets() == (0, 0, 1)
    log.write()
    assert offsets() == (0, 1, 1)
    job = log.begin_sync()
    assert job is not None
    append(log, batch(b"b"))
    log.write()
    job.run()
    assert offsets() == (0, 2, 2)
    log.finish_sync(job)
    assert offsets() == (1, 2, 2), "a job covers only what was written before it began"
    second = log.begin_sync()
    assert second is not None
    second.run()
    log.finish_sync(second)
    assert offsets() == (2, 2, 2)


def test_one_sync_is_in_flight_at_a_time_and_none_begins_for_nothing() -> None:
    log = open_log(new_disk())
    fill(log, 1)
    assert log.begin_sync() is None
    append(log, batch(b"a"))
    assert log.begin_sync() is None, "nothing new is written yet"
    log.write()
    job = log.begin_sync()
    assert job is not None and log.begin_sync() is None
    job.run()
    log.finish_sync(job)
    assert log.begin_sync() is None


def test_what_is_acknowledged_is_the_durable_end_unless_the_page_cache_counts() -> None:
    synced, cached = open_log(new_disk()), open_log(new_disk(), small(flush_messages=PAGE_CACHE))
    for log in (synced, cached):
        append(log, batch(b"a"))
        log.write()
    assert (synced.acknowledged_end_offset, cached.acknowledged_end_offset) == (0, 1)


def test_a_reader_sees_nothing_that_is_not_written() -> None:
    log = open_log(new_disk())
    append(log, batch(b"a"))
    log.write()
    append(log, batch(b"b"))
    assert len(log.read(1, 1000, 99)) == 0
    assert contents(log) == [(0, b"a")]


def test_a_slice_holds_whole_batches_below_the_end_and_within_the_size() -> None:
    log = open_log(new_disk(), small(segment_bytes=1 << 20))
    fill(log, 20, start=100)
    size = len(log.read(3, 1, 20))
    for offset in range(20):
        assert len(log.read(offset, 10 * size + 5, 20)) <= 10 * size + 5
        assert len(log.read(offset, 1 << 20, offset + 2)) == min(2, 20 - offset) * len(
            log.read(offset, 1, 20)
        )
    assert len(log.read(4, 1, 20, at_least_one=False)) == 0
    assert len(log.read(4, 1 << 20, 4)) == 0


def test_a_batch_of_which_a_part_lies_beyond_the_end_is_left_out() -> None:
    log = open_log(new_disk())
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    log.sync()
    one = len(log.read(0, 1, 99))
    assert len(log.read(0, 1 << 20, 3)) == one
    assert len(log.read(2, 1 << 20, 3)) == 0
    assert read_batch_header(log.read(2, 1 << 20, 4).read()).base_offset == 1


def test_reading_outside_the_log_is_out_of_range() -> None:
    log = open_log(new_disk())
    fill(log, 3)
    for offset in (-1, 4):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 100, 99)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(log.read(3, 100, 99)) == 0


def test_a_slice_of_a_file_that_was_cut_says_so_instead_of_being_short() -> None:
    log = open_log(new_disk(), small(segment_bytes=1 << 20))
    fill(log, 3)
    slice_ = log.read(0, 1 << 20, 3)
    log.truncate_to(1, NOW)
    with pytest.raises(ShortFileError, match="ends before"):
        slice_.read()


def test_segments_roll_by_size_and_reads_go_across() -> None:
    log = open_log(new_disk())
    values = fill(log, 40)
    assert len(log.segments) > 3
    assert all(segment.end_position <= 1000 for segment in log.segments)
    assert values_of(log) == values


def test_segments_roll_by_the_time_of_records_not_of_the_clock() -> None:
    log = open_log(new_disk(), small(segment_ms=1000))
    append(log, batch(b"a"))
    append(log, batch(b"b", timestamp=NOW.wall_ms + 1000), now=later(50_000))
    assert len(log.segments) == 1
    append(log, batch(b"c", timestamp=NOW.wall_ms + 1001))
    assert log.bases == [0, 2]


def test_records_without_timestamps_roll_by_the_clock() -> None:
    log = open_log(new_disk(), small(segment_ms=1000))
    append(log, batch(b"a", timestamp=-1))
    append(log, batch(b"b", timestamp=-1), now=later(1000))
    assert log.bases == [0]
    append(log, batch(b"c", timestamp=-1), now=later(1001))
    assert log.bases == [0, 2]


def test_a_full_index_ends_a_segment() -> None:
    log = open_log(new_disk(), small(segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=36))
    fill(log, 10)
    assert [b - a for a, b in zip(log.bases, log.bases[1:], strict=False)] == [4, 4]


def test_a_large_batch_into_an_empty_log_does_not_roll_it() -> None:
    log = open_log(new_disk())
    append(log, batch(b"x" * 5000))
    append(log, batch(b"y"))
    log.sync()
    assert log.bases == [0, 1]
    assert values_of(log) == [b"x" * 5000, b"y"]


def test_a_follower_takes_batches_as_they_are_and_leaves_a_partial_one() -> None:
    leader, follower = open_log(new_disk(), small(segment_bytes=1 << 20)), open_log(new_disk())
    fill(leader, 4, epoch=2)
    fill(leader, 3, epoch=5, start=4)
    data = leader.read(0, 1 << 20, 99).read()
    taken = follower.append_as_follower(data[:-10], NOW)
    follower.sync()
    assert taken == (0, 5)
    assert contents(follower) == contents(leader)[:6]
    assert follower.epochs.entries() == [(2, 0), (5, 4)]
    assert follower.append_as_follower(b"", NOW) is None


@pytest.mark.parametrize("fault", ["crc", "offset", "epoch", "magic"])
def test_a_follower_refuses_the_whole_answer_when_one_batch_is_wrong(fault: str) -> None:
    log = open_log(new_disk())
    good = batch(b"a", base_offset=0, epoch=3)
    bad = batch(b"b", base_offset=0 if fault == "offset" else 1, epoch=2 if fault == "epoch" else 3)
    if fault == "crc":
        bad[-1] ^= 1
    if fault == "magic":
        bad[16] = 7
    with pytest.raises(Exception) as refused:
        log.append_as_follower(bytes(good + bad), NOW)
    assert type(refused.value).__name__ in ("CorruptRecordError", "WireError")
    assert (log.log_end_offset, log.epochs.entries()) == (0, [])


def test_a_follower_leaves_out_batches_of_an_epoch_its_leader_does_not_have() -> None:
    log = open_log(new_disk())
    data = bytes(batch(b"a", base_offset=0, epoch=3) + batch(b"b", base_offset=1, epoch=4))
    assert log.append_as_follower(data, NOW, leader_epoch=3) == (0, 0)
    assert log.append_as_follower(bytes(batch(b"c", base_offset=1, epoch=4)), NOW, leader_epoch=3) is None


def test_a_follower_of_a_compacted_leader_keeps_the_gaps() -> None:
    log = open_log(new_disk())
    log.append_as_follower(
        bytes(batch(b"a", base_offset=5, epoch=0) + batch(b"b", base_offset=9, epoch=0)), NOW
    )
    log.sync()
    assert contents(log, 0) == [(5, b"a"), (9, b"b")]
    assert contents(log, 6) == [(9, b"b")]
    with pytest.raises(CorruptRecordError):
        log.append_as_follower(bytes(batch(b"c", base_offset=7, epoch=0)), NOW)


def test_the_high_watermark_stays_between_start_and_end() -> None:
    log = open_log(new_disk())
    fill(log, 5)
    log.high_watermark = 99
    assert log.high_watermark == 5
    log.increment_log_start(2)
    log.high_watermark = 0
    assert log.high_watermark == 2


def test_offsets_by_time_find_the_first_record_at_or_after() -> None:
    log = open_log(new_disk())
    for i in range(30):
        append(log, batch(b"a", b"b", timestamp=1000 + i * 10), epoch=i // 10)
    log.sync()
    for i in range(30):
        for extra, offset in ((0, 0), (1, 1), (-8, 0)):
            found = log.offset_for_timestamp(1000 + i * 10 + extra, 99)
            assert found is not None
            assert (found.offset, found.timestamp, found.epoch) == (
                2 * i + offset,
                1000 + i * 10 + offset,
                i // 10,
            )
    assert log.offset_for_timestamp(2000, 99) is None
    assert log.offset_for_timestamp(1000 + 20 * 10, 40) is None, "not below the end that was asked for"
    assert log.max_timestamp_offset(99) == (1291, 59, 2)
    assert log.max_timestamp_offset(20) == (1091, 19, 0)


@pytest.mark.parametrize("timestamp", [-(1 << 63), -1, 0, (1 << 63) - 1])
def test_cve_2026_111496_a_timestamp_at_the_end_of_its_range_is_an_age_like_others(timestamp: int) -> None:
    log = open_log(new_disk(), small(retention_ms=1000))
    for _ in range(40):
        append(log, batch(b"x" * 100, timestamp=timestamp))
    log.sync()
    log.high_watermark = log.log_end_offset
    gone = log.retain(NOW)
    assert bool(gone) == (timestamp == 0), "negative ones are no times: the file's own counts"
    found = log.max_timestamp_offset(99)
    assert (found is None) == (timestamp <= 0), "nothing is left, or no record has a time"


def test_the_largest_timestamp_may_lie_before_later_records() -> None:
    log = open_log(new_disk())
    for timestamp in (10, 5000, 20, 30):
        append(log, batch(b"x" * 100, timestamp=timestamp))
    log.sync()
    assert log.max_timestamp_offset(99) == (5000, 1, 0)
    found = log.offset_for_timestamp(25, 99)
    assert found is not None and found.offset == 1
    assert open_log(new_disk()).max_timestamp_offset(99) is None
