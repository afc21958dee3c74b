"""Integers of variable length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import WireError
from barnabas.wire.codec.primitives import (
    append_varint,
    read_uvarint,
    read_uvarlong,
    read_varint,
    read_varlong,
    uvarint,
    varint,
    varint_size,
    varlong,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_integers_read_back(value: int) -> None:
    assert read_uvarint(b"." + uvarint(value), 1) == (value, 1 + len(uvarint(value)))


@given(INT32)
def test_signed_integers_read_back(value: int) -> None:
    written = varint(value)
    assert read_varint(written, 0) == (value, len(written))
    assert varint_size(value) == len(written)


@given(INT64)
def test_signed_long_integers_read_back(value: int) -> None:
    written = varlong(value)
    assert read_varlong(written, 0) == (value, len(written))
    assert varint_size(value) == len(written)
    out = bytearray()
    append_varint(out, value)
    assert out == written


def test_the_bytes_are_those_of_protocol_buffers() -> None:
    assert uvarint(300) == b"\xac\x02"
    assert (varint(-1), varint(1), varint(-65)) == (b"\x01", b"\x02", b"\x81\x01")


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01"])
def test_what_does_not_end_is_a_wire_error(raw: bytes) -> None:
    for read in (read_uvarint, read_varint):
        with pytest.raises(WireError):
            read(raw, 0)
    for read in (read_uvarlong, read_varlong):
        with pytest.raises(WireError):
            read(b"\xff" * 11, 0)


def test_bits_that_a_number_has_no_room_for_do_not_count() -> None:
    """As for Apache Kafka, which shifts them out."""
    assert read_uvarint(b"\xff\xff\xff\xff\x7f", 0) == ((1 << 32) - 1, 5)
    assert read_varint(b"\x86\x80\x80\x80\x10", 0) == (3, 5)
    assert read_uvarlong(b"\x80" * 9 + b"\x02", 0) == (0, 10)
    assert read_varlong(b"\x86" + b"\x80" * 8 + b"\x02", 0) == (3, 10)
