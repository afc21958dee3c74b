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
from barnabas.raft.messages import (
    ChangeRequest,
    ChangeResponse,
    ReassignRequest,
)
from barnabas.sim.quorum.invariants.committed_log import FEATURES, SETTINGS_OF
from barnabas.sim.quorum.node import Node
from barnabas.sim.quorum.world import World
from barnabas.wire.metadata import ConfigRecord

__all__ = ["Operation", "Operator", "Writers"]

_SETTINGS = 40


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

    def write(self, node: Node) -> str | None:
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
        self.done[kind] += 1
        world.tell(0, f"operator {-self.id}: {operation}")
        patience = getattr(request, "timeout", 5.0) + 3.0

        def end(outcome: ErrorCode | None) -> None:
            if operation in self.pending:
                self.pending.remove(operation)
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
