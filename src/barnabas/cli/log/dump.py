"""Log files as text, line by line what Apache Kafka's DumpLogSegments prints of them.

Operators know these lines and scripts read them, so ours are the same to the letter; the fixtures of the
tests were printed by Kafka's tool.  Works on our files and on Kafka's.  A file is read batch by batch.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from barnabas.cli.exits import MissingFileError
from barnabas.cli.kafka_json import as_json, to_text, type_name
from barnabas.cli.log import dump_small
from barnabas.cli.log.file_batches import FileBatch, file_batches
from barnabas.errors import BarnabasError, CorruptRecordError, StorageError
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.control import ControlType, control_type, read_control
from barnabas.wire.records import BatchHeader, Record, check_crc, read_records
from barnabas.wire.schemas.control_records import EndTxnMarker

__all__ = ["Decoder", "Dumper", "decode_coordinator", "decode_metadata", "decode_plain"]

_A_FILE = "give the path of a file of a log directory"
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_CONTROL_NAMES = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""What is printed for a record's key and payload; None: nothing."""


def decode_plain(record: Record) -> tuple[str | None, str | None]:
    """Key and payload as UTF-8 text."""
    return _text(record.key), _text(record.value)


def decode_metadata(record: Record) -> tuple[str | None, str | None]:
    """A record of `__cluster_metadata` as JSON; raises WireError for what is none."""
    from barnabas.wire.metadata import read_record_version

    message, version = read_record_version(record.value or b"")
    content = {"type": type_name(message.NAME), "version": version, "data": as_json(message, version)}
    return None, to_text(content)


def decode_coordinator(topic: str) -> Decoder:
    """`decode_coordinator("__consumer_offsets")`: a decoder for a coordinator's topic."""
    from barnabas.wire.coordinator import read_key

    def decoded(record: Record) -> tuple[str | None, str | None]:
        key = record.key or b""
        kind = str(int.from_bytes(key[:2], "big", signed=True))
        message = read_key(key, topic)
        if message is None:
            return to_text({"type": kind, "data": "unknown"}), ""
        key_text = to_text({"type": kind, "data": as_json(message, 0)})
        if record.value is None:
            return key_text, "<DELETE>"
        return key_text, _coordinator_value(type(message).__name__, type(message).__module__, record.value)

    return decoded


def _coordinator_value(key_name: str, module: str, value: bytes) -> str:
    from barnabas.wire.coordinator import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
        read_value,
    )

    version = int.from_bytes(value[:2], "big", signed=True)
    cls = sys.modules[module].__dict__.get(key_name.removesuffix("Key") + "Value")
    if cls is None:
        return to_text({"version": str(version), "data": "unknown"})
    message = read_value(cls, value)
    content = as_json(message, version)
    if key_name == "GroupMetadataKey" and message.protocol_type == "consumer":
        for member in content["members"]:
            member["subscription"] = _inner(ConsumerProtocolSubscription, member["subscription"])
            member["assignment"] = _inner(ConsumerProtocolAssignment, member["assignment"])
    return to_text({"version": str(version), "data": content})


def _inner(cls: type[Message], encoded: str) -> Any:
    """What a member of a consumer group said, which the coordinator keeps as bytes."""
    raw = base64.b64decode(encoded)
    if len(raw) < 2:
        return encoded
    version = min(int.from_bytes(raw[:2], "big"), cls.VERSIONS[1])
    return as_json(decode(cls, raw, version, 2)[0], version)


class Dumper:
    """`Dumper(sys.stdout, sys.stderr).dump("00000000000000000000.log")`.

    records: print each record, not only the batches.  decode: print keys and payloads through it.
    skip_metadata: leave out offsets and sizes of records.  max_bytes: read so much of each log file.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        records: bool = False,
        decode: Decoder | None = None,
        skip_metadata: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        self._out = out
        self._err = err
        self._records = records or decode is not None
        self._decode = decode
        self._skip_metadata = skip_metadata
        self._max_bytes = max_bytes
        self._last_offset = -1
        self._gaps: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        return f"<Dumper records={self._records} decode={self._decode}>"

    def dump(self, path: str) -> None:
        """Print one file, by the kind its name says.  Raises StorageError when it cannot be read."""
        kinds: dict[str, Callable[[str], None]] = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": lambda p: dump_small.offset_index(p, self._out, self._err),
            ".timeindex": lambda p: dump_small.time_index(p, self._out, self._err),
            ".txnindex": lambda p: dump_small.transaction_index(p, self._out),
            ".snapshot": lambda p: dump_small.producer_snapshot(p, self._out),
        }
        if not os.path.exists(path):
            raise MissingFileError(f"there is no file {path}", next_step=_A_FILE)
        self._say(f"Dumping {path}")
        kind = kinds.get(os.path.splitext(path)[1])
        if kind is None:
            print(f"Ignoring unknown file {path}", file=self._err)
            return
        try:
            kind(path)
        except FileNotFoundError as error:
            raise MissingFileError(f"there is no file {error.filename}", next_step=_A_FILE) from error
        except BrokenPipeError:
            raise  # `| head` has read enough: nothing is wrong with the file
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error

    # -- a log -----------------------------------------------------------------------------------

    def _log(self, path: str) -> None:
        name = os.path.basename(path)
        with open(path, "rb") as file:
            self._say(_beginning(name))
            self._last_offset = -1
            self._gaps = []
            end = 0
            for batch in file_batches(file, self._max_bytes):
                self._batch(batch)
                end = batch.position + batch.header.size
            size = os.fstat(file.fileno()).st_size
        if self._max_bytes is None and end < size:
            self._say(f"Found {size - end} invalid bytes at the end of {name}")
        if self._gaps:
            print(f"Non-consecutive offsets in {os.path.abspath(path)}", file=self._err)
            for before, after in self._gaps:
                print(f"  {before} is followed by {after}", file=self._err)

    def _batch(self, batch: FileBatch) -> None:
        header = batch.header
        horizon = header.delete_horizon
        self._say(
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.leader_epoch} "
            f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
            f"position: {batch.position} {_time_name(header)}: {header.max_timestamp} size: {header.size} "
            f"magic: {header.magic} compresscodec: {CODECS.get(header.codec, header.codec)} "
            f"crc: {header.crc} isvalid: {_bool(check_crc(batch.raw, 0, header))}"
        )
        if self._records:
            try:
                for record in read_records(batch.raw, 0, header):
                    self._record(header, record)
            except CorruptRecordError as error:  # a producer may send such; what stands after it is good
                self._say(f"records cannot be read: {error.message}")

    def _record(self, header: BatchHeader, record: Record) -> None:
        if 0 <= self._last_offset != record.offset - 1:
            self._gaps.append((self._last_offset, record.offset))
        self._last_offset = record.offset
        parts: list[str] = []
        if not self._skip_metadata:
            delta = record.offset - header.base_offset  # compaction leaves gaps
            sequence = -1 if header.base_sequence < 0 else (header.base_sequence + delta) & 0x7FFFFFFF
            parts.append(
                f"offset: {record.offset} {_time_name(header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} "
                f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
            )
        if header.is_control:
            parts.append(_control(record))
        elif self._decode is not None:
            try:
                key, payload = self._decode(record)
            except BarnabasError as error:
                self._say(f"| Error at {record.offset}, skipping. {error}")
                return
            if key is not None:
                parts.append(f"key: {key}")
            if payload is not None:
                parts.append(f"payload: {payload}")
        self._say(f"| {' '.join(parts)}")

    def _say(self, line: str) -> None:
        self._out.write(line + "\n")


def _control(record: Record) -> str:
    kind = control_type(record.key)
    if kind is None:
        return f"controlType: UNKNOWN({int.from_bytes((record.key or b'')[2:4], 'big', signed=True)})"
    message = read_control(record)[1]
    if isinstance(message, EndTxnMarker):
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {message.coordinator_epoch}"
    assert message is not None
    content = as_json(message, int(getattr(message, "version", 0)))
    return f"{_CONTROL_NAMES[kind]} {to_text(content)}"


def _beginning(name: str) -> str:
    """The line that says what a log file is, by its name."""
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    stem = name.split(".")[0]
    offset, _, epoch = stem.partition("-")
    if name.endswith(".checkpoint") and offset.isdecimal() and epoch.isdecimal():
        return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
    if not stem.isdecimal():
        raise StorageError(
            f"{name} has not the name of a log segment",
            next_step="segments are called by their first offset, for example 00000000000000000000.log",
        )
    return f"Log starting offset: {int(stem)}"


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.timestamp_type else "CreateTime"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")
