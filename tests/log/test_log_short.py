"""A clean stop leaves no tables beside a short log, and never lets older ones speak for it."""

from __future__ import annotations

import pytest
from tests.log.log_building import (
    NOW,
    PATH,
    append,
    batch,
    fill,
    marker,
    new_disk,
    open_log,
    small,
    values_of,
)

from barnabas.log.log import Log
from barnabas.log.segments.index import OFFSET_ROW, TIME_ROW
from barnabas.sim.kernel.disk import MemoryDisk

LARGE = small(segment_bytes=1 << 20, index_interval_bytes=4096)
"""A few small batches get no index row."""


def beside(disk: MemoryDisk) -> set[str]:
    """The kinds of files in the log's directory."""
    return {name.rpartition(".")[2] for name in disk.list(PATH)} - {"leader-epoch-checkpoint"}


def again(disk: MemoryDisk, log: Log) -> Log:
    """The log after a clean stop, a crash of the machine, and a start."""
    log.close(NOW)
    disk.crash()
    return open_log(disk, LARGE, clean=True)


def test_a_short_log_is_closed_without_tables_and_read_as_with_them() -> None:
    disk = new_disk()
    log = open_log(disk, LARGE)
    values = fill(log, 5)
    append(log, batch(b"last", timestamp=NOW.wall_ms + 5000))
    append(log, batch(b"older", timestamp=NOW.wall_ms - 5000))
    found = again(disk, log)
    assert beside(disk) == {"log"}
    assert found.recovery.clean and values_of(found) == [*values, b"last", b"older"]
    assert found.remade == [], "nothing is gone"
    assert found.log_end_offset == found.durable_end_offset == 7
    assert (found.active.max_timestamp, found.active.max_timestamp_offset) == (NOW.wall_ms + 5000, 5)
    latest = found.offset_for_timestamp(NOW.wall_ms + 1, 7)
    assert latest is not None and latest.offset == 5
    third = again(disk, found)
    assert beside(disk) == {"log"} and third.recovery.clean and third.latest_epoch == 0


def test_a_log_of_producers_keeps_its_snapshot() -> None:
    disk = new_disk()
    log = open_log(disk, LARGE)
    append(log, batch(b"a", producer=(7, 0, 0)))
    log.sync()
    found = again(disk, log)
    assert beside(disk) == {"log", "snapshot"}
    assert found.recovery.clean and found.producers.get(7) is not None


def test_an_aborted_transaction_keeps_its_table() -> None:
    disk = new_disk()
    log = open_log(disk, LARGE)
    append(log, batch(b"a", producer=(7, 0, 0), transactional=True))
    append(log, marker(False, 7, 0))
    log.sync()
    log.high_watermark = 2
    found = again(disk, log)
    assert "txnindex" in beside(disk)
    assert found.recovery.clean and len(found.aborted_transactions(0, 2)) == 1


def test_a_long_log_keeps_its_tables() -> None:
    disk = new_disk()
    log = open_log(disk, LARGE)
    values = fill(log, 100)
    found = again(disk, log)
    assert beside(disk) == {"log", "index", "timeindex", "snapshot"}
    assert found.recovery.clean and values_of(found) == values


def test_a_log_without_rows_that_is_not_short_keeps_its_tables() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20, index_interval_bytes=1 << 20))
    fill(log, 20, size=4000)
    log.close(NOW)
    assert beside(disk) == {"log", "index", "timeindex", "snapshot"}


@pytest.mark.parametrize("how", ["truncated", "torn"])
def test_tables_of_a_longer_log_do_not_outlive_it(how: str) -> None:
    disk = new_disk()
    log = open_log(disk, LARGE)
    values = fill(log, 200)
    log.close(NOW)
    assert disk.size(f"{PATH}/{0:020d}.index") > 0
    if how == "truncated":
        log = open_log(disk, LARGE, clean=True)
        log.truncate_to(3, NOW)
    else:
        disk.corrupt(f"{PATH}/{0:020d}.log", 3 * (log_size_of_one(values)) + 40)
        log = open_log(disk, LARGE, clean=False)
    assert log.log_end_offset == 3
    found = again(disk, log)
    assert found.recovery.clean and values_of(found) == values[:3]
    assert len(found.active.index) == 0
    assert all(offset < 3 for offset in found.active.time_index.offsets)
    more = fill(found, 200, start=3)
    last = again(disk, found)
    assert last.recovery.clean and values_of(last) == values[:3] + more


def log_size_of_one(values: list[bytes]) -> int:
    """Bytes of the batch of the first value."""
    return len(batch(values[0]))


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("place", [1, -1])
def test_a_table_that_is_gone_beside_the_other_is_named_once_and_made_again(kind: str, place: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 40)
    log.close(NOW)
    path = log.segments[place].path(kind)
    content = disk.read(path)
    disk.remove(path)
    found = open_log(disk, clean=True)
    assert found.remade == [path] and values_of(found) == values
    found.close(NOW)
    assert disk.read(path) == content
    assert open_log(disk, clean=True).remade == []


@pytest.mark.parametrize("place", [1, -1], ids=["sealed", "newest"])
def test_both_tables_of_a_segment_that_are_gone_are_named_for_no_stop_leaves_it_so(place: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 40)
    log.close(NOW)
    paths = [log.segments[place].path(kind) for kind in (".index", ".timeindex")]
    contents = [disk.read(path) for path in paths]
    for path in paths:
        disk.remove(path)
    found = open_log(disk, clean=True)
    assert found.take_remade() == paths and values_of(found) == values
    assert found.take_remade() == []
    found.close(NOW)
    assert [disk.read(path) for path in paths] == contents


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_table_whose_rows_were_swapped_while_the_log_is_open_is_named_once(kind: str) -> None:
    disk, often = new_disk(), small(index_interval_bytes=1)
    log = open_log(disk, often)
    for n in range(40):
        append(log, batch(b"x" * 90, timestamp=NOW.wall_ms + n))
    log.close(NOW)
    log = open_log(disk, often, clean=True)
    assert log.offset_for_timestamp(NOW.wall_ms + 1, 40) is not None
    segment, row = log.segments[1], TIME_ROW if kind == ".timeindex" else OFFSET_ROW
    segment.release()
    content = disk.read(segment.path(kind))
    disk.put(segment.path(kind), content[row : 2 * row] + content[:row] + content[2 * row :])
    for _ in range(2):
        at = log.offset_for_timestamp(NOW.wall_ms + segment.base + 1, 40)
        assert at is not None and at.offset == segment.base + 1
    assert log.take_remade() == [segment.path(kind)]
    assert log.take_remade() == []


@pytest.mark.parametrize("fate", ["empty", "older", "another's"])
@pytest.mark.parametrize("step", [1, -1])
def test_a_time_index_that_is_not_its_segments_hides_no_record_from_searches_by_time(
    fate: str, step: int
) -> None:
    """The segment would seem to have nothing so late, and the search would pass it over, or begin too late."""
    disk, often = new_disk(), small(index_interval_bytes=1)
    log = open_log(disk, often)
    for n in range(40):
        append(log, batch(b"x" * 90, timestamp=NOW.wall_ms + n * step))
    log.close(NOW)
    log = open_log(disk, often, clean=True)
    assert log.remade == [], "nothing is wrong yet"
    log.close(NOW)
    path, other = (log.segments[place].path(".timeindex") for place in (1, 2 if step > 0 else 0))
    content = disk.read(path)
    left = {"empty": b"", "older": content[: len(content) // 2 // TIME_ROW * TIME_ROW]}
    disk.put(path, left.get(fate, disk.read(other)))
    late = log.bases[2] - 1 if step > 0 else log.bases[1]
    found = open_log(disk, often, clean=True)
    at = found.offset_for_timestamp(NOW.wall_ms + late * step, 40 if step > 0 else late + 1)
    assert at is not None and at.offset == (late if step > 0 else 0)
    assert found.remade == [path] and disk.read(path) == content


def test_an_offset_index_that_is_another_segments_is_made_again_before_a_reader_looks_within_a_batch() -> (
    None
):
    disk, often = new_disk(), small(index_interval_bytes=1)
    log = open_log(disk, often)
    for n in range(40):
        append(log, batch(b"x" * (90 + n), timestamp=NOW.wall_ms + n))
    log.close(NOW)
    path, other = (log.segments[place].path(".index") for place in (1, 0))
    content = disk.read(path)
    disk.put(path, disk.read(other))
    found = open_log(disk, often, clean=True)
    assert not found.damage and found.take_remade() == [path] and disk.read(path) == content
    assert [len(list(found.read(n, 1 << 20, 40, at_least_one=True).read())) > 0 for n in range(40)] == [
        True
    ] * 40


def test_a_cut_ends_before_what_cannot_be_read_and_readers_and_writers_go_on() -> None:
    """A file that was cut while it was written has batches where none are expected."""
    disk = new_disk()
    log = open_log(disk, LARGE)
    for n in range(10):
        append(log, batch(b"%d" % n))
    log.write()
    start = log.active.locate(4)
    disk.corrupt(log.active.path(".log"), start + 16)  # (the format's number)
    log.truncate_to(7, NOW)
    assert log.log_end_offset == 4 and log.active.end_position == start
    append(log, batch(b"again"))
    log.write()
    assert log.log_end_offset == 5 and values_of(log) == [b"0", b"1", b"2", b"3", b"again"]
