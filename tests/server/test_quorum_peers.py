"""Connections to other controllers: what breaks is told at once, what is silent is not, nothing waits in line."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.controller.cluster import Chance
from tests.patience import PATIENCE_S
from tests.server.quorum_node import until

from barnabas.errors import ErrorCode, NewerReleaseError
from barnabas.model import METADATA_TOPIC, METADATA_TOPIC_ID, Endpoint, ReplicaKey, Uuid
from barnabas.raft import messages as raft
from barnabas.raft.discovery.book import Contact
from barnabas.raft.effects import Send
from barnabas.server.api.table import served_on
from barnabas.server.kraft import peers as quorum_peers
from barnabas.server.kraft.codec.answering import response_out
from barnabas.server.kraft.peers import Peers
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.records import Record, write_batch
from barnabas.wire.registry import request_class
from barnabas.wire.schemas.cluster import (
    ApiVersion,
    ApiVersionsResponse,
    DescribeClusterResponse,
    SupportedFeatureKey,
)
from barnabas.wire.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.wire.schemas.own import ExchangeEndpointsRequest
from barnabas.wire.schemas.quorum import (
    VoteResponse,
    VoteResponseNodeEndpoint,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)

ME = ReplicaKey(1, Uuid(b"d" * 16))
VOTE = raft.VoteRequest(5, ME, 4, 77, True, ReplicaKey(2, Uuid(b"e" * 16)), "cluster")
FETCH = raft.FetchRequest(5, ME, 77, 4)
Answer = Callable[[int], Awaitable[Message | None]]


class Other:
    """Another controller, as its socket shows it.  `answers[key]` gives the answer, None hangs up."""

    def __init__(self) -> None:
        self.answers: dict[int, Answer] = {18: self._versions}
        self.served = {row.key: (row.low, row.high) for row in served_on("C")}
        self.asked: list[int] = []
        self.requests: list[Message] = []
        self.connections = 0
        self.endpoint = Endpoint("CONTROLLER", "127.0.0.1", 0)

    async def _versions(self, version: int) -> Message:
        keys = [ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in self.served.items()]
        feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
        return ApiVersionsResponse(api_keys=keys, supported_features=[feature])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header, position = read_request_header(frame)
                self.asked.append(header.api_key)
                self.requests.append(
                    decode(request_class(header.api_key), frame, header.version, position)[0]
                )
                answer = await self.answers[header.api_key](header.version)
                if answer is None:
                    break
                parts: list[Any] = []
                write_response(parts, header.correlation_id, header.api_key, header.version, answer)
                writer.write(b"".join(map(bytes, parts)))
        writer.close()


@asynccontextmanager
async def talking() -> Any:
    """Our side, what it hears, and the other one."""
    other = Other()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    other.endpoint = Endpoint("CONTROLLER", "127.0.0.1", server.sockets[0].getsockname()[1])
    heard: asyncio.Queue[raft.Message] = asyncio.Queue()
    peers = Peers(1, "CONTROLLER", 2.0, Chance(), heard.put_nowait, heard.put_nowait)
    try:
        yield peers, heard, other
    finally:
        await peers.close()
        server.close()


def _disconnected(message: object, node_id: int) -> bool:
    """Whether it says that this node is not connected any more, and why."""
    return isinstance(message, raft.Disconnected) and message.node_id == node_id and bool(message.reason)


def run(story: Callable[[Peers, asyncio.Queue[raft.Message], Other], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_S), talking() as (peers, heard, other):
            await story(peers, heard, other)

    asyncio.run(whole())


def granted(error: int = 0) -> VoteResponse:
    row = VoteResponsePartitionData(error_code=error, leader_id=2, leader_epoch=5, vote_granted=True)
    return VoteResponse(
        topics=[VoteResponseTopicData(topic_name="__cluster_metadata", partitions=[row])],
        node_endpoints=[VoteResponseNodeEndpoint(node_id=2, host="10.0.0.2", port=9093)],
    )


def giving(message: Message | None) -> Answer:
    async def answer(version: int) -> Message | None:
        return message

    return answer


async def never(version: int) -> Message | None:
    await asyncio.sleep(60)
    return None


def test_a_request_is_answered_over_a_connection_that_stays() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[52] = giving(granted())
        for correlation in (1, 2):
            peers.send(Send(correlation, 2, other.endpoint, VOTE))
            where = (Endpoint("CONTROLLER", "10.0.0.2", 9093),)
            response = raft.VoteResponse(ErrorCode.NONE, 5, 2, True, where)
            assert await heard.get() == raft.Answered(correlation, response)
        assert other.connections == 1 and peers.statistics().dials == 1

    run(story)


def test_a_connection_that_breaks_under_a_request_is_told_at_once() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[1] = giving(None)
        peers.send(Send(1, 2, other.endpoint, FETCH))
        assert _disconnected(await heard.get(), 2)
        assert isinstance(await heard.get(), raft.Failed)

    run(story)


@pytest.mark.parametrize("to", [2, -2])
def test_a_refused_dial_is_told_too_but_a_bootstrap_server_has_no_id(to: int) -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        with_nobody = await asyncio.start_server(other.serve, "127.0.0.1", 0)
        port = with_nobody.sockets[0].getsockname()[1]
        with_nobody.close()
        await with_nobody.wait_closed()
        peers.send(Send(1, to, Endpoint("CONTROLLER", "127.0.0.1", port), FETCH))
        first = await heard.get()
        assert isinstance(first, raft.Failed) if to < 0 else _disconnected(first, 2)

    run(story)


def test_a_request_that_was_given_up_holds_up_nothing() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[52] = never
        peers.send(Send(1, 2, other.endpoint, VOTE))
        await until(lambda: 52 in other.asked)
        other.answers[52] = giving(granted())
        peers.send(Send(2, 2, other.endpoint, VOTE))
        answered = await heard.get()
        assert isinstance(answered, raft.Answered) and answered.correlation == 2
        assert heard.empty(), "the first one's connection was ours to drop: nobody is missed"

    run(story)


def test_a_long_poll_and_an_election_do_not_share_a_connection() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[1], other.answers[52] = never, giving(granted())
        peers.send(Send(1, 2, other.endpoint, FETCH))
        peers.send(Send(2, 2, other.endpoint, VOTE))
        answered = await heard.get()
        assert isinstance(answered, raft.Answered) and answered.correlation == 2

    run(story)


def test_a_peer_without_pre_votes_is_unsupported_not_broken() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.served[52] = (0, 1)
        peers.send(Send(1, 2, other.endpoint, VOTE))
        failed = await heard.get()
        assert isinstance(failed, raft.Failed) and failed.unsupported

    run(story)


def test_a_node_of_another_cluster_only_fails_and_one_that_forbids_us_is_heard() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[52] = giving(VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        other.answers[60] = giving(DescribeClusterResponse(cluster_id="theirs"))
        peers.send(Send(1, 2, other.endpoint, VOTE))
        failed = await heard.get()
        assert isinstance(failed, raft.Failed)
        assert failed.another_cluster
        assert failed.reason == "it is of cluster theirs, this node is of cluster cluster"
        assert peers.strangers == {other.endpoint: "theirs"}
        other.answers[52] = giving(VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        peers.send(Send(2, 2, other.endpoint, VOTE))
        answered = await heard.get()
        assert isinstance(answered, raft.Answered)
        assert answered.response.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(story)


def test_the_first_refusal_for_another_cluster_is_logged_with_both_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[52] = giving(VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        other.answers[60] = giving(DescribeClusterResponse(cluster_id="theirs"))
        for correlation in (1, 2):
            peers.send(Send(correlation, 2, other.endpoint, VOTE))
            await heard.get()

    with caplog.at_level(logging.WARNING):
        run(story)
    (said,) = [record.fields for record in caplog.records if hasattr(record, "fields")]
    assert (said["cluster"], said["own"]) == ("theirs", "cluster")
    assert "storage info" in said["next"]


def test_records_of_a_newer_release_end_the_node_and_are_not_asked_for_again() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        foreign = bytes(write_batch([Record(0, 0, None, b"\x01\x7f\x00", ())], leader_epoch=5))

        async def answer(version: int) -> Message:
            row = PartitionData(high_watermark=1, log_start_offset=0, records=foreign)
            topic = FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[row])
            return FetchResponse(responses=[topic])

        other.answers[1] = answer
        peers.send(Send(1, 2, other.endpoint, FETCH))
        error: Any = await heard.get()
        assert isinstance(error, NewerReleaseError) and "no metadata record of type 127" in error.message
        assert heard.empty() and peers.statistics().failures == 0

    run(story)


def test_a_node_that_moved_is_dialled_where_it_is_now_and_a_probe_hears_what_it_supports() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        moved = Other()
        server = await asyncio.start_server(moved.serve, "127.0.0.1", 0)
        there = Endpoint("CONTROLLER", "127.0.0.1", server.sockets[0].getsockname()[1])
        for correlation, endpoint in ((1, other.endpoint), (2, there)):
            peers.send(Send(correlation, 2, endpoint, raft.ProbeRequest()))
            answered = await heard.get()
            assert isinstance(answered, raft.Answered)
            assert isinstance(answered.response, raft.ProbeResponse)
            assert answered.response.versions == (0, 1)
        assert other.connections == moved.connections == 1
        server.close()

    run(story)


def test_nobody_can_be_asked_without_an_address() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        peers.send(Send(1, 2, None, VOTE))
        assert isinstance(await heard.get(), raft.Failed)

    run(story)


def test_what_is_asked_while_an_answer_is_heard_goes_over_the_same_connection() -> None:
    """The core asks its next question in the moment it hears the answer to the last one."""

    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[52] = giving(granted())
        correlation = 1

        def receive(message: raft.Message) -> None:
            nonlocal correlation
            heard.put_nowait(message)
            if correlation < 5:
                correlation += 1
                peers.send(Send(correlation, 2, other.endpoint, VOTE))

        peers.receive = receive
        peers.send(Send(1, 2, other.endpoint, VOTE))
        for expected in range(1, 6):
            message = await heard.get()
            assert isinstance(message, raft.Answered) and message.correlation == expected
        assert other.connections == 1 and peers.statistics().dials == 1

    run(story)


def test_what_is_asked_while_a_failure_is_heard_is_asked() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[1] = giving(None)
        other.answers[52] = giving(granted())

        def receive(message: raft.Message) -> None:
            heard.put_nowait(message)
            if isinstance(message, raft.Disconnected):
                peers.send(Send(2, 2, other.endpoint, FETCH))
                other.answers[1] = never

        peers.receive = receive
        peers.send(Send(1, 2, other.endpoint, FETCH))
        assert _disconnected(await heard.get(), 2)
        assert isinstance(await heard.get(), raft.Failed)
        await until(lambda: other.asked.count(1) == 2)

    run(story)


def test_an_answer_that_trips_us_up_is_a_failure_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> raft.Response:
        raise ValueError("nobody foresaw it")

    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.answers[52] = giving(granted())
        monkeypatch.setattr(quorum_peers, "response_in_steps", defect)
        peers.send(Send(1, 2, other.endpoint, VOTE))
        message = await heard.get()
        assert isinstance(message, raft.Failed) and "nobody foresaw it" in message.reason

    run(story)


def test_an_answer_of_many_records_is_read_in_several_turns() -> None:
    """Who else is on the loop has a turn in between."""
    turns = 0

    def steps() -> Generator[None, None, str]:
        for _ in range(4 * quorum_peers.RECORDS):
            yield
        return "all of it"

    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(others())
        assert await quorum_peers._in_turns(steps()) == "all of it"
        beside.cancel()
        assert turns >= 4

    run(story)


ADDRESSES = raft.ExchangeRequest(ME, (Contact(ME, (Endpoint("CONTROLLER", "h", 9),), 4, 5),), "cluster")


def test_our_own_request_is_never_sent_to_a_node_that_does_not_name_it_as_apache_kafka_does_not() -> None:
    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        other.served = {key: served for key, served in other.served.items() if key < 1000}
        peers.send(Send(1, -1, other.endpoint, ADDRESSES))
        failed = await heard.get()
        assert isinstance(failed, raft.Failed) and failed.correlation == 1 and failed.unsupported
        assert other.asked == [18]

    run(story)


def test_each_exchange_of_addresses_is_dialled_anew_and_leaves_no_connection() -> None:
    """Behind one name another node may answer every time."""

    async def story(peers: Peers, heard: asyncio.Queue[raft.Message], other: Other) -> None:
        key = ExchangeEndpointsRequest.KEY
        assert key is not None
        other.answers[key] = giving(
            response_out(raft.ExchangeResponse(ErrorCode.NONE, ADDRESSES.contacts), None, 0, "CONTROLLER")
        )
        for correlation in (1, 2):
            peers.send(Send(correlation, -1, other.endpoint, ADDRESSES))
            response = raft.ExchangeResponse(ErrorCode.NONE, ADDRESSES.contacts)
            assert await heard.get() == raft.Answered(correlation, response)
        assert other.connections == 2 and other.asked == [18, key] * 2
        await until(lambda: not peers._aside)

    run(story)
