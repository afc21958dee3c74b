"""Origins: how a node tells two quorums with one cluster id apart.

An operator who formats a known node with `--standalone`, with the id of a live cluster, makes it a second
quorum.  Each of the two would accept the other's leader, and take the other's log for a longer one of its own.
Voter sets cannot tell them apart: KIP-853 allows a leader outside its followers' set, a follower with a stale
set, and a voter that is back with another directory id.  Two things can:

* The *origin* of a quorum is a digest of the replicas in its first voter set.  It never changes, and no two
  quorums have the same, because directory ids are random.  A node knows it once that set is committed in its own
  log.  A node that joins later gets it from the leader that it follows, when something is committed.  A node
  that votes alone knows it from the start.  `quorum-state` keeps it, and every request and answer between our
  nodes carries it, also what brokers ask of the active controller (`server.kraft.controller_channel`).  A node
  that names another origin is a *stranger*, and our nodes ignore what it says.
* What is committed is never undone.  A leader is a stranger if it would make this node truncate its log, or
  replace it with a snapshot, below what this node knows to be committed; so is a second leader in one epoch.
  This also protects against nodes that name no origin (Apache Kafka's).

A stranger is reported once, and counted.  It never stops this node, and this node never follows it.
"""

from __future__ import annotations

from hashlib import sha256
from math import inf

from barnabas.model import NO_NODE, ZERO_UUID, Endpoint, Epoch, NodeId, Now, Uuid
from barnabas.raft.core import Core
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from barnabas.raft.roles import Cause, Follower, Unattached
from barnabas.raft.voters import VoterSet

__all__ = ["adopt", "conflict", "is_stranger", "learn", "origin_of", "refuse_leader", "speaker"]

MOST_STRANGERS = 1000
"""So many strangers are reported by name; more are only counted."""


def origin_of(voters: VoterSet) -> Uuid:
    """The origin of the quorum that began with these voters; none (zero) where their disks have no ids."""
    if not voters or any(key.directory_id == ZERO_UUID for key in voters.keys):
        return ZERO_UUID
    return Uuid(sha256(" ".join(map(str, voters.keys)).encode()).digest()[:16])


# ------------------------------------------------------------------ which one is ours


def learn(core: Core) -> None:
    """Learn the origin from our own log, once its first voter set is committed."""
    first = core.log_view.first_voters
    if first is not None and first[0] < (core.high_watermark or 0):
        adopt(core, origin_of(first[1]))


def adopt(core: Core, said: Uuid) -> None:
    """Take over this origin for good, if none is known yet."""
    if core.origin == ZERO_UUID and said != ZERO_UUID:
        core.origin = said
        core.save_election()


# ------------------------------------------------------------------ nodes of another quorum


def is_stranger(core: Core, said: object) -> bool:
    """Whether the sender of this (any message with an `origin`) belongs to another quorum than this node."""
    theirs: Uuid = getattr(said, "origin", ZERO_UUID)
    return theirs != core.origin and ZERO_UUID not in (theirs, core.origin)


def speaker(request: Request) -> NodeId:
    """The sender of a request, where it is named."""
    if isinstance(request, VoteRequest):
        return request.candidate.id
    if isinstance(request, (BeginQuorumEpochRequest, EndQuorumEpochRequest)):
        return request.leader_id
    if isinstance(request, (FetchRequest, FetchSnapshotRequest)):
        return request.replica.id
    return NO_NODE


def notice(core: Core, who: NodeId | Endpoint | None, why: str) -> None:
    """Count a stranger; report it once for each node (or each place, where only that is known)."""
    core.strangers += 1
    where = f"{who.host}:{who.port}" if isinstance(who, Endpoint) else f"node {who}"
    if where not in core.strange and len(core.strange) < MOST_STRANGERS:
        core.strange[where] = None
        core.emit("raft.stranger", who=where, why=why)


# ------------------------------------------------------------------ by what it leads


def refuse_leader(core: Core, leader_id: NodeId, why: str, now: Now) -> None:
    """Stop following, for this epoch, a leader that contradicts what is committed here."""
    notice(core, leader_id, why)
    core.refused_leader = core.epoch, leader_id
    role = core.role
    if isinstance(role, Follower) and role.leader_id == leader_id:
        deadline = now.mono + core.random_election_timeout() if core.may_stand else inf
        core.become(Unattached(deadline, None, role.voted), core.epoch, Cause.STRANGER, now)


def conflict(core: Core, epoch: Epoch, leader_id: NodeId, known: NodeId | None) -> bool:
    """Whether this node cannot lead this epoch: another does, or what it leads contradicts our log."""
    if (epoch, leader_id) == core.refused_leader:
        core.strangers += 1
        return True
    if epoch != core.epoch or known is None or known == leader_id:
        return False
    notice(core, leader_id, f"it leads epoch {epoch}, and so does node {known}")
    return True
