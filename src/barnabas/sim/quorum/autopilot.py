"""The autopilot in a seed: in some it is switched on in the safety phase, with sizes and times drawn.

It draws from a generator of its own, so a seed without it is what it would be if there were no autopilot.
"""

from __future__ import annotations

import random
from collections import Counter

from barnabas.raft.membership.target import AUTOPILOT
from barnabas.raft.messages import Supervise
from barnabas.raft.value import altered
from barnabas.sim.quorum.node import Node
from barnabas.sim.quorum.world import World

__all__ = ["Autopilot"]

SHARE = 0.3
"""Of so many seeds it is a part."""


class Autopilot:
    """Every controller looks once in a while, at its own clock; the leader's look counts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done: Counter[str] = Counter()
        rng = random.Random(f"autopilot {world.seed}")
        if rng.random() >= SHARE:
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

    def _order(self, node: Node, order: Supervise) -> None:
        process = node.process
        if process is None:
            return

        def look() -> None:
            before = process.log_view.note(AUTOPILOT)
            process.receive(order)
            if process.log_view.note(AUTOPILOT) not in (None, before):
                self.done["a target of the autopilot"] += 1

        node.act(node.run_number, look)
