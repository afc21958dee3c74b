"""Q10: a voter whose disk lost entries neither leads nor helps somebody to lead who lacks them."""

from __future__ import annotations

from barnabas.model import Epoch, Offset, ReplicaKey
from barnabas.raft.messages import Request, VoteRequest
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World

__all__ = ["NothingLostIsVotedAway"]

End = tuple[Epoch, Offset]


class NothingLostIsVotedAway(Invariant):
    """Q10: each vote, and a leader's own, goes to a log with all that its voter had synced and that is committed;
    one vote per epoch and replica, whatever its disk remembers; no damage keeps a voter from starting, and none
    calls entries lost whose disk lost none.
    """

    name = "Q10"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.had: dict[ReplicaKey, End] = {}
        """Where the log of each replica ended when it was synced, at most."""
        self.asked: dict[tuple[ReplicaKey, Epoch, ReplicaKey], End] = {}
        """What a candidate says of its log."""
        self.votes: dict[tuple[ReplicaKey, Epoch], ReplicaKey] = {}

    def started(self, node: Machine) -> None:
        assert node.process is not None
        log_view = node.process.log_view
        if log_view.lacks and not node.rotten:
            end = log_view.last_epoch, log_view.end_offset
            said = log_view.synced_end.end
            self.fail(f"{node.key} ends at {end} and calls {said} synced, though its disk lost nothing")

    def stepped(self, node: Machine) -> None:
        assert node.process is not None
        log_view = node.process.log_view
        synced = log_view.epoch_at(log_view.persisted - 1), log_view.persisted
        self.had[node.key] = max(synced, self.had.get(node.key, synced))

    def sending(self, node: Machine, request: Request) -> None:
        """A candidate has voted for itself."""
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self._ask(node.key, request)
            self.voted(node.key, request.epoch, request.candidate, node)

    def arrived(self, node: Machine, request: Request) -> None:
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self._ask(node.key, request)

    def _ask(self, voter: ReplicaKey, request: VoteRequest) -> None:
        self.asked[voter, request.epoch, request.candidate] = request.last_epoch, request.last_offset

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Machine) -> None:
        first = self.votes.setdefault((voter, epoch), candidate)
        if first.id != candidate.id:
            self.fail(f"{voter} gives its vote of epoch {epoch} to {first} and to {candidate}")
        needs, has = self._needs(voter), self.asked[voter, epoch, candidate]
        if has < needs:
            self.fail(f"{voter} had synced {needs}, which is committed, and votes for {candidate} with {has}")

    def _needs(self, voter: ReplicaKey) -> End:
        """The newest committed entry that this voter had."""
        had = self.had.get(voter, (0, 0))
        batches = self.world.committed_log.batches.values()
        return max((end for one in batches if (end := (one.epoch, one.end_offset)) <= had), default=(0, 0))
