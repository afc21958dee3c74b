"""A log moves to another directory: copied beside it, then swapped; whenever the power goes there is one of it."""

from __future__ import annotations

import pytest
from tests.log.log_building import NOW, append, batch, fill, later, tick, values_of
from tests.log.test_log_directories import TOPIC, A, formatted, opened

from barnabas.errors import StorageError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.checkpoint import read_offsets
from barnabas.log.files.log_names import future_of
from barnabas.log.future import align
from barnabas.log.log import Log
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import Crashed, MemoryDisk
from barnabas.wire.records import read_batch_header

NAME = f"a-0.{TOPIC.hex()}-future"


def copy_all(log: Log, copy: Log) -> None:
    """Bring the copy up to the log, as a broker does piece by piece."""
    align(copy, log, NOW)
    while copy.log_end_offset < log.log_end_offset:
        copy.append_as_follower(log.read(copy.log_end_offset, 300, log.log_end_offset).read(), NOW)
        copy.write()
    copy.sync()


def moving(disk: MemoryDisk) -> tuple[LogDirectories, Log, Log]:
    """A log in /d0 on its way to /d1."""
    logs = opened(disk, "/d0", "/d1")
    log = logs.create(A, TOPIC, NOW, directory_id=logs.directories[0].directory_id)
    return logs, log, logs.directories[1].create_future(A, TOPIC, NOW)


def test_a_copy_has_kafkas_name_and_is_not_the_log() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    assert copy.path == f"/d1/{NAME}" and future_of(NAME) == A
    assert logs.get(A) is log and logs.future(A) is copy and logs.is_moving(log)
    assert logs.future_directory(A) is logs.directories[1]


def test_the_copy_takes_over_with_all_that_the_log_knew() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    values = fill(log, 20)
    again = batch(b"idempotent", producer=(7, 0, 0))
    append(log, bytearray(again), epoch=2)
    log.sync()
    log.epochs.assign(5, log.log_end_offset)
    log.high_watermark = 19
    copy_all(log, copy)
    assert logs.promote(A, NOW) is copy
    assert logs.get(A) is copy and logs.future(A) is None and copy.path == "/d1/a-0"
    assert (copy.log_end_offset, copy.high_watermark) == (21, 19)
    assert copy.epochs.entries() == [(0, 0), (2, 20), (5, 21)]
    assert copy.producers.check(read_batch_header(again)) is not None
    values += [b"idempotent", *fill(copy, 20, start=21, epoch=5)]
    assert values_of(copy) == values
    disk.crash()
    found = opened(disk, "/d0", "/d1").get(A)
    assert found is not None and found.path == "/d1/a-0" and values_of(found) == values
    assert found.epochs.entries() == [(0, 0), (2, 20), (5, 21)]


def test_who_reads_from_the_old_files_may_finish() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    fill(log, 5)
    reading = log.read(0, 1 << 20, 5)
    copy_all(log, copy)
    logs.promote(A, NOW)
    assert len(reading.read()) == len(reading)
    tick(logs, later(60_000))
    assert [name for name in disk.list("/d0") if name.startswith("a-0")] == []
    with pytest.raises(StorageError):
        reading.read()


def test_a_sync_of_the_old_log_that_comes_back_late_is_no_error() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    fill(log, 3)
    append(log, batch(b"x"), epoch=9)
    log.write()
    job = log.begin_sync()
    assert job is not None
    copy_all(log, copy)
    logs.promote(A, NOW)
    job.run()
    log.finish_sync(job)
    assert len(logs.online()) == 2


def test_a_copy_is_cut_where_the_log_was_cut() -> None:
    disk = formatted("/d0", "/d1")
    _, log, copy = moving(disk)
    kept = fill(log, 10, epoch=1)
    fill(log, 10, start=10, epoch=2)
    copy_all(log, copy)
    log.truncate_to(10, NOW)
    log.epochs.truncate_from_end(10)
    kept += fill(log, 5, start=10, epoch=3)
    copy_all(log, copy)
    assert values_of(copy) == kept == values_of(log)
    assert copy.epochs.entries() == log.epochs.entries()
    log.truncate_fully_and_start_at(100, NOW)
    more = fill(log, 2, start=100, epoch=4)
    copy_all(log, copy)
    assert copy.log_start_offset == 100 and values_of(copy) == more


def test_a_copy_follows_the_start_of_the_log() -> None:
    disk = formatted("/d0", "/d1")
    _, log, copy = moving(disk)
    values = fill(log, 30)
    copy_all(log, copy)
    log.high_watermark = 30
    log.increment_log_start(12)
    copy_all(log, copy)
    assert copy.log_start_offset == 12 and values_of(copy) == values[12:]


def test_a_copy_that_is_given_up_is_removed() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    fill(log, 5)
    copy_all(log, copy)
    assert logs.drop_future(A, NOW) and not logs.drop_future(A, NOW)
    tick(logs, NOW)
    assert [name for name in disk.list("/d1") if name.startswith("a-0")] == []
    assert logs.get(A) is log and logs.directories[1].create_future(A, TOPIC, NOW).log_end_offset == 0


def test_a_deleted_partition_takes_its_copy_along() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    fill(log, 5)
    copy_all(log, copy)
    logs.delete(A, NOW)
    tick(logs, later(60_000))
    for place in ("/d0", "/d1"):
        assert [name for name in disk.list(place) if name.startswith("a-0")] == []


def test_a_copy_goes_on_after_a_restart() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    fill(log, 20)
    copy_all(log, copy)
    values = [*values_of(log), *fill(log, 20, start=20)]
    logs.checkpoint_recovery_points()
    assert read_offsets(disk, "/d1/recovery-point-offset-checkpoint") == {A: 20}
    disk.crash()
    again = opened(disk, "/d0", "/d1")
    now_log, found = again.get(A), again.future(A)
    assert now_log is not None and found is not None
    assert (now_log.path, found.path, found.log_end_offset, found.topic_id) == (
        "/d0/a-0",
        f"/d1/{NAME}",
        20,
        TOPIC,
    )
    copy_all(now_log, found)
    assert values_of(again.promote(A, NOW)) == values


def test_a_copy_may_be_all_there_is_when_a_crash_came_between() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    values = fill(log, 7)
    copy_all(log, copy)
    logs.directories[0].give_away(A, NOW)
    disk.crash()
    again = opened(disk, "/d0", "/d1")
    assert again.get(A) is None and again.future(A) is not None
    assert values_of(again.promote(A, NOW)) == values


@pytest.mark.parametrize("loss", ["all", "some", "none"])
def test_wherever_the_power_goes_one_of_them_has_everything(loss: str) -> None:
    """A crash at every step of a move: after the next start the log, or else the copy alone, is complete."""
    step = 0
    while True:
        disk = formatted("/d0", "/d1", seed=step)
        logs, log, copy = moving(disk)
        values = fill(log, 8)
        logs.checkpoint_recovery_points()
        copy_all(log, copy)
        disk.crash_at(step)
        try:
            logs.promote(A, NOW)
            values += fill(copy, 4, start=8)
            logs.checkpoint_recovery_points()
            tick(logs, later(60_000))
        except Crashed:
            pass
        else:
            break
        disk.crash(loss)  # type: ignore[arg-type]
        again = opened(disk, "/d0", "/d1")
        left, right = again.get(A), again.future(A)
        found = left or right
        assert found is not None
        assert values_of(found)[: len(values)] == values, step
        if left is not None and right is not None:
            copy_all(left, right)
        if right is not None:
            found = again.promote(A, NOW)
        assert values_of(found)[: len(values)] == values
        again.close(NOW)
        step += 1
    assert step > 10


def test_a_name_that_leaves_no_room_for_the_suffix_is_refused() -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    long = TopicPartition("t" * 249, 0)
    with pytest.raises(StorageError, match="too long"):
        logs.directories[1].create_future(long, TOPIC, NOW)
    assert len(logs.online()) == 2


def test_the_directory_of_a_copy_that_fails_leaves_the_log_alone() -> None:
    disk = formatted("/d0", "/d1")
    logs, log, copy = moving(disk)
    values = fill(log, 3)
    logs.fail(logs.directories[1], StorageError("gone"))
    assert logs.future(A) is None and logs.get(A) is log
    assert copy.failed is not None and values_of(log) == values
