"""Moving partitions between brokers, and electing their leaders: the requests that `Admin` sends.

with Cluster("127.0.0.1:9092") as cluster:
    refused = move(cluster, {TopicPartition("orders", 0): [4, 5, 6]})
    while moves(cluster): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.client.admin.quorum import ask_active
from barnabas.client.cluster import Cluster
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


def moves(cluster: Cluster) -> list[Move]:
    """All partitions that move now, by topic and number."""
    response = ask_active(cluster, ListPartitionReassignmentsRequest(timeout_ms=_ms(cluster), topics=None))
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


def move(
    cluster: Cluster,
    plan: Mapping[TopicPartition, Sequence[NodeId] | None],
    *,
    keep_replication: bool = False,
) -> dict[TopicPartition, KafkaError]:
    """Begin to move partitions to these replicas (None: turn back); returns what was refused, and why.

    `keep_replication`: refuse another number of replicas.  Raises KafkaError when all of it is refused.
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
    response = ask_active(cluster, request)
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


def recoverable(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ReplicaEnd] | KafkaError]:
    """Return what the replicas of partitions without a leader have; for the others why not (ELECTION_NOT_NEEDED).

    Raises KafkaError where the active controller is not one of Barnabas.
    """
    response = _elect(cluster, partitions, _EXPLAINED)
    return {
        TopicPartition(topic.topic, row.partition_id): [
            ReplicaEnd(r.broker_id, r.alive, r.incomplete, r.leads, r.leader_epoch, r.end_offset)
            for r in row.replicas
        ]
        or _refusal(row.error_code, row.error_message)
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


def elect_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
) -> dict[TopicPartition, KafkaError | None]:
    """Have partitions (None: all) led by their first replica, or with `unclean` by any live one.

    Returns for each what was wrong, None where it was done.  Where all were asked for, those that needed
    nothing are left out; else they are in it with ELECTION_NOT_NEEDED.
    """
    response = _elect(cluster, partitions, int(unclean))
    return {
        TopicPartition(topic.topic, row.partition_id): _refusal(row.error_code, row.error_message)
        if row.error_code
        else None
        for topic in response.replica_election_results
        for row in topic.partition_result
    }


def _elect(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, election_type: int
) -> ElectLeadersResponse:
    asked: dict[str, list[int]] = {}
    for where in partitions or ():
        asked.setdefault(where.topic, []).append(where.partition)
    response: ElectLeadersResponse = ask_active(
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


def _ms(cluster: Cluster) -> int:
    return int(cluster.timeout * 1000)


def _refusal(code: int, message: str | None) -> KafkaError:
    known = ErrorCode(code)
    return KafkaError(known, message or known.name)


def _check(code: int, message: str | None) -> None:
    if code:
        raise _refusal(code, message)
