"""The faults of a quorum, each a noun (see `kernel.fault`)."""

from __future__ import annotations

from typing import ClassVar

from barnabas.model import NodeId
from barnabas.sim.kernel.fault import Fault, LinkCut, NodeFault, both_ways
from barnabas.sim.quorum.budget import may_lose
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.network import Network
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World

__all__ = ["FAULTS", "QuorumFault"]

Pairs = list[tuple[NodeId, NodeId]]


class QuorumFault(Fault[World]):
    """One occurrence of a fault of a quorum."""

    # What the nouns below choose from.

    def _up(self) -> Machine | None:
        up = [node for node in self.world.nodes.values() if node.up and not node.paused]
        return self._one(up)

    def _one(self, nodes: list[Machine]) -> Machine | None:
        """One of them; often the leader, where most can go wrong."""
        leader = self.world.leader
        if leader is not None and leader in nodes and self.rng.random() < 0.35:
            return leader
        return self.rng.choice(nodes) if nodes else None

    def _ids(self) -> list[NodeId]:
        return list(self.world.nodes)


class _OnANode(QuorumFault, NodeFault[World, Machine]):
    """A fault of one node that runs."""


# ------------------------------------------------------------------ the network


class Loss(QuorumFault):
    """Messages get lost."""

    name = "loss"
    rate = 1.5

    def begin(self) -> str | None:
        self.share = self.rng.choice((0.02, 0.1, 0.3, 0.6))
        self.world.network.loss += self.share
        return f"{self.share:.0%} of the messages"

    def end(self) -> None:
        self.world.network.loss = max(0.0, self.world.network.loss - self.share)


class Duplication(QuorumFault):
    """Messages arrive twice, the second time whenever."""

    name = "duplication"

    def begin(self) -> str | None:
        self.world.network.duplication = self.rng.choice((0.05, 0.3))
        return f"{self.world.network.duplication:.0%} of the messages"

    def end(self) -> None:
        self.world.network.duplication = 0.0


class Reordering(QuorumFault):
    """Some messages take much longer than others, and are overtaken."""

    name = "reordering"
    rate = 1.5

    def begin(self) -> str | None:
        network = self.world.network
        network.tail, network.tail_delay = (
            self.rng.choice((0.05, 0.3)),
            self.rng.choice((0.1, 1.0, 3.0)),
        )
        return f"{network.tail:.0%} of the messages up to {network.tail_delay} s late"

    def end(self) -> None:
        self.world.network.tail = 0.0


class Delay(QuorumFault):
    """Every message is slow."""

    name = "delay"

    def begin(self) -> str | None:
        self.world.network.base_delay = self.rng.choice((0.02, 0.1, 0.3))
        return f"{self.world.network.base_delay} s each way"

    def end(self) -> None:
        self.world.network.base_delay = 0.0005


class _Cut(QuorumFault, LinkCut[World, NodeId]):
    """Some pairs of nodes cannot talk."""

    duration = (0.3, 6.0)

    @property
    def links(self) -> Network:
        return self.world.network


class Partition(_Cut):
    """Two groups that do not hear each other."""

    name = "partition"
    rate = 2.0

    def choose(self) -> tuple[Pairs, str]:
        ids = self._ids()
        self.rng.shuffle(ids)
        at = self.rng.randint(1, len(ids) - 1)
        one, two = sorted(ids[:at]), sorted(ids[at:])
        return both_ways(one, two), f"{one} | {two}"


class Isolation(_Cut):
    """One node, often the leader, alone."""

    name = "isolation"
    rate = 1.5

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        return both_ways([node.id], [i for i in self._ids() if i != node.id]), f"node {node.id}"


class OneWay(_Cut):
    """A node is heard but hears nothing, or the other way round."""

    name = "one-way partition"
    rate = 1.5

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        others = [i for i in self._ids() if i != node.id]
        others = self.rng.sample(others, self.rng.randint(1, len(others)))
        if self.rng.random() < 0.5:
            return [(node.id, other) for other in others], f"{node.id} is not heard by {sorted(others)}"
        return [(other, node.id) for other in others], f"{node.id} does not hear {sorted(others)}"


class Ring(_Cut):
    """Everybody hears two neighbours only: each sees another majority."""

    name = "partial partition"

    def choose(self) -> tuple[Pairs, str]:
        ids = self._ids()
        self.rng.shuffle(ids)
        near = {(a, b) for a, b in zip(ids, ids[1:] + ids[:1], strict=True)}
        pairs = [(a, b) for a in ids for b in ids if a != b and (a, b) not in near and (b, a) not in near]
        return pairs, f"ring {ids}"


class Clog(QuorumFault):
    """Links hold everything back, and let it go at once; in another order than they were clogged."""

    name = "clogged links"
    rate = 1.0

    def begin(self) -> str | None:
        ids = self._ids()
        pairs = [(a, b) for a in ids for b in ids if a != b]
        self.pairs = self.rng.sample(pairs, self.rng.randint(1, max(1, len(pairs) // 3)))
        self.world.network.clog(self.pairs)
        return f"{len(self.pairs)} links"

    def end(self) -> None:
        order = list(self.pairs)
        self.rng.shuffle(order)
        for number, pair in enumerate(order):
            self.world.at(number * 0.02, lambda pair=pair: self.world.network.unclog([pair]))  # type: ignore[misc]


class Reset(_OnANode):
    """The connections of a node break, though it runs."""

    name = "reset"
    duration = (0.0, 0.0)

    def strike(self, node: Machine) -> str:
        self.world.reset(node.id)
        return f"node {node.id}"


# ------------------------------------------------------------------ processes and clocks


class PowerCut(_OnANode):
    """A node loses its power, and of what was not synced whatever the disk had not got round to."""

    name = "power cut"
    rate = 3.0
    duration = (0.1, 5.0)

    def strike(self, node: Machine) -> str:
        loss = self.world.loss()
        node.off(loss, f"power cut, loses {loss} of what was not synced", reset=self.rng.random() < 0.5)
        node.restart_at = self.world.time + self.lasts
        return f"node {node.id}"


class PersistPoint(_OnANode):
    """A node loses its power exactly at one of its next steps on the disk."""

    name = "crash at a persist point"
    rate = 3.0
    duration = (3.0, 5.0)

    def strike(self, node: Machine) -> str:
        step = self.rng.choice((0, 1, 2, 3, 5, 8, 13, 30))
        self.disk = node.disk
        self.disk.crash_at(step)
        return f"node {node.id}, {step} steps from now"

    def end(self) -> None:
        self.disk.crash_at(1 << 40)


class Blackout(QuorumFault):
    """All nodes lose their power at once."""

    name = "blackout"
    rate = 0.25
    duration = (0.1, 2.0)

    def begin(self) -> str | None:
        for node in self.world.nodes.values():
            if node.process is not None:
                node.off(self.world.loss(), "blackout")
                node.restart_at = self.world.time + self.rng.uniform(0.1, 3.0)
        return "all nodes"


class AllMoved(QuorumFault):
    """All nodes come back at new addresses; the names that their settings have lead there, too."""

    name = "all addresses change"
    rate = 0.4
    duration = (0.1, 1.0)

    def begin(self) -> str | None:
        for node in self.world.nodes.values():
            if node.process is not None:
                node.off(self.world.loss(), "it moves")
            self.world.move(node)
            node.restart_at = self.world.time + self.rng.uniform(0.1, 3.0)
        return "all nodes"


class Pause(_OnANode):
    """A node stands still, and goes on as if nothing had been."""

    name = "pause"
    rate = 2.0
    duration = (0.05, 6.0)

    def strike(self, node: Machine) -> str:
        self.run_number = node.run_number
        node.pause()
        return f"node {node.id}"

    def end(self) -> None:
        if self.node.run_number == self.run_number and self.node.paused:
            self.node.resume()


class WallClock(_OnANode):
    """Somebody sets a node's clock."""

    name = "clock jump"
    duration = (1.0, 10.0)

    def strike(self, node: Machine) -> str:
        self.jump = self.rng.choice((-3_600_000, -1_000, 1_000, 3_600_000))
        node.clock.skew_ms += self.jump
        return f"node {node.id} by {self.jump} ms"

    def end(self) -> None:
        self.node.clock.skew_ms -= self.jump


class Drift(_OnANode):
    """A node's clock runs at another speed."""

    name = "clock drift"
    duration = (1.0, 10.0)

    def strike(self, node: Machine) -> str:
        rate = self.rng.choice((0.5, 0.8, 1.25, 2.0))
        self._set(rate)
        return f"node {node.id} at {rate}"

    def end(self) -> None:
        self._set(1.0)

    def _set(self, rate: float) -> None:
        self.node.clock.drift(rate)
        if self.node.process is not None:
            self.node.process.rearm()


# ------------------------------------------------------------------ disks


class SlowDisk(_OnANode):
    """Every sync of a node takes long."""

    name = "slow disk"
    rate = 1.5

    def strike(self, node: Machine) -> str:
        slow = self.rng.choice((0.05, 0.3, 1.0))
        node.latency = (slow / 2, slow)
        return f"node {node.id}, {slow} s"

    def end(self) -> None:
        self.node.latency = (0.0002, 0.002)


class _Failing(_OnANode):
    """An operation of a node's disk fails; the node must stop, and not try it again."""

    operation: ClassVar[str] = ""
    reason: ClassVar[str] = "Input/output error"
    duration = (0.1, 3.0)

    def strike(self, node: Machine) -> str:
        self.disk = node.disk
        node.damaged = True
        self.disk.fail(self.operation, reason=self.reason)
        return f"node {node.id}"

    def end(self) -> None:
        self.disk.heal()


class SyncError(_Failing):
    """fsync fails: nobody knows what is on the disk."""

    name = "fsync error"
    operation = "sync"


class WriteError(_Failing):
    """A write fails."""

    name = "write error"
    operation = "append"
    rate = 0.6


class RenameError(_Failing):
    """A rename fails."""

    name = "rename error"
    operation = "rename"
    rate = 0.3


class FullDisk(_OnANode):
    """There is no space left on a node's disk."""

    name = "full disk"
    duration = (0.3, 3.0)

    def strike(self, node: Machine) -> str:
        self.disk = node.disk
        node.damaged = True
        self.disk.full_after(self.rng.choice((0, 100, 1000)))
        return f"node {node.id}"

    def end(self) -> None:
        self.disk.heal()


class SnapshotRot(QuorumFault):
    """A byte of a stored snapshot changes while its node is down: the node refuses it, and is replaced."""

    name = "bit rot in a snapshot"
    rate = 0.7
    duration = (0.0, 0.0)

    def begin(self) -> str | None:
        world = self.world
        nodes = list(world.nodes.values())
        if any(node.apart for node in nodes):
            return None
        self.rng.shuffle(nodes)
        for node in nodes:
            names = [n for n in node.disk.durable_names(METADATA) if n.endswith(".checkpoint")]
            if node.rotten or not names or not may_lose(world, node, quiet=not world.change_pending()):
                continue
            if node.process is not None:
                node.off("none", "its disk rots", reset=True)
            path = f"{METADATA}/{names[-1]}"
            position = self.rng.randrange(node.disk.size(path))
            node.disk.corrupt(path, position, flip=1 << self.rng.randrange(8))
            node.rotten = True
            world.hold_until = world.time + 2 * world.setup.fetch_timeout + 1.0
            node.restart_at = world.time + self.rng.uniform(0.1, 1.0)
            return f"node {node.id}, {names[-1]} at {position}"
        return None


FAULTS: tuple[type[QuorumFault], ...] = (
    Loss,
    Duplication,
    Reordering,
    Delay,
    Partition,
    Isolation,
    OneWay,
    Ring,
    Clog,
    Reset,
    PowerCut,
    PersistPoint,
    Blackout,
    AllMoved,
    Pause,
    WallClock,
    Drift,
    SlowDisk,
    SyncError,
    WriteError,
    RenameError,
    FullDisk,
    SnapshotRot,
)
