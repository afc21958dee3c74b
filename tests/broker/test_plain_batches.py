"""A batch is plain, or not, whether what may be compiled looks at its header and records, or the loops in Python.

Where nothing is compiled, the walk runs interpreted here: it is the same code.
"""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.hostile_batches import hostile_batches, with_crc

from barnabas.broker.requests.validation import plain_header
from barnabas.model import Now
from barnabas.wire import walk
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.records import HEADER_SIZE, TRANSACTIONAL, Record, write_batch

NOW = Now(0.0, 1_700_000_000_000)
HOUR = 3_600_000
_ATTRIBUTES_AT, _MOST_CODEC = 21, 4


def topic(*, compact: bool = False, plain_size: int = 1 << 20) -> Any:
    """As much of a partition as the check asks for."""
    config = SimpleNamespace(
        compact=compact,
        timestamp_after_max_ms=HOUR,
        timestamp_before_max_ms=HOUR,
        max_decompressed_bytes=100 << 20,
    )
    return SimpleNamespace(config=config, settings=SimpleNamespace(plain_size=plain_size))


def looked_at(
    monkeypatch: pytest.MonkeyPatch, batch: bytes | bytearray, partition: Any, transactional: int = 0
) -> tuple[Any, bool]:
    """Its header where it is plain, found without and with the walk alike; and whether the walk said so."""
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(walk, "COMPILED", compiled)
        found.append(plain_header(memoryview(bytearray(batch)), _MOST_CODEC, partition, NOW, transactional))
    assert found[0] == found[1], batch[:HEADER_SIZE].hex()
    return found[0], walk.good_batch(bytes(batch), 2000)[0]


def records(count: int, **more: int) -> bytearray:
    return bytearray(
        write_batch([Record(n, NOW.wall_ms + n % 3, b"k", bytes(n % 80), ()) for n in range(count)], **more)
    )


def test_hostile_batches_are_plain_with_the_walk_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in hostile_batches(NOW.wall_ms) if len(case.batch) >= HEADER_SIZE]
    plain = 0
    for partition in (topic(), topic(compact=True), topic(plain_size=100), topic(plain_size=-1)):
        for case in cases:
            plain += looked_at(monkeypatch, bytes(case.batch), partition)[0] is not None
            looked_at(monkeypatch, bytes(case.batch), partition, TRANSACTIONAL)
    assert 0 < plain < len(cases)


@pytest.mark.parametrize("crc", ["right", "wrong"])
def test_a_changed_byte_of_a_header_is_judged_alike(crc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = records(3, producer_id=7, producer_epoch=0, base_sequence=0)
    chance, plain_when_changed = random.Random(5), set[int]()
    for at in range(HEADER_SIZE):
        for value in {0, 1, 8, 0x10, 0x20, 0x7F, 0x80, 0xFF, chance.randrange(256)} - {good[at]}:
            batch = bytearray(good)
            batch[at] = value
            changed = with_crc(batch) if crc == "right" else bytes(batch)
            for allowed in (0, TRANSACTIONAL):
                if looked_at(monkeypatch, changed, topic(), allowed)[0] is not None:
                    plain_when_changed.add(at)
    outside = set(range(12, 16))  # the leader's epoch, of which the CRC knows nothing
    assert plain_when_changed == outside if crc == "wrong" else plain_when_changed > outside
    header, walked = looked_at(monkeypatch, bytes(good), topic())
    assert header is not None
    assert walked


def test_damaged_records_with_a_right_crc_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    good, chance, refused = records(12), random.Random(11), 0
    for _ in range(2000):
        batch = bytearray(good)
        for _ in range(chance.choice((1, 1, 2))):
            batch[chance.randrange(HEADER_SIZE, len(batch))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        refused += looked_at(monkeypatch, with_crc(batch), topic())[0] is None
    assert 100 < refused < 2000


def test_times_that_overflow_together_are_not_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = records(1)
    struct.pack_into(">qq", batch, 27, (1 << 63) - 1, -(1 << 63) + 1)
    batch[HEADER_SIZE + 2] = 4  # the delta of the only record: 2
    header, walked = looked_at(monkeypatch, with_crc(batch), topic())
    assert header is None
    assert walked  # its times are none of the walk's business


def test_produced_batches_are_found_where_they_lie() -> None:
    first, second = bytes(records(1)), bytes(records(200))
    frame = b"??" + b"".join(
        struct.pack(">i", index) + uvarint(len(batch) + 1) + batch + b"\0"
        for index, batch in ((5, first), (-1, second))
    )
    found: list[tuple[int, int, int]] = []
    assert walk.produced_batches(frame + b"\0", 2, 2, found) == len(frame)
    assert [(index, frame[begin:end]) for index, begin, end in found] == [(5, first), (-1, second)]
    for cut in range(2, len(frame)):
        assert walk.produced_batches(frame[:cut], 2, 2, []) == -1


def test_more_records_than_are_walked_at_once_are_no_good_batch() -> None:
    assert walk.good_batch(bytes(records(10)), 10)[0]
    assert not walk.good_batch(bytes(records(11)), 10)[0]


@pytest.mark.parametrize("bit", range(16))
def test_a_batch_with_any_attribute_but_that_of_a_transaction_is_no_good_batch(bit: int) -> None:
    batch = records(2)
    struct.pack_into(">H", batch, _ATTRIBUTES_AT, 1 << bit)
    assert walk.good_batch(bytes(batch), 10)[0] == (1 << bit == TRANSACTIONAL)


def test_a_length_that_is_longer_than_need_be_is_left_to_the_decoder() -> None:
    batch = bytes(records(1))
    size = len(batch) + 1
    assert size < 128
    assert walk.produced_batches(bytes(4) + bytes([size]) + batch + b"\0\0", 0, 1, []) > 0
    assert walk.produced_batches(bytes(4) + bytes([size | 128, 0]) + batch + b"\0\0", 0, 1, []) == -1


@pytest.mark.parametrize(
    "length", [b"\x00", b"\x3d", b"\xbe\x00", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"]
)
def test_lengths_that_no_batch_has_are_left_to_the_decoder(length: bytes) -> None:
    frame = bytes(4) + length + bytes(records(1)) + bytes(80)
    assert walk.produced_batches(frame, 0, 1, []) == -1
