"""One of the two nodes: connections to it, and what it has said so far in the sequence that is under way."""

from __future__ import annotations

import re
import select
import time
from typing import Any

from tests.compat.side_by_side.steps import ODD_GROUPS

from barnabas.client.blocking import BlockingConnection
from barnabas.model import Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

__all__ = ["LAST_EPOCH", "UNKNOWN_ID", "MemberKnown", "ProducerKnown", "Side"]

_OWN = re.compile(r"[xg]\d|t")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![-\w])[-\w]{21}[AQgw](?![-\w])")
"""What a node makes up for a member."""
LAST_EPOCH = 32767
UNKNOWN_ID = Uuid(b"\x11" * 16)
NOBODY = 4_000_000_000


class ProducerKnown:
    """What a producer heard of its coordinator, and what it has produced in its epoch."""

    def __init__(self) -> None:
        self.now = self.before = (NOBODY, 0)
        self.sequences: dict[tuple[tuple[int, int], int], int] = {}
        self.last_count = 0

    def heard(self, id: int, epoch: int) -> None:
        if id >= 0 and (id, epoch) != self.now:
            self.before, self.now = self.now, (id, epoch)

    def who(self, said: str) -> tuple[int, int]:
        id, epoch = self.now
        return {
            "now": self.now,
            "before": self.before,
            "next epoch": (id, min(epoch + 1, LAST_EPOCH)),
            "epoch -1": (id, -1),
            "another id": (id + 100_000, epoch),
            "nobody": (NOBODY, 0),
            "none": (-1, -1),
        }[said]


class MemberKnown:
    """What a member heard of its group."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch: int | None = None
        self.epoch_before: int | None = None
        self.owned: dict[Uuid, list[int]] = {}
        self.members: list[str] = []
        """Of whom a leader was told."""
        self.protocol: str | None = None
        self.ids = 0

    def heard(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch_before, self.epoch = self.epoch, epoch


class Side:
    """`name` is ours or theirs.  Names that a sequence made up begin with its prefix, the same at both."""

    def __init__(self, name: str, port: int, topics: dict[str, Uuid]) -> None:
        self.name = name
        self.port = port
        self.shared = topics
        self.connections: dict[str, BlockingConnection] = {}
        self.begin("none")

    def begin(self, prefix: str, own_ids: bool = False) -> None:
        """Another sequence: nothing has been said."""
        self.prefix = prefix
        self.own_ids = own_ids
        self.producers: dict[str, ProducerKnown] = {}
        self.members: dict[str, MemberKnown] = {}
        self.called: dict[str, str] = {}
        """A member id that the node made -> whose it is."""
        self.numbers: dict[int, str] = {}
        """A producer id -> which one it is."""
        self.topics = dict(self.shared)

    # -- names -------------------------------------------------------------------------------------------

    def named(self, symbol: str | None) -> str | None:
        if symbol and symbol in ODD_GROUPS:
            return f"{symbol}{self.prefix}"
        if symbol is None or not _OWN.fullmatch(symbol):
            return symbol
        return f"{self.prefix}-{symbol}"

    def symbol(self, name: str) -> str:
        """A string of an answer as both would say it."""
        return self.called.get(name) or _UUID.sub("<made up>", name)

    def producer(self, name: str) -> ProducerKnown:
        return self.producers.setdefault(name, ProducerKnown())

    def member(self, name: str) -> MemberKnown:
        """In groups of KIP-848 members begin with ids of their own: how assignors walk depends on the ids."""
        return self.members.setdefault(name, MemberKnown(name if self.own_ids else ""))

    def member_id(self, name: str, who: str) -> str:
        if who == "known":
            return self.member(name).id
        if who == "other":
            return next((one.id for other, one in sorted(self.members.items()) if other != name), "nobody")
        return {"odd": "é" * 10}.get(who, who)

    def epoch(self, name: str, said: str) -> int:
        """A generation or member epoch by what the member heard last."""
        member = self.member(name)
        now = 1 if member.epoch is None else member.epoch
        before = now - 1 if member.epoch_before is None else member.epoch_before
        known = {"now": now, "before": before, "next": now + 1, "none": -1, "huge": 2**31 - 1}
        return known[said] if said in known else int(said)

    def learn_member_id(self, name: str, id: str) -> None:
        member = self.member(name)
        if not id or id == member.id:
            return
        member.id = id
        if id not in self.called and id != name:
            member.ids += 1
            self.called[id] = f"<{name}, id {member.ids}>"

    def producer_number(self, id: int) -> int | str:
        """The first producer id of a sequence is the first, whatever number it has."""
        return id if id < 0 else self.numbers.setdefault(id, f"producer {len(self.numbers) + 1}")

    # -- the node ----------------------------------------------------------------------------------------

    def connection(self, by: str) -> BlockingConnection:
        found = self.connections.get(by)
        if found is None or found.closed:
            found = self.connections[by] = BlockingConnection("127.0.0.1", self.port, client_id="side")
        return found

    def ask(self, request: Message, version: int | None = None, by: str = "admin") -> Any:
        return self.connection(by).request(request, version, 30)

    def forget(self, by: str) -> None:
        """Nothing more is heard over this connection."""
        if (found := self.connections.pop(by, None)) is not None:
            found.close()

    def arrived(self, by: str, within: float) -> bool:
        """Whether something comes over a connection within so many seconds."""
        connection = self.connections[by]
        return bool(select.select([connection], [], [], within)[0])

    def create(self, names: list[str]) -> None:
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
        answer = self.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        assert not [one for one in answer.topics if one.error_code], answer
        deadline = time.monotonic() + 20
        while not set(names) <= set(found := self.topic_ids()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.made = {name: found[name] for name in names}
        places = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
        wanted = [ListOffsetsTopic(name=name, partitions=places) for name in names]
        while [
            one
            for topic in self.ask(ListOffsetsRequest(replica_id=-1, topics=wanted), 7).topics
            for one in topic.partitions
            if one.error_code
        ]:
            assert time.monotonic() < deadline, "nobody leads the topics"
            time.sleep(0.02)

    def delete(self, names: list[str]) -> None:
        self.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=20_000), 6
        )

    def topic_ids(self) -> dict[str, Uuid]:
        return {one.name: one.topic_id for one in self.ask(MetadataRequest(topics=None), 12).topics}

    def close(self) -> None:
        for by in list(self.connections):
            self.forget(by)
