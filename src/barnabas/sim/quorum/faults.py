"""The faults of a quorum: every fault is a noun, with a rate and a duration.

A seed enables some of them (a different mix each time, so that no fault always blocks another), draws their
times, and prints all of them.  `begin` does the damage and describes it in words, or returns None if there is
nothing to damage; `end` undoes it after its duration.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from barnabas.model import NodeId

if TYPE_CHECKING:
    from barnabas.sim.quorum.node import Node
    from barnabas.sim.quorum.world import World

__all__ = ["FAULTS", "Fault"]

Pairs = list[tuple[NodeId, NodeId]]


class Fault:
    """One occurrence of a fault.  `rate`: how often, against the others; `duration`: seconds, from and to."""

    name: ClassVar[str] = ""
    rate: ClassVar[float] = 1.0
    duration: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.lasts = chance.uniform(*self.duration)

    def begin(self) -> str | None:
        raise NotImplementedError

    def end(self) -> None:
        """Undo it.  Called once, also when the world is healed before its time."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lasts:.2f} s>"

    # What the nouns below choose from.

    def _up(self) -> Node | None:
        up = [node for node in self.world.nodes.values() if node.up and not node.paused]
        return self._one(up)

    def _one(self, nodes: list[Node]) -> Node | None:
        """One of them; often the leader, where most can go wrong."""
        leader = self.world.leader
        if leader is not None and leader in nodes and self.chance.random() < 0.35:
            return leader
        return self.chance.choice(nodes) if nodes else None

    def _ids(self) -> list[NodeId]:
        return list(self.world.nodes)


# ------------------------------------------------------------------ the network


class Loss(Fault):
    """Messages get lost."""

    name = "loss"
    rate = 1.5

    def begin(self) -> str | None:
        self.share = self.chance.choice((0.02, 0.1, 0.3, 0.6))
        self.world.network.loss += self.share
        return f"{self.share:.0%} of the messages"

    def end(self) -> None:
        self.world.network.loss = max(0.0, self.world.network.loss - self.share)


class Duplication(Fault):
    """Messages arrive twice, the second time whenever."""

    name = "duplication"

    def begin(self) -> str | None:
        self.world.network.duplication = self.chance.choice((0.05, 0.3))
        return f"{self.world.network.duplication:.0%} of the messages"

    def end(self) -> None:
        self.world.network.duplication = 0.0


class Reordering(Fault):
    """Some messages take much longer than others, and are overtaken."""

    name = "reordering"
    rate = 1.5

    def begin(self) -> str | None:
        network = self.world.network
        network.tail, network.tail_delay = (
            self.chance.choice((0.05, 0.3)),
            self.chance.choice((0.1, 1.0, 3.0)),
        )
        return f"{network.tail:.0%} of the messages up to {network.tail_delay} s late"

    def end(self) -> None:
        self.world.network.tail = 0.0


class Delay(Fault):
    """Every message is slow."""

    name = "delay"

    def begin(self) -> str | None:
        self.world.network.base_delay = self.chance.choice((0.02, 0.1, 0.3))
        return f"{self.world.network.base_delay} s each way"

    def end(self) -> None:
        self.world.network.base_delay = 0.0005


class _Cut(Fault):
    """Some pairs of nodes cannot talk."""

    duration = (0.3, 6.0)
    pairs: Pairs

    def begin(self) -> str | None:
        self.pairs, text = self.choose()
        if not self.pairs:
            return None
        self.world.network.cut(self.pairs)
        return text

    def end(self) -> None:
        self.world.network.mend(self.pairs)

    def choose(self) -> tuple[Pairs, str]:
        raise NotImplementedError


class Partition(_Cut):
    """Two groups that do not hear each other."""

    name = "partition"
    rate = 2.0

    def choose(self) -> tuple[Pairs, str]:
        ids = self._ids()
        self.chance.shuffle(ids)
        at = self.chance.randint(1, len(ids) - 1)
        one, two = sorted(ids[:at]), sorted(ids[at:])
        return _both(one, two), f"{one} | {two}"


class Isolation(_Cut):
    """One node, often the leader, alone."""

    name = "isolation"
    rate = 1.5

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        return _both([node.id], [i for i in self._ids() if i != node.id]), f"node {node.id}"


class OneWay(_Cut):
    """A node is heard but hears nothing, or the other way round."""

    name = "one-way partition"
    rate = 1.5

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        others = [i for i in self._ids() if i != node.id]
        others = self.chance.sample(others, self.chance.randint(1, len(others)))
        if self.chance.random() < 0.5:
            return [(node.id, other) for other in others], f"{node.id} is not heard by {sorted(others)}"
        return [(other, node.id) for other in others], f"{node.id} does not hear {sorted(others)}"


class Ring(_Cut):
    """Everybody hears two neighbours only: each sees another majority."""

    name = "partial partition"

    def choose(self) -> tuple[Pairs, str]:
        ids = self._ids()
        self.chance.shuffle(ids)
        near = {(a, b) for a, b in zip(ids, ids[1:] + ids[:1], strict=True)}
        pairs = [(a, b) for a in ids for b in ids if a != b and (a, b) not in near and (b, a) not in near]
        return pairs, f"ring {ids}"


class Clog(Fault):
    """Links hold everything back, and let it go at once; in another order than they were clogged."""

    name = "clogged links"
    rate = 1.0

    def begin(self) -> str | None:
        ids = self._ids()
        pairs = [(a, b) for a in ids for b in ids if a != b]
        self.pairs = self.chance.sample(pairs, self.chance.randint(1, max(1, len(pairs) // 3)))
        self.world.network.clog(self.pairs)
        return f"{len(self.pairs)} links"

    def end(self) -> None:
        order = list(self.pairs)
        self.chance.shuffle(order)
        for number, pair in enumerate(order):
            self.world.at(number * 0.02, lambda pair=pair: self.world.network.unclog([pair]))  # type: ignore[misc]


class Reset(Fault):
    """The connections of a node break, though it lives."""

    name = "reset"
    duration = (0.0, 0.0)

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        self.world.reset(node.id)
        return f"node {node.id}"


def _both(one: Iterable[NodeId], two: Iterable[NodeId]) -> Pairs:
    return [pair for a in one for b in two for pair in ((a, b), (b, a))]


# ------------------------------------------------------------------ processes and clocks


class PowerCut(Fault):
    """A node loses its power, and of what was not synced whatever the disk had not got round to."""

    name = "power cut"
    rate = 3.0
    duration = (0.1, 5.0)

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        loss = self.world.loss()
        node.off(loss, f"power cut, loses {loss} of what was not synced", reset=self.chance.random() < 0.5)
        node.restart_at = self.world.time + self.lasts
        return f"node {node.id}"


class PersistPoint(Fault):
    """A node loses its power exactly at one of its next steps on the disk."""

    name = "crash at a persist point"
    rate = 3.0
    duration = (3.0, 5.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        step = self.chance.choice((0, 1, 2, 3, 5, 8, 13, 30))
        self.disk = self.node.disk
        self.disk.crash_at(step)
        return f"node {self.node.id}, {step} steps from now"

    def end(self) -> None:
        self.disk.crash_at(1 << 40)


class Blackout(Fault):
    """All nodes lose their power at once."""

    name = "blackout"
    rate = 0.25
    duration = (0.1, 2.0)

    def begin(self) -> str | None:
        for node in self.world.nodes.values():
            if node.process is not None:
                node.off(self.world.loss(), "blackout")
                node.restart_at = self.world.time + self.chance.uniform(0.1, 3.0)
        return "all nodes"


class Pause(Fault):
    """A node stands still, and goes on as if nothing had been."""

    name = "pause"
    rate = 2.0
    duration = (0.05, 6.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.life = self.node.life
        self.node.pause()
        return f"node {self.node.id}"

    def end(self) -> None:
        assert self.node is not None
        if self.node.life == self.life and self.node.paused:
            self.node.resume()


class WallClock(Fault):
    """Somebody sets a node's clock."""

    name = "clock jump"
    duration = (1.0, 10.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.jump = self.chance.choice((-3_600_000, -1_000, 1_000, 3_600_000))
        self.node.clock.skew_ms += self.jump
        return f"node {self.node.id} by {self.jump} ms"

    def end(self) -> None:
        assert self.node is not None
        self.node.clock.skew_ms -= self.jump


class Drift(Fault):
    """A node's clock runs at another speed."""

    name = "clock drift"
    duration = (1.0, 10.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        rate = self.chance.choice((0.5, 0.8, 1.25, 2.0))
        self._set(rate)
        return f"node {self.node.id} at {rate}"

    def end(self) -> None:
        self._set(1.0)

    def _set(self, rate: float) -> None:
        assert self.node is not None
        self.node.clock.drift(rate)
        if self.node.process is not None:
            self.node.process.rearm()


# ------------------------------------------------------------------ disks


class SlowDisk(Fault):
    """Every sync of a node takes long."""

    name = "slow disk"
    rate = 1.5

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        slow = self.chance.choice((0.05, 0.3, 1.0))
        self.node.latency = (slow / 2, slow)
        return f"node {self.node.id}, {slow} s"

    def end(self) -> None:
        assert self.node is not None
        self.node.latency = (0.0002, 0.002)


class _Failing(Fault):
    """An operation of a node's disk fails; the node must stop, and not try it again."""

    operation: ClassVar[str] = ""
    reason: ClassVar[str] = "Input/output error"
    duration = (0.1, 3.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.disk = self.node.disk
        self.node.damaged = True
        self.disk.fail(self.operation, reason=self.reason)
        return f"node {self.node.id}"

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


class FullDisk(Fault):
    """There is no space left on a node's disk."""

    name = "full disk"
    duration = (0.3, 3.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.disk = self.node.disk
        self.node.damaged = True
        self.disk.full_after(self.chance.choice((0, 100, 1000)))
        return f"node {self.node.id}"

    def end(self) -> None:
        self.disk.heal()


class SnapshotRot(Fault):
    """A byte of a stored snapshot changes while its node is down: the node refuses it, and is replaced."""

    name = "bit rot in a snapshot"
    rate = 0.7
    duration = (0.0, 0.0)

    def begin(self) -> str | None:
        from barnabas.sim.quorum.budget import may_lose
        from barnabas.sim.quorum.invariants.committed_log import METADATA

        world = self.world
        nodes = list(world.nodes.values())
        if any(node.apart for node in nodes):
            return None
        self.chance.shuffle(nodes)
        for node in nodes:
            names = [n for n in node.disk.platter_names(METADATA) if n.endswith(".checkpoint")]
            if node.rotten or not names or not may_lose(world, node, quiet=not world.change_pending()):
                continue
            if node.process is not None:
                node.off("none", "its disk rots", reset=True)
            path = f"{METADATA}/{names[-1]}"
            position = self.chance.randrange(node.disk.size(path))
            node.disk.corrupt(path, position, flip=1 << self.chance.randrange(8))
            node.rotten = True
            world.hold_until = world.time + 2 * world.setup.fetch_timeout + 1.0
            node.restart_at = world.time + self.chance.uniform(0.1, 1.0)
            return f"node {node.id}, {names[-1]} at {position}"
        return None


FAULTS: tuple[type[Fault], ...] = (
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
