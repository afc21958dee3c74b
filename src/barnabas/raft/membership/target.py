"""From the present voters to a target set (KIP-642), by single changes.

One request names the final set.  The leader writes it into the log as a note, so that it survives a change of
leaders, and answers when the note is committed.  From then on every leader takes the next step as soon as the
last one is committed, until the voters are the target; then it erases the note.

The order of the steps keeps the quorum as safe as possible on the way:

1. A dead voter that is not in the target is removed first, if a majority of the others is alive.  A leader that
   has just been elected finds nobody dead before all voters had the time to fetch from it.
2. While at least as many voters are to be added as removed, one is added: one that keeps up.
3. Otherwise one is removed, but not the leader.
4. When only the leader is left to remove, it hands its leadership over, and the next leader removes it.

An id on another disk is another replica: the old one must be removed before the new one can be added.  No step
starts that would need the acknowledgement of a dead node.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Endpoint, NodeId, Now, Offset, ReplicaKey, Uuid
from barnabas.raft import leadership
from barnabas.raft.core import Core
from barnabas.raft.entries import Note
from barnabas.raft.membership import steps
from barnabas.raft.membership.pending_change import DONE, Appended, Done, NotYet, PendingChange
from barnabas.raft.messages import AddVoterRequest, ReassignRequest, RemoveVoterRequest
from barnabas.raft.progress import WITHOUT_ROLE
from barnabas.raft.roles import Cause, Leader

__all__ = [
    "TargetReplica",
    "append_target",
    "next_step",
    "parse_target",
    "plan",
    "resolve",
    "step_reassign",
    "target_of",
    "write_target",
]

TARGET = "barnabas.quorum.target"
"""The note that holds the target while there is one."""

AUTOPILOT = "barnabas.quorum.autopilot"
"""The note with the same text while it is the autopilot that wants the target, and no operator."""


HAND_OVER_PAUSE = 2
"""A leader serves for so many fetch timeouts before it hands the lead over."""


class TargetReplica(NamedTuple):
    """One replica of the target, and where it listens."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


# ------------------------------------------------------------------ the note


def write_target(members: tuple[TargetReplica, ...]) -> str:
    """`4-<directory id>@CONTROLLER://host:9093 5-<directory id>@...`, sorted by id."""
    return " ".join(
        f"{member.key.id}-{member.key.directory_id}@{','.join(str(endpoint) for endpoint in member.endpoints)}"
        for member in sorted(members)
    )


def parse_target(text: str) -> tuple[TargetReplica, ...]:
    """The reverse of `write_target`.  Raises ValueError for what `write_target` cannot have written."""
    members = []
    for word in text.split():
        name, _, addresses = word.partition("@")
        node_id, _, directory = name.partition("-")
        endpoints = []
        for address in filter(None, addresses.split(",")):
            listener, _, place = address.partition("://")
            host, _, port = place.rpartition(":")
            endpoints.append(Endpoint(listener, host.strip("[]"), int(port)))
        members.append(TargetReplica(ReplicaKey(int(node_id), Uuid.parse(directory)), tuple(endpoints)))
    return tuple(members)


def target_of(core: Core) -> tuple[TargetReplica, ...] | None:
    """The target in force (committed or not), if there is one."""
    text = core.log_view.note(TARGET)
    return None if text is None else parse_target(text)


def append_target(core: Core, role: Leader, text: str | None, *, by_autopilot: bool = False) -> Offset:
    """Set the target, or erase it (None); whose it is stands beside it.  Returns the offset."""
    notes = [Note(TARGET, text)]
    whose = text if by_autopilot else None
    if whose != core.log_view.note(AUTOPILOT):
        notes.append(Note(AUTOPILOT, whose))
    return leadership.append(core, role, tuple(notes))


# ------------------------------------------------------------------ the request


def step_reassign(core: Core, role: Leader, request: ReassignRequest, now: Now) -> NotYet | Appended | Done:
    """Take the next step of setting, replacing or cancelling the target.

    1. This leader has committed in its own epoch; kraft.version is 1.
    2. Cancelling: there is a target.  Append that there is none.
    3. Every id is one living replica: none or two are refused.  A leader that has just been elected waits for
       those that it has not heard yet.
    4. The same target, or the set as it is, appends nothing; it is answered when it is committed.
    5. Append the target.
    """
    if not leadership.committed_in_this_epoch(core):  # 1
        return NotYet("this leader has not committed anything in its epoch yet")
    if core.log_view.kraft_version < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "voters cannot change at kraft.version 0")
    current = core.log_view.note(TARGET)
    if request.target is None:  # 2
        if current is None:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "there is no target to cancel")
        return Appended(append_target(core, role, None))
    members = resolve(core, role, request, now)  # 3
    if isinstance(members, NotYet):
        return members
    wanted = write_target(members)
    unchanged = tuple(member.key for member in members) == core.voters.keys and current is None
    if wanted == current or unchanged:  # 4
        if core.log_view.committed_notes.get(TARGET) == current and steps.open_change(core) is None:
            return DONE
        return NotYet("the target is not committed yet")
    return Appended(append_target(core, role, wanted))  # 5


def resolve(
    core: Core, role: Leader, request: ReassignRequest, now: Now
) -> tuple[TargetReplica, ...] | NotYet:
    """The living replicas of the target, or for whom it waits.  Raises KafkaError."""
    ids = request.target or ()
    if not ids or len(set(ids)) != len(ids):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "name each voter of the final set once, and at least one"
        )
    known = dict(request.endpoints)
    members = []
    for node_id in ids:
        living = _living(core, role, node_id, now)
        voter = core.voters.get(node_id)
        if (not living or (voter is not None and voter.key not in living)) and (
            waiting := steps.unheard_yet(core, role, f"node {node_id} has", now)
        ):
            return waiting
        members.append(_member(core, node_id, living, known.get(node_id, ())))
    return tuple(sorted(members))


def _living(core: Core, role: Leader, node_id: NodeId, now: Now) -> list[ReplicaKey]:
    """Return the living replicas with this id: more than one where its disk is new, and the old one may live.

    Raises KafkaError where it lives and cannot vote.
    """
    living = [core.key] if node_id == core.key.id else []
    for key, progress in [*role.voters.items(), *role.observers.items()]:
        fresh = (
            progress.last_fetch is not None and now.mono - progress.last_fetch <= core.config.fetch_timeout
        )
        if key.id == node_id and fresh:
            living.append(key)
            if not progress.can_vote:
                why = f"node {node_id} {WITHOUT_ROLE}"
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return living


def _member(
    core: Core, node_id: NodeId, living: list[ReplicaKey], known: tuple[Endpoint, ...]
) -> TargetReplica:
    """The one living replica with this id.  Raises KafkaError."""
    if len(living) != 1:
        found = " and ".join(str(key) for key in living) or "none"
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"id {node_id} must be one living replica, found {found}"
        )
    voter = core.voters.get(node_id)
    endpoints = voter.endpoints if voter is not None and voter.key == living[0] else known
    if not endpoints:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"node {node_id} is not registered as a controller: a broker cannot vote",
        )
    return TargetReplica(living[0], endpoints)


# ------------------------------------------------------------------ the plan


def steps_left(current: tuple[ReplicaKey, ...], target: tuple[ReplicaKey, ...]) -> int:
    """Single changes from one set to the other."""
    return sum(key not in target for key in current) + sum(key not in current for key in target)


class Step(NamedTuple):
    """What to do next: add or remove one, or hand the lead over (`replica` is the leader then)."""

    kind: str
    replica: ReplicaKey


def next_step(
    current: tuple[ReplicaKey, ...],
    target: tuple[ReplicaKey, ...],
    leader: ReplicaKey,
    living: tuple[ReplicaKey, ...],
    keeps_up: tuple[ReplicaKey, ...],
    lags: Mapping[ReplicaKey, NotYet] = MappingProxyType({}),
) -> Step | NotYet:
    """The next step of the plan (see the module), or what it waits for.  `current` differs from `target`.

    `lags`: why each of the others does not keep up.
    """
    new = [key for key in target if key not in current]
    going = [key for key in current if key not in target]

    def majority_without(key: ReplicaKey) -> bool:
        rest = [other for other in current if other != key]
        return bool(rest) and sum(other in living for other in rest) > len(rest) // 2

    for key in going:  # 1
        if key not in living and majority_without(key):
            return Step("remove", key)
    ids = [key.id for key in current]
    addable = [key for key in new if key.id not in ids]
    if addable and len(new) >= len(going):  # 2
        for key in addable:
            if key in keeps_up:
                return Step("add", key)
        why = "; ".join(lags[key].reason for key in addable if key in lags)
        keys = " or ".join(str(key) for key in addable)
        return NotYet(f"waiting for {keys} to keep up" + (f": {why}" if why else ""))
    for key in going:  # 3
        if key != leader and majority_without(key):
            return Step("remove", key)
    if going == [leader]:  # 4
        if any(key in living for key in target if key != leader):
            return Step("hand over", leader)
        return NotYet(f"waiting for one of {', '.join(str(key) for key in target)} to be able to lead")
    return NotYet(f"removing {going[0]} now would leave no living majority")


def plan(core: Core, role: Leader, now: Now) -> None:
    """Take up the next step of the target in force, once the last one is committed."""
    if core.log_view.note(TARGET) is None:
        role.plan_waits = ""
        _drop_planned(role)
        return
    members = target_of(core)
    assert members is not None
    target = tuple(member.key for member in members)
    committed = core.log_view.committed_notes.get(TARGET) == core.log_view.note(TARGET)
    if not leadership.committed_in_this_epoch(core) or not committed:
        role.plan_waits = "the target is not committed yet"
        return
    if waiting := steps.open_change(core):
        role.plan_waits = waiting.reason
        return
    if core.voters.keys == target:
        role.plan_waits = ""
        _drop_planned(role)
        append_target(core, role, None)
        core.emit("raft.target.reached", voters=str(core.voters))
        return
    _take(core, role, members, _choose(core, role, target, now), now)


def _choose(core: Core, role: Leader, target: tuple[ReplicaKey, ...], now: Now) -> Step | NotYet:
    current = core.voters.keys
    living = tuple(leadership.alive(core, role, core.voters, now))
    for key in current:
        if key not in living and (waiting := steps.unheard_yet(core, role, f"{key} has", now)):
            return waiting
    new = [key for key in target if key not in current]
    lags = {key: why for key in new if (why := steps.caught_up(core, role, key, now)) is not None}
    keeps_up = tuple(key for key in new if key not in lags)
    return next_step(current, target, core.key, living, keeps_up, lags)


def _take(
    core: Core, role: Leader, members: tuple[TargetReplica, ...], step: Step | NotYet, now: Now
) -> None:
    if isinstance(step, NotYet):
        role.plan_waits = step.reason
        _drop_planned(role)
        return
    role.plan_waits = f"{step.kind} {step.replica}"
    if step.kind == "hand over":
        if now.mono < role.since + HAND_OVER_PAUSE * core.config.fetch_timeout:
            return  # the last one has failed: let the voters first report where they can be reached
        core.emit("raft.target.hand-over", leader=core.key.id)
        leadership.resign(core, role, Cause.STEP_DOWN, now)
        return
    request: AddVoterRequest | RemoveVoterRequest
    if step.kind == "add":
        member = next(member for member in members if member.key == step.replica)
        request = AddVoterRequest(member.key, member.endpoints, inf)
    else:
        request = RemoveVoterRequest(step.replica)
    planned = [change for change in role.pending_changes if change.planned]
    if planned and planned[0].request == request:
        return
    _drop_planned(role)
    role.pending_changes.append(
        PendingChange(None, request, inf, planned=True, answered=True, began=now.mono)
    )


def _drop_planned(role: Leader) -> None:
    """Drop the planned step if its record is not appended: another may come first by now."""
    role.pending_changes[:] = [i for i in role.pending_changes if not i.planned or i.offset is not None]
