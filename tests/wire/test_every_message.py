"""Every message in every version: what is written reads back, and foreign bytes never break the reader."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.wire.samples import MESSAGES, filled, messages, pairs, random_message, versions

from barnabas.errors import WireError
from barnabas.wire.codec.message import Message, decode, encode, encode_parts

BY_NAME = {"argvalues": MESSAGES, "ids": [cls.__name__ for cls in MESSAGES]}


def round_trip(message: Message, version: int) -> None:
    """Write, read, compare, write again."""
    written = encode(message, version)
    read, end = decode(type(message), written, version)
    assert end == len(written)
    assert read == message
    assert encode(read, version) == written
    parts: list[Any] = []
    assert encode_parts(parts, message, version) == len(written)
    assert b"".join(bytes(part) for part in parts) == written


def test_there_is_every_message_of_kafka_4_4_0_and_two_requests_of_ours() -> None:
    assert len(MESSAGES) == 269 + 4
    assert sum(1 for _ in pairs()) == 732 + 4


@pytest.mark.parametrize("cls", **BY_NAME)
def test_what_is_written_with_every_field_set_reads_back(cls: type[Message]) -> None:
    for version in versions(cls):
        round_trip(filled(cls, version), version)
        round_trip(cls(), version)


@pytest.mark.parametrize("cls", **BY_NAME)
def test_what_is_written_reads_back_whatever_it_is(cls: type[Message]) -> None:
    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        for version in versions(cls):
            round_trip(data.draw(messages(cls, version)), version)

    check()


@pytest.mark.parametrize("cls", **BY_NAME)
def test_a_message_that_is_cut_off_anywhere_is_a_wire_error(cls: type[Message]) -> None:
    for version in (cls.VERSIONS[0], cls.VERSIONS[1]):
        written = encode(filled(cls, version), version)
        for end in range(len(written)):
            with pytest.raises(WireError):
                decode(cls, memoryview(written)[:end], version)


@pytest.mark.parametrize("cls", **BY_NAME)
def test_a_message_with_a_changed_byte_is_read_or_is_a_wire_error(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in (cls.VERSIONS[0], cls.VERSIONS[1]):
        written = bytearray(encode(filled(cls, version), version))
        for _ in range(60 if written else 0):
            place = rng.randrange(len(written))
            before, written[place] = written[place], rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            _read_or_refuse(cls, bytes(written), version)
            written[place] = before


@pytest.mark.parametrize("cls", **BY_NAME)
def test_random_bytes_are_read_or_are_a_wire_error(cls: type[Message]) -> None:
    rng = random.Random(cls.__name__)
    for version in (cls.VERSIONS[0], cls.VERSIONS[1]):
        for _ in range(30):
            _read_or_refuse(cls, rng.randbytes(rng.randrange(80)), version)


def _read_or_refuse(cls: type[Message], data: bytes, version: int) -> None:
    try:
        message, end = decode(cls, data, version)
    except WireError:
        return
    assert end <= len(data)
    assert isinstance(message, cls)


def test_a_random_message_is_what_its_seed_says() -> None:
    cls = MESSAGES[0]
    one, other = (random_message(cls, cls.VERSIONS[1], random.Random(7)) for _ in range(2))
    assert one == other
