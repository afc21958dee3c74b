"""A wrong format on a known node: an operator empties it and formats it to be a quorum of its own.

The node keeps its id, its address and the id of the cluster.  Sometimes it can ask the others when it starts:
then it must refuse to start a quorum.  Sometimes it is cut off until it leads, has written, and has overtaken
the epochs of the others: then each side must treat the other as a stranger, whatever restarts meanwhile.
There is no guarantee for what that node commits; all other invariants hold beside it.

A node that knows no quorum yet may join either of the two.  So there is no such node when this happens, and
no other disk is replaced as long as there are two quorums.
"""

from __future__ import annotations

from math import inf

from barnabas.model import ZERO_UUID, NodeId
from barnabas.sim.quorum.budget import may_lose
from barnabas.sim.quorum.faults import QuorumFault
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.invariants.durable_view import saved_election
from barnabas.sim.quorum.node import Machine

__all__ = ["WrongFormat"]


def knows_its_quorum(node: Machine) -> bool:
    """Whether this node cannot go astray: it has written down which quorum it is of, and keeps its disk."""
    saved = saved_election(node.disk, METADATA)
    return not node.apart and not node.rotten and saved is not None and saved.origin != ZERO_UUID


class WrongFormat(QuorumFault):
    """`storage format --standalone` on a node of this cluster, whose disk was emptied."""

    name = "wrong format on a known node"
    rate = 1.5
    duration = (8.0, 20.0)

    def begin(self) -> str | None:
        world = self.world
        nodes = list(world.nodes.values())
        if not all(knows_its_quorum(node) for node in nodes):
            return None
        self.rng.shuffle(nodes)
        for node in nodes:
            # Where one name is all that anybody knows, nobody could be found any more once the others have moved.
            if world.setup.known != (node.id,) and may_lose(world, node, quiet=not world.change_pending()):
                return self._strike(node)
        return None

    def _strike(self, node: Machine) -> str:
        world = self.world
        self.node, self.disk_number = node, node.disk_number + 1
        if node.process is not None:
            node.off("all", "an operator empties its directory", reset=True)
        node.new_disk()
        world.format(node, first=False, standalone=True)
        world.hold_until = world.time + 2 * world.setup.fetch_timeout + 1.0
        self.cut: list[tuple[NodeId, NodeId]] = []
        if self.rng.random() < 0.3:
            return f"node {node.id}, which can ask the others"
        others = [other for other in world.nodes if other != node.id]
        self.cut = [pair for other in others for pair in ((node.id, other), (other, node.id))]
        world.network.cut(self.cut)
        world.at(self.rng.uniform(2.5, 7.0), self._meet)
        for _ in range(self.rng.choice((0, 1, 3))):
            world.at(self.rng.uniform(1.0, 6.0), self._again)
        return f"node {node.id}, cut off until it leads"

    @property
    def _stands(self) -> bool:
        return self.node.apart and self.node.disk_number == self.disk_number

    def _again(self) -> None:
        """It restarts: its epoch is another one."""
        node = self.node
        if self._stands and node.process is not None:
            for _ in range(self.rng.randint(0, 20)):
                self.world.write(node)
            if node.process is not None:
                node.off("none", "it is started again")
            node.restart_at = self.world.time + 0.1

    def _meet(self) -> None:
        self.world.network.mend(self.cut)
        self.cut = []

    def end(self) -> None:
        """The operator sees it, empties the directory again, and lets the node join (or has not seen it yet)."""
        self._meet()
        if not self._stands or (self.world.calm and self.rng.random() < 0.5):
            return
        node = self.node
        if node.process is not None:
            node.off("all", "an operator empties its directory again")
        node.new_disk()
        node.restart_at = inf
        self.world.format(node, first=False)
