"""Invariants of elections: who may lead, who votes and how often, and which votes count."""

from __future__ import annotations

from barnabas.model import ZERO_UUID, ReplicaKey
from barnabas.raft.entries import ElectionState
from barnabas.raft.messages import Request, VoteRequest
from barnabas.raft.roles import Leader
from barnabas.raft.voters import VoterSet
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.invariants.durable_view import saved_election
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World

__all__ = ["NewDiskNewReplica", "OneLeaderPerEpoch", "OneVotePerEpoch", "OnlyVotersCount"]


class OneLeaderPerEpoch(Invariant):
    """Q1: at most one leader per epoch, over all nodes and all their runs.

    A sole voter leads for a moment before its epoch is durable, when nothing has left it yet; should
    it die then, nobody ever heard of that leader.
    """

    name = "Q1"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.leaders: dict[int, ReplicaKey] = {}

    def led(self, node: Machine) -> None:
        self.synced(node)

    def synced(self, node: Machine) -> None:
        assert node.process is not None
        epoch = node.process.node.epoch
        if not node.process.node.is_leader or self.leaders.get(epoch) == node.key:
            return
        durable = saved_election(node.disk, METADATA)
        if durable is None or durable.epoch < epoch:
            return
        first = self.leaders.setdefault(epoch, node.key)
        if first != node.key:
            self.fail(f"epoch {epoch} is led by {first} and by {node.key}")


class OneVotePerEpoch(Invariant):
    """Q2: the persisted epoch never falls; one vote per (epoch, replica), durable before it is given."""

    name = "Q2"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def sending(self, node: Machine, request: Request) -> None:
        """A candidate has voted for itself."""
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self.voted(node.key, request.epoch, request.candidate, node)

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Machine) -> None:
        first = self.votes.setdefault((voter, epoch), candidate)
        if not _same(first, candidate):
            self.fail(f"{voter} gives its vote of epoch {epoch} to {first} and to {candidate}")
        durable = saved_election(node.disk, METADATA)
        if durable is None or durable.epoch < epoch:
            self.fail(f"{voter} gives a vote of epoch {epoch}, but its disk says {durable}")
        elif durable.epoch == epoch and (durable.voted is None or not _same(durable.voted, candidate)):
            self.fail(f"{voter} votes for {candidate} in epoch {epoch}, but its disk says {durable}")

    def synced(self, node: Machine) -> None:
        durable = saved_election(node.disk, METADATA)
        if durable is None or durable == node.confirmed_vote:
            return
        if durable.epoch < node.confirmed_vote.epoch:
            self.fail(f"{node.key} went back from {node.confirmed_vote} to {durable}")
        if durable.voted is not None:
            first = self.votes.setdefault((node.key, durable.epoch), durable.voted)
            if not _same(first, durable.voted):
                self.fail(f"{node.key} voted for {first}, and now {durable}")
        node.confirmed_vote = durable

    def started(self, node: Machine) -> None:
        saved = saved_election(node.disk, METADATA) or ElectionState()
        if saved.epoch < node.confirmed_vote.epoch:
            self.fail(f"{node.key} remembers {saved}, it had promised {node.confirmed_vote}")


def _same(one: ReplicaKey, other: ReplicaKey) -> bool:
    """The same replica; at kraft.version 0 a vote does not say which disk."""
    return one.id == other.id and (
        one.directory_id == other.directory_id or ZERO_UUID in (one.directory_id, other.directory_id)
    )


class OnlyVotersCount(Invariant):
    """M4: a leader was elected by a majority of its own set, by replicas in it, and nobody else."""

    name = "M4"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.votes: dict[tuple[int, ReplicaKey], set[ReplicaKey]] = {}

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Machine) -> None:
        self.votes.setdefault((epoch, candidate), set()).add(voter)

    def led(self, node: Machine) -> None:
        process = node.process
        assert process is not None
        epoch, voters = process.node.epoch, _electorate(node)
        given = self.votes.get((epoch, node.key), set()) | {node.key}
        counted = [key for key in sorted(given) if voters.has(key)]
        if len(counted) < voters.majority:
            self.fail(
                f"{node.key} leads epoch {epoch} by the votes of {[str(k) for k in counted]} in {voters}"
            )


def _electorate(node: Machine) -> VoterSet:
    """The set that stood in the node's log when it was elected."""
    assert node.process is not None
    role = node.process.node.role
    assert isinstance(role, Leader)
    return node.process.log_view.voters_at(role.epoch_start)


class NewDiskNewReplica(Invariant):
    """M5: a replica whose disk is gone neither votes nor counts; the new disk does only once it is added."""

    name = "M5"

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Machine) -> None:
        if voter in self.world.graves:
            self.fail(f"{voter} votes, but its disk is gone")

    def led(self, node: Machine) -> None:
        process = node.process
        assert process is not None
        voters = _electorate(node)
        if not any(voter.key.id == node.id and voters.has(node.key) for voter in voters):
            items = process.log_view.voter_sets.items()
            if not any(earlier.has(node.key) for _, earlier in items):
                self.fail(f"{node.key} leads, but never was a voter: {voters}")
