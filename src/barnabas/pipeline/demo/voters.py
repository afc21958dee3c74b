"""The quorum's move from 1, 2, 3 to 4, 5, 6 while the flights go through: three controllers more, one command.

Each step returns whether it is done, and is asked again, for the demo goes on meanwhile.  Nodes 1, 2 and 3 stay
brokers: the flights do not notice who decides on the metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.quorum import reassign_controllers
from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.node import DemoNode, free_ports
from barnabas.pipeline.demo.nodes import Nodes
from barnabas.pipeline.demo.strikes import Scene

__all__ = ["VoterMove"]

TARGET = (4, 5, 6)
MOVE = "barnabas quorum reassign --target 4,5,6"
LOOK_EVERY_S = 0.5
"""Commands and looks at the quorum are made so often at most."""


class VoterMove:
    """Its methods are the steps, in order."""

    def __init__(self, scene: Scene, nodes: Nodes, work: str) -> None:
        ports = free_ports(2 * len(TARGET))
        known = [*nodes.controllers, *ports[len(TARGET) :]]
        self._nodes = nodes
        self._new = {
            number: DemoNode(number, work, (ports[i], ports[len(TARGET) + i]), known, "controller")
            for i, number in enumerate(TARGET)
        }
        self._scene = scene
        self._looked_at = self._began = 0.0
        self.began_at = self.ended_at = 0
        """Rows that were acknowledged when the move began and when it had ended."""

    def __repr__(self) -> str:
        return f"<VoterMove {list(self._new.values())}>"

    def start(self) -> bool:
        """Format and start the new controllers."""
        for node in self._new.values():
            formatting = node.format_to_join(self._nodes.cluster)
            if formatting.process.wait():
                raise BarnabasError(f"{node.name}: {formatting.tail()}", next_step=f"read {formatting.log}")
            formatting.end()
            node.start()
        self._scene.say("controllers 4, 5 and 6 start: they follow, and do not vote yet", "yellow")
        return True

    def follow(self) -> bool:
        """Whether all of them answer and the leader has heard of them."""
        return all(node.running or node.ready() for node in self._new.values()) and self._holds(
            lambda voters, observers: set(TARGET) <= observers
        )

    def ask(self) -> bool:
        """Type `MOVE`."""
        with Admin(self._nodes.bootstrap, client_id="demo-voters") as admin:
            reassign_controllers(admin.cluster, TARGET)
        self._began, self.began_at = time.monotonic(), self._scene.delivered()
        self._scene.timeline.begin(MOVE, killed=False)
        self._scene.say(f"{MOVE}: at row {self.began_at:,}", "bold red")
        return True

    def moved(self) -> bool:
        """Whether 4, 5 and 6, and nobody else, are the voters; said once."""
        for node in self._new.values():
            node.check()
        if not self._holds(lambda voters, observers: voters == set(TARGET)):
            return False
        self.ended_at = self._scene.delivered()
        self._scene.timeline.end(MOVE)
        took = time.monotonic() - self._began
        self._scene.say(f"voters are 4, 5 and 6 after {took:.1f} s, at row {self.ended_at:,}", "bold green")
        return True

    def _holds(self, what: Callable[[set[int], set[int]], bool]) -> bool:
        """Whether the quorum's voters and observers are like this; not asked too often."""
        now = time.monotonic()
        if now < self._looked_at + LOOK_EVERY_S:
            return False
        self._looked_at = now
        try:
            with Admin(self._nodes.bootstrap, client_id="demo-voters", timeout=2.0) as admin:
                quorum = admin.quorum()
        except BarnabasError:  # there is no leader at the moment
            return False
        return what({v.id for v in quorum.voters}, {o.id for o in quorum.observers})
