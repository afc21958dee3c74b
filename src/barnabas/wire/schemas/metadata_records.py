"""Records of the metadata log: what they declare.  `metadata` reads and writes them.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    ZERO_UUID,
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    since,
)
from barnabas.wire.codec.message import MetadataRecord, MetadataStruct

__all__ = [
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "ControllerEndpoint",
    "ControllerFeature",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "EntityData",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UnregisterControllerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationRecord",
]


class RegisterBrokerRecord(MetadataRecord, key=0, versions="0-4", flexible="0+"):
    """A broker was registered (KIP-631)."""

    broker_id: Int32 = 0
    is_migrating_zk_broker: Bool = since(2, default=False)
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: Array[BrokerEndpoint] = []
    features: Array[BrokerFeature] = []
    rack: String | None = ""
    fenced: Bool = True
    in_controlled_shutdown: Bool = since(1, default=False)
    log_dirs: Array[Uuid] = since(3, default=[], tag=0)
    cordoned_log_dirs: Array[Uuid] | None = since(4, default=None, tag=1)


class BrokerEndpoint(MetadataStruct):
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class BrokerFeature(MetadataStruct):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UnregisterBrokerRecord(MetadataRecord, key=1, versions="0", flexible="0+"):
    """A broker was removed for good."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


class BrokerRegistrationChangeRecord(MetadataRecord, key=17, versions="0-3", flexible="0+"):
    """A broker's fence, controlled shutdown or directories changed."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Int8 = since(0, default=0, tag=0)
    in_controlled_shutdown: Int8 = since(1, default=0, tag=1)
    log_dirs: Array[Uuid] = since(2, default=[], tag=2)
    cordoned_log_dirs: Array[Uuid] | None = since(3, default=None, tag=3)


class FenceBrokerRecord(MetadataRecord, key=7, versions="0", flexible="0+"):
    """A broker is fenced (clusters older than 3.3)."""

    id: Int32 = 0
    epoch: Int64 = 0


class UnfenceBrokerRecord(MetadataRecord, key=8, versions="0", flexible="0+"):
    """A broker is no longer fenced (clusters older than 3.3)."""

    id: Int32 = 0
    epoch: Int64 = 0


class RegisterControllerRecord(MetadataRecord, key=27, versions="0", flexible="0+"):
    """A controller told its endpoints (KIP-919)."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: Bool = False
    end_points: Array[ControllerEndpoint] = []
    features: Array[ControllerFeature] = []


class ControllerEndpoint(MetadataStruct):
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class ControllerFeature(MetadataStruct):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UnregisterControllerRecord(MetadataRecord, key=29, versions="0", flexible="0+"):
    """A controller's registration was removed."""

    controller_id: Int32 = 0


class TopicRecord(MetadataRecord, key=2, versions="0", flexible="0+"):
    """A topic was made."""

    name: String = ""
    topic_id: Uuid = ZERO_UUID


class PartitionRecord(MetadataRecord, key=3, versions="0-2", flexible="0+"):
    """A partition was made, or is so in a snapshot."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: Array[Int32] = []
    isr: Array[Int32] = []
    removing_replicas: Array[Int32] = []
    adding_replicas: Array[Int32] = []
    leader: Int32 = -1
    leader_recovery_state: Int8 = since(0, default=0, tag=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Array[Uuid] = since(1, default=[])
    eligible_leader_replicas: Array[Int32] | None = since(2, default=None, tag=1)
    last_known_elr: Array[Int32] | None = since(2, default=None, tag=2)


class PartitionChangeRecord(MetadataRecord, key=5, versions="0-2", flexible="0+"):
    """A partition's replicas or leader changed."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Array[Int32] | None = since(0, default=None, tag=0)
    leader: Int32 = since(0, default=-2, tag=1)
    replicas: Array[Int32] | None = since(0, default=None, tag=2)
    removing_replicas: Array[Int32] | None = since(0, default=None, tag=3)
    adding_replicas: Array[Int32] | None = since(0, default=None, tag=4)
    leader_recovery_state: Int8 = since(0, default=-1, tag=5)
    directories: Array[Uuid] | None = since(1, default=None, tag=8)
    eligible_leader_replicas: Array[Int32] | None = since(2, default=None, tag=6)
    last_known_elr: Array[Int32] | None = since(2, default=None, tag=7)


class RemoveTopicRecord(MetadataRecord, key=9, versions="0", flexible="0+"):
    """A topic is gone."""

    topic_id: Uuid = ZERO_UUID


class ClearElrRecord(MetadataRecord, key=28, versions="0", flexible="0+"):
    """Eligible leader replicas are forgotten (KIP-966)."""

    topic_name: String = ""


class ConfigRecord(MetadataRecord, key=4, versions="0", flexible="0+"):
    """A setting changed."""

    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: String | None = ""


class FeatureLevelRecord(MetadataRecord, key=12, versions="0", flexible="0+"):
    """A feature has a level (KIP-584)."""

    name: String = ""
    feature_level: Int16 = 0


class ClientQuotaRecord(MetadataRecord, key=14, versions="0", flexible="0+"):
    """A quota changed."""

    entity: Array[EntityData] = []
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class EntityData(MetadataStruct):
    entity_type: String = ""
    entity_name: String | None = ""


class ProducerIdsRecord(MetadataRecord, key=15, versions="0", flexible="0+"):
    """A block of producer ids was given out."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


class UserScramCredentialRecord(MetadataRecord, key=11, versions="0", flexible="0+"):
    """A user has a SCRAM credential."""

    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0


class RemoveUserScramCredentialRecord(MetadataRecord, key=22, versions="0", flexible="0+"):
    """A SCRAM credential is gone."""

    name: String = ""
    mechanism: Int8 = 0


class AccessControlEntryRecord(MetadataRecord, key=18, versions="0", flexible="0+"):
    """A rule was added."""

    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class RemoveAccessControlEntryRecord(MetadataRecord, key=19, versions="0", flexible="0+"):
    """A rule is gone."""

    id: Uuid = ZERO_UUID


class DelegationTokenRecord(MetadataRecord, key=10, versions="0", flexible="0+"):
    """A delegation token was made or renewed."""

    owner: String = ""
    requester: String = ""
    renewers: Array[String] = []
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


class RemoveDelegationTokenRecord(MetadataRecord, key=26, versions="0", flexible="0+"):
    """A delegation token is gone."""

    token_id: String = ""


class BeginTransactionRecord(MetadataRecord, key=23, versions="0", flexible="0+"):
    """Records follow that count together or not at all (KIP-868)."""

    name: String | None = since(0, default=None, tag=0)


class EndTransactionRecord(MetadataRecord, key=24, versions="0", flexible="0+"):
    """The records since the begin count."""


class AbortTransactionRecord(MetadataRecord, key=25, versions="0", flexible="0+"):
    """The records since the begin do not count."""

    reason: String | None = since(0, default=None, tag=0)


class NoOpRecord(MetadataRecord, key=20, versions="0", flexible="0+"):
    """Nothing, so that the log moves (KIP-835)."""


class ZkMigrationRecord(MetadataRecord, key=21, versions="0", flexible="0+"):
    """Where a migration from ZooKeeper stands (KIP-866)."""

    zk_migration_state: Int8 = 0
