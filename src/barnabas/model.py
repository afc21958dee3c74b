"""The values that everybody uses: ids, offsets, epochs, and the few small values made of them.

Every number with a meaning has a name here.  The aliases are plain ints and strings at run time (a wrapper
object per offset would cost more than everything else on the produce path); the names document the
signatures.
"""

from __future__ import annotations

import base64
import binascii
from enum import IntEnum
from typing import NamedTuple, TypeAlias

__all__ = [
    "DIRECTORY_LOST",
    "DIRECTORY_MIGRATING",
    "DIRECTORY_UNASSIGNED",
    "INTERNAL_TOPICS",
    "METADATA_PARTITION",
    "METADATA_TOPIC",
    "METADATA_TOPIC_ID",
    "NO_EPOCH",
    "NO_NODE",
    "NO_OFFSET",
    "NO_PRODUCER",
    "NO_TIMESTAMP",
    "OFFSETS_TOPIC",
    "SHARE_STATE_TOPIC",
    "TRANSACTIONS_TOPIC",
    "ZERO_UUID",
    "BrokerEpoch",
    "DirectoryId",
    "Endpoint",
    "Epoch",
    "NodeId",
    "Now",
    "Offset",
    "ProducerId",
    "ReplicaKey",
    "TopicId",
    "TopicPartition",
    "Uuid",
    "VoterCheck",
]

NodeId: TypeAlias = int
"""Id of a node (int32, >= 0); NO_NODE where there is none."""
Offset: TypeAlias = int
"""Position of a record in a partition (int64, >= 0); NO_OFFSET where unknown."""
Epoch: TypeAlias = int
"""Leader epoch of a partition or of the quorum (int32, >= 0); NO_EPOCH where unknown."""
BrokerEpoch: TypeAlias = int
"""Epoch of one registration of a broker (int64): the offset of its registration record."""
ProducerId: TypeAlias = int
"""Id of an idempotent producer (int64, >= 0); NO_PRODUCER where there is none."""

NO_NODE = -1
NO_OFFSET = -1
NO_EPOCH = -1
NO_PRODUCER = -1
NO_TIMESTAMP = -1


class Uuid(bytes):
    """A 16-byte id; its text is URL-safe base64 without padding (22 characters), as Kafka prints it."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Read the 22-character text form.  Raises ValueError when it is not one."""
        try:
            raw = base64.urlsafe_b64decode(text + "==")
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"not a uuid: {text!r}") from error
        if len(raw) != 16:
            raise ValueError(f"not a uuid: {text!r} has {len(raw)} bytes, not 16")
        return cls(raw)

    @classmethod
    def of(cls, high: int, low: int) -> Uuid:
        """The uuid with these two 64-bit halves (Kafka's way of naming the reserved ones)."""
        return cls(high.to_bytes(8, "big") + low.to_bytes(8, "big"))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"Uuid({self!s})"


ZERO_UUID = Uuid(16)
"""No id."""

DirectoryId: TypeAlias = Uuid
"""Id of one log directory of one node; reserved values below."""
TopicId: TypeAlias = Uuid

DIRECTORY_MIGRATING = Uuid.of(0, 0)
DIRECTORY_UNASSIGNED = Uuid.of(0, 1)
DIRECTORY_LOST = Uuid.of(0, 2)

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID: TopicId = Uuid.of(0, 1)
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Topics that clients may read but not write (names of Apache Kafka)."""


class TopicPartition(NamedTuple):
    """A partition of a topic, by name; printed as `topic-3`, like its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)


class ReplicaKey(NamedTuple):
    """Who a replica is: the node and the disk it writes to (KIP-853).

    A node whose disk was replaced is another replica.  `directory_id` is ZERO_UUID where unknown
    (kraft.version 0).
    """

    id: NodeId
    directory_id: DirectoryId

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == ZERO_UUID else f"{self.id}-{self.directory_id}"


class Endpoint(NamedTuple):
    """Where a listener of a node can be reached."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class Now(NamedTuple):
    """One reading of the clock, taken at the edge and handed inwards.

    `mono` is monotonic seconds (for deadlines), `wall_ms` milliseconds since 1970 (for records).
    """

    mono: float
    wall_ms: int


class VoterCheck(IntEnum):
    """Which change of the voters DescribeQuorum shall check without making it (a field of ours)."""

    ADD = 1
    REMOVE = 2
    TARGET = 3
    CANCEL = 4
    TRANSFER = 5


ANY_VOTER = -2
"""Asked to lead the quorum (a field of ours): whichever voter has most of the log; -1: nobody is asked."""
