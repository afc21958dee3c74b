"""A metadata log with one of everything, for what shows metadata: `rich_log()` gives its bytes."""

from __future__ import annotations

from barnabas.model import Uuid
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    write_record,
)
from barnabas.wire.records import Record as LogRecord
from barnabas.wire.records import write_batch

__all__ = ["rich_log", "rich_records"]

A, B, C = (Uuid(bytes([3, n] * 8)) for n in (7, 8, 9))


def _access() -> list[MetadataRecord]:
    acls: list[MetadataRecord] = [
        AccessControlEntryRecord(
            id=Uuid(bytes([40, kind] * 8)),
            resource_type=kind,
            resource_name="kafka-cluster" if kind == 4 else f"r{kind}",
            pattern_type=3 if kind != 3 else 4,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=3 if kind != 5 else 2,
        )
        for kind, operation in ((2, 3), (3, 4), (4, 9), (5, 8), (6, 13), (7, 15), (2, 2))
    ]
    scram: list[MetadataRecord] = [
        UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=b"salt",
            stored_key=b"k1\xff",
            server_key=b"k2",
            iterations=4096,
        )
        for name, mechanism in (("alice", 1), ("bob", 2), ("alice", 2))
    ]
    token = DelegationTokenRecord(
        owner="User:alice",
        requester="User:bob",
        renewers=["User:carol", "User:dave"],
        issue_timestamp=1,
        max_timestamp=4,
        expiration_timestamp=3,
        token_id="token-1",
    )
    return [*acls, *scram, token, DelegationTokenRecord(owner="User:a", requester="User:a", token_id="t2")]


def _quotas() -> list[MetadataRecord]:
    whom: list[list[tuple[str, str | None]]] = [
        [("user", "alice")],
        [("user", "bob"), ("client-id", "c1")],
        [("ip", "127.0.0.1")],
        [("client-id", 'a(b)"\\')],
    ]
    values = (1024.0, 1e7, 12345678.9, 0.00012)
    return [
        ClientQuotaRecord(
            entity=[EntityData(entity_type=type_, entity_name=name) for type_, name in entity],
            key="connection_creation_rate" if entity[0][0] == "ip" else "producer_byte_rate",
            value=value,
        )
        for entity, value in zip(whom, values, strict=True)
    ]


def rich_records() -> list[MetadataRecord]:
    """One of everything that metadata.version 4.3-IV0 has."""
    settings = (
        (2, "flights", "retention.ms", "86400000"),
        (4, "", "min.insync.replicas", "2"),
        (4, "1", "log.cleaner.threads", "2"),
        (16, "metrics", "interval.ms", "1000"),
        (32, "group", "consumer.session.timeout.ms", "50000"),
    )
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        RegisterBrokerRecord(
            broker_id=12,
            incarnation_id=A,
            broker_epoch=5,
            end_points=[
                BrokerEndpoint(name="SAFE", host="::1", port=9094, security_protocol=3),
                BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),
            ],
            features=[
                BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),
                BrokerFeature(name="group.version", min_supported_version=0, max_supported_version=1),
            ],
            rack="north",
            fenced=True,
            log_dirs=[C, B],
            cordoned_log_dirs=[C, B],
        ),
        RegisterBrokerRecord(broker_id=3, incarnation_id=B, broker_epoch=6, fenced=False, log_dirs=[A]),
        RegisterControllerRecord(
            controller_id=1,
            incarnation_id=C,
            end_points=[ControllerEndpoint(name="CONTROLLER", host="h", port=9093, security_protocol=1)],
            features=[
                ControllerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)
            ],
        ),
        TopicRecord(name="flights", topic_id=A),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=A,
                replicas=[3, 12],
                isr=[3],
                removing_replicas=[12] if index else [],
                adding_replicas=[12] if index else [],
                leader=3 if index != 2 else -1,
                leader_recovery_state=int(index == 2),
                leader_epoch=4,
                partition_epoch=9,
                directories=[A, B],
                eligible_leader_replicas=[12] if index else None,
                last_known_elr=[3] if index == 2 else None,
            )
            for index in (0, 1, 2, 10)
        ),
        TopicRecord(name="empty", topic_id=B),
        *(ConfigRecord(resource_type=t, resource_name=r, name=n, value=v) for t, r, n, v in settings),
        ProducerIdsRecord(broker_id=3, broker_epoch=6, next_producer_id=2000),
        *_quotas(),
        *_access(),
    ]


def rich_log(timestamp: int = 1_763_647_132_000) -> bytes:
    """The bytes of a log segment with these records: one batch at offset 0, epoch 3."""
    values = [write_record(record) for record in rich_records()]
    records = [LogRecord(offset, timestamp, None, value, []) for offset, value in enumerate(values)]
    return bytes(write_batch(records, leader_epoch=3))
