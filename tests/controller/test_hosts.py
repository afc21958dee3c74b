"""Random clusters live: topics come, brokers come and are drained, and no host gets two replicas of a partition.

(While another one has none.  Placement and plans are tested alone elsewhere; here the controller decides.)
"""

from __future__ import annotations

import random

import pytest
from tests.controller.cluster import Cluster

from barnabas.client.balance import balanced
from barnabas.controller.image import PartitionState
from barnabas.errors import ErrorCode
from barnabas.model import NodeId, TopicPartition
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerRegistrationRequestListener,
    BrokerState,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

Plan = dict[TopicPartition, list[NodeId]]


class Hosts(Cluster):
    """A cluster of brokers on few hosts."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.hosts: dict[NodeId, str] = {}

    def grow(self) -> None:
        """A broker more comes, on one of four hosts."""
        broker = len(self.hosts) + 1
        self.hosts[broker] = f"h{self.chance.randint(1, 4)}"
        listener = BrokerRegistrationRequestListener(
            name="PLAINTEXT", host=self.hosts[broker], port=9000 + broker
        )
        self.register(broker, listeners=[listener])
        self.beat(broker)

    def replicas(self) -> dict[TopicPartition, tuple[NodeId, ...]]:
        return {
            TopicPartition(topic.name, index): state.replicas
            for topic in self.image.topics.values()
            for index, state in topic.partitions.items()
        }

    def check(self, brokers: set[NodeId]) -> None:
        """No partition has two replicas on a host while another host of these brokers has none."""
        there = {self.hosts[broker] for broker in brokers}
        for where, replicas in self.replicas().items():
            assert set(replicas) <= brokers
            hosts = {self.hosts[broker] for broker in replicas}
            assert len(hosts) == min(len(replicas), len(there)), (where, replicas, self.hosts)

    def carry_out(self, plan: Plan) -> None:
        """Move, and let the leaders report each new replica in sync."""
        topics = [
            ReassignableTopic(
                name=where.topic,
                partitions=[ReassignablePartition(partition_index=where.partition, replicas=replicas)],
            )
            for where, replicas in plan.items()
        ]
        request = AlterPartitionReassignmentsRequest(topics=topics)
        answer = self.answer(AlterPartitionReassignmentsResponse, request)
        assert all(not row.error_code for topic in answer.responses for row in topic.partitions)
        for where in plan:
            state = self.state(where.topic, where.partition)
            if state.adding:
                self._in_sync(where, state)
            done = self.state(where.topic, where.partition)
            assert not done.adding and not done.removing

    def _in_sync(self, where: TopicPartition, state: PartitionState) -> None:
        data = AlterPartitionRequestPartitionData(
            partition_index=where.partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=one, broker_epoch=self.epochs[one]) for one in state.replicas
            ],
        )
        topic = AlterPartitionRequestTopicData(
            topic_id=self.image.topics_by_name[where.topic].id, partitions=[data]
        )
        request = AlterPartitionRequest(
            broker_id=state.leader, broker_epoch=self.epochs[state.leader], topics=[topic]
        )
        answer = self.answer(AlterPartitionResponse, request)
        (code,) = [row.error_code for row in answer.topics[0].partitions]
        assert code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED), "(the leader may be the one that goes)"


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_in_the_life_of_a_cluster_no_host_gets_two_replicas_while_another_has_none(first: int) -> None:
    for seed in range(first, first + 100):
        live(seed)


def live(seed: int) -> None:
    cluster = Hosts(seed)
    chance = cluster.chance
    for _ in range(chance.randint(3, 5)):
        cluster.grow()
    factor = chance.randint(1, 3)
    cluster.create("first", partitions=3, replicas=factor)
    cluster.check(set(cluster.hosts))
    for _ in range(chance.randint(1, 2)):
        cluster.grow()
    everybody = dict.fromkeys(cluster.hosts)
    cluster.carry_out(balanced(cluster.replicas(), everybody, hosts=cluster.hosts))
    cluster.check(set(everybody))
    cluster.create("second", partitions=2, replicas=factor)
    cluster.check(set(everybody))
    drained = chance.choice(sorted(everybody))
    others = dict.fromkeys(one for one in everybody if one != drained)
    cluster.carry_out(balanced(cluster.replicas(), others, hosts=cluster.hosts))
    cluster.check(set(others))
