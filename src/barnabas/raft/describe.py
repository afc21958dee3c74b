"""The quorum as one node sees it: what DescribeQuorum (55) is made from."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.model import NO_OFFSET, Endpoint, Epoch, NodeId, Now, Offset, ReplicaKey
from barnabas.raft import answers, leadership
from barnabas.raft.core import Core
from barnabas.raft.membership.target import steps_left, target_of
from barnabas.raft.progress import WITHOUT_ROLE, Progress
from barnabas.raft.roles import Leader
from barnabas.raft.value import value
from barnabas.raft.voters import VoterSet

__all__ = ["Description", "RaftStatistics", "ReplicaRow", "describe"]


@value
class ReplicaRow:
    """One replica; -1 where unknown.  Times are wall milliseconds."""

    key: ReplicaKey
    end_offset: Offset
    last_fetch_ms: int
    caught_up_ms: int


@value
class Description:
    """`replicas`, `observers` and `waiting` (what changes wait for) are filled on the leader only.

    `committed` are the voters before the newest set, while that is not committed.  `survivable` is how many voters
    may fail now with a majority left, -1 where this node does not know.  `errors`: why nodes do not answer, or do
    not count.  `able` are the observers that live and may have the controller role (leader only).  `servers`:
    why bootstrap servers gave no answer of use.  `differing` (without a leader only): who asked for a vote and has
    other voters than this node, and how it names this node.
    """

    is_leader: bool
    leader_id: NodeId | None
    epoch: Epoch
    high_watermark: Offset
    voters: VoterSet
    replicas: tuple[ReplicaRow, ...] = ()
    observers: tuple[ReplicaRow, ...] = ()
    waiting: tuple[str, ...] = ()
    target: tuple[ReplicaKey, ...] | None = None
    steps_left: int = 0
    committed: tuple[ReplicaKey, ...] | None = None
    survivable: int = -1
    errors: tuple[tuple[NodeId, str], ...] = ()
    able: tuple[ReplicaKey, ...] = ()
    servers: tuple[tuple[Endpoint, str], ...] = ()
    differing: tuple[tuple[ReplicaKey, ReplicaKey], ...] = ()

    def could_vote(self, controllers: Collection[NodeId]) -> tuple[NodeId, ...]:
        """Return the ids of the observers that could be made voters, given the registered controllers.

        A voter's id is among them while its node follows with another disk.
        """
        return tuple(key.id for key in self.able if key.id in controllers)


@value
class RaftStatistics:
    """One reading of a node, for metrics.  -1 and None where unknown."""

    role: str
    epoch: Epoch
    leader_id: NodeId | None
    high_watermark: Offset
    end_offset: Offset
    last_epoch: Epoch
    persisted: Offset
    voters: int
    observers: int
    pending_change: bool
    strangers: int


def describe(core: Core, now: Now) -> Description:
    """Kafka's rows: the leader with the time of now, voters, observers that fetched lately."""
    role = core.role
    members = target_of(core)
    target = None if members is None else tuple(member.key for member in members)
    left = 0 if target is None else steps_left(core.voters.keys, target)
    if not isinstance(role, Leader):
        known = NO_OFFSET if core.high_watermark is None else core.high_watermark
        return Description(
            False,
            core.leader_id,
            core.epoch,
            known,
            core.voters,
            target=target,
            steps_left=left,
            committed=_committed(core, known),
            errors=core.peers.errors(),
            servers=answers.server_errors(core),
            differing=tuple(core.peers.differing[node_id] for node_id in sorted(core.peers.differing)),
        )
    entry, fresh = core.voters.entry(core.key), core.config.fetch_timeout
    known_as = core.key if entry is None else entry.key
    own = ReplicaRow(known_as, core.log_view.end_offset, now.wall_ms, now.wall_ms)
    voters = [own] if core.voters.has(core.key) else []
    voters += [_row(key, progress) for key, progress in role.voters.items()]
    observers = [] if core.voters.has(core.key) else [own]
    for key, progress in role.observers.items():
        if progress.last_fetch is not None and now.mono - progress.last_fetch < core.config.observer_expiry:
            observers.append(_row(key, progress))
    errors = dict(core.peers.errors())
    errors |= {key.id: WITHOUT_ROLE for key, progress in role.voters.items() if not progress.can_vote}
    able = [key for key in role.observers if leadership.silent_for(core, role, key, now) <= fresh]
    waiting = [change.describe() for change in role.pending_changes]
    if target is not None:
        waiting.append(f"target {', '.join(str(key) for key in target)}: {role.plan_waits}")
    return Description(
        True,
        core.key.id,
        core.epoch,
        leadership.published_high_watermark(core),
        core.voters,
        tuple(sorted(voters, key=lambda row: row.key)),
        tuple(sorted(observers, key=lambda row: row.key)),
        tuple(waiting),
        target,
        left,
        _committed(core, leadership.published_high_watermark(core)),
        max(0, len(leadership.alive(core, role, core.voters, now)) - core.voters.majority),
        tuple(sorted(errors.items())),
        tuple(sorted(able)),
    )


def _committed(core: Core, high_watermark: Offset) -> tuple[ReplicaKey, ...] | None:
    """The voters before the newest set; None when that is committed, or is the only one."""
    offset = core.log_view.voter_sets.latest_offset
    if offset is None or offset < high_watermark:
        return None
    return core.log_view.voters_at(offset).keys


def _row(key: ReplicaKey, progress: Progress) -> ReplicaRow:
    end = NO_OFFSET if progress.end_offset is None else progress.end_offset
    return ReplicaRow(key, end, progress.last_fetch_ms, progress.caught_up_ms)
