"""No room on the disk: nothing that was not written is there, and the log goes on as if nobody had asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.log_building import (
    NOW,
    append,
    batch,
    fill,
    later,
    marker,
    new_disk,
    open_log,
    small,
    values_of,
)

from barnabas.errors import StorageError
from barnabas.log.log import Log
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import read_batch_header


def refused(disk: MemoryDisk, log: Log, room: int = 0) -> None:
    """The write has no room; afterwards there is."""
    disk.full_after(room)
    with pytest.raises(StorageError) as error:
        log.write()
    assert error.value.full and log.failed is None
    disk.heal()


def test_what_a_turn_appended_is_taken_back_whole() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=10_000))
    values = fill(log, 3)
    before = (log.size, log.active.max_timestamp, len(log.active.index), log.epochs.entries())
    for value in (b"one", b"two" * 100, b"three" * 100):
        append(log, batch(value, timestamp=NOW.wall_ms + 50_000))
    refused(disk, log, room=500)
    assert log.log_end_offset == log.written_end_offset == 3
    assert (log.size, log.active.max_timestamp, len(log.active.index), log.epochs.entries()) == before
    values += fill(log, 20, start=3)
    assert values_of(log) == values
    disk.crash()
    assert values_of(open_log(disk)) == values


def test_the_first_records_of_a_log_are_taken_back() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch(b"x", timestamp=NOW.wall_ms + 99))
    refused(disk, log)
    assert (log.log_end_offset, log.size, log.active.first_timestamp) == (0, 0, -1)
    assert values_of(log) == [] and fill(log, 2) == values_of(log)


def test_producers_are_where_they_were() -> None:
    """The same batch is no duplicate afterwards, and the next sequence is the one that was refused."""
    disk = new_disk()
    log = open_log(disk)
    first = batch(b"a", b"b", producer=(7, 0, 0))
    append(log, first)
    log.sync()
    again = batch(b"c", producer=(7, 0, 2))
    append(log, bytearray(again))
    append(log, batch(b"n", producer=(8, 0, 0)))
    refused(disk, log)
    header = read_batch_header(again)
    assert log.producers.check(header) is None
    assert log.producers.check(read_batch_header(first)) is not None
    assert append(log, again).first_offset == 2
    assert log.producers.check(header) is not None


def test_an_open_transaction_stays_open_when_its_end_had_no_room() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch(b"a", producer=(7, 0, 0), transactional=True))
    log.sync()
    log.high_watermark = 1
    assert log.last_stable_offset == 0
    append(log, marker(True, 7, 0))
    refused(disk, log)
    assert log.producers.ongoing(7, 0) and log.last_stable_offset == 0
    append(log, marker(True, 7, 0))
    log.sync()
    log.high_watermark = 2
    assert log.last_stable_offset == 2


def test_the_epoch_of_a_leader_that_could_not_write_stays_known() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3, epoch=1)
    log.epochs.assign(4, 3)
    append(log, batch(b"x"), epoch=4)
    refused(disk, log)
    assert log.epochs.entries() == [(1, 0), (4, 3)] and log.end_offset_for_epoch(1) == (1, 3)


@pytest.mark.parametrize("room", range(0, 1200, 60))
def test_a_segment_begins_when_there_is_room_for_it(room: int) -> None:
    """Wherever in a roll the room runs out: nothing is lost, nothing is twice, and it is tried again."""
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 4, size=200)
    disk.full_after(room)
    for number in range(4, 40):
        value = b"%d:" % number + b"y" * 200
        try:
            append(log, batch(value, producer=(5, 0, number)))
            log.write()
        except StorageError as error:
            assert error.full
            break
        values.append(value)
    assert log.failed is None and values_of(log) == values
    disk.heal()
    for number in range(len(values), len(values) + 10):
        values.append(b"%d:" % number + b"z" * 200)
        append(log, batch(values[-1]))
        log.write()
    log.sync()
    disk.crash()
    assert values_of(open_log(disk)) == values


def test_a_sync_without_room_for_the_epochs_counts_for_nothing_and_is_repeated() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch(b"x"), epoch=3)
    log.write()
    job = log.begin_sync()
    assert job is not None
    disk.full_after(0)
    job.run()
    log.finish_sync(job)
    assert log.durable_end_offset == 0 and log.needs_sync
    with pytest.raises(StorageError, match="No space"):
        log.sync()
    assert log.failed is None
    disk.heal()
    log.sync()
    assert log.durable_end_offset == 1
    disk.crash()
    assert open_log(disk).epochs.entries() == [(3, 0)]


def test_retention_makes_room_on_a_full_disk() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 40)
    log.high_watermark = log.log_end_offset
    disk.full_after(0)
    log.reconfigure(small(retention_bytes=500, file_delete_delay_ms=0))
    assert log.retain(NOW)
    for path in log.tick(later(1)):
        disk.remove(path)
    assert log.failed is None and log.log_start_offset > 0


def test_a_cut_that_cannot_be_written_down_is_not_begun() -> None:
    """The checkpoint must be lowered first; without room for it the log stays as it is."""
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 10)

    def no_room(point: int, start: int) -> None:
        raise StorageError("no room", full=True)

    log.lower_recovery_point = no_room
    with pytest.raises(StorageError, match="no room"):
        log.truncate_to(4, NOW)
    assert log.failed is None and values_of(log) == values


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 300), st.booleans(), st.integers(0, 900)),
        min_size=1,
        max_size=30,
    )
)
def test_whatever_is_refused_the_log_holds_what_was_written(
    turns: list[tuple[int, int, bool, int]],
) -> None:
    """Turns of 1 to 3 batches, each with that much room: the log is what the turns that had room wrote."""
    disk = new_disk()
    log = open_log(disk)
    kept: list[bytes] = []
    sequence = 0
    for count, size, idempotent, room in turns:
        disk.full_after(room)
        turn: list[bytes] = []
        planned = sequence
        try:
            for _ in range(count):
                value = b"%d:" % (len(kept) + len(turn)) + b"v" * size
                data = batch(value, producer=(1, 0, planned) if idempotent else None)
                assert log.producers.check(read_batch_header(data)) is None
                append(log, data)
                turn.append(value)
                planned += idempotent
            log.write()
        except StorageError as error:
            assert error.full
        written = log.written_end_offset - len(kept)
        kept += turn[:written]
        sequence = planned if written == len(turn) == count else sequence + written * idempotent
        assert log.log_end_offset == len(kept)
    disk.heal()
    assert log.failed is None and values_of(log) == kept
    log.sync()
    disk.crash()
    assert values_of(open_log(disk)) == kept
