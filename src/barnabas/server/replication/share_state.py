"""Telling the log, once, that this node holds partitions in which share groups keep their state.

Only brokers of Apache Kafka serve share groups, and whichever of them makes `__share_group_state` may give its
partitions to any broker.  Where one of ours leads them, share consumers read nothing and are told nothing.
"""

from __future__ import annotations

import logging

from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.model import SHARE_STATE_TOPIC, NodeId
from barnabas.server.observe import events

__all__ = ["ShareState"]

HELD = events.register(
    "broker.share-state-held",
    logging.WARNING,
    "this broker leads, or would lead, the state of share groups, which it does not serve: they read nothing then",
)


class ShareState:
    """The warning about this node's partitions of `__share_group_state`, and whether it was given."""

    __slots__ = ("_image", "_node_id", "_told")

    def __init__(self, node_id: NodeId, image: MetadataImage) -> None:
        self._node_id = node_id
        self._image = image
        self._told = False

    def changed(self, delta: ImageDelta) -> None:
        """Look where the commit concerns the topic, or whether share groups are in force."""
        topic = self._image.topics_by_name.get(SHARE_STATE_TOPIC)
        if "share.version" in delta.features or (topic is not None and topic.id in delta.partitions):
            self.look()
        elif topic is None:
            self._told = False

    def look(self) -> None:
        """Tell what this node holds, unless it was told since it held nothing."""
        topic = self._image.topics_by_name.get(SHARE_STATE_TOPIC)
        states = (
            topic.partitions.values() if topic is not None and self._image.feature("share.version") else ()
        )
        held = [state for state in states if self._node_id in state.replicas]
        if held and not self._told:
            events.emit(
                HELD,
                leads=sum(state.leader == self._node_id for state in held),
                replicas=len(held),
                next=f"`barnabas doctor` at this broker names the brokers of Apache Kafka, then `barnabas topics "
                f"reassign {SHARE_STATE_TOPIC} --brokers THESE --execute --wait`",
            )
        self._told = bool(held)

    def __repr__(self) -> str:
        return f"<ShareState {'told' if self._told else 'nothing to tell'}>"
