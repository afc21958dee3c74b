"""What the quorum's entries are as records of the metadata log, both ways; the only place that knows.

The core of the quorum (raft/) deals in entries: who leads, who votes, which protocol, a note, and opaque
ones.  The metadata log holds Kafka's record batches: control batches for the first three, metadata records
for the rest.  A note is a setting of all brokers whose name begins with `barnabas.quorum.`, so that
Kafka's own tools can read a log that has some.

A snapshot file (`.checkpoint`) is record batches too: a control batch with its header (and, where voters
change at run time, kraft.version and the voters), the metadata records of an image, a control batch with
its footer.  Offsets count from 0 in the file and all batches carry the snapshot's epoch (KIP-630).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from barnabas.controller.feature_levels import KRAFT_VERSION, NEWER_RELEASE, require_known
from barnabas.controller.image import RESOURCE_BROKER
from barnabas.controller.versions import LATEST, record_version
from barnabas.errors import CorruptRecordError, NewerReleaseError, UnknownMessageError
from barnabas.log.files.snapshot import SnapshotId
from barnabas.log.results import finished
from barnabas.model import METADATA_PARTITION, Endpoint, Epoch, Offset, ReplicaKey
from barnabas.ports import Buffer, Disk
from barnabas.raft.entries import (
    Batch,
    Entry,
    KraftVersionEntry,
    LeaderChange,
    Note,
    Opaque,
    VotersEntry,
)
from barnabas.raft.voters import VersionRange, Voter, VoterSet
from barnabas.wire import control
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.control import ControlType
from barnabas.wire.metadata import ConfigRecord, FeatureLevelRecord, read_record, write_record
from barnabas.wire.records import (
    BatchHeader,
    Record,
    append_value,
    batches,
    check_crc,
    read_records,
    seal_batch,
    write_batch,
)
from barnabas.wire.schemas import control_records

__all__ = [
    "BOOTSTRAP",
    "NOTE_PREFIX",
    "Encoded",
    "SnapshotContent",
    "bootstrap_records",
    "decode_batch",
    "decode_in_steps",
    "encode_batch",
    "encoded",
    "metadata_of",
    "of_another",
    "read_snapshot",
    "snapshot_batches",
]

BOOTSTRAP = "bootstrap.checkpoint"
"""File of a formatted directory: the records that the first active controller begins with."""
NOTE_PREFIX = "barnabas.quorum."
_CONTROL_VERSION = 0
_LARGEST_BATCH = 8 << 20
"""A batch of a snapshot is closed at this size (Kafka's own limit for metadata batches)."""
_MOST_DECOMPRESSED = 100 << 20


# Batches of the log.


class Encoded(tuple[MetadataRecord, ...]):
    """Records that have their bytes already, as the records of one batch, at a level of metadata.version."""

    body: bytearray
    level: int


def encoded(records: Iterable[MetadataRecord], level: int) -> Generator[None, None, Encoded]:
    """Encode records of one batch before it is known where the batch begins, a record at a time."""
    payload = Encoded(records)
    payload.body, payload.level = bytearray(), level
    for delta, record in enumerate(payload):
        append_value(payload.body, delta, write_record(record, record_version(record, level)))
        yield
    return payload


def encode_batch(batch: Batch, *, timestamp_ms: int, metadata_version: int = LATEST) -> bytearray:
    """The bytes of a batch made here.  Control entries and others never share a batch."""
    ready = batch.entries[0].payload if isinstance(batch.entries[0], Opaque) else None
    if isinstance(ready, Encoded) and len(batch.entries) == 1 and ready.level == metadata_version:
        return seal_batch(
            ready.body,
            len(ready),
            base_offset=batch.base_offset,
            leader_epoch=batch.epoch,
            timestamp=timestamp_ms,
        )
    kinds = {isinstance(entry, _CONTROL) for entry in batch.entries}
    if len(kinds) != 1:
        raise ValueError(f"a batch holds control entries or records, not both: {batch}")
    is_control = kinds.pop()
    records: list[Record] = []
    offset = batch.base_offset
    for entry in batch.entries:
        for key, value in _pairs(entry, metadata_version):
            records.append(Record(offset, timestamp_ms, key, value, ()))
            offset += 1
    return write_batch(records, leader_epoch=batch.epoch, control=is_control)


_CONTROL = (LeaderChange, VotersEntry, KraftVersionEntry)


def _pairs(entry: Entry, metadata_version: int) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and value of each record that an entry stands for."""
    if isinstance(entry, LeaderChange):
        yield control.write_control(ControlType.LEADER_CHANGE, _leader_change(entry), _CONTROL_VERSION)
    elif isinstance(entry, KraftVersionEntry):
        message: Message = control_records.KRaftVersionRecord(k_raft_version=entry.version)
        yield control.write_control(ControlType.KRAFT_VERSION, message, _CONTROL_VERSION)
    elif isinstance(entry, VotersEntry):
        yield control.write_control(ControlType.KRAFT_VOTERS, _voters_record(entry.voters), _CONTROL_VERSION)
    elif isinstance(entry, Note):
        if not entry.key.startswith(NOTE_PREFIX):
            raise ValueError(f"the key of a note begins with {NOTE_PREFIX}: {entry}")
        record = ConfigRecord(
            resource_type=RESOURCE_BROKER,
            resource_name="",
            name=entry.key,
            value=entry.value,
        )
        yield None, write_record(record, record_version(record, metadata_version))
    else:
        for made in _payload(entry):
            yield None, write_record(made, record_version(made, metadata_version))


def _payload(entry: Opaque) -> Sequence[MetadataRecord]:
    records = entry.payload
    assert isinstance(records, tuple | list), f"{entry} carries no records"
    return records


def decode_batch(buffer: Buffer, position: int, header: BatchHeader) -> Batch:
    """The entries of a batch of the metadata log, all at once; see `decode_in_steps`."""
    return finished(decode_in_steps(buffer, position, header))


def decode_in_steps(buffer: Buffer, position: int, header: BatchHeader) -> Generator[None, None, Batch]:
    """The entries of a batch of the metadata log; its CRC has been checked.

    Raises CorruptRecordError or WireError; NewerReleaseError for records and levels that we do not know: a
    metadata log is never read with holes.  A step is a record.
    """
    end = position + header.size
    records = read_records(buffer, position, header, _MOST_DECOMPRESSED)
    if header.is_control:
        entries = tuple(_control_entry(record) for record in records)
    else:
        entries = tuple((yield from _data_entries(records)))
    return Batch(header.base_offset, header.leader_epoch, entries, raw=memoryview(buffer)[position:end])


def metadata_of(batch: Batch) -> list[MetadataRecord]:
    """The metadata records in a batch, in order (notes among them); [] for a control batch."""
    found: list[MetadataRecord] = []
    for entry in batch.entries:
        if isinstance(entry, Opaque):
            found += _payload(entry)
        elif isinstance(entry, Note):
            found.append(
                ConfigRecord(
                    resource_type=RESOURCE_BROKER,
                    resource_name="",
                    name=entry.key,
                    value=entry.value,
                )
            )
    return found


def _control_entry(record: Record) -> Entry:
    type_, message = control.read_control(record)
    if isinstance(message, control_records.LeaderChangeMessage):
        return LeaderChange(
            message.leader_id,
            tuple(voter.voter_id for voter in message.voters),
            tuple(voter.voter_id for voter in message.granting_voters),
        )
    if isinstance(message, control_records.KRaftVersionRecord):
        require_known({KRAFT_VERSION: message.k_raft_version})
        return KraftVersionEntry(message.k_raft_version)
    if isinstance(message, control_records.VotersRecord):
        return VotersEntry(_voter_set(message))
    if type_ is None:
        raise _newer(f"offset {record.offset} holds a control record of an unknown type")
    raise CorruptRecordError(
        f"offset {record.offset} of the metadata log holds a control record {type_.name}"
    )


def _data_entries(records: Iterable[Record]) -> Generator[None, None, list[Entry]]:
    entries: list[Entry] = []
    run: list[MetadataRecord] = []
    size = 0
    for record in records:
        message = _known_record(record)
        if isinstance(message, ConfigRecord) and _is_note(message):
            if run:
                entries.append(Opaque(tuple(run), len(run), size))
                run, size = [], 0
            entries.append(Note(message.name, message.value))
        else:
            run.append(message)
            size += len(record.value or b"")
        yield
    if run:
        entries.append(Opaque(tuple(run), len(run), size))
    return entries


def _known_record(record: Record) -> MetadataRecord:
    """Read a record of the metadata log or of a snapshot of it.

    Raises WireError; NewerReleaseError for what only a newer release knows, a feature's level among it.
    """
    try:
        message: MetadataRecord = read_record(record.value or b"")
    except UnknownMessageError as error:
        raise _newer(error.message) from error
    if isinstance(message, FeatureLevelRecord):
        require_known({message.name: message.feature_level})
    return message


def _newer(why: str) -> NewerReleaseError:
    return NewerReleaseError(f"a newer release wrote this cluster's metadata: {why}", next_step=NEWER_RELEASE)


def _is_note(record: ConfigRecord) -> bool:
    return (
        record.resource_type == RESOURCE_BROKER
        and not record.resource_name
        and record.name.startswith(NOTE_PREFIX)
    )


def _leader_change(entry: LeaderChange) -> control_records.LeaderChangeMessage:
    voter = control_records.LeaderChangeMessageVoter
    return control_records.LeaderChangeMessage(
        version=_CONTROL_VERSION,
        leader_id=entry.leader_id,
        voters=[voter(voter_id=id_) for id_ in entry.voters],
        granting_voters=[voter(voter_id=id_) for id_ in entry.granting],
    )


def _voters_record(voters: VoterSet) -> control_records.VotersRecord:
    return control_records.VotersRecord(
        version=_CONTROL_VERSION,
        voters=[
            control_records.VotersRecordVoter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    control_records.Endpoint(name=e.listener, host=e.host, port=e.port)
                    for e in voter.endpoints
                ],
                k_raft_version_feature=control_records.KRaftVersionFeature(
                    min_supported_version=voter.versions.min, max_supported_version=voter.versions.max
                ),
            )
            for voter in voters
        ],
    )


def _voter_set(record: control_records.VotersRecord) -> VoterSet:
    try:
        return VoterSet.of(
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints),
                VersionRange(
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )
    except ValueError as error:
        raise CorruptRecordError(f"the metadata log holds a set of voters that is none: {error}") from error


# Snapshots.


class SnapshotContent(NamedTuple):
    """A snapshot file, read: the quorum's own entries, the metadata records, the log's last timestamp."""

    entries: tuple[Entry, ...]
    records: list[MetadataRecord]
    last_contained_ms: int


def snapshot_batches(
    records: Iterable[MetadataRecord],
    *,
    epoch: Epoch,
    stamp: Callable[[], int],
    last_contained_ms: int,
    voters: VoterSet | None = None,
    kraft_version: int = 0,
    metadata_version: int = LATEST,
    end_offset: Offset = -1,
) -> Iterator[bytearray]:
    """The batches of a snapshot file, one after the other.

    Its header names the `end_offset`, in a field that Apache Kafka passes over: the content of another snapshot in
    its file would be whole, and wrong.  `stamp` is asked for each batch's time (wall milliseconds).  At
    kraft.version 0 the file says nothing about voters; `voters` None leaves them out too (a bootstrap file).
    """
    header = control_records.SnapshotHeaderRecord(
        last_contained_log_timestamp=last_contained_ms, end_offset=end_offset
    )
    head: list[tuple[bytes | None, bytes]] = [
        control.write_control(ControlType.SNAPSHOT_HEADER, header, _CONTROL_VERSION)
    ]
    if kraft_version > 0 and voters is not None:
        head += _pairs(KraftVersionEntry(kraft_version), metadata_version)
        head += _pairs(VotersEntry(voters), metadata_version)
    offset: Offset = 0
    now = stamp()
    yield write_batch(
        [Record(at, now, key, value, ()) for at, (key, value) in enumerate(head)],
        leader_epoch=epoch,
        control=True,
    )
    offset += len(head)
    for values in _batched(records, metadata_version):
        now = stamp()
        yield write_batch(
            [Record(offset + at, now, None, value, ()) for at, value in enumerate(values)],
            leader_epoch=epoch,
        )
        offset += len(values)
    key, value = control.write_control(
        ControlType.SNAPSHOT_FOOTER, control_records.SnapshotFooterRecord(), _CONTROL_VERSION
    )
    yield write_batch([Record(offset, stamp(), key, value, ())], leader_epoch=epoch, control=True)


def _batched(records: Iterable[MetadataRecord], metadata_version: int) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    size = 0
    for record in records:
        value = write_record(record, record_version(record, metadata_version))
        if values and size + len(value) > _LARGEST_BATCH:
            yield values
            values, size = [], 0
        values.append(value)
        size += len(value) + 32
    if values:
        yield values


def read_snapshot(buffer: Buffer, end_offset: Offset = -1) -> SnapshotContent:
    """Read a snapshot file whole.

    Raises CorruptRecordError when its CRC, header or footer is wrong, or it is another one than that of
    `end_offset`; NewerReleaseError as `decode_in_steps`.
    """
    entries: list[Entry] = []
    found: list[MetadataRecord] = []
    last_contained_ms: int | None = None
    complete = False
    end = 0
    for position, header in batches(buffer):
        if not check_crc(buffer, position, header):
            raise CorruptRecordError(f"a snapshot's batch at position {position} has a wrong CRC")
        end = position + header.size
        records = read_records(buffer, position, header, _MOST_DECOMPRESSED)
        if not header.is_control:
            for known in map(_known_record, records):
                found.append(known)
                if isinstance(known, ConfigRecord) and _is_note(known):
                    entries.append(Note(known.name, known.value))
            continue
        for record in records:
            type_, message = control.read_control(record)
            if isinstance(message, control_records.SnapshotHeaderRecord):
                last_contained_ms = message.last_contained_log_timestamp
                if end_offset >= 0 and (wrong := of_another(message.end_offset, end_offset)):
                    raise CorruptRecordError(wrong)
            elif type_ is ControlType.SNAPSHOT_FOOTER:
                complete = True
            else:
                entries.append(_control_entry(record))
    if last_contained_ms is None or not complete or end != len(buffer):
        raise CorruptRecordError("a snapshot is incomplete: its header or footer is missing")
    if end_offset > 0 and not found:
        raise CorruptRecordError("it has the content of the first snapshot, which has no records")
    return SnapshotContent(tuple(entries), found, last_contained_ms)


def of_another(named: Offset, end_offset: Offset) -> str:
    """Say which snapshot this is, if its header names another end offset than its file; -1 there names none."""
    return "" if named in (-1, end_offset) else f"it has the content of the snapshot at {named}"


def named_end(buffer: Buffer, first: BatchHeader) -> Offset:
    """Return the end offset that the first batch of a snapshot names; -1: it names none."""
    for record in read_records(buffer, 0, first, _MOST_DECOMPRESSED):
        _, message = control.read_control(record)
        if isinstance(message, control_records.SnapshotHeaderRecord):
            return message.end_offset
    return -1


def bootstrap_records(disk: Disk, directory: str) -> list[MetadataRecord]:
    """Return what formatting left in a directory for the first active controller.

    It stands in a file of its own, since Apache Kafka 4.4 among the first voters.
    """
    for path in (
        f"{directory}/{BOOTSTRAP}",
        f"{directory}/{METADATA_PARTITION}/{SnapshotId(0, 0).file_name}",
    ):
        if disk.exists(path) and (records := read_snapshot(disk.read(path)).records):
            return records
    return []
