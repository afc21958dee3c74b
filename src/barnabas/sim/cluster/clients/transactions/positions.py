"""Who asks for the positions that transactions commit for a group: while they run, and at the end (KIP-447)."""

from __future__ import annotations

import asyncio

from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.sim.cluster.clients.contact import Contact
from barnabas.sim.cluster.clients.transactions.producer import GROUP_KEY, find_coordinator
from barnabas.wire.schemas.groups import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

__all__ = ["PositionReader", "PositionWatcher"]

_BY_NAME = 9


async def _ask(contact: Contact, group: str, where: TopicPartition, *, stable: bool) -> int:
    """The position, -1 where there is none.  Raises BarnabasError."""
    topic = OffsetFetchRequestTopics(name=where.topic, partition_indexes=[where.partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=stable
    )
    node = await find_coordinator(contact, group, GROUP_KEY, where)
    found = (await contact.request(node, request, version=_BY_NAME)).groups[0]
    row = found.topics[0].partitions[0] if found.topics else None
    if (code := ErrorCode(found.error_code or (row.error_code if row else 0))) or row is None:
        raise KafkaError(code or ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return int(row.committed_offset)


class PositionReader:
    """Asks for the position of a group at the end, until it is stable."""

    def __init__(self, contact: Contact, group: str, where: TopicPartition) -> None:
        self.contact, self.group, self.where = contact, group, where
        self.position = -1
        self.done = False

    def __repr__(self) -> str:
        return f"<PositionReader {self.group} position={self.position} done={self.done}>"

    async def work(self) -> None:
        """Everything."""
        while not self.done:
            try:
                self.position = await _ask(self.contact, self.group, self.where, stable=True)
                self.done = True
            except BarnabasError:
                await self.contact.pause()


class PositionWatcher:
    """Asks for the position of a group again and again, stable or not."""

    def __init__(self, contact: Contact, group: str, where: TopicPartition) -> None:
        self.contact, self.group, self.where = contact, group, where
        self.told: list[tuple[float, int]] = []
        """(true seconds, position)."""
        self.finishing = self.done = False

    def __repr__(self) -> str:
        return f"<PositionWatcher {self.group} told={len(self.told)}>"

    def finish(self) -> None:
        """Ask no more."""
        self.finishing = True

    async def work(self) -> None:
        """Everything."""
        contact = self.contact
        while not self.finishing:
            await asyncio.sleep(contact.rng.expovariate(5.0))
            try:
                position = await _ask(contact, self.group, self.where, stable=contact.rng.random() < 0.5)
                self.told.append((contact.time, position))
            except BarnabasError:
                await contact.pause()
        self.done = True
