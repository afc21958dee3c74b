"""Following: fetch from the leader, truncate what it does not have, append what it has, fetch again.

A Fetch tells the leader "I have everything before this offset", so it leaves only when that is on disk, unless
nobody counts it (a broker's).  A node that knows no leader, or whose leader does not answer, asks a bootstrap
server.
"""

from __future__ import annotations

from math import inf

from barnabas.errors import ErrorCode
from barnabas.model import NO_OFFSET, Endpoint, NodeId, Now, Offset
from barnabas.raft import election
from barnabas.raft.answers import FIRST_SERVER
from barnabas.raft.core import Core
from barnabas.raft.effects import InstallSnapshot, Send, WriteSnapshot
from barnabas.raft.entries import SnapshotId
from barnabas.raft.identity import first_look, origin
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    SnapshotInstalled,
    SnapshotRejected,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from barnabas.raft.roles import Cause, Download, Follower, Unattached

__all__ = [
    "deadline",
    "discover",
    "drive",
    "leader_reset",
    "on_fetch_response",
    "on_snapshot_installed",
    "on_snapshot_rejected",
    "on_snapshot_response",
]


MOST_REJECTED = 5
"""Downloads in a row that cannot be read, after which an operator must look."""
MEMBERSHIP_LANE = 1
"""Requests about membership travel in this lane."""


# ------------------------------------------------------------------ asking


def drive(core: Core, role: Follower, now: Now) -> None:
    """Stand for election when the leader is silent too long, else ask it for more."""
    if core.may_stand and role.deadline <= now.mono and not core.installing:
        election.stand_perhaps(core, Cause.FETCH_TIMEOUT, now)
        return
    if role.rejoin_at <= now.mono and core.peers.ready(role.leader_id, now.mono, MEMBERSHIP_LANE):
        _ask_for_membership(core, role, now)
    if core.installing or _fetching(core) or now.mono < core.snapshot_after:
        return
    core.snapshot_after = 0.0
    target = _target(core, role, now)
    if target is None:
        return
    node_id, endpoint = target
    if not _has_what_it_says(core):
        return
    if role.download is not None and node_id == role.leader_id:
        position = role.download.position
        _send(core, node_id, endpoint, _snapshot_request(core, role.download, position), now)
    else:
        _send(core, node_id, endpoint, _fetch_request(core), now)


def deadline(core: Core, role: Follower) -> float:
    """The fetch timeout, for a voter.  (Membership requests go out when something else happens.)"""
    silent = role.deadline if core.may_stand and not core.installing else inf
    return min(silent, core.snapshot_after or inf)


def discover(core: Core, role: Unattached, now: Now) -> None:
    """No leader is known: ask a bootstrap server for it, with a Fetch that names what we have."""
    if core.first_look is not None and first_look.drive(core, _fetch_request(core), now):
        role.deadline = core.first_look.deadline
        return
    if core.installing or core.is_sole_voter or _fetching(core) or not _has_what_it_says(core):
        return
    target = _bootstrap_target(core, now)
    if target is not None:
        _send(core, *target, _fetch_request(core), now)


def _fetching(core: Core) -> bool:
    return core.peers.pending(FetchRequest, FetchSnapshotRequest)


def _has_what_it_says(core: Core) -> bool:
    """Return whether everything that a fetch would say this node has is on disk, where it must be.

    That holds for one to a bootstrap server, too: it may lead this node's epoch, and then counts it.
    """
    if not core.voters.syncs_first(core.key, can_vote=core.config.can_vote):
        return True
    return core.log_view.persisted >= core.log_view.end_offset


def _send(core: Core, node_id: NodeId, endpoint: Endpoint | None, request: Request, now: Now) -> None:
    core.send(Send(core.peers.begin(node_id, request, now.mono), node_id, endpoint, request))


def _fetch_request(core: Core) -> FetchRequest:
    high_watermark = NO_OFFSET if core.high_watermark is None else core.high_watermark
    return FetchRequest(
        core.epoch,
        core.key,
        core.log_view.end_offset,
        core.log_view.last_epoch,
        high_watermark,
        core.config.fetch_max_wait,
        core.config.fetch_max_bytes,
        core.config.cluster_id,
        core.config.can_vote,
    )


def _snapshot_request(core: Core, download: Download, position: int) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        core.epoch,
        core.key,
        download.snapshot,
        position,
        core.config.snapshot_max_bytes,
        core.config.cluster_id,
    )


def _target(core: Core, role: Follower, now: Now) -> tuple[NodeId, Endpoint | None] | None:
    """The leader; while it does not answer, a bootstrap server."""
    leader = role.leader_id, _leader_address(core, role)
    if not core.peers.failing(role.leader_id):
        return leader if core.peers.ready(role.leader_id, now.mono) else None
    other = _bootstrap_target(core, now)
    if other is not None:
        return other
    return leader if core.peers.ready(role.leader_id, now.mono) else None


def _leader_address(core: Core, role: Follower) -> Endpoint | None:
    for endpoint in role.endpoints:
        if endpoint.listener == core.config.listener:
            return endpoint
    return role.endpoints[0]


def _bootstrap_target(core: Core, now: Now) -> tuple[NodeId, Endpoint | None] | None:
    servers: list[tuple[NodeId, Endpoint | None]] = [
        (FIRST_SERVER - index, endpoint) for index, endpoint in enumerate(core.config.bootstrap)
    ]
    servers += [(i, core.whereabouts(i)) for i in core.voters.ids if i != core.key.id]
    servers += [
        (i, contact.endpoint(core.config.listener))
        for i, contact in core.peers.book.others()
        if i != core.key.id and i not in core.voters.ids
    ]
    ready = [server for server in servers if core.peers.ready(server[0], now.mono)]
    return ready[core.random.integer(0, len(ready) - 1)] if ready else None


def _ask_for_membership(core: Core, role: Follower, now: Now) -> None:
    role.rejoin_at = now.mono + core.config.fetch_timeout
    request = _membership_request(core, role)
    if request is not None:
        timeout = 2 * core.config.request_timeout  # the leader may let it wait for one
        correlation = core.peers.begin(role.leader_id, request, now.mono, MEMBERSHIP_LANE, timeout)
        core.send(Send(correlation, role.leader_id, _leader_address(core, role), request))


def _membership_request(core: Core, role: Follower) -> Request | None:
    """The change of its own entry in the voter set that this node asks for, if any.

    A voter whose entry is out of date asks for an update (at kraft.version 0 the leader keeps it in
    memory only, so it is told again with every new leader).  A controller that is no voter asks to be
    let in when it may join by itself; its old disk's entry must go first.
    """
    if not core.config.can_vote:
        return None
    config, entry, version = core.config, core.voters.get(core.key.id), core.log_view.kraft_version
    if core.is_voter:
        known = entry == core.own_voter if version >= 1 else role.reported
        if known or not core.endpoints:
            return None
        return UpdateVoterRequest(core.epoch, core.key, core.endpoints, config.versions, config.cluster_id)
    if not config.auto_join or version < 1 or not core.endpoints:
        return None
    if entry is not None:
        return RemoveVoterRequest(entry.key, config.cluster_id)
    return AddVoterRequest(core.key, core.endpoints, config.request_timeout, False, config.cluster_id)


# ------------------------------------------------------------------ hearing


def on_fetch_response(core: Core, node_id: NodeId, response: FetchResponse, now: Now) -> None:
    """Records, a divergence, a snapshot to load, or only the present leader."""
    role = core.role
    proceed = election.find_leader(core, response, now)
    role = core.role
    if isinstance(role, Follower) and node_id != role.leader_id:
        core.peers.fine(role.leader_id)
    if not proceed or not isinstance(role, Follower) or response.leader_id != role.leader_id:
        if node_id < 0 or response.error is not ErrorCode.NONE:
            core.peers.back_off(node_id, now.mono)
        return
    if response.error is not ErrorCode.NONE:
        core.peers.back_off(node_id, now.mono)
        return
    _leader_lives(core, role, now)
    election.moved(core, role.leader_id, response.endpoints)
    if response.diverging is not None:
        _cut(core, role, core.log_view.divergence(response.diverging), now)
    elif response.snapshot is not None:
        _begin_download(core, role, response.snapshot, now)
    else:
        _append(core, response)
        if core.high_watermark:
            origin.adopt(core, response.origin)


def _cut(core: Core, role: Follower, end_offset: Offset, now: Now) -> None:
    """Cut what the leader lacks, from `end_offset` on, unless it is known to be committed."""
    if end_offset >= core.committed:
        core.truncate(end_offset)
        return
    why = f"its log ends or differs at {end_offset}, and everything below {core.committed} is committed here"
    origin.refuse_leader(core, role.leader_id, why, now)


def _leader_lives(core: Core, role: Follower, now: Now) -> None:
    if not role.leader_ended:
        role.deadline = now.mono + core.config.fetch_timeout
        role.has_fetched, role.leader_lost = True, False


def _append(core: Core, response: FetchResponse) -> None:
    """Append the batches that fit; one that does not is fetched again."""
    good = []
    end, last_epoch = core.log_view.end_offset, core.log_view.last_epoch
    for batch in response.batches:
        if batch.base_offset != end or not last_epoch <= batch.epoch <= core.epoch:
            core.emit("raft.batch.refused", batch=str(batch), epoch=batch.epoch, end_offset=end)
            break
        good.append(batch)
        end, last_epoch = batch.end_offset, batch.epoch
    core.append_batches(good)
    if response.high_watermark >= 0:
        core.commit(min(core.log_view.end_offset, response.high_watermark))


def leader_reset(core: Core, role: Follower, now: Now) -> None:
    """The leader's connection was reset: give it a moment to come back instead of the fetch timeout.

    From now on this node gives its pre-vote to others, too: when the leader is really gone, a majority
    has seen the reset and elects at once; when only our connection broke, the others still refuse.
    """
    role.leader_lost, role.has_fetched = True, False
    grace = core.config.reset_grace + core.random.uniform(0.0, core.config.election_timeout / 2)
    role.deadline = min(role.deadline, now.mono + grace)


# ------------------------------------------------------------------ snapshots


def _begin_download(core: Core, role: Follower, snapshot: SnapshotId, now: Now) -> None:
    if snapshot.end_offset < core.committed:
        why = f"it offers snapshot {snapshot}, and everything below {core.committed} is committed here"
        origin.refuse_leader(core, role.leader_id, why, now)
        return
    core.emit("raft.snapshot.download", snapshot=str(snapshot), leader=role.leader_id)
    role.download = Download(snapshot)


def on_snapshot_response(core: Core, node_id: NodeId, response: FetchSnapshotResponse, now: Now) -> None:
    """A piece of the snapshot: written after the last one; the last piece installs it."""
    if not election.find_leader(core, response, now):
        return
    role = core.role
    if not isinstance(role, Follower) or role.download is None or node_id != role.leader_id:
        return
    download = role.download
    wrong = response.snapshot != download.snapshot or response.position != download.position
    if response.error is not ErrorCode.NONE or wrong or response.length <= 0:
        core.emit("raft.snapshot.dropped", snapshot=str(download.snapshot), error=response.error.name)
        role.download = None
        core.peers.back_off(node_id, now.mono)
        return
    _leader_lives(core, role, now)
    core.do(WriteSnapshot(download.snapshot, download.position, response.data))
    download.position += response.length
    download.size = response.size
    if download.position >= response.size:
        core.installing = download.snapshot
        core.do(InstallSnapshot(download.snapshot, response.size))


def on_snapshot_installed(core: Core, message: SnapshotInstalled) -> None:
    """The log begins anew after the snapshot; everything in it is committed."""
    voters, version, lacked = core.voters, core.log_view.kraft_version, core.lacks
    core.log_view.install(message.snapshot, message.size, message.entries)
    core.installing = None
    core.snapshots_rejected = 0
    if isinstance(core.role, Follower):
        core.role.download = None
    core.report_changes(voters, version, lacked)
    core.commit(message.snapshot.end_offset)


def on_snapshot_rejected(core: Core, message: SnapshotRejected, now: Now) -> None:
    """What was downloaded cannot be read: ask again, each time a little later, and never give up.

    (The leader looks at its file before it sends the first piece; it writes a new one if that is bad.)
    """
    core.installing = None
    core.snapshots_rejected += 1
    tries = core.snapshots_rejected
    pause = min(core.config.fetch_timeout / 2, core.config.retry_backoff * 2.0 ** min(tries, 10))
    core.snapshot_after = now.mono + pause
    if isinstance(core.role, Follower):
        core.role.download = None
    name = "raft.snapshot.rejected" if tries < MOST_REJECTED else "raft.snapshot.unreadable"
    core.emit(name, snapshot=str(message.snapshot), leader=core.leader_id, tries=tries, why=message.reason)


# ------------------------------------------------------------------ requests about membership


def on_update_response(core: Core, node_id: NodeId, response: UpdateVoterResponse, now: Now) -> None:
    """The leader took our update, or refused it; a refusal is tried again after the fetch timeout."""
    if not election.find_leader(core, response, now):
        return
    role = core.role
    if isinstance(role, Follower) and response.error is ErrorCode.NONE and node_id == role.leader_id:
        role.reported = True
        _leader_lives(core, role, now)


def on_join_response(core: Core, response: ChangeResponse) -> None:
    if response.error is not ErrorCode.NONE:
        core.emit("raft.join.waits", error=response.error.name, why=response.message or "")
