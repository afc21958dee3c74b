"""Warnings in the log of a broker whose cluster has brokers of Apache Kafka, too."""

from __future__ import annotations

from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.server.loop.runtime import Runtime
from barnabas.server.replication.broker_connections import PeerListener
from barnabas.server.replication.coordinator_counts import CoordinatorCounts
from barnabas.server.replication.share_state import ShareState

__all__ = ["BothKinds"]


class BothKinds:
    """The warnings of one broker about what the other kind does otherwise: counts, share groups."""

    __slots__ = ("_counts", "_share_state")

    def __init__(self, runtime: Runtime, image: MetadataImage, peers: PeerListener) -> None:
        self._counts = CoordinatorCounts(runtime, image, peers)
        self._share_state = ShareState(runtime.node_id, image)

    def begin(self) -> None:
        """Look at what the metadata say at the start."""
        self._share_state.look()

    def changed(self, delta: ImageDelta) -> None:
        """Look at what a commit changed."""
        self._counts.changed(delta)
        self._share_state.changed(delta)

    def __repr__(self) -> str:
        return f"<BothKinds {self._counts} {self._share_state}>"
