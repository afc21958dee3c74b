"""A consumer's fetch read from its bytes says what the decoder says; its answer has the encoder's bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frames import frame
from tests.wire.fetches import answers, damaged, framed, ids, int32, int64, named, said, topic_of

from barnabas.errors import WireError
from barnabas.model import ZERO_UUID, Uuid
from barnabas.wire.codec.message import decode, encode
from barnabas.wire.consumer_fetch import (
    ConsumerAnswer,
    ConsumerShape,
    ReadRow,
    response_of,
    topic_bytes,
    write_consumer_answer,
)
from barnabas.wire.consumer_fetch import topic_of as key_of
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.schemas.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

VERSIONS = range(4, 19)
MOST = 1 << 20
names = st.text(st.characters(codec="utf-8"), max_size=60).map(lambda name: name[:60])
asked = named(topic=names, topic_id=ids)
aborted = st.builds(AbortedTransaction, producer_id=int64, first_offset=int64)
rows = answers(st.none() | st.lists(aborted, max_size=3))


def fetch(version: int, epoch: int, topics: list[FetchTopic], **more: Any) -> FetchRequest:
    """What such a request of that version can say."""
    session = {"session_id": 9, "session_epoch": epoch} if version >= 7 else {}
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics, **session, **more)
    if version < 12:
        for topic in topics:
            for row in topic.partitions:
                row.last_fetched_epoch = -1
    return request


@given(st.sampled_from(VERSIONS), asked, asked, int32, int32)
def test_what_is_read_is_what_was_asked(
    version: int, first: list[FetchTopic], second: list[FetchTopic], correlation: int, epoch: int
) -> None:
    shape = ConsumerShape(framed(fetch(version, 1, first), version), MOST)
    request = fetch(version, epoch, second)
    around = b"before" + framed(request, version, correlation) + b"after"
    plain = shape.read(memoryview(around), 6, len(around) - 5)
    written = memoryview(bytearray(encode(request, version)))
    again, _ = decode(FetchRequest, written, version)  # older versions cannot say everything
    assert plain == (correlation, epoch if version >= 7 else -1, said(again.topics, version))


@pytest.mark.parametrize("version", [11, 12, 18])
@pytest.mark.parametrize(
    "change",
    [
        {"max_wait_ms": 0},
        {"min_bytes": 2},
        {"max_bytes": 7},
        {"isolation_level": 1},
        {"session_id": 10},
        {"rack_id": "r"},
        {"forgotten_topics_data": [ForgottenTopic(topic="t", partitions=[1])]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_fetch_that_differs_in_anything_else_is_left_to_the_decoder(
    version: int, change: dict[str, Any]
) -> None:
    shape = ConsumerShape(framed(fetch(version, 1, []), version), MOST)
    other = fetch(version, 2, [])
    for name, value in change.items():
        setattr(other, name, value)
    data = framed(other, version)
    assert shape.read(data, 0, len(data)) is None


def test_another_client_or_version_is_left_to_the_decoder() -> None:
    shape = ConsumerShape(framed(fetch(11, 1, []), 11), MOST)
    for data in (frame(fetch(11, 1, []), 11, client_id="tess"), frame(fetch(10, 1, []), 10)):
        assert shape.read(memoryview(data)[4:], 0, len(data) - 4) is None


@pytest.mark.parametrize("version", [7, 11, 12, 18])
def test_a_fetch_that_is_not_plain_teaches_nothing(version: int) -> None:
    forgets = fetch(version, 1, [], forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[1])])
    with pytest.raises(WireError, match="forgets"):
        ConsumerShape(framed(forgets, version), MOST)
    with pytest.raises(WireError, match="bytes"):
        ConsumerShape(framed(fetch(version, 1, []), version), 20)


def test_a_row_with_tagged_fields_is_left_to_the_decoder() -> None:
    tagged = fetch(18, 1, [FetchTopic(partitions=[FetchPartition(high_watermark=5)])])
    with pytest.raises(WireError, match="not plain"):
        ConsumerShape(framed(tagged, 18), MOST)
    data = framed(tagged, 18)
    assert ConsumerShape(framed(fetch(18, 1, []), 18), MOST).read(data, 0, len(data)) is None


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_bytes_are_read_as_the_decoder_reads_them_or_not_at_all(
    version: int, partitions: int
) -> None:
    request = fetch(version, 5, topic_of(partitions))
    good = framed(request, version)
    shape = ConsumerShape(good, MOST)
    assert shape.read(good, 0, len(good)) is not None
    for end in range(len(good)):
        assert shape.read(good, 0, end) is None, end
    read = 0
    for place, bad in damaged(good):
        plain = shape.read(bad, 0, len(bad))
        if plain is None or any(key_of(version, row[0]) is None for row in plain.rows):
            continue
        read += 1
        header, body = read_request_header(bad)
        again, stop = decode(FetchRequest, bad, header.version, body)
        assert stop == len(bad)
        assert plain == (header.correlation_id, again.session_epoch, said(again.topics, version)), place
        again.session_epoch, again.topics = request.session_epoch, []
        assert encode(again, version) == encode(fetch(version, 5, []), version), place
    assert read > 100


@pytest.mark.parametrize("version", [11, 12])
def test_a_name_that_is_written_otherwise_than_the_encoder_does_is_left_to_the_decoder(version: int) -> None:
    assert key_of(version, topic_bytes(version, "übung")) == "übung"
    assert key_of(version, topic_bytes(version, "t" * 249)) == "t" * 249
    assert key_of(version, topic_bytes(version, "")) == ""
    assert key_of(version, topic_bytes(version, "t") + b"\xff") is None
    assert key_of(version, topic_bytes(version, "t") + b"x") is None
    if version == 12:
        assert key_of(version, b"\x82\x00t") is None  # the length in two bytes


@given(
    st.sampled_from(VERSIONS),
    st.dictionaries(names, st.lists(rows, min_size=1, max_size=4), max_size=3),
    int32,
)
def test_an_answer_has_the_bytes_that_the_encoder_makes(
    version: int, topics: dict[str, list[PartitionData]], session: int
) -> None:
    named = {name: Uuid(name.encode().ljust(16)[:16]) if version >= 13 else ZERO_UUID for name in topics}
    made = [
        FetchableTopicResponse(topic=name, topic_id=named[name], partitions=found)
        for name, found in topics.items()
    ]
    answer = FetchResponse(session_id=session if version >= 7 else 0, responses=made)
    expected: list[Any] = []
    size = write_response(expected, 7, 1, version, answer)
    plain: dict[bytes, list[ReadRow]] = {}
    for name, found in topics.items():
        key = topic_bytes(version, named[name] if version >= 13 else name)
        if key in plain:
            return  # two ids in one
        plain[key] = [
            (
                row.partition_index,
                row.high_watermark,
                row.last_stable_offset,
                row.log_start_offset,
                None
                if row.aborted_transactions is None
                else [(one.producer_id, one.first_offset) for one in row.aborted_transactions],
                row.records or b"",
            )
            for row in found
        ]
    parts: list[Any] = []
    assert write_consumer_answer(parts, 7, version, ConsumerAnswer(answer.session_id, plain)) == size
    assert b"".join(parts) == b"".join(expected)
    again: list[Any] = []
    write_response(again, 7, 1, version, response_of(version, ConsumerAnswer(answer.session_id, plain)))
    assert b"".join(again) == b"".join(expected)
