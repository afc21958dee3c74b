"""What befalls coordinators and markers: coordinators move, old markers come once more, batches come too late.

A marker that was written is written again up to some seconds later, by another machine, as a network that
duplicates and delays does.  Before transaction.version 2 a late marker ends whatever is open in the same epoch,
which is why KIP-890 was made.  So of those only what a newer coordinator's marker has followed is repeated.
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
    from barnabas.wire.schemas.produce import ProduceRequest

__all__ = ["Disturber", "Late", "Marker"]

_STATE_TOPICS = ("__transaction_state", "__consumer_offsets")


class Marker(NamedTuple):
    """A marker that a coordinator of this epoch has written, or is about to."""

    where: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    version: int = 2


class Late(NamedTuple):
    """A request to produce that the network delivers when its transaction is over, or never."""

    where: TopicPartition
    request: ProduceRequest
    how: dict[str, int]


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
        self.superseded: list[Marker] = []
        """Before transaction.version 2, and of older coordinators."""
        self.late: list[Late] = []
        self.moved = self.repeated = self.delivered = 0
        self.finishing = self.done = False

    def __repr__(self) -> str:
        return f"<Disturber moved={self.moved} repeated={self.repeated} late={self.delivered}>"

    def finish(self) -> None:
        """Leave them in peace."""
        self.finishing = True

    def heard(self, marker: Marker) -> None:
        """A transaction ended so."""
        if self.repeats and not self.finishing:
            (self.markers if marker.version >= 2 else self.superseded).append(marker)

    def held_back(self, late: Late) -> None:
        """The network has this, and keeps it for a while."""
        if not self.finishing:
            self.late.append(late)

    async def work(self) -> None:
        """Everything."""
        rng = self.contact.rng
        while not self.finishing:
            await asyncio.sleep(rng.expovariate(8.0))
            try:
                if self.moves and rng.random() < 0.08:
                    await self._move()
                elif self.late and rng.random() < 0.6:
                    await self._deliver(self.late.pop(rng.randrange(len(self.late))))
                elif self.superseded and rng.random() < 0.6:
                    await self._repeat(rng.choice(self.superseded[-3:]))
                elif self.markers and rng.random() < 0.5:
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
                    transaction_version=marker.version if marker.version >= 2 else 0,
                )
            ]
        )
        await self.contact.request(leader.node, request)
        self.repeated += 1

    async def _deliver(self, late: Late) -> None:
        """Whatever becomes of it: nobody waits for the answer any more."""
        leader = await self.contact.find(late.where)
        self.delivered += 1
        await self.contact.request(leader.node, late.request, **late.how)
