"""Real nodes on a virtual network and in virtual time, for scenarios of several brokers.

    with Virtual() as cluster:                      # three combined nodes, all serving
        cluster.create("t", [1, 2, 3])
        cluster.kill(1)
        cluster.until(lambda: cluster.state("t").leader != 1)

Everything is `server.process.Node` as it is; only sockets, disks and clocks are the simulator's, so ten seconds
of a cluster's life take a fraction of one, and the same thing happens in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.controller.image import MetadataImage, PartitionState
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import NodeId
from barnabas.raft.voters import VoterSet
from barnabas.server.node.format import FormatPlan, format_directories
from barnabas.sim.cluster.clients.clients import Workload
from barnabas.sim.cluster.node import SimNode
from barnabas.sim.cluster.setup import CLIENT_PORT, CONTROLLER_PORT, Setup, TopicPlan
from barnabas.sim.cluster.world import World
from barnabas.sim.kernel.rng import SeededRandomness
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from barnabas.wire.schemas.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

__all__ = ["Virtual"]

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "9000",
}


@dataclass(frozen=True, slots=True)
class Shape(Setup):
    """`joining`: controllers that are no voters at first."""

    joining: tuple[NodeId, ...] = ()

    @property
    def voters(self) -> VoterSet:
        every = Setup.voters.fget(self)  # type: ignore[attr-defined]
        return VoterSet.of(voter for voter in every if voter.key.id not in self.joining)


class Virtual:
    """`brokers` and `controllers` by id; a node in both is a combined one.  `later` are not started at first."""

    def __init__(
        self,
        brokers: tuple[NodeId, ...] = (1, 2, 3),
        controllers: tuple[NodeId, ...] = (1, 2, 3),
        *,
        joining: tuple[NodeId, ...] = (),
        later: tuple[NodeId, ...] = (),
        topics: dict[str, int] | None = None,
        seed: int = 1,
        **settings: str,
    ) -> None:
        """`topics` (name: partitions) are those of `load`; `joining` are controllers, but no voters."""
        given = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
        shape = Shape(
            controllers=(*controllers, *joining),
            brokers=brokers,
            topics=tuple(TopicPlan(name, count, ()) for name, count in (topics or {}).items()),
            static=False,
            directories=1,
            settings=tuple(given.items()),
            window=64 * 1024,
            joining=joining,
        )
        self.world = World(seed, setup=shape, story=True)
        self.later = later
        self._client = self.world.client("operator")
        self._lines: dict[tuple[NodeId, int], AsyncConnection] = {}
        self.workload: Workload | None = None

    def __enter__(self) -> Virtual:
        try:
            for node in self.world.nodes.values():
                self._format(node)
                if node.id not in self.later:
                    node.start()
            self.until(self._all_serve, 30)
        except BaseException:
            self.world.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()

    def _format(self, node: SimNode) -> None:
        shape = self.world.setup
        assert isinstance(shape, Shape)
        if node.id not in shape.joining:
            node.format()
            return
        plan = FormatPlan.of(
            Config.load(shape.properties(node.id)), shape.cluster_id, no_initial_controllers=True
        )
        format_directories(node.disk, node.clock, SeededRandomness(f"format {node.id}"), plan)

    def _all_serve(self) -> bool:
        image = self.world.image
        if image is None:
            return False
        up = [node for node in self.world.nodes.values() if node.up]
        brokers = {node.id for node in up if node.is_broker}
        return all(node.serves for node in up) and brokers <= {b.id for b in image.alive_brokers()}

    # ---- what is there -----------------------------------------------------------------------------------

    def __getitem__(self, id_: NodeId) -> SimNode:
        return self.world.nodes[id_]

    @property
    def image(self) -> MetadataImage:
        """The metadata, as the most advanced node knows them."""
        image = self.world.image
        assert image is not None
        return image

    def state(self, topic: str, index: int = 0) -> PartitionState:
        state = self.image.partition(topic, index)
        assert state is not None
        return state

    def controller(self) -> NodeId:
        """The active controller, once there is one."""
        self.until(lambda: self.world.active_controller is not None)
        active = self.world.active_controller
        assert active is not None
        return active.id

    def end(self, id_: NodeId, topic: str, index: int = 0) -> int | None:
        """Where a broker's copy of a partition ends; None where it has none."""
        broker = self[id_].broker
        partition = None if broker is None else broker.partition(topic, index)
        return None if partition is None else partition.log.log_end_offset

    # ---- time and faults ---------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run(seconds)

    def until(self, look: Callable[[], bool], within: float = 30.0) -> float:
        """Let time pass until it is so; how long that took."""
        begun = self.world.time
        if not self.world.run(within, look):
            told = "\n".join(str(line) for line in (self.world.story or [])[-30:])
            raise AssertionError(f"not within {within:g} s\n{told}")
        return self.world.time - begun

    def start(self, id_: NodeId) -> None:
        self[id_].start()
        self.until(lambda: self[id_].serves)

    def kill(self, id_: NodeId) -> None:
        """kill -9."""
        self[id_].kill()

    def stop(self, id_: NodeId) -> float:
        """SIGTERM; how long it took to end."""
        self[id_].stop()
        return self.until(lambda: not self[id_].up)

    def cut(self, id_: NodeId) -> None:
        """Nobody hears of it any more."""
        self.world.network.cut(self._pairs(id_))

    def mend(self, id_: NodeId) -> None:
        self.world.network.mend(self._pairs(id_))

    def _pairs(self, id_: NodeId) -> list[tuple[str, str]]:
        others = [f"n{other}" for other in self.world.nodes if other != id_]
        return [pair for other in others for pair in ((f"n{id_}", other), (other, f"n{id_}"))]

    # ---- asking ------------------------------------------------------------------------------------------

    def ask(
        self, request: Message, at: NodeId | None = None, *, controller: bool = False, within: float = 30
    ) -> Any:
        """The answer of a node (a broker that serves; with `controller` on the controllers' listener)."""
        if at is None:
            at = (
                self.controller()
                if controller
                else min(n.id for n in self.world.nodes.values() if n.serves and n.is_broker)
            )
        found: list[Any] = []
        port = CONTROLLER_PORT if controller else CLIENT_PORT

        async def once() -> None:
            try:
                line = self._lines.get((at, port))
                if line is None or line.closed:
                    line = self._lines[at, port] = await AsyncConnection.connect(f"n{at}", port)
                found.append(await line.request(request, timeout=within))
            except BarnabasError as error:
                found.append(error)

        self._client.spawn(once(), "ask")
        self.until(lambda: bool(found), within + 5)
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    def begin(self, request: Message, at: NodeId, *, controller: bool = False) -> list[Any]:
        """Ask and do not wait; the answer (or the error) will be in the list."""
        found: list[Any] = []
        port = CONTROLLER_PORT if controller else CLIENT_PORT

        async def once() -> None:
            try:
                line = await AsyncConnection.connect(f"n{at}", port)
                found.append(await line.request(request, timeout=60))
            except BarnabasError as error:
                found.append(error)

        self._client.spawn(once(), "begin")
        return found

    def create(self, name: str, *assignment: list[NodeId], **settings: str) -> None:
        """A topic with these replicas."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(assignment)
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in settings.items()
            ],
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == ErrorCode.NONE, answer

    def place(self, name: str, partitions: int, replicas: int) -> None:
        """A topic of which the controller places the replicas."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        answer = self.ask(CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == ErrorCode.NONE, answer

    def move(self, name: str, target: list[NodeId] | None, index: int = 0) -> ErrorCode:
        asked = ReassignablePartition(partition_index=index, replicas=target)
        answer = self.ask(
            AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[asked])])
        )
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def elect(self, name: str, index: int = 0, *, unclean: bool = False) -> ErrorCode:
        asked = [TopicPartitions(topic=name, partitions=[index])]
        answer = self.ask(ElectLeadersRequest(election_type=int(unclean), topic_partitions=asked))
        return ErrorCode(answer.replica_election_results[0].partition_result[0].error_code)

    # ---- load --------------------------------------------------------------------------------------------

    def load(self) -> Workload:
        """Producers and consumers of the topics begin; `judge` ends them."""
        self.workload = Workload(self.world)
        self.workload.begin()
        return self.workload

    def judge(self, within: float = 120.0) -> dict[str, int]:
        """Everything that was sent has its fate, everything is read, and nothing is wrong with it."""
        workload = self.workload
        assert workload is not None
        workload.finish()
        self.until(lambda: workload.done, within)
        workload.check()
        return workload.counts
