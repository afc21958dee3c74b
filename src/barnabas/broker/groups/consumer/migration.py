"""A group changes its protocol with members in it: from classic to that of KIP-848, and back.

Members of the classic protocol hand in what they subscribe to and own, and get what they shall read, as messages
of the `consumer` protocol (KIP-429).  Here are those messages, and a group as one of the other kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from barnabas.broker.groups.consumer import records
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember, MemberState, Target
from barnabas.broker.groups.consumer.records import Change
from barnabas.broker.groups.consumer.subscriptions import Subscriptions, metadata_hash
from barnabas.broker.groups.group import ClassicGroup, GroupState, Member
from barnabas.controller.image import MetadataImage
from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.model import Epoch, Now, TopicId
from barnabas.wire.codec.message import decode, encode
from barnabas.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from barnabas.wire.schemas.group_records import ClassicMemberMetadata, ClassicProtocol

__all__ = [
    "CONSUMER_PROTOCOL",
    "assignment_bytes",
    "downgraded",
    "owned_partitions",
    "subscription_of",
    "supports",
    "upgraded",
]

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of members whose metadata are subscriptions."""
NEWEST = 3


def _version(raw: bytes) -> int:
    """The version that a message begins with; a later one is read as the newest known here.  Raises WireError."""
    if len(raw) < 2:
        raise WireError("a message of the consumer protocol is cut off")
    return min(max(int.from_bytes(raw[:2], "big", signed=True), 0), NEWEST)


def subscription_of(protocols: Sequence[ClassicProtocol]) -> ConsumerProtocolSubscription:
    """What a classic member subscribes to and owns, by the first of its protocols.  Raises WireError."""
    raw = bytes(protocols[0].metadata)
    return decode(ConsumerProtocolSubscription, raw, _version(raw), 2)[0]


def owned_partitions(
    subscription: ConsumerProtocolSubscription, image: MetadataImage
) -> dict[TopicId, set[int]]:
    """What a classic member says it owns; one with an eager assignor owns nothing when it joins."""
    owned: dict[TopicId, set[int]] = {}
    for one in subscription.owned_partitions:
        topic = image.topics_by_name.get(one.topic)
        if topic is not None:
            owned.setdefault(topic.id, set()).update(one.partitions)
    return owned


def assignment_bytes(
    partitions: Mapping[TopicId, Collection[int]], member: ClassicMemberMetadata, image: MetadataImage
) -> bytes:
    """What a classic member shall read, in the version in which it wrote its subscription."""
    version = _version(bytes(member.supported_protocols[0].metadata))
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
            if (topic := image.topics.get(topic_id)) is not None
        ]
    )
    return version.to_bytes(2, "big") + encode(assignment, version)


def supports(group: ConsumerGroup, protocol_type: str, names: Iterable[str]) -> bool:
    """Whether a classic member with these protocols fits in with the classic members of a group."""
    if protocol_type != CONSUMER_PROTOCOL:
        return False
    others = [member.classic for member in group.members.values() if member.classic is not None]
    return any(
        all(any(name == one.name for one in other.supported_protocols) for other in others) for name in names
    )


# -- from classic to KIP-848 ----------------------------------------------------------------------------


def upgraded(
    classic: ClassicGroup, image: MetadataImage, most_members: int
) -> tuple[ConsumerGroup, list[Change]]:
    """A classic group with members as one of KIP-848, and the records that make it.

    Every member keeps what it was assigned, in the epoch that is its generation; where its first rebalance is
    still under way, in epoch 1, for 0 is what a member says that joins (Apache Kafka 4.3.1 fails there:
    "No value present").  Raises KafkaError
    GROUP_ID_NOT_FOUND for a group that cannot be one: of another protocol type, too large, or with assignments
    of an assignor that keeps data of its own in them.
    """
    if classic.protocol_type != CONSUMER_PROTOCOL or len(classic.members) > most_members:
        raise _stays(classic, "its members are of another protocol, or too many")
    protocol = classic.protocol or classic.choose_protocol()
    epoch = max(classic.generation, 1)
    try:
        members = [
            _upgraded_member(classic, member, protocol, epoch, image) for member in classic.members.values()
        ]
    except WireError as error:
        raise _stays(classic, "what its members wrote cannot be read") from error
    changes = [records.member_joined(classic.id, member) for member in members]
    seen = metadata_hash(Subscriptions.of(members, {}).topics, image)
    changes.append(records.epoch_bumped(classic.id, epoch, seen))
    changes += [records.target_assigned(classic.id, member.id, _targets(member)) for member in members]
    changes.append(records.target_computed(classic.id, epoch, 0))
    changes += [records.current_assignment(classic.id, member) for member in members]
    group = ConsumerGroup(classic.id)
    for change in changes:
        records.replay(group, change.key, records.to_record(change, 0).value)
    return group, changes


def _stays(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {classic.id} stays a classic group: {why}")


def _targets(member: ConsumerMember) -> Target:
    return {topic: frozenset(partitions) for topic, partitions in member.assigned.items()}


def _upgraded_member(
    classic: ClassicGroup, member: Member, protocol: str, epoch: Epoch, image: MetadataImage
) -> ConsumerMember:
    said = decode(ConsumerProtocolSubscription, raw := member.metadata(protocol), _version(raw), 2)[0]
    assigned: dict[TopicId, dict[int, int]] = {}
    if raw := member.assignment:
        assignment = decode(ConsumerProtocolAssignment, raw, _version(raw), 2)[0]
        if assignment.user_data:
            raise _stays(classic, "its assignor keeps data of its own in assignments")
        for one in assignment.assigned_partitions:
            topic = image.topics_by_name.get(one.topic)
            if topic is not None and one.partitions:
                assigned[topic.id] = dict.fromkeys(one.partitions, epoch)
    return ConsumerMember(
        member.id,
        epoch=epoch,
        previous_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=said.rack_id or None,
        rebalance_timeout_ms=round(member.rebalance_timeout * 1000),
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(said.topics),
        state=MemberState.STABLE,
        assigned=assigned,
        classic=ClassicMemberMetadata(
            session_timeout_ms=round(member.session_timeout * 1000),
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
            ],
        ),
    )


# -- and back -------------------------------------------------------------------------------------------


def downgraded(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    generation: Epoch,
    image: MetadataImage,
    now: Now,
) -> tuple[ClassicGroup, dict[str, bytes]]:
    """A group whose members all speak the classic protocol as a classic group, and what each is to read.

    Raises WireError where what they said does not go together; no client says such a thing.
    """
    classic = ClassicGroup(group.id, now)
    classic.generation = generation
    classic.protocol_type = CONSUMER_PROTOCOL
    assignments: dict[str, bytes] = {}
    for member in members:
        assert member.classic is not None
        assignments[member.id] = assignment_bytes(group.target.get(member.id, {}), member.classic, image)
        classic.add(
            Member(
                member.id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout=member.classic.session_timeout_ms / 1000,
                rebalance_timeout=member.rebalance_timeout_ms / 1000,
                protocols=tuple(
                    (one.name, bytes(one.metadata)) for one in member.classic.supported_protocols
                ),
                assignment=assignments[member.id],
            )
        )
    if not classic.common_protocols():
        raise WireError(f"the classic members of group {group.id} have no protocol in common")
    classic.protocol = classic.choose_protocol()
    classic.state = GroupState.STABLE
    return classic, assignments
