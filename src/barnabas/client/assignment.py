"""Who reads what in a consumer group of the classic protocol: the `range` assignor and its two messages.

The coordinator does not look inside; members understand each other through "ConsumerProtocol"
subscriptions (topics a member wants) and assignments (partitions it gets).  We write version 0 of both,
which every client reads, and read all later versions, whose beginnings are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.errors import WireError
from barnabas.model import TopicPartition
from barnabas.wire.codec.message import Message, decode, encode
from barnabas.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

__all__ = [
    "assign_range",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]

M = TypeVar("M", bound=Message)


def assign_range(
    subscriptions: Mapping[str, Iterable[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """`assign_range({"m1": ["t"], "m2": ["t"]}, {"t": 3})` -> m1: t-0, t-1; m2: t-2.

    Each topic is laid out in a row and cut into as many ranges as there are members that want it; the
    first members get one more when it does not divide.  Topics without partitions are left out.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted({t for topics in subscriptions.values() for t in topics}):
        count = partitions.get(topic, 0)
        members = sorted(m for m, topics in subscriptions.items() if topic in topics)
        share, extra = divmod(count, len(members))
        first = 0
        for number, member in enumerate(members):
            size = share + (1 if number < extra else 0)
            assigned[member] += [TopicPartition(topic, p) for p in range(first, first + size)]
            first += size
    return assigned


def encode_subscription(topics: Sequence[str]) -> bytes:
    """`encode_subscription(["t"])`: what a member sends in JoinGroup."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def decode_subscription(data: bytes | memoryview) -> list[str]:
    """`decode_subscription(metadata)` -> the topics that a member wants."""
    return list(_decode(ConsumerProtocolSubscription, data).topics)


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """`encode_assignment([TopicPartition("t", 0)])`: what the leader of a group sends for one member."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assigned = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in by_topic.items()
    ]
    return b"\0\0" + encode(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)


def decode_assignment(data: bytes | memoryview) -> list[TopicPartition]:
    """`decode_assignment(assignment)` -> partitions; empty bytes mean none."""
    if not len(data):
        return []
    message = _decode(ConsumerProtocolAssignment, data)
    return [TopicPartition(t.topic, p) for t in message.assigned_partitions for p in t.partitions]


def _decode(kind: type[M], data: bytes | memoryview) -> M:
    """A version (int16), then the message; a version newer than ours begins like our newest."""
    if len(data) < 2:
        raise WireError(f"{len(data)} bytes are no {kind.NAME}")
    version = int.from_bytes(data[:2], "big")
    message, _ = decode(kind, data, min(version, kind.VERSIONS[1]), 2)
    return message
