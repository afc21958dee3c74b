"""A wrong format on a known node: an operator formats an empty disk of a controller to be a quorum of its own.

The node's own disk is put aside, as after a forgotten mount, and comes back at the end.  Meanwhile the
operator runs `storage format --standalone` with the cluster's id.  With the properties that name the other
controllers, the format must refuse.  With other properties, the node must refuse to start a quorum.  If the
node is cut off until it leads, the two quorums must coexist without harm.  After a refusal the operator runs
the command that the refusal names.
"""

from __future__ import annotations

from barnabas.config import Config
from barnabas.errors import ConfigError
from barnabas.server.node.existing_quorum import refuse_second_quorum
from barnabas.sim.cluster.faults import ClusterFault
from barnabas.sim.cluster.loop import VirtualLoop

__all__ = ["WrongFormat"]

LOOK_EVERY = 0.05


class WrongFormat(ClusterFault):
    """`storage format --standalone` on a controller of this cluster."""

    name = "wrong format on a known node"
    rate = 2.0
    duration = (5.0, 14.0)

    def begin(self) -> str | None:
        world, setup = self.world, self.world.setup
        if setup.static or len(setup.controllers) < 3 or any(n.apart for n in world.nodes.values()):
            return None
        if world.emptied:
            return None  # see sim.cluster.budget
        nodes = [n for n in world.nodes.values() if n.is_controller and n.serves and not n.stopping]
        nodes = [node for node in nodes if not node.paused and not node.damaged]
        if not nodes:
            return None
        self.node = node = self.rng.choice(nodes)
        node.power_cut("none", "an operator puts its disk aside")
        node.put_aside()
        node.host.power_back()
        self.cuts: list[tuple[str, str]] = []
        self.over = False
        self.again = self.rng.choice((0, 2, 5))
        """Times that it is started again before it meets the others."""
        self.at_hand = self._at_hand()
        self._look()
        how = self.rng.choice(("with the right properties", "with other properties", "cut off"))
        if how == "with the right properties":
            self._type()
        else:
            if how == "cut off":
                others = [name for name in self._names() if name != node.host.name]
                self.cuts = [pair for o in others for pair in ((o, node.host.name), (node.host.name, o))]
                world.network.cut(self.cuts)
                world.at(self.rng.uniform(3.5, 7.0), self._mend)
            node.format(standalone=True)
            node.start()
        return f"{node.host.name}, {how}"

    def _type(self) -> None:
        """The command line, on that machine."""
        world, node = self.world, self.node
        loop = VirtualLoop.of(
            world.scheduler,
            node.host,
            f"{node.host.name}.format.{node.disks}",
            on_error=lambda error, what: world.alarm(
                "S1", f"storage format: {error!r} escaped from {what!r}"
            ),
        )
        world.graves.append(loop)

        async def command() -> None:
            config = Config.load(node.properties())
            try:
                await refuse_second_quorum(config, world.setup.cluster_id)
            except ConfigError as refusal:
                world.tell(node.id, f"is not formatted: {refusal.message}")
                joins = True
            else:
                joins = False
                if self.at_hand:
                    world.alarm(
                        "M12", f"{node.host.name} is formatted alone, though {self.at_hand} could answer"
                    )
            loop.end()
            if not self.over:
                node.format(standalone=not joins, joins=joins)
                node.start()

        loop.call_soon(lambda: loop.create_task(command(), name="storage format"))

    # Who could answer.

    def _at_hand(self) -> set[tuple[int, int]]:
        """Controllers, and their run numbers, that hear this node and answer it at once."""
        network, node = self.world.network, self.node
        if network.tail or network.slow or network.base[1] > 0.05:
            return set()
        return {
            (other.id, other.run_number)
            for other in self.world.nodes.values()
            if other.is_controller
            and other is not node
            and other.serves
            and not (other.paused or other.stopping)
            and other.disk.stalled_until <= self.world.time
            and other.disk.latency[1] <= 0.05
            and other.quorum is not None
            and other.quorum.epoch > 0
            and not network.is_cut(node.host, other.host)
            and not network.is_cut(other.host, node.host)
        }

    def _look(self) -> None:
        if self.over:
            return
        self.at_hand &= self._at_hand()
        quorum = self.node.own_quorum
        if quorum is not None and quorum.is_active_controller:
            if self.at_hand:
                who = self.node.host.name
                self.world.alarm("M12", f"{who} begins a second quorum, {self.at_hand} could answer")
            if self.cuts and self.again and not self.node.paused:
                self.again -= 1
                self.node.kill("it is started again: its epoch is another one")
                self.world.start_in(LOOK_EVERY, self.node)
        self.world.at(LOOK_EVERY, self._look)

    def _mend(self) -> None:
        self.world.network.mend(self.cuts)
        self.cuts = []

    def end(self) -> None:
        """The right disk is mounted again."""
        self.over = True
        self._mend()
        if self.node.up:
            self.node.power_cut("all", "an operator mounts its own disk again")
        self.node.put_back()
        self.world.start_in(0.1, self.node)
