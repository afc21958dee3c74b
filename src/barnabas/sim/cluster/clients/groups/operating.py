"""Who administers groups: moves their coordinators, makes, grows and deletes topics, deletes positions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import TopicPartition
from barnabas.sim.cluster.clients.groups.client import GroupClient, GroupKnown
from barnabas.wire.schemas.groups import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["GroupOperator"]

OFFSETS = "__consumer_offsets"
MOST_PARTITIONS = 5
CALM = 8.0
"""Seconds after which all members that fell silent for good are out."""
BETWEEN = 3.0
"""Seconds after which a group has taken a change of its topics in: it has to see the next one by itself."""


class GroupOperator:
    """A machine of its own.  `work` runs until it is told to `finish`."""

    def __init__(
        self, contact: Contact, known: list[GroupKnown], where: TopicPartition, own_topics: tuple[str, ...]
    ) -> None:
        """`own_topics` are made and deleted; others only grow."""
        self.contact = contact
        self.clients = [GroupClient(contact, one, where) for one in known]
        self.where = where
        self.own_topics = own_topics
        self.moved = self.made = self.deleted = self.grown = self.positions = 0
        self.finishing = self.done = False

    def __repr__(self) -> str:
        return (
            f"<GroupOperator moved={self.moved} made={self.made} deleted={self.deleted} grown={self.grown}>"
        )

    def finish(self) -> None:
        """Do nothing more."""
        self.finishing = True

    async def work(self) -> None:
        """Everything."""
        rng = self.contact.rng
        deeds = (self._move, self._move, self._make, self._delete, self._grow, self._delete_position)
        while not self.finishing:
            await asyncio.sleep(rng.expovariate(1.2))
            try:
                await rng.choice(deeds)()
            except BarnabasError:
                await self.contact.pause()
        await asyncio.sleep(CALM)
        await self._once(self._grow)
        await asyncio.sleep(BETWEEN)
        await self._once(self._make_or_delete)
        self.done = True

    async def _once(self, deed: Callable[[], Awaitable[None]]) -> None:
        """A last deed, when nothing else makes groups look at their topics."""
        while True:
            try:
                await deed()
                return
            except BarnabasError:
                await self.contact.pause()

    async def _anybody(self) -> int:
        return (await self.contact.find(self.where)).node

    async def _move(self) -> None:
        """A partition of coordinators is led by another of its replicas, or moves."""
        contact, rng = self.contact, self.contact.rng
        world = contact.machine.world
        topic = None if world.image is None else world.image.topic(OFFSETS)
        if topic is None:
            return
        index = rng.choice(sorted(topic.partitions))
        replicas = list(topic.partitions[index].replicas)
        if rng.random() < 0.3:
            replicas = rng.sample(world.setup.brokers, 3)
        else:
            rng.shuffle(replicas)
        moving = ReassignableTopic(
            name=OFFSETS, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        node = await self._anybody()
        await contact.request(node, AlterPartitionReassignmentsRequest(topics=[moving], timeout_ms=3_000))
        await contact.request(node, ElectLeadersRequest(topic_partitions=None, timeout_ms=3_000))
        self.moved += 1

    async def _make_or_delete(self) -> None:
        """One that is there goes, or one that is not there comes."""
        image, name = self.contact.machine.world.image, self.contact.rng.choice(self.own_topics)
        if image is not None and image.topic(name) is not None:
            await self._delete(name)
        else:
            await self._make(name)

    async def _make(self, name: str | None = None) -> None:
        rng = self.contact.rng
        topic = CreatableTopic(
            name=name or rng.choice(self.own_topics),
            num_partitions=rng.choice((1, 2, 3)),
            replication_factor=3,
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=3_000)
        answer = await self.contact.request(await self._anybody(), request)
        self.made += not answer.topics[0].error_code

    async def _delete(self, name: str | None = None) -> None:
        gone = DeleteTopicState(name=name or self.contact.rng.choice(self.own_topics))
        request = DeleteTopicsRequest(topics=[gone], timeout_ms=3_000)
        answer = await self.contact.request(await self._anybody(), request)
        self.deleted += not answer.responses[0].error_code

    async def _grow(self) -> None:
        """A topic gets one more partition."""
        world, rng = self.contact.machine.world, self.contact.rng
        name = self.where.topic if self.finishing else rng.choice((self.where.topic, *self.own_topics))
        topic = None if world.image is None else world.image.topic(name)
        if topic is None or len(topic.partitions) >= MOST_PARTITIONS + self.finishing:
            return
        wanted = CreatePartitionsTopic(name=name, count=len(topic.partitions) + 1, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=3_000)
        answer = await self.contact.request(await self._anybody(), request)
        self.grown += not answer.results[0].error_code

    async def _delete_position(self) -> None:
        """Of a topic to which nobody in the group subscribes, so that it may be refused."""
        world, rng = self.contact.machine.world, self.contact.rng
        client = rng.choice(self.clients)
        places = sorted(client.known.positions.commits)
        image = world.image
        if not places or image is None:
            return
        place = rng.choice(places)
        topic = image.topics.get(place[0])
        if topic is None or topic.name in self.own_topics:
            return  # (under this name another topic may be by now)
        deletion = client.known.positions.deleting(place, self.contact.time)
        row = OffsetDeleteRequestTopic(
            name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=place[1])]
        )
        answer = await client.ask(OffsetDeleteRequest(group_id=client.known.id, topics=[row]))
        code = ErrorCode(answer.error_code)
        if not code:
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
        client.known.positions.answered(deletion, code, self.contact.time)
        self.positions += not code
