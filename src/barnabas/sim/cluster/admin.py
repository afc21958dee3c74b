"""The operator of a cluster, who creates the topics and does by hand what operators do.

Requests go over the simulated network, to whichever broker answers; what failed is tried again while there is
time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.client.aio import AsyncConnection
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from barnabas.wire.schemas.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    RemoveRaftVoterRequest,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from barnabas.sim.cluster.world import World

__all__ = ["Admin"]

_TOPIC = 2
_NO_ELECTION = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


class Admin:
    """A machine of its own, `admin`, from which requests go out."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.host = world.client("admin")
        self.done: Counter[str] = Counter()
        self.on_delete: Callable[[str, int], None] = lambda partition, before: None
        """Told before records are deleted: the partition (`topic-0`), and the offset they are below."""
        self._connection: AsyncConnection | None = None

    def __repr__(self) -> str:
        return f"<Admin done={dict(self.done)}>"

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return self.host.spawn(work, name)

    async def ask(self, request: Message, timeout: float = 3.0) -> Any:  # noqa: ASYNC109 - of one try
        """Ask any broker.  Raises BarnabasError."""
        connection = self._connection
        if connection is None or connection.closed:
            host, port = self.rng.choice(self.world.bootstrap)
            self._connection = connection = await AsyncConnection.connect(
                host, port, client_id="admin", connect_timeout=1.0
            )
        try:
            return await connection.request(request, timeout=timeout)
        except BarnabasError:
            connection.abort()
            self._connection = None
            raise

    async def until(self, once: Callable[[], Coroutine[Any, Any, bool]], seconds: float) -> bool:
        """Try until it is done."""
        end = self.world.time + seconds
        while self.world.time < end:
            try:
                if await once():
                    return True
            except BarnabasError:
                pass
            await asyncio.sleep(0.1)
        return False

    # What is done.

    async def create_topics(self) -> None:
        """The topics of the seed, with three replicas each."""

        async def once() -> bool:
            answer = await self.ask(
                CreateTopicsRequest(
                    topics=[
                        CreatableTopic(
                            name=topic.name,
                            num_partitions=topic.partitions,
                            replication_factor=3,
                            configs=[CreatableTopicConfig(name=n, value=v) for n, v in topic.configs],
                        )
                        for topic in self.world.setup.topics
                    ],
                    timeout_ms=5_000,
                )
            )
            refused = [
                topic
                for topic in answer.topics
                if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            ]
            if refused:
                self.world.tell("admin", f"cannot make topics: {refused}")
            return not refused

        if not await self.until(once, 30.0):
            self.world.alarm("L2", "the topics could not be created in 30 s of peace")

    async def something(self) -> None:
        """One of the things that are done now and then."""
        name, work, seconds = self.rng.choice(
            (
                ("preferred election", self._elect, 10.0),
                ("election of one", self._elect_one, 10.0),
                ("topic setting", self._alter, 10.0),
                ("delete records", self._delete_records, 5.0),
                ("delete records", self._delete_records, 5.0),
                ("reassignment", self._reassign, 10.0),
                ("reassignment", self._reassign, 10.0),
                ("voters", self._voters, 10.0),
                ("rolling restart", self._roll, 1.0),
            )
        )
        self.world.tell("admin", name)
        if await self.until(work, seconds):
            self.done[name] += 1
            self.world.tell("admin", f"{name}: done")

    async def _elect(self) -> bool:
        answer = await self.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=3_000))
        return not answer.error_code

    async def _elect_one(self) -> bool:
        name, index = self.rng.choice(self.world.partitions())
        answer = await self.ask(
            ElectLeadersRequest(
                topic_partitions=[TopicPartitions(topic=name, partitions=[index])], timeout_ms=3_000
            )
        )
        codes = [p.error_code for topic in answer.replica_election_results for p in topic.partition_result]
        return all(code in _NO_ELECTION for code in codes)

    async def _alter(self) -> bool:
        topic = self.rng.choice(self.world.setup.topics)
        value = str(self.rng.choice((1_000, 5_000, 604_800_000)))
        answer = await self.ask(
            IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsRequestAlterConfigsResource(
                        resource_type=_TOPIC,
                        resource_name=topic.name,
                        configs=[
                            IncrementalAlterConfigsRequestAlterableConfig(
                                name="segment.ms", config_operation=0, value=value
                            )
                        ],
                    )
                ]
            )
        )
        return all(not one.error_code for one in answer.responses)

    async def _delete_records(self) -> bool:
        """Of a partition, up to somewhere below what is committed."""
        name, index = self.rng.choice(self.world.partitions())
        leader = self.world.leader_of(name, index)
        partition = None if leader is None or leader.broker is None else leader.broker.partition(name, index)
        if leader is None or partition is None or not partition.is_leader:
            return False
        before = self.rng.randint(0, partition.high_watermark * 3 // 4)
        self.on_delete(f"{name}-{index}", before)
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=before)]
                )
            ],
            timeout_ms=3_000,
        )
        async with await AsyncConnection.connect(
            *leader.address, client_id="admin", connect_timeout=1.0
        ) as line:
            answer = await line.request(request, timeout=4.0)
        return not any(p.error_code for topic in answer.topics for p in topic.partitions)

    async def _reassign(self) -> bool:
        """A partition moves, or only the order of its replicas changes."""
        name, index = self.rng.choice(self.world.partitions())
        replicas = self.rng.sample(self.world.setup.brokers, 3)
        answer = await self.ask(
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=name,
                        partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
                    )
                ],
                timeout_ms=3_000,
            )
        )
        return not answer.error_code and not any(
            p.error_code for topic in answer.responses for p in topic.partitions
        )

    async def _voters(self) -> bool:
        """A voter is removed; or one that was removed is added again."""
        world = self.world
        active = world.active_controller
        if world.setup.static or len(world.setup.controllers) < 3 or active is None or active.quorum is None:
            return True
        now = {key.id for key in active.quorum.voters.keys}
        missing = [voter for voter in world.setup.voters if voter.key.id not in now]
        request: Message
        if missing:
            (endpoint,) = missing[0].endpoints
            request = AddRaftVoterRequest(
                cluster_id=world.setup.cluster_id,
                timeout_ms=3_000,
                voter_id=missing[0].key.id,
                voter_directory_id=missing[0].key.directory_id,
                listeners=[
                    AddRaftVoterRequestListener(
                        name=endpoint.listener, host=endpoint.host, port=endpoint.port
                    )
                ],
            )
        else:
            key = self.rng.choice(list(world.setup.voters)).key
            request = RemoveRaftVoterRequest(
                cluster_id=world.setup.cluster_id, voter_id=key.id, voter_directory_id=key.directory_id
            )
        answer = await self.ask(request, timeout=5.0)
        world.tell("admin", f"{type(request).__name__}: {answer.error_code}")
        return not answer.error_code

    async def _roll(self) -> bool:
        """One node after the other is stopped cleanly and started again."""
        for node in self.world.nodes.values():
            if self.world.calm or not node.serves or node.paused:
                continue
            run_number = node.run_number
            node.stop()
            self.world.restart_when_down(node, 0.1)
            for _ in range(100):
                await asyncio.sleep(0.1)
                if node.run_number > run_number and node.serves:
                    break
        return True
