"""A node of the simulated quorum: a disk that stays, and one process after another on it.

`Node` is the host: its disk, its address, its clock.  `Process` is one run on it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from barnabas.errors import (
    ConfigError,
    StorageError,
)
from barnabas.log.files.meta_properties import check_identity, read_meta_properties
from barnabas.model import Endpoint, NodeId, Offset, ReplicaKey, Uuid
from barnabas.raft.entries import ElectionState
from barnabas.raft.messages import (
    Started,
)
from barnabas.raft.voters import SUPPORTED, Voter
from barnabas.sim.kernel.clock import NodeClock
from barnabas.sim.kernel.disk import Crashed, Loss, MemoryDisk
from barnabas.sim.quorum.observer import Observer
from barnabas.sim.quorum.process import DIRECTORY, Process, ProcessWorld

__all__ = ["Machine", "NodeWorld"]


class NodeWorld(ProcessWorld, Protocol):
    """The world, as far as a node needs it: who watches it, and who is told when it goes down."""

    invariants: Observer[Machine]
    invariants_apart: Observer[Machine]

    def down(self, node: Machine, why: str) -> None: ...
    def reset(self, node_id: NodeId) -> None: ...
    def bury(self, node: Machine) -> None: ...


class Machine:
    """A machine.  `process` is None while it is down."""

    def __init__(self, world: NodeWorld, node_id: NodeId) -> None:
        self.world = world
        self.id = node_id
        self.disk_number = 0
        self.disk = MemoryDisk(world.rng.randrange(1 << 30))
        if world.rotting:
            self.disk.quiet = ()
        self.key = self._key()
        self.endpoints: tuple[Endpoint, ...] = (Endpoint("CONTROLLER", f"n{node_id}", 9000),)
        self.versions = SUPPORTED
        self.clock = NodeClock(world, start=world.rng.uniform(0, 1000))
        self.process: Process | None = None
        self.last: Process | None = None
        """The newest process, running or over."""
        self.run_number = 0
        self.paused = False
        self.pauses = 0
        self.backlog: list[Callable[[], None]] = []
        self.static = False
        """Its configuration names the voters (controller.quorum.voters)."""
        self.clean = False
        """The last run closed its files cleanly."""
        self.apart = False
        """It was formatted to be a quorum of its own, under this cluster's id."""
        self.damaged = False
        """A fault touched the disk since the node started: it may stop because of it."""
        self.rotten = False
        """What was durable has changed on the disk: only an operator helps."""
        self.confirmed: tuple[int, int] = (0, 0)
        """(end offset, epoch of the last record) that this disk has said are durable."""
        self.confirmed_vote = ElectionState()
        self.latency = (0.0002, 0.002)
        """Seconds that a job of the disk takes."""
        self.restart_at = inf
        self.without_role = False
        """Its configuration has no controller role."""
        self.held_with_role: Offset = 0
        """What was durable here when it lost that role: no leader counts more."""

    def __repr__(self) -> str:
        return f"<Machine {self.id} run={self.run_number} {self.process or 'down'}>"

    def _key(self) -> ReplicaKey:
        return ReplicaKey(self.id, Uuid.of(self.id, self.disk_number + 1))

    @property
    def address(self) -> tuple[str, int]:
        return self.endpoints[0].host, self.endpoints[0].port

    @property
    def voter(self) -> Voter:
        """How it would stand in a voter set."""
        return Voter(self.key, self.endpoints, self.versions)

    @property
    def invariants(self) -> Observer[Machine]:
        """Who hears of what it does; nobody, while it is of another quorum."""
        return self.world.invariants_apart if self.apart else self.world.invariants

    @property
    def up(self) -> bool:
        return self.process is not None

    def start(self) -> bool:
        """Start a process.  Whether the directory could be opened."""
        assert self.process is None
        self.run_number += 1
        self.restart_at = inf
        world = self.world
        self.clock.drift(1.0)
        self.disk.wall_ms = self.clock.now().wall_ms
        try:
            owned = read_meta_properties(self.disk, DIRECTORY)
            check_identity(DIRECTORY, owned, world.setup.cluster_id, self.id)
            process = Process(self)
        except Crashed as crash:
            self.off("all", str(crash))
            return False
        except StorageError as error:
            self._refused(error)
            return False
        except ConfigError as error:
            world.tell(self.id, f"does not start: {error}")
            self.without_role = False  # its operator reads what it says
            world.down(self, "refused")
            return False
        self.process = self.last = process
        world.tell(self.id, f"starts (life {self.run_number}), the log ends at {process.log_view.end_offset}")
        self.invariants.started(self)
        self.damaged = self.disk.troubled
        process.receive(Started())
        return True

    def _refused(self, error: StorageError) -> None:
        world = self.world
        world.tell(self.id, f"does not start: {error}")
        if not self.damaged and not self.rotten:
            world.alarm("S1", f"node {self.id} cannot open a directory that nothing touched: {error}")
        world.down(self, "refused")

    def off(self, loss: Loss, why: str, *, reset: bool = False) -> None:
        """The process ends without a word; the disk keeps what `loss` leaves."""
        self.process = None
        self.paused = False
        self.backlog.clear()
        self.clean = False
        self.disk.crash(loss)
        self.world.tell(self.id, f"goes down ({why})")
        if reset:
            self.world.reset(self.id)
        self.world.down(self, why)

    def closed(self) -> None:
        """The clean end of a run: when the disk's thread has done what it was given."""
        process, world, run_number = self.process, self.world, self.run_number
        assert process is not None
        if process.disk_free > world.time:
            world.when(process.disk_free, lambda: self.act(run_number, self.closed))
            return
        try:
            process.store.close()
            self.clean = True
        except (StorageError, Crashed):
            self.clean = False
        self.process = None
        self.paused = False
        self.backlog.clear()
        self.disk.crash("none" if self.clean else "some")
        world.tell(self.id, "stops in order")
        world.down(self, "stopped")

    def new_disk(self) -> None:
        """An empty disk under the same node id: another replica."""
        assert self.process is None
        if not self.apart:
            self.world.bury(self)
        self.disk_number += 1
        self.key = self._key()
        self.disk = MemoryDisk(self.world.rng.randrange(1 << 30))
        self.confirmed, self.confirmed_vote = (0, 0), ElectionState()
        self.clean = self.damaged = self.rotten = self.apart = self.without_role = False
        self.world.tell(self.id, f"has an empty disk, {self.key}")

    def pause(self) -> None:
        self.paused = True
        self.pauses += 1

    def resume(self) -> None:
        """Everything that came meanwhile comes now."""
        self.paused = False
        backlog, self.backlog = self.backlog, []
        run_number = self.run_number
        for action in backlog:
            self.act(run_number, action)

    def act(self, run_number: int, action: Callable[[], None]) -> None:
        """Do something in that run: now, after a pause, or never."""
        if run_number != self.run_number or self.process is None:
            return
        if self.paused:
            self.backlog.append(action)
        else:
            action()
