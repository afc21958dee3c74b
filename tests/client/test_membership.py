"""The blocking shell of a member: what its heartbeat thread and its reader share."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas import Consumer
from barnabas.aio import Consumer as AsyncConsumer
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.membership import Membership, Reader
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

TOPIC = Uuid.of(1, 1)


class OneThread:
    """A cluster that notes whether a heartbeat could have used its connection at the same time."""

    ask_coordinator: Any = Cluster.ask_coordinator

    def __init__(self) -> None:
        self.membership: Any = None
        self.metadata = SimpleNamespace(max_age=300.0)
        self.free: list[bool] = []

    def topic(self, name: str, *, refresh: bool) -> SimpleNamespace:
        """As of a cluster."""
        thread = threading.Thread(
            target=lambda: self.free.append(self.membership._lock.acquire(blocking=False))
        )
        thread.start()
        thread.join()
        return SimpleNamespace(id=TOPIC, name=name)

    def retrying(self, attempt: Any, **_: Any) -> Any:
        """As of a cluster."""
        return attempt()

    def coordinator(self, group: str) -> SimpleNamespace:
        """A coordinator that gives partition 0 to whoever joins."""
        told = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC, partitions=[0])]
        answer = ConsumerGroupHeartbeatResponse(
            member_id="m",
            member_epoch=1,
            heartbeat_interval_ms=60_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=told),
        )
        return SimpleNamespace(closed=False, version_of=lambda _: 1, request=lambda *_, **__: answer)


def test_names_are_looked_up_while_no_heartbeat_uses_the_connection() -> None:
    cluster = OneThread()
    member = ConsumerGroupMember("g", Subscription(("t",)), member_id="m")
    membership = Membership(cluster, member)  # type: ignore[arg-type]
    cluster.membership = membership
    acquired: list[TopicPartition] = []
    membership.rebalance(Reader(lambda *_, **__: None, acquired.extend))
    membership._ended.set()
    assert (acquired, cluster.free) == ([TopicPartition("t", 0)], [False])


@pytest.mark.parametrize("group", [None, "readers"])
def test_topics_given_as_a_list_are_refused_with_the_way_to_give_them(group: str | None) -> None:
    wrong: Any = ["t", "u"]
    for kind in (Consumer, AsyncConsumer):
        with pytest.raises(TypeError, match=r"\['t', 'u'\]; several are given one by one"):
            kind("127.0.0.1:1", wrong, group=group)
