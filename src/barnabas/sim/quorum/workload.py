"""What clients and operators request of the quorum: records and voter changes, all the time.

Writers propose records at a leader.  Operators request changes like a person or a tool: they send a request,
wait, ask again elsewhere, and may never learn the outcome.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from barnabas.controller.feature_levels import bootstrap_levels, bootstrap_records
from barnabas.controller.image import RESOURCE_BROKER
from barnabas.errors import ErrorCode
from barnabas.model import ReplicaKey
from barnabas.raft.membership.target import AUTOPILOT
from barnabas.raft.messages import (
    ChangeRequest,
    ChangeResponse,
    ReassignRequest,
    RemoveVoterRequest,
    Supervise,
)
from barnabas.raft.value import altered
from barnabas.sim.quorum.invariants.committed_log import FEATURES, SETTINGS_OF
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World
from barnabas.wire.metadata import ConfigRecord

__all__ = ["Autopilot", "Operation", "Operator", "Writers"]

_SETTINGS = 40
_AUTOPILOT_SHARE = 0.3
"""Of so many seeds it is a part."""


class Writers:
    """Clients of the controller: each write is a batch of settings, acknowledged once committed."""

    def __init__(self, world: World, *, interval: float, rng: random.Random) -> None:
        self.world = world
        self.interval = interval
        self.proposed = 0
        self.stopped = False
        self._rng = rng
        world.write = self.write
        world.at(0.1, self._next)

    def __repr__(self) -> str:
        return f"<Writers proposed={self.proposed}>"

    def _next(self) -> None:
        if self.stopped:
            return
        for node in list(self.world.nodes.values()):
            if node.process is not None and not node.paused and node.process.active_epoch >= 0:
                for _ in range(self._rng.choice((1, 1, 2, 4))):
                    self.write(node)
        self.world.at(self._rng.expovariate(1 / self.interval), self._next)

    def write(self, node: Machine) -> str | None:
        """Propose one batch at this node; the write's name, None where it does not lead."""
        process = node.process
        if process is None:
            return None
        if not process.replay.image.features and process.log_view.end_offset < 60:
            process.propose(FEATURES, tuple(bootstrap_records(bootstrap_levels())))
            if (process := node.process) is None:
                return None
        names = []
        records = []
        for _ in range(self._rng.choice((1, 1, 2))):
            self.proposed += 1
            setting = f"s{self._rng.randrange(_SETTINGS)}"
            names.append(f"{setting}/{self.proposed}")
            records.append(
                ConfigRecord(
                    resource_type=RESOURCE_BROKER,
                    resource_name=SETTINGS_OF,
                    name=setting,
                    value=names[-1],
                )
            )
        write = " ".join(names)
        return write if process.propose(write, tuple(records)) else None


class Operation:
    """One request for a change, from its first sending to its end."""

    __slots__ = ("answer", "began", "kind", "request", "target")

    def __init__(self, kind: str, request: ChangeRequest, began: float) -> None:
        self.kind = kind
        self.request = request
        self.began = began
        self.answer: ChangeResponse | None = None
        self.target: ReplicaKey | None = getattr(request, "voter", None)

    def __str__(self) -> str:
        what = self.target if self.target is not None else getattr(self.request, "target", "")
        return f"{self.kind} {what}"


class Operator:
    """Somebody who changes the voters: `ask` sends, sends again when told to go elsewhere, and listens."""

    def __init__(self, world: World, number: int, rng: random.Random) -> None:
        self.world = world
        self.id = -number
        self.pending: list[Operation] = []
        self.outcomes: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._rng = rng

    def __repr__(self) -> str:
        return f"<Operator {-self.id} pending={[str(one) for one in self.pending]}>"

    def ask(
        self, kind: str, request: ChangeRequest, then: Callable[[ErrorCode | None], None] | None = None
    ) -> Operation:
        """Send it to the leader, as far as the operator knows; `then` gets the outcome, None: unknown."""
        world = self.world
        operation = Operation(kind, request, world.time)
        self.pending.append(operation)
        leaves = request.voter if isinstance(request, RemoveVoterRequest) else None
        if leaves is not None:
            world.removals[leaves] += 1
        self.done[kind] += 1
        world.tell(0, f"operator {-self.id}: {operation}")
        patience = getattr(request, "timeout", 5.0) + 3.0

        def end(outcome: ErrorCode | None) -> None:
            if operation in self.pending:
                self.pending.remove(operation)
                if leaves is not None:
                    world.removals[leaves] -= 1
                name = "unknown" if outcome is None else outcome.name
                self.outcomes[f"{kind}: {name}"] += 1
                world.tell(0, f"operator {-self.id}: {operation} -> {name}")
                if then is not None:
                    then(outcome)

        world.at(patience, lambda: end(None))
        self._send(operation, 4, end)
        return operation

    def _send(self, operation: Operation, tries: int, end: Callable[[ErrorCode | None], None]) -> None:
        world = self.world
        if operation not in self.pending:
            return
        up = [node for node in world.nodes.values() if node.up]
        leader = world.leader
        if not up:
            world.at(0.5, lambda: self._send(operation, tries, end))
            return
        target = leader if leader is not None and self._rng.random() < 0.9 else self._rng.choice(up)

        def again() -> None:
            if tries > 0:
                world.at(0.3, lambda: self._send(operation, tries - 1, end))
            else:
                end(None)

        def answered(response: object) -> None:
            if operation not in self.pending or operation.answer is not None:
                return
            assert isinstance(response, ChangeResponse)
            if response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and tries > 0:
                again()
                return
            operation.answer = response
            end(response.error)

        world.ask(self.id, target.id, answered, operation.request, again)


def reassign(world: World, ids: tuple[int, ...] | None, timeout: float = 10.0) -> ReassignRequest:
    """The request for a target set, with the endpoints that a controller would know."""
    endpoints = tuple((node.id, node.endpoints) for node in world.nodes.values())
    return ReassignRequest(ids, endpoints, timeout, world.setup.cluster_id)


class Autopilot:
    """In some seeds it is switched on in the safety phase: every controller looks once in a while.

    It draws from a generator of its own, so a seed without it is what it would be if there were no autopilot.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.done: Counter[str] = Counter()
        rng = random.Random(f"autopilot {world.seed}")
        if rng.random() >= _AUTOPILOT_SHARE:
            return
        order = Supervise(
            size=rng.choice((3, 3, 5)),
            stability=rng.choice((1.0, 2.0, 3.0)),
            dead=rng.choice((2.5, 5.0)),
            interval=0.5,
            standbys=(),
            dry_run=rng.random() < 0.15,
        )
        world.at(rng.uniform(3.0, 15.0), lambda: self._switch_on(order))

    def __repr__(self) -> str:
        return f"<Autopilot {self.world.autopilot}>"

    def _switch_on(self, order: Supervise) -> None:
        self.world.autopilot = order
        self.world.tell(0, f"the autopilot is on: {order}")
        self.done["autopilot"] += 1
        self._look(order)

    def _look(self, order: Supervise) -> None:
        world = self.world
        if world.calm:
            return
        if world.time >= world.hold_until:
            places = tuple((node.id, node.endpoints) for node in world.nodes.values() if not node.apart)
            for node in list(world.nodes.values()):
                if not node.apart:
                    self._order(node, altered(order, standbys=places))
        world.at(order.interval, lambda: self._look(order))

    def _order(self, node: Machine, order: Supervise) -> None:
        process = node.process
        if process is None:
            return

        def look() -> None:
            before = process.log_view.note(AUTOPILOT)
            process.receive(order)
            if process.log_view.note(AUTOPILOT) not in (None, before):
                self.done["a target of the autopilot"] += 1

        node.act(node.run_number, look)
