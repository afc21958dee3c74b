"""A cluster's metadata as a tree of directories and files, named and worded as Apache Kafka's MetadataShell does.

`metadata_tree(read_metadata(file))` gives `/image` (what the records say) and `/local` (this program).
Directories are dicts, files are text; nothing here reads a disk but the open file it is given.

Two things differ from Kafka on purpose: the default entity of a quota is called `user(<default>)`, where
Kafka shows a directory without a name and without content, and a file that says no
metadata.version is shown too, where Kafka waits for one for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from barnabas.cli.log.file_batches import file_batches
from barnabas.controller.feature_levels import METADATA_VERSION, RELEASES
from barnabas.controller.snapshot import image_from
from barnabas.errors import CorruptRecordError
from barnabas.model import Uuid
from barnabas.version import __version__
from barnabas.wire.metadata import BrokerRegistrationChangeRecord, RegisterBrokerRecord, read_record
from barnabas.wire.records import BatchHeader, check_crc, read_records

if TYPE_CHECKING:
    from barnabas.controller.image import (
        BrokerEndpoint,
        BrokerState,
        ControllerState,
        MetadataImage,
        PartitionState,
        QuotaEntity,
        Topic,
    )
    from barnabas.security.acl import Acl
    from barnabas.wire.codec.message import MetadataRecord
    from barnabas.wire.metadata import DelegationTokenRecord

__all__ = ["Directory", "Metadata", "Node", "metadata_tree", "read_metadata"]

Directory = dict[str, "Node"]
Node = Directory | str

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CONFIG_RESOURCES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
_ACL_RESOURCES = (
    "UNKNOWN",
    "ANY",
    "TOPIC",
    "GROUP",
    "CLUSTER",
    "TRANSACTIONAL_ID",
    "DELEGATION_TOKEN",
    "USER",
)
_ACL_PATTERNS = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_ACL_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_ACL_OPERATIONS = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS"),
    "TWO_PHASE_COMMIT",
)
_SCRAM = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_QUOTA_TYPES = {"client-id": "clientId", "ip": "ip", "user": "user"}
_DEFAULT_ENTITY = "<default>"
_PLAIN_DOUBLES = (1e-3, 1e7)
"""Java writes doubles from the first up to below the second without an exponent."""


class Metadata(NamedTuple):
    """What a file says: the image, and the brokers whose registration says nothing of cordoned directories."""

    image: MetadataImage
    cordoned_unsaid: frozenset[int]


class _Reader:
    """Yields the metadata records of a file, remembering what an image does not keep."""

    __slots__ = ("cordoned_unsaid", "last")

    def __init__(self) -> None:
        self.last: BatchHeader | None = None
        self.cordoned_unsaid: set[int] = set()

    def records(self, file: BinaryIO) -> Iterator[MetadataRecord]:
        """In order, without control batches.  Raises CorruptRecordError, WireError."""
        for batch in file_batches(file):
            header = batch.header
            if not check_crc(batch.raw, 0, header):
                raise CorruptRecordError(f"the batch at offset {header.base_offset} fails its CRC")
            if header.is_control:
                continue
            for record in read_records(batch.raw, 0, header):
                message = read_record(record.value or b"")
                self._notice(message)
                yield message
            self.last = header

    def _notice(self, message: MetadataRecord) -> None:
        if isinstance(message, RegisterBrokerRecord):
            if message.cordoned_log_dirs is None:
                self.cordoned_unsaid.add(message.broker_id)
            else:
                self.cordoned_unsaid.discard(message.broker_id)
        elif isinstance(message, BrokerRegistrationChangeRecord) and message.cordoned_log_dirs is not None:
            self.cordoned_unsaid.discard(message.broker_id)


def read_metadata(file: BinaryIO) -> Metadata:
    """What a snapshot or a log segment from offset 0 says, Kafka's or ours.

    Raises CorruptRecordError, WireError and (records that need others before them) ReplayError.
    """
    reader = _Reader()
    image = image_from(reader.records(file), cluster_id="", end_offset=0, epoch=-1, timestamp_ms=-1)
    if (last := reader.last) is not None:
        image.offset, image.epoch, image.timestamp_ms = (
            last.last_offset,
            last.leader_epoch,
            last.max_timestamp,
        )
    return Metadata(image, frozenset(reader.cordoned_unsaid))


def metadata_tree(metadata: Metadata) -> Directory:
    """The root directory: `image` and `local`."""
    image = metadata.image
    topics = {topic.id: _topic(topic) for topic in image.topics.values()}
    content: Directory = {
        "provenance": f"offset {image.offset}, epoch {image.epoch}, time {_time(image.timestamp_ms)}",
        "features": _features(image.features),
        "cluster": {
            "brokers": {
                str(b.id): _broker(b, said=b.id not in metadata.cordoned_unsaid)
                for b in image.brokers.values()
            },
            "controllers": {str(c.id): _controller(c) for c in image.controllers.values()},
        },
        "topics": {
            "byName": {topic.name: topics[topic.id] for topic in image.topics.values()},
            "byId": {str(topic_id): directory for topic_id, directory in topics.items()},
        },
        "configs": {
            _config_resource(type_, name): dict(values) for (type_, name), values in image.configs.items()
        },
        "clientQuotas": {
            _quota_entity(entity): {key: _double(value) for key, value in values.items()}
            for entity, values in image.client_quotas.items()
        },
        "producerIds": {"nextProducerId": str(image.next_producer_id or -1)},
        "acls": {"byId": {str(id_): _acl(acl) for id_, acl in image.acls.items()}},
        "scram": _scram(image),
        "delegationToken": {id_: _token(record) for id_, record in image.tokens.items()},
    }
    return {"image": content, "local": {"version": __version__, "commitId": "unknown"}}


def _features(levels: Mapping[str, int]) -> Directory:
    files: Directory = {
        f"finalized_{name}": str(level) for name, level in levels.items() if name != METADATA_VERSION
    }
    level = levels.get(METADATA_VERSION)
    files["metadataVersion"] = (
        "Optional.empty" if level is None else f"Optional[{RELEASES.get(level, f'level {level}')}]"
    )
    return files


def _broker(broker: BrokerState, *, said: bool) -> str:
    directories: list[Uuid] = sorted(broker.directories, key=_signed_halves)
    return (
        f"BrokerRegistration(id={broker.id}, epoch={broker.epoch}, incarnationId={broker.incarnation}, "
        f"listeners={_endpoints(broker.endpoints)}, supportedFeatures={_ranges(broker.features)}, "
        f"rack={'Optional.empty' if broker.rack is None else f'Optional[{broker.rack}]'}, "
        f"fenced={_bool(broker.fenced)}, inControlledShutdown={_bool(broker.in_controlled_shutdown)}, "
        f"isMigratingZkBroker=false, directories={_list(directories)}, "
        f"cordonedDirectories={_list(broker.cordoned) if said else 'null'})"
    )


def _controller(controller: ControllerState) -> str:
    return (
        f"ControllerRegistration(id={controller.id}, incarnationId={controller.incarnation}, "
        f"zkMigrationReady=false, listeners={_endpoints(controller.endpoints)}, "
        f"supportedFeatures={_ranges(controller.features)})"
    )


def _topic(topic: Topic) -> Directory:
    files: Directory = {str(index): _partition(state) for index, state in topic.partitions.items()}
    return {**files, "name": topic.name, "id": str(topic.id)}


def _partition(state: PartitionState) -> str:
    return (
        f"PartitionRegistration(replicas={_list(state.replicas)}, directories={_list(state.directories)}, "
        f"isr={_list(state.isr)}, removingReplicas={_list(state.removing)}, "
        f"addingReplicas={_list(state.adding)}, elr={_list(state.elr)}, "
        f"lastKnownElr={_list(state.last_known_elr)}, leader={state.leader}, "
        f"leaderRecoveryState={'RECOVERING' if state.recovering else 'RECOVERED'}, "
        f"leaderEpoch={state.leader_epoch}, partitionEpoch={state.partition_epoch})"
    )


def _config_resource(type_: int, name: str) -> str:
    kind = _CONFIG_RESOURCES.get(type_, "UNKNOWN")
    return f"{kind}:{name}" if name else kind


def _quota_entity(entity: QuotaEntity) -> str:
    """`_quota_entity({("user", "bob"), ("client-id", "c1")})` -> "clientId(c1)_user(bob)"."""
    names = dict(entity)
    return "_".join(
        f"{word}({_DEFAULT_ENTITY if (name := names[type_]) is None else _escaped(name)})"
        for type_, word in _QUOTA_TYPES.items()
        if type_ in names
    )


def _escaped(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\()" else letter for letter in name)


def _acl(acl: Acl) -> str:
    return (
        f"StandardAcl[resourceType={_word(_ACL_RESOURCES, acl.resource)}, "
        f"resourceName={acl.name}, patternType={_word(_ACL_PATTERNS, acl.pattern)}, "
        f"principal={acl.principal}, host={acl.host}, "
        f"operation={_word(_ACL_OPERATIONS, acl.operation)}, "
        f"permissionType={_word(_ACL_PERMISSIONS, acl.permission)}]"
    )


def _scram(image: MetadataImage) -> Directory:
    users: dict[str, Directory] = {mechanism: {} for mechanism in _SCRAM.values()}
    for (user, mechanism), record in image.scram.items():
        users.setdefault(_SCRAM.get(mechanism, f"mechanism {mechanism}"), {})[user] = (
            f"ScramCredentialData(salt={record.salt.hex()}, storedKey={record.stored_key.hex()}, "
            f"serverKey={record.server_key.hex()}, iterations={record.iterations})"
        )
    return dict(users)


def _token(record: DelegationTokenRecord) -> str:
    """Kafka's own text, brackets as they are there."""
    return (
        f"DelegationTokenDatatokenId={record.token_id}(owner={record.owner}"
        f"(tokenRequester={record.requester}(renewers={' '.join(record.renewers)}, "
        f"issueTimestamp={record.issue_timestamp}, maxTimestamp={record.max_timestamp}), "
        f"expiryTimestamp={record.expiration_timestamp}"
    )


def _endpoints(endpoints: Iterable[BrokerEndpoint]) -> str:
    return _list(
        f"Endpoint(listenerName='{e.listener}', securityProtocol={_word(_PROTOCOLS, e.security_protocol)}, "
        f"host='{e.host}', port={e.port})"
        for e in sorted(endpoints, key=lambda endpoint: endpoint.listener)
    )


def _ranges(features: Mapping[str, tuple[int, int]]) -> str:
    return "{" + ", ".join(f"{name}: {low}-{high}" for name, (low, high) in sorted(features.items())) + "}"


def _list(values: Iterable[object]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else "UNKNOWN"


def _signed_halves(id_: Uuid) -> tuple[int, int]:
    """How Java orders uuids: as two signed numbers."""
    return int.from_bytes(id_[:8], "big", signed=True), int.from_bytes(id_[8:], "big", signed=True)


def _double(value: float) -> str:
    """`_double(1e7)` -> "1.0E7": a double as Java writes it."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
    if value == 0 or _PLAIN_DOUBLES[0] <= abs(value) < _PLAIN_DOUBLES[1]:
        return format(Decimal(repr(value)), "f")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{exponent + len(digits) - 1}"


def _time(timestamp_ms: int) -> str:
    """`_time(1763647132920)` -> "2025-11-20T13:58:52.92Z[UTC]": as short as Java's ISO format is."""
    seconds, millis = divmod(timestamp_ms, 1000)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError):
        return f"{timestamp_ms} ms"  # (no calendar of Python's reaches so far)
    return f"{text}{f'.{millis:03}'.rstrip('0') if millis else ''}Z[UTC]"
