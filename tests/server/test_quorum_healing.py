"""Damaged metadata are set aside where other nodes have them, and fetched again; the only voter refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.server.metadata_store import PATH, Clock, opened

from barnabas.controller.feature_levels import bootstrap_levels
from barnabas.controller.image import MetadataImage
from barnabas.errors import StorageError
from barnabas.raft.effects import InstallSnapshot, SaveElection, WriteSnapshot
from barnabas.raft.entries import Batch, ElectionState, LeaderChange, SnapshotId, SyncedEnd
from barnabas.raft.messages import SyncTicket
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.election_state import QUORUM_STATE
from barnabas.server.kraft.marks import RECOVERY_POINT, SYNCED_END, read_synced_end
from barnabas.server.kraft.snapshots import SnapshotJob
from barnabas.server.kraft.storage import MetadataStore
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches

SEGMENT = 1 << 10
EPOCH_BYTE = 15
"""The last byte of the leader epoch of a batch."""
Damage = Callable[[MemoryDisk], None]


def start(disk: MemoryDisk, *, voters: int = 3, can_vote: bool | None = True) -> MetadataStore:
    return opened(disk, Clock(), SEGMENT, voters=voters, can_vote=can_vote)


def write(store: MetadataStore, batches: int, epoch: int = 1) -> None:
    for _ in range(batches):
        batch = Batch(store.log_view.end_offset, epoch, (LeaderChange(1),))
        store.log_view.append(batch)
        store.append(batch)
    ticket = SyncTicket(store.log_view.end_offset, store.log_view.cut)
    store.start_sync(ticket)
    store.log_view.persisted_to(*ticket)
    store.committed(store.log_view.end_offset)
    store.keep_point()


def disk_with(batches: int = 60, *, voters: int = 3) -> MemoryDisk:
    """A directory as a killed node leaves it: several segments, the last record committed, a vote of epoch 1."""
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    store = start(disk, voters=voters)
    store.save_election(SaveElection(1, ElectionState(1, 2), 1))
    write(store, batches)
    disk.crash("kill")
    return disk


def segments(disk: MemoryDisk) -> list[str]:
    return [f"{PATH}/{name}" for name in disk.list(PATH) if name.endswith(".log")]


def kept(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list(PATH) if name.endswith((".damaged", ".corrupt"))]


def refetched(store: MetadataStore, end: int) -> None:
    """Give the log what a leader of the next epoch has."""
    while store.log_view.end_offset < end:
        write(store, 1)
    write(store, 1, epoch=2)


def flip(name: Callable[[MemoryDisk], str], share: float) -> Damage:
    def damage(disk: MemoryDisk) -> None:
        disk.corrupt(name(disk), int(disk.size(name(disk)) * share))

    return damage


def cut(disk: MemoryDisk) -> None:
    disk.open(segments(disk)[-1]).truncate(20)


def remove_all(disk: MemoryDisk) -> None:
    for name in segments(disk):
        disk.remove(name)


def zero_twice(disk: MemoryDisk) -> None:
    """The end of a segment, which a start finds first, and its middle, which is in the way to it."""
    name = segments(disk)[2]
    content = disk.read(name)
    disk.replace(name, content[:300] + bytes(80) + content[380:-70] + bytes(70))


LOG_DAMAGE: dict[str, Damage] = {
    "a bit in the first segment": flip(lambda disk: segments(disk)[0], 0.5),
    "a bit in a middle segment": flip(lambda disk: segments(disk)[2], 0.3),
    "a bit in the last segment": flip(lambda disk: segments(disk)[-1], 0.1),
    "the end is gone": cut,
    "the last segment is gone": lambda disk: disk.remove(segments(disk)[-1]),
    "a middle segment is gone": lambda disk: disk.remove(segments(disk)[2]),
    "the first segment is gone": lambda disk: disk.remove(segments(disk)[0]),
    "all segments are gone": remove_all,
    "a middle segment is zeroed in two places": zero_twice,
    "a middle segment is zeroed": lambda disk: disk.replace(segments(disk)[2], bytes(900)),
}


@pytest.mark.parametrize("what", LOG_DAMAGE)
def test_a_damaged_log_is_open_up_to_the_damage_and_lacks_the_rest(what: str) -> None:
    disk = disk_with()
    LOG_DAMAGE[what](disk)
    disk.crash("none")
    again = start(disk)
    log_view = again.log_view
    assert log_view.lacks and log_view.vote_end == (1, 60) and log_view.end_offset < 60
    assert log_view.known_committed <= log_view.end_offset, (
        "a leader may have what is left cut, if it is another log"
    )
    bad = what not in ("the last segment is gone", "all segments are gone")
    assert [one.what for one in again.found.set_aside] == ["log"] * bad
    if "gone" not in what:
        assert kept(disk), "what was cut is there for inspection"
    disk.crash("all")
    again = start(disk)
    assert again.log_view.lacks, "a restart in between forgets nothing"
    assert again.found.set_aside == (), "and tells nothing twice"
    refetched(again, 60)
    disk.crash("kill")
    assert not start(disk).log_view.lacks


def test_a_batch_that_took_a_later_epoch_goes_with_what_follows_it() -> None:
    """No CRC covers an epoch: the batch behind is of an earlier one, and right."""
    disk = disk_with(30)
    write(start(disk), 30, epoch=3)
    disk.crash("kill")
    name = segments(disk)[1]
    at, header = list(batches(disk.read(name)))[2]
    disk.corrupt(name, at + EPOCH_BYTE, flip=2)
    assert start(disk).log_view.end_offset == header.base_offset


def test_a_last_batch_of_an_epoch_of_which_nobody_spoke_is_damage() -> None:
    """It was not synced, so no mark beside the log knows of it."""
    disk = disk_with(30)
    store = start(disk)
    batch = Batch(30, 1, (LeaderChange(1),))
    store.log_view.append(batch)
    store.append(batch)
    store.log.write()
    disk.crash("kill")
    name = segments(disk)[-1]
    at, header = list(batches(disk.read(name)))[-1]
    assert header.base_offset == 30
    disk.corrupt(name, at + EPOCH_BYTE, flip=64)
    assert start(disk).log_view.epochs() == [(1, 0)]


@pytest.mark.parametrize("what", LOG_DAMAGE)
def test_the_only_voter_and_whoever_only_looks_refuse_and_change_nothing(what: str) -> None:
    for voters, can_vote in ((1, True), (3, None)):
        disk = disk_with(voters=voters)
        LOG_DAMAGE[what](disk)
        disk.crash("kill")
        before = {name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith(".log")}
        for _ in range(2):
            with pytest.raises(StorageError) as refused:
                start(disk, voters=voters, can_vote=can_vote)
            assert refused.value.fatal and "barnabas quorum replace" in (refused.value.next_step or "")
            disk.crash("kill")
        assert before == {
            name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith(".log")
        }


def test_damage_where_the_index_points_is_cut_with_its_segment() -> None:
    """The last row of a sealed segment's index leads to a batch that cannot be read."""
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    large = 12 << 10
    store = opened(disk, Clock(), large, voters=3, can_vote=True)
    write(store, 400)
    sealed = store.log.segments[0]
    at = sealed.index.positions[-1]
    assert at > 0 and len(store.log.segments) > 1
    name = sealed.file.path
    store.close()
    content = disk.read(name)
    disk.replace(name, content[:at] + bytes(60) + content[at + 60 :])
    again = opened(disk, Clock(), large, voters=3, can_vote=True)
    assert again.log_view.lacks and again.log_view.vote_end == (1, 400)
    assert again.log_view.end_offset < sealed.limit


def test_a_broker_fetches_again_whoever_votes() -> None:
    disk = disk_with(voters=1)
    LOG_DAMAGE["a bit in the first segment"](disk)
    assert start(disk, voters=1, can_vote=False).log_view.lacks


def test_another_log_than_the_one_that_was_committed_begins_anew() -> None:
    disk = disk_with(20)
    older = {name: disk.read(name) for name in segments(disk)}
    store = start(disk)
    store.clock.mono += 60  # type: ignore[attr-defined]
    write(store, 10, epoch=3)
    disk.crash("kill")
    for name in segments(disk):
        disk.remove(name)
    for name, content in older.items():
        disk.replace(name, content)
    again = start(disk)
    assert again.log_view.lacks and again.log_view.vote_end == (3, 30)
    assert again.log_view.abstains_to == 3, "quorum-state does not know that epoch"


# ------------------------------------------------------------------ snapshots


def with_snapshots(ends: tuple[int, ...], *, log_start: int = 0) -> MemoryDisk:
    disk = disk_with()
    store = start(disk)
    for end in ends:
        image = MetadataImage("c")
        image.offset, image.epoch = end - 1, 1
        image.features.update(bootstrap_levels())
        SnapshotJob(disk, Clock(), PATH, image, VoterSet.EMPTY, 0).run()
    if log_start:
        store.committed(60)
        store.log.increment_log_start(log_start)
        store.log.retain(Clock().now())
    disk.crash("none")
    return disk


def snapshot_files(disk: MemoryDisk) -> list[str]:
    return [f"{PATH}/{name}" for name in disk.list(PATH) if name.endswith(".checkpoint")]


@pytest.mark.parametrize("harm", ["a bit", "the content of another"])
def test_a_damaged_snapshot_is_set_aside_where_an_older_one_and_the_log_say_the_same(harm: str) -> None:
    disk = with_snapshots((20, 40), log_start=20)
    older, newest = snapshot_files(disk)[-2:]
    if harm == "a bit":
        disk.corrupt(newest, 30, flip=1)  # in a timestamp, which the CRC alone covers
    else:
        disk.put(newest, disk.read(older))
    again = start(disk)
    assert [str(s) for s, _ in again.log_view.snapshots] == ["20-1"]
    assert again.log_view.end_offset == 60 and not again.log_view.lacks
    assert [one.what for one in again.found.set_aside] == ["00000000000000000040-0000000001.checkpoint"]
    assert kept(disk) == ["00000000000000000040-0000000001.checkpoint.corrupt"]


def test_a_snapshot_that_goes_beyond_the_recovery_point_makes_nothing_of_the_log_damage() -> None:
    """Of what it took the place of nobody knows the epochs: the record before the point may be of an older one."""
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    store = start(disk)
    write(store, 30)
    point = store.point
    store.save_election(SaveElection(1, ElectionState(2, 2), 2))
    write(store, 30, epoch=2)
    end = store.log_view.end_offset
    image = MetadataImage("c")
    image.offset, image.epoch = end - 11, 2
    image.features.update(bootstrap_levels())
    SnapshotJob(disk, Clock(), PATH, image, VoterSet.EMPTY, 0).run()
    store.log.increment_log_start(end - 10)
    store.log.retain(Clock().now())
    assert store.point == point and point.epoch == 1 and point.offset < store.log.log_start_offset
    disk.crash("none")
    again = start(disk)
    assert again.found.set_aside == () and not again.log_view.lacks
    assert again.log_view.end_offset == end


@pytest.mark.parametrize("gone", [False, True])
def test_without_the_snapshot_before_it_the_log_begins_anew(gone: bool) -> None:
    disk = with_snapshots((40,), log_start=40)
    if gone:
        disk.remove(snapshot_files(disk)[-1])
    else:
        disk.corrupt(snapshot_files(disk)[-1], 70)
    again = start(disk)
    assert (again.log_view.log_start, again.log_view.end_offset) == (0, 0)
    assert again.log_view.lacks and again.log_view.vote_end == (1, 60)
    assert [one.what for one in again.found.set_aside][-1] == "log"
    assert any(name.endswith(".log.damaged") for name in kept(disk))
    disk.crash("kill")
    assert start(disk).log_view.lacks


# ------------------------------------------------------------------ small files


@pytest.mark.parametrize("voters", [0, 3])
@pytest.mark.parametrize("name", [QUORUM_STATE, RECOVERY_POINT, SYNCED_END])
@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b'{"version":0,"offset":9,"epoch":1,"checksum":1}'])
def test_a_senseless_small_file_is_set_aside_and_the_others_know_enough(
    name: str, content: bytes, voters: int
) -> None:
    """(A controller that fetched no voter set yet is not the only voter.)"""
    disk = disk_with(voters=voters)
    disk.replace(f"{PATH}/{name}", content)
    again = start(disk, voters=voters)
    assert not again.log_view.lacks and again.log_view.end_offset == 60
    assert again.log_view.abstains_to == (1 if name == QUORUM_STATE else 0)
    assert [one.what for one in again.found.set_aside] == [name]
    assert disk.read(f"{PATH}/{name}.corrupt") == content
    assert read_synced_end(disk, PATH) is not None


def test_a_senseless_file_beside_no_row_is_refused_and_left_as_it_is() -> None:
    """An earlier release, or Apache Kafka, wrote the directory: nobody can tell if this is the only voter."""
    disk = disk_with()
    disk.remove(f"{PATH}/{SYNCED_END}")
    disk.replace(f"{PATH}/{RECOVERY_POINT}", b"")
    with pytest.raises(StorageError, match="senseless") as refused:
        start(disk)
    assert refused.value.next_step and not kept(disk)


def test_a_downloaded_snapshot_that_names_no_voters_leaves_the_fixed_ones_in_the_row() -> None:
    disk = disk_with(20)
    store, image = start(disk), MetadataImage("c")
    image.offset, image.epoch = 89, 3
    image.features.update(bootstrap_levels())
    disk.make_directories("elsewhere")
    SnapshotJob(disk, Clock(), "elsewhere", image, VoterSet.EMPTY, 0).run()
    (content,) = (disk.read(f"elsewhere/{name}") for name in disk.list("elsewhere"))
    at = SnapshotId(90, 3)
    store.write_snapshot(WriteSnapshot(at, 0, content))
    store.install_snapshot(InstallSnapshot(at, len(content)))
    row = read_synced_end(disk, PATH)
    assert row is not None and row.end == SyncedEnd(3, 90, 3)
    disk.crash("kill")
    disk.replace(f"{PATH}/{RECOVERY_POINT}", b"")
    assert [one.what for one in start(disk).found.set_aside] == [RECOVERY_POINT]


def test_a_bad_row_keeps_nobody_out() -> None:
    for voters, can_vote in ((1, True), (3, None)):
        disk = disk_with(voters=voters)
        disk.replace(f"{PATH}/{SYNCED_END}", bytes(64))
        again = start(disk, voters=voters, can_vote=can_vote)
        assert again.log_view.end_offset == 60 and not again.log_view.lacks


def test_a_lost_recovery_point_is_not_missed_where_there_is_a_row() -> None:
    disk = disk_with()
    disk.remove(f"{PATH}/{RECOVERY_POINT}")
    LOG_DAMAGE["a bit in the last segment"](disk)
    assert start(disk).log_view.vote_end == (1, 60)


def test_a_row_older_than_the_recovery_point_counts_as_much_as_that() -> None:
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    store = start(disk)
    write(store, 10)
    old = disk.read(f"{PATH}/{SYNCED_END}")
    store.clock.mono += 60  # type: ignore[attr-defined]
    write(store, 50)
    disk.crash("kill")
    disk.replace(f"{PATH}/{SYNCED_END}", old)
    cut(disk)
    assert start(disk).log_view.vote_end == (1, 60)


def test_a_disk_that_cannot_be_read_is_no_damage() -> None:
    disk = disk_with()
    disk.fail("read", QUORUM_STATE)
    with pytest.raises(StorageError, match="Input/output error"):
        start(disk)
    assert not kept(disk)
