"""Consumer groups as records of __consumer_offsets, both ways (key types 3 to 8 and 16).

Keys and values are Apache Kafka's: it loads what is written here, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.broker.groups.consumer.group import FORGOTTEN_EPOCH, ConsumerGroup, ResolvedPattern
from barnabas.broker.groups.consumer.member import (
    LEFT,
    LEFT_FOR_NOW,
    NOTHING,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
)
from barnabas.errors import CorruptRecordError
from barnabas.model import TopicId
from barnabas.ports import Buffer
from barnabas.wire.codec.message import Message
from barnabas.wire.coordinator import read_value, write_key, write_value
from barnabas.wire.records import Record
from barnabas.wire.schemas import group_records as schema

__all__ = [
    "Change",
    "ConsumerKey",
    "current_assignment",
    "epoch_bumped",
    "forgotten",
    "is_consumer_key",
    "member_joined",
    "member_removed",
    "pattern_forgotten",
    "pattern_resolved",
    "replay",
    "target_assigned",
    "target_computed",
    "to_record",
]

MOST_EPOCH = 0x7FFF0000
"""No epoch is as large: it is a number of 32 bits that grows by one."""

ConsumerKey = (
    schema.ConsumerGroupMetadataKey
    | schema.ConsumerGroupPartitionMetadataKey
    | schema.ConsumerGroupMemberMetadataKey
    | schema.ConsumerGroupTargetAssignmentMetadataKey
    | schema.ConsumerGroupTargetAssignmentMemberKey
    | schema.ConsumerGroupCurrentMemberAssignmentKey
    | schema.ConsumerGroupRegularExpressionKey
)


class Change(NamedTuple):
    """One record before it is bytes; without a value it removes what the key names."""

    key: ConsumerKey
    value: Message | None = None


def is_consumer_key(key: Message | None) -> bool:
    """Whether a record with this key is about a consumer group."""
    return isinstance(key, ConsumerKey)


def to_record(change: Change, wall_ms: int) -> Record:
    """A change as it is written."""
    value = None if change.value is None else write_value(change.value)
    return Record(0, wall_ms, write_key(change.key), value, ())


# -- what is written ----------------------------------------------------------------------------------


def member_joined(group_id: str, member: ConsumerMember) -> Change:
    """What a member asked for (type 5)."""
    return Change(
        schema.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        schema.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=member.classic,
        ),
    )


def epoch_bumped(group_id: str, epoch: int, metadata_hash: int) -> Change:
    """Another epoch of the group (type 3)."""
    return Change(
        schema.ConsumerGroupMetadataKey(group_id=group_id),
        schema.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_assigned(group_id: str, member_id: str, target: Target) -> Change:
    """What a member shall own (type 7)."""
    return Change(
        schema.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        schema.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                schema.TopicPartition(topic_id=topic, partitions=sorted(partitions))
                for topic, partitions in target.items()
            ]
        ),
    )


def target_computed(group_id: str, epoch: int, wall_ms: int) -> Change:
    """The epoch that the targets belong to (type 6)."""
    return Change(
        schema.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        schema.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> Change:
    """What a member owns, and how far it is (type 8)."""
    return Change(
        schema.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        schema.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_owned(member.assigned),
            partitions_pending_revocation=_owned(member.revoking),
        ),
    )


def _owned(owned: Owned) -> list[schema.TopicPartitions]:
    return [
        schema.TopicPartitions(
            topic_id=topic,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic, partitions in sorted(owned.items())
    ]


def member_removed(group_id: str, member_id: str) -> list[Change]:
    """A member is gone: what it owned, what it should own, and it itself."""
    return [
        Change(schema.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        Change(schema.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        Change(schema.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def pattern_resolved(group_id: str, regex: str, resolved: ResolvedPattern) -> Change:
    """The topics that a pattern matched (type 16)."""
    return Change(
        schema.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        schema.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_ms
        ),
    )


def pattern_forgotten(group_id: str, regex: str) -> Change:
    """Nobody subscribes to a pattern any more."""
    return Change(schema.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def partition_metadata_forgotten(group_id: str) -> Change:
    """The record that releases before 4.1 kept of topics (type 4) goes."""
    return Change(schema.ConsumerGroupPartitionMetadataKey(group_id=group_id))


def forgotten(group: ConsumerGroup) -> list[Change]:
    """The group is no more; the order is one in which Apache Kafka loads it."""
    changes = [
        Change(schema.ConsumerGroupCurrentMemberAssignmentKey(group_id=group.id, member_id=member_id))
        for member_id in group.members
    ]
    changes += [
        Change(schema.ConsumerGroupTargetAssignmentMemberKey(group_id=group.id, member_id=member_id))
        for member_id in group.members
    ]
    changes.append(Change(schema.ConsumerGroupTargetAssignmentMetadataKey(group_id=group.id)))
    changes += [
        Change(schema.ConsumerGroupMemberMetadataKey(group_id=group.id, member_id=member_id))
        for member_id in group.members
    ]
    changes += [pattern_forgotten(group.id, regex) for regex in group.patterns]
    changes.append(partition_metadata_forgotten(group.id))
    changes.append(Change(schema.ConsumerGroupMetadataKey(group_id=group.id)))
    return changes


# -- what is read -------------------------------------------------------------------------------------


def replay(group: ConsumerGroup, key: ConsumerKey, value: Buffer | None) -> bool:
    """Take a record into its group; false when it says that the group is no more.

    Raises WireError, CorruptRecordError.
    """
    match key:
        case schema.ConsumerGroupMetadataKey():
            if value is None:
                return False
            said = read_value(schema.ConsumerGroupMetadataValue, value)
            group.epoch, group.metadata_hash = _epoch(said.epoch), said.metadata_hash
        case schema.ConsumerGroupPartitionMetadataKey():
            group.had_partition_metadata = value is not None
        case schema.ConsumerGroupMemberMetadataKey():
            _replay_member(group, key.member_id, value)
        case schema.ConsumerGroupTargetAssignmentMetadataKey():
            _replay_target_epoch(group, value)
        case schema.ConsumerGroupTargetAssignmentMemberKey():
            _replay_target(group, key.member_id, value)
        case schema.ConsumerGroupCurrentMemberAssignmentKey():
            _replay_current(group, key.member_id, value)
        case schema.ConsumerGroupRegularExpressionKey():
            _replay_pattern(group, key.regular_expression, value)
    return True


def _epoch(said: int) -> int:
    """An epoch that may still grow.  Raises CorruptRecordError for one that nobody counted up to."""
    if not LEFT_FOR_NOW <= said < MOST_EPOCH:
        raise CorruptRecordError(f"a group or a member has epoch {said}")
    return said


def _replay_member(group: ConsumerGroup, member_id: str, value: Buffer | None) -> None:
    if value is None:
        group.remove(member_id)
        return
    said = read_value(schema.ConsumerGroupMemberMetadataValue, value)
    member = group.members.get(member_id, ConsumerMember(member_id))
    classic = said.classic_member_metadata
    group.put(
        member._replace(
            instance_id=said.instance_id,
            rack_id=said.rack_id,
            client_id=said.client_id,
            client_host=said.client_host,
            topics=frozenset(said.subscribed_topic_names),
            regex=said.subscribed_topic_regex,
            rebalance_timeout_ms=said.rebalance_timeout_ms,
            assignor=said.server_assignor,
            classic=classic if classic is not None and classic.supported_protocols else None,
        )
    )


def _replay_target_epoch(group: ConsumerGroup, value: Buffer | None) -> None:
    if value is None:
        group.assignment_epoch, group.assigned_ms = FORGOTTEN_EPOCH, 0
        return
    said = read_value(schema.ConsumerGroupTargetAssignmentMetadataValue, value)
    group.assignment_epoch, group.assigned_ms = _epoch(said.assignment_epoch), said.assignment_timestamp


def _replay_target(group: ConsumerGroup, member_id: str, value: Buffer | None) -> None:
    if value is None:
        group.aim(member_id, None)
        return
    said = read_value(schema.ConsumerGroupTargetAssignmentMemberValue, value)
    group.aim(member_id, {one.topic_id: frozenset(one.partitions) for one in said.topic_partitions})


def _replay_current(group: ConsumerGroup, member_id: str, value: Buffer | None) -> None:
    member = group.members.get(member_id)
    if value is None:
        if member is not None:
            group.put(member._replace(epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING, revoking=NOTHING))
        return
    said = read_value(schema.ConsumerGroupCurrentMemberAssignmentValue, value)
    group.put(
        (member or ConsumerMember(member_id))._replace(
            epoch=_epoch(said.member_epoch),
            previous_epoch=said.previous_member_epoch,
            state=MemberState.of(said.state),
            assigned=_read_owned(said.assigned_partitions, said.member_epoch),
            revoking=_read_owned(said.partitions_pending_revocation, said.member_epoch),
        )
    )


def _read_owned(written: Iterable[schema.TopicPartitions], member_epoch: int) -> Owned:
    """What a member owns; releases before 4.3 did not write since when: since the member's epoch, then."""
    owned: dict[TopicId, Mapping[int, int]] = {}
    for one in written:
        epochs = one.assignment_epochs or []
        if len(epochs) != len(one.partitions):
            epochs = [max(member_epoch, 0)] * len(one.partitions)
        owned[one.topic_id] = dict(zip(one.partitions, epochs, strict=True))
    return owned


def _replay_pattern(group: ConsumerGroup, regex: str, value: Buffer | None) -> None:
    if value is None:
        group.patterns.pop(regex, None)
        return
    said = read_value(schema.ConsumerGroupRegularExpressionValue, value)
    group.patterns[regex] = ResolvedPattern(frozenset(said.topics), said.version, said.timestamp)
