"""AlterPartition: a leader reports which replicas are in sync, and the controller agrees or not (KIP-497, 841).

The leader's view may be older or newer than ours; its leader epoch and partition epoch say which.  Every
mismatch has its own code, so that the leader knows whether to wait, to step back or to ask again.
"""

from __future__ import annotations

from barnabas.controller.decisions.brokers import known_broker
from barnabas.controller.decisions.partitions import change_partition
from barnabas.controller.image import MetadataImage, PartitionState, Topic
from barnabas.controller.replay import partition_after
from barnabas.controller.view import Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import PartitionChangeRecord
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

__all__ = ["alter_partition"]

_ANY_EPOCH = -1
_SAME_LEADER = -2
"""What a PartitionChangeRecord says that leaves the leader as it is."""


def alter_partition(view: View, request: AlterPartitionRequest) -> Deciding:
    """AlterPartition (key 56), each partition by itself.  Raises KafkaError(STALE_BROKER_EPOCH)."""
    known_broker(view, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    topics: list[AlterPartitionResponseTopicData] = []
    for asked in request.topics:
        topic = view.image.topics.get(asked.topic_id)
        answers = []
        for data in asked.partitions:
            yield
            try:
                if topic is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                state, change = _alter(view, topic, data, request.broker_id)
            except KafkaError as error:
                answers.append(
                    AlterPartitionResponsePartitionData(
                        partition_index=data.partition_index, error_code=error.code
                    )
                )
                continue
            if change is not None:
                records.append(change)
                if change.leader not in (_SAME_LEADER, request.broker_id):
                    # the change finished a reassignment, and the sender was one of those that leave
                    answers.append(
                        AlterPartitionResponsePartitionData(
                            partition_index=state.index, error_code=ErrorCode.NEW_LEADER_ELECTED
                        )
                    )
                    continue
            answers.append(
                AlterPartitionResponsePartitionData(
                    partition_index=state.index,
                    leader_id=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    leader_recovery_state=int(state.recovering),
                    partition_epoch=state.partition_epoch,
                )
            )
        topics.append(AlterPartitionResponseTopicData(topic_id=asked.topic_id, partitions=answers))
    return Decision(AlterPartitionResponse(topics=topics), records)


def _alter(
    view: View, topic: Topic, data: AlterPartitionRequestPartitionData, sender: NodeId
) -> tuple[PartitionState, PartitionChangeRecord | None]:
    """The state afterwards and the record that makes it (None: nothing changes).  Raises KafkaError."""
    state = topic.partitions.get(data.partition_index)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_epochs(state, data, sender)
    members = [(b.broker_id, b.broker_epoch) for b in data.new_isr_with_epochs] or [
        (broker, _ANY_EPOCH) for broker in data.new_isr
    ]
    isr = tuple(broker for broker, _ in members)
    if len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas) or sender not in isr:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    recovering = data.leader_recovery_state == 1
    if recovering and (len(isr) > 1 or not state.recovering):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    for broker, epoch in members:
        _check_eligible(view.image, broker, epoch)
        if broker not in state.isr and view.is_incomplete(topic.id, state.index, broker):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
    change = change_partition(
        topic, state, view.rules(topic), isr=isr, recovered=state.recovering and not recovering
    )
    return (state if change is None else partition_after(state, change)), change


def _check_epochs(state: PartitionState, data: AlterPartitionRequestPartitionData, sender: NodeId) -> None:
    if data.leader_epoch > state.leader_epoch or data.partition_epoch > state.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if data.leader_epoch < state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if sender != state.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if data.partition_epoch < state.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_eligible(image: MetadataImage, broker: NodeId, epoch: int) -> None:
    known = image.brokers.get(broker)
    if known is None or not known.active or epoch not in (_ANY_EPOCH, known.epoch):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
