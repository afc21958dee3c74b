"""Brokers and controllers among themselves (KIP-500, KIP-631).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    OWN_TAG,
    ZERO_UUID,
    Array,
    Bool,
    Bytes,
    Int8,
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
    "AlterPartitionRequest",
    "AlterPartitionRequestPartitionData",
    "AlterPartitionRequestTopicData",
    "AlterPartitionResponse",
    "AlterPartitionResponsePartitionData",
    "AlterPartitionResponseTopicData",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatRequestLeaderless",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationRequestFeature",
    "BrokerRegistrationRequestListener",
    "BrokerRegistrationResponse",
    "BrokerState",
    "ControllerRegistrationRequest",
    "ControllerRegistrationRequestFeature",
    "ControllerRegistrationRequestListener",
    "ControllerRegistrationResponse",
    "DefaultPrincipalData",
    "EnvelopeRequest",
    "EnvelopeResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
]


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """A principal inside an Envelope."""

    type: String = ""
    name: String = ""
    token_authenticated: Bool = False


class BrokerRegistrationRequest(Message, key=62, versions="0-4", flexible="0+"):
    """A broker asks to be of the cluster."""

    broker_id: Int32 = 0
    cluster_id: String = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: Array[BrokerRegistrationRequestListener] = []
    features: Array[BrokerRegistrationRequestFeature] = []
    rack: String | None = ""
    is_migrating_zk_broker: Bool = since(1, default=False)
    log_dirs: Array[Uuid] = since(2, default=[], ignorable=True)
    previous_broker_epoch: Int64 = since(3, default=-1, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class BrokerRegistrationRequestListener(Struct, called="Listener"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class BrokerRegistrationRequestFeature(Struct, called="Feature"):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class BrokerRegistrationResponse(Message, key=62, versions="0-4", flexible="0+"):
    """Its broker epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1


class BrokerHeartbeatRequest(Message, key=63, versions="0-2", flexible="0+"):
    """A broker is alive, and how far it is."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: Bool = False
    want_shut_down: Bool = False
    offline_log_dirs: Array[Uuid] = since(1, default=[], tag=0)
    cordoned_log_dirs: Array[Uuid] | None = since(2, default=None, tag=1)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)
    unfit_log_dirs: Array[Uuid] = since(0, default=[], tag=OWN_TAG + 2, ignorable=True)
    leaderless: Array[BrokerHeartbeatRequestLeaderless] = since(
        0, default=[], tag=OWN_TAG + 3, ignorable=True
    )
    incomplete: Array[BrokerHeartbeatRequestIncomplete] = since(
        0, default=[], tag=OWN_TAG + 4, ignorable=True
    )
    refused: Array[BrokerHeartbeatRequestRefused] = since(0, default=[], tag=OWN_TAG + 5, ignorable=True)
    unclean_stop: Bool = since(0, default=False, tag=OWN_TAG + 6, ignorable=True)


class BrokerHeartbeatRequestLeaderless(Struct, called="LeaderlessReplica"):
    topic_id: Uuid = ZERO_UUID
    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class BrokerHeartbeatRequestIncomplete(Struct, called="IncompleteReplica"):
    topic_id: Uuid = ZERO_UUID
    partition_index: Int32 = 0


class BrokerHeartbeatRequestRefused(Struct, called="RefusedLeader"):
    topic_id: Uuid = ZERO_UUID
    partition_index: Int32 = 0
    leader_epoch: Int32 = -1


class BrokerHeartbeatResponse(Message, key=63, versions="0-2", flexible="0+"):
    """Whether it is fenced or may stop."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool = False
    now_ms: Int64 = since(0, default=0, tag=OWN_TAG + 1, ignorable=True)
    given_away: Int64 = since(0, default=-1, tag=OWN_TAG + 2, ignorable=True)


class UnregisterBrokerRequest(Message, key=64, versions="0", flexible="0+"):
    """Remove a broker for good."""

    broker_id: Int32 = 0


class UnregisterBrokerResponse(Message, key=64, versions="0", flexible="0+"):
    """Whether it is."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ControllerRegistrationRequest(Message, key=70, versions="0", flexible="0+"):
    """A controller tells its endpoints (KIP-919)."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: Bool = False
    listeners: Array[ControllerRegistrationRequestListener] = []
    features: Array[ControllerRegistrationRequestFeature] = []
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class ControllerRegistrationRequestListener(Struct, called="Listener"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class ControllerRegistrationRequestFeature(Struct, called="Feature"):
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class ControllerRegistrationResponse(Message, key=70, versions="0", flexible="0+"):
    """Whether it was heard."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class UnregisterControllerRequest(Message, key=94, versions="0", flexible="0+"):
    """Remove a controller's registration."""

    controller_id: Int32 = 0


class UnregisterControllerResponse(Message, key=94, versions="0", flexible="0+"):
    """The outcome of the removal of a controller's registration."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterPartitionRequest(Message, key=56, versions="2-3", flexible="0+"):
    """A leader asks for other in-sync replicas (KIP-497)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: Array[AlterPartitionRequestTopicData] = []
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class AlterPartitionRequestTopicData(Struct, called="TopicData"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AlterPartitionRequestPartitionData] = []


class AlterPartitionRequestPartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Array[Int32] = since(0, default=[], until=2)
    new_isr_with_epochs: Array[BrokerState] = since(3, default=[])
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


class BrokerState(Struct):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AlterPartitionResponse(Message, key=56, versions="2-3", flexible="0+"):
    """The partition's state."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: Array[AlterPartitionResponseTopicData] = []


class AlterPartitionResponseTopicData(Struct, called="TopicData"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AlterPartitionResponsePartitionData] = []


class AlterPartitionResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: Array[Int32] = []
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


class EnvelopeRequest(Message, key=58, versions="0", flexible="0+"):
    """A broker hands on a client's request (KIP-590)."""

    request_data: Bytes = b""
    request_principal: Bytes | None = b""
    client_host_address: Bytes = b""
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class EnvelopeResponse(Message, key=58, versions="0", flexible="0+"):
    """The answer for the client."""

    response_data: Bytes | None = None
    error_code: Int16 = 0
