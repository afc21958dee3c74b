"""Every kind of Produce request, and a node that they are sent to: see test_fast_path."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

from crc32c import crc32c
from tests.broker.hostile_batches import hostile_batches
from tests.frames import frame, framed
from tests.server.harness import Client
from tests.topics import creation_of

from barnabas.broker.requests.produce import Produces
from barnabas.config import NO_FLUSH, Config
from barnabas.errors import ErrorCode
from barnabas.model import Now, Uuid
from barnabas.server.net import connection, produce_door
from barnabas.server.net.produce_door import ProduceDoor
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.codec.message import Message
from barnabas.wire.plane.produce_asked import ProduceRows
from barnabas.wire.records import Record, read_batch_header, write_batch
from barnabas.wire.schemas.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

NOW_MS = 1_700_000_000_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "other": {},
    "a-much-longer-name": {},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "300"},
    "zipped": {"compression.type": "lz4"},
    "replicas": {"min.insync.replicas": "2"},
    "bounded": {"message.timestamp.before.max.ms": "3600000"},
    "segments": {"segment.bytes": "1048576"},
}
LAST = 1_000_000
"""Correlation id of the request that ends a conversation."""


class FixedClock:
    """Wall time stands still: append times are the same in every run."""

    def now(self) -> Now:
        return Now(time.monotonic(), NOW_MS)


class Seeded:
    """Chance from a seed: topic ids are the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(b"\x01" + self._random.randbytes(15))


class Kind(NamedTuple):
    """A conversation on a connection of its own: frames, given the ids of the topics."""

    name: str
    frames: Callable[[dict[str, Uuid]], list[bytes]]


def batch(
    size: int = 20, *, count: int = 2, timestamp: int = NOW_MS, key: bytes | None = None, **more: Any
) -> bytearray:
    return write_batch([Record(n, timestamp, key, bytes(size), ()) for n in range(count)], **more)


def tampered(buf: bytearray, form: str, at: int, value: int, *, right: bool = True) -> bytearray:
    struct.pack_into(form, buf, at, value)
    if right:
        struct.pack_into(">I", buf, 17, crc32c(memoryview(buf)[21:]))
    return buf


def request(
    records: Any,
    topic: str = "plain",
    index: int = 0,
    *,
    ids: dict[str, Uuid] | None = None,
    acks: int = -1,
    **more: Any,
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records)]
    named = TopicProduceData(name=topic, partition_data=data)
    if ids is not None:
        named = TopicProduceData(topic_id=ids.get(topic, Uuid(b"\x11" * 16)), partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[named], **more)


def plain(
    version: int, ids: dict[str, Uuid], topic: str = "plain", acks: int = -1, size: int = 20
) -> Message:
    return request(batch(size), topic, ids=ids if version >= 13 else None, acks=acks)


def with_one(
    version: int, odd: Callable[[], Any], topic: str = "plain", **more: Any
) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Good requests around two odd ones: the first good one teaches, the second is recognized."""

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        by_id = ids if version >= 13 else None
        messages: list[Message] = [
            *(plain(version, ids) for _ in range(2)),
            *(request(odd(), topic, ids=by_id, **more) for _ in range(2)),
            *(plain(version, ids) for _ in range(2)),
        ]
        return [frame(message, version, number) for number, message in enumerate(messages)]

    return frames


def kinds() -> Iterator[Kind]:
    for version in range(3, 14):
        for acks in (-1, 1, 0):
            yield Kind(f"v{version} acks {acks}", _repeated(version, acks))
        for name, odd in odd_batches().items():
            yield Kind(f"v{version} {name}", with_one(version, odd))
        for topic in TOPICS:
            yield Kind(f"v{version} to {topic}", with_one(version, batch, topic))
            yield Kind(f"v{version} large to {topic}", with_one(version, lambda: batch(2000), topic))
        yield Kind(f"v{version} idempotent", _idempotent(version))
        yield Kind(f"v{version} several", _several(version))
        yield Kind(f"v{version} codecs", _codecs(version))
        yield Kind(f"v{version} unknown", with_one(version, batch, "nowhere"))
        yield Kind(f"v{version} no such partition", with_one(version, batch, index=7))
        yield Kind(f"v{version} acks 2", with_one(version, batch, acks=2))
        yield Kind(f"v{version} transactional id", with_one(version, batch, transactional_id="t"))
        if version <= 11:  # (from 12 on the coordinator is asked in any case)
            yield Kind(f"v{version} transaction", _transaction(version, 5000 + version))
            yield Kind(f"v{version} of nobody's transaction", _nameless(version, 6000 + version))
    for case in hostile_batches(NOW_MS):
        for topic in ("plain", "compacted", "bounded"):
            odd = partial(bytes, case.batch)
            yield Kind(f"v9 hostile to {topic}: {case.name}", with_one(9, odd, topic))
    yield Kind("v9 work for a thread", _work_for_a_thread)
    for version in (8, 12, 13):
        yield Kind(f"v{version} large frames", sizes_of(version))
        yield Kind(f"v{version} odd encodings", _odd_encodings(version))
        yield Kind(f"v{version} tags that are none", _bad_tail(version))
        yield Kind(
            f"v{version} acks 0 and wrong", with_one(version, lambda: tampered(batch(), ">i", 57, 9), acks=0)
        )


def odd_batches() -> dict[str, Callable[[], Any]]:
    return {
        "bad crc": lambda: tampered(batch(), ">I", 17, 1, right=False),
        "bad count": lambda: tampered(batch(), ">i", 57, 9),
        "base offset": lambda: tampered(batch(), ">q", 0, 5),
        "magic 1": lambda: tampered(batch(), ">b", 16, 1),
        "magic 3": lambda: tampered(batch(), ">b", 16, 3),
        "control": lambda: tampered(batch(), ">h", 21, 0x20),
        "transactional": lambda: tampered(batch(), ">h", 21, 0x10),
        "append time": lambda: tampered(batch(), ">h", 21, 8),
        "unknown codec": lambda: tampered(batch(), ">h", 21, 5),
        "no sequence": lambda: tampered(batch(), ">q", 43, 77),
        "length": lambda: tampered(batch(), ">i", 8, 3),
        "longer than it is": lambda: tampered(batch(), ">i", 8, 5000),
        "two batches": lambda: batch() + batch(),
        "a byte more": lambda: batch() + b"\0",
        "a byte less": lambda: batch()[:-1],
        "sixty bytes": lambda: batch()[:60],
        "nothing": lambda: b"",
        "null": lambda: None,
        "far future": lambda: batch(timestamp=NOW_MS + 10_000_000),
        "long ago": lambda: batch(timestamp=1),
        "one record": lambda: batch(count=1),
        "a key": lambda: batch(key=b"k"),
        "zeroes": lambda: bytes(200),
    }


def _repeated(version: int, acks: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        return [frame(plain(version, ids, acks=acks, size=10 * n), version, n) for n in range(8)]

    return frames


def _idempotent(version: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Sequences in order, repeated, with a gap, of an older and of a newer epoch, wrapping."""
    producer = 4000 + version
    steps = [
        (0, 0),
        (0, 2),
        (0, 4),
        (0, 2),
        (0, 4),
        (0, 8),
        (0, 6),
        (1, 0),
        (0, 8),
        (1, 2),
        (1, 2),
        (2, 5),
        (2, 0),
    ]

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        by_id = ids if version >= 13 else None
        return [
            frame(
                request(
                    batch(producer_id=producer, producer_epoch=epoch, base_sequence=sequence),
                    "other",
                    ids=by_id,
                ),
                version,
                number,
            )
            for number, (epoch, sequence) in enumerate(steps)
        ]

    return frames


def _in_transaction(producer: int, sequence: int, epoch: int = 0, size: int = 20, **more: Any) -> bytearray:
    return batch(
        size,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
        **more,
    )


def _transaction(version: int, producer: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Two transactions with a marker after each; then batches of an older, a newer and no epoch."""

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        steps: list[Any] = [0, 2, 4, 4, 10, 6, "end", 8, 10, "end", 12]
        messages: list[Message] = []
        for step in steps:
            if step == "end":
                topic = WritableTxnMarkerTopic(name="other", partition_indexes=[0])
                marker = WritableTxnMarker(producer_id=producer, transaction_result=True, topics=[topic])
                messages.append(WriteTxnMarkersRequest(markers=[marker]))
            else:
                made = _in_transaction(producer, step, codec=step % 5)
                messages.append(request(made, "other", transactional_id="t"))
        for epoch, sequence in ((1, 0), (0, 14), (1, 2), (1, 4)):
            made = _in_transaction(producer, sequence, epoch)
            messages.append(request(made, "other", transactional_id="t"))
        messages.append(
            request(
                batch(producer_id=producer, producer_epoch=1, base_sequence=6), "other", transactional_id="t"
            )
        )
        return [
            frame(message, 1 if isinstance(message, WriteTxnMarkersRequest) else version, number)
            for number, message in enumerate(messages)
        ]

    return frames


def transactions(batches: int) -> list[bytes]:
    """Three transactions of so many batches each."""
    messages: list[Message] = []
    for number in range(3):
        first = 2 * batches * number
        for sequence in range(first, first + 2 * batches, 2):
            messages.append(request(_in_transaction(77, sequence), transactional_id="t"))
        topic = WritableTxnMarkerTopic(name="plain", partition_indexes=[0])
        messages.append(WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=77, topics=[topic])]))
    return [
        frame(message, 1 if isinstance(message, WriteTxnMarkersRequest) else 11, number)
        for number, message in enumerate(messages)
    ]


def refuse_for_now(node: ServerNode, topic: str, **producer: int) -> None:
    """As if too few replicas had been in sync when this batch came."""
    partition = node.broker.partition(topic, 0)
    assert partition is not None
    partition.log.producers.refused(read_batch_header(batch(**producer)), ErrorCode.NOT_ENOUGH_REPLICAS)


def _nameless(version: int, producer: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Who has a transaction open sends batches of it in requests that name no transactional id."""

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        messages: list[Message] = [
            request(_in_transaction(producer, 0), "other", transactional_id="t"),
            request(batch(), "other"),
            request(batch(), "other"),
            request(_in_transaction(producer, 2), "other"),
            request(_in_transaction(producer, 2), "other", transactional_id="t"),
        ]
        return [frame(message, version, number) for number, message in enumerate(messages)]

    return frames


def _several(version: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Partitions and topics in turn, then together in one request."""

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        by_id = ids if version >= 13 else None
        where = [("plain", 0), ("plain", 1), ("other", 0), ("a-much-longer-name", 1)]
        messages: list[Message] = [request(batch(), *place, ids=by_id) for place in where * 3]
        messages += [
            ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    data for place in places for data in request(batch(), *place, ids=by_id).topic_data
                ],
            )
            for places in (where[::2], where[::2], [], [("plain", 0), ("nowhere", 0)])
        ]
        messages += [request(batch(), *place, ids=by_id) for place in where]
        return [frame(message, version, number) for number, message in enumerate(messages)]

    return frames


def _codecs(version: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        by_id = ids if version >= 13 else None
        return [
            frame(request(batch(300, codec=codec), topic, ids=by_id), version, 10 * codec + n)
            for codec in range(5)
            for topic in ("plain", "plain", "zipped", "zipped")
            for n in range(2)
        ]

    return frames


def sizes_of(version: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Sizes whose lengths take one to four bytes, and frames that do not fit into one read."""
    sizes = (0, 3, 20, 60, 3000, 8000, 9000, 70_000, 300_000, 1, 900_000, 1_000_000)

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        return [
            frame(plain(version, ids, topic, size=size // 2), version, n)
            for n, (size, topic) in enumerate(
                (size, topic) for size in sizes for topic in ("plain", "segments")
            )
        ]

    return frames


def _odd_encodings(version: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    """Bytes no library sends: trailing tagged fields, a tag in the header, bytes behind the body, cut bodies."""

    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        good = frame(plain(version, ids), version, 5)
        made = [good, good]
        if version >= 9:
            tail = b"\x00\x00\x01\x63\x02ab"  # an unknown tagged field of the request
            made += [framed(good[4:-3] + tail)] * 2
            head_end = 4 + 8 + 2 + len("test")
            made += [framed(good[4:head_end] + b"\x01\x63\x02ab" + good[head_end + 1 :])] * 2
        made += [good, good, framed(good[4:-2]), good]
        return made

    return frames


def _work_for_a_thread(ids: dict[str, Uuid]) -> list[bytes]:
    """Small batches before and behind some that the loop does not look at itself, numbered."""
    sequence, frames = 0, []
    for number, count in enumerate((2, 2, 4000, 2, 2, 4000, 4000, 2)):
        made = batch(count=count, producer_id=9000, producer_epoch=0, base_sequence=sequence)
        frames.append(frame(request(made, "other"), 9, number))
        sequence += count
    return frames


def _bad_tail(version: int) -> Callable[[dict[str, Uuid]], list[bytes]]:
    def frames(ids: dict[str, Uuid]) -> list[bytes]:
        good = frame(plain(version, ids), version, 5)
        return [good, good, framed(good[4:-3] + b"\x01\x00\x00"), good]

    return frames


def config(*, page_cache: bool) -> Config:
    return Config.load(
        {
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "log.flush.interval.messages": str(NO_FLUSH if page_cache else 1),
            "num.partitions": "2",
            "transaction.partition.verification.enable": "false",  # transactions without a coordinator
        }
    )


class Run:
    """What one node said to every kind of request, and what its logs hold afterwards."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.logs: dict[str, bytes] = {}
        self.together = 0
        """Requests that were served with others of their read."""
        self.closer = 0
        """Batches that were looked at alone."""
        self.counted: tuple[int, ...] = ()


async def converse(node: ServerNode, frames: list[bytes], *, first: int = 0) -> bytes:
    """Send all frames at once; returns everything that comes back, up to the end or the last answer.

    `first`: so many are sent, and answered, before the others.
    """
    client = Client(*await asyncio.open_connection(*node.address))
    said = b""
    try:
        for some, last in ((frames[:first], LAST - 1), (frames[first:], LAST)):
            if some:
                client.writer.write(b"".join(some) + frame(ApiVersionsRequest(), 0, last))
            while some:
                correlation, body = await client.answer()
                if correlation == last:
                    break
                said += struct.pack(">i", correlation) + framed(body)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        said += b"closed"
    client.close()
    return said


async def create_topics(node: ServerNode) -> dict[str, Uuid]:
    from barnabas.client.aio import AsyncConnection

    async with await AsyncConnection.connect(*node.address) as connection:
        await connection.request(creation_of(TOPICS, partitions=2))
        names = [MetadataRequestTopic(name=name) for name in TOPICS]
        answer: Any = await connection.request(MetadataRequest(topics=names), 12)
    return {topic.name: topic.topic_id for topic in answer.topics}


class Unread:
    """Finds no request plain to read."""

    head, requests = b"", 0

    def __init__(self, *limits: int) -> None:
        pass

    def one(self, *arguments: Any) -> None:
        pass

    read = one


def run(
    factory: Callable[[], asyncio.AbstractEventLoop],
    work: Callable[[ServerNode, Run], Any],
    *,
    page_cache: bool,
    decoded: bool = False,
) -> Run:
    """Start a node on a disk in memory, let `work` talk to it, read its logs.

    `decoded`: the rows of every request are made of what the decoder reads.
    """
    disk, result = MemoryDisk(), Run()
    take = ProduceDoor.take

    def counted(self: ProduceDoor, *arguments: Any) -> Any:
        before = self.network.request_ids
        served = take(self, *arguments)
        if self.network.request_ids > before + 1:
            result.together += self.network.request_ids - before
        return served

    async def whole() -> None:
        settings = config(page_cache=page_cache)
        async with asyncio.timeout(120):
            node = ServerNode(settings, disk=disk, clock=FixedClock(), random=Seeded(), format_new=True)
            async with node:
                await work(node, result)
                assert node.runtime is not None
                metrics = node.runtime.metrics
                topics, requests = (
                    "kafka.server:type=BrokerTopicMetrics,name=",
                    "kafka.network:type=RequestMetrics,name=",
                )
                result.counted = (
                    metrics.counter(f"{topics}MessagesInPerSec").value,
                    metrics.counter(f"{topics}BytesInPerSec").value,
                    metrics.counter(f"{requests}RequestsPerSec,request=Produce").value,
                    metrics.histogram(f"{requests}TotalTimeMs,request=Produce").count,
                    metrics.histogram(f"{requests}LocalTimeMs,request=Produce").count,
                )

    look_closer = Produces._look_closer

    def counted_closer(self: Produces, *arguments: Any) -> Any:
        result.closer += 1
        return look_closer(self, *arguments)

    rows = Unread if decoded else ProduceRows
    with (
        mock.patch.object(ProduceDoor, "take", counted),
        mock.patch.object(Produces, "_look_closer", counted_closer),
        mock.patch.object(produce_door, "ProduceRows", rows),
        mock.patch.object(connection, "SHARE_OF_STEP_S", 60.0),  # who is hung up on had the same answers
        asyncio.Runner(loop_factory=factory) as runner,
    ):
        runner.run(whole())
    for directory in disk.list("/data"):
        if disk.is_directory(f"/data/{directory}") and not directory.startswith("__"):
            for name in disk.list(f"/data/{directory}"):
                if name.endswith((".log", ".index", ".timeindex")):
                    result.logs[f"{directory}/{name}"] = disk.read(f"/data/{directory}/{name}")
    return result
