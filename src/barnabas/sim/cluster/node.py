"""A simulated host with a real node on it: a disk that stays, and one process after another.

`process` is the real `server.node.process.ServerNode` of the present run.  It ends by a kill (its memory is gone,
its kernel closes its sockets and keeps what was written), by a power cut (nobody is told, and the disk keeps an
arbitrary part of what was not synced), by a clean stop, or by itself when it cannot continue.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NoReturn, Protocol

from barnabas.config import Config
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.server.node.format import FormatPlan, format_directories
from barnabas.server.node.process import ServerNode
from barnabas.sim.cluster.loop import Scheduler, VirtualLoop
from barnabas.sim.cluster.network import Network
from barnabas.sim.cluster.platform import SlowDisk, VirtualPlatform
from barnabas.sim.cluster.setup import CLIENT_PORT, CONTROLLER_PORT, Setup
from barnabas.sim.kernel.clock import NodeClock
from barnabas.sim.kernel.rng import SeededRandomness

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.replicas.broker import Broker
    from barnabas.server.kraft.driver import Quorum
    from barnabas.sim.kernel.disk import Loss

__all__ = ["SimNode"]


class SimNodeWorld(Protocol):
    """The world, as far as a node needs it: time, luck, the network, and those who are told what happens."""

    seed: int
    rng: random.Random
    setup: Setup
    scheduler: Scheduler
    network: Network
    graves: list[VirtualLoop]
    on_over: Callable[[SimNode], None]
    on_recovered: Callable[[SimNode], None]

    @property
    def time(self) -> float: ...
    def tell(self, who: NodeId | str, text: str) -> None: ...
    def alarm(self, invariant: str, text: str) -> NoReturn: ...
    def loss(self) -> Loss: ...
    def ended_by_itself(self, node: SimNode, why: str) -> None: ...


class SimNode:
    """A machine.  `process` is None while nothing runs on it."""

    def __init__(self, world: SimNodeWorld, node_id: NodeId) -> None:
        self.world = world
        self.id = node_id
        self.host = world.network.host(f"n{node_id}")
        self.host.on_task_error = self._task_failed
        self.clock = NodeClock(world.scheduler)
        self.disks = 0
        """How many disks it has had."""
        self.disk = self._new_disk()
        self.aside: SlowDisk | None = None
        """Its own disk, while an operator has put another one in its place."""
        self.process: ServerNode | None = None
        self.loop: VirtualLoop | None = None
        self.run_number = 0
        self.stopping = False
        self.damaged = False
        """A fault touched its disk since it started: it may stop because of it."""
        self.rotten = False
        """Its disk lied, and not everything on it is whole again (`lying.rot`)."""
        self.lied = False
        """Its disk lied, and since then it was not in sync with every partition that may elect it."""
        self.restart_at = inf

    def __repr__(self) -> str:
        return f"<SimNode {self.id} run={self.run_number} {self.process or 'down'}>"

    @property
    def up(self) -> bool:
        """Whether a process runs on it, starting, serving or stopping."""
        return self.process is not None

    @property
    def serves(self) -> bool:
        """Whether its process has started and is not stopping."""
        return self.process is not None and self.process.ready

    @property
    def paused(self) -> bool:
        return self.loop is not None and self.loop.stands_still

    @property
    def ails(self) -> bool:
        """Whether one of its directories is offline."""
        home = None if self.process is None else self.process.storage
        return self.serves and home is not None and bool(home.logs.offline())

    @property
    def apart(self) -> bool:
        """Whether it runs on a disk that is not its own: nothing is promised about it then."""
        return self.aside is not None

    @property
    def address(self) -> tuple[str, int]:
        """Where clients find it."""
        return self.host.name, CLIENT_PORT

    @property
    def is_broker(self) -> bool:
        return self.id in self.world.setup.brokers

    @property
    def is_controller(self) -> bool:
        return self.id in self.world.setup.controllers

    @property
    def broker(self) -> Broker | None:
        """Its broker, once it has one."""
        return None if self.apart or self.process is None else self.process.broker

    @property
    def groups(self) -> Groups | None:
        """The groups that it coordinates, once it has a broker."""
        part = None if self.apart or self.process is None else self.process.part
        return None if part is None else part.groups

    @property
    def quorum(self) -> Quorum | None:
        """Its part in the quorum, once that is open."""
        return None if self.apart else self.own_quorum

    @property
    def own_quorum(self) -> Quorum | None:
        """Its part in whatever quorum it is of."""
        return None if self.process is None else self.process.quorum

    def properties(self) -> dict[str, str]:
        """What it starts with; on a disk that is not its own it is a controller and nothing else."""
        properties = self.world.setup.properties(self.id)
        if self.apart:
            properties["process.roles"] = "controller"
            properties["listeners"] = f"CONTROLLER://{self.host.name}:{CONTROLLER_PORT}"
        return properties

    def format(self, *, standalone: bool = False, joins: bool = False) -> None:
        """What `storage format` does; `joins`: with `--no-initial-controllers`."""
        setup = self.world.setup
        first = not (setup.static or standalone or joins) and self.is_controller
        plan = FormatPlan.of(
            Config.load(self.properties()),
            setup.cluster_id,
            standalone=standalone,
            no_initial_controllers=joins,
            initial_controllers=_initial(self.world) if first else None,
        )
        rng = SeededRandomness(f"format {self.world.seed} {self.id} {self.disks}")
        format_directories(self.disk, self.clock, rng, plan)

    def _new_disk(self) -> SlowDisk:
        self.disks += 1
        disk = SlowDisk(self.world.rng.randrange(1 << 30), self.clock)
        disk.on_crash, disk.on_stall = self._crashed, self._stalled
        return disk

    def put_aside(self) -> None:
        """The machine, which is down, runs on another disk until `put_back`; it is empty."""
        assert self.process is None and self.aside is None
        self.aside, self.disk = self.disk, self._new_disk()

    def put_back(self) -> None:
        """It has its own disk again."""
        assert self.process is None and self.aside is not None
        self.disk, self.aside = self.aside, None

    def replace_disk(self) -> None:
        """The machine, which is down, gets an empty disk, formatted anew: other directory ids, nothing on it."""
        assert self.process is None and not self.is_controller
        self.disk = self._new_disk()
        self.format()

    # The beginning of a run, and its ends.

    def start(self) -> None:
        """A process starts."""
        assert self.process is None
        world = self.world
        self.run_number += 1
        self.restart_at = inf
        self.stopping = False
        self.damaged = self.disk.troubled
        if not self.host.powered:
            self.host.power_back()
        loop = self.loop = VirtualLoop.of(
            world.scheduler,
            self.host,
            f"n{self.id}.{self.run_number}",
            on_error=self._callback_failed,
            disk_time=lambda: self.disk.takes(world.time),
        )
        self.process = ServerNode(
            Config.load(self.properties()),
            disk=self.disk,
            clock=self.clock,
            random=SeededRandomness(f"node {world.seed} {self.id} {self.run_number}"),
            platform=VirtualPlatform(self.host, loop, self.disk),
            format_new=False,
        )
        world.tell(self.id, f"starts (life {self.run_number})")
        loop.call_soon(lambda: loop.create_task(self._main(self.process), name="main"))

    async def _main(self, process: ServerNode | None) -> None:
        """As `server.node.run.run`, without signals."""
        assert process is not None and self.loop is not None
        self.loop.create_task(self._recovered(process), name="recovered")
        try:
            await process.start()
        except BarnabasError as error:
            self._exit(f"could not start: {error}")
            return
        self.world.tell(self.id, "serves")
        await process.failed.wait()
        if not self.stopping:
            self.stopping = True
            await process.stop()
            self._exit(f"failed: {process.failure}")

    async def _recovered(self, process: ServerNode) -> None:
        """Tell when the directories are open.  (The step that opened them ends in waiting for the quorum's.)"""
        while process.storage is None:  # noqa: ASYNC110 - nobody but us wants to know
            await asyncio.sleep(0)
        if not self.apart:
            self.world.on_recovered(self)

    def kill(self, why: str = "kill -9") -> None:
        """Its process is gone; the machine stays."""
        assert self.loop is not None
        loop = self.loop
        self._over(why)
        self.host.process_died(loop)
        self.disk.crash(self.world.loss() if self.damaged else "none")

    def power_cut(self, loss: Loss, why: str = "power cut") -> None:
        """The machine is gone, until `start`."""
        loop = self.loop
        self._over(f"{why}, loses {loss} of what was not synced")
        self.host.power_lost(loop)
        self.disk.crash(loss)

    def stop(self) -> None:
        """SIGTERM."""
        if self.process is not None and self.loop is not None and not self.stopping:
            self.stopping = True
            self.world.tell(self.id, "is asked to stop")
            process, loop = self.process, self.loop
            loop.call_soon(lambda: loop.create_task(self._stop(process), name="stop"))

    async def _stop(self, process: ServerNode) -> None:
        if process.ready:
            await process.stop()
            self._exit("stopped in order" if process.failure is None else f"stopped: {process.failure}")
        else:
            self._exit("stopped while it started")

    def _exit(self, why: str) -> None:
        """The process ends by itself."""
        self.world.ended_by_itself(self, why)
        self.kill(why)

    def _over(self, why: str) -> None:
        if self.loop is not None:
            self.world.tell(self.id, why)
            if not self.apart:
                self.world.on_over(self)
            self.loop.end()
            self.world.graves.append(self.loop)
        self.process = self.loop = None

    # Pauses.

    def pause(self) -> None:
        """SIGSTOP."""
        if self.loop is not None:
            self.loop.stop_still()
            self.world.tell(self.id, "stands still")

    def resume(self) -> None:
        """SIGCONT."""
        if self.loop is not None and self.loop.stands_still:
            self.loop.go_on()
            self.world.tell(self.id, "goes on")

    # What happens to it.

    def _crashed(self, where: str) -> None:
        """The disk reached the step at which its power was to go."""
        if self.loop is not None and not self.loop.ended:
            loss = self.world.loss()
            loop = self.loop
            if not self.apart:
                self.world.on_over(self)
            self.loop.end()
            self.world.network.later(0.0, self._gone, loop, loss, where)

    def _gone(self, loop: VirtualLoop, loss: Loss, where: str) -> None:
        if self.loop is loop:
            self.power_cut(loss, f"power cut at {where}")
            self.restart_at = self.world.time + self.world.rng.uniform(0.1, 3.0)

    def _stalled(self) -> None:
        """Somebody syncs a stalled disk: in the loop itself, it stands still until the disk is back."""
        world, loop = self.world, self.loop
        wait = self.disk.stalled_until - world.time
        if wait > 0 and loop is not None and world.scheduler.current is loop and not loop.stands_still:
            world.tell(self.id, f"waits {wait:.1f} s for its disk, in the loop")
            loop.stop_still()
            world.network.later(wait, lambda: loop.go_on() if not loop.ended else None)

    def _callback_failed(self, error: BaseException, what: object) -> None:
        self.world.alarm("S1", f"node {self.id}: {error!r} escaped from {what!r}")

    def _task_failed(self, error: BaseException, text: str) -> None:
        self.world.tell(self.id, f"nobody asked for {error!r}: {text}")


def _initial(world: SimNodeWorld) -> str:
    return ",".join(
        f"{voter.key.id}@n{voter.key.id}:{CONTROLLER_PORT}:{voter.key.directory_id}"
        for voter in world.setup.voters
    )
