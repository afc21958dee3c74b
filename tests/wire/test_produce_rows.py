"""Produce requests become the same rows, whoever makes them, and rows become the same answers."""

from __future__ import annotations

import importlib.util
import random
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from crc32c import crc32c
from tests.frames import frame, framed

from barnabas.errors import WireError
from barnabas.model import Uuid
from barnabas.wire import record_check, walk
from barnabas.wire.codec.message import decode
from barnabas.wire.compression import decompress
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.plane.objects import produced_by, response_to_producer
from barnabas.wire.plane.produce_asked import (
    CLOSER,
    EMPTY,
    NO_TOPIC,
    NUMBERED,
    PART,
    TOPIC,
    TRANSACTION,
    Terms,
    terms_of,
    unpack,
)
from barnabas.wire.plane.produce_told import Extra, OneTold, ProduceAnswer, ToldRow, write_produce_answer
from barnabas.wire.records import HEADER_SIZE, Record, read_batch_header, write_batch
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSIONS = range(3, 14)
MOST_RECORDS, MOST_ROWS, MOST_PACKED, LARGEST = 100, 50, 10_000, 100_000
NAMES = ("one", "another", "t" * 200)


def batch_of(chance: random.Random) -> bytearray:
    value = bytes(chance.choice((0, 10, 300)))
    found = [
        Record(n, 1000 + chance.randrange(3), chance.choice((None, b"key")), value, ())
        for n in range(chance.choice((1, 3)))
    ]
    producer = chance.choice((-1, -1, 1 << 40))
    more: dict[str, Any] = (
        {"producer_id": producer, "producer_epoch": 0, "base_sequence": 5} if producer > 0 else {}
    )
    made = write_batch(found, codec=chance.choice((0,) * 9 + (3,)), **more)
    if producer > 0 and chance.random() < 0.2:
        made[22] |= 0x10
        struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return made


def request_of(chance: random.Random, version: int, shape: str) -> ProduceRequest:
    """A request of that shape."""
    topics = []
    for name in chance.sample(NAMES, 1 if shape == "one" else chance.choice((1, 2, 3))):
        indexes = chance.sample((0, 1, 2, 70_000), 1 if shape == "one" else chance.choice((1, 2, 3)))
        data = [PartitionProduceData(index=index, records=batch_of(chance)) for index in indexes]
        topic_id = Uuid(random.Random(name).randbytes(16))
        topics.append(
            TopicProduceData(topic_id=topic_id, partition_data=data)
            if version >= 13
            else TopicProduceData(name=name, partition_data=data)
        )
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def source_of_walk(*, facts: bool) -> Any:
    """The module as it runs where nothing is compiled; `facts`: it looks at batches nevertheless."""
    path = Path(walk.__file__).with_name("walk.py")
    spec = importlib.util.spec_from_file_location("walk_as_source", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    module.COMPILED = facts
    return module


class Said(NamedTuple):
    """All that is said of requests."""

    head: bytes
    rows: list[Any]
    numbers: tuple[int, ...]
    requests: int
    end: int


def said(found: Any) -> Said:
    rows = [(found.places[row[0]], *row[1:3], bytes(row[3]), *row[4:]) for row in found.rows]
    assert len(set(found.places)) == len(found.places)
    assert found.requests == sum(not row[-1] for row in rows)
    numbers = (found.newest, found.oldest, found.keyless, found.largest, found.size, found.records)
    return Said(
        found.head,
        rows,
        (*numbers, found.closer, found.transactions, found.packed),
        found.requests,
        found.end,
    )


def read_by(module: Any, data: bytes, *, window: int = LARGEST, room: int = 100) -> Said:
    found = module.ProduceRows(MOST_RECORDS, MOST_ROWS, MOST_PACKED)
    found.read(memoryview(data), 0, len(data), window, LARGEST, room)
    return said(found)


def decoded(body: bytes) -> tuple[Terms, list[Any]]:
    """Terms and rows of what the decoder reads, without what is known of batches.  Raises WireError."""
    view = memoryview(body)
    header, position = read_request_header(view)
    if header.api_key or not 3 <= header.version <= 13:
        raise WireError("no version of Produce")
    request, end = decode(ProduceRequest, view, header.version, position, most=1000)
    if end != len(body):
        raise WireError("bytes behind it")
    terms, found = produced_by(header, request)
    return terms, without_facts(said(found).rows)


def without_facts(rows: list[Any]) -> list[Any]:
    """Place, flags, correlation id, records, and whether more follows."""
    kept = PART | TOPIC | EMPTY
    return [(row[0], row[1] & kept, *row[2:4], bool(row[-1])) for row in rows]


def damaged(chance: random.Random, good: bytes, at: int) -> bytes:
    """Cut now and then, and changed in one place or two."""
    data = bytearray(good[: chance.choice((len(good), len(good), at))])
    for place in (at, chance.randrange(len(good)))[: chance.choice((1, 2))]:
        if place < len(data):
            data[place] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, data[place] ^ 1 << chance.randrange(8))
            )
    return bytes(data)


def bodies(data: bytes, count: int) -> list[bytes]:
    """The first requests of a read, without their lengths."""
    found = []
    for _ in range(count):
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", ["one", "several"])
def test_requests_become_the_rows_that_the_decoder_makes(shape: str, version: int) -> None:
    """By machine code, by its source, and without a look at batches; damaged ones do, or are left alone."""
    chance, sources = random.Random(version), [source_of_walk(facts=True), source_of_walk(facts=False)]
    good = b"".join(frame(request_of(chance, version, shape), version, number) for number in range(3))
    whole = read_by(walk, good)
    assert whole.requests == 3 and whole.end == len(good)
    taken = 0
    for at in range(0, len(good), 1 if shape == "one" else 3):
        data = damaged(chance, good, at)
        found, plain = read_by(sources[0], data), read_by(sources[1], data)
        assert found == read_by(walk, data) or not walk.COMPILED, at
        assert (plain.head, plain.requests, plain.end) == (found.head, found.requests, found.end)
        assert without_facts(plain.rows) == without_facts(found.rows)
        if found.head[3:4] not in (b"", bytes([version])):
            continue  # (which versions are served is not looked at here)
        rows: list[Any] = []
        for body in bodies(data, found.requests):
            try:
                asked = terms_of(found.head)[1]
            except WireError:  # (such a head is never known)
                with pytest.raises(WireError):
                    decoded(body)
                found = found._replace(rows=[])
                break
            terms, more = decoded(body)
            assert asked == terms
            rows += more
        assert without_facts(found.rows) == rows, at
        taken += found.requests
    assert len(good) / 6 < taken < 3 * len(good)


@pytest.mark.parametrize("version", [8, 12, 13])
def test_what_is_said_of_plain_batches_is_what_their_bytes_say(version: int) -> None:
    chance, source = random.Random(version), source_of_walk(facts=True)
    for number in range(100):
        found = read_by(source, frame(request_of(chance, version, "several"), version, number))
        times, keyless, sizes, records, closer = [], 0, [], 0, 0
        for _, how, correlation, batch, count, newest, _ in found.rows:
            header = read_batch_header(batch)
            assert correlation == number
            assert bool(how & CLOSER) == bool(header.attributes)
            assert bool(how & TRANSACTION) == bool(header.attributes & 0x10)
            closer += bool(how & CLOSER)
            if how & CLOSER:
                continue
            facts = record_check.check_records(batch[HEADER_SIZE:], count)
            assert (header.count, header.max_timestamp) == (count, newest)
            assert bool(how & NUMBERED) == (header.producer_id >= 0)
            times += [newest, header.base_timestamp + facts.oldest]
            keyless, records = keyless + facts.keyless, records + count
            sizes.append(len(batch))
        if sizes:
            assert found.numbers[:6] == (max(times), min(times), keyless, max(sizes), sum(sizes), records)
        assert found.numbers[6] == closer


def test_a_read_ends_with_what_begins_otherwise_and_at_its_limits() -> None:
    chance = random.Random(1)
    alike = [frame(request_of(chance, 12, "one"), 12, n) for n in range(4)]
    other = frame(request_of(chance, 12, "one"), 12, 9, client_id="another")
    read = b"".join([*alike[:2], other, *alike[2:]])
    assert read_by(walk, read).requests == 2
    assert read_by(walk, b"".join(alike), room=3).requests == 3
    assert read_by(walk, b"".join(alike), window=len(alike[0]) + len(alike[1]) + 20).requests == 2
    assert read_by(walk, b"".join(alike)[:-1]).requests == 3
    assert read_by(walk, other[4:]).requests == 0
    many = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=n, records=batch_of(chance)) for n in range(51)],
            )
        ]
    )
    assert read_by(walk, frame(many, 12)).requests == 0, "more rows than it may have"


def test_what_nobody_sends_is_left_to_the_decoder() -> None:
    good = frame(request_of(random.Random(2), 12, "one"), 12)[4:]
    assert read_by(walk, framed(good)).requests == 1
    odd = {
        "tagged fields": good[:-1] + b"\x01\x63\x02ab",
        "a byte more": good + b"\0",
        "another API": b"\0\1" + good[2:],
    }
    for name, body in odd.items():
        assert read_by(walk, framed(body)).requests == 0, name
    for topics in (
        [],
        [TopicProduceData(name="t", partition_data=[])],
        [TopicProduceData(name="t", partition_data=[PartitionProduceData(records=None)])],
        [
            TopicProduceData(
                name="t\u00e4", partition_data=[PartitionProduceData(records=batch_of(random.Random(3)))]
            )
        ],
    ):
        assert read_by(walk, frame(ProduceRequest(topic_data=topics), 12)).requests == 0


def test_a_request_without_a_batch_has_rows_that_say_so() -> None:
    empty = [TopicProduceData(name="t", partition_data=[]), TopicProduceData(name="u", partition_data=[])]
    for topics, places in ((empty, [(b"t", -1), (b"u", -1)]), ([], [(b"", NO_TOPIC)])):
        _, rows = decoded(frame(ProduceRequest(topic_data=topics), 12)[4:])
        assert [row[0] for row in rows] == places
        assert all(row[1] == PART | TOPIC | EMPTY for row in rows)
        assert [row[-1] for row in rows] == [True] * (len(rows) - 1) + [False]


def test_times_beyond_all_time_are_not_plain() -> None:
    """Machine integers would wrap where Python's grow: such batches are left to those who refuse them."""
    source = source_of_walk(facts=True)
    whole = bytearray(write_batch([Record(0, 1000, None, b"value", ())]))

    def is_plain(module: Any) -> bool:
        struct.pack_into(">I", whole, 17, crc32c(memoryview(whole)[21:]))
        data = [PartitionProduceData(index=0, records=whole)]
        asked = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)])
        return not read_by(module, frame(asked, 12)).rows[0][1] & CLOSER

    assert is_plain(source) and is_plain(walk) == walk.COMPILED
    for first in (-1, -(1 << 63), 1 << 56, (1 << 63) - 1):
        struct.pack_into(">q", whole, 27, first)
        struct.pack_into(">q", whole, 35, first)
        assert not is_plain(walk) and not is_plain(source)


@pytest.mark.parametrize("bit", range(16))
def test_a_batch_with_any_attribute_is_not_plain(bit: int) -> None:
    made = write_batch([Record(0, 1000, None, b"value", ())])
    struct.pack_into(">H", made, 21, 1 << bit)
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    data = [PartitionProduceData(index=0, records=made)]
    asked = frame(ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)]), 12)
    for module in (walk, source_of_walk(facts=True)):
        assert read_by(module, asked).rows[0][1] & CLOSER


def written(version: int, correlation: int, answer: ProduceAnswer) -> bytes:
    """The frame as the encoder writes it."""
    parts: list[Any] = []
    write_response(parts, correlation, 0, version, response_to_producer(version, answer))
    return b"".join(parts)


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_have_the_bytes_that_the_encoder_writes(version: int) -> None:
    chance = random.Random(version)
    topics = [Uuid(chance.randbytes(16)) if version >= 13 else name.encode() for name in NAMES]

    def row() -> ToldRow:
        number = chance.choice((-1, 0, 5, 1 << 40))
        return (
            chance.randrange(300),
            chance.choice((0, 0, 6, 87)),
            number,
            chance.choice((-1, 7)),
            number,
            None,
        )

    for number in range(100):
        told = [
            (bytes(topic), [row() for _ in range(chance.choice((0, 1, 2, 200)))])
            for topic in topics[: chance.randrange(4)]
        ]
        answer = ProduceAnswer(told, chance.choice((0, 0, 1000)))
        assert not answer.is_rare
        assert write_produce_answer(number, version, answer) == written(version, number, answer)
    for topic in topics:
        index, error, first, time, start, _ = row()
        one = OneTold(version, bytes(topic), index)
        numbers = (error, first, time, start) if one.with_start else (error, first, time)
        answer = ProduceAnswer([(bytes(topic), [(index, error, first, time, start, None)])])
        assert one.pack(one.size, 77, one.middle, *numbers, one.after) == written(version, 77, answer)


def test_the_rare_part_of_an_answer_is_told_by_the_encoder() -> None:
    extra = Extra("why", ((3, "wrong"),), (2, 9), ((2, "host", 9092, None),))
    answer = ProduceAnswer([(b"t", [(0, 6, -1, -1, -1, extra), (1, 6, -1, -1, -1, extra)])])
    assert answer.is_rare
    response = response_to_producer(12, answer)
    (one, _) = response.responses[0].partition_responses
    assert (one.error_message, one.current_leader.leader_id, one.current_leader.leader_epoch) == ("why", 2, 9)
    assert [(bad.batch_index, bad.batch_index_error_message) for bad in one.record_errors] == [(3, "wrong")]
    assert [node.node_id for node in response.node_endpoints] == [2]


def packed_of(chance: random.Random, codec: int, size: int = 300) -> bytearray:
    found = [Record(n, 1000 + chance.randrange(3), None, bytes(size), ()) for n in range(5)]
    return write_batch(found, codec=codec)


def unpacked_by(module: Any, made: bytearray, version: int = 12, most: int = 64 * 1024) -> Any:
    """The row of the only batch of a request, after a look into packed ones, and how many rows are not plain."""
    data = [PartitionProduceData(index=0, records=made)]
    topic = TopicProduceData(name="t", topic_id=Uuid(bytes(15) + b"t"), partition_data=data)
    asked = memoryview(frame(ProduceRequest(topic_data=[topic]), version))
    found = module.ProduceRows(MOST_RECORDS, MOST_ROWS, MOST_PACKED)
    found.read(asked, 0, len(asked), LARGEST, LARGEST, 1)
    unpack(found, most)
    return said(found)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_small_packed_batch_is_plain_once_it_was_unpacked(codec: int) -> None:
    chance, source = random.Random(codec), source_of_walk(facts=True)
    made = packed_of(chance, codec)
    found = unpacked_by(source, made)
    assert found == unpacked_by(walk, made) or not walk.COMPILED
    ((_, how, _, batch, count, newest, _),) = found.rows
    header = read_batch_header(made)
    assert (how, batch, count, newest) == (0, bytes(made), 5, header.max_timestamp)
    assert found.numbers == (newest, header.base_timestamp, 5, len(made), len(made), 5, 0, 0, 1)
    for odd in (
        unpacked_by(source, made, most=1000),
        unpacked_by(source, packed_of(chance, codec, size=20_000)),
        unpacked_by(source_of_walk(facts=False), made),
    ):
        assert odd.rows[0][1] & CLOSER and odd.numbers[5:7] == (0, 1)
    assert bool(unpacked_by(source, made, version=6).rows[0][1] & CLOSER) == (codec == 4), "zstd came with 7"


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_damaged_packed_batches_are_plain_only_where_all_their_records_are_good(codec: int) -> None:
    chance, source, plain = random.Random(codec), source_of_walk(facts=True), 0
    good = packed_of(chance, codec, size=40)
    for _ in range(400):
        made = bytearray(good)
        made[chance.randrange(21, len(made))] ^= 1 << chance.randrange(8)
        struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
        found = unpacked_by(source, made)
        assert found == unpacked_by(walk, made) or not walk.COMPILED
        ((_, how, _, _, count, newest, _),) = found.rows
        if not how & CLOSER:
            plain += 1
            header = read_batch_header(made)
            unpacked = (
                decompress(header.codec, memoryview(made)[HEADER_SIZE:])
                if header.codec
                else made[HEADER_SIZE:]
            )
            facts = record_check.check_records(bytes(unpacked), header.count)
            assert facts.contiguous and count == header.count
            assert newest == header.base_timestamp + facts.newest == header.max_timestamp
    assert plain < 300
