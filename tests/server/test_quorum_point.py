"""The recovery point: what was durable and committed is not forgotten without a word."""

from __future__ import annotations

import pytest
from tests.server.metadata_store import PATH, Clock, opened

from barnabas.errors import StorageError
from barnabas.model import Now
from barnabas.raft.entries import Batch, LeaderChange
from barnabas.raft.messages import SyncTicket
from barnabas.server.kraft.marks import (
    NO_POINT,
    RECOVERY_POINT,
    RecoveryPoint,
    read_point,
    write_point,
)
from barnabas.server.kraft.storage import MetadataStore
from barnabas.sim.kernel.disk import MemoryDisk


def write(store: MetadataStore, batches: int, epoch: int = 1) -> None:
    """Append so many batches of one entry, sync and commit them."""
    for _ in range(batches):
        batch = Batch(store.log_view.end_offset, epoch, (LeaderChange(1),))
        store.log_view.append(batch)
        store.append(batch)
    store.start_sync(SyncTicket(store.log_view.end_offset, 0))
    store.committed(store.log_view.end_offset)
    store.keep_point()


def disk_with(batches: int = 10, *, segment_bytes: int = 1 << 20) -> MemoryDisk:
    disk, clock = MemoryDisk(), Clock()
    disk.put("data/meta.properties", b"")
    store = opened(disk, clock, segment_bytes)
    write(store, batches)
    assert read_point(disk, PATH) == RecoveryPoint(batches, 1)
    disk.crash("all")
    return disk


def test_the_point_is_what_is_durable_and_committed_and_written_now_and_then() -> None:
    disk, clock = MemoryDisk(), Clock()
    disk.put("data/meta.properties", b"")
    store = opened(disk, clock)
    assert store.point == NO_POINT
    write(store, 3)
    assert store.point == RecoveryPoint(3, 1)
    write(store, 3)
    assert store.point == RecoveryPoint(3, 1), "not with every append"
    clock.mono += 5.0
    store.keep_point()
    assert store.point == RecoveryPoint(6, 1)
    store.committed(6)
    batch = Batch(6, 2, (LeaderChange(1),))
    store.log_view.append(batch)
    store.append(batch)
    store.start_sync(SyncTicket(7, 0))
    clock.mono += 5.0
    store.keep_point()
    assert store.point == RecoveryPoint(6, 1), "offset 6 is durable, but not committed"
    store.committed(7)
    store.close()
    assert read_point(disk, PATH) == RecoveryPoint(7, 2), "a stop in order leaves the newest"


class FullDisk(MemoryDisk):
    """A disk that may have no room for another small file."""

    full = False

    def replace(self, path: str, content: bytes) -> None:
        if self.full:
            raise StorageError(f"cannot write {path}: No space left on device", full=True)
        super().replace(path, content)


def test_a_point_that_finds_no_room_is_left_where_it_was_and_raised_later() -> None:
    disk, clock = FullDisk(), Clock()
    disk.put("data/meta.properties", b"")
    store = opened(disk, clock)
    write(store, 3)
    disk.full = True
    clock.mono += 100.0
    write(store, 3)
    assert store.point == read_point(disk, PATH) == RecoveryPoint(3, 1)
    disk.full = False
    clock.mono += 100.0
    store.keep_point()
    assert store.point == read_point(disk, PATH) == RecoveryPoint(6, 1)


def test_a_log_that_ends_below_the_point_is_refused_and_left_as_it_is() -> None:
    disk = disk_with()
    log = f"{PATH}/00000000000000000000.log"
    size = disk.size(log)
    file = disk.open(log)
    file.truncate(size - 10)
    file.sync()
    for _ in range(2):
        with pytest.raises(StorageError, match="damaged: everything below offset 10") as refused:
            opened(disk, Clock())
        assert refused.value.fatal and "`barnabas quorum replace --node ID`" in (
            refused.value.next_step or ""
        )
        assert disk.size(log) == size - 10


def test_bit_rot_below_the_point_is_refused_and_above_it_is_a_torn_write() -> None:
    disk = disk_with(10)
    log = f"{PATH}/00000000000000000000.log"
    below = disk.size(log)
    store = opened(disk, Clock())
    for _ in range(3):
        batch = Batch(store.log_view.end_offset, 1, (LeaderChange(1),))
        store.log_view.append(batch)
        store.append(batch)
    store.start_sync(SyncTicket(13, 0))
    disk.crash("all")
    disk.corrupt(log, below + 70)
    assert opened(disk, Clock()).log.log_end_offset == 10
    disk.crash("all")
    disk.corrupt(log, below - 5)
    with pytest.raises(StorageError, match="damaged"):
        opened(disk, Clock())
    assert disk.size(log) >= below


def test_bit_rot_in_an_older_segment_and_a_lost_segment_are_refused() -> None:
    disk = disk_with(60, segment_bytes=1 << 10)
    logs = [name for name in disk.list(PATH) if name.endswith(".log")]
    assert len(logs) > 3
    disk.corrupt(f"{PATH}/{logs[1]}", 100)
    with pytest.raises(StorageError, match="cannot be read"):
        opened(disk, Clock(), 1 << 10)
    disk.corrupt(f"{PATH}/{logs[1]}", 100)
    opened(disk, Clock(), 1 << 10)
    disk.crash("all")
    disk.remove(f"{PATH}/{logs[1]}")
    with pytest.raises(StorageError, match="damaged"):
        opened(disk, Clock(), 1 << 10)


def test_all_segments_gone_are_refused() -> None:
    disk = disk_with()
    disk.remove(f"{PATH}/00000000000000000000.log")
    with pytest.raises(StorageError, match="its segments are gone"):
        opened(disk, Clock())


def test_a_log_that_begins_earlier_than_when_its_epochs_were_written_is_the_same_log() -> None:
    """A forgotten snapshot can come back with a crash; the file's first row stands where the log began."""
    disk, clock = MemoryDisk(), Clock()
    disk.put("data/meta.properties", b"")
    store = opened(disk, clock)
    write(store, 5)
    clock.mono += 10.0
    write(store, 5, epoch=2)
    disk.crash("none")
    disk.put(f"{PATH}/leader-epoch-checkpoint", b"0\n1\n2 7\n")
    assert opened(disk, Clock()).log_view.epochs() == [(1, 0), (2, 5)]
    disk.crash("none")
    disk.put(f"{PATH}/leader-epoch-checkpoint", b"0\n1\n3 7\n")
    with pytest.raises(StorageError, match=r"below offset 10 .* 7 is of epoch 2"):
        opened(disk, Clock())


def test_another_epoch_at_the_point_is_another_log() -> None:
    disk = disk_with()
    write_point(disk, PATH, RecoveryPoint(10, 4))
    with pytest.raises(StorageError, match="of epoch 1, not 4"):
        opened(disk, Clock())


def test_a_directory_without_the_file_opens_as_before() -> None:
    disk = disk_with()
    disk.remove(f"{PATH}/{RECOVERY_POINT}")
    log = f"{PATH}/00000000000000000000.log"
    disk.corrupt(log, disk.size(log) - 1)
    assert opened(disk, Clock()).log.log_end_offset == 9


def test_a_node_that_ran_on_it_and_does_not_know_the_file_leaves_it_good() -> None:
    disk = disk_with()
    store = opened(disk, Clock())  # as Apache Kafka: it appends what is not committed, and cuts it again
    for epoch in (1, 1, 2):
        batch = Batch(store.log_view.end_offset, epoch, (LeaderChange(1),))
        store.log_view.append(batch)
        store.append(batch)
    store.truncate(11)
    store.log.close(Now(0.0, 0))
    again = opened(disk, Clock())
    assert again.log.log_end_offset == 11 and again.log_view.known_committed == 10


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version":0,"offset":9,"epoch":1,"checksum":1}', b"[]"])
def test_a_senseless_file_is_refused(content: bytes) -> None:
    disk = disk_with()
    disk.replace(f"{PATH}/{RECOVERY_POINT}", content)
    with pytest.raises(StorageError, match="senseless"):
        opened(disk, Clock())
