"""Which version of a metadata record to write, so that every node of the cluster can read it.

The finalized metadata.version says what all nodes understand; some records are written in the oldest
version that holds what they say, as Apache Kafka does, which keeps the logs of both equal.
"""

from __future__ import annotations

from barnabas.wire import metadata as records
from barnabas.wire.codec.message import MetadataRecord

__all__ = [
    "CIDR",
    "CONTROLLERS_LEAVE",
    "CORDONED",
    "DIRECTORIES",
    "ELR",
    "LATEST",
    "MINIMUM",
    "record_version",
]

MINIMUM = 7
"""Oldest metadata.version that KRaft runs with (3.3-IV3)."""
LATEST = 33
"""metadata.version of 4.4-IV2, the newest one we know."""
ELR = 23
"""metadata.version from which partitions may keep eligible leader replicas (4.0-IV1)."""
DIRECTORIES = 17
"""metadata.version (3.7-IV2) from which brokers and partitions name log directories (KIP-858)."""
CORDONED = 30
"""metadata.version (4.3-IV0) from which brokers say which log directories are cordoned (KIP-1066)."""
CIDR = 32
"""metadata.version (4.4-IV1) from which an ACL may name a range of addresses."""
CONTROLLERS_LEAVE = 33
"""metadata.version (4.4-IV2) from which the registration of a controller can be removed."""


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    """The version to write `record` in at this level of metadata.version."""
    if isinstance(
        record, (records.PartitionRecord, records.PartitionChangeRecord)
    ):  # (a union is slow to test)
        return (metadata_version >= DIRECTORIES) + (metadata_version >= ELR)
    if isinstance(record, records.RegisterBrokerRecord):
        return 1 + _step(metadata_version, (8, DIRECTORIES, CORDONED))
    if isinstance(record, records.BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return 0


def _step(level: int, steps: tuple[int, ...]) -> int:
    """How many of the ascending `steps` the level has reached."""
    return sum(level >= step for step in steps)
