"""Requests, good and malformed, whose answers we know from a real Apache Kafka 4.3.1.

`apache_answers.json` holds what it answered.  To record it again, with a broker of Kafka's at HOST:PORT:

    python -m tests.broker.apache_cases HOST:PORT > tests/broker/apache_answers.json

Cases run in order on fresh topics; what one writes, later ones read.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.broker.harness import batch
from tests.broker.hostile_batches import with_crc

from barnabas.errors import ErrorCode
from barnabas.model import ZERO_UUID, Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, batches, restamp, write_batch
from barnabas.wire.records import read_batch_header as header_of
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPICS: dict[str, dict[str, str]] = {
    "produced": {},
    "numbered": {},
    "read": {},
    "large": {},
    "empty": {},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "200"},
    "young": {"message.timestamp.before.max.ms": "1000000"},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "unpacked": {"compression.type": "uncompressed", "max.message.bytes": "500"},
    "segment": {"segment.bytes": "1048576", "max.message.bytes": "4000000"},
    "replicas": {"min.insync.replicas": "2"},
}
INTERNAL = "__share_group_state"
UNKNOWN_ID = Uuid(b"\x11" * 16)


class Case(NamedTuple):
    label: str
    version: int
    build: Callable[[dict[str, Uuid]], Message]
    read: Callable[[Any, int], Any]


def tampered(buf: bytearray, fmt: str, position: int, value: int, *, right: bool = True) -> bytearray:
    """A copy with this value at this position."""
    buf = bytearray(buf)
    struct.pack_into(fmt, buf, position, value)
    return with_crc(buf) if right else buf


def cases(now: int) -> list[Case]:
    """All cases, with timestamps around `now` (ms)."""
    return [*_shapes(now), *_contents(now), *_records(now), *_sequences(now), *_readers(now)]


def _produce(
    label: str,
    records: bytes | bytearray | None,
    topic: str = "produced",
    *,
    version: int = 12,
    acks: int = -1,
    index: int = 0,
    offsets: bool = False,
) -> Case:
    def build(ids: dict[str, Uuid]) -> Message:
        data = PartitionProduceData(index=index, records=None if records is None else bytes(records))
        name = TopicProduceData(name=topic, topic_id=ids.get(topic, UNKNOWN_ID), partition_data=[data])
        return ProduceRequest(acks=acks, timeout_ms=3000, topic_data=[name])

    def read(response: Any, _: int) -> Any:
        data = response.responses[0].partition_responses[0]
        answer = {
            "error": ErrorCode(data.error_code).name,
            "records": [error.batch_index for error in data.record_errors],
            "append time": data.log_append_time_ms >= 0,
        }
        return {**answer, "offset": data.base_offset} if offsets else answer

    return Case(f"produce: {label}", version, build, read)


def _shapes(now: int) -> Iterator[Case]:
    def one(*values: str, **more: Any) -> bytearray:
        return batch(*(values or ("a", "b")), at=now, **more)

    yield _produce("a batch", one())
    yield _produce("a batch, version 3", one(), version=3)
    yield _produce("nothing", b"")
    yield _produce("60 zero bytes", bytes(60))
    yield _produce("two batches", one() + one())
    yield _produce("one byte short", one()[:-1])
    yield _produce("half a header", one()[:30])
    yield _produce("length 20", tampered(one(), ">i", 8, 20, right=False))
    yield _produce("length -1", tampered(one(), ">i", 8, -1, right=False))
    for magic in (0, 1, 3, 127):
        yield _produce(f"magic {magic}", tampered(one(), ">b", 16, magic, right=False))
    yield _produce("zstd, version 6", one("a" * 100, codec=Codec.ZSTD), version=6)
    yield _produce("zstd, version 7", one("a" * 100, codec=Codec.ZSTD), version=7)
    for acks in (2, -2):
        yield _produce(f"acks {acks}", one(), acks=acks)
    yield _produce("acks 7 and nothing", b"", acks=7)
    yield _produce("internal topic", one(), INTERNAL)
    yield _produce("internal topic, acks 5", one(), INTERNAL, acks=5)
    yield _produce("unknown topic", one(), "nowhere")
    yield _produce("unknown partition", one(), index=5)
    yield _produce("unknown partition and nothing", b"", index=5)
    yield _produce("unknown topic id", one(), "nowhere", version=13)


def _contents(now: int) -> Iterator[Case]:
    def one(*values: str, **more: Any) -> bytearray:
        return batch(*(values or ("a", "b")), at=now, **more)

    for offset in (5, -1):
        yield _produce(f"base offset {offset}", tampered(one(), ">q", 0, offset, right=False))
    yield _produce("too large", one("x" * 300), "small")
    flipped = tampered(one("abc"), ">B", 65, 7, right=False)
    yield _produce("wrong CRC", flipped)
    yield _produce("wrong CRC and too large", tampered(one("x" * 300), ">B", 65, 7, right=False), "small")
    yield _produce("wrong CRC and base offset", tampered(flipped, ">q", 0, 5, right=False))
    for delta, count in ((1, 3), (0, 2), (-1, 0), (1, 0), (1, -1), (5, 2)):
        buf = tampered(one(), ">i", 23, delta)
        yield _produce(f"delta {delta}, count {count}", tampered(buf, ">i", 57, count))
    yield _produce("control batch", one(control=True))
    yield _produce("sequence -1", one(producer_id=9, producer_epoch=0, base_sequence=-1))
    yield _produce("sequence without a producer", one(base_sequence=5))
    yield _produce("producer without an epoch", one(producer_id=11, producer_epoch=-1, base_sequence=0))
    yield _produce("delete horizon bit", tampered(one("a"), ">h", 21, 0x40))
    yield _produce("unused attribute", tampered(one("a"), ">h", 21, 0x100))
    yield _produce("leader epoch 9", tampered(one("a"), ">i", 12, 9, right=False))
    yield _produce("fewer replicas than min.insync.replicas", one(), "replicas")
    yield _produce("larger than a segment", one("x" * 1_100_000), "segment")


def _records(now: int) -> Iterator[Case]:
    def appended(at: int) -> bytearray:
        buf = batch("a", at=at)
        restamp(buf, 0, header_of(buf), at)
        return buf

    later = now + 7_400_000
    keyless = write_batch([Record(0, now, b"k"), Record(1, now, None), Record(2, now, None)])
    yield _produce("keys are missing", keyless, "compacted")
    yield _produce("keys are there", write_batch([Record(0, now, b"k", b"v")]), "compacted")
    mixed = write_batch([Record(0, now, None), Record(1, later, None)])
    yield _produce("too far ahead", mixed)
    yield _produce("too far ahead, keys missing", mixed, "compacted")
    yield _produce("too old", batch("a", at=now - 2_000_000), "young")
    yield _produce("very old without a limit", batch("a", at=1))
    yield _produce("no timestamp", batch("a", at=-1), "young")
    yield _produce("claims append time", appended(now), "appended")
    yield _produce("claims append time, create time topic", appended(now))
    yield _produce("claims append time -1", appended(-1))
    yield _produce("append time", batch("a", at=now), "appended", offsets=True)
    yield _produce("append time, far ahead", batch("a", at=later), "appended", offsets=True)
    yield _produce("too large once unpacked", batch("a" * 5000, at=now, codec=Codec.GZIP), "unpacked")


def _sequences(now: int) -> Iterator[Case]:
    def numbered(sequence: int, *values: str, epoch: int = 0) -> bytearray:
        return batch(
            *(values or ("v",)), at=now, producer_id=77, producer_epoch=epoch, base_sequence=sequence
        )

    for label, buf in (
        ("first 5", numbered(5)),
        ("duplicate", numbered(5)),
        ("gap", numbered(7)),
        ("next", numbered(6)),
        ("older duplicate", numbered(5)),
        ("epoch 2 from 3", numbered(3, epoch=2)),
        ("epoch 2 from 0", numbered(0, epoch=2)),
        ("epoch 1 again", numbered(0, epoch=1)),
        ("epoch 2 duplicate", numbered(0, epoch=2)),
        ("duplicate of another length", numbered(0, "a", "b", epoch=2)),
        ("two at once", numbered(1, "a", "b", epoch=2)),
        ("two at once, duplicate", numbered(1, "a", "b", epoch=2)),
    ):
        yield _produce(f"sequence, {label}", buf, "numbered", offsets=True)


def _readers(now: int) -> Iterator[Case]:
    for times in ((0, 10, 20), (50, 40), (30,)):
        records = [Record(offset, now + at, None, b"v") for offset, at in enumerate(times)]
        yield _produce(f"to read, {times}", write_batch(records), "read", offsets=True)
    for number in range(2):
        yield _produce(f"to read, large {number}", batch("x" * 5000, at=now), "large", offsets=True)
    for at in (-1, -2, -3, -4, -5, -6, -7, 0, now, now + 1, now + 21, now + 35, now + 45, now + 51):
        yield _list(f"{at if at <= 0 else f'now+{at - now}'}", at, now)
    for version in range(1, 11):
        yield _list(f"latest, version {version}", -1, now, version=version)
    for at, version in ((-3, 6), (-4, 7), (-5, 8)):
        yield _list(f"{at}, version {version}", at, now, version=version)
    for at in (-1, -2, -3, 0):
        yield _list(f"{at} of nothing", at, now, topic="empty")
    yield _list("another epoch", -1, now, epoch=5)
    yield _list("unknown topic", -1, now, topic="nowhere")
    yield _list("read committed", -1, now, isolation=1)
    for epoch, current in ((-1, -1), (0, -1), (1, -1), (0, 3)):
        yield _epoch(f"{epoch}, current {current}", epoch, current)
    yield _epoch("of nothing", 0, -1, topic="empty")
    yield _epoch("unknown topic", 0, -1, topic="nowhere")
    yield from _fetches()
    for offset, topic in (
        (0, "compacted"),
        (-2, "read"),
        (99, "read"),
        (0, "nowhere"),
        (2, "read"),
        (1, "read"),
    ):
        yield _delete(f"{topic} to {offset}", offset, topic)
    yield _list("earliest after deleting", -2, now)
    yield _list("time 0 after deleting", 0, now)
    yield _fetch("below the log start", {"read": 1})
    yield _epoch("after deleting", 0, -1)
    yield _delete("all", -1, "read")
    yield _fetch("at the log start", {"read": 6})


def _fetches() -> Iterator[Case]:
    for version in (4, 5, 7, 9, 11, 12, 13, 15, 16, 17):
        yield _fetch(f"version {version}", {"read": 0}, version=version)
    for offset in (1, 6, 7, -1):
        yield _fetch(f"from {offset}", {"read": offset})
    yield _fetch("read committed", {"read": 0}, isolation=1)
    yield _fetch("unknown topic", {"nowhere": 0})
    yield _fetch("unknown topic id", {"nowhere": 0}, version=13)
    yield _fetch("another epoch", {"read": 0}, epoch=4)
    yield _fetch("limits of 1", {"large": 0}, maximum=1, partition_maximum=1)
    yield _fetch("limits of 0", {"large": 0}, maximum=0, partition_maximum=0)
    yield _fetch("two topics, limit 100", {"read": 0, "large": 0}, maximum=100)
    yield _fetch("one and a half batches", {"large": 0}, partition_maximum=7000)
    yield _fetch("same epoch", {"read": 6}, last=0)
    yield _fetch("an epoch nobody knows", {"read": 3}, last=7)


def _fetch(
    label: str,
    offsets: dict[str, int],
    *,
    version: int = 12,
    isolation: int = 0,
    epoch: int = -1,
    last: int = -1,
    maximum: int = 1 << 26,
    partition_maximum: int = 1 << 20,
) -> Case:
    def build(ids: dict[str, Uuid]) -> Message:
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=ids.get(topic, UNKNOWN_ID),
                partitions=[
                    FetchPartition(
                        partition=0,
                        fetch_offset=offset,
                        partition_max_bytes=partition_maximum,
                        current_leader_epoch=epoch,
                        last_fetched_epoch=last,
                    )
                ],
            )
            for topic, offset in offsets.items()
        ]
        return FetchRequest(max_bytes=maximum, isolation_level=isolation, topics=topics)

    def read(response: Any, _: int) -> Any:
        return [
            {
                "error": ErrorCode(data.error_code).name,
                "high watermark": data.high_watermark,
                "stable": data.last_stable_offset,
                "start": data.log_start_offset,
                "aborted": len(data.aborted_transactions or []),
                "diverging": [data.diverging_epoch.epoch, data.diverging_epoch.end_offset],
                "batches": [header.base_offset for _, header in batches(bytes(data.records or b""))],
            }
            for topic in response.responses
            for data in topic.partitions
        ]

    return Case(f"fetch: {label}", version, build, read)


def _list(
    label: str,
    at: int,
    now: int,
    *,
    topic: str = "read",
    version: int = 10,
    epoch: int = -1,
    isolation: int = 0,
) -> Case:
    def build(_: dict[str, Uuid]) -> Message:
        asked = ListOffsetsPartition(partition_index=0, timestamp=at, current_leader_epoch=epoch)
        name = ListOffsetsTopic(name=topic, partitions=[asked])
        return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[name])

    def read(response: Any, now: int) -> Any:
        one = response.topics[0].partitions[0]
        time_found = one.timestamp - now if one.timestamp > 0 else one.timestamp
        return [ErrorCode(one.error_code).name, one.offset, time_found, one.leader_epoch]

    return Case(f"list offsets: {label}", version, build, read)


def _epoch(label: str, epoch: int, current: int, *, topic: str = "read") -> Case:
    def build(_: dict[str, Uuid]) -> Message:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        name = OffsetForLeaderTopic(topic=topic, partitions=[asked])
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=[name])

    def read(response: Any, _: int) -> Any:
        one = response.topics[0].partitions[0]
        return [ErrorCode(one.error_code).name, one.leader_epoch, one.end_offset]

    return Case(f"epoch: {label}", 4, build, read)


def _delete(label: str, offset: int, topic: str) -> Case:
    def build(_: dict[str, Uuid]) -> Message:
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        return DeleteRecordsRequest(
            timeout_ms=3000, topics=[DeleteRecordsTopic(name=topic, partitions=[asked])]
        )

    def read(response: Any, _: int) -> Any:
        one = response.topics[0].partitions[0]
        return [ErrorCode(one.error_code).name, one.low_watermark]

    return Case(f"delete records: {label}", 2, build, read)


def record(address: str) -> dict[str, Any]:
    """Ask a real broker, whose topics of these names must not exist yet."""
    from barnabas.client.blocking import BlockingConnection
    from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    host, _, port = address.rpartition(":")
    with BlockingConnection(host, int(port), client_id="test") as connection:
        wanted = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
            )
            for name, settings in {**TOPICS, INTERNAL: {}}.items()
        ]
        created = connection.request(CreateTopicsRequest(timeout_ms=10_000, topics=wanted))
        ids = {topic.name: topic.topic_id for topic in created.topics if topic.topic_id != ZERO_UUID}
        time.sleep(2)
        now = int(time.time() * 1000)
        return {
            case.label: case.read(connection.request(case.build(ids), case.version), now)
            for case in cases(now)
        }


if __name__ == "__main__":
    json.dump(record(sys.argv[1]), sys.stdout, indent=1)
    sys.stdout.write("\n")
