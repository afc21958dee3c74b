"""The autopilot: promotes standbys that keep up, and replaces voters that are dead for long.

It is off unless the node's settings say otherwise, and then looks now and then (`Supervise`).  It has no way
of its own to change the voters: it names a target (`target`), as an operator would, so that all guards of
single changes hold, any leader goes on with it, and everybody sees it.  What it wants:

1. An operator goes first: while a change or a target of somebody else is under way, it does nothing.
2. A voter that was silent for `dead` seconds is replaced by a standby, one at a time.
3. While there are too few voters, standbys are promoted, as many as make the set odd: one more voter than an
   odd number survives no failure more.
4. A standby has kept up, whenever looked at, for `stability` seconds, and was never removed by anybody: what an
   operator, or the autopilot itself, removed comes back when an operator adds it.
5. The set that it names has a living majority, and so has the present one.
6. A target of its own whose newcomer is dead itself is withdrawn; the next look finds another one.

Seconds count only while this leader has looked without a gap.  So a leader that was stopped for a minute finds
nobody dead when it goes on.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.model import Endpoint, NodeId, Now, ReplicaKey
from barnabas.raft import leadership
from barnabas.raft.core import Core
from barnabas.raft.membership import steps, target
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.raft.messages import Supervise
from barnabas.raft.roles import Leader

__all__ = ["NAME", "Act", "Standing", "decide", "look"]

NAME = "the autopilot"
"""Who did it, for the history."""

MISSED_LOOKS = 3
"""So many intervals without a look are a gap."""


class Standing(NamedTuple):
    """What the leader knows.  `living` were heard of just now, `dead` not for long; `steady` are the standbys."""

    voters: tuple[ReplicaKey, ...]
    living: tuple[ReplicaKey, ...]
    dead: tuple[ReplicaKey, ...]
    steady: tuple[ReplicaKey, ...]
    size: int


class Act(NamedTuple):
    """The set to go to, and why."""

    voters: tuple[ReplicaKey, ...]
    why: str


# ------------------------------------------------------------------ deciding


def decide(standing: Standing) -> Act | None:
    """What is to be done now (2, 3 and 5 of the module); None: nothing, or nothing that can be done."""
    act = _replace(standing) if standing.dead else _promote(standing)
    if act is None or not _lives(standing, standing.voters) or not _lives(standing, act.voters):
        return None
    return act


def _replace(standing: Standing) -> Act | None:
    for old in standing.dead:
        others = [key for key in standing.voters if key != old]
        free = [key for key in standing.steady if key.id not in {other.id for other in others}]
        free.sort(key=lambda key: key.id != old.id)  # its own node on a new disk first
        if free:
            return Act(tuple(sorted([*others, free[0]])), f"replace {old}, which is dead, by {free[0]}")
    return None


def _promote(standing: Standing) -> Act | None:
    ids = {key.id for key in standing.voters}
    free = [key for key in standing.steady if key.id not in ids]
    more = 1 if len(standing.voters) % 2 == 0 else 2
    if len(standing.voters) + more > standing.size or len(free) < more:
        return None
    names = " and ".join(str(key) for key in free[:more])
    return Act(tuple(sorted([*standing.voters, *free[:more]])), f"promote {names}")


def _lives(standing: Standing, voters: tuple[ReplicaKey, ...]) -> bool:
    return sum(key in standing.living for key in voters) > len(voters) // 2


# ------------------------------------------------------------------ looking


def look(core: Core, order: Supervise, now: Now) -> None:
    """Look at the quorum, and name a target where the set should be another one."""
    role = core.role
    if not isinstance(role, Leader):
        return
    _keep_time(core, role, order, now)
    if core.log_view.kraft_version < 1 or not core.voters.has(core.key) or steps.guards(core) is not None:
        return
    if any(not change.planned for change in role.pending_changes):  # 1
        return
    if core.log_view.note(target.TARGET) is not None:
        _look_at_target(core, role, order, now)
        return
    act = decide(_standing(core, role, order, now))
    if act is None:
        role.advice = ""
    elif order.dry_run:
        _advise(core, role, act)
    else:
        _name(core, role, order, act)


def _keep_time(core: Core, role: Leader, order: Supervise, now: Now) -> None:
    """Since when it has been looking, and each standby has kept up (4)."""
    gap = now.mono - role.watched > MISSED_LOOKS * order.interval
    if gap:
        role.watched_since = now.mono
    role.watched = now.mono
    for progress in (*role.voters.values(), *role.observers.values()):
        if progress.looked_at == -inf:
            progress.looked_at = now.mono
    for key, progress in role.observers.items():
        if steps.caught_up(core, role, key, now) is not None:
            progress.steady_since = None
        elif gap or progress.steady_since is None:
            progress.steady_since = now.mono


def _standing(core: Core, role: Leader, order: Supervise, now: Now) -> Standing:
    places = dict(order.standbys)
    steady = [
        (progress.steady_since, key)
        for key, progress in role.observers.items()
        if progress.steady_since is not None
        and now.mono - progress.steady_since >= order.stability
        and places.get(key.id)
        and core.log_view.note(steps.tombstone(key)) is None
        and not _doubled(role, key, now.mono - core.config.fetch_timeout)
    ]
    standbys = tuple(key for _, key in sorted(steady))
    dead = tuple(key for key in core.voters.keys if _silent(core, role, key, now) > order.dead)
    living = (*leadership.alive(core, role, core.voters, now), *standbys)
    return Standing(core.voters.keys, living, dead, standbys, order.size)


def _doubled(role: Leader, key: ReplicaKey, fresh: float) -> bool:
    """Whether another living replica has its id: nobody can know which one is meant."""
    return any(
        other.id == key.id and other != key and (progress.last_fetch or -inf) >= fresh
        for other, progress in (*role.observers.items(), *role.voters.items())
    )


def _silent(core: Core, role: Leader, key: ReplicaKey, now: Now) -> float:
    """Seconds for which it was not heard, while this leader led, looked and knew it by this key.

    When kraft.version is raised, voters get the names of their disks, and are unknown until they fetch again.
    """
    progress = role.known(key)
    looked_at = -inf if progress is None else progress.looked_at
    silent = leadership.silent_for(core, role, key, now)
    return min(silent, now.mono - max(looked_at, role.since, role.watched_since))


# ------------------------------------------------------------------ acting


def _look_at_target(core: Core, role: Leader, order: Supervise, now: Now) -> None:
    """Withdraw a target of its own that waits for a dead newcomer (1, 6)."""
    text = core.log_view.note(target.TARGET)
    if text is None or text != core.log_view.note(target.AUTOPILOT):
        return
    if core.log_view.committed_notes.get(target.TARGET) != text:
        return
    for member in target.parse_target(text):
        if not core.voters.has(member.key) and _silent(core, role, member.key, now) > order.dead:
            target.append_target(core, role, None)
            _note(core, role, f"withdraw the target: {member.key} is dead")
            return


def _advise(core: Core, role: Leader, act: Act) -> None:
    if role.advice != act.why:
        role.advice = act.why
        _note(core, role, f"dry run, would {act.why}")


def _name(core: Core, role: Leader, order: Supervise, act: Act) -> None:
    places: dict[NodeId, tuple[Endpoint, ...]] = dict(order.standbys)
    members = []
    for key in act.voters:
        voter = core.voters.get(key.id)
        present = voter is not None and voter.key == key
        endpoints = voter.endpoints if voter is not None and present else places.get(key.id, ())
        members.append(target.TargetReplica(key, endpoints))
    role.advice = act.why
    target.append_target(core, role, target.write_target(tuple(members)), by_autopilot=True)
    _note(core, role, act.why)


def _note(core: Core, role: Leader, what: str) -> None:
    leadership.note(core, role, ChangeNoted(None, what, ErrorCode.NONE, 0.0, "", NAME))
    core.emit("raft.autopilot", what=what, leader=core.key.id)
