"""What a sender can do with bytes alone, each test named after the CVE that shows somebody did."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.errors import WireError
from barnabas.server.api.table import TABLE
from barnabas.wire.codec.message import Message, Struct, decode, encode
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.frame import read_request_header
from barnabas.wire.registry import request_class
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.groups import JoinGroupRequest
from barnabas.wire.schemas.topics import CreateTopicsRequest

REQUESTS = [(request_class(row.key), version) for row in TABLE for version in {row.low, row.high}]
CLAIMS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f")
"""2^31-1 as a count of four bytes, 2^31-2 and 2^32-2 as a compact one."""


def filled(cls: type[Message], version: int) -> Message:
    """A request with one element in each array that the version has."""
    made = cls()
    _fill(made, version)
    return made


def _fill(value: Any, version: int) -> None:
    for field in type(value).FIELDS:
        if not field.lives_in(version) or field.tag is not None:
            continue
        if field.array and field.struct is not None:
            inner = field.struct()
            _fill(inner, version)
            setattr(value, field.name, [inner])
        elif field.struct is not None and not field.nullable_in(version):
            inner = getattr(value, field.name)
            if isinstance(inner, Struct):
                _fill(inner, version)


def damaged() -> Iterator[tuple[type[Message], int, bytes]]:
    """Every request with a huge claim in place of whatever stands at each of its bytes."""
    for cls, version in REQUESTS:
        whole = encode(filled(cls, version), version)
        for position, claim in itertools.product(range(min(len(whole), 160)), CLAIMS):
            yield cls, version, whole[:position] + claim + bytes(64)


def test_cve_2026_111108_no_claimed_count_is_believed() -> None:
    """An array's count is held against the bytes that are left before anything is made: any place, any API."""
    tracemalloc.start()
    try:
        tried = refused = 0
        for cls, version, data in damaged():
            tried += 1
            try:
                decode(cls, data, version)
            except WireError:
                refused += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tried > 5_000 and refused > tried / 2
    assert peak < 32 << 20  # what the readers themselves take is most of it


@pytest.mark.parametrize("cls", [MetadataRequest, JoinGroupRequest, CreateTopicsRequest])
def test_cve_2026_111108_elements_are_bounded_where_the_bytes_are_there(cls: type[Message]) -> None:
    """An element of two bytes becomes an object of more than a hundred: the elements of a request are counted."""
    version = 0 if cls is MetadataRequest else 2
    count = 600_000
    head = b"" if cls is not JoinGroupRequest else encode(JoinGroupRequest(), 2)[:-4]
    element = b"\0\0" if cls is MetadataRequest else bytes(20)
    data = head + struct.pack(">i", count) + element * count
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="too many"):
            decode(cls, data, version, most=250_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_cve_2026_111108_elements_are_counted_over_all_arrays_of_a_request() -> None:
    """Many small arrays are as many elements as a large one."""
    one = struct.pack(">hihii", 0, 1, 1, 0, 0)  # no name, a partition, a replica, no assignments, no settings
    data = struct.pack(">i", 2000) + one * 2000 + struct.pack(">i?", 1000, False)
    assert len(decode(CreateTopicsRequest, data, 2, most=2000)[0].topics) == 2000
    with pytest.raises(WireError, match="too many"):
        decode(CreateTopicsRequest, data, 2, most=1999)


def _header(tags: int) -> bytes:
    plain = struct.pack(">hhih", 3, 12, 1, -1)
    return plain + bytes(uvarint(tags)) + b"\x63\x00" * min(tags, 70)


@pytest.mark.parametrize("tags", [65, 20_000_000])
def test_cve_2026_111115_tagged_fields_of_a_header_are_few(tags: int) -> None:
    """20 million unknown tagged fields before a login kept a broker busy for seconds."""
    read_request_header(_header(64))
    with pytest.raises(WireError, match="may be unknown"):
        read_request_header(_header(tags))


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.key < 10_000], ids=lambda row: f"{row.key}{row.listeners}"
)
def test_cve_2026_111115_tagged_fields_of_a_request_are_few(row: Any) -> None:
    cls, version = request_class(row.key), row.high
    whole = encode(cls(), version)
    if not whole or version < cls.FLEXIBLE:
        return
    assert whole[-1] == 0  # its tagged fields come last: there are none
    for tags in (64, 65, 20_000_000):
        data = whole[:-1] + bytes(uvarint(tags)) + b"\x63\x00" * min(tags, 70)
        if tags == 64:
            data = whole[:-1] + b"\x40" + b"\x63\x00" * 64
            decode(cls, data, version)
            continue
        known = sum(field.tag is not None for field in cls.FIELDS)
        if tags <= 64 + known:
            continue
        with pytest.raises(WireError, match="may be unknown"):
            decode(cls, data, version)
