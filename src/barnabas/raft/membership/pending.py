"""Requests to change the voter set, and their outcome.

A change is an *intent*.  It waits until it can be done, says meanwhile what it waits for, can be withdrawn, and
ends at its deadline at the latest.  Then either its record is in the log (the log decides whether it is
committed, and the answer says so), or the change did not happen.  Apache Kafka refuses at once what cannot be
done at once.  Here REQUEST_TIMED_OUT comes only when the time is up, with the reason.

Removals go first.  A voter's report about itself (UpdateRaftVoter) never waits here, because its sender
repeats it anyway; so it never blocks an operator.
"""

from __future__ import annotations

from math import inf

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE, NodeId, Now, Offset
from barnabas.raft import leadership, replication
from barnabas.raft.core import Core
from barnabas.raft.membership import steps as reconfigure
from barnabas.raft.membership import target as reassign
from barnabas.raft.membership.intent import Intent
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
    UpdateVoterRequest,
    UpdateVoterResponse,
    UpgradeRequest,
)
from barnabas.raft.roles import Leader

__all__ = ["deadline", "drive", "on_request", "pending_change"]


def pending_change(core: Core) -> Intent | None:
    """The change whose record is in the log and not committed."""
    role = core.role
    if isinstance(role, Leader):
        for intent in role.intents:
            if intent.offset is not None:
                return intent
    return None


def deadline(role: Leader) -> float:
    """When the next intent's time is up."""
    return min((intent.deadline for intent in role.intents if not intent.answered), default=inf)


# ------------------------------------------------------------------ requests


def on_request(core: Core, token: object, request: Request, now: Now) -> None:
    """A wish comes in: refuse it for good, or take it up."""
    try:
        _admit(core, token, request, now)
    except KafkaError as error:
        core.reply(token, refusal(core, request, error.code, error.message))


def _admit(core: Core, token: object, request: Request, now: Now) -> None:
    cluster_id = getattr(request, "cluster_id", None)
    if cluster_id is not None and cluster_id != core.config.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this cluster is {core.config.cluster_id}")
    epoch = request.epoch if isinstance(request, UpdateVoterRequest) else core.epoch
    if error := replication.leader_error(core, epoch):
        raise KafkaError(error, f"the leader of epoch {core.epoch} is {core.leader_id}")
    role = core.role
    assert isinstance(role, Leader)
    if isinstance(request, UpdateVoterRequest):
        _update(core, role, token, request, now)
    elif isinstance(request, CancelChangeRequest):
        _cancel(core, role, token, request)
    elif isinstance(request, (AddVoterRequest, RemoveVoterRequest, UpgradeRequest, ReassignRequest)):
        timeout = core.config.request_timeout
        if isinstance(request, (AddVoterRequest, RemoveVoterRequest)) and not request.force:
            _refuse_during_reassignment(core)
        if isinstance(request, ReassignRequest):
            timeout = request.timeout
        if isinstance(request, AddVoterRequest):
            reconfigure.check_endpoints(core, request.voter, request.endpoints)
            timeout = request.timeout
        elif isinstance(request, RemoveVoterRequest):
            reconfigure.check_removal(request.voter)
        role.intents.append(Intent(token, request, now.mono + timeout))
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{type(request).__name__} is not for the quorum")


def _refuse_during_reassignment(core: Core) -> None:
    if core.journal.note(reassign.TARGET) is not None:
        why = "the voters are on their way to a target set: cancel it first, or force the change"
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)


def _update(core: Core, role: Leader, token: object, request: UpdateVoterRequest, now: Now) -> None:
    waits = reconfigure.step_update(core, role, request)
    if waits is not None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, waits)
    leadership.heard(core, role, request.voter, now)
    core.reply(token, refusal(core, request, ErrorCode.NONE))


def _cancel(core: Core, role: Leader, token: object, request: CancelChangeRequest) -> None:
    for intent in role.intents:
        wish = intent.request
        named = isinstance(wish, (AddVoterRequest, RemoveVoterRequest)) and wish.voter == request.voter
        if named and intent.offset is None and not intent.planned:
            _answer(core, intent, ErrorCode.OPERATION_NOT_ATTEMPTED, f"{intent} was withdrawn")
            role.intents.remove(intent)
            core.reply(token, ChangeResponse(ErrorCode.NONE))
            return
    raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"no change of {request.voter} waits")


def refusal(core: Core, request: Request, error: ErrorCode, why: str | None = None) -> Response:
    """The answer to a wish, in the shape of its kind."""
    if isinstance(request, UpdateVoterRequest):
        leader = core.leader_id
        return UpdateVoterResponse(
            error, core.epoch, NO_NODE if leader is None else leader, core.leader_endpoints
        )
    return ChangeResponse(error, why)


# ------------------------------------------------------------------ progress


def drive(core: Core, role: Leader, now: Now) -> None:
    """Finish what is committed, give up what is out of time, and take the next steps of the rest."""
    reassign.plan(core, role, now)
    if core.role is not role or not role.intents:
        return
    high_watermark = leadership.published_high_watermark(core)
    for intent in list(role.intents):
        if intent.offset is not None and intent.offset < high_watermark:
            _answer(core, intent, ErrorCode.NONE)
            role.intents.remove(intent)
        elif intent.deadline <= now.mono and not intent.answered:
            _give_up(core, role, intent)
    for intent in sorted(role.intents, key=_removals_first):
        if intent.offset is None and intent in role.intents:
            _step(core, role, intent, now)


def _removals_first(intent: Intent) -> bool:
    return not isinstance(intent.request, RemoveVoterRequest)


def _give_up(core: Core, role: Leader, intent: Intent) -> None:
    if intent.offset is None:
        role.intents.remove(intent)
        _answer(core, intent, ErrorCode.REQUEST_TIMED_OUT, f"{intent} was given up: {intent.waits}")
    else:
        why = f"{intent} is in the log at offset {intent.offset}, but a majority of {core.voters} has not got it"
        _answer(core, intent, ErrorCode.REQUEST_TIMED_OUT, why)


def _step(core: Core, role: Leader, intent: Intent, now: Now) -> None:
    request = intent.request
    outcome: str | Offset | None
    try:
        if isinstance(request, AddVoterRequest):
            outcome = reconfigure.step_add(core, role, request, intent.probe, now)
        elif isinstance(request, RemoveVoterRequest):
            outcome = reconfigure.step_remove(core, role, request, now)
        elif isinstance(request, ReassignRequest):
            outcome = reassign.step_reassign(core, role, request, now)
        else:
            assert isinstance(request, UpgradeRequest)
            outcome = reconfigure.step_upgrade(core, role, request)
    except KafkaError as error:
        role.intents.remove(intent)
        _answer(core, intent, error.code, error.message)
        return
    if isinstance(outcome, str):
        intent.waits = outcome
    elif outcome is None:
        role.intents.remove(intent)
        _answer(core, intent, ErrorCode.NONE)
    else:
        intent.offset = outcome
        if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
            _answer(core, intent, ErrorCode.NONE)


def _answer(core: Core, intent: Intent, error: ErrorCode, why: str | None = None) -> None:
    if not intent.answered:
        intent.answered = True
        core.reply(intent.token, refusal(core, intent.request, error, why))


# ------------------------------------------------------------------ what probes find


def _probed(core: Core, node_id: NodeId) -> Intent | None:
    role = core.role
    if isinstance(role, Leader):
        for intent in role.intents:
            wish = intent.request
            if isinstance(wish, AddVoterRequest) and wish.voter.id == node_id and intent.offset is None:
                return intent
    return None


def on_probe_response(core: Core, node_id: NodeId, response: ProbeResponse, now: Now) -> None:
    """ApiVersions came back from a voter-to-be."""
    intent = _probed(core, node_id)
    if intent is None:
        return
    if response.error is not ErrorCode.NONE:
        intent.probe.failure = response.error.name
        core.links.rest(node_id, now.mono)
        return
    intent.probe.failure = ""
    intent.probe.versions = response.versions or reconfigure.NO_SUPPORT


def on_begin_response(
    core: Core, node_id: NodeId, request: Request, response: BeginQuorumEpochResponse, now: Now
) -> None:
    """BeginQuorumEpoch came back: from a voter that knows us now, or from a voter-to-be that is who it says."""
    intent = _probed(core, node_id)
    if intent is None or not isinstance(request, BeginQuorumEpochRequest):
        return
    wish = intent.request
    assert isinstance(wish, AddVoterRequest)
    if request.voter != wish.voter:
        return
    if intent.probe.versions is None:
        return  # not our question, but the heartbeat of a membership it had before
    if response.error is ErrorCode.NONE:
        intent.probe.is_who_it_says = True
    elif response.error in (ErrorCode.INVALID_VOTER_KEY, ErrorCode.INCONSISTENT_CLUSTER_ID):
        role = core.role
        assert isinstance(role, Leader)
        role.intents.remove(intent)
        why = f"the node at that endpoint is not {wish.voter} of this cluster"
        _answer(core, intent, ErrorCode.INVALID_REQUEST, why)
    else:
        intent.probe.failure = response.error.name
        core.links.rest(node_id, now.mono)


def on_failure(core: Core, node_id: NodeId, request: Request, reason: str) -> None:
    """A request got no answer; a probe remembers why."""
    if isinstance(request, (ProbeRequest, BeginQuorumEpochRequest)):
        intent = _probed(core, node_id)
        if intent is not None:
            intent.probe.failure = reason
