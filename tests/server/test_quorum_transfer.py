"""What controllers read from their disks for each other: never more at once than the loop can bear."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.server.metadata_store import Clock, Thread

from barnabas.controller.versions import LATEST
from barnabas.errors import NewerReleaseError
from barnabas.raft.effects import InstallSnapshot, WriteSnapshot
from barnabas.raft.entries import Batch, LeaderChange, SnapshotId
from barnabas.raft.messages import Message, ReadLog, ReadSnapshot, SnapshotInstalled, SnapshotRejected
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import snapshot_batches
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.snapshots import SnapshotKeeper
from barnabas.server.kraft.storage import MetadataStore
from barnabas.server.kraft.transfer import MOST_READ_BYTES, read_log, read_piece
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.metadata import ConfigRecord, FeatureLevelRecord


@pytest.mark.parametrize(("asked", "read"), [((1 << 31) - 1, MOST_READ_BYTES), (1000, 1000)])
def test_who_asks_for_everything_gets_a_piece(asked: int, read: int) -> None:
    wanted: list[int] = []

    def records(offset: int, max_bytes: int, end: int) -> Any:
        wanted.append(max_bytes)
        return SimpleNamespace(read=bytes)

    assert read_log(cast("Any", SimpleNamespace(read=records)), ReadLog(0, asked, 9)) == b""
    assert wanted == [read]
    disk = MemoryDisk()
    disk.make_directories("data")
    disk.put("data/00000000000000000009-0000000002.checkpoint", bytes(MOST_READ_BYTES + 5))
    piece = read_piece(disk, "data", ReadSnapshot(SnapshotId(9, 2), 0, asked))
    assert len(piece) == read


AT = SnapshotId(9, 2)
NAME = "data/__cluster_metadata-0/00000000000000000009-0000000002.checkpoint"


def whole(records: int = 50) -> bytes:
    made = [ConfigRecord(resource_type=4, resource_name="", name=f"n{i}", value="v") for i in range(records)]
    return b"".join(snapshot_batches(made, epoch=2, stamp=lambda: 5, last_contained_ms=4))


def store_on(disk: MemoryDisk) -> tuple[MetadataStore, list[Message]]:
    heard: list[Message] = []
    store = open_store(
        disk,
        Clock(),
        "data",
        metadata_log_config(1 << 20, 1 << 40),
        cluster_id="c",
        static_voters=VoterSet.EMPTY,
    )

    def fail(error: BaseException) -> None:
        raise error

    store.attach(Thread(), heard.append, fail)
    return store, heard


def test_a_download_that_cannot_be_read_is_thrown_away_and_the_next_one_is_installed() -> None:
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    store, heard = store_on(disk)
    good = whole()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    for data in (bytes(bad), good[:-5] + bytes(5), good):
        store.write_snapshot(WriteSnapshot(AT, 0, data[:100]))
        store.write_snapshot(WriteSnapshot(AT, 100, data[100:]))
        store.install_snapshot(InstallSnapshot(AT, len(data)))
    assert [type(message) for message in heard] == [SnapshotRejected, SnapshotRejected, SnapshotInstalled]
    assert not [name for name in disk.list(store.path) if name.endswith(".part")]
    assert store.log.log_start_offset == 9 and len(store.image.cluster_config()) == 50


def newer() -> bytes:
    """A snapshot that a later release wrote."""
    level = FeatureLevelRecord(name="metadata.version", feature_level=LATEST + 1)
    return b"".join(snapshot_batches([level], epoch=2, stamp=lambda: 5, last_contained_ms=4))


def test_a_snapshot_of_a_newer_release_ends_the_node_and_is_not_asked_for_again() -> None:
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    store, heard = store_on(disk)
    store.write_snapshot(WriteSnapshot(AT, 0, newer()))
    with pytest.raises(NewerReleaseError, match=f"not {LATEST + 1}"):
        store.install_snapshot(InstallSnapshot(AT, len(newer())))
    assert not heard and not [name for name in disk.list(store.path) if name.endswith(".part")]


def test_a_directory_of_a_newer_release_is_refused_before_the_node_can_vote() -> None:
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    disk.put(NAME, newer())
    with pytest.raises(NewerReleaseError, match=f"not {LATEST + 1}"):
        store_on(disk)


def test_a_snapshot_that_the_disk_changed_is_not_given_and_written_anew_and_put_aside() -> None:
    disk = MemoryDisk()
    data = whole()
    disk.put("data/meta.properties", b"")
    disk.put(NAME, data)
    store, _ = store_on(disk)
    pieces: list[bytes | None] = []
    store.give_piece(ReadSnapshot(AT, 0, 1 << 20), pieces.append)
    assert pieces.pop() == data
    disk.corrupt(NAME, len(data) // 2)
    store.give_piece(ReadSnapshot(AT, 0, 1 << 20), pieces.append)
    store.give_piece(ReadSnapshot(AT, 100, 1 << 20), pieces.append)
    store.give_piece(ReadSnapshot(SnapshotId(5, 1), 0, 1 << 20), pieces.append)
    assert pieces == [None, None, None]
    assert "CRC" in store.bad_snapshots[AT]
    keeper = SnapshotKeeper(
        cast("Any", SimpleNamespace(snapshot_bytes=1 << 30, snapshot_interval=0, retention_bytes=1 << 30,
                                    retention_ms=-1)), store)  # fmt: skip
    store.image.features["metadata.version"] = 25
    assert keeper.due(store.image)
    job = keeper.begin(store.image)
    job.run()
    keeper.finished()
    store.log_view.snapshot_taken(job.snapshot, job.size)
    assert job.snapshot == AT and not store.bad_snapshots and not keeper.due(store.image)
    store.give_piece(ReadSnapshot(AT, 0, 1 << 20), pieces.append)
    assert pieces[-1] == disk.read(NAME)

    disk.corrupt(NAME, 70)
    store.give_piece(ReadSnapshot(AT, 0, 1 << 20), pieces.append)
    batch = Batch(9, 2, (LeaderChange(1),))
    store.log_view.append(batch)
    store.append(batch)
    store.committed(10)
    store.image.offset = 9
    job = keeper.begin(store.image)
    job.run()
    keeper.finished()
    store.log_view.snapshot_taken(job.snapshot, job.size)
    assert keeper.clean() == 10, "the log begins behind the new one"
    assert disk.exists(f"{NAME}.corrupt") and not disk.exists(NAME) and not store.bad_snapshots
