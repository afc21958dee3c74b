"""The assignors `uniform` and `range`, which say who shall own what, with the same result as Apache Kafka 4.4.0.

`range` gives each member neighbouring partitions, the same ones of every topic.  `uniform` gives all members
as many partitions, one more or less, and takes away as few as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.broker.groups.consumer.group_spec import (
    Assignment,
    GroupSpec,
    frozen,
    java_members,
    partitions_in_order,
)
from barnabas.broker.groups.consumer.heterogeneous import assign_different_topics
from barnabas.broker.groups.consumer.java_order import copied_capacity, in_java_order, uuid_hash
from barnabas.broker.groups.consumer.member import Target
from barnabas.model import TopicId

__all__ = ["ASSIGNORS", "TargetsOf"]

TargetsOf = Callable[[GroupSpec], Mapping[str, Target]]


def assign_range(spec: GroupSpec) -> Mapping[str, Target]:
    """Neighbouring partitions of each topic; static members come first, by their instance ids."""

    def rank(member_id: str) -> tuple[bool, bytes]:
        instance = spec.members[member_id].instance_id
        text = member_id if instance is None else instance
        return instance is None, text.encode("utf-16-be", "surrogatepass")

    order = sorted(spec.members, key=rank)
    subscribers: dict[TopicId, list[str]] = {}
    for member_id in order:
        for topic in spec.members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    assignment: Assignment = {member_id: {} for member_id in order}
    for topic, members in subscribers.items():
        least, extra = divmod(spec.partitions[topic], len(members))
        start = 0
        for rank_in_topic, member_id in enumerate(members):
            end = start + least + (rank_in_topic < extra)
            if end > start:
                assignment[member_id][topic] = set(range(start, end))
            start = end
    return frozen(assignment)


def assign_uniform(spec: GroupSpec) -> Mapping[str, Target]:
    """As many partitions for everybody, and few of them moved."""
    if not spec.members:
        return {}
    if spec.homogeneous:
        return _assign_same_topics(spec)
    return assign_different_topics(spec)


def _assign_same_topics(spec: GroupSpec) -> Mapping[str, Target]:
    order = java_members(spec)
    first = spec.members[order[0]]
    if not first.topics:
        return {}
    topics = in_java_order(first.topics, uuid_hash, copied_capacity(first.subscribed))
    free: list[tuple[TopicId, int]] = []
    for topic in topics:
        owned = spec.owners.get(topic, {})
        free += [(topic, index) for index in range(spec.partitions[topic]) if index not in owned]
    least, extra = divmod(sum(spec.partitions[topic] for topic in topics), len(order))
    assignment, wanting = _keep_within_quota(spec, order, set(topics), least, extra, free)
    for member_id, quota in wanting:
        kept, new = assignment[member_id], dict[TopicId, set[int]]()
        for topic, index in free[:quota]:
            (kept.get(topic) or new.setdefault(topic, set())).add(index)
        del free[:quota]
        assignment[member_id] = {**dict(reversed(new.items())), **kept}  # Java puts a new key in front
    return frozen(assignment)


def _keep_within_quota(
    spec: GroupSpec,
    order: list[str],
    topics: set[TopicId],
    least: int,
    extra: int,
    free: list[tuple[TopicId, int]],
) -> tuple[Assignment, list[tuple[str, int]]]:
    """What each member keeps, and who wants how many more; what is taken away goes to the end of `free`.

    `extra` members get one more than `least`: those that have it already, else the last in order.
    """
    assignment: Assignment = {}
    wanting: list[tuple[str, int]] = []
    for place, member_id in enumerate(order):
        kept: dict[TopicId, set[int]] = {}
        has_extra = extra > 0
        quota = least + has_extra
        for topic, partitions in partitions_in_order(spec.members[member_id].target):
            if topic not in topics:
                continue
            kept[topic] = set(partitions[:quota])
            free += [(topic, index) for index in partitions[quota:]]
            quota -= len(kept[topic])
        if quota > 0 and has_extra and len(order) - place > extra:
            quota -= 1
            has_extra = False
        if quota > 0:
            wanting.append((member_id, quota))
        extra -= has_extra
        assignment[member_id] = kept
    return assignment, wanting


ASSIGNORS: dict[str, TargetsOf] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors of this release by name, the default first."""
