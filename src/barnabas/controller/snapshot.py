"""An image as records, and back: what a metadata snapshot holds (KIP-630).

The order is Apache Kafka's: features with metadata.version first (it says how to read the rest), brokers,
controllers, topics each followed by its partitions, settings, quotas, producer ids, access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import BrokerState, ControllerState, MetadataImage, PartitionState, Topic
from barnabas.controller.replay import Replay
from barnabas.controller.versions import DIRECTORIES, LATEST
from barnabas.model import Epoch, Offset, Uuid
from barnabas.security.acl import Acl
from barnabas.wire.codec.message import MetadataRecord, replace
from barnabas.wire.metadata import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)

__all__ = ["image_from", "image_records"]


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The records that make this image out of nothing."""
    levels = image.features
    if METADATA_VERSION in levels:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    for name in sorted(levels):
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=levels[name])
    for broker_id in sorted(image.brokers):
        yield _broker(image.brokers[broker_id])
    for controller_id in sorted(image.controllers):
        yield _controller(image.controllers[controller_id])
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index in sorted(topic.partitions):
            record = partition_record(topic, topic.partitions[index])
            if levels.get(METADATA_VERSION, LATEST) < DIRECTORIES:
                record = replace(record, directories=[])
            yield record
    for (type_, resource), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=type_, resource_name=resource, name=name, value=value)
    yield from _quotas(image)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for id_, acl in image.acls.items():
        yield acl_record(id_, acl)
    yield from image.scram.values()
    yield from image.tokens.values()


def image_from(
    records: Iterable[MetadataRecord], *, cluster_id: str, end_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> MetadataImage:
    """The image that a snapshot's records make; its last contained offset is `end_offset` - 1."""
    replay = Replay(MetadataImage(cluster_id))
    replay.apply(records, offset=0, epoch=epoch, timestamp_ms=timestamp_ms)
    replay.skip_to(end_offset - 1, epoch, timestamp_ms)
    return replay.image


def acl_record(id_: Uuid, acl: Acl) -> AccessControlEntryRecord:
    """An ACL as the record that adds it."""
    return AccessControlEntryRecord(
        id=id_,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _broker(broker: BrokerState) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=False,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned) or None,
    )


def _controller(controller: ControllerState) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ],
    )


def partition_record(topic: Topic, state: PartitionState) -> PartitionRecord:
    """A partition's whole state as one record."""
    return PartitionRecord(
        partition_id=state.index,
        topic_id=topic.id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        removing_replicas=list(state.removing),
        adding_replicas=list(state.adding),
        leader=state.leader,
        leader_recovery_state=int(state.recovering),
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=list(state.directories),
        eligible_leader_replicas=list(state.elr) or None,
        last_known_elr=list(state.last_known_elr) or None,
    )


def _quotas(image: MetadataImage) -> Iterator[ClientQuotaRecord]:
    for entity, values in image.client_quotas.items():
        parts: list[EntityData] = [
            EntityData(entity_type=type_, entity_name=name) for type_, name in sorted(entity, key=str)
        ]
        for key, value in _sorted(values):
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _sorted(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items())
