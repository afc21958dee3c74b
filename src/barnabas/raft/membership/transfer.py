"""Handing the lead of the quorum to another voter on request."""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now, ReplicaKey
from barnabas.raft import leadership
from barnabas.raft.core import Core
from barnabas.raft.membership import steps
from barnabas.raft.membership.pending_change import DONE, Done, HandOver, NotYet, PendingChange
from barnabas.raft.messages import TransferRequest
from barnabas.raft.roles import Leader

__all__ = ["step_transfer"]


def step_transfer(core: Core, role: Leader, request: TransferRequest, now: Now) -> NotYet | Done | HandOver:
    """Take the next step of handing the lead over.

    1. The successor is another voter; a leader that is asked to hand over to itself has nothing to do.
    2. It was heard from within the fetch timeout.  A dead one is refused: nobody would lead meanwhile.  A leader
       that has just been elected waits for it so long.
    3. This leader has committed in its own epoch, and no change of the set is uncommitted or waits.
    4. The successor has the whole log, so that the others can vote for it.
    5. Step down, and name it first.  The others stand later, if it does not.

    `force` leaves out what waits in 3, and 4.  Nothing can be lost by that, but another voter may win.
    """
    if request.to == core.key.id:  # 1
        return DONE
    others = [key for key in core.voters.keys if not core.is_own(key)]
    named = [key for key in others if request.to in (None, key.id)]
    if not named:
        wanted = "there is no other voter" if request.to is None else f"node {request.to} is no voter"
        ids = ", ".join(map(str, core.voters.ids))
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{wanted}: the voters are {ids}")
    living = [key for key in leadership.alive(core, role, core.voters, now) if key in named]
    if not living:  # 2
        who = "no other voter" if request.to is None else f"voter {request.to}"
        absent = "the other voters have" if request.to is None else f"voter {request.to} has"
        if waiting := steps.unheard_yet(core, role, absent, now):
            return waiting
        seconds = core.config.fetch_timeout
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{who} has fetched from this leader within {seconds:g} s: nobody would lead in its place",
        )
    if waiting := steps.guards(core):  # 3
        return waiting
    if not request.force and (before := _waits_before(role)) is not None:
        return NotYet(f"another change waits: {before.describe()}")
    successor = min(living, key=lambda key: (_lag(core, role, key), key))
    lag = _lag(core, role, successor)
    if lag > 0 and not request.force:  # 4
        return NotYet(f"voter {successor.id} lags {lag} records behind")
    return HandOver(successor)  # 5


def _waits_before(role: Leader) -> PendingChange | None:
    """A change that somebody waits for, and that would be given up."""
    for change in role.pending_changes:
        if not change.planned and not isinstance(change.request, TransferRequest):
            return change
    return None


def _lag(core: Core, role: Leader, key: ReplicaKey) -> int:
    progress = role.voters.get(key)
    end = progress.end_offset if progress is not None else None
    return core.log_view.end_offset - (0 if end is None else end)
