"""A crash can undo the cut behind a downloaded snapshot: the old log must not be taken for what follows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.log.files.snapshot import SnapshotId, SnapshotWriter, list_snapshots
from barnabas.model import Now
from barnabas.raft.effects import WriteSnapshot
from barnabas.raft.entries import Batch, LeaderChange
from barnabas.raft.entries import SnapshotId as Wanted
from barnabas.raft.messages import SyncTicket
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import snapshot_batches
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.storage import MetadataStore
from barnabas.server.kraft.transfer import SnapshotDownload
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.metadata import FeatureLevelRecord

PATH = "data/__cluster_metadata-0"


class Clock:
    def now(self) -> Now:
        return Now(100.0, 1_700_000_000_000)


class Thread:
    """Runs jobs at once."""

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        job()
        done(None)


def opened(disk: MemoryDisk) -> MetadataStore:
    config = metadata_log_config(300, 1 << 40)
    store = open_store(disk, Clock(), "data", config, cluster_id="c", static_voters=VoterSet.EMPTY)
    store.attach(Thread(), lambda message: None, lambda error: None)
    return store


def disk_with_a_log(*epochs: int) -> tuple[MemoryDisk, list[int]]:
    """A log with one record of each epoch, and the offsets at which its segments begin."""
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    store = opened(disk)
    for epoch in epochs:
        batch = Batch(store.log_view.end_offset, epoch, (LeaderChange(1),))
        store.log_view.append(batch)
        store.append(batch)
    store.start_sync(SyncTicket(store.log_view.end_offset, 0))
    bases = list(store.log.bases)
    disk.crash("none")
    return disk, bases


def add_snapshot(disk: MemoryDisk, end: int, epoch: int) -> None:
    batches = snapshot_batches(
        [FeatureLevelRecord(name="metadata.version", feature_level=29)],
        epoch=epoch,
        stamp=lambda: 0,
        last_contained_ms=0,
        voters=None,
        kraft_version=0,
        metadata_version=29,
    )
    disk.put(f"{PATH}/{end:020}-{epoch:010}.checkpoint", b"".join(batches))


def test_an_old_log_whose_segment_begins_at_the_snapshot_is_not_its_continuation() -> None:
    """K138."""
    disk, bases = disk_with_a_log(*[3] * 12)
    end = bases[1]
    add_snapshot(disk, end, 8)
    for name in disk.list(PATH):  # the older segments have gone already
        if name.startswith(f"{0:020}."):
            disk.remove(f"{PATH}/{name}")
    store = opened(disk)
    assert (store.log_view.log_start, store.log_view.end_offset, store.log_view.last_epoch) == (end, end, 8)


@pytest.mark.parametrize("place", [0, 2])
def test_an_old_log_that_reaches_over_the_snapshot_is_not_its_continuation(place: int) -> None:
    disk, bases = disk_with_a_log(*[3] * 12)
    add_snapshot(disk, bases[1] + place, 8)
    store = opened(disk)
    assert store.log_view.end_offset == bases[1] + place and store.log_view.last_epoch == 8


def test_the_log_that_goes_on_behind_its_own_snapshot_stays() -> None:
    disk, bases = disk_with_a_log(*[3] * 4, *[8] * 8)
    add_snapshot(disk, bases[1], 3 if bases[1] <= 4 else 8)
    store = opened(disk)
    assert store.log_view.end_offset == 12 and store.log_view.last_epoch == 8


def test_a_download_that_was_given_up_is_not_in_the_way_of_a_snapshot_of_our_own() -> None:
    """Quorum seed 1311: both were written to one file, and the next download missed it."""
    disk = MemoryDisk()
    disk.make_directories(PATH)
    download = SnapshotDownload(disk, PATH)
    download.write(WriteSnapshot(Wanted(75, 1), 0, b"the first piece"))
    own = SnapshotWriter(disk, PATH, SnapshotId(75, 1))
    own.append([b"our own"])
    download.write(WriteSnapshot(Wanted(75, 1), 15, b" and another"))
    own.freeze()
    download.write(WriteSnapshot(Wanted(148, 2), 0, b"the next one"))
    assert list_snapshots(disk, PATH) == [SnapshotId(75, 1)]
    assert disk.read(f"{PATH}/{SnapshotId(75, 1).file_name}") == b"our own"
