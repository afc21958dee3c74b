"""The leader's side of replication: fetches in, records and high watermarks out.

A Fetch says two things: the follower has everything before its offset on disk, and it wants more.  The leader
parks every valid Fetch and answers when there are records or a new high watermark, or when its time is up.
"""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.model import Epoch, Now
from barnabas.raft import answers, leadership
from barnabas.raft.core import Core
from barnabas.raft.entries import EpochEnd, SnapshotId
from barnabas.raft.identity.superseded import foreign
from barnabas.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReadLog,
    ReadSnapshot,
)
from barnabas.raft.progress import ParkedFetch
from barnabas.raft.roles import Leader

__all__ = ["leader_error", "on_fetch", "on_fetch_snapshot", "release"]


def leader_error(core: Core, epoch: Epoch) -> ErrorCode | None:
    """Why this node cannot act as the leader of that epoch."""
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > core.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(core.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if core.stopped else None


def on_fetch(core: Core, token: object, request: FetchRequest, now: Now) -> None:
    """Fetch: check it, note how far the replica is, answer or park."""
    error = _check(core, request)
    if error is not None:
        core.reply(token, _answer(core, error))
        return
    role, replica = core.role, request.replica
    assert isinstance(role, Leader)
    said = core.log_view.check_fetch(request.offset, request.last_epoch)
    if error := foreign(core, request, said):
        core.reply(token, _answer(core, error))
        return
    progress = None if replica.id < 0 else leadership.progress_of(core, role, replica)
    if progress is not None:
        leadership.hear_role(core, progress, replica, request.can_vote)
    if isinstance(said, EpochEnd | SnapshotId):
        if progress is not None:  # (it is alive; what it has is not known yet)
            progress.heard(now)
            answers.heard_from(core, replica)
        end, snapshot = (said, None) if isinstance(said, EpochEnd) else (None, said)
        core.reply(token, _answer(core, ErrorCode.NONE, diverging=end, snapshot=snapshot))
        return
    if progress is not None:
        progress.fetched(request.offset, core.log_view.end_offset, now, core.config.catch_up_round)
        leadership.heard(core, role, replica, now)
    seen = leadership.published_high_watermark(core)
    wait = min(request.max_wait, core.config.fetch_timeout)  # the sender may be gone: nobody tells us
    role.parked.append(ParkedFetch(token, request, now.mono + wait, seen))


def _check(core: Core, request: FetchRequest) -> ErrorCode | None:
    if request.cluster_id is not None and request.cluster_id != core.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    negative = request.max_wait < 0 or request.offset < 0 or request.last_epoch < 0
    if negative or request.last_epoch > request.epoch:
        return ErrorCode.INVALID_REQUEST
    if error := leader_error(core, request.epoch):
        return error
    return ErrorCode.INVALID_REQUEST if request.replica == core.key else None


def _answer(
    core: Core,
    error: ErrorCode,
    *,
    diverging: EpochEnd | None = None,
    snapshot: SnapshotId | None = None,
    read: ReadLog | None = None,
) -> FetchResponse:
    return FetchResponse(
        error,
        **core.leader_hint(),
        high_watermark=leadership.published_high_watermark(core),
        log_start=core.log_view.log_start,
        diverging=diverging,
        snapshot=snapshot,
        read=read,
    )


def release(core: Core, role: Leader, now: Now) -> None:
    """Answer the parked fetches that have something to hear."""
    if not role.parked:
        return
    parked, role.parked = role.parked, []
    end, high_watermark = core.log_view.end_offset, leadership.published_high_watermark(core)
    for fetch in parked:
        request = fetch.request
        if request.offset < end:
            read = ReadLog(request.offset, request.max_bytes, end)
            core.reply(fetch.token, _answer(core, ErrorCode.NONE, read=read))
        elif (
            fetch.seen != high_watermark
            or request.high_watermark < high_watermark
            or fetch.deadline <= now.mono
        ):
            core.reply(fetch.token, _answer(core, ErrorCode.NONE))
        else:
            role.parked.append(fetch)


def on_fetch_snapshot(core: Core, token: object, request: FetchSnapshotRequest, now: Now) -> None:
    """FetchSnapshot: a piece of a stored snapshot.  It shows that the follower is alive, not what it has."""

    def answer(error: ErrorCode, size: int = 0, read: ReadSnapshot | None = None) -> None:
        said = FetchSnapshotResponse(
            error,
            **core.leader_hint(),
            snapshot=request.snapshot,
            size=size,
            position=request.position,
            read=read,
        )
        core.reply(token, said)

    if request.cluster_id is not None and request.cluster_id != core.config.cluster_id:
        return answer(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if error := leader_error(core, request.epoch):
        return answer(error)
    role = core.role
    assert isinstance(role, Leader)
    size = core.log_view.snapshot_size(request.snapshot)
    if size is None:
        return answer(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= request.position < size:
        return answer(ErrorCode.POSITION_OUT_OF_RANGE)
    leadership.progress_of(core, role, request.replica).heard(now)
    leadership.heard(core, role, request.replica, now)
    return answer(ErrorCode.NONE, size, ReadSnapshot(request.snapshot, request.position, request.max_bytes))
