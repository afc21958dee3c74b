"""A follower's fetch read from its bytes says what the decoder says; its answer has the encoder's bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frames import frame
from tests.wire.fetches import answers, damaged, framed, ids, int32, named, positions, said, topic_of

from barnabas.errors import WireError
from barnabas.model import Uuid
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.replica_fetch import (
    AnswerShape,
    FetchedRow,
    FetchShape,
    PlainAnswer,
    write_plain_answer,
)
from barnabas.wire.schemas.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)

VERSIONS = range(15, 19)
asked = named(topic_id=ids)
rows = answers(st.none())


def fetch(epoch: int, topics: list[FetchTopic], **more: Any) -> FetchRequest:
    state = ReplicaState(replica_id=2, replica_epoch=77)
    return FetchRequest(
        replica_state=state, max_wait_ms=500, session_id=9, session_epoch=epoch, topics=topics, **more
    )


@given(st.sampled_from(VERSIONS), asked, asked, int32, int32)
def test_what_is_read_is_what_was_asked(
    version: int, first: list[FetchTopic], second: list[FetchTopic], correlation: int, epoch: int
) -> None:
    shape = FetchShape(framed(fetch(1, first), version))
    around = b"before" + framed(fetch(epoch, second), version, correlation) + b"after"
    plain = shape.read(memoryview(around), 6, len(around) - 5)
    assert plain == (correlation, epoch, said(second, version))


@given(
    st.sampled_from(VERSIONS),
    asked,
    st.dictionaries(ids, st.lists(positions, min_size=1, max_size=4), max_size=3),
    int32,
    int32,
)
def test_what_is_written_has_the_bytes_that_the_encoder_makes(
    version: int,
    first: list[FetchTopic],
    second: dict[Uuid, list[FetchPartition]],
    correlation: int,
    epoch: int,
) -> None:
    shape = FetchShape(framed(fetch(1, first), version))
    topics = [FetchTopic(topic_id=topic, partitions=places) for topic, places in second.items()]
    rows = [FetchedRow(*row) for row in said(topics, version)]
    assert shape.write(correlation, epoch, rows) == frame(fetch(epoch, topics), version, correlation)


@pytest.mark.parametrize(
    "change",
    [
        {"max_wait_ms": 0},
        {"session_id": 10},
        {"rack_id": "r"},
        {"replica_state": ReplicaState(replica_id=3, replica_epoch=77)},
        {"forgotten_topics_data": [ForgottenTopic(topic_id=Uuid(bytes(16)), partitions=[1])]},
        {"topics": [FetchTopic(partitions=[FetchPartition(high_watermark=5)])]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_fetch_that_differs_in_anything_else_is_left_to_the_decoder(change: dict[str, Any]) -> None:
    shape = FetchShape(framed(fetch(1, []), 18))
    other = fetch(2, [])
    for name, value in change.items():
        setattr(other, name, value)
    data = framed(other, 18)
    assert shape.read(data, 0, len(data)) is None


@pytest.mark.parametrize(
    "request_",
    [
        fetch(1, [FetchTopic(partitions=[FetchPartition(replica_directory_id=Uuid(b"d" * 16))])]),
        fetch(1, [], forgotten_topics_data=[ForgottenTopic(partitions=[1])]),
    ],
    ids=["a tagged field", "a topic forgotten"],
)
def test_a_fetch_that_is_not_plain_teaches_nothing(request_: FetchRequest) -> None:
    with pytest.raises(WireError):
        FetchShape(framed(request_, 18))


@pytest.mark.parametrize("partitions", [1, 2])
def test_damaged_bytes_are_read_as_the_decoder_reads_them_or_not_at_all(partitions: int) -> None:
    topics = [FetchTopic(topic_id=one.topic_id, partitions=one.partitions) for one in topic_of(partitions)]
    good = framed(fetch(5, topics), 18)
    shape = FetchShape(good)
    assert shape.read(good, 0, len(good)) is not None
    for end in range(len(good)):
        assert shape.read(good, 0, end) is None, end
    read = 0
    for place, bad in damaged(good):
        plain = shape.read(bad, 0, len(bad))
        if plain is None:
            continue
        read += 1
        header, body = read_request_header(bad)
        decoded, stop = decode(FetchRequest, bad, header.version, body)
        assert stop == len(bad)
        assert plain == (header.correlation_id, decoded.session_epoch, said(decoded.topics, 18)), place
        decoded.session_epoch, decoded.topics = 5, topics
        assert decoded == fetch(5, topics), place
    assert read > 100


@given(st.sampled_from(VERSIONS), st.dictionaries(ids, st.lists(rows, min_size=1, max_size=4), max_size=3))
def test_an_answer_has_the_bytes_that_the_encoder_makes(
    version: int, topics: dict[Uuid, list[PartitionData]]
) -> None:
    made = [FetchableTopicResponse(topic_id=topic, partitions=found) for topic, found in topics.items()]
    expected: list[Any] = []
    size = write_response(expected, 7, 1, version, FetchResponse(session_id=9, responses=made))
    plain = {
        bytes(topic): [
            (r.partition_index, r.high_watermark, r.last_stable_offset, r.log_start_offset, r.records or b"")
            for r in found
        ]
        for topic, found in topics.items()
    }
    parts: list[Any] = []
    assert write_plain_answer(parts, 7, PlainAnswer(9, plain)) == size
    assert b"".join(parts) == b"".join(expected)


def answered(topics: list[FetchableTopicResponse], version: int, **more: Any) -> bytes:
    """The frame of an answer, without its length."""
    parts: list[Any] = []
    write_response(parts, 7, 1, version, FetchResponse(session_id=9, responses=topics, **more))
    return b"".join(parts)[4:]


def told(topics: list[FetchableTopicResponse]) -> list[tuple[Any, ...]]:
    return [
        (
            bytes(topic.topic_id),
            r.partition_index,
            r.high_watermark,
            r.log_start_offset,
            bytes(r.records or b""),
        )
        for topic in topics
        for r in topic.partitions
    ]


def plainly(frame: bytes | memoryview) -> list[tuple[Any, ...]] | None:
    """What this answer says: the same to those who have read others of their session before, or it."""
    said = []
    for before in ([], [frame], [ONE], [ONE, frame, ONE]):
        shape = AnswerShape(9)
        for one in before:
            shape.read(one, 7)
        found = shape.read(frame, 7)
        said.append(None if found is None else [(*row[:4], bytes(row.records)) for row in found])
    assert all(one == said[0] for one in said)
    return said[0]


ONE = answered(
    [
        FetchableTopicResponse(
            topic_id=Uuid(b"t" * 16),
            partitions=[PartitionData(high_watermark=5, last_stable_offset=4, records=b"r" * 70)],
        )
    ],
    17,
)
"""Of one partition."""


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 3_000_000])
def test_the_next_answer_of_the_same_partition_says_what_it_said(size: int) -> None:
    shape = AnswerShape(9)
    for number in range(3):
        row = PartitionData(
            high_watermark=number,
            log_start_offset=number,
            records=b"r" * size,
            aborted_transactions=[] if number % 2 else None,
        )
        made = [FetchableTopicResponse(topic_id=Uuid(b"t" * 16), partitions=[row])]
        found = shape.read(answered(made, 17), 7)
        assert found is not None
        assert [(*one[:4], bytes(one.records)) for one in found] == told(made)


@given(st.sampled_from(VERSIONS), st.dictionaries(ids, st.lists(rows, max_size=4), max_size=3))
def test_an_answer_read_from_its_bytes_says_what_it_said(
    version: int, topics: dict[Uuid, list[PartitionData]]
) -> None:
    made = [FetchableTopicResponse(topic_id=topic, partitions=found) for topic, found in topics.items()]
    assert plainly(answered(made, version)) == told(made)


@pytest.mark.parametrize(
    "row",
    [
        {"error_code": 6},
        {"diverging_epoch": EpochEndOffset(epoch=3, end_offset=5)},
        {"current_leader": LeaderIdAndEpoch(leader_id=2, leader_epoch=7)},
        {"aborted_transactions": [AbortedTransaction(producer_id=1, first_offset=2)]},
        {"preferred_read_replica": 3},
    ],
    ids=lambda row: next(iter(row)),
)
def test_an_answer_that_says_more_is_left_to_the_decoder(row: dict[str, Any]) -> None:
    topic = FetchableTopicResponse(topic_id=Uuid(b"t" * 16), partitions=[PartitionData(records=b"", **row)])
    assert plainly(answered([topic], 17)) is None


@pytest.mark.parametrize(
    "more", [{"error_code": 70}, {"throttle_time_ms": 5}], ids=lambda more: next(iter(more))
)
def test_an_answer_that_fails_as_a_whole_is_left_to_the_decoder(more: dict[str, int]) -> None:
    assert plainly(answered([], 17, **more)) is None


def test_an_answer_of_another_session_or_request_is_left_to_the_decoder() -> None:
    assert AnswerShape(8).read(answered([], 17), 7) is None
    assert AnswerShape(9).read(answered([], 17), 6) is None
    shape = AnswerShape(9)
    found = shape.read(ONE, 7)
    assert found is not None and shape.read(ONE, 7) == found
    assert shape.read(ONE, 6) is None
    other = bytearray(ONE)
    other[14] = 8
    assert shape.read(other, 7) is None


@pytest.mark.parametrize("sizes", [(0,), (140,), (0, 140, 280)])
def test_a_damaged_answer_is_read_as_the_decoder_reads_it_or_not_at_all(sizes: tuple[int, ...]) -> None:
    rows = [
        PartitionData(partition_index=n, aborted_transactions=None, records=b"r" * size)
        for n, size in enumerate(sizes)
    ]
    good = answered([FetchableTopicResponse(topic_id=Uuid(b"t" * 16), partitions=rows)], 17)
    for end in range(len(good)):
        assert plainly(good[:end]) is None, end
    read = 0
    for place, bad in damaged(good, 4):
        plain = plainly(bad)
        if plain is None:
            continue
        read += 1
        decoded, stop = decode(FetchResponse, bad, 17, 5)
        assert stop == len(bad)
        assert plain == told(decoded.responses), place
    assert read > 100
