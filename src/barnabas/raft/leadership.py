"""Leading: the first batch of an epoch, the high watermark, and handing the leadership over.

A leader counts only what is on stable storage, its own end included.  (Apache Kafka counts its own unsynced
end.  Ours is hardly slower, and survives a power cut of all nodes at once.)
"""

from __future__ import annotations

from math import inf

from barnabas.model import NO_OFFSET, ZERO_UUID, Now, Offset, ReplicaKey
from barnabas.raft import answers
from barnabas.raft.core import Core
from barnabas.raft.effects import LeaderChanged, Send
from barnabas.raft.entries import Entry, KraftVersionEntry, LeaderChange, VotersEntry
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.raft.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest
from barnabas.raft.progress import Progress
from barnabas.raft.roles import Candidate, Cause, Leader, Resigned, Unattached
from barnabas.raft.voters import VoterSet

__all__ = [
    "alive",
    "append",
    "begin",
    "committed_in_this_epoch",
    "counts",
    "drive",
    "drive_resigned",
    "hear_role",
    "heard",
    "note",
    "progress_of",
    "published_high_watermark",
    "resign",
    "resign_when_removed",
    "silent_for",
]


# ------------------------------------------------------------------ the beginning


def begin(core: Core, candidate: Candidate, now: Now) -> None:
    """A majority voted for us: open the epoch with one batch of control entries.

    It tells the voter set again when that stands only in the local bootstrap snapshot (nobody else could
    learn it), or when our own entry in it is out of date: the one change a leader may make before it has
    committed anything, for it changes no key.
    """
    granting = tuple(i for i in core.voters.ids if candidate.answers.get(i, False))
    start = core.log_view.end_offset
    role = Leader(start, now.mono + core.config.check_quorum_timeout, granting, now.mono)
    core.become(role, core.epoch, Cause.VOTE_WON, now)
    rebuild(core, role)
    entries: list[Entry] = [LeaderChange(core.key.id, core.voters.ids, granting)]
    if core.log_view.kraft_version >= 1:
        voters = core.voters
        own = voters.get(core.key.id)
        outdated = own is not None and own.key == core.key and own != core.own_voter and bool(core.endpoints)
        if core.log_view.voter_sets.latest_offset == -1 or outdated:
            voters = voters.replacing(core.own_voter) if outdated else voters
            entries += [KraftVersionEntry(core.log_view.kraft_version), VotersEntry(voters)]
    append(core, role, tuple(entries))


def append(core: Core, role: Leader, entries: tuple[Entry, ...]) -> Offset:
    """Append one batch, and count by the set that is then in force.  Returns its first offset."""
    before = core.voters
    batch = core.append(entries)
    if core.voters is not before:
        rebuild(core, role)
    return batch.base_offset


def note(core: Core, role: Leader, change: ChangeNoted) -> None:
    """Append the line of the history about a change, right behind the change's own record.

    Where that is truncated, so is the line; and a leader that removes itself leads until the line is committed.
    """
    if committed_in_this_epoch(core) and (lines := core.config.historian(change)):
        append(core, role, lines)
        role.noted = core.log_view.end_offset


def rebuild(core: Core, role: Leader) -> None:
    """Count by the new set: new voters keep what we know of them, removed ones become observers."""
    voters: dict[ReplicaKey, Progress] = {}
    for voter in core.voters:
        if voter.key.id == core.key.id:
            continue
        progress = role.voters.pop(voter.key, None) or role.observers.pop(voter.key, None)
        voters[voter.key] = progress or Progress()
        # What it was at kraft.version 0, before its disk had a name: nobody any more.
        role.voters.pop(ReplicaKey(voter.key.id, ZERO_UUID), None)
    role.observers.update(role.voters)
    role.voters = voters
    role.heard = dict.fromkeys(key for key in role.heard if core.voters.has(key))


# ------------------------------------------------------------------ what the others have


def progress_of(core: Core, role: Leader, replica: ReplicaKey) -> Progress:
    """The progress of this replica, made when it is new."""
    entry = core.voters.entry(replica)
    if entry is None:
        return role.observers.setdefault(replica, Progress())
    return role.voters.setdefault(entry.key, Progress())


def hear_role(core: Core, progress: Progress, replica: ReplicaKey, can_vote: bool) -> None:
    """Note whether the node of a replica has the controller role; an event says so where a voter lost it.

    A late request of its time with the role must not make count what it fetched without: after a change its
    end is unknown until it fetches anew.
    """
    lost = progress.can_vote and not can_vote
    if progress.can_vote != can_vote:
        progress.can_vote, progress.end_offset = can_vote, None
    if lost and core.voters.has(replica):
        core.emit("raft.voter.without-role", voter=replica)


def counts(core: Core, role: Leader, voters: VoterSet, key: ReplicaKey) -> bool:
    """Return whether a replica does a voter's work in this set, in force or to be, as far as the leader knows."""
    if core.is_own(key):
        return voters.counts(key, can_vote=core.config.can_vote)
    entry = voters.entry(key)
    progress = None if entry is None else role.known(entry.key)
    return voters.counts(key, can_vote=progress is None or progress.can_vote)


def alive(core: Core, role: Leader, voters: VoterSet, now: Now) -> list[ReplicaKey]:
    """Return the replicas that count in this set and were heard from within the fetch timeout."""
    return [
        key
        for key in voters.keys
        if counts(core, role, voters, key) and silent_for(core, role, key, now) <= core.config.fetch_timeout
    ]


def silent_for(core: Core, role: Leader, key: ReplicaKey, now: Now) -> float:
    """Return the seconds since a replica that could vote was heard of; inf: never, 0: it is this leader."""
    if core.is_own(key):
        return 0.0
    progress = role.known(key)
    return now.mono - (-inf if progress is None or progress.last_able is None else progress.last_able)


def heard(core: Core, role: Leader, replica: ReplicaKey, now: Now) -> None:
    """A replica showed that it follows us (Fetch, FetchSnapshot, UpdateRaftVoter)."""
    answers.heard_from(core, replica)
    entry = core.voters.entry(replica)
    if entry is None or not counts(core, role, core.voters, replica):
        return
    role.heard[entry.key] = None
    if len(role.heard) >= _needed(core):
        role.heard.clear()
        role.quorum_deadline = now.mono + core.config.check_quorum_timeout


def _needed(core: Core) -> int:
    """How many other voters make a majority with us (or without us, when we are no voter)."""
    return core.voters.majority - (1 if core.voters.has(core.key) else 0)


# ------------------------------------------------------------------ the high watermark


def committed_in_this_epoch(core: Core) -> bool:
    """Whether something of this leader's own epoch is committed (and so everything before it)."""
    role = core.role
    return isinstance(role, Leader) and (core.high_watermark or 0) > role.epoch_start


def published_high_watermark(core: Core) -> Offset:
    """The high watermark that a leader tells others: none before it has committed in its own epoch."""
    if committed_in_this_epoch(core) and core.high_watermark is not None:
        return core.high_watermark
    return NO_OFFSET


def _advance(core: Core, role: Leader) -> None:
    """Move the high watermark: held by a majority of the set in force, past the start of the epoch."""
    if core.unsaved or not core.voters:
        return
    ends: list[Offset] = []
    for voter in core.voters:
        end: Offset | None = None
        if counts(core, role, core.voters, voter.key):
            own = core.is_own(voter.key)
            end = core.log_view.persisted if own else role.voters[voter.key].end_offset
        ends.append(NO_OFFSET if end is None else end)
    ends.sort(reverse=True)
    held = ends[len(ends) // 2]
    if held > role.epoch_start and core.commit(held) and not role.announced:
        role.announced = True
        core.do(LeaderChanged(core.epoch, core.key.id, core.endpoints))


# ------------------------------------------------------------------ in the course of leading


def drive(core: Core, role: Leader, now: Now) -> None:
    """Advance the high watermark, check the quorum, tell silent voters that we lead."""
    _advance(core, role)
    if _needed(core) <= 0:
        role.quorum_deadline = now.mono + core.config.check_quorum_timeout
    elif role.quorum_deadline <= now.mono:
        resign(core, role, Cause.QUORUM_LOST, now)
        return
    if role.begin_at <= now.mono:
        _tell_silent_voters(core, role, now)


def resign_when_removed(core: Core, role: Leader, now: Now) -> None:
    """Step down once the set without us is committed, and what the history says of it.

    Its requester has the answer by then.
    """
    offset, high_watermark = core.log_view.voter_sets.latest_offset, published_high_watermark(core)
    committed = offset is not None and offset < high_watermark and role.noted <= high_watermark
    if committed and not core.voters.has(core.key):
        resign(core, role, Cause.REMOVED, now)


def deadline(core: Core, role: Leader) -> float:
    quorum = role.quorum_deadline if _needed(core) > 0 else inf
    begin_at = role.begin_at if role.voters else inf
    return min(quorum, begin_at, min((fetch.deadline for fetch in role.parked), default=inf))


def _tell_silent_voters(core: Core, role: Leader, now: Now) -> None:
    interval = core.config.begin_epoch_interval
    role.begin_at = now.mono + interval
    oldest = now.mono - core.config.observer_expiry
    for gone in [key for key, seen in role.observers.items() if (seen.last_fetch or inf) < oldest]:
        del role.observers[gone]
    for key, progress in role.voters.items():
        silent = progress.last_fetch is None or now.mono - progress.last_fetch >= interval
        if silent and core.peers.ready(key.id, now.mono):
            request = BeginQuorumEpochRequest(
                core.epoch, core.key.id, core.endpoints, key, core.config.cluster_id
            )
            correlation = core.peers.begin(key.id, request, now.mono)
            core.send(Send(correlation, key.id, core.reach(key.id), request))


# ------------------------------------------------------------------ the end


def resign(core: Core, role: Leader, cause: Cause, now: Now, *, first: ReplicaKey | None = None) -> None:
    """Stop leading; `first`, then the most up-to-date followers should stand."""
    successors = successors_of(core.voters, role, core.key)
    if first is not None:
        successors = (first, *(key for key in successors if key != first))
    waiting = dict.fromkeys(key.id for key in successors)
    timeout = now.mono + core.random_election_timeout()
    on_purpose = cause is not Cause.QUORUM_LOST
    core.become(Resigned(timeout, successors, waiting, on_purpose), core.epoch, cause, now)


def successors_of(voters: VoterSet, role: Leader, own: ReplicaKey) -> tuple[ReplicaKey, ...]:
    """Return the other voters, the one with the longest log first; who cannot vote cannot lead, and goes last."""

    def by_end(key: ReplicaKey) -> tuple[bool, Offset, ReplicaKey]:
        progress = role.voters.get(key) or Progress()
        end = NO_OFFSET if progress.end_offset is None else progress.end_offset
        return not progress.can_vote, -end, key

    return tuple(sorted((key for key in voters.keys if key.id != own.id), key=by_end))


def drive_resigned(core: Core, role: Resigned, now: Now) -> None:
    """Tell the others until they know, or until the time is up; then open the next epoch."""
    if (role.deadline <= now.mono or core.is_sole_voter) and core.shutdown_deadline is None:
        patience = core.random_election_timeout() if role.handing_over and not core.is_sole_voter else 0.0
        deadline = now.mono + patience if core.may_stand else inf
        core.become(Unattached(deadline), core.epoch + 1, Cause.NEXT_EPOCH, now)
        return
    for node_id in role.waiting_for:
        if core.peers.ready(node_id, now.mono):
            request = EndQuorumEpochRequest(
                core.epoch, core.key.id, role.successors, core.endpoints, core.config.cluster_id
            )
            correlation = core.peers.begin(node_id, request, now.mono)
            core.send(Send(correlation, node_id, core.whereabouts(node_id), request))
