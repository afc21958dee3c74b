"""The one writer of an image: a metadata record goes in, the image and its delta change.

The same code runs on the active controller (for the leading image, before commit), on every standby and
broker (after commit) and at every restart, so all of them agree.  It decides nothing: a record that does
not fit the image is a broken log and raises `ReplayError`; it is never skipped.

A metadata transaction (BeginTransaction ... EndTransaction) becomes visible as a whole at its end, or, after
AbortTransaction, not at all (KIP-868).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from barnabas.controller.image import (
    BrokerEndpoint,
    BrokerState,
    ControllerState,
    ImageDelta,
    MetadataImage,
    PartitionState,
    Topic,
)
from barnabas.errors import BarnabasError
from barnabas.model import DIRECTORY_MIGRATING, Epoch, NodeId, Offset, Uuid
from barnabas.security.acl import Acl
from barnabas.wire import metadata as records
from barnabas.wire.codec.message import MetadataRecord

__all__ = ["Replay", "ReplayError", "partition_after"]

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1
_LEADER_UNCHANGED = -2
_LEADER_RECOVERY_UNCHANGED = -1

R = TypeVar("R", bound=MetadataRecord)
_Writer = Callable[[MetadataImage, ImageDelta, R], None]


class ReplayError(BarnabasError):
    """A metadata record that cannot be applied: the log is broken or written by something newer."""


class Replay:
    """Applies records to `image`, collecting what they touch.

    >>> replay = Replay(MetadataImage())
    >>> replay.apply([TopicRecord(name="flights", topic_id=id)], offset=7, epoch=1, timestamp_ms=now)
    >>> delta = replay.take_delta()
    """

    __slots__ = ("_delta", "_transaction", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._delta = ImageDelta(image)
        self._transaction: list[tuple[MetadataRecord, Offset]] | None = None

    def __repr__(self) -> str:
        return f"<Replay at {self.image.offset}{' in a transaction' if self.in_transaction else ''}>"

    def copy(self) -> Replay:
        """Another replay at the same point, over a copy of the image."""
        other = Replay(self.image.copy())
        other._transaction = None if self._transaction is None else list(self._transaction)
        return other

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction was begun and neither ended nor aborted."""
        return self._transaction is not None

    def apply(
        self, batch: Iterable[MetadataRecord], *, offset: Offset, epoch: Epoch, timestamp_ms: int
    ) -> None:
        """Apply records in order; `offset` is that of the first.  Raises ReplayError."""
        image = self.image
        for record in batch:
            self._transact(record, offset)
            image.offset = offset
            offset += 1
        image.epoch, image.timestamp_ms = epoch, timestamp_ms

    def skip_to(self, offset: Offset, epoch: Epoch, timestamp_ms: int) -> None:
        """Move the provenance over records that are not metadata (the quorum's control records)."""
        image = self.image
        image.offset, image.epoch, image.timestamp_ms = offset, epoch, timestamp_ms

    def take_delta(self) -> ImageDelta:
        """What has been touched since the last call; the next delta begins empty."""
        delta, self._delta = self._delta, ImageDelta(self.image)
        return delta

    def _transact(self, record: MetadataRecord, offset: Offset) -> None:
        if isinstance(record, records.BeginTransactionRecord):
            if self._transaction is not None:
                raise ReplayError(f"offset {offset} begins a metadata transaction inside another one")
            self._transaction = []
        elif isinstance(record, records.EndTransactionRecord):
            for waiting, at in self._close(offset, "ends"):
                self._apply_one(waiting, at)
        elif isinstance(record, records.AbortTransactionRecord):
            self._close(offset, "aborts")
        elif self._transaction is not None:
            self._transaction.append((record, offset))
        else:
            self._apply_one(record, offset)

    def _close(self, offset: Offset, verb: str) -> list[tuple[MetadataRecord, Offset]]:
        waiting, self._transaction = self._transaction, None
        if waiting is None:
            raise ReplayError(f"offset {offset} {verb} a metadata transaction that nobody began")
        return waiting

    def _apply_one(self, record: MetadataRecord, offset: Offset) -> None:
        writer = _WRITERS.get(type(record))
        if writer is None:
            raise ReplayError(
                f"offset {offset} of the metadata log holds {record.NAME}, which is no metadata record",
                fatal=True,
            )
        try:
            writer(self.image, self._delta, record)
        except ReplayError as error:
            raise ReplayError(f"offset {offset} of the metadata log: {error.message}", fatal=True) from error


_WRITERS: dict[type[MetadataRecord], Callable[[MetadataImage, ImageDelta, Any], None]] = {}


def _writes(kind: type[R]) -> Callable[[_Writer[R]], _Writer[R]]:
    """Enter a function into the table: it is what replays records of `kind`."""

    def enter(function: _Writer[R]) -> _Writer[R]:
        _WRITERS[kind] = function
        return function

    return enter


# Topics and partitions.


@_writes(records.TopicRecord)
def _topic(image: MetadataImage, delta: ImageDelta, record: records.TopicRecord) -> None:
    if (old := image.topics_by_name.get(record.name)) is not None:
        raise ReplayError(f"topic {record.name} is created again while {old.id} exists")
    topic = Topic(record.name, record.topic_id)
    image.topics[topic.id] = image.topics_by_name[topic.name] = topic
    delta.topics_created[topic.id] = topic


@_writes(records.RemoveTopicRecord)
def _remove_topic(image: MetadataImage, delta: ImageDelta, record: records.RemoveTopicRecord) -> None:
    topic = _known_topic(image, record.topic_id)
    del image.topics[topic.id], image.topics_by_name[topic.name]
    if image.configs.pop((2, topic.name), None) is not None:
        delta.configs.add((2, topic.name))
    delta.partitions.pop(topic.id, None)
    if delta.topics_created.pop(topic.id, None) is None:
        delta.topics_deleted[topic.id] = topic


@_writes(records.PartitionRecord)
def _partition(image: MetadataImage, delta: ImageDelta, record: records.PartitionRecord) -> None:
    topic = _known_topic(image, record.topic_id)
    state = PartitionState(
        index=record.partition_id,
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=_directories(record.directories, record.replicas),
        removing=tuple(record.removing_replicas),
        adding=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        recovering=record.leader_recovery_state == 1,
    )
    _put(topic, state, delta)


@_writes(records.PartitionChangeRecord)
def _partition_change(image: MetadataImage, delta: ImageDelta, record: records.PartitionChangeRecord) -> None:
    topic = _known_topic(image, record.topic_id)
    before = topic.partitions.get(record.partition_id)
    if before is None:
        raise ReplayError(f"{topic.name}-{record.partition_id} changes but does not exist")
    _put(topic, partition_after(before, record), delta)


@_writes(records.ClearElrRecord)
def _clear_elr(image: MetadataImage, delta: ImageDelta, record: records.ClearElrRecord) -> None:
    if record.topic_name:
        topic = image.topics_by_name.get(record.topic_name)
        if topic is None:
            raise ReplayError(f"topic {record.topic_name} does not exist")
        topics = [topic]
    else:
        topics = list(image.topics.values())
    for topic in topics:
        for state in list(topic.partitions.values()):
            if state.elr or state.last_known_elr:
                cleared = state._replace(elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1)
                _put(topic, cleared, delta)


def partition_after(before: PartitionState, change: records.PartitionChangeRecord) -> PartitionState:
    """The state that a PartitionChangeRecord makes of `before`.

    A field that the record leaves out stays.  The partition epoch grows by one, the leader epoch whenever
    the record names a leader, were it the same.
    """
    replicas = before.replicas if change.replicas is None else tuple(change.replicas)
    leader, leader_epoch = before.leader, before.leader_epoch
    if change.leader != _LEADER_UNCHANGED:
        leader, leader_epoch = change.leader, before.leader_epoch + 1
    recovering = before.recovering
    if change.leader_recovery_state != _LEADER_RECOVERY_UNCHANGED:
        recovering = change.leader_recovery_state == 1
    if change.directories is not None:
        directories = _directories(change.directories, replicas)
    elif change.replicas is not None:
        known = dict(zip(before.replicas, before.directories, strict=False))
        directories = tuple(known.get(replica, DIRECTORY_MIGRATING) for replica in replicas)
    else:
        directories = before.directories
    return PartitionState(
        index=before.index,
        replicas=replicas,
        isr=before.isr if change.isr is None else tuple(change.isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        directories=directories,
        removing=before.removing if change.removing_replicas is None else tuple(change.removing_replicas),
        adding=before.adding if change.adding_replicas is None else tuple(change.adding_replicas),
        elr=before.elr if change.eligible_leader_replicas is None else tuple(change.eligible_leader_replicas),
        last_known_elr=before.last_known_elr
        if change.last_known_elr is None
        else tuple(change.last_known_elr),
        recovering=recovering,
    )


def _known_topic(image: MetadataImage, topic_id: Uuid) -> Topic:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise ReplayError(f"topic id {topic_id} does not exist")
    return topic


def _directories(directories: list[Uuid], replicas: Iterable[NodeId]) -> tuple[Uuid, ...]:
    """As many directories as replicas; records older than metadata.version 17 have none."""
    return tuple(directories) or tuple(DIRECTORY_MIGRATING for _ in replicas)


def _put(topic: Topic, state: PartitionState, delta: ImageDelta) -> None:
    before = topic.partitions.get(state.index)
    topic.partitions[state.index] = state
    delta.partitions.setdefault(topic.id, {}).setdefault(state.index, before)


# Brokers and controllers.


@_writes(records.RegisterBrokerRecord)
def _register_broker(image: MetadataImage, delta: ImageDelta, record: records.RegisterBrokerRecord) -> None:
    image.brokers[record.broker_id] = BrokerState(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation=record.incarnation_id,
        endpoints=_endpoints(record.end_points),
        features=_ranges(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(record.log_dirs),
        cordoned=tuple(record.cordoned_log_dirs or ()),
    )
    delta.brokers.add(record.broker_id)


@_writes(records.UnregisterBrokerRecord)
def _unregister(image: MetadataImage, delta: ImageDelta, record: records.UnregisterBrokerRecord) -> None:
    _known_broker(image, record.broker_id, record.broker_epoch)
    del image.brokers[record.broker_id]
    delta.brokers.add(record.broker_id)


@_writes(records.BrokerRegistrationChangeRecord)
def _change_broker(
    image: MetadataImage, delta: ImageDelta, record: records.BrokerRegistrationChangeRecord
) -> None:
    broker = _known_broker(image, record.broker_id, record.broker_epoch)
    if record.fenced:
        broker = broker._replace(fenced=record.fenced == FENCE)
    if record.in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN:
        broker = broker._replace(in_controlled_shutdown=True)
    if record.log_dirs:
        broker = broker._replace(directories=tuple(record.log_dirs))
    if record.cordoned_log_dirs is not None:
        broker = broker._replace(cordoned=tuple(record.cordoned_log_dirs))
    image.brokers[broker.id] = broker
    delta.brokers.add(broker.id)


@_writes(records.FenceBrokerRecord)
def _fence(image: MetadataImage, delta: ImageDelta, record: records.FenceBrokerRecord) -> None:
    broker = _known_broker(image, record.id, record.epoch)
    image.brokers[broker.id] = broker._replace(fenced=True)
    delta.brokers.add(broker.id)


@_writes(records.UnfenceBrokerRecord)
def _unfence(image: MetadataImage, delta: ImageDelta, record: records.UnfenceBrokerRecord) -> None:
    broker = _known_broker(image, record.id, record.epoch)
    image.brokers[broker.id] = broker._replace(fenced=False)
    delta.brokers.add(broker.id)


@_writes(records.RegisterControllerRecord)
def _register_controller(
    image: MetadataImage, delta: ImageDelta, record: records.RegisterControllerRecord
) -> None:
    image.controllers[record.controller_id] = ControllerState(
        id=record.controller_id,
        incarnation=record.incarnation_id,
        endpoints=_endpoints(record.end_points),
        features=_ranges(record.features),
    )
    delta.controllers.add(record.controller_id)


@_writes(records.UnregisterControllerRecord)
def _unregister_controller(
    image: MetadataImage, delta: ImageDelta, record: records.UnregisterControllerRecord
) -> None:
    if image.controllers.pop(record.controller_id, None) is None:
        raise ReplayError(f"controller {record.controller_id} is not registered")
    delta.controllers.add(record.controller_id)


def _known_broker(image: MetadataImage, id_: NodeId, epoch: int) -> BrokerState:
    broker = image.brokers.get(id_)
    if broker is None:
        raise ReplayError(f"broker {id_} is not registered")
    if broker.epoch != epoch:
        raise ReplayError(f"broker {id_} has epoch {broker.epoch}, the record says {epoch}")
    return broker


def _endpoints(endpoints: Iterable[Any]) -> tuple[BrokerEndpoint, ...]:
    return tuple(BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints)


def _ranges(features: Iterable[Any]) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_supported_version, f.max_supported_version) for f in features}


# Settings, features, ids.


@_writes(records.ConfigRecord)
def _config(image: MetadataImage, delta: ImageDelta, record: records.ConfigRecord) -> None:
    resource = (record.resource_type, record.resource_name)
    if record.value is None:
        values = image.configs.get(resource)
        if values is not None:
            values.pop(record.name, None)
            if not values:
                del image.configs[resource]
    else:
        image.configs.setdefault(resource, {})[record.name] = record.value
    delta.configs.add(resource)


@_writes(records.FeatureLevelRecord)
def _feature(image: MetadataImage, delta: ImageDelta, record: records.FeatureLevelRecord) -> None:
    if record.name == "kraft.version":
        return  # the quorum's own control record says it (KAFKA-18979)
    if record.feature_level == 0:
        image.features.pop(record.name, None)
    else:
        image.features[record.name] = record.feature_level
    delta.features.add(record.name)


@_writes(records.ProducerIdsRecord)
def _producer_ids(image: MetadataImage, delta: ImageDelta, record: records.ProducerIdsRecord) -> None:
    if record.next_producer_id < image.next_producer_id:
        raise ReplayError(
            f"the next producer id falls from {image.next_producer_id} to {record.next_producer_id}"
        )
    image.next_producer_id = record.next_producer_id
    delta.producer_ids = True


@_writes(records.ClientQuotaRecord)
def _quota(image: MetadataImage, delta: ImageDelta, record: records.ClientQuotaRecord) -> None:
    entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
    if record.remove:
        values = image.client_quotas.get(entity, {})
        values.pop(record.key, None)
        if not values:
            image.client_quotas.pop(entity, None)
    else:
        image.client_quotas.setdefault(entity, {})[record.key] = record.value
    delta.quotas = True


# Access.


@_writes(records.AccessControlEntryRecord)
def _acl(image: MetadataImage, delta: ImageDelta, record: records.AccessControlEntryRecord) -> None:
    acl = Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
    image.acls[record.id] = acl
    image.acl_ids[acl] = record.id
    delta.acls.add(record.id)


@_writes(records.RemoveAccessControlEntryRecord)
def _remove_acl(
    image: MetadataImage, delta: ImageDelta, record: records.RemoveAccessControlEntryRecord
) -> None:
    acl = image.acls.pop(record.id, None)
    if acl is None:
        raise ReplayError(f"access control entry {record.id} does not exist")
    if image.acl_ids.get(acl) == record.id:
        del image.acl_ids[acl]
    delta.acls.add(record.id)


@_writes(records.UserScramCredentialRecord)
def _scram(image: MetadataImage, delta: ImageDelta, record: records.UserScramCredentialRecord) -> None:
    image.scram[record.name, record.mechanism] = record
    delta.scram = True


@_writes(records.RemoveUserScramCredentialRecord)
def _remove_scram(
    image: MetadataImage, delta: ImageDelta, record: records.RemoveUserScramCredentialRecord
) -> None:
    if image.scram.pop((record.name, record.mechanism), None) is None:
        raise ReplayError(f"user {record.name} has no credential of mechanism {record.mechanism}")
    delta.scram = True


@_writes(records.DelegationTokenRecord)
def _token(image: MetadataImage, delta: ImageDelta, record: records.DelegationTokenRecord) -> None:
    image.tokens[record.token_id] = record
    delta.tokens = True


@_writes(records.RemoveDelegationTokenRecord)
def _remove_token(
    image: MetadataImage, delta: ImageDelta, record: records.RemoveDelegationTokenRecord
) -> None:
    image.tokens.pop(record.token_id, None)
    delta.tokens = True


@_writes(records.NoOpRecord)
def _no_op(image: MetadataImage, delta: ImageDelta, record: records.NoOpRecord) -> None:
    """It only moves the offset: the active controller shows that it is alive."""


@_writes(records.ZkMigrationRecord)
def _zk_migration(image: MetadataImage, delta: ImageDelta, record: records.ZkMigrationRecord) -> None:
    """Only clusters that never had ZooKeeper are served; the record says so, or that it is past."""
