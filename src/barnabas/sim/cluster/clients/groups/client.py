"""What members of both protocols have in common: they find their coordinator, commit, and ask for positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NO_NODE, NodeId, TopicPartition
from barnabas.sim.cluster.clients.groups.epochs import Epochs
from barnabas.sim.cluster.clients.groups.ownership import Holdings
from barnabas.sim.cluster.clients.groups.positions import NOTHING, Place, Positions
from barnabas.sim.cluster.clients.transactions.producer import GROUP_KEY, find_coordinator
from barnabas.wire.schemas.groups import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.contact import Contact
    from barnabas.wire.codec.message import Message

__all__ = ["LOOK_AGAIN", "GroupClient", "GroupKnown", "Owner", "PositionReader"]

LOOK_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""The coordinator is another one, or will be; what was asked may have happened."""


class GroupKnown:
    """What is known from outside of one group: who holds what (G3, G6), and what was committed (G4)."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.holdings = Holdings(group_id)
        self.epochs = Epochs(group_id)
        self.positions = Positions(group_id)

    def __repr__(self) -> str:
        return f"<GroupKnown {self.holdings!r} {self.positions!r}>"


class Owner(NamedTuple):
    """As whom a position is committed or fetched."""

    member_id: str
    epoch: int
    instance_id: str | None = None


class GroupClient:
    """A machine that talks with the coordinator of one group."""

    def __init__(self, contact: Contact, known: GroupKnown, where: TopicPartition) -> None:
        """`where`: its leader is asked who coordinates."""
        self.contact = contact
        self.known = known
        self.where = where
        self.coordinator: NodeId = NO_NODE

    async def ask(self, request: Message, **how: Any) -> Any:
        """Ask the coordinator.  Raises BarnabasError; then it is looked for anew."""
        try:
            if self.coordinator == NO_NODE:
                self.coordinator = await find_coordinator(self.contact, self.known.id, GROUP_KEY, self.where)
            return await self.contact.request(self.coordinator, request, **how)
        except BarnabasError:
            self.coordinator = NO_NODE
            raise

    async def commit(self, place: Place, owner: Owner, *, stale: bool = False) -> None:
        """Commit a position, once."""
        contact, positions = self.contact, self.known.positions
        commit = positions.sent(place, owner.member_id, owner.epoch, contact.time, stale=stale)
        row = OffsetCommitRequestPartition(
            partition_index=place[1],
            committed_offset=commit.number,
            committed_metadata=str(commit.number),
        )
        request = OffsetCommitRequest(
            group_id=self.known.id,
            generation_id_or_member_epoch=owner.epoch,
            member_id=owner.member_id,
            group_instance_id=owner.instance_id,
            topics=[OffsetCommitRequestTopic(topic_id=place[0], partitions=[row])],
        )
        try:
            answer = await self.ask(request)
        except BarnabasError:
            await contact.pause()
            return
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        positions.answered(commit, code, contact.time)
        if code in LOOK_AGAIN:
            self.coordinator = NO_NODE

    async def position(self, place: Place, owner: Owner | None) -> int:
        """The number of the commit that is a position now.  Raises BarnabasError."""
        group = OffsetFetchRequestGroup(
            group_id=self.known.id,
            member_id=None if owner is None else owner.member_id,
            member_epoch=-1 if owner is None else owner.epoch,
            topics=[OffsetFetchRequestTopics(topic_id=place[0], partition_indexes=[place[1]])],
        )
        answer = (await self.ask(OffsetFetchRequest(groups=[group]))).groups[0]
        row = answer.topics[0].partitions[0] if answer.topics else None
        if (code := ErrorCode(answer.error_code or (row.error_code if row else 0))) or row is None:
            if code in LOOK_AGAIN:
                self.coordinator = NO_NODE
            raise KafkaError(code or ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return int(row.metadata or NOTHING)


class PositionReader(GroupClient):
    """Reads the positions of a group at the end."""

    done = False

    async def read_all(self) -> None:
        """Every position that was ever committed; those of deleted topics are gone."""
        for place in sorted(self.known.positions.commits):
            while True:
                since = self.contact.time
                try:
                    number = await self.position(place, None)
                except KafkaError as error:
                    if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                        break
                except BarnabasError:
                    pass
                else:
                    self.known.positions.read(place, number, since, self.contact.name)
                    break
                await self.contact.pause()
        self.done = True

    def __repr__(self) -> str:
        return f"<PositionReader of {self.known.id} done={self.done}>"
