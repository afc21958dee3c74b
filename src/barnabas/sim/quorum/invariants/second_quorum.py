"""The invariant of a node that was formatted to be a quorum of its own, beside the first one."""

from __future__ import annotations

from barnabas.model import NodeId
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World

__all__ = ["NobodyElse"]


class NobodyElse(Invariant):
    """M12: a node formatted to be a quorum of its own begins it only if nobody of the first one could answer it.

    It is the one invariant about such a node.
    """

    name = "M12"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.others: dict[NodeId, tuple[int, int]] = {}
        self.troubles = 0

    def started(self, node: Machine) -> None:
        """It may ask from now on."""
        self.others = {other.id: (other.run_number, other.pauses) for other in self._at_hand(node)}
        self.troubles = self.world.network.troubles

    def led(self, node: Machine) -> None:
        assert node.process is not None
        if node.process.node.epoch > 1 or self.troubles != self.world.network.troubles:
            return
        for other in self._at_hand(node):
            if self.others.get(other.id) == (other.run_number, other.pauses):
                self.fail(
                    f"{node.key} begins a second quorum, though {other.key} of the first one was at hand"
                )

    def _at_hand(self, node: Machine) -> list[Machine]:
        """Nodes of the first quorum that hear and answer at once."""
        network = self.world.network
        return [
            other
            for other in self.world.nodes.values()
            if other.process is not None
            and other.id in (self.world.setup.known or self.world.nodes)  # whose names it was given
            and not (other.apart or other.paused or other.without_role)  # (a broker is not asked)
            and other.process.node.epoch > 0
            and not other.process.node.core.unsaved  # it answers nobody before that is on its disk
            and max(network.base_delay, other.latency[1]) < 0.1
            and network.reaches(node.id, other.id)
            and network.reaches(other.id, node.id)
        ]
