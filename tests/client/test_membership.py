"""The blocking shell of a member: what its heartbeat thread and its reader share."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas import Consumer
from barnabas.aio import Consumer as AsyncConsumer
from barnabas.client.both.awaited import at_once, awaited
from barnabas.client.both.cluster import ClusterOf
from barnabas.client.both.membership import Reader
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.membership import Membership
from barnabas.client.metadata import TopicInfo
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

TOPIC = Uuid.of(1, 1)


class OneThread(ClusterOf[Any]):
    """A cluster that notes whether a heartbeat could have used its connection at the same time."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.awaited = self
        self.membership: Any = None
        self.free: list[bool] = []

    def now(self) -> float:
        return 0.0

    async def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicInfo:
        talking = self.membership._talking.threads
        thread = threading.Thread(target=lambda: self.free.append(talking.acquire(blocking=False)))
        thread.start()
        thread.join()
        return TopicInfo(name, TOPIC, {})

    async def coordinator(self, key: str, *, transaction: bool = False) -> Any:
        """A coordinator that gives partition 0 to whoever joins."""
        told = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC, partitions=[0])]
        answer = ConsumerGroupHeartbeatResponse(
            member_id="m",
            member_epoch=1,
            heartbeat_interval_ms=60_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=told),
        )
        return SimpleNamespace(closed=False, version_of=lambda _: 1, request=awaited(lambda *_, **__: answer))


def test_names_are_looked_up_while_no_heartbeat_uses_the_connection() -> None:
    cluster = OneThread()
    member = ConsumerGroupMember("g", Subscription(("t",)), member_id="m")
    membership = Membership(cluster, member)  # type: ignore[arg-type]
    cluster.membership = membership
    acquired: list[TopicPartition] = []
    reader = Reader(awaited(lambda *_, **__: None), awaited(acquired.extend))
    at_once(membership.rebalance(reader))
    membership._ended.set()
    assert (acquired, cluster.free) == ([TopicPartition("t", 0)], [False])


@pytest.mark.parametrize("group", [None, "readers"])
def test_topics_given_as_a_list_are_refused_with_the_way_to_give_them(group: str | None) -> None:
    wrong: Any = ["t", "u"]
    for kind in (Consumer, AsyncConsumer):
        with pytest.raises(TypeError, match=r"\['t', 'u'\]; several are given one by one"):
            kind("127.0.0.1:1", wrong, group=group)
