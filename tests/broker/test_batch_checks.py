"""Batches that are too much work for the loop: checked by a thread, in slices, appended in their order."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tests.broker import harness
from tests.broker.harness import WALL, Answer, Node, batch
from tests.broker.hostile_batches import lying, with_crc

from barnabas.broker.replicas.batch_checks import BatchCheck
from barnabas.broker.requests import validation
from barnabas.errors import ErrorCode
from barnabas.wire.codec.primitives import varint
from barnabas.wire.compression import Codec, packer
from barnabas.wire.records import Record, read_batch_header, read_records, write_batch
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MANY = 5_000


def much(count: int = MANY, codec: int = 0, **more: Any) -> bytearray:
    """More records than the loop looks at itself."""
    return write_batch([Record(n, WALL, b"k", bytes(n % 50)) for n in range(count)], codec=codec, **more)


@pytest.fixture(autouse=True)
def _as_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop looks at no more records than it does there."""
    for module in (validation, harness):
        monkeypatch.setattr(module, "RECORDS_WALKED_AT_ONCE", validation.RECORDS_AT_ONCE)


def send(node: Node, data: bytes, *, connection: int = 1, topic: str = "t", acks: int = -1) -> Answer:
    """Produce on a connection of this number."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])
        ],
    )
    return node.ask(request, 9, connection_id=connection)


def end_of(node: Node, topic: str = "t") -> int:
    partition = node.broker.partition(topic, 0)
    assert partition is not None
    return partition.log.log_end_offset


def bomb(codec: int, size: int) -> bytearray:
    """A right batch of one record whose value is `size` zeros, made a piece at a time."""
    start = bytes((0, 0, 0)) + varint(1) + b"k" + varint(size)
    body = varint(len(start) + size + 1) + start
    stream = packer(codec)
    packed = bytearray(stream.add(body))
    for _ in range(size >> 20):
        packed += stream.add(bytes(1 << 20))
    packed += stream.add(b"\0")
    packed += stream.end()
    honest = write_batch([Record(0, WALL, b"k", b"")])
    out = bytearray(honest[:61]) + packed
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[22] = codec
    return with_crc(out)


def test_what_one_connection_sends_behind_a_batch_in_a_thread_is_appended_behind_it(node: Node) -> None:
    node.create("u")
    numbers = {"producer_id": 7, "producer_epoch": 0}
    first = send(node, much(**numbers, base_sequence=0))
    second = send(node, batch("a", **numbers, base_sequence=MANY))
    elsewhere = send(node, batch("b"), topic="u")
    other = send(node, batch("c"), connection=2)
    node.write()
    assert (end_of(node), end_of(node, "u")) == (1, 1), "who is not behind it does not wait for it"
    node.turn()
    answers = [answer.produced for answer in (other, first, second, elsewhere)]
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 4
    assert [answer.base_offset for answer in answers] == [0, 1, MANY + 1, 0]
    assert node.outside.bytes_held == 0


def test_what_comes_behind_a_batch_that_is_refused_misses_it(node: Node) -> None:
    numbers = {"producer_id": 7, "producer_epoch": 0}
    node.append(batch("a", **numbers, base_sequence=0))
    lying = much(**numbers, base_sequence=1)
    lying[-1] = 9
    first = send(node, with_crc(lying))
    second = send(node, batch("a", **numbers, base_sequence=1 + MANY))
    node.turn()
    assert first.error == ErrorCode.INVALID_RECORD
    assert second.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end_of(node) == 1


def test_a_leader_that_goes_meanwhile_appends_nothing(node: Node) -> None:
    answer = send(node, much())
    node.write()
    node.change("t", replicas=(1, 2), isr=(1, 2), leader=2)
    node.turn()
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert end_of(node) == 0


def test_too_few_replicas_in_sync_meanwhile_refuse_it(node: Node) -> None:
    node.create("two", replicas=(1, 2), isr=(1, 2), min_insync_replicas="2")
    answer = send(node, much(), topic="two")
    node.write()
    node.change("two", isr=(1,))
    node.turn()
    assert answer.error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert end_of(node, "two") == 0


def test_a_deadline_that_passes_is_answered_and_the_batch_is_appended_all_the_same(node: Node) -> None:
    answer = send(node, much())
    node.write()
    node.after(1.1)
    assert answer.error == ErrorCode.REQUEST_TIMED_OUT
    node.turn()
    assert end_of(node) == MANY


def test_a_node_that_stops_says_so_to_who_waits(node: Node) -> None:
    answer = send(node, much())
    node.broker.stop(node.now)
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.outside.bytes_held == 0


def test_without_acks_a_good_batch_is_appended_and_a_bad_one_ends_the_connection(node: Node) -> None:
    good = send(node, much(), acks=0)
    lying = much(count=MANY)
    lying[60] = 99  # the count's last byte
    lying[26] = 98  # and the last offset delta's
    bad = send(node, with_crc(lying), acks=0)
    assert good.waiting is not None and bad.waiting is not None
    node.turn()
    assert end_of(node) == MANY
    assert good.refused is None
    assert bad.refused == ErrorCode.INVALID_RECORD


def test_connections_take_turns(node: Node) -> None:
    """A hundred batches of one connection do not stand before the one of another."""
    many = [send(node, much(), connection=1) for _ in range(20)]
    one = send(node, much(), connection=2)
    slices = 0
    while not one.count:
        node.write()
        assert len(node.held) >= 1
        work = node.held.pop(0)
        work.run()
        node.broker.synced(work, None, node.now)
        slices += isinstance(work, BatchCheck)
    assert slices < 20
    assert sum(answer.count for answer in many) <= 3


def run_threads(node: Node, answer: Answer) -> int:
    """Do what threads do until there is an answer; how many slices of checks that took."""
    slices = 0
    while not answer.count:
        node.write()
        for work in [node.held.pop(0) for _ in node.held[:]]:
            work.run()
            node.broker.synced(work, None, node.now)
            slices += isinstance(work, BatchCheck)
    return slices


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_few_bytes_that_unpack_to_very_many_are_looked_at_in_little_memory(
    node: Node, codec: Codec
) -> None:
    size = (15 if codec is Codec.SNAPPY else 90) << 20
    data = bomb(codec, size)
    assert len(data) < 1 << 20
    tracemalloc.start()
    answer = send(node, data)
    slices = run_threads(node, answer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.error == ErrorCode.NONE
    assert slices > size >> 21
    assert peak < 8 << 20


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_what_unpacks_to_more_than_the_limit_is_refused(node: Node, codec: Codec) -> None:
    node.create("frugal", max_decompressed_message_bytes=str(3 << 20))
    assert node.append(bomb(codec, 2 << 20), "frugal").error_code == ErrorCode.NONE
    assert node.append(bomb(codec, 4 << 20), "frugal").error_code == ErrorCode.INVALID_RECORD
    assert end_of(node, "frugal") == 1


def test_the_limit_of_what_unpacks_says_nothing_about_a_batch_without_compression(node: Node) -> None:
    """As at Apache Kafka 4.4: `max.message.bytes` bounds such a batch."""
    node.create("frugal", max_decompressed_message_bytes="1000")
    plain = write_batch([Record(0, 1, None, bytes(4000))])
    assert node.append(plain, "frugal").error_code == ErrorCode.NONE
    packed = write_batch([Record(0, 1, None, bytes(4000))], codec=Codec.GZIP)
    assert node.append(packed, "frugal").error_code == ErrorCode.INVALID_RECORD


def test_a_large_batch_is_packed_anew_by_the_thread(node: Node) -> None:
    node.create("z", compression_type="zstd")
    answer = node.append(much(codec=Codec.GZIP, producer_id=3, producer_epoch=0, base_sequence=0), "z")
    assert answer.error_code == ErrorCode.NONE
    partition = node.broker.partition("z", 0)
    assert partition is not None
    stored = partition.read(0, 1 << 30).read()
    header = read_batch_header(stored)
    assert (header.codec, header.producer_id, header.count) == (Codec.ZSTD, 3, MANY)
    assert [record.value for record in read_records(stored, 0, header)] == [
        bytes(n % 50) for n in range(MANY)
    ]


def test_a_bomb_that_would_be_stored_unpacked_is_too_large(node: Node) -> None:
    node.create("raw", compression_type="uncompressed")
    tracemalloc.start()
    assert node.append(bomb(Codec.ZSTD, 50 << 20), "raw").error_code == ErrorCode.MESSAGE_TOO_LARGE
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_many_records_that_lie_about_their_length_are_looked_at_by_the_thread(node: Node) -> None:
    """One by one: a few of them the loop looks at itself."""
    few, many = lying(*[b"v"] * 100, at=WALL), lying(*[b"v"] * 1_900, at=WALL)
    send(node, few)
    assert end_of(node) == 100
    answer = send(node, many)
    assert end_of(node) == 100
    slices = run_threads(node, answer)
    assert (answer.error, end_of(node)) == (ErrorCode.NONE, 2_000)
    assert slices
