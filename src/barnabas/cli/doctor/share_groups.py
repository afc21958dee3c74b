"""Looking for share groups whose state or records lie with brokers of Barnabas, which do not serve them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.cli.doctor.findings import Findings
from barnabas.client.blocking import BlockingConnection
from barnabas.model import SHARE_STATE_TOPIC, NodeId
from barnabas.wire.schemas.cluster import MetadataResponsePartition
from barnabas.wire.schemas.groups import ListGroupsRequest
from barnabas.wire.schemas.share_groups import ShareGroupDescribeRequest

__all__ = ["Kinds", "examine_share_groups", "examine_share_state", "topics_by_group"]

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


def examine_share_state(
    level: int, state: Sequence[MetadataResponsePartition] | None, kinds: Kinds, found: Findings
) -> None:
    """Say which brokers of Barnabas lead the state of share groups, or would.

    `level` is that of share.version, `state` has the partitions of `__share_group_state`, if it exists.
    """
    if not level or not kinds.ours:
        return
    if state is None:
        if kinds.kafkas:
            found.ok(
                _CHECK,
                f"there is none yet; brokers of Apache Kafka serve them: {SHARE_STATE_TOPIC} has to stay there",
            )
        return
    does, brokers = _held(state, kinds.ours)
    if not brokers:
        found.ok(_CHECK, f"all of {SHARE_STATE_TOPIC} lies with brokers that serve share groups")
        return
    said = (
        f"a broker of Barnabas {does} partitions of {SHARE_STATE_TOPIC} ({_listed(brokers)}): "
        "share consumers whose state is there read nothing, without an error"
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


def examine_share_groups(
    groups: Mapping[str, Collection[str]],
    topics: Mapping[str, Sequence[MetadataResponsePartition]],
    kinds: Kinds,
    found: Findings,
) -> None:
    """Name the groups that read nothing, or would: `groups` has the topics of each, `topics` their partitions."""
    concerned: dict[str, dict[str, set[NodeId]]] = defaultdict(dict)
    for topic in sorted({topic for subscribed in groups.values() for topic in subscribed}):
        does, brokers = _held(topics.get(topic, ()), kinds.ours)
        if brokers:
            concerned[does][topic] = brokers
    for does, there in concerned.items():
        readers = "; ".join(
            f"{topic} ({_listed(brokers)}; read by {_listed(g for g in groups if topic in groups[g])})"
            for topic, brokers in there.items()
        )
        found.warn(
            _CHECK,
            f"a broker of Barnabas {does} partitions that share groups read: {readers}: "
            "they read nothing from there, without an error, and go on only when they are started again",
            f"barnabas topics reassign {' '.join(there)} --brokers {_listed(kinds.kafkas, ',')} --execute --wait",
        )


def _held(
    partitions: Sequence[MetadataResponsePartition], ours: Collection[NodeId]
) -> tuple[str, set[NodeId]]:
    """Return which brokers of Barnabas lead any of these partitions, or would; in front a verb that says which."""
    lead = {one.leader_id for one in partitions}.intersection(ours)
    hold = {node for one in partitions for node in one.replica_nodes}.intersection(ours)
    return ("leads", lead) if lead else ("would lead, if another broker died,", hold)


def _listed(items: Iterable[Any], between: str = ", ") -> str:
    """Return the items in order, as a sentence or a flag takes them."""
    return between.join(map(str, sorted(items)))
