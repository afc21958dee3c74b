"""Which partition of a coordinator's topic a name belongs to, and what clients hear of writes to it that fail."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.errors import ErrorCode
from barnabas.wire.java_hash import java_hash

__all__ = ["COORDINATOR_ERRORS", "NO_PARTITION", "grown", "partition_of", "tell"]

NO_PARTITION = -1
"""The partition of a name as long as the topic does not exist."""

COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client of the coordinator hears when a write to its partition fails."""


def partition_of(image: MetadataImage, topic: str, name: str) -> int:
    """Return the partition of a coordinators' topic that a name belongs to, or NO_PARTITION.

    The topic alone says how many partitions it has: whoever made it may have other settings than this node.
    """
    found = image.topics_by_name.get(topic)
    return java_hash(name) % len(found.partitions) if found is not None and found.partitions else NO_PARTITION


def grown(delta: ImageDelta, topic: str) -> bool:
    """Return whether a commit gave more partitions to a topic that was there: names may belong elsewhere now."""
    found = delta.image.topics_by_name.get(topic)
    return (
        found is not None
        and found.id not in delta.topics_created
        and None in delta.partitions.get(found.id, {}).values()
    )


def tell(done: Callable[[ErrorCode], None], error: ErrorCode) -> None:
    """`done` hears what a client of the coordinator hears."""
    done(COORDINATOR_ERRORS.get(error, error))
