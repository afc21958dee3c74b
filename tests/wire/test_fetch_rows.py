"""Fetches read from their bytes say what the decoder says of them; answers have the encoder's bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.frames import frame
from tests.wire.fetches import damaged, framed, ids, int32, int64, named, topic_of

from barnabas.errors import WireError
from barnabas.model import Uuid
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.plane.fetch_asked import Asked, FetchFrames, FetchWriter, Terms
from barnabas.wire.plane.fetch_told import Extra, FetchAnswer, HeardRows, write_fetch_answer
from barnabas.wire.plane.objects import asked_by, response_of
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

VERSIONS = range(4, 19)
MOST = 1 << 20
names = st.text(st.characters(codec="utf-8"), max_size=60)
asked = named(topic=names, topic_id=ids)
forgotten = st.lists(
    st.builds(ForgottenTopic, topic=names, topic_id=ids, partitions=st.lists(int32, max_size=3)), max_size=2
)


def fetch(version: int, epoch: int, topics: list[FetchTopic], **more: Any) -> FetchRequest:
    """Return what such a request of that version can say."""
    session = {"session_id": 9, "session_epoch": epoch} if version >= 7 else {}
    request = FetchRequest(**{"max_wait_ms": 500, "min_bytes": 1, "topics": topics, **session, **more})
    if version < 12:
        for topic in topics:
            for row in topic.partitions:
                row.last_fetched_epoch = -1
    return request


def decoded(data: memoryview) -> tuple[Terms, Asked]:
    """Return what the decoder reads of a frame without its length; the way without compiled or plain rows."""
    header, body = read_request_header(data)
    request, end = decode(FetchRequest, data, header.version, body)
    assert end == len(data)
    return asked_by(header, request)


def read(frames: FetchFrames, data: memoryview) -> tuple[Terms, Asked] | None:
    """Return what is read of a frame by one who has read others before."""
    found = frames.read(data, 0, len(data)) or frames.learn(data)
    return None if found is None or frames.terms is None else (frames.terms, found)


@given(st.sampled_from(VERSIONS), st.lists(asked, min_size=1, max_size=3), st.data())
def test_rows_are_what_the_decoder_reads(version: int, several: list[list[FetchTopic]], data: Any) -> None:
    frames = FetchFrames(MOST)
    for topics in several:
        more: dict[str, Any] = {}
        if version >= 7 and data.draw(st.booleans()):
            more["forgotten_topics_data"] = data.draw(forgotten)
        if version >= 11:
            more["rack_id"] = data.draw(st.sampled_from(("", "rack", "übung")))
        if version >= 15 and data.draw(st.booleans()):
            more["replica_state"] = ReplicaState(replica_id=2, replica_epoch=data.draw(int64))
        elif version < 15:
            more["replica_id"] = data.draw(st.sampled_from((-1, 2)))
        good = framed(fetch(version, data.draw(int32), topics, **more), version, data.draw(int32))
        assert read(frames, good) == decoded(good)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_bytes_are_read_as_the_decoder_reads_them_or_not_at_all(
    version: int, partitions: int
) -> None:
    more: dict[str, Any] = {"rack_id": "r"} if version >= 11 else {}
    good = framed(fetch(version, 5, topic_of(partitions), **more), version)
    frames = FetchFrames(MOST)
    assert read(frames, good) is not None
    for end in range(len(good)):
        assert read(frames, good[:end]) is None, end
    plain = 0
    for place, bad in damaged(good):
        found = read(frames, bad)
        if found is not None:
            plain += 1
            assert found == decoded(bad), place
        assert read(frames, good) == decoded(good), "and nothing is left of it"
    assert plain > 100


@pytest.mark.parametrize("version", [4, 7, 11, 12, 18])
def test_the_next_one_on_the_same_terms_is_known_by_its_bytes(version: int) -> None:
    frames = FetchFrames(MOST)
    first = framed(fetch(version, 1, topic_of(1)), version)
    assert frames.learn(first) is not None
    terms = frames.terms
    for partitions in (1, 2, 3):
        data = framed(fetch(version, 2, topic_of(partitions)), version, 77)
        found = frames.read(data, 0, len(data))
        assert found == decoded(data)[1] and frames.terms is terms


@pytest.mark.parametrize(
    "change",
    [
        {"max_wait_ms": 0},
        {"min_bytes": 2},
        {"max_bytes": 7},
        {"isolation_level": 1},
        {"session_id": 10},
        {"rack_id": "r"},
        {"replica_state": ReplicaState(replica_id=3, replica_epoch=77)},
        {"forgotten_topics_data": [ForgottenTopic(topic="t", partitions=[1])]},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("version", [11, 12, 18])
def test_one_that_differs_in_anything_else_is_read_anew(version: int, change: dict[str, Any]) -> None:
    if version < 15 and "replica_state" in change:
        change = {"replica_id": 3}
    frames = FetchFrames(MOST)
    frames.learn(framed(fetch(version, 1, []), version))
    data = framed(fetch(version, 2, [], **change), version)
    assert frames.read(data, 0, len(data)) is None
    assert read(frames, data) == decoded(data)


def test_another_client_or_version_is_read_anew() -> None:
    frames = FetchFrames(MOST)
    frames.learn(framed(fetch(11, 1, []), 11))
    for data in (frame(fetch(11, 1, []), 11, client_id="tess"), frame(fetch(10, 1, []), 10)):
        assert frames.read(memoryview(data)[4:], 0, len(data) - 4) is None


def test_one_that_is_not_plain_is_left_to_the_decoder() -> None:
    tagged = [FetchTopic(partitions=[FetchPartition(high_watermark=5)])]
    assert FetchFrames(MOST).learn(framed(fetch(18, 1, tagged), 18)) is None
    assert FetchFrames(MOST).learn(framed(fetch(18, 1, [], cluster_id="c"), 18)) is None
    assert FetchFrames(20).learn(framed(fetch(18, 1, []), 18)) is None
    assert FetchFrames(MOST).learn(framed(fetch(18, 1, []), 18)[:-1]) is None


# ---- a follower's --------------------------------------------------------------------------------------


@given(
    st.sampled_from(range(13, 19)),
    st.dictionaries(
        ids, st.lists(st.tuples(int32, int32, int64, int32, int64, int32), min_size=1), max_size=3
    ),
    int32,
    int32,
)
def test_what_is_written_has_the_bytes_that_the_encoder_makes(
    version: int, topics: dict[Uuid, list[tuple[int, ...]]], correlation: int, epoch: int
) -> None:
    state = {"replica_state": ReplicaState(replica_id=2, replica_epoch=77)} if version >= 15 else {}
    writer = FetchWriter(framed(fetch(version, 1, topic_of(2), **state), version))
    rows = [(bytes(topic), *row) for topic, every in topics.items() for row in every]
    written = writer.write(correlation, epoch, rows)  # type: ignore[arg-type]
    made = [
        FetchTopic(
            topic_id=topic,
            partitions=[
                FetchPartition(
                    partition=row[0],
                    current_leader_epoch=row[1],
                    fetch_offset=row[2],
                    last_fetched_epoch=row[3],
                    log_start_offset=row[4],
                    partition_max_bytes=row[5],
                )
                for row in every
            ],
        )
        for topic, every in topics.items()
    ]
    assert written == frame(fetch(version, epoch, made, **state), version, correlation)


@pytest.mark.parametrize(
    "request_",
    [
        fetch(18, 1, [FetchTopic(partitions=[FetchPartition(replica_directory_id=Uuid(b"d" * 16))])]),
        fetch(18, 1, [], forgotten_topics_data=[ForgottenTopic(partitions=[1])]),
    ],
    ids=["a tagged field", "a topic forgotten"],
)
def test_the_like_of_one_that_is_not_plain_cannot_be_written(request_: FetchRequest) -> None:
    with pytest.raises(WireError):
        FetchWriter(framed(request_, 18))


# ---- answers -------------------------------------------------------------------------------------------

extras = st.none() | st.builds(
    Extra, st.none() | st.tuples(int32, int64), st.none() | st.tuples(int32, int32)
)
aborted = st.none() | st.lists(st.tuples(int64, int64), max_size=3)


def told_rows(version: int) -> st.SearchStrategy[Any]:
    """Draw rows as far as this version can carry them."""
    return st.lists(
        st.tuples(
            int32,
            st.sampled_from((0, 0, 0, 6)),
            int64,
            int64,
            int64 if version >= 5 else st.just(-1),
            aborted,
            st.sampled_from((-1, -1, 3)) if version >= 11 else st.just(-1),
            st.binary(max_size=300),
            extras if version >= 12 else st.none(),
        ),
        min_size=1,
        max_size=3,
    )


@given(st.sampled_from(VERSIONS), st.data())
def test_an_answer_has_the_bytes_that_the_encoder_makes(version: int, data: Any) -> None:
    keys = ids.map(bytes) if version >= 13 else names.map(str.encode)
    answer = FetchAnswer(
        data.draw(int32) if version >= 7 else 0,
        data.draw(st.dictionaries(keys, told_rows(version), max_size=3)),
        data.draw(st.sampled_from((0, 0, 70))) if version >= 7 else 0,
        data.draw(st.sampled_from(((), ((2, "host", 9092, None),)))) if version >= 16 else (),
        data.draw(st.sampled_from((0, 0, 5))),
    )
    expected: list[Any] = []
    size = write_response(expected, 7, 1, version, response_of(version, answer))
    parts: list[Any] = []
    assert write_fetch_answer(parts, 7, version, answer) == size
    assert b"".join(parts) == b"".join(expected)


plain_rows = st.builds(
    PartitionData,
    partition_index=int32,
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    aborted_transactions=st.none(),
    records=st.binary(max_size=300),
)


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
        shape = HeardRows(9)
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
    shape = HeardRows(9)
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


@given(st.sampled_from(range(13, 19)), st.dictionaries(ids, st.lists(plain_rows, max_size=4), max_size=3))
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
    assert HeardRows(8).read(answered([], 17), 7) is None
    assert HeardRows(9).read(answered([], 17), 6) is None
    shape = HeardRows(9)
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
