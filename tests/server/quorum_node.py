"""A quorum of one node over a disk in memory, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from tests.controller.cluster import CLUSTER, Chance
from tests.patience import PATIENCE_S

from barnabas.config import Config
from barnabas.controller.image import BrokerEndpoint, ImageDelta
from barnabas.errors import BarnabasError
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.model import Endpoint
from barnabas.server.kraft.driver import Quorum
from barnabas.server.kraft.proposals import STEPS
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.loop.system import SystemClock
from barnabas.server.node.format import FormatPlan, format_directories
from barnabas.server.replication.lifecycle import BrokerLifecycle, LifecycleSettings
from barnabas.sim.kernel.disk import Crashed, MemoryDisk
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DIRECTORY = "data"
METADATA = f"{DIRECTORY}/__cluster_metadata-0"
OWN = (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
T = TypeVar("T")


class Node:
    """What a test holds of a quorum: `quorum` is there once it is open."""

    def __init__(self, opening: Callable[[Node], Awaitable[Quorum]], random: Chance) -> None:
        self._opening = opening
        self.quorum: Any = None
        self.errors: list[BarnabasError] = []
        self.random = random
        self.deltas: list[ImageDelta] = []
        self.lifecycle: BrokerLifecycle | None = None

    async def start(self) -> None:
        self.quorum = await self._opening(self)
        self.quorum.on_change(self.deltas.append)
        await self.quorum.start()

    async def stop(self) -> None:
        if self.quorum is not None:
            await self.quorum.stop()

    @property
    def failed(self) -> bool:
        return self.quorum is not None and self.quorum.failed is not None

    async def broker(self, previous_epoch: int = -1) -> BrokerLifecycle:
        """Bring this node's broker up."""
        settings = LifecycleSettings(
            broker_id=1,
            cluster_id=CLUSTER,
            listeners=(BrokerEndpoint("PLAINTEXT", "127.0.0.1", 9092, 0),),
            directories=(self.quorum.settings.key.directory_id,),
            previous_epoch=previous_epoch,
            registration_timeout=PATIENCE_S,
        )
        quorum = self.quorum
        self.lifecycle = BrokerLifecycle(
            quorum.submit, settings, metadata_offset=lambda: quorum.image.offset, random=self.random
        )
        await self.lifecycle.register()
        await self.lifecycle.unfence()
        return self.lifecycle

    async def create(self, name: str, partitions: int = 1) -> CreatableTopicResult:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = await self.quorum.submit(CreateTopicsRequest(topics=[topic]))
        assert isinstance(answer, CreateTopicsResponse)
        return answer.topics[0]

    def abandon(self) -> None:
        """Forget it as a kill does: nothing is written, nothing answered."""
        if self.lifecycle is not None:
            self.lifecycle.abandon()
        if self.quorum is not None:
            self.quorum._cancel_timers()
            self.quorum.failed = self.quorum.failed or BarnabasError("killed")
            self.quorum._thread.close(wait=True)


def config(**settings: str) -> Config:
    return Config.load({name.replace("_", "."): value for name, value in settings.items()})


def formatted(**settings: Any) -> MemoryDisk:
    disk = MemoryDisk(1)
    plan = FormatPlan.of(config(log_dirs=DIRECTORY, **settings), CLUSTER, standalone=True)
    format_directories(disk, SystemClock(), Chance(), plan)
    return disk


def make(
    disk: MemoryDisk,
    seed: int = 2,
    steps: int = STEPS,
    endpoints: tuple[Endpoint, ...] = OWN,
    **settings: str,
) -> Node:
    meta = read_meta_properties(disk, DIRECTORY)
    assert meta is not None and meta.directory_id is not None
    given = config(log_dirs=DIRECTORY, **settings)
    directory_id = meta.directory_id

    async def opening(node: Node) -> Quorum:
        return await Quorum.open(
            QuorumSettings.of(given, cluster_id=CLUSTER, directory_id=directory_id, endpoints=endpoints),
            given,
            disk=disk,
            clock=SystemClock(),
            random=node.random,
            on_fatal=node.errors.append,
            on_step=lambda seconds: None,
            steps=steps,
        )

    return Node(opening, Chance(seed))


@asynccontextmanager
async def running(
    disk: MemoryDisk, seed: int = 2, endpoints: tuple[Endpoint, ...] = OWN, **settings: str
) -> AsyncIterator[Node]:
    node = make(disk, seed, endpoints=endpoints, **settings)
    await node.start()
    try:
        yield node
    finally:
        if node.lifecycle is not None:
            node.lifecycle.abandon()
        await node.quorum.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    while not condition():  # noqa: ASYNC110  (what is waited for is no event of ours)
        await asyncio.sleep(0.001)


def run(story: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function in a loop of its own; it must end within seconds."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await story()

    return asyncio.run(bounded())


async def live(disk: MemoryDisk, story: Callable[[Node], Awaitable[None]], seed: int, power: int) -> None:
    """One life of a node; at the disk's step `power` the power fails (or the story ends before)."""
    disk.crash_at(power)
    last_step = disk.steps + power
    node = make(disk, seed)

    async def whole() -> None:
        await node.start()
        await story(node)

    task = asyncio.ensure_future(whole())
    await until(lambda: task.done() or node.failed or disk.steps >= last_step)
    task.cancel()
    with suppress(BaseException):
        await task
    node.abandon()


__all__ = ["Crashed", "Node", "formatted", "live", "make", "run", "running", "until"]
