"""Looking for share groups that read from brokers of Barnabas, which do not serve them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.share_state import CHECK, Kinds, held, listed
from barnabas.client.blocking import BlockingConnection
from barnabas.model import NodeId
from barnabas.wire.schemas.cluster import MetadataResponsePartition
from barnabas.wire.schemas.groups import ListGroupsRequest
from barnabas.wire.schemas.share_groups import ShareGroupDescribeRequest

__all__ = ["examine_share_groups", "topics_by_group"]


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
    groups: Mapping[str, Collection[str]],
    topics: Mapping[str, Sequence[MetadataResponsePartition]],
    kinds: Kinds,
    found: Findings,
) -> None:
    """Name the groups that read nothing, or would: `groups` has the topics of each, `topics` their partitions."""
    concerned: dict[str, dict[str, set[NodeId]]] = defaultdict(dict)
    for topic in sorted({topic for subscribed in groups.values() for topic in subscribed}):
        does, brokers = held(topics.get(topic, ()), kinds.ours)
        if brokers:
            concerned[does][topic] = brokers
    for does, there in concerned.items():
        readers = "; ".join(
            f"{topic} ({listed(brokers)}; read by {listed(g for g in groups if topic in groups[g])})"
            for topic, brokers in there.items()
        )
        found.warn(
            CHECK,
            f"a broker of Barnabas {does} partitions that share groups read: {readers}: "
            "they read nothing from there, without an error, and go on only when they are started again",
            f"barnabas topics reassign {' '.join(there)} --brokers {listed(kinds.kafkas, ',')} --execute --wait",
        )
