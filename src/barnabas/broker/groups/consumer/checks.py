"""What is wrong with a heartbeat, or with a commit of a member: Apache Kafka's codes, our words."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import LEFT, LEFT_FOR_NOW, ConsumerMember
from barnabas.broker.groups.consumer.reconciliation import Reported
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicId
from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatRequest

__all__ = [
    "check_epoch",
    "check_instance",
    "check_request",
    "check_room",
    "check_unreleased",
    "commit_refusal",
    "fetch_refusal",
    "known_member",
    "stale_commit",
    "txn_commit_refusal",
]

MEMBER_ID_FROM = 1
"""First version of the heartbeat in which the member makes its own id."""
COMMIT_WITH_EPOCH_FROM = 9


def _said(name: str) -> bool:
    """Whether a name is more than blanks, as Java counts blanks: all up to the space."""
    return any(letter > " " for letter in name)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """What is wrong whatever the group is.  Raises KafkaError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if (version >= MEMBER_ID_FROM or epoch > 0 or epoch == LEFT) and not _said(request.member_id):
        raise _invalid("the heartbeat names no member")
    if not _said(request.group_id):
        raise _invalid("the heartbeat names no group")
    if request.instance_id is not None and not _said(request.instance_id):
        raise _invalid("the instance id is empty: leave it out, or give one")
    if request.rack_id is not None and not _said(request.rack_id):
        raise _invalid("the rack is empty: leave it out, or give one")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("who joins says its rebalance timeout")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("who joins owns no partitions, and says so")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("who joins says what it subscribes to")
    elif epoch == LEFT_FOR_NOW:
        if request.instance_id is None:
            raise _invalid("only a static member leaves for a while: it gives its instance id")
    elif epoch < LEFT_FOR_NOW:
        raise _invalid(f"there is no member epoch {epoch}")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r}: known are {', '.join(assignors)}",
        )


def check_room(group: ConsumerGroup, member_id: str, most: int) -> None:
    """Whether a member may be in a group.  Raises KafkaError GROUP_MAX_SIZE_REACHED."""
    if len(group.members) >= most and member_id not in group.members:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"a group has at most {most} members")


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """A member by its id.  Raises KafkaError UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group.id}")
    return member


def check_epoch(member: ConsumerMember, epoch: int, reported: Reported | None) -> None:
    """Whether a heartbeat's epoch is the member's, or the one before whose answer was lost; 0 always is.

    Raises KafkaError FENCED_MEMBER_EPOCH: the member gives up everything and joins anew.
    """
    if epoch in (0, member.epoch):
        return
    if epoch < member.epoch and epoch == member.previous_epoch and _owns_no_more(member, reported):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member's epoch is {member.epoch}, not {epoch}: give up all partitions and join anew",
    )


def _owns_no_more(member: ConsumerMember, reported: Reported | None) -> bool:
    """Whether what a member reports is within what it was assigned."""
    return reported is not None and all(
        index in member.assigned.get(topic, {}) for topic, indexes in reported.items() for index in indexes
    )


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The static member of an instance id, which is this member.

    Raises KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody here has the instance id {instance_id}")
    if member.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id} belongs to member {member.id} now"
        )
    return member


def check_unreleased(member: ConsumerMember, instance_id: str) -> None:
    """Another member comes with the instance id of this one.  Raises KafkaError UNRELEASED_INSTANCE_ID."""
    if member.epoch != LEFT_FOR_NOW:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"member {member.id} has the instance id {instance_id} and has not left",
        )


# -- offsets ------------------------------------------------------------------------------------------


def commit_refusal(group: ConsumerGroup, member_id: str, epoch: int, version: int) -> ErrorCode | None:
    """Why a commit is refused as a whole; None when it is not, or when its partitions decide."""
    if epoch < 0 and not group.members:
        return None
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and version < COMMIT_WITH_EPOCH_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    return _stale(member) if epoch > member.epoch else None


def txn_commit_refusal(
    group: ConsumerGroup, member_id: str, epoch: int, instance_id: str | None
) -> ErrorCode | None:
    """The same for a commit in a transaction, whose producer may name no member at all."""
    if epoch < 0 and not group.members:
        return None
    if epoch == -1 and not member_id and instance_id is None:
        return None
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return _stale(member) if epoch > member.epoch else None


def stale_commit(
    group: ConsumerGroup, member_id: str, epoch: int, topic: TopicId, partition: int
) -> ErrorCode | None:
    """Why a member must not commit a position in one partition: it has an older epoch, and got it later."""
    member = group.members.get(member_id)
    if member is None or epoch == member.epoch:
        return None
    since = member.assignment_epoch(topic, partition)
    return _stale(member) if since is None or epoch < since else None


def fetch_refusal(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode | None:
    """Why a member's OffsetFetch is refused; a request without a member is nobody's."""
    if member_id is None and epoch < 0:
        return None
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
