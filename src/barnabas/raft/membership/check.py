"""What would become of a change of the voters: the guards of its steps, without a step.

The leader asks itself the questions of `steps` and `target`, and answers at once.  Only the endpoint of a
voter-to-be is not asked: that takes requests to it.
"""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now, ReplicaKey
from barnabas.raft import replication
from barnabas.raft.core import Core
from barnabas.raft.membership import steps, target, transfer
from barnabas.raft.membership.pending_change import Done, NotYet
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
    TransferRequest,
)
from barnabas.raft.roles import Leader
from barnabas.raft.voters import Voter, VoterSet

__all__ = ["check", "way"]


def check(core: Core, request: Request, now: Now) -> ChangeResponse:
    """NONE: it can be done now, to this end; REQUEST_TIMED_OUT: it would wait, for this; else refused."""
    try:
        found = _found(core, request, now)
    except KafkaError as error:
        return ChangeResponse(error.code, error.message)
    if isinstance(found, NotYet):
        return ChangeResponse(ErrorCode.REQUEST_TIMED_OUT, f"it would wait: {found.reason}")
    return ChangeResponse(ErrorCode.NONE, found)


def _found(core: Core, request: Request, now: Now) -> NotYet | str:
    if error := replication.leader_error(core, core.epoch):
        raise KafkaError(error, f"the leader of epoch {core.epoch} is {core.leader_id}")
    role = core.role
    assert isinstance(role, Leader)
    if isinstance(request, TransferRequest):
        return _transfer(core, role, request, now)
    if waiting := steps.guards(core):
        return waiting
    match request:
        case AddVoterRequest(voter):
            _not_during_a_reassignment(core, request.force)
            return _add(core, role, voter, now)
        case RemoveVoterRequest(voter):
            _not_during_a_reassignment(core, request.force)
            steps.check_removal(core, voter)
            voters = steps.set_without(core, role, voter, now)
            return voters if isinstance(voters, NotYet) else _comes_to(voters)
        case ReassignRequest():
            return _reassign(core, role, request, now)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{type(request).__name__} cannot be checked")


def _transfer(core: Core, role: Leader, request: TransferRequest, now: Now) -> NotYet | str:
    found = transfer.step_transfer(core, role, request, now)
    if isinstance(found, NotYet):
        return found
    if isinstance(found, Done):
        return f"node {core.key.id} leads already"
    return f"node {found.successor.id} would lead after node {core.key.id}"


def _not_during_a_reassignment(core: Core, force: bool) -> None:
    if not force and core.log_view.note(target.TARGET) is not None:
        why = "the voters are on their way to a target set: cancel it first"
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)


def _add(core: Core, role: Leader, voter: ReplicaKey, now: Now) -> NotYet | str:
    steps.check_removal(core, voter)  # named in full
    steps.check_new(core, voter)
    if waiting := steps.caught_up(core, role, voter, now):
        return waiting
    voters = core.voters.with_voter(Voter(voter, ()))
    return steps.would_be_stuck(core, role, voters, now) or _comes_to(voters)


def _reassign(core: Core, role: Leader, request: ReassignRequest, now: Now) -> NotYet | str:
    if core.log_view.kraft_version < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "voters cannot change at kraft.version 0")
    if request.target is None:
        if target.target_of(core) is None:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "there is no target to cancel")
        return f"the voters would stay {_ids(core.voters.keys)}"
    members = target.resolve(core, role, request, now)
    if isinstance(members, NotYet):
        return members
    return way(core.voters.keys, tuple(member.key for member in members), core.key)


def way(current: tuple[ReplicaKey, ...], wanted: tuple[ReplicaKey, ...], leader: ReplicaKey) -> str:
    """The sets on the way to this target when every replica lives and keeps up: `1, 2, 3 -> 1, 2, 3, 4 -> ...`."""
    sets, living = [current], tuple({*current, *wanted})
    while set(sets[-1]) != set(wanted):
        step = target.next_step(sets[-1], wanted, leader, living, living)
        if isinstance(step, NotYet):
            return f"{_arrows(sets)}, then it waits: {step.reason}"
        if step.kind == "hand over":
            leader = next(key for key in wanted if key != leader)
            continue
        present = [key for key in sets[-1] if key != step.replica]
        sets.append(tuple(sorted([*present, step.replica] if step.kind == "add" else present)))
    return _arrows(sets)


def _arrows(sets: list[tuple[ReplicaKey, ...]]) -> str:
    return " -> ".join(_ids(keys) for keys in sets)


def _ids(keys: tuple[ReplicaKey, ...]) -> str:
    return ", ".join(str(key.id) for key in keys)


def _comes_to(voters: VoterSet) -> str:
    return f"the voters would be {_ids(voters.keys)}"
