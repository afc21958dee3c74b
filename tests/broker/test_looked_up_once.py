"""A request looks each of its partitions up once: what it finds goes with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.broker.harness import Node, batch

from barnabas.broker.replicas.partition import Partition
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

INDEXES = (0, 1, 2)


class Counted(dict[int, Partition]):
    """The hosted partitions of a topic; counts how often each is looked up."""

    def __init__(self, partitions: dict[int, Partition]) -> None:
        super().__init__(partitions)
        self.lookups: Counter[int] = Counter()

    def get(self, index: int, default: Any = None) -> Any:
        self.lookups[index] += 1
        return super().get(index, default)

    def __getitem__(self, index: int) -> Partition:
        self.lookups[index] += 1
        return super().__getitem__(index)


@pytest.fixture
def counted(node: Node) -> Counted:
    """Topic `many`, three partitions, led here and followed by broker 2."""
    node.create("many", 3, replicas=(1, 2), isr=(1,))
    hosted = node.broker.topic("many")
    assert hosted is not None
    hosted.partitions = counted = Counted(hosted.partitions)
    return counted


@pytest.mark.parametrize("version", [12, 13])
def test_a_produce_looks_up_each_partition_once(node: Node, counted: Counted, version: int) -> None:
    data = [PartitionProduceData(index=index, records=batch("one")) for index in INDEXES]
    topic = TopicProduceData(name="many", topic_id=node.topic_id("many"), partition_data=data)
    answer = node.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), version)
    node.turn()
    assert answer.here
    assert counted.lookups == dict.fromkeys(INDEXES, 1)


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("replica", [-1, 2])
@pytest.mark.parametrize("waits", [0, 500])
def test_a_fetch_looks_up_each_partition_once(
    node: Node, counted: Counted, version: int, replica: int, waits: int
) -> None:
    positions = {("many", index): 0 for index in INDEXES}
    answer = node.fetch(positions, version=version, replica=replica, max_wait_ms=waits)
    assert answer.here == (waits == 0)
    assert counted.lookups == dict.fromkeys(INDEXES, 1)
