"""What a heartbeat changes in a group: records and an answer.  Nothing here touches the group.

The steps are KIP-848's: the member as it is now, the group's epoch if what it subscribes to is new, the target
assignment if the group's epoch is new, and the member's next step towards its target.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.broker.groups.consumer import records
from barnabas.broker.groups.consumer.assignors import ASSIGNORS
from barnabas.broker.groups.consumer.checks import (
    check_epoch,
    check_instance,
    check_room,
    check_unreleased,
    known_member,
)
from barnabas.broker.groups.consumer.group import ConsumerGroup, ResolvedPattern
from barnabas.broker.groups.consumer.group_spec import AssignableMember, GroupSpec
from barnabas.broker.groups.consumer.java_order import copied_capacity, in_java_order
from barnabas.broker.groups.consumer.member import LEFT_FOR_NOW, NOTHING, ConsumerMember, Owned, Target
from barnabas.broker.groups.consumer.patterns import check_pattern
from barnabas.broker.groups.consumer.reconciliation import Aim, Reported, reconcile
from barnabas.broker.groups.consumer.records import Change
from barnabas.broker.groups.consumer.subscriptions import (
    Subscriptions,
    metadata_hash,
    preferred_assignor,
    subscribed_topics,
)
from barnabas.broker.ports import RequestContext
from barnabas.config import Config
from barnabas.controller.image import MetadataImage
from barnabas.model import Now, TopicId
from barnabas.wire.java_hash import string_hash
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

__all__ = [
    "Asked",
    "ConsumerGroupSettings",
    "Step",
    "advance",
    "decide_fence",
    "decide_heartbeat",
    "decide_patterns",
    "leaver",
    "replacement",
]

REFRESH_MS = 0x7FFFFFFF
"""How long a group does not look at its topics anew when nothing tells it to (Apache Kafka's value)."""


_OF_A_GROUP = {
    "consumer.session.timeout.ms": "session_ms",
    "consumer.heartbeat.interval.ms": "heartbeat_ms",
    "consumer.assignment.interval.ms": "assignment_interval_ms",
}
"""What may be set on one group."""


class ConsumerGroupSettings(NamedTuple):
    """The settings `group.consumer.*`; times are milliseconds."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int
    pattern_refresh_ms: int
    most_members: int
    assignors: tuple[str, ...]
    """Names of assignors, the default first."""
    upgrades: bool
    """Whether a group of the classic protocol becomes one of KIP-848 when a member comes that speaks it."""
    downgrades: bool
    """Whether it becomes a classic group when the last such member leaves and classic ones stay."""
    most_classic_members: int

    @classmethod
    def of(cls, config: Config) -> ConsumerGroupSettings:
        """As a node has them."""
        policy = config.str("group.consumer.migration.policy")
        return cls(
            session_ms=config.int("group.consumer.session.timeout.ms"),
            heartbeat_ms=config.int("group.consumer.heartbeat.interval.ms"),
            assignment_interval_ms=config.int("group.consumer.assignment.interval.ms"),
            pattern_refresh_ms=config.int("group.consumer.regex.refresh.interval.ms"),
            most_members=config.int("group.consumer.max.size"),
            assignors=tuple(config.list("group.consumer.assignors")),
            upgrades=policy in ("bidirectional", "upgrade"),
            downgrades=policy in ("bidirectional", "downgrade"),
            most_classic_members=config.int("group.max.size"),
        )

    def with_own(self, own: Mapping[str, str]) -> ConsumerGroupSettings:
        """Those of a group on which `own` was set; what is no number there does not count."""
        if not own:
            return self
        given = {field: own.get(name, "").strip() for name, field in _OF_A_GROUP.items()}
        numbers: dict[str, Any] = {field: int(text) for field, text in given.items() if text.isdecimal()}
        return self._replace(**numbers)


class Asked(NamedTuple):
    """A member as the group has it, and as it asks to be."""

    before: ConsumerMember
    after: ConsumerMember
    replaced: str | None
    """The static member whose place it takes."""
    changes: Sequence[Change]
    """The records of that."""
    reported: Reported | None


class Step(NamedTuple):
    """What comes of a member's request.  `refreshed` is the group's epoch where the topics were looked at."""

    changes: list[Change]
    before: ConsumerMember
    after: ConsumerMember
    refreshed: int | None = None
    moved: bool = False
    """Whether what the member owns, or shall give up, is another."""


def decide_heartbeat(
    group: ConsumerGroup,
    member_id: str,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    image: MetadataImage,
    settings: ConsumerGroupSettings,
    now: Now,
) -> tuple[Step, ConsumerGroupHeartbeatResponse]:
    """A member joins or is alive.  Raises KafkaError."""
    check_room(group, member_id, settings.most_members)
    reported = reported_partitions(request)
    before, replaced, changes = _member_of(group, member_id, request, reported)
    asked = Asked(before, _updated(before, context, request), replaced, changes, reported)
    step = advance(group, asked, image, settings, now)
    full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    tells = request.member_epoch == 0 or full or step.after.assigned != before.assigned
    answer = ConsumerGroupHeartbeatResponse(
        member_id=step.after.id,
        member_epoch=step.after.epoch,
        heartbeat_interval_ms=settings.heartbeat_ms,
        assignment=_assignment(step.after.assigned) if tells else None,
    )
    return step, answer


def advance(
    group: ConsumerGroup, asked: Asked, image: MetadataImage, settings: ConsumerGroupSettings, now: Now
) -> Step:
    """The member's next step, and that of its group where the member asks for something new.

    Raises KafkaError INVALID_REGULAR_EXPRESSION, FENCED_MEMBER_EPOCH.
    """
    before, after, changes = asked.before, asked.after, list(asked.changes)
    if after != before:
        changes.append(records.member_joined(group.id, after))
    new_pattern, bump = _pattern_changes(group, before, after, changes)
    changed = new_pattern or after.topics != before.topics
    bump = bump or after.topics != before.topics
    bump = bump or _prefers_another(group, before, after, settings.assignors)
    epoch, refreshed = group.epoch, None
    target_epoch, target = group.assignment_epoch, group.target_of(after)
    looks = bump or group.refresh_due(now.wall_ms)
    assigns = _interval_over(group, settings, now)
    if looks or (assigns and target_epoch < epoch):  # else nothing here looks at the other members
        members = group.members_with(after, asked.replaced)
        subscriptions = Subscriptions.of(members, group.patterns)
        if looks:
            epoch = refreshed = _epoch_of(group, subscriptions, bump, image, changes)
        if assigns and target_epoch < epoch:
            assignor = preferred_assignor(
                group.assignors, settings.assignors, before.assignor, after.assignor
            )
            if (
                not looks
            ):  # then members count as alike, or not, as before this request (as with Apache Kafka)
                alike = Subscriptions.of(group.members.values(), group.patterns).homogeneous
            else:
                alike = subscriptions.homogeneous
            targets = _assign(group, after, members, subscriptions, image, assignor, alike)
            target_epoch, target = epoch, targets.get(after.id, {})
            for other in members:
                if group.target.get(other.id) != targets.get(other.id, {}):
                    changes.append(records.target_assigned(group.id, other.id, targets.get(other.id, {})))
            changes.append(records.target_computed(group.id, epoch, now.wall_ms))
    settled = after
    if changed or not after.reached(target_epoch):
        ids = _topic_ids(subscribed_topics(after, group.patterns), image)
        aim = Aim(target_epoch, target, frozenset(ids), changed, group.partition_epoch)
        settled = reconcile(after, aim, asked.reported)
    if settled != after:
        changes.append(records.current_assignment(group.id, settled))
    return Step(changes, before, settled, refreshed, settled != after)


def reported_partitions(request: ConsumerGroupHeartbeatRequest) -> Reported | None:
    """What a member says it owns; None when it does not say."""
    if request.topic_partitions is None:
        return None
    reported: dict[TopicId, set[int]] = {}
    for one in request.topic_partitions:
        reported.setdefault(one.topic_id, set()).update(one.partitions)
    return reported


def _member_of(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, reported: Reported | None
) -> tuple[ConsumerMember, str | None, list[Change]]:
    """The member as the group has it, or a new one; whose place it takes; the records of that."""
    epoch, instance = request.member_epoch, request.instance_id
    joins = epoch == 0
    if instance is None:
        member = group.members.get(member_id) if joins else known_member(group, member_id)
        if member is None:
            return ConsumerMember(member_id), None, []
        check_epoch(member, epoch, reported)
        return member, None, []
    if not joins:
        member = check_instance(group, instance, member_id)
        check_epoch(member, epoch, reported)
        return member, None, []
    former = group.static_member(instance)
    if former is None:
        return group.members.get(member_id, ConsumerMember(member_id)), None, []
    if former.classic is None:
        check_unreleased(former, instance)
    return replacement(group, former, member_id)


def replacement(
    group: ConsumerGroup, former: ConsumerMember, member_id: str
) -> tuple[ConsumerMember, str, list[Change]]:
    """A static member comes back under another id: the member, the id it had, and the records of that."""
    member = former._replace(id=member_id, epoch=0, previous_epoch=0)
    changes = records.member_removed(group.id, former.id)
    changes.append(records.member_joined(group.id, member))
    changes.append(records.target_assigned(group.id, member_id, group.target.get(former.id, {})))
    changes.append(records.current_assignment(group.id, member))
    return member, former.id, changes


def _updated(
    member: ConsumerMember, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member with what the request says; what is left out stays."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        classic=None,
    )


def _pattern_changes(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, changes: list[Change]
) -> tuple[bool, bool]:
    """Whether a member's pattern is another, and whether that is a new epoch of the group now.

    A pattern that nobody used is looked up first; the epoch grows when its topics are known.
    Raises KafkaError INVALID_REGULAR_EXPRESSION.
    """
    old, new = before.regex or "", after.regex or ""
    if before.regex == after.regex:
        return False, False
    if old and _users(group, old) == 1:
        changes.append(records.pattern_forgotten(group.id, old))
    if not new:
        return True, bool(old)
    if _users(group, new) == 0:
        check_pattern(new)
        return True, False
    return True, new in group.patterns


def _prefers_another(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, assignors: Sequence[str]
) -> bool:
    """Return whether a heartbeat changes which assignor the group prefers; JoinGroup never does."""
    named = {before.assignor, after.assignor} - {None}
    if not named or after.classic is not None:
        return False
    preferred = preferred_assignor(group.assignors, assignors, before.assignor, after.assignor)
    return preferred != preferred_assignor(group.assignors, assignors)


def _users(group: ConsumerGroup, regex: str) -> int:
    return group.pattern_users[regex]


def _epoch_of(
    group: ConsumerGroup,
    subscriptions: Subscriptions,
    bump: bool,
    image: MetadataImage,
    changes: list[Change],
) -> int:
    """The group's epoch: the next one where it shall be, or where the topics are others than they were."""
    seen = metadata_hash(subscriptions.topics, image)
    epoch = group.epoch
    if bump or seen != group.metadata_hash:
        epoch += 1
        changes.append(records.epoch_bumped(group.id, epoch, seen))
    if group.had_partition_metadata:
        changes.append(records.partition_metadata_forgotten(group.id))
    return epoch


def _assign(
    group: ConsumerGroup,
    member: ConsumerMember,
    members: Sequence[ConsumerMember],
    subscriptions: Subscriptions,
    image: MetadataImage,
    assignor: str,
    alike: bool,
) -> Mapping[str, Target]:
    """What each member shall own; the given one may take the place of a static member that left.

    `alike`: all members subscribe to the same topics.
    """
    known: dict[str, AssignableMember] = {}
    for other in group.in_kafkas_order(members):
        names = subscribed_topics(other, group.patterns)
        target = group.target.get(other.id, {})
        if other.id == member.id and (former := group.static.get(member.instance_id or "")) is not None:
            target = group.target.get(former, {})
        known[other.id] = AssignableMember(_topic_ids(names, image), len(names), other.instance_id, target)
    partitions = {
        topic.id: len(topic.partitions)
        for name in subscriptions.topics
        if (topic := image.topics_by_name.get(name)) is not None
    }
    return ASSIGNORS[assignor](GroupSpec(known, alike, group.owners, partitions))


def _interval_over(group: ConsumerGroup, settings: ConsumerGroupSettings, now: Now) -> bool:
    """Whether there may be an assignment now.  One of the future is by a clock that was set back since."""
    since = now.wall_ms - group.assigned_ms
    return not group.assigned_ms or not 0 <= since < settings.assignment_interval_ms


def _topic_ids(names: Collection[str], image: MetadataImage) -> tuple[TopicId, ...]:
    """Return the ids of those topics that exist, in the order of Kafka's set of their names."""
    order = in_java_order(sorted(names), string_hash, copied_capacity(len(names)))
    topics = map(image.topics_by_name.get, order)
    return tuple(topic.id for topic in topics if topic is not None)


def _assignment(owned: Owned) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(owned.items())
        ]
    )


# -- leaving ------------------------------------------------------------------------------------------


def leaver(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
) -> tuple[ConsumerMember, list[Change]]:
    """The member that goes, and what is written when, a static one, it goes for a while.  Raises KafkaError."""
    if request.instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = check_instance(group, request.instance_id, request.member_id)
    if request.member_epoch != LEFT_FOR_NOW or request.instance_id is None:
        return member, []
    assigned = {topic: dict.fromkeys(owned, 0) for topic, owned in member.assigned.items()}
    away = member._replace(epoch=LEFT_FOR_NOW, revoking=NOTHING, assigned=assigned)
    return member, [records.current_assignment(group.id, away)]


def decide_fence(group: ConsumerGroup, gone: Sequence[ConsumerMember], image: MetadataImage) -> list[Change]:
    """Members are out of the group: they left, or were silent for too long."""
    changes: list[Change] = []
    ids = {member.id for member in gone}
    for member in gone:
        changes += records.member_removed(group.id, member.id)
    rest = [member for member in group.members.values() if member.id not in ids]
    subscriptions = Subscriptions.of(rest, group.patterns)
    for regex in sorted({member.regex for member in gone if member.regex} - subscriptions.patterns.keys()):
        changes.append(records.pattern_forgotten(group.id, regex))
    seen = metadata_hash(subscriptions.topics, image)
    changes.append(records.epoch_bumped(group.id, group.epoch + 1, seen))
    if not rest:  # there is nobody to compute a target for, so it is there
        changes.append(records.target_computed(group.id, group.epoch + 1, 0))
    return changes


def decide_patterns(
    group: ConsumerGroup, resolved: Mapping[str, ResolvedPattern], image: MetadataImage
) -> tuple[list[Change], int | None]:
    """The topics of patterns were looked up: their records, and the group's new epoch where they are others."""
    changes: list[Change] = []
    used = {member.regex for member in group.members.values()}
    patterns = dict(group.patterns)
    bump = False
    for regex, found in resolved.items():
        if regex not in used:
            continue
        before = patterns.get(regex)
        bump = bump or found.topics != (before.topics if before is not None else frozenset())
        patterns[regex] = found
        changes.append(records.pattern_resolved(group.id, regex, found))
    seen = metadata_hash(Subscriptions.of(group.members.values(), patterns).topics, image)
    if not bump and seen == group.metadata_hash:
        return changes, None
    changes.append(records.epoch_bumped(group.id, group.epoch + 1, seen))
    return changes, group.epoch + 1
