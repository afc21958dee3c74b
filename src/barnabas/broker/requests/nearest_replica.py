"""Which replica a consumer should read from: one in its own rack (KIP-392).

The leader asks this for every fetch of a consumer that states its rack, if `replica.selector.class` names the
rack-aware selector.  The leader is chosen if it is in that rack itself.  Otherwise it is the most up-to-date
of the in-sync replicas that are in the rack, are alive, and hold the offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model import NO_NODE, NodeId, Now, Offset

if TYPE_CHECKING:
    from barnabas.broker.replicas.partition import Partition
    from barnabas.controller.image import MetadataImage

__all__ = ["nearest_replica"]


def nearest_replica(
    partition: Partition, image: MetadataImage, offset: Offset, rack: str, listener: str, now: Now
) -> NodeId:
    """The follower in `rack` to read `offset` from; NO_NODE: the leader itself."""
    brokers = image.brokers
    own = brokers.get(partition.node_id)
    if own is not None and own.rack == rack:
        return NO_NODE
    best: tuple[Offset, float, NodeId] | None = None
    for node, replica in partition.leading.progress.items():
        known = brokers.get(node)
        if (
            known is None
            or known.rack != rack
            or not known.active
            or node not in partition.leading.isr
            or not replica.log_start <= offset <= replica.log_end
            or replica.log_start < 0
            or known.endpoint(listener) is None
        ):
            continue
        closeness = (replica.log_end, -(now.mono - replica.caught_up_at), node)
        if best is None or closeness > best:
            best = closeness
    return NO_NODE if best is None else best[2]
