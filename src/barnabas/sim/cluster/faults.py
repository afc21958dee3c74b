"""The faults of a cluster: every fault is a noun, with a rate and a duration.

A seed enables some of them (a different mix each time, so that no fault always blocks another), draws their
times, and prints all of them.  `begin` does the damage and describes it in words, or returns None if there is
nothing to damage; `end` undoes it after its duration.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from barnabas.sim.cluster.budget import may_lose

if TYPE_CHECKING:
    from barnabas.sim.cluster.node import SimNode
    from barnabas.sim.cluster.world import World

__all__ = ["FAULTS", "Fault"]

Pairs = list[tuple[str, str]]


class Fault:
    """One occurrence of a fault.  `rate`: how often, against the others; `duration`: seconds, from and to."""

    name: ClassVar[str] = ""
    rate: ClassVar[float] = 1.0
    duration: ClassVar[tuple[float, float]] = (0.3, 5.0)

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.lasts = chance.uniform(*self.duration)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lasts:.2f} s>"

    def begin(self) -> str | None:
        raise NotImplementedError

    def end(self) -> None:
        """Undo it.  Called once, also when the world is healed before its time."""

    # What the nouns below choose from.

    def _up(self) -> SimNode | None:
        """A node that runs; often one where most can go wrong."""
        up = [node for node in self.world.nodes.values() if node.up and not node.paused and not node.stopping]
        if not up:
            return None
        kind = self.chance.random()
        if kind < 0.3 and (leader := self.world.leader_of_something(self.chance)) in up:
            return leader
        if kind < 0.5 and (active := self.world.active_controller) in up:
            return active
        return self.chance.choice(up)

    def _names(self) -> list[str]:
        return [node.host.name for node in self.world.nodes.values()]


# ------------------------------------------------------------------ the network


class Delay(Fault):
    """Every packet is slow."""

    name = "delay"
    before = (0.0001, 0.0008)

    def begin(self) -> str | None:
        slow = self.chance.choice((0.01, 0.05, 0.2))
        self.world.network.base = (slow / 2, slow)
        return f"up to {slow} s each way"

    def end(self) -> None:
        self.world.network.base = self.before


class LostPackets(Fault):
    """Some packets have to be sent again: what is after them waits."""

    name = "lost packets"
    rate = 1.5

    def begin(self) -> str | None:
        network = self.world.network
        network.tail, network.tail_delay = (
            self.chance.choice((0.02, 0.1, 0.3)),
            self.chance.choice((0.2, 1.0, 3.0)),
        )
        return f"{network.tail:.0%} of the packets up to {network.tail_delay} s late"

    def end(self) -> None:
        self.world.network.tail = 0.0


class SlowHost(Fault):
    """Everything to and from one node is slow."""

    name = "slow host"

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        self.host = node.host.name
        slow = self.chance.choice((0.05, 0.3, 1.0))
        self.world.network.slow[self.host] = slow
        return f"{self.host}, {slow} s each way"

    def end(self) -> None:
        self.world.network.slow.pop(self.host, None)


class _Cut(Fault):
    """Some pairs of machines cannot talk."""

    duration = (0.3, 8.0)
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
    """Two groups of nodes that do not hear each other; clients hear both, or one."""

    name = "partition"
    rate = 2.0

    def choose(self) -> tuple[Pairs, str]:
        names = self._names()
        self.chance.shuffle(names)
        at = self.chance.randint(1, len(names) - 1)
        one, two = sorted(names[:at]), sorted(names[at:])
        if self.chance.random() < 0.5:
            return _both(one, two), f"{one} | {two}"
        clients = list(self.world.clients)
        return _both(one, two + clients), f"{one} | {two} and the clients"


class Isolation(_Cut):
    """One node alone."""

    name = "isolation"
    rate = 2.0

    def choose(self) -> tuple[Pairs, str]:
        node = self._up()
        if node is None:
            return [], ""
        others = [name for name in self._names() if name != node.host.name]
        if self.chance.random() < 0.5:
            others += list(self.world.clients)
            return _both([node.host.name], others), f"{node.host.name} from everybody"
        return _both([node.host.name], others), f"{node.host.name}; clients reach it"


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
        others = sorted(self.chance.sample(others, self.chance.randint(1, len(others))))
        if self.chance.random() < 0.5:
            return [(name, other) for other in others], f"{name} is not heard by {others}"
        return [(other, name) for other in others], f"{name} does not hear {others}"


class ClientCut(_Cut):
    """A client reaches some nodes only."""

    name = "client cut"

    def choose(self) -> tuple[Pairs, str]:
        clients = list(self.world.clients)
        if not clients:
            return [], ""
        client = self.chance.choice(clients)
        nodes = self._names()
        nodes = sorted(self.chance.sample(nodes, self.chance.randint(1, len(nodes))))
        return _both([client], nodes), f"{client} and {nodes}"


class Reset(Fault):
    """The connections of a node break, though it lives."""

    name = "reset"
    duration = (0.0, 0.0)

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        self.world.network.reset(node.host.name)
        return node.host.name


def _both(one: Iterable[str], two: Iterable[str]) -> Pairs:
    return [pair for a in one for b in two for pair in ((a, b), (b, a))]


# ------------------------------------------------------------------ processes and clocks


class Kill(Fault):
    """kill -9; something starts it again."""

    name = "kill -9"
    rate = 3.0
    duration = (0.05, 6.0)

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        node.kill()
        self.world.start_in(self.lasts, node)
        return node.host.name


class KillLeader(Kill):
    """kill -9 of whoever leads a partition."""

    name = "kill -9 of a leader"
    rate = 2.0

    def _up(self) -> SimNode | None:
        leader = self.world.leader_of_something(self.chance)
        return leader if leader is not None and leader.up and not leader.paused else None


class KillController(Kill):
    """kill -9 of the active controller."""

    name = "kill -9 of the controller"

    def _up(self) -> SimNode | None:
        active = self.world.active_controller
        return active if active is not None and not active.paused else None


class PowerCut(Fault):
    """A node loses its power, and of what was not synced whatever the disk had not got round to."""

    name = "power cut"
    rate = 2.5
    duration = (0.2, 8.0)

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        node.power_cut(self.world.loss())
        self.world.start_in(self.lasts, node)
        return node.host.name


class PersistPoint(Fault):
    """A node loses its power exactly at one of its next steps on the disk."""

    name = "crash at a persist point"
    rate = 2.0
    duration = (3.0, 5.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        step = self.chance.choice((0, 1, 2, 3, 5, 8, 13, 30, 100))
        self.node.disk.crash_at(step)
        return f"{self.node.host.name}, {step} steps from now"

    def end(self) -> None:
        assert self.node is not None
        self.node.disk.crash_at(1 << 40)


class Blackout(Fault):
    """All nodes lose their power at once."""

    name = "blackout"
    rate = 0.4
    duration = (0.2, 4.0)

    def begin(self) -> str | None:
        for node in self.world.nodes.values():
            if node.up:
                node.power_cut(self.world.loss(), "blackout")
                self.world.start_in(self.lasts + self.chance.uniform(0.0, 2.0), node)
        return "all nodes"


class Pause(Fault):
    """A node stands still (SIGSTOP), and goes on as if nothing had been."""

    name = "pause"
    rate = 2.5
    duration = (0.3, 10.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.life = self.node.life
        self.node.pause()
        return f"{self.node.host.name} for {self.lasts:.1f} s"

    def end(self) -> None:
        assert self.node is not None
        if self.node.life == self.life:
            self.node.resume()


class Restart(Fault):
    """A node is stopped cleanly and started again."""

    name = "restart"
    rate = 1.5
    duration = (0.1, 3.0)

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        node.stop()
        self.world.restart_when_down(node, self.lasts)
        return node.host.name


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
        return f"{self.node.host.name} by {self.jump} ms"

    def end(self) -> None:
        assert self.node is not None
        self.node.clock.skew_ms -= self.jump


# ------------------------------------------------------------------ disks


class SlowDisk(Fault):
    """Every sync of a node takes long."""

    name = "slow disk"
    rate = 1.5

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        slow = self.chance.choice((0.02, 0.1, 0.5))
        self.before, self.node.disk.latency = self.node.disk.latency, (slow / 2, slow)
        return f"{self.node.host.name}, up to {slow} s"

    def end(self) -> None:
        assert self.node is not None
        self.node.disk.latency = (0.0001, 0.002)


class StalledDisk(Fault):
    """No sync of a node ends for some seconds."""

    name = "stalled disk"
    rate = 1.5
    duration = (1.0, 6.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.node.disk.stalled_until = self.world.time + self.lasts
        return f"{self.node.host.name} for {self.lasts:.1f} s"

    def end(self) -> None:
        assert self.node is not None
        self.node.disk.stalled_until = 0.0


class _Failing(Fault):
    """An operation of a node's disk fails; what lies there goes offline, or the node stops."""

    operation: ClassVar[str] = ""
    reason: ClassVar[str] = "Input/output error"
    duration = (0.1, 3.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        where = self.chance.choice(("", "/data/a", "/data/b"))
        self.node.damaged = True
        self.node.disk.fail(self.operation, where, self.reason)
        return f"{self.node.host.name} {where or 'everywhere'}"

    def end(self) -> None:
        assert self.node is not None
        self.node.disk.heal()
        self.world.operator_looks_at(self.node, self.chance.uniform(0.5, 3.0))


class SyncError(_Failing):
    """fsync fails: nobody knows what is on the disk."""

    name = "fsync error"
    operation = "sync"


class WriteError(_Failing):
    """A write fails."""

    name = "write error"
    operation = "append"
    rate = 0.6


class FullDisk(Fault):
    """There is no space left on a node's disk."""

    name = "full disk"
    duration = (0.3, 4.0)

    def begin(self) -> str | None:
        self.node = self._up()
        if self.node is None:
            return None
        self.node.damaged = True
        space = self.chance.choice((0, 100, 1_000, 10_000))
        self.node.disk.full_after(space)
        return f"{self.node.host.name}, {space} bytes left"

    def end(self) -> None:
        assert self.node is not None
        self.node.disk.heal()
        self.world.operator_looks_at(self.node, self.chance.uniform(0.5, 3.0))


class EmptyDisk(Fault):
    """A broker comes back with an empty disk under its old number."""

    name = "empty disk"
    rate = 1.5
    duration = (0.1, 6.0)

    def begin(self) -> str | None:
        nodes = [node for node in self.world.nodes.values() if may_lose(self.world, node)]
        if not nodes:
            return None
        node = self.chance.choice(nodes)
        if node.up:
            node.power_cut("all", "its disk is gone")
        node.replace_disk()
        self.world.emptied[node.id] = node.disks
        self.world.on_emptied(node)
        self.world.start_in(self.lasts, node)
        return node.host.name


FAULTS: tuple[type[Fault], ...] = (
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
