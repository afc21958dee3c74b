"""Looking for share groups whose state or records lie with brokers of Barnabas, which do not serve them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from barnabas.cli.doctor.findings import Findings
from barnabas.client.blocking import BlockingConnection
from barnabas.model import SHARE_STATE_TOPIC, NodeId
from barnabas.wire.java_hash import java_hash
from barnabas.wire.schemas.cluster import MetadataResponseTopic
from barnabas.wire.schemas.groups import ListGroupsRequest
from barnabas.wire.schemas.share_groups import ShareGroupDescribeRequest

__all__ = ["Kinds", "examine_share_groups", "topics_by_group"]

_CHECK = "share groups"


class Kinds(NamedTuple):
    """The brokers whose kind is known."""

    ours: Collection[NodeId]
    kafkas: Collection[NodeId]


def topics_by_group(connection: BlockingConnection) -> dict[str, set[str]]:
    """Return the topics that each share group's members subscribe to, of the groups that this broker coordinates.

    Raises ConnectionFailed.
    """
    groups = connection.request(ListGroupsRequest(types_filter=["share"])).groups
    if not groups:
        return {}
    asked = ShareGroupDescribeRequest(group_ids=[group.group_id for group in groups])
    return {
        group.group_id: {topic for member in group.members for topic in member.subscribed_topic_names}
        for group in connection.request(asked).groups
    }


def examine_share_groups(
    level: int,
    groups: Mapping[str, Collection[str]],
    topics: Mapping[str, MetadataResponseTopic],
    kinds: Kinds,
    found: Findings,
) -> None:
    """Say which brokers of Barnabas lead what share groups need, or would, and which groups that concerns.

    `level` is that of share.version, `groups` has the topics that each reads now.
    """
    if level and kinds.ours:
        _examine_state(groups, topics, kinds, found)
        _examine_readers(groups, topics, kinds, found)


def _examine_state(
    groups: Mapping[str, Collection[str]],
    topics: Mapping[str, MetadataResponseTopic],
    kinds: Kinds,
    found: Findings,
) -> None:
    """Look at the partitions of `__share_group_state`."""
    if SHARE_STATE_TOPIC not in topics:
        if kinds.kafkas:
            found.ok(
                _CHECK,
                f"there is none yet; brokers of Apache Kafka serve them: {SHARE_STATE_TOPIC} has to stay there",
            )
        return
    held = _held(topics[SHARE_STATE_TOPIC], kinds.ours)
    if not held.brokers:
        found.ok(_CHECK, f"all of {SHARE_STATE_TOPIC} lies with brokers that serve share groups")
        return
    count = len(topics[SHARE_STATE_TOPIC].partitions)
    there = [
        group
        for group, read in groups.items()
        if any(java_hash(key) % count in held.partitions for key in _keys(group, read, topics))
    ]
    whose = f" ({_listed(there)})" if there else ""
    said = (
        f"a broker of Barnabas {held.does} partitions of {SHARE_STATE_TOPIC} ({_listed(held.brokers)}): "
        f"share consumers whose state is there{whose} read nothing, without an error"
    )
    if not kinds.kafkas:
        found.warn(
            _CHECK,
            f"{said}; no broker is left that serves share groups",
            f"read with consumer groups, then `barnabas topics delete {SHARE_STATE_TOPIC}`",
        )
        return
    found.warn(
        _CHECK,
        f"{said}; their partitions of __consumer_offsets have to lie with Apache Kafka, too",
        f"barnabas topics reassign {SHARE_STATE_TOPIC} --brokers {_listed(kinds.kafkas, ',')} --execute --wait",
    )


def _keys(group: str, read: Collection[str], topics: Mapping[str, MetadataResponseTopic]) -> Iterator[str]:
    """Return the names by which a group's state of each partition is placed."""
    for topic in (topics[name] for name in read if name in topics):
        for one in topic.partitions:
            yield f"{group}:{topic.topic_id}:{one.partition_index}"


def _examine_readers(
    groups: Mapping[str, Collection[str]],
    topics: Mapping[str, MetadataResponseTopic],
    kinds: Kinds,
    found: Findings,
) -> None:
    """Look at the partitions that groups read."""
    concerned: dict[str, dict[str, str]] = defaultdict(dict)
    for topic in sorted({topic for read in groups.values() for topic in read if topic in topics}):
        held = _held(topics[topic], kinds.ours)
        if held.brokers:
            readers = _listed(group for group in groups if topic in groups[group])
            concerned[held.does][topic] = f"{topic} ({_listed(held.brokers)}; read by {readers})"
    for does, there in concerned.items():
        found.warn(
            _CHECK,
            f"a broker of Barnabas {does} partitions that share groups read: {'; '.join(there.values())}: "
            "they read nothing from there, without an error, and go on only when they are started again",
            f"barnabas topics reassign {' '.join(there)} --brokers {_listed(kinds.kafkas, ',')} --execute --wait",
        )


class _Held(NamedTuple):
    """The partitions of a topic that brokers of Barnabas lead, or would lead."""

    does: str
    brokers: set[NodeId]
    partitions: set[int]


def _held(topic: MetadataResponseTopic, ours: Collection[NodeId]) -> _Held:
    """Return what they lead; if that is nothing, what they would lead."""
    led = [one for one in topic.partitions if one.leader_id in ours]
    if led:
        return _Held("leads", {one.leader_id for one in led}, {one.partition_index for one in led})
    held = [one for one in topic.partitions if any(node in ours for node in one.replica_nodes)]
    return _Held(
        "would lead, if another broker died,",
        {node for one in held for node in one.replica_nodes if node in ours},
        {one.partition_index for one in held},
    )


def _listed(items: Iterable[Any], between: str = ", ") -> str:
    """Return the items in order, as a sentence or a flag takes them."""
    return between.join(map(str, sorted(items)))
