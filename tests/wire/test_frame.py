"""Frames: lengths, headers, and whose fault it is."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import WireError
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import (
    FrameReader,
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request,
    write_response,
)
from barnabas.wire.schemas.cluster import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROUND_TRIPS = [(1, 4), (1, 11), (1, 12), (1, 18), (18, 0), (18, 3)]


def joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize(("key", "version"), ROUND_TRIPS)
@pytest.mark.parametrize("client", [None, "", "me", "é" * 100])
def test_a_request_is_read_as_it_was_written(key: int, version: int, client: str | None) -> None:
    cls: Any = FetchRequest if key == 1 else ApiVersionsRequest
    header = RequestHeader(key, version, 77, client)
    frame = joined(write_request(header, cls()))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    found, position = read_request_header(frame, 4)
    assert found == header
    assert decode(cls, frame, version, position) == (cls(), len(frame))


@pytest.mark.parametrize(("key", "version"), ROUND_TRIPS)
def test_a_response_is_read_as_it_was_written(key: int, version: int) -> None:
    cls: Any = FetchResponse if key == 1 else ApiVersionsResponse
    parts: list[Any] = [b"something before"]
    size = write_response(parts, 78, key, version, cls(throttle_time_ms=5 if version else 0))
    frame = joined(parts[1:])
    assert len(frame) == size
    assert int.from_bytes(frame[:4], "big") == size - 4
    correlation, position = read_response_header(frame, key, version, 4)
    assert correlation == 78
    assert decode(cls, frame, version, position)[1] == len(frame)


def test_no_part_of_a_request_is_empty() -> None:
    """asyncio since Python 3.12 tries to send an empty last part again and again, and does not close."""
    records = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"")])
    for key, version, request in (
        (18, 0, ApiVersionsRequest()),
        (0, 8, ProduceRequest(acks=1, timeout_ms=1, topic_data=[records])),
        (0, 9, ProduceRequest(acks=1, timeout_ms=1, topic_data=[records])),
    ):
        parts = write_request(RequestHeader(key, version, 1, None), request)
        assert all(len(part) for part in parts)
        _, position = read_request_header(joined(parts), 4)
        assert decode(type(request), joined(parts), version, position)[0] == request


def test_records_of_a_response_are_not_copied() -> None:
    records = bytearray(b"batches")
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])
    parts: list[Any] = []
    write_response(parts, 1, 1, 12, FetchResponse(responses=[topic]))
    assert len(parts) == 3
    assert parts[1] is records


def test_the_header_of_an_api_or_version_that_we_lack_still_reads() -> None:
    raw = (999).to_bytes(2, "big") + (1).to_bytes(2, "big") + (5).to_bytes(4, "big") + b"\0\1x" + b"body"
    assert read_request_header(raw) == (RequestHeader(999, 1, 5, "x"), 11)
    raw = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + (5).to_bytes(4, "big") + b"\0\1x" + b"\0body"
    assert read_request_header(raw) == (RequestHeader(18, 99, 5, "x"), 12)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    raw = b"\0\1\0\x0c\0\0\0\5\xff\xff" + b"\2\0\3abc\7\0" + b"body"
    assert read_request_header(raw) == (RequestHeader(1, 12, 5, None), 18)
    assert read_response_header(b"\0\0\0\5" + b"\1\0\3abc" + b"body", 1, 12) == (5, 10)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\1\0\x0c\0\0\0\5\xff",
        b"\0\1\0\x0c\0\0\0\5\0\5ab",
        b"\0\1\0\x0c\0\0\0\5\xff\xfe\0",
        b"\0\1\0\x0c\0\0\0\5\0\2\xff\xff\0",
        b"\0\1\0\x0c\0\0\0\5\0\0",
        b"\0\1\0\x0c\0\0\0\5\0\0\1\0\x7f",
        b"\0\1\0\x0c\0\0\0\5\0\0\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_header_that_is_none_is_a_wire_error(raw: bytes) -> None:
    with pytest.raises(WireError):
        read_request_header(raw)


def test_a_header_does_not_reach_into_the_next_frame() -> None:
    raw = b"\0\1\0\x04\0\0\0\5\0\5ab" + b"cdefgh"
    with pytest.raises(WireError):
        read_request_header(raw, 0, 12)


@given(st.binary(max_size=60))
def test_random_bytes_have_a_header_or_are_a_wire_error(raw: bytes) -> None:
    try:
        _, position = read_request_header(raw)
    except WireError:
        return
    assert position <= len(raw)


def test_a_short_response_is_a_wire_error() -> None:
    for raw in (b"", b"\0\0\0", b"\0\0\0\1"):
        with pytest.raises(WireError):
            read_response_header(raw, 1, 12)


def test_frames_come_out_however_the_bytes_came_in() -> None:
    rng = random.Random(3)
    frames = [rng.randbytes(rng.randrange(200)) for _ in range(50)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    reader = FrameReader(200)
    found = []
    while stream:
        size = rng.randrange(1, 90)
        reader.feed(stream[:size])
        stream = stream[size:]
        while (frame := reader.take()) is not None:
            found.append(frame)
    assert found == frames
    assert repr(reader) == "<FrameReader pending=0 max=200>"


@pytest.mark.parametrize("seed", range(5))
def test_frames_of_any_size_are_received_in_pieces_of_any_size(seed: int) -> None:
    rng = random.Random(seed)
    frames = [rng.randbytes(rng.choice((0, 7, 3000, 60_000, 65_532, 65_533, 200_000))) for _ in range(40)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    reader = FrameReader(1 << 20)
    found: list[bytes] = []
    while stream:
        room = reader.room()
        assert len(room) > 0
        size = min(len(room), rng.choice((1, 3, 70, 5000, 300_000)))
        size = min(size, len(stream))
        room[:size] = stream[:size]
        stream = stream[size:]
        reader.received(size)
        while (frame := reader.take()) is not None:
            found.append(bytes(frame))
    assert found == frames


def test_a_large_frame_lies_in_memory_that_is_given_back_when_it_was_taken() -> None:
    lent, back = [], []

    class Memory:
        def take(self, size: int) -> memoryview:
            lent.append(memoryview(bytearray(size + 100)))
            return lent[-1]

        def retire(self, buffer: memoryview) -> None:
            back.append(buffer)

    reader = FrameReader(1 << 20, Memory())
    reader.feed((200_000).to_bytes(4, "big") + b"x" * 150_000)
    assert reader.take() is None
    assert (len(lent), back) == (1, [])
    reader.feed(b"x" * 50_000 + (3).to_bytes(4, "big") + b"abc")
    frame = reader.take()
    assert isinstance(frame, memoryview)
    assert frame.obj is lent[0].obj
    assert bytes(frame) == b"x" * 200_000
    assert back == lent
    assert reader.take() == b"abc"


@pytest.mark.parametrize("length", [-1, -(1 << 31), 101, 0x47455420])
def test_a_frame_of_a_senseless_length_is_a_wire_error(length: int) -> None:
    reader = FrameReader(100)
    reader.feed(length.to_bytes(4, "big", signed=True))
    with pytest.raises(WireError, match="a frame claims"):
        reader.take()
