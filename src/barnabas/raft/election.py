"""Elections: which node may vote for which, when a node stands, and what a leader sends when it starts or ends.

A node always asks first without obligation (prospective).  If a majority would vote for it, it opens a new
epoch and stands (candidate).  A vote depends only on log, epoch and addressee.  It does not matter whether
the candidate or the addressee is a voter in our own log, because our log may be out of date (KIP-853).
"""

from __future__ import annotations

from math import inf

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, ZERO_UUID, Endpoint, Epoch, NodeId, Now, ReplicaKey
from barnabas.raft import answers, leadership
from barnabas.raft.core import Core
from barnabas.raft.effects import LeaderChanged, Send
from barnabas.raft.entries import ElectionState
from barnabas.raft.identity import first_look
from barnabas.raft.identity.origin import conflict, origin_of
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    QuorumResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.roles import Candidate, Cause, Follower, Leader, Prospective, Resigned, Role, Unattached

__all__ = [
    "drive",
    "find_leader",
    "learn",
    "on_begin",
    "on_end",
    "on_vote",
    "on_vote_response",
    "refuse_stale",
    "stand_perhaps",
    "start",
]


# ------------------------------------------------------------------ the start of a node


def start(core: Core, saved: ElectionState | None, now: Now) -> None:
    """Take up the role that the saved election state and the log allow.

    Where that state is older than a vote which was perhaps given, there is none in its epoch any more.

    A former leader resigns in its old epoch: it may have lost entries that it never synced, and must
    not use the same (epoch, offset) again for others.
    """
    state = saved or ElectionState()
    core.superseded = state.generation
    core.origin = state.origin
    alone = core.is_sole_voter and core.log_view.voter_sets.latest_offset == -1  # by its bootstrap snapshot
    if core.origin == ZERO_UUID and alone:
        core.origin = origin_of(core.voters)
    snapshot = core.log_view.latest_snapshot
    if snapshot is not None and snapshot.end_offset > 0:
        core.commit(snapshot.end_offset)
    timeout = now.mono + core.random_election_timeout() if core.may_stand else inf
    role: Role
    log_view = core.log_view
    epoch = max(state.epoch, log_view.last_epoch, log_view.abstains_to)
    leader = None if state.leader_id == NO_NODE else state.leader_id
    if log_view.lacks:
        was, alone = log_view.synced_end, core.is_sole_voter
        core.emit("raft.log.lacks", end_offset=log_view.end_offset, was=was.end_offset, alone=alone)
    if epoch > state.epoch or log_view.abstains_to:
        core.emit("raft.election-state.old", saved=state.epoch, known=epoch)
        role = Unattached(timeout)
    elif leader == core.key.id:
        others = dict.fromkeys(i for i in core.voters.ids if i != core.key.id)
        role = Resigned(now.mono + core.random_election_timeout(), (), others)
    elif state.voted is not None and _same(state.voted, core.key) and core.may_stand:
        role = Candidate(timeout, {core.key.id: True})
    elif leader is not None and core.endpoints_of(leader) and not core.is_sole_voter:
        fetch_timeout = now.mono + core.config.fetch_timeout
        role = Follower(
            leader, core.endpoints_of(leader), fetch_timeout, state.voted, rejoin_at=fetch_timeout
        )
    else:
        role = Unattached(timeout, leader, state.voted)
    core.become(role, epoch, Cause.START, now)
    first_look.begin(core, now)


def _same(stored: ReplicaKey, key: ReplicaKey) -> bool:
    """Whether a stored vote (its directory may be unknown) is for this replica."""
    return stored.id == key.id and stored.directory_id in (ZERO_UUID, key.directory_id)


# ------------------------------------------------------------------ learning epochs and leaders


def learn(core: Core, epoch: Epoch, leader_id: NodeId, endpoints: tuple[Endpoint, ...], now: Now) -> None:
    """Learn of an epoch (not below ours) and perhaps of its leader (or NO_NODE)."""
    if leader_id == core.key.id:
        # Only our own id is named, not our disk: a replica under this id led, perhaps on the old disk.
        leader_id = NO_NODE
    role = core.role
    known = core.key.id if isinstance(role, Resigned) else core.leader_id
    if leader_id != NO_NODE and conflict(core, epoch, leader_id, known):
        leader_id = NO_NODE
    endpoints = endpoints or core.endpoints_of(leader_id)
    if epoch > core.epoch:
        if leader_id != NO_NODE and endpoints:
            _follow(core, epoch, leader_id, endpoints, Cause.LEADER_FOUND, now)
        else:
            leader = None if leader_id == NO_NODE else leader_id
            core.become(Unattached(_remaining(core, now), leader), epoch, Cause.HIGHER_EPOCH, now)
    elif leader_id != NO_NODE and endpoints:
        if core.leader_id is None or isinstance(role, Unattached):
            _follow(core, epoch, leader_id, endpoints, Cause.LEADER_FOUND, now)
        elif isinstance(role, Follower) and len(endpoints) > len(role.endpoints):
            _follow(core, epoch, leader_id, endpoints, Cause.MORE_ENDPOINTS, now)


def _follow(
    core: Core, epoch: Epoch, leader_id: NodeId, endpoints: tuple[Endpoint, ...], cause: Cause, now: Now
) -> None:
    old = core.role
    voted = None
    if epoch == core.epoch and isinstance(old, (Unattached, Prospective, Follower)):
        voted = old.voted
    if epoch == core.epoch and isinstance(old, Candidate):
        voted = core.key
    role = Follower(leader_id, endpoints, now.mono + core.config.fetch_timeout, voted)
    if isinstance(old, Follower) and cause is Cause.MORE_ENDPOINTS:
        role.deadline, role.has_fetched, role.download = old.deadline, old.has_fetched, old.download
    role.rejoin_at = now.mono + core.config.fetch_timeout
    core.become(role, epoch, cause, now)


def _remaining(core: Core, now: Now) -> float:
    """The election timer of a node that becomes unattached: what is left of it, or a fresh one."""
    if not core.may_stand:
        return inf
    role = core.role
    undecided = isinstance(role, Prospective) and role.leader_id is None
    if not isinstance(role, (Leader, Follower)) and (undecided or not isinstance(role, Prospective)):
        if role.deadline < inf:
            return role.deadline
    return now.mono + core.random_election_timeout()


def find_leader(core: Core, response: QuorumResponse, now: Now) -> bool:
    """Learn epoch and leader from a response.  Returns whether its own contents still count."""
    if response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return True  # epoch and leader are of another cluster
    if response.epoch < core.epoch or response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        return False
    if response.epoch > core.epoch:
        learn(core, response.epoch, response.leader_id, response.endpoints, now)
        return False
    learn(core, response.epoch, response.leader_id, response.endpoints, now)
    return response.error not in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


# ------------------------------------------------------------------ giving votes


def refuse_stale(
    core: Core, token: object, request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> None:
    """Reject a request from a superseded quorum generation; ignore its contents."""
    error, hint = ErrorCode.FENCED_LEADER_EPOCH, core.leader_hint()
    if isinstance(request, VoteRequest):
        core.reply(token, VoteResponse(error, **hint))
    elif isinstance(request, BeginQuorumEpochRequest):
        core.reply(token, BeginQuorumEpochResponse(error, **hint))
    else:
        core.reply(token, EndQuorumEpochResponse(error, **hint))


def on_vote(core: Core, token: object, request: VoteRequest, now: Now) -> None:
    """Vote: check the request in Kafka's order, then ask whether this role gives its vote."""

    def answer(error: ErrorCode, granted: bool = False) -> None:
        core.reply(token, VoteResponse(error, granted=granted, **core.leader_hint()))

    if request.cluster_id is not None and request.cluster_id != core.config.cluster_id:
        return answer(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if not core.believes(request.epoch):
        return answer(ErrorCode.INVALID_REQUEST)
    illegal_epoch = (
        request.last_epoch > request.epoch if request.pre_vote else request.last_epoch >= request.epoch
    )
    if request.last_offset < 0 or request.last_epoch < 0 or illegal_epoch or request.candidate.id < 0:
        return answer(ErrorCode.INVALID_REQUEST)
    if request.epoch < core.epoch:
        return answer(ErrorCode.FENCED_LEADER_EPOCH)
    if request.epoch > core.epoch:
        learn(core, request.epoch, NO_NODE, (), now)
    if not _addressed(core, request.voter):
        answers.another_disk(core, request)
        return answer(ErrorCode.INVALID_VOTER_KEY)
    granted = _grants(core, request, now)
    if granted and not request.pre_vote:
        _remember_vote(core, request.candidate, now)
    core.emit(
        "raft.vote",
        candidate=request.candidate.id,
        epoch=request.epoch,
        pre_vote=request.pre_vote,
        granted=granted,
    )
    return answer(ErrorCode.NONE, granted)


def _addressed(core: Core, voter: ReplicaKey | None) -> bool:
    """Whether the sender means this node with this disk (or did not say)."""
    return voter is None or voter.id < 0 or _same(voter, core.key)


def _grants(core: Core, request: VoteRequest, now: Now) -> bool:
    """Kafka's table, with one row more: a follower whose leader was silent for the fetch timeout gives its
    pre-vote too, also when it is an observer and does nothing about it itself (others may count it a voter).
    """
    role = core.role
    mine = core.log_view.vote_end
    up_to_date = (request.last_epoch, request.last_offset) >= mine
    if isinstance(role, Leader) or max(request.generation, 0) < core.superseded:  # Apache Kafka's name none
        return False
    if request.pre_vote:
        follows = isinstance(role, Follower) and role.has_fetched and role.deadline > now.mono
        return up_to_date and not follows
    if isinstance(role, (Candidate, Resigned, Follower)) or request.epoch <= core.log_view.abstains_to:
        return False
    if role.voted is not None:
        return _same(role.voted, request.candidate)
    return role.leader_id is None and up_to_date


def _remember_vote(core: Core, candidate: ReplicaKey, now: Now) -> None:
    role = core.role
    assert isinstance(role, (Unattached, Prospective))
    if role.voted is not None:
        return
    deadline = now.mono + core.random_election_timeout() if core.may_stand else inf
    voted: Role
    if isinstance(role, Unattached):
        voted = Unattached(deadline, role.leader_id, candidate)
    else:
        voted = Prospective(deadline, {core.key.id: True}, role.leader_id, role.endpoints, candidate)
    core.become(voted, core.epoch, Cause.VOTE_GRANTED, now)


# ------------------------------------------------------------------ asking for votes


def drive(core: Core, now: Now) -> None:
    """Act on the time and on answers, as a node that neither leads nor follows; ask for votes."""
    role = core.role
    if isinstance(role, Unattached):
        if not core.may_stand or core.installing:
            role.deadline = inf
            return
        if role.deadline == inf:
            role.deadline = now.mono + core.random_election_timeout()
        if core.is_sole_voter and core.first_look is None:
            stand_perhaps(core, Cause.SOLE_VOTER, now)
        elif role.deadline <= now.mono:
            stand_perhaps(core, Cause.ELECTION_TIMEOUT, now)
    elif isinstance(role, Prospective):
        _count_pre_votes(core, role, now)
    elif isinstance(role, Candidate):
        _count_votes(core, role, now)
    elif isinstance(role, Resigned):
        leadership.drive_resigned(core, role, now)


def stand_perhaps(core: Core, cause: Cause, now: Now) -> None:
    """Become prospective: the first step of every election."""
    role = core.role
    assert isinstance(role, (Unattached, Candidate, Follower))
    leader = None if isinstance(role, Candidate) else role.leader_id
    endpoints = role.endpoints if isinstance(role, Follower) else ()
    voted = core.key if isinstance(role, Candidate) else role.voted
    deadline = now.mono + core.random_election_timeout()
    gone = isinstance(role, Follower) and (role.leader_lost or role.leader_ended)
    prospective = Prospective(deadline, {core.key.id: True}, leader, endpoints, voted, gone)
    core.become(prospective, core.epoch, cause, now)


def _tally(core: Core, answers: dict[NodeId, bool]) -> tuple[int, int]:
    """Votes given, and votes still possible, among the voters of our own set."""
    granted = sum(answers.get(i, False) for i in core.voters.ids)
    possible = sum(answers.get(i, True) for i in core.voters.ids)
    return granted, possible


def _count_pre_votes(core: Core, role: Prospective, now: Now) -> None:
    granted, possible = _tally(core, role.answers)
    if not core.may_stand:
        _give_up(core, role, inf, now)
    elif granted >= core.voters.majority:
        _stand(core, Cause.PRE_VOTE_WON, now)
    elif possible < core.voters.majority:
        _give_up(core, role, now.mono + core.random_election_timeout(), now)
    elif role.deadline <= now.mono:
        _try_next_endpoints(core, role.answers)
        _give_up(core, role, now.mono, now)
    else:
        _ask(core, role.answers, True, now)


def _give_up(core: Core, role: Prospective, deadline: float, now: Now) -> None:
    """Nobody would vote for us: back to the leader we know, or wait."""
    if role.leader_id is not None and role.endpoints:
        timeout = now.mono + core.config.fetch_timeout
        follower = Follower(role.leader_id, role.endpoints, timeout, role.voted)
        follower.rejoin_at = timeout
        core.become(follower, core.epoch, Cause.PRE_VOTE_LOST, now)
    else:
        core.become(Unattached(deadline, role.leader_id, role.voted), core.epoch, Cause.PRE_VOTE_LOST, now)


def _stand(core: Core, cause: Cause, now: Now) -> None:
    deadline = now.mono + core.random_election_timeout()
    core.become(Candidate(deadline, {core.key.id: True}), core.epoch + 1, cause, now)


def _count_votes(core: Core, role: Candidate, now: Now) -> None:
    granted, _ = _tally(core, role.answers)
    if granted >= core.voters.majority and not core.outdated:
        leadership.begin(core, role, now)
    elif not core.may_stand:
        core.become(Unattached(inf), core.epoch + 1, Cause.HIGHER_EPOCH, now)
    elif role.deadline <= now.mono:
        _try_next_endpoints(core, role.answers)
        stand_perhaps(core, Cause.ELECTION_TIMEOUT, now)
    else:
        _ask(core, role.answers, False, now)


def _try_next_endpoints(core: Core, answers: dict[NodeId, bool]) -> None:
    """Try other endpoints of voters that were silent for a whole election.

    They may have moved.  (An election can be shorter than a request's timeout: then no request ever fails.)
    """
    for node_id in core.voters.ids:
        if node_id not in answers and core.peers.asking(node_id):
            core.peers.try_next_endpoint(node_id)


def _ask(core: Core, answers: dict[NodeId, bool], pre_vote: bool, now: Now) -> None:
    """Send Vote to every voter that has not answered and that may be sent a request now."""
    for voter in core.voters:
        node_id = voter.key.id
        if node_id in answers or not core.peers.ready(node_id, now.mono):
            continue
        request = VoteRequest(
            core.epoch,
            core.key,
            core.log_view.last_epoch,
            core.log_view.end_offset,
            pre_vote,
            voter.key,
            core.config.cluster_id,
        )
        correlation = core.peers.begin(node_id, request, now.mono)
        core.send(Send(correlation, node_id, core.reach(node_id), request))


def on_vote_response(
    core: Core, node_id: NodeId, request: VoteRequest, response: VoteResponse, now: Now
) -> None:
    """A vote came back; it counts only for the election it was asked for."""
    if not find_leader(core, response, now):
        if response.error is not ErrorCode.NONE:
            core.peers.back_off(node_id, now.mono)
        return
    role = core.role
    if request.epoch != core.epoch:
        return
    if response.error is not ErrorCode.NONE:
        # Another answered (or its disk was replaced), or the like: no vote recorded, ask again.
        core.peers.try_next_endpoint(node_id)
        core.peers.back_off(node_id, now.mono, core.config.retry_backoff)
        return
    if isinstance(role, Prospective) and request.pre_vote:
        if role.leader_gone and not response.granted:
            core.peers.back_off(node_id, now.mono, core.config.election_timeout / 10)
        else:
            role.answers[node_id] = response.granted
    elif isinstance(role, Candidate) and not request.pre_vote:
        role.answers[node_id] = response.granted


def on_vote_unsupported(core: Core, request: VoteRequest, now: Now) -> None:
    """Stand at once: a voter does not know pre-votes, so they cannot protect it."""
    role = core.role
    if isinstance(role, Prospective) and request.pre_vote and request.epoch == core.epoch and core.may_stand:
        _stand(core, Cause.PRE_VOTE_UNKNOWN, now)


# ------------------------------------------------------------------ leaders begin and end


def _refused(core: Core, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> ErrorCode | None:
    """Why a request that names the leader of an epoch is refused; None when it is not."""
    if request.cluster_id is not None and request.cluster_id != core.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if not _can_lead(core, request.leader_id, request.epoch):
        return ErrorCode.INVALID_REQUEST
    return None


def on_begin(core: Core, token: object, request: BeginQuorumEpochRequest, now: Now) -> None:
    """BeginQuorumEpoch: somebody leads.  An observer accepts it as well."""

    def answer(error: ErrorCode) -> None:
        core.reply(token, BeginQuorumEpochResponse(error, **core.leader_hint()))

    if error := _refused(core, request):
        return answer(error)
    _hear_leader(core, request.epoch, request.leader_id, request.endpoints, now)
    if not _addressed(core, request.voter):
        return answer(ErrorCode.INVALID_VOTER_KEY)
    return answer(ErrorCode.NONE)


def _can_lead(core: Core, leader_id: NodeId, epoch: Epoch) -> bool:
    """Whether a request may claim that this node leads or led this epoch (not below ours)."""
    known = core.key.id if isinstance(core.role, Resigned) else core.leader_id
    if leader_id != core.key.id and conflict(core, epoch, leader_id, known):
        return False
    return leader_id >= 0 and leader_id != core.key.id and core.believes(epoch)


def _hear_leader(
    core: Core, epoch: Epoch, leader_id: NodeId, endpoints: tuple[Endpoint, ...], now: Now
) -> None:
    """The leader itself sent this: a node that was about to stand against it follows again, too."""
    role = core.role
    if epoch == core.epoch and isinstance(role, Prospective):
        known = endpoints or core.endpoints_of(leader_id)
        if known and role.leader_id in (None, leader_id):
            _follow(core, epoch, leader_id, known, Cause.LEADER_FOUND, now)
            return
    learn(core, epoch, leader_id, endpoints, now)
    moved(core, leader_id, endpoints)


def moved(core: Core, leader_id: NodeId, endpoints: tuple[Endpoint, ...]) -> None:
    """Take over the endpoints that the leader itself names; those that others named may be old."""
    role = core.role
    if isinstance(role, Follower) and role.leader_id == leader_id and endpoints not in ((), role.endpoints):
        role.endpoints = endpoints
        core.do(LeaderChanged(core.epoch, leader_id, endpoints))


def on_end(core: Core, token: object, request: EndQuorumEpochRequest, now: Now) -> None:
    """EndQuorumEpoch: the leader steps down; the first node in its list need not wait."""

    def answer(error: ErrorCode) -> None:
        core.reply(token, EndQuorumEpochResponse(error, **core.leader_hint()))

    if error := _refused(core, request):
        return answer(error)
    learn(core, request.epoch, request.leader_id, request.endpoints, now)
    role = core.role
    if isinstance(role, Follower) and role.leader_id == request.leader_id and core.may_stand:
        wait = _succession_wait(core, request.successors)
        role.deadline = min(role.deadline, now.mono + wait)
        role.has_fetched, role.leader_ended = False, True
    return answer(ErrorCode.NONE)


def _succession_wait(core: Core, successors: tuple[ReplicaKey, ...]) -> float:
    """How long to wait before standing: the first in the list not at all, the others in turn."""
    longest = core.config.election_backoff_max
    places = [i for i, key in enumerate(successors) if _same(key, core.key)]
    if not places:
        return longest
    if places[0] == 0:
        return 0.0
    milliseconds = int(longest * 1000)
    return min(milliseconds, (milliseconds >> (len(successors) - 1)) << (places[0] - 1)) / 1000
