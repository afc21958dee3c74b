"""AlterPartitionReassignments: moves partitions to other brokers, and cancels such moves (KIP-455, KIP-860).

A move is one record: the wanted replicas followed by those that will leave, and which is which.  From then on
every change of the in-sync set checks whether the move is finished (`partitions.change_partition`). A second
request for a partition that is moving replaces the first; null replicas cancel it.
"""

from __future__ import annotations

from collections import Counter

from barnabas.controller.decisions.assignment import Assignment
from barnabas.controller.decisions.partitions import Election, ElectionRules, change_partition
from barnabas.controller.image import PartitionState, Topic
from barnabas.controller.view import BATCH_LIMIT, Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

__all__ = ["alter_reassignments"]


def alter_reassignments(view: View, request: AlterPartitionReassignmentsRequest) -> Deciding:
    """AlterPartitionReassignments (key 45), each partition by itself."""
    asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    records: list[MetadataRecord] = []
    topics: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        rows = []
        known = view.image.topic(topic.name)
        rules = None if known is None else view.rules(known)
        for wanted in topic.partitions:
            yield
            code, message = ErrorCode.NONE, None
            try:
                if asked[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is in the request twice")
                if len(records) == BATCH_LIMIT:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION, f"one request may move at most {BATCH_LIMIT} partitions"
                    )
                if known is None or rules is None:
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} does not exist"
                    )
                record = _decide(view, known, rules, wanted, request.allow_replication_factor_change)
                if record is not None:
                    records.append(record)
            except KafkaError as error:
                code, message = error.code, error.message
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, error_message=message
                )
            )
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=rows))
    answer = AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=topics,
    )
    return Decision(answer, records)


def _decide(
    view: View, topic: Topic, rules: ElectionRules, wanted: ReassignablePartition, other_factor: bool
) -> MetadataRecord | None:
    """The record that begins, replaces or turns back one move; None: nothing changes.  Raises KafkaError."""
    state = topic.partitions.get(wanted.partition_index)
    if state is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no partition {topic.name}-{wanted.partition_index}",
        )
    if wanted.replicas is None:
        return _turn_back(topic, state, rules)
    target = tuple(wanted.replicas)
    _check_target(view, target)
    have = len(Assignment.of(state).target())
    if not other_factor and len(target) != have:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the partition has {have} replicas, the request names {len(target)} and forbids another number",
        )
    online = rules._replace(election=Election.ONLINE)
    return change_partition(topic, state, online, assignment=Assignment.towards(state, target))


def _check_target(view: View, target: tuple[NodeId, ...]) -> None:
    """Different registered brokers.  One that is fenced may be among them: it is added when it is back."""
    if not target:
        why = "a partition needs a replica"
    elif len(set(target)) != len(target):
        why = f"a broker is named twice: {list(target)}"
    elif unknown := sorted(broker for broker in target if broker not in view.image.brokers):
        why = f"broker {unknown[0]} is not registered"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


def _turn_back(topic: Topic, state: PartitionState, rules: ElectionRules) -> MetadataRecord | None:
    """Remove the replicas that were being added; if only those are in sync, this may lose records."""
    if not Assignment.of(state).moving:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{state.index} is not moving")
    replicas = Assignment.of(state).original()
    isr = tuple(broker for broker in state.isr if broker not in state.adding)
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all its replicas are being added")
    if not isr:
        if rules.election is not Election.UNCLEAN:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "only replicas that were added are in sync: turning back needs an unclean leader election, "
                "which is switched off (unclean.leader.election.enable)",
            )
        isr = replicas[:1]
    return change_partition(topic, state, rules, isr=isr, assignment=Assignment(replicas))
