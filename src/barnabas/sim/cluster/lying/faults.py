"""Disks that lie, as faults of a cluster: while a node runs, while it is down, in a crash, and in a sync."""

from __future__ import annotations

import random
from typing import cast

from barnabas.sim.cluster.faults import ClusterFault
from barnabas.sim.cluster.lying.rot import METADATA, Rot
from barnabas.sim.cluster.node import SimNode
from barnabas.sim.kernel.lies import lie

__all__ = ["LYING", "LyingFault"]

_TRIES = 20


class LyingFault(ClusterFault):
    """A fault of a disk that may lie now.  `rot` says which."""

    rate = 2.0
    duration = (0.1, 5.0)
    rot: Rot

    def begin(self) -> str | None:
        nodes = [node for node in self.world.nodes.values() if self.rot.may_begin(node) and self.suits(node)]
        return self.strike(self.rng.choice(nodes)) if nodes else None

    def suits(self, node: SimNode) -> bool:
        """Return whether this can happen to the node as it is."""
        return node.up and not node.paused and not node.stopping

    def strike(self, node: SimNode) -> str | None:
        """Let the disk of this node lie; in words, None where it could not."""
        raise NotImplementedError

    def lies(self, node: SimNode) -> str | None:
        """Change one file of its disk."""
        rng = random.Random(self.rng.random())
        if not (files := self.rot.files(node)):
            return None
        logs = [path for path in files if path.endswith(".log")]
        for _ in range(_TRIES):
            path = rng.choice(logs if logs and rng.random() < 0.6 else files)
            if (words := lie(node.disk, path, rng, self.rot.memories[node.id])) is not None:
                self.rot.begins(node)
                return f"n{node.id}: {words}"
        return None


class RotWhileItRuns(LyingFault):
    """What a running node has written changes."""

    name = "rot"

    def strike(self, node: SimNode) -> str | None:
        return self.lies(node)


class RotAtRest(LyingFault):
    """A node is stopped, its disk changes, and it is started again."""

    name = "rot at rest"

    def strike(self, node: SimNode) -> str | None:
        node.stop()
        self._when_down(node, node.run_number)
        return f"n{node.id} is stopped for it"

    def _when_down(self, node: SimNode, run_number: int) -> None:
        world = self.world

        def look() -> None:
            if node.run_number != run_number:
                return
            if node.up:
                world.at(0.1, look)
                return
            if self.rot.may_begin(node) and (words := self.lies(node)) is not None:
                world.tell("world", f"rot at rest: {words}")
            world.start_in(self.lasts, node)

        world.at(0.1, look)


class RotInACrash(LyingFault):
    """A node is killed, or loses its power, and what it had synced is not what it finds."""

    name = "rot in a crash"
    rate = 3.0

    def strike(self, node: SimNode) -> str | None:
        if self.rng.random() < 0.5:
            node.kill()
        else:
            node.power_cut(self.world.loss())
        words = self.lies(node)
        self.world.start_in(self.lasts, node)
        return words or f"n{node.id} is killed"


class RotInABlackout(LyingFault):
    """All nodes lose their power, and one finds other things than it had synced."""

    name = "rot in a blackout"
    rate = 1.5

    def strike(self, node: SimNode) -> str | None:
        words = None
        for one in self.world.nodes.values():
            if one.up:
                one.power_cut(self.world.loss(), "blackout")
        words = self.lies(node)
        for one in self.world.nodes.values():
            self.world.start_in(self.lasts + self.rng.uniform(0.0, 2.0), one)
        return words or "all nodes"


class IdleSync(LyingFault):
    """A disk says that it synced and did not; then the power goes, of this node or with all others killed."""

    name = "a sync that did nothing"
    duration = (0.5, 3.0)

    def strike(self, node: SimNode) -> str | None:
        self.node, self.disk, self.run_number = node, node.disk, node.run_number
        self.disk.lying, self.disk.honest = True, (METADATA,)
        self.of_all = self.rng.random() < 0.5
        self.rot.begins(node)
        return f"n{node.id} for {self.lasts:.1f} s"

    def end(self) -> None:
        node = self.node
        self.disk.lying = False
        if node.up and node.run_number == self.run_number:
            node.power_cut("all", "its syncs did nothing")
            self.world.start_in(1.0, node)
            for other in self.world.nodes.values() if self.of_all else ():
                if other.up:
                    other.kill()
                    self.world.start_in(self.rng.uniform(0.0, 2.0), other)


def of(rot: Rot) -> tuple[type[LyingFault], ...]:
    """Return the faults of one seed."""
    return tuple(cast("type[LyingFault]", type(kind.__name__, (kind,), {"rot": rot})) for kind in LYING)


LYING: tuple[type[LyingFault], ...] = (RotWhileItRuns, RotAtRest, RotInACrash, RotInABlackout, IdleSync)
