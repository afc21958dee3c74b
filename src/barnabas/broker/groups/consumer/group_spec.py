"""What an assignor is given, and in which order it walks through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.broker.groups.consumer.java_order import (
    copied_capacity,
    grown_capacity,
    in_java_order,
    int_hash,
    uuid_hash,
)
from barnabas.broker.groups.consumer.member import Target
from barnabas.model import TopicId
from barnabas.wire.java_hash import string_hash

__all__ = ["AssignableMember", "Assignment", "GroupSpec", "frozen", "java_members", "partitions_in_order"]


class AssignableMember(NamedTuple):
    """What an assignor knows of a member.  `topics` are those that exist, among `subscribed` names."""

    topics: tuple[TopicId, ...]
    subscribed: int
    instance_id: str | None
    target: Target
    """What it should own until now."""


class GroupSpec(NamedTuple):
    """What an assignor is given.  `owners`: whose target a partition is in, also that of members that are gone."""

    members: Mapping[str, AssignableMember]
    homogeneous: bool
    owners: Mapping[TopicId, Mapping[int, str]]
    partitions: Mapping[TopicId, int]
    """Topics that somebody subscribes to, and how many partitions each has."""


Assignment = dict[str, dict[TopicId, set[int]]]


def java_members(spec: GroupSpec) -> list[str]:
    """The members in the order in which Kafka's assignors walk through them."""
    return list(in_java_order(spec.members, string_hash, grown_capacity(len(spec.members))))


def partitions_in_order(target: Target) -> list[tuple[TopicId, list[int]]]:
    """A target as Kafka walks through it."""
    topics = in_java_order(target, uuid_hash, grown_capacity(len(target)))
    return [
        (topic, list(in_java_order(sorted(target[topic]), int_hash, copied_capacity(len(target[topic])))))
        for topic in topics
    ]


def frozen(assignment: Assignment) -> dict[str, Target]:
    """The result as a group keeps it."""
    return {
        member: {topic: frozenset(partitions) for topic, partitions in owned.items() if partitions}
        for member, owned in assignment.items()
    }
