"""Leader epochs, checkpoints, metadata snapshots, the files of a directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.log_building import PATH, fill, new_disk, open_log

from barnabas.errors import StorageError
from barnabas.log.epochs import EpochCache
from barnabas.log.files.checkpoint import epoch_rows, read_epochs, read_offsets, write_offsets
from barnabas.log.files.meta_properties import (
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_partition_metadata,
)
from barnabas.log.files.snapshot import (
    SnapshotId,
    SnapshotWriter,
    clean_snapshots_at_start,
    delete_snapshots_below,
    list_snapshots,
    open_snapshot,
    read_snapshot,
)
from barnabas.log.reading import check
from barnabas.log.segments.damage import DamagedError
from barnabas.model import TopicPartition, Uuid
from barnabas.sim.kernel.disk import Crashed, MemoryDisk


def test_the_end_of_an_epoch_is_the_start_of_the_next_that_is_known() -> None:
    cache = EpochCache([(2, 10), (5, 30), (7, 40)])
    answers = {epoch: cache.end_offset_for(epoch, 55) for epoch in range(-1, 9)}
    assert answers == {
        -1: (-1, -1),
        0: (0, 10),
        1: (1, 10),
        2: (2, 30),
        3: (2, 30),
        4: (2, 30),
        5: (5, 40),
        6: (5, 40),
        7: (7, 55),
        8: (-1, -1),
    }
    assert EpochCache().end_offset_for(0, 0) == (-1, -1)
    assert [cache.epoch_at(offset) for offset in (9, 10, 29, 30, 99)] == [-1, 2, 2, 5, 7]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=12))
def test_epochs_and_their_starts_always_grow(steps: list[tuple[int, int]]) -> None:
    cache = EpochCache()
    for epoch, start in steps:
        cache.assign(epoch, start)
        rows = cache.entries()
        assert rows == sorted(set(rows)) and len({e for e, _ in rows}) == len({s for _, s in rows}) == len(
            rows
        )
        assert cache.latest == epoch == rows[-1][0]
        assert rows[-1][1] <= start


def test_epochs_are_cut_at_both_ends() -> None:
    cache = EpochCache([(2, 10), (5, 30), (7, 40)])
    cache.truncate_from_start(35)
    assert cache.entries() == [(5, 35), (7, 40)]
    cache.truncate_from_end(40)
    assert cache.entries() == [(5, 35)] and cache.latest == 5 and cache.dirty
    cache.truncate_from_end(0)
    assert cache.entries() == [] and cache.latest == -1


@pytest.mark.parametrize("checkpoint", ["whole", "older"])
def test_a_batch_whose_epoch_fell_changes_no_epoch_and_is_found_by_who_asks_again(checkpoint: str) -> None:
    """It is the first of those that are read again: only the one before tells."""
    disk = new_disk()
    log = open_log(disk)
    for epoch in (2, 5, 9):
        fill(log, 12, epoch=epoch)
    log.sync()
    assert log.bases[-2:] == [24, 30] and log.epochs.entries() == [(2, 0), (5, 12), (9, 24)]
    disk.crash("kill")
    disk.corrupt(log.segments[-2].path(".log"), 15, flip=9 ^ 4)
    if checkpoint == "older":
        disk.put(f"{PATH}/leader-epoch-checkpoint", b"0\n2\n2 0\n5 12\n")
    again = open_log(disk, recovery_point=25)
    assert again.epochs.entries() == [(2, 0), (5, 12), (9, 24 if checkpoint == "whole" else 25)]
    with pytest.raises(DamagedError) as found:
        check(again, 24, again.read(24, 1 << 20, 36))
    assert found.value.damage.start == 24


def test_checkpoints_have_kafkas_text() -> None:
    disk = MemoryDisk()
    disk.make_directories("/d")
    offsets = {TopicPartition("a-b", 0): 12, TopicPartition("c", 11): 9_000_000_000}
    write_offsets(disk, "/d/x", offsets)
    assert disk.read("/d/x") == b"0\n2\na-b 0 12\nc 11 9000000000\n"
    assert read_offsets(disk, "/d/x") == offsets and read_offsets(disk, "/d/none") == {}
    assert epoch_rows([(1, 0), (4, 17)]) == b"0\n2\n1 0\n4 17\n"
    disk.put("/d/e", b"0\n2\n1 0\n4 17\n")
    assert read_epochs(disk, "/d/e") == [(1, 0), (4, 17)]
    disk.put("/d/empty", b"")
    assert read_offsets(disk, "/d/empty") == {}


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"\xff\n0\n"]
)
def test_a_senseless_checkpoint_says_what_to_do(content: bytes) -> None:
    disk = MemoryDisk()
    disk.put("/d/x", content)
    with pytest.raises(StorageError, match="/d/x is not a checkpoint") as refused:
        read_offsets(disk, "/d/x")
    assert refused.value.next_step


def test_partition_metadata_and_the_clean_marker_have_kafkas_text() -> None:
    disk = MemoryDisk()
    disk.make_directories("/d")
    topic_id = Uuid.parse("DeDpRJw7QhWJlTVtzMZEqA")
    write_partition_metadata(disk, "/d", topic_id)
    assert disk.read("/d/partition.metadata") == b"version: 0\ntopic_id: DeDpRJw7QhWJlTVtzMZEqA"
    assert read_partition_metadata(disk, "/d") == topic_id
    write_clean_shutdown(disk, "/d", 13)
    assert disk.read("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":13}'
    assert (take_clean_shutdown(disk, "/d"), take_clean_shutdown(disk, "/d")) == (13, None)
    disk.put("/d/.kafka_cleanshutdown", b"")
    assert take_clean_shutdown(disk, "/d") == -1


def test_a_metadata_snapshot_is_seen_when_it_is_whole_and_not_before() -> None:
    disk = MemoryDisk()
    disk.make_directories("/m")
    disk.sync_directory("/")
    writer = SnapshotWriter(disk, "/m", SnapshotId(58, 3))
    writer.append([b"abc", b"def"])
    assert writer.size == 6 and list_snapshots(disk, "/m") == []
    assert writer.freeze() == SnapshotId(58, 3)
    disk.crash()
    assert disk.list("/m") == [f"{58:020d}-{3:010d}.checkpoint"]
    assert read_snapshot(disk, "/m", SnapshotId(58, 3)) == b"abcdef"
    assert open_snapshot(disk, "/m", SnapshotId(58, 3)).read_at(2, 2) == b"cd"
    with pytest.raises(StorageError, match="finished"):
        writer.append([b"x"])


def test_an_aborted_snapshot_leaves_nothing() -> None:
    disk = MemoryDisk()
    disk.make_directories("/m")
    writer = SnapshotWriter(disk, "/m", SnapshotId(1, 1))
    writer.append([b"x"])
    writer.abort()
    assert disk.list("/m") == []


def test_a_crash_while_a_snapshot_is_written_leaves_it_whole_or_not_at_all() -> None:
    for step in range(8):
        disk = MemoryDisk(step)
        disk.make_directories("/m")
        disk.sync_directory("/")
        disk.crash_at(step)
        try:
            writer = SnapshotWriter(disk, "/m", SnapshotId(5, 1))
            writer.append([b"abcdef"])
            writer.freeze()
        except Crashed:
            disk.crash("some")
        disk.crash_at(10**9)
        clean_snapshots_at_start(disk, "/m", 0)
        for snapshot in list_snapshots(disk, "/m"):
            assert read_snapshot(disk, "/m", snapshot) == b"abcdef"
        assert len(disk.list("/m")) == len(list_snapshots(disk, "/m"))


def test_old_snapshots_go_and_a_start_without_a_needed_one_is_refused() -> None:
    disk = MemoryDisk()
    for end in (10, 20, 30):
        disk.put(f"/m/{SnapshotId(end, 1).file_name}", b"x")
    disk.put(f"/m/{SnapshotId(40, 1).file_name}.part", b"x")
    disk.put(f"/m/{SnapshotId(5, 1).file_name}.deleted", b"x")
    assert clean_snapshots_at_start(disk, "/m", 15) == SnapshotId(30, 1)
    assert [snapshot.end_offset for snapshot in list_snapshots(disk, "/m")] == [20, 30]
    assert delete_snapshots_below(disk, "/m", 99) == [SnapshotId(20, 1)]
    assert len(disk.list("/m")) == 1
    with pytest.raises(StorageError, match="no snapshot") as refused:
        clean_snapshots_at_start(disk, "/m", 31)
    assert refused.value.fatal
