"""Truncation, retention, the log start: what goes, when, and what is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.log.log_building import (
    NOW,
    PATH,
    append,
    batch,
    contents,
    fill,
    later,
    new_disk,
    open_log,
    small,
    tick,
    values_of,
)

from barnabas.errors import ErrorCode, KafkaError, MissingFileError
from barnabas.log import truncation as cutting
from barnabas.log.log import Log
from barnabas.log.reading import damage_of


@pytest.mark.parametrize("offset", [1, 5, 6, 7, 12, 13, 19])
def test_a_truncated_log_ends_there_and_goes_on(offset: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 20)
    assert log.truncate_to(offset, NOW)
    assert (log.log_end_offset, log.written_end_offset, log.durable_end_offset) == (offset,) * 3
    assert values_of(log) == values[:offset]
    more = fill(log, 10, start=500)
    assert values_of(log) == values[:offset] + more
    disk.crash()
    assert values_of(open_log(disk)) == values[:offset] + more


def test_a_truncation_inside_a_batch_takes_the_whole_batch() -> None:
    log = open_log(new_disk())
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    log.sync()
    assert log.truncate_to(3, NOW)
    assert (log.log_end_offset, contents(log)) == (1, [(0, b"a")])


def test_a_truncation_at_or_after_the_end_changes_nothing() -> None:
    log = open_log(new_disk())
    values = fill(log, 5)
    assert not log.truncate_to(5, NOW) and not log.truncate_to(6, NOW)
    assert values_of(log) == values


def test_a_truncation_lowers_the_recovery_point_before_it_cuts() -> None:
    log = open_log(new_disk())
    fill(log, 20)
    seen = []
    log.lower_recovery_point = lambda point, start: seen.append((point, start, log.log_end_offset))
    log.truncate_to(7, NOW)
    assert seen == [(7, 7, 20)]


def test_a_cut_segment_is_synced_by_the_next_start_although_nothing_of_it_is_read_again() -> None:
    """Cut, rolled, killed before a sync, started, power cut: what was cut must not stand beside what came after.

    Found by seed 21157 of the quorum simulator.
    """
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=700))
    values = fill(log, 20)
    log.sync()
    recovery_point = log.durable_end_offset

    def lower(point: int, start: int) -> None:
        nonlocal recovery_point
        recovery_point = min(recovery_point, point)

    log.lower_recovery_point = lower
    cut = log.bases[-1] - 1
    assert log.truncate_to(cut, NOW)
    more = [b"n" * 590, b"o" * 590]  # no room for it behind what is left
    for value in more:
        append(log, batch(value), epoch=9)
    log.write()
    assert cut in log.bases, "the log was rolled where it was cut"
    disk.crash("kill")
    log = open_log(disk, recovery_point=recovery_point)
    assert values_of(log) == values[:cut] + more
    disk.crash("all")
    log = open_log(disk, recovery_point=log.durable_end_offset)
    assert values_of(log) == values[:cut] + more
    assert not log.damage


def test_a_sync_that_began_before_a_truncation_makes_nothing_durable() -> None:
    log = open_log(new_disk())
    fill(log, 3)
    fill(log, 5, sync=False, start=3)
    job = log.begin_sync()
    assert job is not None
    log.truncate_to(4, NOW)
    fill(log, 2, sync=False, start=90)
    job.run()
    log.finish_sync(job)
    assert log.durable_end_offset <= 4 and log.written_end_offset == 6
    log.sync()
    assert log.durable_end_offset == 6


@pytest.mark.parametrize(("end", "replays"), [(9, 0), (5, 0), (4, 1)])
def test_a_cut_reads_the_log_for_its_producers_only_where_one_of_them_wrote(
    end: int, replays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(new_disk())
    for n in range(5):
        append(log, batch(b"v", producer=(7, 0, n)))
    fill(log, 5)
    calls: list[Log] = []
    replay = cutting.replay_producers

    def counted(log: Log) -> Iterator[None]:
        calls.append(log)
        return replay(log)

    monkeypatch.setattr(cutting, "replay_producers", counted)
    assert log.truncate_to(end, NOW)
    assert len(calls) == replays
    state = log.producers.get(7)
    assert state is not None and (state.last_offset, state.last_sequence) == (
        min(end, 5) - 1,
        min(end, 5) - 1,
    )


def test_the_epochs_of_what_was_cut_are_forgotten() -> None:
    log = open_log(new_disk())
    for epoch in (1, 3, 4):
        fill(log, 5, epoch=epoch)
    assert log.end_offset_for_epoch(4) == (4, 15)
    log.truncate_to(8, NOW)
    assert log.epochs.entries() == [(1, 0), (3, 5)]
    assert log.end_offset_for_epoch(3) == (3, 8)
    assert log.latest_epoch == 3


def test_a_log_cut_altogether_starts_at_the_given_offset() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 20)
    log.truncate_fully_and_start_at(100, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert log.epochs.entries() == [] and len(log.producers) == 0
    values = fill(log, 3)
    disk.crash()
    again = open_log(disk)
    assert contents(again) == list(enumerate(values, start=100))


def test_the_log_start_rises_to_the_high_watermark_at_most() -> None:
    log = open_log(new_disk())
    fill(log, 20, epoch=2)
    log.high_watermark = 10
    with pytest.raises(KafkaError) as refused:
        log.increment_log_start(11)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.increment_log_start(10) and not log.increment_log_start(9)
    assert log.epochs.entries() == [(2, 10)]
    with pytest.raises(KafkaError):
        log.read(9, 100, 99)
    log.retain(NOW)
    assert log.bases[0] <= 10 < log.bases[1]


def test_retention_by_size_takes_the_oldest_while_what_is_left_is_enough() -> None:
    log = open_log(new_disk(), small(retention_bytes=2500))
    fill(log, 60, start=100)
    log.high_watermark = 60
    sizes = [segment.end_position for segment in log.segments]
    gone = log.retain(NOW)
    assert log.size >= 2500 > log.size - sizes[len(gone)]
    assert log.log_start_offset == log.bases[0] > 0
    assert log.retain(NOW) == []


def test_retention_by_time_stops_at_the_first_segment_that_is_young() -> None:
    log = open_log(new_disk(), small(retention_ms=1000))
    for i in range(30):
        future = i in range(12, 18)
        append(log, batch(b"x" * 80, timestamp=NOW.wall_ms + (10**9 if future else i)))
    log.high_watermark = 30
    log.retain(later(60_000))
    assert log.log_start_offset == 12, "a timestamp in the future holds back everything behind it"


def test_retention_by_time_goes_past_a_lost_segment_when_the_next_one_is_old() -> None:
    disk = new_disk()
    log = open_log(disk, small(retention_ms=1000))
    for i in range(24):
        append(log, batch(b"x" * 80, timestamp=NOW.wall_ms + (0 if i < 12 else 5000)))
    log.close(NOW)
    log = open_log(disk, small(retention_ms=1000), clean=True)
    assert log.bases == [0, 6, 12, 18]
    log.high_watermark = 24
    lost = [log.segments[place].path(".log") for place in (0, 1)]
    for path in lost:
        for kind in ("log", "index", "timeindex"):
            disk.remove(path.removesuffix("log") + kind)
        with pytest.raises(MissingFileError):
            log.retain(later(5000))
        assert damage_of(log, path) is not None
    assert log.retain(later(5000)) == [] and log.log_start_offset == 0, "it may be as young as the next"
    log.retain(later(6001))
    assert log.log_start_offset == 24 and log.retain(later(9000)) == []


def test_when_everything_is_old_the_active_segment_goes_too() -> None:
    log = open_log(new_disk(), small(retention_ms=1000))
    fill(log, 20)
    log.high_watermark = 20
    log.retain(later(1000))
    assert log.log_start_offset == 0, "older than the limit, not as old as"
    log.retain(later(1001))
    assert (log.log_start_offset, log.log_end_offset, log.bases) == (20, 20, [20])
    assert log.retain(later(9999)) == []


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    log = open_log(new_disk(), small(retention_ms=1000, retention_bytes=0))
    fill(log, 20)
    log.high_watermark = log.bases[2] - 1
    log.retain(later(5000))
    assert log.log_start_offset == log.bases[0] == 6


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    disk = new_disk()
    log = open_log(disk, small(retention_ms=1000))
    append(log, batch(b"x", timestamp=-1))
    log.sync()
    log.high_watermark = 1
    assert log.retain(later(1000)) == []
    assert log.retain(later(1001)) != []


def test_a_compacted_log_loses_only_what_is_below_its_start() -> None:
    log = open_log(
        new_disk(), small(retention_ms=1, retention_bytes=1, cleanup_policy=frozenset({"compact"}))
    )
    fill(log, 20)
    log.high_watermark = 20
    assert log.retain(later(10**6)) == []
    log.increment_log_start(7)
    assert log.retain(NOW) == [f"{0:020d}.log"]


def test_deleted_files_stay_readable_for_a_while_and_then_vanish() -> None:
    disk = new_disk()
    log = open_log(disk, small(retention_bytes=0, file_delete_delay_ms=5000))
    fill(log, 20)
    log.high_watermark = 20
    slice_ = log.read(0, 300, 99)
    log.retain(NOW)
    assert len(slice_.read()) == len(slice_)
    tick(log, later(4999))
    assert [name for name in disk.list(PATH) if name.endswith(".deleted")]
    tick(log, later(5000))
    assert not [name for name in disk.list(PATH) if name.endswith(".deleted")]


def test_a_segment_deleted_while_it_is_being_synced_is_no_error() -> None:
    log = open_log(new_disk(), small(retention_bytes=0, file_delete_delay_ms=0))
    fill(log, 20, sync=False)
    job = log.begin_sync()
    assert job is not None
    log.high_watermark = 20
    log.retain(NOW)
    tick(log, later(1))
    job.run()
    log.finish_sync(job)
    tick(log, later(2))
    log.sync()
    assert log.durable_end_offset == 20
