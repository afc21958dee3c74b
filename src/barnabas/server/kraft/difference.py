"""The differences when an image is replaced as a whole, by a snapshot that the leader sent.

All readers of the metadata follow it by deltas; so this module turns the jump from one image to another into
one.
"""

from __future__ import annotations

from typing import Any

from barnabas.controller.image import ImageDelta, MetadataImage

__all__ = ["replace_image"]


def replace_image(image: MetadataImage, newer: MetadataImage) -> ImageDelta:
    """Turn `image`, in place, into what `newer` says; returns what that changed."""
    before = image.copy()
    for name in MetadataImage.__slots__:
        setattr(image, name, getattr(newer, name))
    delta = ImageDelta(image)
    for topic_id, topic in before.topics.items():
        if topic_id not in image.topics:
            delta.topics_deleted[topic_id] = topic
    for topic_id, topic in image.topics.items():
        old = before.topics.get(topic_id)
        if old is None:
            delta.topics_created[topic_id] = topic
        known = {} if old is None else old.partitions
        touched = {
            index: known.get(index) for index, state in topic.partitions.items() if known.get(index) != state
        }
        if touched:
            delta.partitions[topic_id] = touched
    delta.brokers = _changed(before.brokers, image.brokers)
    delta.controllers = _changed(before.controllers, image.controllers)
    delta.configs = _changed(before.configs, image.configs)
    delta.features = _changed(before.features, image.features)
    delta.producer_ids = before.next_producer_id != image.next_producer_id
    delta.quotas = before.client_quotas != image.client_quotas
    delta.acls = before.acls != image.acls
    delta.scram = before.scram != image.scram
    delta.tokens = before.tokens != image.tokens
    return delta


def _changed(before: dict[Any, Any], after: dict[Any, Any]) -> set[Any]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
