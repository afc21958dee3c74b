"""Invariants of what nodes say: answers to operators are timely and true, and messages to nodes leave only when
written.
"""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.model import Offset, ReplicaKey
from barnabas.raft.membership.target import TARGET, parse_target
from barnabas.raft.messages import (
    AddVoterRequest,
    CancelChangeRequest,
    ChangeResponse,
    FetchRequest,
    FetchResponse,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
    Response,
    TransferRequest,
    UpgradeRequest,
    VoteRequest,
)
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.invariants.durable_view import survives_power_cut
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.requests import ChangeAsked
from barnabas.sim.quorum.world import World

__all__ = ["AnsweredInTime", "HonestAnswers", "WrittenBeforeSent"]


class HonestAnswers(Invariant):
    """M7: success means committed (with AckWhenCommitted=false: in the leader's log); for a
    cancellation, that the asker of the cancelled change was told so.
    """

    name = "M7"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.withdrawn: set[tuple[ReplicaKey, int, ReplicaKey]] = set()

    def change_asked(self, node: Machine, change: ChangeAsked) -> None:
        committed_log = self.world.committed_log
        change.sets, change.notes = len(committed_log.sets), len(committed_log.targets)

    def change_answered(self, node: Machine, change: ChangeAsked, response: Response) -> None:
        assert isinstance(response, ChangeResponse)
        request = change.request
        if response.error is ErrorCode.OPERATION_NOT_ATTEMPTED:
            if isinstance(request, (AddVoterRequest, RemoveVoterRequest)):
                self.withdrawn.add((node.key, change.run_number, request.voter))
        elif response.error is ErrorCode.NONE:
            here = self._wrong_here(node, change)
            if here:
                self.fail(f"{node.key} says that {change} is done, but {here}")
            # What the leader has decided in this very turn is told on when the turn is over.
            self.world.at(0.0, lambda: self._check(node, change))

    def _wrong_here(self, node: Machine, change: ChangeAsked) -> str | None:
        process, request = node.process, change.request
        assert process is not None
        if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
            if all(request.voter not in voters.keys for _, voters in process.log_view.voter_sets.items()):
                return "its log does not have it"
        elif isinstance(request, CancelChangeRequest):
            if (node.key, change.run_number, request.voter) not in self.withdrawn:
                return "nobody was told that it is withdrawn"
        elif isinstance(request, TransferRequest) and process.node.is_leader and request.to != node.id:
            return "it leads on"
        return None

    def _check(self, node: Machine, change: ChangeAsked) -> None:
        wrong = self._wrong(change)
        if wrong:
            self.fail(f"{node.key} says that {change} is done, but {wrong}")

    def _wrong(self, change: ChangeAsked) -> str | None:
        """What is wrong with calling this done."""
        committed_log, request = self.world.committed_log, change.request
        since = [voters for _, voters in committed_log.sets[max(0, change.sets - 1) :]]
        if isinstance(request, AddVoterRequest) and request.ack_when_committed:
            if not any(request.voter in voters.keys for voters in since):
                return "no committed set has it"
        elif isinstance(request, RemoveVoterRequest):
            if all(request.voter in voters.keys for voters in since):
                return "every committed set has it"
        elif isinstance(request, UpgradeRequest):
            if committed_log.kraft_version < request.version and not request.validate_only:
                return f"kraft.version {committed_log.kraft_version} is committed"
        elif isinstance(request, ReassignRequest):
            targets = committed_log.targets[max(0, change.notes - 1) :]
            if request.target is None:
                return None if None in targets else "no cancellation is committed"
            ids = tuple(sorted(request.target))
            named = [tuple(sorted(m.key.id for m in parse_target(one))) for one in targets if one is not None]
            if ids not in named and ids not in [tuple(sorted(voters.ids)) for voters in since]:
                return f"no such {TARGET} is committed"
        return None


class AnsweredInTime(Invariant):
    """L2: a request for other voters is answered before its time is up, and a little more
    (its disk may be slow, and what it says may rest on what is being saved), unless the node dies.
    """

    name = "L2"
    bound = 5.0
    """Seconds of the node's clock."""

    def change_asked(self, node: Machine, change: ChangeAsked) -> None:
        process, request = node.process, change.request
        assert process is not None
        limit = process.config.request_timeout
        if isinstance(request, (AddVoterRequest, ReassignRequest, TransferRequest)):
            limit = request.timeout
        self._look_at(node.clock.mono + limit + self.bound, node, change)

    def _look_at(self, mono: float, node: Machine, change: ChangeAsked) -> None:
        self.world.when(node.clock.world_time_of(mono), lambda: self._look(mono, node, change))

    def _look(self, mono: float, node: Machine, change: ChangeAsked) -> None:
        if change.answered or node.run_number != change.run_number or node.process is None:
            return
        if node.paused or node.process.stopping:
            self._look_at(node.clock.mono + self.bound, node, change)
        elif node.clock.mono < mono - 0.001:  # its clock runs differently by now
            self._look_at(mono, node, change)
        else:
            self.fail(f"{node.key} has not answered {change}, though its time is up; it is {node.process!r}")


class WrittenBeforeSent(Invariant):
    """S2: what a message speaks of stands in the files before it leaves, and what a fetch of a voter says it has
    is durable, whatever the role of its node and whomever it asks.
    """

    name = "S2"

    def sending(self, node: Machine, request: Request) -> None:
        if isinstance(request, FetchRequest):
            self._written(node, request.offset, "asks for what follows")
            self._durable(node, request)
        elif isinstance(request, VoteRequest):
            self._written(node, request.last_offset, "stands with a log up to")

    def replying(self, node: Machine, response: Response) -> None:
        if isinstance(response, FetchResponse) and response.read is not None:
            self._written(node, response.read.end, "answers a fetch up to")

    def _durable(self, node: Machine, request: FetchRequest) -> None:
        process = node.process
        assert process is not None
        if node.rotten or not process.node.voters.has(node.key):
            return
        if not survives_power_cut(node.disk, METADATA, request.offset, request.last_epoch):
            self.fail(
                f"{node.key}, a voter, fetches from {request.offset}, and a power cut would take some of it"
            )

    def _written(self, node: Machine, end: Offset, what: str) -> None:
        assert node.process is not None
        written = node.process.store.log.log_end_offset
        if end > written:
            self.fail(f"{node.key} {what} {end}, its log is written up to {written}")
