"""Snapshots: serving, loading, and what they must hold (scenarios K129 to K141)."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, endpoint_of, key_of, voter_set
from raft_solo import Solo, journal_of, records

from barnabas.errors import ErrorCode
from barnabas.raft.effects import Committed, Event, InstallSnapshot, WriteSnapshot
from barnabas.raft.entries import (
    BOOTSTRAP,
    Batch,
    ElectionState,
    KraftVersionEntry,
    Note,
    Opaque,
    SnapshotId,
    VotersEntry,
)
from barnabas.raft.log_view import LogView
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    Failed,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LogStartMoved,
    Propose,
    ReadSnapshot,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotTaken,
)


def with_snapshot() -> Solo:
    """A leader whose log begins at 3."""
    solo = Solo().lead()
    solo.step(Propose("p", 1, (Opaque("x", 4),)))
    solo.fetch(2)
    solo.step(SnapshotTaken(SnapshotId(3, 1), 100))
    solo.step(LogStartMoved(3))
    return solo


def fetch(offset: int, last_epoch: int) -> FetchRequest:
    return FetchRequest(1, key_of(4), offset, last_epoch)


def test_who_is_below_the_log_start_hears_of_the_snapshot() -> None:
    """K129, K131: at the log start the epoch decides."""
    solo = with_snapshot()
    for request in (fetch(0, 0), fetch(2, 1), fetch(3, 0)):
        answer = solo.ask(request)
        assert isinstance(answer, FetchResponse) and answer.snapshot == SnapshotId(3, 1)
    answer = solo.ask(fetch(3, 1))
    assert isinstance(answer, FetchResponse) and answer.snapshot is None and answer.read is not None


def test_the_bootstrap_snapshot_is_never_replicated() -> None:
    solo = Solo().lead()
    answer = solo.ask(FetchRequest(1, key_of(4), 0, 0))
    assert isinstance(answer, FetchResponse) and answer.snapshot is None
    assert solo.error(FetchSnapshotRequest(1, key_of(4), BOOTSTRAP, 0)) is ErrorCode.SNAPSHOT_NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (FetchSnapshotRequest(0, key_of(2), SnapshotId(3, 1), 0), ErrorCode.FENCED_LEADER_EPOCH),
        (FetchSnapshotRequest(2, key_of(2), SnapshotId(3, 1), 0), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FetchSnapshotRequest(1, key_of(2), SnapshotId(4, 1), 0), ErrorCode.SNAPSHOT_NOT_FOUND),
        (FetchSnapshotRequest(1, key_of(2), SnapshotId(3, 1), -1), ErrorCode.POSITION_OUT_OF_RANGE),
        (FetchSnapshotRequest(1, key_of(2), SnapshotId(3, 1), 100), ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_piece_that_cannot_be_is_refused(request_: FetchSnapshotRequest, error: ErrorCode) -> None:
    """K132."""
    assert with_snapshot().error(request_) is error


def test_a_piece_of_a_snapshot_is_read_by_the_driver() -> None:
    answer = with_snapshot().ask(FetchSnapshotRequest(1, key_of(2), SnapshotId(3, 1), 10, 20))
    assert isinstance(answer, FetchSnapshotResponse)
    assert (answer.size, answer.position, answer.read) == (100, 10, ReadSnapshot(SnapshotId(3, 1), 10, 20))


def test_a_follower_does_not_serve_snapshots() -> None:
    """K132."""
    solo = Solo().follow()
    request = FetchSnapshotRequest(1, key_of(3), SnapshotId(3, 1), 0)
    assert solo.error(request) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def loading() -> Solo:
    solo = Solo(()).follow()
    solo.fetched(snapshot=SnapshotId(50, 1))
    return solo


def piece(position: int, size: int = 5, error: ErrorCode = ErrorCode.NONE) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        error,
        1,
        2,
        (),
        SnapshotId(50, 1),
        size,
        position,
        None,
        b"abc"[: size - position],
        min(3, size - position),
    )


def test_a_snapshot_is_loaded_piece_by_piece_and_the_log_begins_anew() -> None:
    """K129."""
    solo = loading()
    solo.answer(solo.take(FetchSnapshotRequest, 2), piece(0))
    second = solo.take(FetchSnapshotRequest, 2)
    assert isinstance(second.request, FetchSnapshotRequest) and second.request.position == 3
    solo.answer(second, piece(3))
    assert [e for e in solo.effects if isinstance(e, (WriteSnapshot, InstallSnapshot))] == [
        WriteSnapshot(SnapshotId(50, 1), 0, b"abc"),
        WriteSnapshot(SnapshotId(50, 1), 3, b"ab"),
        InstallSnapshot(SnapshotId(50, 1), 5),
    ]
    assert not solo.has_sent(FetchRequest, 2), "nothing is fetched while the log is replaced"
    entries = (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3)), Note("k", "v"))
    solo.step(SnapshotInstalled(SnapshotId(50, 1), 5, entries))
    assert solo.node.voters == voter_set(1, 2, 3) and solo.node.log_view.notes == {"k": "v"}
    assert Committed(50) in solo.effects
    request = solo.take(FetchRequest, 2).request
    assert isinstance(request, FetchRequest) and (request.offset, request.last_epoch) == (50, 1)


def test_a_snapshot_that_is_gone_is_dropped_and_fetching_goes_on() -> None:
    solo = loading()
    solo.answer(solo.take(FetchSnapshotRequest, 2), piece(0))
    solo.answer(solo.take(FetchSnapshotRequest, 2), piece(3, error=ErrorCode.SNAPSHOT_NOT_FOUND))
    solo.advance(0.1)
    assert solo.has_sent(FetchRequest, 2)


def test_a_download_that_cannot_be_read_is_asked_for_again_each_time_a_little_later() -> None:
    solo = loading()
    pauses = []
    for number in range(1, 8):
        while not any(isinstance(effect, InstallSnapshot) for effect in solo.effects):
            solo.answer(solo.take(FetchSnapshotRequest, 2), piece(0))
            solo.answer(solo.take(FetchSnapshotRequest, 2), piece(3))
        solo.effects.clear()
        solo.step(SnapshotRejected(SnapshotId(50, 1), "its CRC is wrong"))
        name = "raft.snapshot.unreadable" if number >= 5 else "raft.snapshot.rejected"
        assert [e.name for e in solo.effects if isinstance(e, Event)] == [name]
        assert not solo.has_sent(FetchRequest), "not at once"
        pauses.append(solo.node.next_deadline() - solo.now.mono)
        solo.advance(pauses[-1] + 0.001)
        assert solo.role == "follower", "the leader is no worse a leader for it"
        solo.fetched(snapshot=SnapshotId(50, 1))
        solo.effects.clear()
    assert pauses == sorted(pauses) and pauses[0] < 0.1 < pauses[-1] <= 1.0


def test_a_new_leader_ends_the_download_from_the_old_one() -> None:
    """K134."""
    solo = loading()
    late = solo.take(FetchSnapshotRequest, 2)
    solo.ask(BeginQuorumEpochRequest(2, 3, (endpoint_of(3),)))
    solo.answer(late, piece(0))
    assert not [e for e in solo.effects if isinstance(e, WriteSnapshot)]
    assert solo.has_sent(FetchRequest, 3)


def test_a_lost_piece_is_asked_for_again() -> None:
    solo = loading()
    solo.step(Failed(solo.take(FetchSnapshotRequest, 2).correlation, "reset"))
    solo.advance(0.2)
    assert solo.has_sent(FetchRequest) or solo.has_sent(FetchSnapshotRequest)


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        (SnapshotId(9, 1), "not committed"),
        (SnapshotId(2, 1), "before the log start"),
        (SnapshotId(5, 2), "not of epoch"),
        (SnapshotId(7, 1), None),
    ],
)
def test_only_what_is_committed_and_in_the_log_can_be_a_snapshot(
    snapshot: SnapshotId, why: str | None
) -> None:
    """K135 (batch boundaries are the driver's matter)."""
    told = with_snapshot().node.check_snapshot(snapshot)
    assert told is None if why is None else why in str(told)


def test_a_snapshot_holds_the_voters_and_version_of_its_own_offset() -> None:
    """K136."""
    log = [records(0, 1, 5), Batch(5, 1, (VotersEntry(voter_set(1, 2)),), b""), records(6, 1, 2)]
    log_view = journal_of((1, 2, 3), log)
    assert log_view.voters_at(5) == voter_set(1, 2, 3)
    assert log_view.voters_at(6) == voter_set(1, 2) == log_view.voters
    assert log_view.kraft_version_at(5) == 1


def test_a_crash_between_download_and_truncation_begins_the_log_at_the_snapshot() -> None:
    """K138."""
    log_view = LogView()
    log_view.restore_snapshot(BOOTSTRAP, 2, ())
    log_view.restore_snapshot(SnapshotId(50, 3), 9, (KraftVersionEntry(1), VotersEntry(voter_set(1, 2))))
    log_view.restore_batch(records(0, 1, 5))
    log_view.restore_end(0, 5)
    assert (log_view.log_start, log_view.end_offset, log_view.last_epoch) == (50, 50, 3)
    assert log_view.voters == voter_set(1, 2)


def test_a_log_that_was_not_cut_yet_begins_before_its_snapshot() -> None:
    log_view = LogView()
    log_view.restore_snapshot(SnapshotId(5, 1), 9, (KraftVersionEntry(1), VotersEntry(voter_set(1, 2))))
    for batch in (records(0, 1, 5), records(5, 2, 5)):
        log_view.restore_batch(batch)
    log_view.restore_end(0, 10)
    assert (log_view.log_start, log_view.end_offset, log_view.last_epoch) == (0, 10, 2)
    assert log_view.voters == voter_set(1, 2) and log_view.end_of_epoch(1).end_offset == 5


def test_a_log_that_begins_late_without_a_snapshot_is_refused() -> None:
    """K140."""
    with pytest.raises(ValueError, match="no snapshot"):
        LogView().restore_end(7, 7)


def test_the_voters_history_rolls_back_and_keeps_what_is_in_force_when_its_front_goes() -> None:
    """K141."""
    log = [
        Batch(0, 1, (VotersEntry(voter_set(1, 2)),)),
        Batch(1, 1, (VotersEntry(voter_set(1)),)),
        records(2, 1, 8),
    ]
    log_view = journal_of((1, 2, 3), log)
    log_view.snapshot_taken(SnapshotId(8, 1), 9)
    log_view.log_start_moved(8)
    assert log_view.voters == voter_set(1) and log_view.voters_at(8) == voter_set(1)
    back = journal_of((1, 2, 3), log)
    back.truncate(1)
    assert back.voters == voter_set(1, 2)
    back.truncate(0)
    assert back.voters == voter_set(1, 2, 3)


def test_restarts_read_the_same_journal_that_was_written() -> None:
    cluster = Cluster(1, 2, 3, seed=8)
    for i in range(5):
        cluster.write(f"v{i}")
    cluster.elect().snapshot()
    for i in range(5):
        cluster.write(f"w{i}")
    cluster.run(2.0)
    for node_id in (1, 2, 3):
        before = cluster.servers[node_id].node.log_view
        cluster.crash(node_id)
        after = cluster.restart(node_id).node.log_view
        assert (after.log_start, after.last_epoch, after.voters) == (
            before.log_start,
            before.last_epoch,
            before.voters,
        )
    cluster.write("after")


def test_a_restart_knows_that_its_snapshot_is_committed() -> None:
    log_view = LogView()
    log_view.restore_snapshot(SnapshotId(50, 3), 9, (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3))))
    log_view.restore_end(50, 50)
    solo = Solo(log_view=log_view, saved=ElectionState(3))
    assert solo.node.high_watermark == 50 and Committed(50) in solo.effects
