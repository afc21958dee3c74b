"""The faults of a cluster, each a noun (see `kernel.fault`)."""

from __future__ import annotations

from typing import ClassVar

from barnabas.sim.cluster import platform
from barnabas.sim.cluster.budget import may_lose
from barnabas.sim.cluster.network import Network
from barnabas.sim.cluster.node import SimNode
from barnabas.sim.cluster.world import World
from barnabas.sim.kernel.fault import Fault, LinkCut, NodeFault, both_ways

__all__ = ["FAULTS", "ClusterFault"]

Pairs = list[tuple[str, str]]


class ClusterFault(Fault[World]):
    """One occurrence of a fault of a cluster."""

    duration = (0.3, 5.0)

    # What the nouns below choose from.

    def _up(self) -> SimNode | None:
        """A node that runs; often one where most can go wrong."""
        up = [node for node in self.world.nodes.values() if node.up and not node.paused and not node.stopping]
        if not up:
            return None
        kind = self.rng.random()
        if kind < 0.3 and (leader := self.world.leader_of_something(self.rng)) in up:
            return leader
        if kind < 0.5 and (active := self.world.active_controller) in up:
            return active
        return self.rng.choice(up)

    def _names(self) -> list[str]:
        return [node.host.name for node in self.world.nodes.values()]


class _OnANode(ClusterFault, NodeFault[World, SimNode]):
    """A fault of one node that runs."""


class _OnADisk(_OnANode):
    """A fault of the disk that a node has when it begins; the node may have another one when it ends."""

    disk: platform.SlowDisk

    def strike(self, node: SimNode) -> str:
        self.disk = node.disk
        return f"{node.host.name}{self.hurt(node)}"

    def hurt(self, node: SimNode) -> str:
        """Do the damage to the disk; what it is, in words that follow the name of its node."""
        raise NotImplementedError


# ------------------------------------------------------------------ the network


class Delay(ClusterFault):
    """Every packet is slow."""

    name = "delay"
    before = (0.0001, 0.0008)

    def begin(self) -> str | None:
        slow = self.rng.choice((0.01, 0.05, 0.2))
        self.world.network.base = (slow / 2, slow)
        return f"up to {slow} s each way"

    def end(self) -> None:
        self.world.network.base = self.before


class LostPackets(ClusterFault):
    """Some packets have to be sent again: what is after them waits."""

    name = "lost packets"
    rate = 1.5

    def begin(self) -> str | None:
        network = self.world.network
        network.tail, network.tail_delay = (
            self.rng.choice((0.02, 0.1, 0.3)),
            self.rng.choice((0.2, 1.0, 3.0)),
        )
        return f"{network.tail:.0%} of the packets up to {network.tail_delay} s late"

    def end(self) -> None:
        self.world.network.tail = 0.0


class SlowHost(_OnANode):
    """Everything to and from one node is slow."""

    name = "slow host"

    def strike(self, node: SimNode) -> str:
        self.host = node.host.name
        slow = self.rng.choice((0.05, 0.3, 1.0))
        self.world.network.slow[self.host] = slow
        return f"{self.host}, {slow} s each way"

    def end(self) -> None:
        self.world.network.slow.pop(self.host, None)


class _Cut(ClusterFault, LinkCut[World, str]):
    """Some pairs of machines cannot talk."""

    duration = (0.3, 8.0)

    @property
    def links(self) -> Network:
        return self.world.network


class Partition(_Cut):
    """Two groups of nodes that do not hear each other; clients hear both, or one."""

    name = "partition"
    rate = 2.0

    def choose(self) -> tuple[Pairs, str]:
        names = self._names()
        self.rng.shuffle(names)
        at = self.rng.randint(1, len(names) - 1)
        one, two = sorted(names[:at]), sorted(names[at:])
        if self.rng.random() < 0.5:
            return both_ways(one, two), f"{one} | {two}"
        clients = list(self.world.clients)
        return both_ways(one, two + clients), f"{one} | {two} and the clients"


class Isolation(_Cut):
    """One node alone."""

    name = "isolation"
    rate = 2.0

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        others = [name for name in self._names() if name != node.host.name]
        if self.rng.random() < 0.5:
            others += list(self.world.clients)
            return both_ways([node.host.name], others), f"{node.host.name} from everybody"
        return both_ways([node.host.name], others), f"{node.host.name}; clients reach it"


class OneWay(_Cut):
    """A node is heard but hears nothing, or the other way round."""

    name = "one-way cut"
    rate = 1.5

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        name = node.host.name
        others = [other for other in self._names() if other != name]
        others = sorted(self.rng.sample(others, self.rng.randint(1, len(others))))
        if self.rng.random() < 0.5:
            return [(name, other) for other in others], f"{name} is not heard by {others}"
        return [(other, name) for other in others], f"{name} does not hear {others}"


class ClientCut(_Cut):
    """A client reaches some nodes only."""

    name = "client cut"

    def choose(self) -> tuple[Pairs, str]:
        clients = list(self.world.clients)
        if not clients:
            return [], ""
        client = self.rng.choice(clients)
        nodes = self._names()
        nodes = sorted(self.rng.sample(nodes, self.rng.randint(1, len(nodes))))
        return both_ways([client], nodes), f"{client} and {nodes}"


class Reset(_OnANode):
    """The connections of a node break, though it runs."""

    name = "reset"
    duration = (0.0, 0.0)

    def strike(self, node: SimNode) -> str:
        self.world.network.reset(node.host.name)
        return node.host.name


# ------------------------------------------------------------------ processes and clocks


class Kill(_OnANode):
    """kill -9; something starts it again."""

    name = "kill -9"
    rate = 3.0
    duration = (0.05, 6.0)

    def strike(self, node: SimNode) -> str:
        node.kill()
        self.world.start_in(self.lasts, node)
        return node.host.name


class KillLeader(Kill):
    """kill -9 of whoever leads a partition."""

    name = "kill -9 of a leader"
    rate = 2.0

    def _up(self) -> SimNode | None:
        leader = self.world.leader_of_something(self.rng)
        return leader if leader is not None and leader.up and not leader.paused else None


class KillController(Kill):
    """kill -9 of the active controller."""

    name = "kill -9 of the controller"

    def _up(self) -> SimNode | None:
        active = self.world.active_controller
        return active if active is not None and not active.paused else None


class PowerCut(_OnANode):
    """A node loses its power, and of what was not synced whatever the disk had not got round to."""

    name = "power cut"
    rate = 2.5
    duration = (0.2, 8.0)

    def strike(self, node: SimNode) -> str:
        node.power_cut(self.world.loss())
        self.world.start_in(self.lasts, node)
        return node.host.name


class PersistPoint(_OnADisk):
    """A node loses its power exactly at one of its next steps on the disk."""

    name = "crash at a persist point"
    rate = 2.0
    duration = (3.0, 5.0)

    def hurt(self, node: SimNode) -> str:
        step = self.rng.choice((0, 1, 2, 3, 5, 8, 13, 30, 100))
        self.disk.crash_at(step)
        return f", {step} steps from now"

    def end(self) -> None:
        self.disk.crash_at(1 << 40)


class Blackout(ClusterFault):
    """All nodes lose their power at once."""

    name = "blackout"
    rate = 0.4
    duration = (0.2, 4.0)

    def begin(self) -> str | None:
        for node in self.world.nodes.values():
            if node.up:
                node.power_cut(self.world.loss(), "blackout")
                self.world.start_in(self.lasts + self.rng.uniform(0.0, 2.0), node)
        return "all nodes"


class Pause(_OnANode):
    """A node stands still (SIGSTOP), and goes on as if nothing had been."""

    name = "pause"
    rate = 2.5
    duration = (0.3, 10.0)

    def strike(self, node: SimNode) -> str:
        self.run_number = node.run_number
        node.pause()
        return f"{node.host.name} for {self.lasts:.1f} s"

    def end(self) -> None:
        if self.node.run_number == self.run_number:
            self.node.resume()


class Restart(_OnANode):
    """A node is stopped cleanly and started again."""

    name = "restart"
    rate = 1.5
    duration = (0.1, 3.0)

    def strike(self, node: SimNode) -> str:
        node.stop()
        self.world.restart_when_down(node, self.lasts)
        return node.host.name


class WallClock(_OnANode):
    """Somebody sets a node's clock."""

    name = "clock jump"
    duration = (1.0, 10.0)

    def strike(self, node: SimNode) -> str:
        self.jump = self.rng.choice((-3_600_000, -1_000, 1_000, 3_600_000))
        node.clock.skew_ms += self.jump
        return f"{node.host.name} by {self.jump} ms"

    def end(self) -> None:
        self.node.clock.skew_ms -= self.jump


# ------------------------------------------------------------------ disks


class SlowDisk(_OnADisk):
    """Every sync of a node takes long."""

    name = "slow disk"
    rate = 1.5

    def hurt(self, node: SimNode) -> str:
        slow = self.rng.choice((0.02, 0.1, 0.5))
        self.disk.latency = (slow / 2, slow)
        return f", up to {slow} s"

    def end(self) -> None:
        self.disk.latency = (0.0001, 0.002)


class StalledDisk(_OnADisk):
    """No sync of a node ends for some seconds."""

    name = "stalled disk"
    rate = 1.5
    duration = (1.0, 6.0)

    def hurt(self, node: SimNode) -> str:
        self.disk.stalled_until = self.world.time + self.lasts
        return f" for {self.lasts:.1f} s"

    def end(self) -> None:
        self.disk.stalled_until = 0.0


class _Failing(_OnADisk):
    """An operation of a node's disk fails; what lies there goes offline, or the node stops."""

    operation: ClassVar[str] = ""
    reason: ClassVar[str] = "Input/output error"
    duration = (0.1, 3.0)

    def hurt(self, node: SimNode) -> str:
        where = self.rng.choice(("", "/data/a", "/data/b"))
        node.damaged = True
        self.disk.fail(self.operation, where, self.reason)
        return f" {where or 'everywhere'}"

    def end(self) -> None:
        self.disk.heal()
        self.world.operator_looks_at(self.node, self.rng.uniform(0.5, 3.0))


class SyncError(_Failing):
    """fsync fails: nobody knows what is on the disk."""

    name = "fsync error"
    operation = "sync"


class WriteError(_Failing):
    """A write fails."""

    name = "write error"
    operation = "append"
    rate = 0.6


class FullDisk(_OnADisk):
    """There is no space left on a node's disk."""

    name = "full disk"
    duration = (0.3, 4.0)

    def hurt(self, node: SimNode) -> str:
        node.damaged = True
        space = self.rng.choice((0, 100, 1_000, 10_000))
        self.disk.full_after(space)
        return f", {space} bytes left"

    def end(self) -> None:
        self.disk.heal()
        self.world.operator_looks_at(self.node, self.rng.uniform(0.5, 3.0))


class EmptyDisk(ClusterFault):
    """A broker comes back with an empty disk under its old number."""

    name = "empty disk"
    rate = 1.5
    duration = (0.1, 6.0)

    def begin(self) -> str | None:
        nodes = [node for node in self.world.nodes.values() if may_lose(self.world, node)]
        if not nodes:
            return None
        node = self.rng.choice(nodes)
        if node.up:
            node.power_cut("all", "its disk is gone")
        node.replace_disk()
        self.world.emptied[node.id] = node.disks
        self.world.on_emptied(node)
        self.world.start_in(self.lasts, node)
        return node.host.name


FAULTS: tuple[type[ClusterFault], ...] = (
    Delay,
    LostPackets,
    SlowHost,
    Partition,
    Isolation,
    OneWay,
    ClientCut,
    Reset,
    Kill,
    KillLeader,
    KillController,
    PowerCut,
    PersistPoint,
    Blackout,
    Pause,
    Restart,
    WallClock,
    SlowDisk,
    StalledDisk,
    SyncError,
    WriteError,
    FullDisk,
    EmptyDisk,
)
