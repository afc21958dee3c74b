"""What befalls coordinators and markers: coordinators move, and old markers come once more, late.

A marker that was written is written again up to some seconds later, by another machine, as a network that
duplicates and delays does.  Only markers of transaction.version 2 are: before, a late marker ends whatever is open
in the same epoch, which is why KIP-890 was made.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.schemas.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["Disturber", "Marker"]

_STATE_TOPICS = ("__transaction_state", "__consumer_offsets")


class Marker(NamedTuple):
    """A marker that a coordinator of this epoch has written, or is about to."""

    where: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool


class Disturber:
    """A machine of its own.  `work` runs until it is told to `finish`."""

    def __init__(
        self, contact: Contact, partitions: list[TopicPartition], moves: bool, repeats: bool
    ) -> None:
        self.contact = contact
        self.partitions = partitions
        self.moves = moves
        self.repeats = repeats
        self.markers: list[Marker] = []
        self.moved = self.repeated = 0
        self.finishing = self.done = False

    def __repr__(self) -> str:
        return f"<Disturber moved={self.moved} repeated={self.repeated}>"

    def finish(self) -> None:
        """Leave them in peace."""
        self.finishing = True

    def heard(self, marker: Marker) -> None:
        """A transaction ended so."""
        if self.repeats and not self.finishing:
            self.markers.append(marker)

    async def work(self) -> None:
        """Everything."""
        rng = self.contact.rng
        while not self.finishing:
            await asyncio.sleep(rng.expovariate(2.0))
            try:
                if self.moves and rng.random() < 0.15:
                    await self._move()
                elif self.markers:
                    recent = self.markers[-8:] if rng.random() < 0.7 else self.markers
                    await self._repeat(rng.choice(recent))
            except BarnabasError:
                await self.contact.pause()
        self.done = True

    async def _move(self) -> None:
        """A partition of coordinators is led by another of its replicas, or moves."""
        contact, rng = self.contact, self.contact.rng
        world = contact.machine.world
        image = world.image
        name = rng.choice(_STATE_TOPICS)
        topic = None if image is None else image.topic(name)
        if topic is None:
            return
        index = rng.choice(sorted(topic.partitions))
        replicas = list(topic.partitions[index].replicas)
        if rng.random() < 0.3:
            replicas = rng.sample(world.setup.brokers, 3)
        else:
            rng.shuffle(replicas)
        node = (await contact.find(rng.choice(self.partitions))).node
        moving = ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        await contact.request(node, AlterPartitionReassignmentsRequest(topics=[moving], timeout_ms=3_000))
        await contact.request(node, ElectLeadersRequest(topic_partitions=None, timeout_ms=3_000))
        self.moved += 1

    async def _repeat(self, marker: Marker) -> None:
        leader = await self.contact.find(marker.where)
        topic = WritableTxnMarkerTopic(name=marker.where.topic, partition_indexes=[marker.where.partition])
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.commit,
                    topics=[topic],
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=2,
                )
            ]
        )
        await self.contact.request(leader.node, request)
        self.repeated += 1
