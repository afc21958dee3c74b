"""Files that Apache Kafka wrote: every batch checks, every record reads, and we write the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.wire.samples import MESSAGES, filled, kafkas_bytes

from barnabas.errors import CorruptRecordError
from barnabas.log.producers.snapshot import decode_producers, encode_producers
from barnabas.wire.codec.declaration import OWN_TAG
from barnabas.wire.codec.message import Struct, decode, encode
from barnabas.wire.control import ControlType, EndTxnMarker, read_control, write_control
from barnabas.wire.metadata import read_record_version, write_record
from barnabas.wire.records import BatchHeader, Record, batches, check_crc, read_records, write_batch

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1"
LOGS = sorted([*FIXTURES.rglob("*.log"), *FIXTURES.rglob("*.checkpoint")])
METADATA = sorted([*FIXTURES.glob("metadata/*.log"), *FIXTURES.glob("metadata/*.checkpoint")])
SNAPSHOTS = sorted(FIXTURES.rglob("*.snapshot"))
DUMPS = {
    "add-remove.txt": "add-remove.log",
    "snapshot-58.txt": "00000000000000000058-0000000001.checkpoint",
}


def named(paths: list[Path]) -> dict[str, Any]:
    return {"argvalues": paths, "ids": [str(path.relative_to(FIXTURES)) for path in paths]}


def batches_of(path: Path) -> list[tuple[bytes, BatchHeader, list[Record]]]:
    data = path.read_bytes()
    return [(data[p : p + h.size], h, read_records(data, p, h)) for p, h in batches(data)]


def test_the_fixtures_are_there() -> None:
    assert len(LOGS) >= 15
    assert len(METADATA) >= 5


@pytest.mark.parametrize("path", **named(LOGS))
def test_every_batch_is_whole_and_its_crc_is_right(path: Path) -> None:
    data = path.read_bytes()
    end = 0
    for position, header in batches(data):
        assert position == end
        assert check_crc(data, position, header)
        records = read_records(data, position, header)
        assert len(records) == header.count
        assert records[0].offset >= header.base_offset
        assert records[-1].offset == header.last_offset
        end = position + header.size
    assert end == len(data)


@pytest.mark.parametrize("path", **named(LOGS))
def test_a_batch_without_compression_is_written_to_the_same_bytes(path: Path) -> None:
    written = 0
    for data, header, records in batches_of(path):
        if header.codec:
            continue
        written += 1
        assert data == write_batch(
            records,
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
        )
    assert written or "plain-0" in str(path)


@pytest.mark.parametrize("path", **named(METADATA))
def test_every_metadata_and_control_record_is_written_to_the_same_bytes(path: Path) -> None:
    for _, header, records in batches_of(path):
        for record in records:
            if header.is_control:
                type_, control = read_control(record)
                assert type_ is not None
                assert control is not None
                assert write_control(type_, control) == (record.key, record.value)
            else:
                message, version = read_record_version(record.value or b"")
                assert write_record(message, version) == record.value


def test_transaction_markers_read_and_are_written_to_the_same_bytes() -> None:
    seen = []
    for path in sorted((FIXTURES / "data" / "txn-0").glob("*.log")):
        for _, header, records in batches_of(path):
            if header.is_control:
                type_, marker = read_control(records[0])
                assert isinstance(marker, EndTxnMarker)
                assert type_ is not None
                assert write_control(type_, marker) == (records[0].key, records[0].value)
                seen.append(type_)
    assert seen.count(ControlType.ABORT) == 2
    assert seen.count(ControlType.COMMIT) == 6


@pytest.mark.parametrize("path", **named(SNAPSHOTS))
def test_producer_snapshots_are_written_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    assert encode_producers(decode_producers(data)) == data
    broken = bytearray(data)
    broken[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        decode_producers(bytes(broken))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def says(value: Any, printed: Any) -> bool:
    """Whether a value of ours is what Kafka printed as JSON."""
    if isinstance(printed, dict):
        assert isinstance(value, Struct)
        known = {snake(key): each for key, each in printed.items()}
        return all(
            says(getattr(value, field.name), known[field.name])
            if field.name in known
            else field.is_default(getattr(value, field.name))
            for field in type(value).FIELDS
        ) and set(known) <= {field.name for field in type(value).FIELDS}
    if isinstance(printed, list):
        return len(value) == len(printed) and all(map(says, value, printed))
    if isinstance(printed, str):
        return str(value) == printed
    return bool(value == printed)


@pytest.mark.parametrize(("dump", "file"), DUMPS.items())
def test_records_say_what_kafkas_own_dump_prints(dump: str, file: str) -> None:
    lines = (FIXTURES / "dumps" / dump).read_text().splitlines()
    printed = [line for line in lines if line.startswith("| offset:")]
    records = [
        (header, r) for _, header, records in batches_of(FIXTURES / "metadata" / file) for r in records
    ]
    assert len(printed) >= len(records)  # the log went on while it was dumped
    for line, (header, record) in zip(printed[: len(records)], records, strict=True):
        assert line.startswith(f"| offset: {record.offset} CreateTime: {record.timestamp} ")
        body = json.loads(line[line.index("{") :])
        if header.is_control:
            _, message = read_control(record)
        else:
            message, version = read_record_version(record.value or b"")
            assert version == body["version"]
            assert body["type"] == snake(message.NAME).upper()
            body = body["data"]
        assert says(message, body), line


def test_messages_are_the_bytes_that_kafkas_own_classes_wrote() -> None:
    classes = {cls.__name__: cls for cls in MESSAGES}
    written = kafkas_bytes()
    assert len(written) > 300
    for (name, version, which), expected in written.items():
        cls = classes[name]
        message = cls() if which == "blank" else filled(cls, version, null=which == "null")
        for field in cls.FIELDS:
            if field.tag is not None and field.tag >= OWN_TAG:
                setattr(message, field.name, field.default)
        assert encode(message, version) == expected, (name, version, which)
        assert decode(cls, expected, version) == (message, len(expected)), (name, version, which)
