"""A whole cluster: hosts with real nodes on them, clients, the network between, and one true time.

Everything that happens is an event of the scheduler; all randomness comes from the seed.  So a seed is a
history, the same in every process; `digest` is its fingerprint.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import NodeId
from barnabas.sim.cluster.loop import Scheduler, VirtualLoop
from barnabas.sim.cluster.network import Network
from barnabas.sim.cluster.node import SimNode
from barnabas.sim.cluster.setup import Setup
from barnabas.sim.kernel.clock import NodeClock
from barnabas.sim.kernel.disk import Loss
from barnabas.sim.kernel.report import InvariantViolation, StoryLine
from barnabas.sim.kernel.rng import SeededRandomness

if TYPE_CHECKING:
    import asyncio

    from barnabas.controller.image import MetadataImage

__all__ = ["ClientHost", "World"]


class ClientHost:
    """A machine on which client programs run: `spawn` them."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.host = world.network.host(name)
        self.host.on_task_error = self._failed
        self.clock = NodeClock(world.scheduler)
        self.random = SeededRandomness(f"{name} {world.seed}")
        self.rng = random.Random(f"client {name} {world.seed}")
        self.loop = VirtualLoop.of(world.scheduler, self.host, name, on_error=self._failed)

    def __repr__(self) -> str:
        return f"<ClientHost {self.name}>"

    def spawn(self, work: Coroutine[Any, Any, Any], name: str = "client") -> asyncio.Task[Any]:
        """Run a coroutine on this machine; an error that escapes from it ends the seed."""
        task = self.loop.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error, task.get_name())

    def _failed(self, error: BaseException, what: object) -> None:
        if isinstance(error, InvariantViolation):
            self.world.scheduler.alarm = error
        elif self.world.scheduler.alarm is None:
            failure = RuntimeError(f"client {self.name}: {error!r} in {what}")
            failure.__cause__ = error
            self.world.scheduler.alarm = failure


class World:
    """See the module.  `story` True keeps every line that is told."""

    def __init__(self, seed: int, *, story: bool = False, setup: Setup | None = None) -> None:
        self.seed = seed
        self.scheduler = Scheduler()
        self.rng = random.Random(f"cluster {seed}")
        self.setup = setup or Setup.of(random.Random(f"cluster setup {seed}"))
        self.network = Network(self.scheduler, random.Random(f"cluster network {seed}"))
        self.network.window = self.setup.window
        self.story: list[StoryLine] | None = [] if story else None
        self.calm = False
        """Faults and operators are done with."""
        self.graves: list[VirtualLoop] = []
        """Loops of runs that are over; their tasks are closed at the end of the world."""
        self.on_end: Callable[[SimNode, str], None] = lambda node, why: None
        self.on_over: Callable[[SimNode], None] = lambda node: None
        """Told when a run is about to end."""
        self.on_recovered: Callable[[SimNode], None] = lambda node: None
        """Told when a node has opened its directories, and done nothing else yet."""
        self.emptied: dict[NodeId, int] = {}
        """Brokers that lost their disk and do not hold everything again yet."""
        self.on_emptied: Callable[[SimNode], None] = lambda node: None
        self.excuses: Callable[[NodeId], bool] | None = None
        """Says whether a node may serve a damaged batch; None: none ever may."""
        self.clients: dict[str, ClientHost] = {}
        self._hash = hashlib.sha256()
        self.nodes: dict[NodeId, SimNode] = {i: SimNode(self, i) for i in self.setup.nodes}

    def __repr__(self) -> str:
        return f"<World seed={self.seed} time={self.time:.3f} events={self.scheduler.events}>"

    @property
    def time(self) -> float:
        """True seconds since the beginning."""
        return self.scheduler.time

    @property
    def on_event(self) -> list[Callable[[], None]]:
        """Called after every event."""
        return self.scheduler.on_event

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """Where clients begin."""
        return [self.nodes[i].address for i in self.setup.brokers]

    def start(self) -> None:
        """Every disk is formatted, every node starts."""
        for node in self.nodes.values():
            node.format()
            node.start()

    def client(self, name: str) -> ClientHost:
        """A machine for clients."""
        made = self.clients[name] = ClientHost(self, name)
        return made

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass.  True as soon as `until` holds, else whether it holds at the end."""
        done = self.scheduler.run(self.time + seconds, until)
        return until is None or done

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Call that again and again."""

        def again() -> None:
            action()
            self.network.later(seconds, again)

        self.network.later(seconds, again)

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.network.later(delay, action)

    def close(self) -> None:
        """The end of the world: whatever was under way is thrown away."""
        loops = [*self.graves, *(node.loop for node in self.nodes.values() if node.loop is not None)]
        loops.extend(client.loop for client in self.clients.values())
        for loop in loops:
            loop.end()
        for loop in loops:
            loop.bury()
        OPEN_FILES.forget_all()

    # What is told of it.

    def tell(self, who: NodeId | str, text: str) -> None:
        """A line of the story, and part of the fingerprint."""
        self._hash.update(f"{self.time!r} {who} {text};".encode())
        if self.story is not None:
            self.story.append(StoryLine(self.time, f"n{who}" if isinstance(who, int) else who, text))

    def trace(self, text: str) -> None:
        """Part of the fingerprint only."""
        self._hash.update(f"{self.time!r} {text};".encode())

    @property
    def digest(self) -> str:
        """The fingerprint of everything that happened so far."""
        self._hash.update(f"{self.scheduler.events} {self.time!r};".encode())
        return self._hash.hexdigest()[:32]

    def alarm(self, invariant: str, text: str) -> NoReturn:
        """An invariant is broken: the seed ends."""
        broken = InvariantViolation(invariant, text)
        self.scheduler.alarm = broken
        raise broken

    def loss(self) -> Loss:
        """What a power cut takes."""
        losses: tuple[Loss, ...] = ("all", "some", "some", "none")
        return self.rng.choice(losses)

    def ended_by_itself(self, node: SimNode, why: str) -> None:
        """A process ended that nobody killed."""
        self.on_end(node, why)

    # Who starts what is down.

    def start_in(self, seconds: float, node: SimNode) -> None:
        """Start that node again in so many seconds, if nobody else did."""
        run_number = node.run_number

        def start() -> None:
            if not node.up and node.run_number == run_number:
                node.start()

        self.at(seconds, start)

    def restart_when_down(self, node: SimNode, seconds: float) -> None:
        """Start it so many seconds after it has ended."""
        run_number = node.run_number

        def look() -> None:
            if node.run_number == run_number:
                if node.up:
                    self.at(0.1, look)
                else:
                    self.start_in(seconds, node)

        self.at(0.1, look)

    def operator_looks_at(self, node: SimNode, seconds: float) -> None:
        """Somebody repaired its disk: a node that lost a directory is stopped and started again."""

        def look() -> None:
            if node.disk.troubled:
                return
            if not node.up:
                self.start_in(0.1, node)
            elif node.ails and not node.paused:
                node.stop()
                self.restart_when_down(node, 0.1)

        self.at(seconds, look)

    # Who leads.

    @property
    def image(self) -> MetadataImage | None:
        """The metadata as the most advanced node knows them."""
        images = [node.quorum.image for node in self.nodes.values() if node.quorum is not None]
        return max(images, key=lambda image: image.offset, default=None)

    def partitions(self) -> list[tuple[str, int]]:
        """Topics and partitions of the seed's topics."""
        return [(topic.name, index) for topic in self.setup.topics for index in range(topic.partitions)]

    def leader_of(self, topic: str, index: int) -> SimNode | None:
        """Who leads a partition, by the metadata."""
        image = self.image
        state = None if image is None else image.partition(topic, index)
        return None if state is None else self.nodes.get(state.leader)

    def leader_of_something(self, rng: random.Random) -> SimNode | None:
        """The leader of one of the partitions that clients use."""
        return self.leader_of(*rng.choice(self.partitions()))

    @property
    def active_controller(self) -> SimNode | None:
        """The active controller of the highest epoch."""
        active = [n for n in self.nodes.values() if n.quorum is not None and n.quorum.is_active_controller]
        return max(active, key=lambda n: n.quorum.epoch if n.quorum else 0, default=None)
