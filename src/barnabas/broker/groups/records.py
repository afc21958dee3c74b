"""Groups and committed offsets as records of __consumer_offsets, both ways.

Keys and values are Apache Kafka's (types 1 and 2): a partition that Kafka wrote is loaded here, and the other
way round.  A record without a value is a tombstone.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.groups.group import ClassicGroup, GroupState, Member
from barnabas.errors import WireError
from barnabas.model import NO_EPOCH, NO_TIMESTAMP, ZERO_UUID, Epoch, Now, Offset, TopicId
from barnabas.ports import Buffer
from barnabas.wire.codec.message import decode
from barnabas.wire.coordinator import read_value, write_key, write_value
from barnabas.wire.records import Record
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from barnabas.wire.schemas.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

__all__ = [
    "CommittedOffset",
    "group_record",
    "group_tombstone",
    "offset_record",
    "offset_tombstone",
    "read_group",
    "read_member",
    "read_offset",
    "subscribed_topics",
    "too_long",
]

OFFSET_VERSION = 4
OFFSET_VERSION_WITH_EXPIRY = 1
GROUP_VERSION = 3
LONGEST = 0x7FFF - 64
"""Bytes of a name: a record's strings have int16 lengths, and a member's id is a name with 37 bytes more."""


def too_long(name: str | None) -> bool:
    """Whether a name a client chose cannot be kept in a record."""
    return name is not None and len(name) > LONGEST // 4 and len(name.encode("utf-8", "replace")) > LONGEST


class CommittedOffset(NamedTuple):
    """Where a group stands in one partition.  Times are wall milliseconds; `expire_ms` -1 means by retention."""

    offset: Offset
    leader_epoch: Epoch = NO_EPOCH
    metadata: str = ""
    commit_ms: int = 0
    expire_ms: int = NO_TIMESTAMP
    topic_id: TopicId = ZERO_UUID


def _record(key: bytes, value: bytes | None, wall_ms: int) -> Record:
    return Record(0, wall_ms, key, value, ())


def offset_record(group: str, topic: str, partition: int, committed: CommittedOffset) -> Record:
    """A committed offset.  An explicit expiry time exists in version 1 of the value only."""
    explicit = committed.expire_ms != NO_TIMESTAMP
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return _record(
        write_key(OffsetCommitKey(group=group, topic=topic, partition=partition)),
        write_value(value, OFFSET_VERSION_WITH_EXPIRY if explicit else OFFSET_VERSION),
        committed.commit_ms,
    )


def offset_tombstone(group: str, topic: str, partition: int, wall_ms: int) -> Record:
    """The offset is forgotten."""
    return _record(write_key(OffsetCommitKey(group=group, topic=topic, partition=partition)), None, wall_ms)


def group_record(
    group: ClassicGroup, assignments: dict[str, bytes], wall_ms: int, *, rebalances: bool = False
) -> Record:
    """A generation of a group, with what each member is to read.

    `rebalances`: it is about to choose a leader, which the next coordinator would not know otherwise.
    """
    protocol = group.protocol or ""
    members = [
        MemberMetadata(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=round(member.rebalance_timeout * 1000),
            session_timeout=round(member.session_timeout * 1000),
            subscription=member.metadata(protocol),
            assignment=assignments.get(member.id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=None if rebalances else group.leader_id,
        current_state_timestamp=group.since_ms,
        members=members,
    )
    return _record(write_key(GroupMetadataKey(group=group.id)), write_value(value, GROUP_VERSION), wall_ms)


def group_tombstone(group: str, wall_ms: int) -> Record:
    """The group is forgotten."""
    return _record(write_key(GroupMetadataKey(group=group)), None, wall_ms)


def read_member(value: MemberMetadata, protocol: str | None) -> Member:
    """A member as it was written (version 0 has no rebalance timeout: the session timeout stands for it)."""
    rebalance = value.rebalance_timeout if value.rebalance_timeout >= 0 else value.session_timeout
    return Member(
        value.member_id,
        instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        session_timeout=value.session_timeout / 1000,
        rebalance_timeout=rebalance / 1000,
        protocols=((protocol or "", bytes(value.subscription)),),
        assignment=bytes(value.assignment),
    )


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics that members of the `consumer` protocol want; None when nobody can tell."""
    if group.protocol_type != "consumer" or not group.protocol:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        raw = member.metadata(group.protocol)
        try:  # (later versions begin as version 0 does)
            topics.update(decode(ConsumerProtocolSubscription, raw, 0, 2)[0].topics)
        except WireError:
            return None
    return topics


def read_offset(raw: Buffer) -> CommittedOffset:
    """A committed offset as a record of it says."""
    value = read_value(OffsetCommitValue, raw)
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_ms=value.commit_timestamp,
        expire_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )


def read_group(group_id: str, raw: bytes, now: Now) -> ClassicGroup:
    """A group as a record of it says."""
    value = read_value(GroupMetadataValue, raw)
    group = ClassicGroup(group_id, now)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    for member in value.members:
        group.add(read_member(member, value.protocol))
    if group.members:
        group.leader_id = value.leader if value.leader in group.members else next(iter(group.members))
        group.state = GroupState.PREPARING if value.leader is None else GroupState.STABLE
    if value.current_state_timestamp >= 0:
        group.since_ms = value.current_state_timestamp
    return group
