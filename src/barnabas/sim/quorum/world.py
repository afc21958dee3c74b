"""The whole world: nodes, the network between them, one heap of events, and one true time.

Only events make something happen (`kernel.events`).  All randomness comes from the seed.  So a seed is a
history, the same in every process; `digest` is its fingerprint.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from struct import Struct
from typing import ClassVar, Protocol

from barnabas.controller.feature_levels import bootstrap_levels
from barnabas.model import Endpoint, NodeId, Offset, ReplicaKey
from barnabas.raft.effects import Send
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.raft.messages import (
    ChangeRequest,
    ChangeResponse,
    Failed,
    Message,
    RemoveVoterRequest,
    Request,
    Response,
    Supervise,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.voters import Voter
from barnabas.server.node.format import FormatPlan, format_directories
from barnabas.sim.kernel.disk import Loss, MemoryDisk
from barnabas.sim.kernel.events import EventHeap
from barnabas.sim.kernel.report import InvariantViolation, StoryLine
from barnabas.sim.kernel.rng import SeededRandomness
from barnabas.sim.quorum.invariants.committed_log import CommittedLog
from barnabas.sim.quorum.network import Network
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.observer import Observer
from barnabas.sim.quorum.process import DIRECTORY, Process
from barnabas.sim.quorum.requests import Asker, ChangeAsked
from barnabas.sim.quorum.setup import Setup

__all__ = ["Onlooker", "World"]

_TURN = Struct(">diiqq").pack


class Onlooker(Protocol):
    """A fault that waits for its moment (`targeted_faults`)."""

    separates: ClassVar[bool]

    def led(self, node: Machine) -> None: ...
    def appended(self, node: Machine, batch: Batch) -> None: ...
    def installing(self, node: Machine, snapshot: SnapshotId) -> None: ...
    def stood(self, node: Machine) -> None: ...
    def voted(self, node: Machine, candidate: ReplicaKey) -> None: ...
    def truncating(self, node: Machine, end_offset: Offset) -> None: ...


class World(EventHeap):
    """See the module.  `story` True keeps every line that is told; `rotting`: `sim.quorum.lying` damages disks."""

    def __init__(
        self, seed: int, *, story: bool = False, setup: Setup | None = None, rotting: bool = False
    ) -> None:
        super().__init__()
        self.rotting = rotting
        """Disks damage what was synced, and nodes set it aside: small files are as any other there."""
        self.seed = seed
        self.rng = random.Random(f"world {seed}")
        self.setup = setup or Setup.of(random.Random(f"setup {seed}"))
        self.network = Network(self, random.Random(f"network {seed}"))
        self.story: list[StoryLine] | None = [] if story else None
        self.committed_log = CommittedLog()
        self.invariants: Observer[Machine] = Observer()
        """Who watches the nodes: nobody, until `invariants.catalogue.watch`."""
        self.invariants_apart: Observer[Machine] = Observer()
        """Who watches nodes of another quorum: hardly any invariant is about them."""
        self.strangers: set[NodeId] = set()
        """Nodes that were ever formatted to be a quorum of their own."""
        self.graves: dict[ReplicaKey, MemoryDisk] = {}
        """Disks that were taken away, by the replica they were."""
        self.epochs_led: set[int] = set()
        self.places: set[tuple[NodeId, str, int]] = set()
        """Who has ever listened where."""
        self.calm = False
        """Faults and operators are done with: whatever is still planned does not happen."""
        self.hold_until = 0.0
        """A disk was lost: nobody asks for another change before its loss can be noticed."""
        self.autopilot: Supervise | None = None
        """How the controllers' autopilots look; None: they are off."""
        self.onlookers: list[Onlooker] = []
        """Faults that wait for their moment."""
        self.write: Callable[[Machine], object] = lambda node: None
        """Let a client write to this node."""
        self.on_down: Callable[[Machine, str], None] = lambda node, why: None
        self.change_pending: Callable[[], bool] = lambda: False
        self.removals: Counter[ReplicaKey] = Counter()
        """Voters that requests name which are on their way or not answered yet: to remove them."""
        self._ports = 0
        self._hash = hashlib.sha256()
        self.nodes: dict[NodeId, Machine] = {}
        for node_id in self.setup.nodes:
            self.nodes[node_id] = Machine(self, node_id)
        for node in self.nodes.values():
            self.format(node, first=node.id in self.setup.first)
            self.moved(node)

    def __repr__(self) -> str:
        return f"<World seed={self.seed} time={self.time:.3f} events={self.events} {self.committed_log!r}>"

    # What is told of it.

    def tell(self, node: NodeId, text: str) -> None:
        if self.story is not None:
            self.story.append(StoryLine(self.time, f"n{node}" if node else "", text))

    def trace(self, process: Process, message: Message) -> None:
        """A turn was taken: part of the fingerprint."""
        node, log_view = process.node, process.log_view
        high_watermark = node.core.high_watermark
        turn = _TURN(
            self.time,
            process.owner.id,
            node.core.epoch,
            log_view.end_offset,
            -1 if high_watermark is None else high_watermark,
        )
        self._hash.update(type(message).__name__.encode() + turn)

    @property
    def digest(self) -> str:
        """The fingerprint of everything that happened so far."""
        return self._hash.hexdigest()[:32]

    def alarm(self, invariant: str, text: str) -> None:
        raise InvariantViolation(invariant, text)

    # Nodes.

    @property
    def leader(self) -> Machine | None:
        """The leader of the highest epoch among those that run."""
        leaders = [
            n
            for n in self.nodes.values()
            if n.process is not None and n.process.node.is_leader and not n.apart
        ]
        return max(leaders, key=lambda n: n.process.node.epoch if n.process else 0, default=None)

    def format(self, node: Machine, *, first: bool, standalone: bool = False) -> None:
        """What `storage format` does to an empty disk; with `--standalone` the node is a quorum of its own."""
        dynamic = self.setup.kraft_version > 0 or (not first and node.disk_number > 0)
        node.static = not dynamic
        plan = FormatPlan(
            node_id=node.id,
            cluster_id=self.setup.cluster_id,
            directories=(DIRECTORY,),
            metadata_directory=DIRECTORY,
            levels=bootstrap_levels(),
            kraft_version=int(dynamic),
            voters=self.setup.first_voters if first and dynamic else None,
            standalone=node.endpoints[0] if standalone else None,
        )
        rng = SeededRandomness(f"format {self.seed} {node.id} {node.disk_number}")
        result = format_directories(node.disk, node.clock, rng, plan)
        node.key = ReplicaKey(node.id, result.directory_ids[DIRECTORY])
        node.apart = standalone
        if standalone:
            self.strangers.add(node.id)

    def new_port(self) -> int:
        """A port that nobody ever listened at."""
        self._ports += 1
        return 9000 + self._ports

    def moved(self, node: Machine) -> None:
        """The node listens where its endpoint says from now on."""
        addresses = self.network.addresses
        addresses[f"name-of-{node.id}", 9000] = (
            node.id
        )  # what bootstrap servers are given: a name that follows
        for address in [a for a, owner in addresses.items() if owner == node.id and a[0][:4] != "name"]:
            del addresses[address]
        addresses[node.address] = node.id
        self.places.add((node.id, *node.address))

    def move(self, node: Machine) -> None:
        """The node, which is down, gets an address where nobody ever was."""
        old = node.endpoints[0]
        node.endpoints = (Endpoint(old.listener, old.host, self.new_port()),)
        self.moved(node)
        self.tell(node.id, f"listens at port {node.endpoints[0].port}")

    def was_at(self, voter: Voter) -> bool:
        """Whether that node ever listened at that voter's endpoint."""
        return any((voter.key.id, e.host, e.port) in self.places for e in voter.endpoints)

    def bury(self, node: Machine) -> None:
        """The node's disk is taken away."""
        self.graves[node.key] = node.disk

    def down(self, node: Machine, why: str) -> None:
        self.on_down(node, why)

    def loss(self) -> Loss:
        """What a power cut takes."""
        losses: tuple[Loss, ...] = ("all", "some", "some", "none")
        return self.rng.choice(losses)

    def reset(self, node_id: NodeId) -> None:
        """The connections of a node break, and the others see it."""
        for other in self.nodes.values():
            if other.id != node_id and other.process is not None and self.network.reaches(node_id, other.id):
                self._tell_reset(other, node_id)

    def _tell_reset(self, other: Machine, node_id: NodeId) -> None:
        process, run_number = other.process, other.run_number
        assert process is not None
        self.at(0.001, lambda: other.act(run_number, lambda: process.disconnected(node_id)))

    # Requests and answers between nodes.

    def request(self, process: Process, effect: Send) -> None:
        """Carry a request to where it is addressed."""
        source, request = process.owner.id, effect.request
        process.owner.invariants.sending(process.owner, request)
        if self.onlookers and isinstance(request, VoteRequest) and not request.pre_vote:
            for one in list(self.onlookers):
                one.stood(self.nodes[source])
        asker = Asker(source, process.run_number, effect.correlation, request)
        endpoint = effect.endpoint
        target = None if endpoint is None else self.network.addresses.get((endpoint.host, endpoint.port))
        if target is None:
            self.at(0.001, lambda: self._refuse(asker))
        else:
            self.ask(source, target, asker, effect.request, lambda: self._refuse(asker))

    def ask(
        self, source: NodeId, target: NodeId, token: object, request: Request, refused: Callable[[], None]
    ) -> None:
        """Send a request from a node (or from outside: a negative id)."""
        node = self.nodes[target]
        leaves = request.voter if isinstance(request, RemoveVoterRequest) else None

        def deliver() -> None:
            if leaves is not None:
                self.removals[leaves] -= 1
            process = node.process
            listens = source < 0 or not node.without_role  # a broker has no listener for controllers
            if process is not None and listens:
                node.invariants.arrived(node, request)
                node.act(node.run_number, lambda: self._asked(process, token, request))
            elif self.network.reaches(target, source):
                self.at(0.001, refused)

        copies = self.network.send(source, target, deliver)
        if leaves is not None:
            self.removals[leaves] += copies

    def _asked(self, process: Process, token: object, request: Request) -> None:
        """A request reaches a node; an operator who asks for other voters has a right to an answer."""
        if isinstance(request, ChangeRequest):
            token = ChangeAsked(token, request, process.run_number)
            process.owner.invariants.change_asked(process.owner, token)
        process.asked(token, request)

    def _refuse(self, asker: Asker) -> None:
        node = self.nodes[asker.node]
        process = node.process
        if process is not None:
            node.act(
                asker.run_number, lambda: process.receive(Failed(asker.correlation, "connection refused"))
            )

    def respond(self, process: Process, token: object, response: Response, data: bytes) -> None:
        """Carry a response to the node or operator that waits for it."""
        source = process.owner
        if isinstance(token, ChangeAsked):
            token.answered = True
            source.invariants.change_answered(source, token, response)
            token = token.token
        if isinstance(token, Asker):
            if isinstance(response, VoteResponse) and response.granted:
                request = token.request
                assert isinstance(request, VoteRequest)
                if not request.pre_vote:
                    source.invariants.voted(source.key, request.epoch, request.candidate, source)
            self.network.send(source.id, token.node, lambda: self._answer(token, response, data))
        else:
            assert callable(token) and isinstance(response, ChangeResponse)
            self.network.send(source.id, -1, lambda: token(response))

    def _answer(self, asker: Asker, response: Response, data: bytes) -> None:
        node = self.nodes[asker.node]
        process = node.process
        if process is not None:
            node.act(asker.run_number, lambda: process.heard(asker.correlation, response, data))
