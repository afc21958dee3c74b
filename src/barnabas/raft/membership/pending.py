"""Requests to change the voter set, and their outcome.

A requested change is *pending*.  It waits until it can be done, says meanwhile what it waits for, can be
withdrawn, and ends at its deadline at the latest.  Then either its record is in the log (the log decides
whether it is committed, and the answer says so), or the change did not happen.  Apache Kafka refuses at once
what cannot be done at once.  Here REQUEST_TIMED_OUT comes only when the time is up, with the reason.

Removals go first.  A voter's report about itself (UpdateRaftVoter) never waits here, because its sender
repeats it anyway; so it never blocks an operator.
"""

from __future__ import annotations

from math import inf

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId, Now, ReplicaKey
from barnabas.raft import leadership, replication
from barnabas.raft.core import Core, IllegalTransition
from barnabas.raft.membership import steps, target, transfer
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.raft.membership.pending_change import Appended, Done, HandOver, NotYet, Outcome, PendingChange
from barnabas.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CancelChangeRequest,
    ChangeResponse,
    ProbeRequest,
    ProbeResponse,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
    Response,
    TransferRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    UpgradeRequest,
)
from barnabas.raft.roles import Cause, Leader

__all__ = ["deadline", "drive", "on_request", "pending_change"]


def pending_change(core: Core) -> PendingChange | None:
    """The change whose record is in the log and not committed."""
    role = core.role
    if isinstance(role, Leader):
        for change in role.pending_changes:
            if change.offset is not None:
                return change
    return None


def deadline(role: Leader) -> float:
    """When the next pending change runs out of time, or is to be tried again."""
    return min(
        (min(change.deadline, change.look_at) for change in role.pending_changes if not change.answered),
        default=inf,
    )


# ------------------------------------------------------------------ requests


def on_request(core: Core, token: object, request: Request, now: Now) -> None:
    """A request comes in: refuse it for good, or take it up."""
    try:
        _admit(core, token, request, now)
    except KafkaError as error:
        core.reply(token, refusal(core, request, error.code, error.message))


def _admit(core: Core, token: object, request: Request, now: Now) -> None:
    cluster_id = getattr(request, "cluster_id", None)
    if cluster_id is not None and cluster_id != core.config.cluster_id:
        why = f"the request is for cluster {cluster_id}, this cluster is {core.config.cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
    epoch = request.epoch if isinstance(request, UpdateVoterRequest) else core.epoch
    if error := replication.leader_error(core, epoch):
        raise KafkaError(error, f"the leader of epoch {core.epoch} is {core.leader_id}")
    role = core.role
    assert isinstance(role, Leader)
    timeout = core.config.request_timeout
    match request:
        case UpdateVoterRequest():
            _update(core, role, token, request, now)
            return
        case CancelChangeRequest(voter):
            _cancel(core, role, token, voter)
            return
        case AddVoterRequest(voter, endpoints):
            _refuse_during_reassignment(core, request.force)
            steps.check_endpoints(core, voter, endpoints)
            timeout = request.timeout
        case RemoveVoterRequest(voter):
            _refuse_during_reassignment(core, request.force)
            steps.check_removal(core, voter)
        case ReassignRequest() | TransferRequest():
            timeout = request.timeout
        case UpgradeRequest():
            pass
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{type(request).__name__} is not for the quorum")
    role.pending_changes.append(PendingChange(token, request, now.mono + timeout, began=now.mono))


def _refuse_during_reassignment(core: Core, force: bool) -> None:
    if not force and core.log_view.note(target.TARGET) is not None:
        why = "the voters are on their way to a target set: cancel it first"
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)


def _update(core: Core, role: Leader, token: object, request: UpdateVoterRequest, now: Now) -> None:
    before = core.voters
    outcome = steps.step_update(core, role, request)
    if core.voters is not before:
        where = ", ".join(map(str, request.endpoints))
        leadership.note(
            core, role, ChangeNoted(token, f"update {request.voter} to {where}", ErrorCode.NONE, 0.0, "")
        )
    if isinstance(outcome, NotYet):
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, outcome.reason)
    leadership.heard(core, role, request.voter, now)
    core.reply(token, refusal(core, request, ErrorCode.NONE))


def _cancel(core: Core, role: Leader, token: object, voter: ReplicaKey) -> None:
    for change in role.pending_changes:
        wanted = change.request
        named = isinstance(wanted, (AddVoterRequest, RemoveVoterRequest)) and wanted.voter == voter
        if named and change.offset is None and not change.planned:
            _answer(core, change, ErrorCode.OPERATION_NOT_ATTEMPTED, f"{change} was withdrawn")
            role.pending_changes.remove(change)
            core.reply(token, ChangeResponse(ErrorCode.NONE))
            return
    raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"no change of {voter} waits")


def refusal(core: Core, request: Request, error: ErrorCode, why: str | None = None) -> Response:
    """The answer to a request, in the shape of its kind."""
    if isinstance(request, UpdateVoterRequest):
        return UpdateVoterResponse(error, **core.leader_hint())
    return ChangeResponse(error, why)


# ------------------------------------------------------------------ progress


def drive(core: Core, role: Leader, now: Now) -> None:
    """Finish what is committed, give up what is out of time, and take the next steps of the rest."""
    target.plan(core, role, now)
    if core.role is not role or not role.pending_changes:
        return
    high_watermark = leadership.published_high_watermark(core)
    for change in list(role.pending_changes):
        if change.offset is not None and change.offset < high_watermark:
            _answer(core, change, ErrorCode.NONE)
            role.pending_changes.remove(change)
        elif change.deadline <= now.mono and not change.answered:
            _give_up(core, role, change, now)
    for change in sorted(role.pending_changes, key=_removals_first):
        if change.offset is None and change in role.pending_changes:
            _step(core, role, change, now)
        if core.role is not role:
            return  # the lead is handed over


def _removals_first(change: PendingChange) -> bool:
    return not isinstance(change.request, RemoveVoterRequest)


def _give_up(core: Core, role: Leader, change: PendingChange, now: Now) -> None:
    if change.offset is None:
        role.pending_changes.remove(change)
        _note(core, role, change, ErrorCode.REQUEST_TIMED_OUT, now)
        _answer(core, change, ErrorCode.REQUEST_TIMED_OUT, f"{change} was given up: {change.waits}")
    else:
        why = f"{change} is in the log at offset {change.offset}, but a majority of {core.voters} has not got it"
        _answer(core, change, ErrorCode.REQUEST_TIMED_OUT, why)


def _step(core: Core, role: Leader, change: PendingChange, now: Now) -> None:
    request = change.request
    change.look_at = inf
    try:
        outcome = _outcome(core, role, change, now)
    except KafkaError as error:
        role.pending_changes.remove(change)
        _answer(core, change, error.code, error.message)
        return
    match outcome:
        case NotYet(reason, until):
            change.waits, change.has_waited, change.look_at = reason, True, until
        case Appended(offset):
            change.offset = offset
            _note(core, role, change, ErrorCode.NONE, now)
            if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
                _answer(core, change, ErrorCode.NONE)
        case Done():
            role.pending_changes.remove(change)
            _answer(core, change, ErrorCode.NONE)
        case HandOver(successor):
            role.pending_changes.remove(change)
            _answer(core, change, ErrorCode.NONE)
            core.emit("raft.transfer", leader=core.key.id, to=successor.id)
            leadership.resign(core, role, Cause.STEP_DOWN, now, first=successor)


def _outcome(core: Core, role: Leader, change: PendingChange, now: Now) -> Outcome:
    match change.request:
        case AddVoterRequest() as request:
            return steps.step_add(core, role, request, change.probe, now)
        case RemoveVoterRequest() as request:
            return steps.step_remove(core, role, request, now)
        case ReassignRequest() as request:
            return target.step_reassign(core, role, request, now)
        case UpgradeRequest() as request:
            return steps.step_upgrade(core, role, request)
        case TransferRequest() as request:
            return transfer.step_transfer(core, role, request, now)
        case CancelChangeRequest():
            raise IllegalTransition("a withdrawal is carried out at once")


def _note(core: Core, role: Leader, change: PendingChange, outcome: ErrorCode, now: Now) -> None:
    """Keep it in the history."""
    waits = change.waits if change.has_waited else ""
    seconds = max(0.0, now.mono - change.began)
    request = change.request
    by = ""
    if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
        by = f"node {request.voter.id} by itself"
    leadership.note(core, role, ChangeNoted(change.token, str(change), outcome, seconds, waits, by))


def _answer(core: Core, change: PendingChange, error: ErrorCode, why: str | None = None) -> None:
    if not change.answered:
        change.answered = True
        core.reply(change.token, refusal(core, change.request, error, why))


# ------------------------------------------------------------------ what probes find


def _probed(core: Core, node_id: NodeId) -> PendingChange | None:
    role = core.role
    if isinstance(role, Leader):
        for change in role.pending_changes:
            wanted = change.request
            if isinstance(wanted, AddVoterRequest) and wanted.voter.id == node_id and change.offset is None:
                return change
    return None


def on_probe_response(core: Core, node_id: NodeId, response: ProbeResponse, now: Now) -> None:
    """ApiVersions came back from a voter-to-be."""
    change = _probed(core, node_id)
    if change is None:
        return
    if response.error is not ErrorCode.NONE:
        change.probe.failure = response.error.name
        core.peers.back_off(node_id, now.mono)
        return
    change.probe.failure = ""
    change.probe.versions = response.versions or steps.NO_SUPPORT
    change.probe.features = response.features


def on_begin_response(
    core: Core, node_id: NodeId, request: Request, response: BeginQuorumEpochResponse, now: Now
) -> None:
    """BeginQuorumEpoch came back: from a voter that knows us now, or from a voter-to-be that is who it says."""
    change = _probed(core, node_id)
    if change is None or not isinstance(request, BeginQuorumEpochRequest):
        return
    wanted = change.request
    assert isinstance(wanted, AddVoterRequest)
    if request.voter != wanted.voter:
        return
    if change.probe.versions is None:
        return  # not our question, but the heartbeat of a membership it had before
    if response.error is ErrorCode.NONE:
        change.probe.is_who_it_says = True
    elif response.error in (ErrorCode.INVALID_VOTER_KEY, ErrorCode.INCONSISTENT_CLUSTER_ID):
        _refuse_impostor(core, change)
    else:
        change.probe.failure = response.error.name
        core.peers.back_off(node_id, now.mono)


def _refuse_impostor(core: Core, change: PendingChange, reason: str = "") -> None:
    """Refuse a change for good: another node than the voter-to-be listens at its endpoint."""
    role, wanted = core.role, change.request
    assert isinstance(role, Leader)
    assert isinstance(wanted, AddVoterRequest)
    role.pending_changes.remove(change)
    why = f"the node at that endpoint is not {wanted.voter} of this cluster"
    _answer(core, change, ErrorCode.INVALID_REQUEST, f"{why}: {reason}" if reason else why)


def on_failure(core: Core, node_id: NodeId, request: Request, reason: str, *, for_good: bool = False) -> None:
    """Remember why a probe got no answer; `for_good`: the node there is of another cluster."""
    if isinstance(request, (ProbeRequest, BeginQuorumEpochRequest)):
        change = _probed(core, node_id)
        if change is None:
            return
        wanted = change.request
        assert isinstance(wanted, AddVoterRequest)
        if for_good and isinstance(request, BeginQuorumEpochRequest) and request.voter == wanted.voter:
            _refuse_impostor(core, change, reason)
        else:
            change.probe.failure = reason
