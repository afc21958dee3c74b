"""The synced end: a row beside the metadata log knows what a disk has lost, and what a voter has promised."""

from __future__ import annotations

from collections.abc import Callable

from tests.server.metadata_store import PATH, Clock, Thread
from tests.server.metadata_store import opened as opened_by

from barnabas.errors import StorageError
from barnabas.model import ReplicaKey, Uuid
from barnabas.raft.effects import SaveElection
from barnabas.raft.entries import Batch, ElectionState, LeaderChange, SyncedEnd
from barnabas.raft.messages import SyncTicket
from barnabas.server.kraft.election_state import QUORUM_STATE
from barnabas.server.kraft.marks import (
    NO_ROW,
    RECOVERY_POINT,
    SYNCED_END,
    SyncedEndFile,
    SyncedRow,
    read_synced_end,
)
from barnabas.server.kraft.storage import MetadataStore
from barnabas.sim.kernel.disk import MemoryDisk

LOG = f"{PATH}/00000000000000000000.log"
FILE = f"{PATH}/{SYNCED_END}"
OTHER = ReplicaKey(2, Uuid.of(2, 1))


def disk_without_luck() -> MemoryDisk:
    """A disk on which the file is as every other: a step, a draw, and lost in a power cut."""
    disk = MemoryDisk()
    disk.quiet = ()
    disk.put("data/meta.properties", b"")
    return disk


def opened(disk: MemoryDisk) -> MetadataStore:
    return opened_by(disk, Clock())


def append(store: MetadataStore, count: int, epoch: int = 1) -> None:
    for _ in range(count):
        batch = Batch(store.log_view.end_offset, epoch, (LeaderChange(1),))
        store.log_view.append(batch)
        store.append(batch)


def sync(store: MetadataStore) -> None:
    """Sync, and have the core hear of it."""
    ticket = store.log_view.ticket
    store.start_sync(ticket)
    store.log_view.persisted_to(*ticket)


def save(store: MetadataStore, state: ElectionState) -> None:
    store.save_election(SaveElection(1, state, 1))


def row(disk: MemoryDisk) -> SyncedRow:
    found = read_synced_end(disk, PATH)
    assert found is not None
    return found


def lose_end(disk: MemoryDisk, records: int) -> None:
    """Cut so many batches of one entry off the log, as a disk that lost them."""
    file = disk.open(LOG)
    each = file.size() // 10
    file.truncate(file.size() - records * each)
    file.sync()


def test_a_sync_writes_where_the_log_ended_before_anybody_hears_of_it() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    assert row(disk).end == SyncedEnd(0, 0, 0)
    seen: list[SyncedRow] = []
    store.attach(Thread(), lambda message: seen.append(row(disk)), lambda error: None)
    sync(store)
    assert seen == [SyncedRow(SyncedEnd(1, 10, 0), 0)]


def test_a_log_that_ends_before_its_row_lost_entries() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    sync(store)
    disk.crash("kill")
    assert not opened(disk).log_view.lacks
    disk.crash("kill")
    lose_end(disk, 3)
    again = opened(disk)
    assert again.log_view.lacks and again.log_view.end_offset == 7
    assert again.log_view.vote_end == (1, 10)
    sync(again)
    assert row(disk).end == SyncedEnd(1, 10, 0), "what is left is synced, and the row stays"
    disk.crash("all")
    assert opened(disk).log_view.lacks, "the next start knows it too"


def test_a_torn_end_that_was_never_synced_is_not_lost() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    sync(store)
    append(store, 5)
    disk.crash("kill")
    disk.corrupt(LOG, disk.size(LOG) - 3)
    again = opened(disk)
    assert again.log_view.end_offset == 14 and not again.log_view.lacks


def test_a_power_cut_may_take_rows_and_then_claims_nothing_wrong() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    sync(store)
    disk.crash("all")
    assert row(disk).end.end_offset == 0, "it was not synced"
    assert not opened(disk).log_view.lacks
    assert row(disk).end == SyncedEnd(1, 10, 0), "a start says durably what it found"


def test_what_a_leader_has_cut_is_durably_no_loss_before_the_cut() -> None:
    for loss in ("all", "kill"):
        disk = disk_without_luck()
        store = opened(disk)
        append(store, 10)
        sync(store)
        disk.sync_directory(PATH)
        disk.open(FILE).sync()
        store.log_view.truncate(6)
        store.truncate(6)
        disk.crash(loss)
        again = opened(disk)
        assert again.log_view.end_offset == (10 if loss == "all" else 6), "the cut itself is not synced"
        assert not again.log_view.lacks


def test_a_sync_that_ends_after_a_cut_does_not_say_that_the_cut_was_there() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    jobs: list[Callable[[], None]] = []

    class Later:
        def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
            jobs.append(lambda: (job(), done(None))[0])

    store.attach(Later(), lambda message: None, lambda error: None)
    store.start_sync(store.log_view.ticket)
    store.log_view.truncate(6)
    store.truncate(6)
    for job in jobs:
        job()
    assert row(disk).end.end_offset == 0


def test_a_cut_of_a_log_that_lost_entries_leaves_its_row() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    sync(store)
    disk.crash("kill")
    lose_end(disk, 3)
    again = opened(disk)
    again.log_view.truncate(5)
    again.truncate(5)
    assert row(disk).end == SyncedEnd(1, 10, 0)
    append(again, 1, epoch=2)
    sync(again)
    assert row(disk).end == SyncedEnd(2, 6, 0), "the leader of a later epoch had all that was committed"
    disk.crash("kill")
    assert not opened(disk).log_view.lacks


def test_an_older_copy_of_the_log_is_one_that_lost_entries() -> None:
    """It may even be longer: entries that a leader had this node cut are back, and those of the leader are not."""
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 10)
    sync(store)
    old = disk.read(LOG)
    store.log_view.truncate(6)
    store.truncate(6)
    append(store, 2, epoch=2)
    sync(store)
    disk.crash("kill")
    disk.replace(LOG, old)
    again = opened(disk)
    assert again.log_view.end_offset == 10 > row(disk).end.end_offset == 8
    assert again.log_view.lacks


def test_a_vote_is_written_and_an_older_quorum_state_gives_none_in_its_epoch() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    save(store, ElectionState(4))
    assert row(disk).voted == 0, "no vote yet"
    old = disk.read(f"{PATH}/{QUORUM_STATE}")
    save(store, ElectionState(4, voted=OTHER))
    assert row(disk).voted == 4
    save(store, ElectionState(5, 3))
    assert row(disk).voted == 4
    disk.crash("kill")
    assert opened(disk).log_view.abstains_to == 0
    for damage in (
        lambda: disk.replace(f"{PATH}/{QUORUM_STATE}", old),
        lambda: disk.remove(f"{PATH}/{QUORUM_STATE}"),
    ):
        disk.crash("kill")
        damage()
        assert opened(disk).log_view.abstains_to == 4
        disk.crash("kill")
        assert opened(disk).log_view.abstains_to == 4, "a restart forgets nothing"


def test_the_logs_epoch_tells_an_older_quorum_state_too() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    save(store, ElectionState(3, 2))
    append(store, 2, epoch=3)
    sync(store)
    disk.crash("all")
    disk.remove(f"{PATH}/{QUORUM_STATE}")
    disk.remove(FILE)
    again = opened(disk)
    assert again.log_view.abstains_to == 3
    assert row(disk).voted == 3
    save(again, ElectionState(3))
    disk.crash("all")
    assert opened(disk).log_view.abstains_to == 3, "it is at that epoch now, and still does not vote in it"


def test_a_bad_row_leaves_the_one_before_it_and_a_file_of_bad_rows_none() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 4)
    sync(store)
    append(store, 6)
    sync(store)
    disk.crash("kill")
    disk.corrupt(FILE, disk.size(FILE) - 5)
    assert row(disk).end == SyncedEnd(1, 4, 0)
    disk.open(FILE).append([b"torn"])
    assert row(disk).end == SyncedEnd(1, 4, 0)
    disk.replace(FILE, bytes(100))
    assert read_synced_end(disk, PATH) is None
    disk.remove(FILE)
    assert row(disk) == NO_ROW


def test_the_file_stays_small_and_keeps_its_newest_row() -> None:
    disk = disk_without_luck()
    disk.make_directories(PATH)
    file = SyncedEndFile(disk, PATH)
    file.begin(NO_ROW)
    for offset in range(1, 10_000):
        file.synced(SyncedEnd(1, offset, 3))
        if offset % 500 == 0:
            assert row(disk).end.end_offset == offset
    file.voted(7)
    assert disk.size(FILE) < 4100 * 24
    disk.crash("kill")
    assert row(disk) == SyncedRow(SyncedEnd(1, 9_999, 3), 7)


class FullDisk(MemoryDisk):
    """A disk that may have no room for rows."""

    full = False

    def take_space(self, path: str, size: int) -> None:
        if self.full and SYNCED_END in path:
            raise StorageError(f"cannot append to {path}: No space left on device", full=True)


def test_a_row_that_finds_no_room_is_written_with_the_next_one() -> None:
    disk = FullDisk()
    disk.put("data/meta.properties", b"")
    store = opened(disk)
    append(store, 4)
    sync(store)
    disk.full = True
    append(store, 1)
    sync(store)
    assert row(disk).end.end_offset == 4
    disk.crash("kill")
    assert not opened(disk).log_view.lacks, "nor does a start need room"
    disk.full = False
    disk.crash("kill")
    again = opened(disk)
    assert row(disk).end.end_offset == 5
    append(again, 1)
    again.start_sync(SyncTicket(6, 0))
    assert row(disk).end.end_offset == 6


def test_a_directory_of_an_earlier_release_gets_the_file_at_its_first_start() -> None:
    disk = disk_without_luck()
    store = opened(disk)
    append(store, 3)
    sync(store)
    disk.crash("kill")
    disk.remove(FILE)
    assert not opened(disk).log_view.lacks
    assert row(disk).end.end_offset == 3
    assert not disk.exists(f"{PATH}/{RECOVERY_POINT}"), "nothing was committed"
