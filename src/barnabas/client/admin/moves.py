"""Moving partitions between brokers, and electing their leaders: the requests that `Admin` sends.

with Cluster("127.0.0.1:9092") as cluster:
    refused = move(cluster, {TopicPartition("orders", 0): [4, 5, 6]})
    while moves(cluster): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.client.admin.quorum import ask_active
from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, NodeId, TopicPartition
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)

__all__ = ["Move", "ReplicaEnd", "elect_leaders", "move", "moves", "recoverable"]

_EXPLAINED = 101
"""The election that Barnabas' controllers do not hold, and answer with what it would come to."""


class Move(NamedTuple):
    """A partition that moves: all its replicas now, and which of them come and go."""

    topic: str
    partition: int
    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]

    @property
    def target(self) -> tuple[NodeId, ...]:
        """The replicas there will be."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@for_both
async def moves(cluster: AnyCluster) -> list[Move]:
    """`moves(cluster)` -> the partitions that move between brokers now, by topic and number."""
    response = await ask_active(
        cluster, ListPartitionReassignmentsRequest(timeout_ms=_ms(cluster), topics=None)
    )
    _check(response.error_code, response.error_message)
    found = [
        Move(
            topic.name,
            row.partition_index,
            tuple(row.replicas),
            tuple(row.adding_replicas),
            tuple(row.removing_replicas),
        )
        for topic in response.topics
        if topic.name != METADATA_TOPIC
        for row in topic.partitions
    ]
    return sorted(found)


@for_both
async def move(
    cluster: AnyCluster,
    plan: Mapping[TopicPartition, Sequence[NodeId] | None],
    *,
    keep_replication: bool = False,
) -> dict[TopicPartition, KafkaError]:
    """`move(cluster, {TopicPartition("orders", 0): [4, 5, 6]})`: begin; returns what was refused, and why.

    None turns a partition back.  `keep_replication` refuses another number of replicas.
    """
    topics: dict[str, list[ReassignablePartition]] = {}
    for where, replicas in plan.items():
        target = None if replicas is None else list(replicas)
        row = ReassignablePartition(partition_index=where.partition, replicas=target)
        topics.setdefault(where.topic, []).append(row)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_ms(cluster),
        allow_replication_factor_change=not keep_replication,
        topics=[ReassignableTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
    response = await ask_active(cluster, request)
    _check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): _refusal(row.error_code, row.error_message)
        for topic in response.responses
        for row in topic.partitions
        if row.error_code
    }


class ReplicaEnd(NamedTuple):
    """The log of a replica whose partition nobody leads: whole up to `end` (-1: it did not say), which lies in
    the leader `epoch`.  `incomplete`: it knows that it lacks records.  `leads`: it would be elected now."""

    replica: NodeId
    alive: bool
    incomplete: bool
    leads: bool
    epoch: int
    end: int


@for_both
async def recoverable(
    cluster: AnyCluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ReplicaEnd] | KafkaError]:
    """`recoverable(cluster, [TopicPartition("orders", 3)])`: what the replicas of a partition have that nobody
    leads, and which of them an unclean election would choose; an error for one that has a leader.

    Raises KafkaError where the active controller is not one of Barnabas.
    """
    response = await _elect(cluster, partitions, _EXPLAINED)
    return {
        TopicPartition(topic.topic, row.partition_id): [
            ReplicaEnd(r.broker_id, r.alive, r.incomplete, r.leads, r.leader_epoch, r.end_offset)
            for r in row.replicas
        ]
        or _refusal(row.error_code, row.error_message)
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


@for_both
async def elect_leaders(
    cluster: AnyCluster, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
) -> dict[TopicPartition, KafkaError | None]:
    """`elect_leaders(cluster)`: first replicas lead again (None: of all partitions); what became of each.

    `unclean`: where nobody leads, any live replica may; this can lose records.  Where all were asked for,
    those that needed nothing are left out; else they are in it with ELECTION_NOT_NEEDED.
    """
    response = await _elect(cluster, partitions, int(unclean))
    return {
        TopicPartition(topic.topic, row.partition_id): _refusal(row.error_code, row.error_message)
        if row.error_code
        else None
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


async def _elect(
    cluster: AnyCluster, partitions: Iterable[TopicPartition] | None, election_type: int
) -> ElectLeadersResponse:
    asked: dict[str, list[int]] = {}
    for where in partitions or ():
        asked.setdefault(where.topic, []).append(where.partition)
    response: ElectLeadersResponse = await ask_active(
        cluster,
        ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if partitions is None
            else [TopicPartitions(topic=name, partitions=found) for name, found in asked.items()],
            timeout_ms=_ms(cluster),
        ),
    )
    _check(response.error_code, None)
    return response


def _ms(cluster: AnyCluster) -> int:
    return int(cluster.timeout * 1000)


def _refusal(code: int, message: str | None) -> KafkaError:
    known = ErrorCode(code)
    return KafkaError(known, message or known.name)


def _check(code: int, message: str | None) -> None:
    if code:
        raise _refusal(code, message)
