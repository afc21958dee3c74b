"""What controllers say to each other survives the way over the wire, in every version that can say it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, ZERO_UUID, Endpoint, ReplicaKey, Uuid
from barnabas.raft import messages as raft
from barnabas.raft.entries import Batch, EpochEnd, KraftVersionEntry, LeaderChange, Opaque, SnapshotId
from barnabas.raft.membership.generation import UNKNOWN
from barnabas.raft.value import altered
from barnabas.raft.voters import VersionRange
from barnabas.server.kraft.codec.answering import request_in, response_out
from barnabas.server.kraft.codec.asking import request_out, response_in
from barnabas.server.kraft.records import encode_batch, metadata_of
from barnabas.server.kraft.transfer import take_in_steps
from barnabas.wire.codec.message import Message, decode, encode, replace
from barnabas.wire.metadata import PartitionRecord, TopicRecord
from barnabas.wire.registry import response_class
from barnabas.wire.schemas.quorum import (
    DescribeQuorumRequest,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
)

DISK, OTHER = Uuid(b"d" * 16), Uuid(b"e" * 16)
ME, YOU = ReplicaKey(1, DISK), ReplicaKey(2, OTHER)
HERE = (Endpoint("CONTROLLER", "10.0.0.1", 9093),)
THERE = (Endpoint("CONTROLLER", "10.0.0.2", 9093),)
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
ORIGIN = Uuid(b"o" * 16)

REQUESTS: list[raft.Request] = [
    raft.VoteRequest(5, ME, 4, 77, True, YOU, CLUSTER),
    raft.VoteRequest(5, ME, 4, 77, False, None, None),
    raft.BeginQuorumEpochRequest(5, 1, HERE, YOU, CLUSTER),
    raft.EndQuorumEpochRequest(5, 1, (YOU, ReplicaKey(3, DISK)), HERE, CLUSTER),
    raft.FetchRequest(5, ME, 77, 4, 70, 0.5, 1 << 20, CLUSTER),
    raft.FetchRequest(5, ME, 77, 4, raft.HIGH_WATERMARK_NOT_SUPPORTED, 0.0, 10, None),
    raft.FetchSnapshotRequest(5, ME, SnapshotId(70, 4), 1024, 1 << 20, CLUSTER),
    raft.UpdateVoterRequest(5, ME, HERE, VersionRange(0, 1), CLUSTER),
    raft.AddVoterRequest(ME, HERE, 2.0, False, CLUSTER),
    raft.RemoveVoterRequest(ME, CLUSTER),
    raft.FetchRequest(5, ME, 77, 4, 70, 0.5, 1 << 20, CLUSTER, can_vote=False),
]


def _always(version: int, kind: type[Message]) -> int:
    return version


def versions(request: raft.Request) -> list[int]:
    kind = request_out(request, lambda kind: kind.VERSIONS[1])[0]
    first, last = kind.VERSIONS
    return list(range(max(first, 12) if isinstance(request, raft.FetchRequest) else first, last + 1))


def without_what_it_lacks(request: Any, version: int) -> Any:
    """The request as the receiver of an old version must understand it."""
    if isinstance(request, raft.VoteRequest) and version == 0:
        return altered(request, voter=None, candidate=ReplicaKey(request.candidate.id, ZERO_UUID))
    if isinstance(request, raft.BeginQuorumEpochRequest) and version == 0:
        return altered(request, voter=None, endpoints=(), generation=UNKNOWN)
    if isinstance(request, raft.EndQuorumEpochRequest) and version == 0:
        nameless = tuple(ReplicaKey(key.id, ZERO_UUID) for key in request.successors)
        return altered(request, successors=nameless, endpoints=(), generation=UNKNOWN)
    if isinstance(request, raft.FetchRequest):
        key = request.replica if version >= 17 else ReplicaKey(request.replica.id, ZERO_UUID)
        known = request.high_watermark if version >= 18 else raft.HIGH_WATERMARK_NOT_SUPPORTED
        return altered(request, replica=key, high_watermark=known)
    if isinstance(request, raft.FetchSnapshotRequest) and version == 0:
        return altered(request, replica=ReplicaKey(request.replica.id, ZERO_UUID))
    if isinstance(request, raft.AddVoterRequest) and version == 0:
        return altered(request, ack_when_committed=True)
    return request


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_a_request_arrives_as_it_was_meant_in_every_version(request_: raft.Request) -> None:
    for version in versions(request_):
        if isinstance(request_, raft.VoteRequest) and request_.pre_vote and version < 2:
            with pytest.raises(KafkaError) as caught:
                request_out(request_, partial(_always, version))
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION, "then the sender stands at once"
            continue
        message, _ = request_out(request_, partial(_always, version))
        sent = encode(message, version)
        arrived, end = decode(type(message), sent, version)
        assert end == len(sent)
        understood = request_in(arrived, version, "CONTROLLER")
        assert understood == without_what_it_lacks(request_, version), version


def there_and_back(response: raft.Response, asked: Message, version: int, data: bytes = b"") -> Any:
    answer = response_out(response, asked, version, "CONTROLLER", data)
    key = asked.KEY
    assert key is not None and isinstance(answer, response_class(key))
    arrived, _ = decode(type(answer), encode(answer, version), version)
    return response_in(arrived, "CONTROLLER")


ANSWERS: list[tuple[raft.Request, raft.Response, int]] = [
    (REQUESTS[0], raft.VoteResponse(ErrorCode.NONE, 5, 2, True, THERE), 1),
    (REQUESTS[0], raft.VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, 6, -1, False), 0),
    (REQUESTS[2], raft.BeginQuorumEpochResponse(ErrorCode.INVALID_VOTER_KEY, 5, 2, THERE), 1),
    (REQUESTS[3], raft.EndQuorumEpochResponse(ErrorCode.NONE, 5, 2, THERE), 1),
    (REQUESTS[7], raft.UpdateVoterResponse(ErrorCode.NONE, 5, 2, THERE), 0),
    (REQUESTS[8], raft.ChangeResponse(ErrorCode.REQUEST_TIMED_OUT, "2 lags 7 records behind"), 0),
    (REQUESTS[9], raft.ChangeResponse(ErrorCode.NONE, None), 0),
    (
        REQUESTS[4],
        raft.FetchResponse(ErrorCode.NONE, 5, 2, THERE, 70, 3, EpochEnd(4, 60), SnapshotId(50, 3)),
        16,
    ),
]


@pytest.mark.parametrize(("request_", "response", "since"), ANSWERS, ids=lambda v: type(v).__name__)
def test_an_answer_arrives_as_it_was_meant(
    request_: raft.Request, response: raft.Response, since: int
) -> None:
    message, latest = request_out(request_, lambda kind: kind.VERSIONS[1])
    for version in range(since, latest + 1):
        assert there_and_back(response, message, version) == response


def test_records_arrive_as_batches_and_a_wrong_crc_takes_nothing() -> None:
    batches = [
        Batch(7, 5, (LeaderChange(1, (1, 2, 3), (1, 2)), KraftVersionEntry(1))),
    ]
    data = b"".join(bytes(encode_batch(batch, timestamp_ms=1)) for batch in batches)
    message, version = request_out(REQUESTS[4], lambda kind: kind.VERSIONS[1])
    arrived = there_and_back(raft.FetchResponse(ErrorCode.NONE, 5, 1, HERE, 7, 0), message, version, data)
    assert [(b.base_offset, b.epoch, b.entries) for b in arrived.batches] == [
        (b.base_offset, b.epoch, b.entries) for b in batches
    ]
    broken = bytearray(data)
    broken[-1] ^= 1
    with pytest.raises(Exception, match="wrong CRC"):
        there_and_back(raft.FetchResponse(ErrorCode.NONE, 5, 1, HERE, 7, 0), message, version, bytes(broken))
    assert not any(isinstance(entry, Opaque) for entry in arrived.batches[0].entries)


def test_a_piece_of_a_snapshot_arrives_with_its_place() -> None:
    message, version = request_out(REQUESTS[6], lambda kind: kind.VERSIONS[1])
    response = raft.FetchSnapshotResponse(ErrorCode.NONE, 5, 2, THERE, SnapshotId(70, 4), 2048, 1024)
    arrived = there_and_back(response, message, version, b"piece")
    assert arrived == altered(response, data=b"piece", length=5)


def test_another_cluster_is_said_about_the_whole_request() -> None:
    message, version = request_out(REQUESTS[0], lambda kind: kind.VERSIONS[1])
    answer = response_out(
        raft.VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID, 5), message, version, "CONTROLLER"
    )
    assert isinstance(answer, VoteResponse)
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID and answer.topics == []
    with pytest.raises(KafkaError) as caught:
        response_in(answer, "CONTROLLER")
    assert caught.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize(("topic", "partition"), [("flights", 0), (METADATA_TOPIC, 1)])
def test_another_partition_is_refused(topic: str, partition: int) -> None:
    data = VoteRequestPartitionData(partition_index=partition)
    message = VoteRequest(topics=[VoteRequestTopicData(topic_name=topic, partitions=[data])])
    with pytest.raises(KafkaError) as caught:
        request_in(message, 2, "CONTROLLER")
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError):
        request_in(VoteRequest(), 2, "CONTROLLER")
    with pytest.raises(KafkaError):
        request_in(DescribeQuorumRequest(), 2, "CONTROLLER")


def test_the_generation_of_the_quorum_travels_both_ways_and_kafka_says_none() -> None:
    vote = altered(REQUESTS[0], generation=3)
    message, version = request_out(vote, lambda kind: kind.VERSIONS[1])
    arrived, _ = decode(type(message), encode(message, version), version)
    assert request_in(arrived, version, "CONTROLLER").generation == 3  # type: ignore[union-attr]
    kafkas = decode(type(message), encode(replace(message, incarnation=UNKNOWN), version), version)[0]
    assert request_in(kafkas, version, "CONTROLLER").generation == UNKNOWN  # type: ignore[union-attr]
    answer = raft.VoteResponse(ErrorCode.NONE, 5, 2, True, THERE, generation=3)
    assert there_and_back(answer, message, version) == answer


@pytest.mark.parametrize("request_", REQUESTS[:5], ids=lambda r: type(r).__name__)
def test_a_request_says_which_quorum_it_is_of(request_: raft.Request) -> None:
    asked = altered(request_, origin=ORIGIN)
    message, version = request_out(asked, lambda kind: kind.VERSIONS[1])
    arrived, _ = decode(type(message), encode(message, version), version)
    assert request_in(arrived, version, "CONTROLLER").origin == ORIGIN  # type: ignore[union-attr]


@pytest.mark.parametrize("row", [0, 2, 3, 7])
def test_an_answer_says_which_quorum_it_is_of(row: int) -> None:
    asked, answer, _ = ANSWERS[row]
    message, version = request_out(asked, lambda kind: kind.VERSIONS[1])
    signed = altered(answer, origin=ORIGIN)  # type: ignore[type-var]
    assert there_and_back(signed, message, version) == signed


def test_each_record_of_a_fetch_is_a_step() -> None:
    topic = TopicRecord(name="t", topic_id=Uuid(b"t" * 16))
    records = (topic, *(PartitionRecord(partition_id=n, topic_id=topic.topic_id) for n in range(99)))
    data = encode_batch(Batch(7, 3, (Opaque(records, len(records)),)), timestamp_ms=1)
    steps = take_in_steps(data)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            [batch] = end.value
            break
        count += 1
    assert count == len(records)
    assert metadata_of(batch) == list(records)
