"""Control records: what the quorum and transactions write between the records.  `control` reads them.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
    OWN_TAG,
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "EndTxnMarker",
    "Endpoint",
    "KRaftVersionFeature",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "LeaderChangeMessageVoter",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
    "VotersRecordVoter",
]


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """A leader begins its epoch (KIP-595, KIP-853)."""

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: Array[LeaderChangeMessageVoter] = []
    granting_voters: Array[LeaderChangeMessageVoter] = []


class LeaderChangeMessageVoter(Struct, called="Voter"):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = since(1, default=ZERO_UUID)


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """First record of a snapshot (KIP-630)."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0
    end_offset: Int64 = since(0, default=-1, tag=OWN_TAG, ignorable=True)


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """Last record of a snapshot (KIP-630)."""

    version: Int16 = 0


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The quorum's feature level (KIP-853)."""

    version: Int16 = 0
    k_raft_version: Int16 = 0


class VotersRecord(Message, versions="0", flexible="0+"):
    """The voters from here on (KIP-853)."""

    version: Int16 = 0
    voters: Array[VotersRecordVoter] = []


class VotersRecordVoter(Struct, called="Voter"):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: Array[Endpoint] = []
    k_raft_version_feature: KRaftVersionFeature = BLANK


class Endpoint(Struct):
    name: String = ""
    host: String = ""
    port: UInt16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class EndTxnMarker(Message, versions="0"):
    """A transaction ends here (KIP-98)."""

    coordinator_epoch: Int32 = 0
