"""A simulated client that commits offsets for a group, and asks what the group has committed.

The group has no members, and one client alone commits, always more than before.  The answer must be what was
acknowledged last, or what was tried since and may have happened.  So nothing may be forgotten, set back or
made up when the coordinator moves (G1).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NO_NODE, NodeId, TopicPartition
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.schemas.groups import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact

__all__ = ["Committer"]

_BY_NAME = 9
_LATE = 20.0
"""Seconds for which a request that nobody answered may still arrive."""


class Committer:
    """Commits 1, 2, 3 ... for one partition of a group of its own."""

    def __init__(self, contact: Contact, where: TopicPartition, interval: float) -> None:
        self.contact = contact
        self.where = where
        self.group = f"group of {contact.name}"
        self.interval = interval
        self.coordinator: NodeId = NO_NODE
        self.next = 1
        self.acknowledged = -1
        self.open: list[tuple[float, int]] = []
        """(when, what) of commits that nobody answered, or not for sure."""
        self.commits = self.looks = 0
        self.finishing = False
        self.done = False

    def __repr__(self) -> str:
        return f"<Committer {self.contact.name} acknowledged={self.acknowledged} open={self.open}>"

    def finish(self) -> None:
        """Commit nothing more; look once more."""
        self.finishing = True

    async def work(self) -> None:
        """Everything."""
        rng = self.contact.rng
        while not self.finishing:
            await asyncio.sleep(rng.expovariate(1 / self.interval))
            await (self._commit() if rng.random() < 0.6 else self._look())
        while not await self._look():
            await self.contact.pause()
        self.done = True

    async def _commit(self) -> None:
        offset, self.next = self.next, self.next + 1
        topics = [
            OffsetCommitRequestTopic(
                name=self.where.topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=self.where.partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ]
        request = OffsetCommitRequest(group_id=self.group, topics=topics)
        sent = self.contact.time
        self.open.append((sent, offset))
        try:
            coordinator = await self._find()
            answer = await self.contact.request(coordinator, request, version=_BY_NAME)
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
        except BarnabasError:
            self.coordinator = NO_NODE
            await self.contact.pause()
            return
        if code == ErrorCode.NONE:
            self.acknowledged = offset
            self.commits += 1
            self.open.remove((sent, offset))
            return
        if code.definite:
            self.open.remove((sent, offset))
        self.coordinator = NO_NODE
        await self.contact.pause()

    async def _look(self) -> bool:
        """Ask what is committed; false when nobody says so now."""
        wanted = [OffsetFetchRequestTopics(name=self.where.topic, partition_indexes=[self.where.partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=wanted)])
        begun = self.contact.time
        try:
            coordinator = await self._find()
            answer = await self.contact.request(coordinator, request, version=_BY_NAME)
            group = answer.groups[0]
            code = ErrorCode(group.error_code or group.topics[0].partitions[0].error_code)
            if code:
                raise KafkaError(code)
        except BarnabasError:
            self.coordinator = NO_NODE
            await self.contact.pause()
            return False
        self.looks += 1
        self._judge(group.topics[0].partitions[0].committed_offset, begun, coordinator)
        return True

    def _judge(self, offset: int, begun: float, coordinator: NodeId) -> None:
        self.open = [(at, what) for at, what in self.open if what > self.acknowledged or at > begun - _LATE]
        if offset != self.acknowledged and offset not in [what for _, what in self.open]:
            raise InvariantViolation(
                "G1",
                f"{self.contact.name} had {self.acknowledged} acknowledged as the offset of {self.group} (and "
                f"{[what for _, what in self.open]} are open); coordinator {coordinator} says {offset}",
            )

    async def _find(self) -> NodeId:
        """Who coordinates the group.  Raises BarnabasError when nobody says so."""
        if self.coordinator == NO_NODE:
            leader = await self.contact.find(self.where)  # any node will do
            request = FindCoordinatorRequest(coordinator_keys=[self.group])
            answer = (await self.contact.request(leader.node, request)).coordinators[0]
            if answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code))
            self.contact.learn_address(answer.node_id, answer.host, answer.port)
            self.coordinator = answer.node_id
        return self.coordinator
