"""What classic group members hand each other inside JoinGroup and SyncGroup.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Bytes, Int32, String, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolAssignmentTopicPartition",
    "ConsumerProtocolSubscription",
    "ConsumerProtocolSubscriptionTopicPartition",
]


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member wants and owns (KIP-429, KIP-792, KIP-881)."""

    topics: Array[String] = []
    user_data: Bytes | None = None
    owned_partitions: Array[ConsumerProtocolSubscriptionTopicPartition] = since(1, default=[], ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: String | None = since(3, default=None, ignorable=True)


class ConsumerProtocolSubscriptionTopicPartition(Struct, called="TopicPartition"):
    topic: String = ""
    partitions: Array[Int32] = []


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What a member shall own."""

    assigned_partitions: Array[ConsumerProtocolAssignmentTopicPartition] = []
    user_data: Bytes | None = None


class ConsumerProtocolAssignmentTopicPartition(Struct, called="TopicPartition"):
    topic: String = ""
    partitions: Array[Int32] = []
