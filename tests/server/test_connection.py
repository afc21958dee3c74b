"""Frames in, answers out: order, pieces, limits, and what hostile bytes come to."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.frames import frame
from tests.server.harness import WAYS, World, decoded, settled, until

from barnabas.errors import ErrorCode, KafkaError
from barnabas.server.net.connection import Connection
from barnabas.server.net.platform import Platform
from barnabas.wire.apis import ROWS
from barnabas.wire.schemas.cluster import ApiVersionsRequest, MetadataRequest
from barnabas.wire.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.wire.schemas.groups import HeartbeatRequest
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.parametrize("play", WAYS, indirect=True)

Play = Callable[..., None]

NOT_SERVED = [(key, name) for key, name, family, *_ in ROWS if family.startswith(("share_", "streams_"))]
"""The APIs of share groups, of their state, and of streams groups."""


def produce(records: bytes, acks: int = -1) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def fetch_response(records: Any) -> FetchResponse:
    partition = PartitionData(partition_index=0, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


class Slice:
    """Bytes of a file, as the log hands them out."""

    def __init__(self, path: Path, position: int, size: int) -> None:
        self.file = self
        self.path = str(path)
        self.position = position
        self.size = size
        self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.descriptor)

    def fileno(self) -> int:
        return self.descriptor

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.read_at(self.position, self.size)

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self.descriptor, size, position)


def test_answers_leave_in_the_order_of_their_requests(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.send(FetchRequest(), 12, 1)
        client.send(HeartbeatRequest(generation_id=7), 4, 2)
        client.send(produce(b"abc"), 9, 3)
        await until(lambda: world.broker.produced == [b"abc"])
        await settled()
        assert world.only_connection().unanswered == 3, "the first of the line is not done"
        world.broker.fetches[0].complete(FetchResponse())
        assert [(await client.answer())[0] for _ in range(3)] == [1, 2, 3]

    play(scenario)


def test_a_frame_may_come_byte_by_byte(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        for byte in frame(HeartbeatRequest(generation_id=9), 4, 5) * 2:
            client.writer.write(bytes([byte]))
            await settled(2)
        for _ in range(2):
            number, body = await client.answer()
            assert number == 5
            assert decoded(12, 4, body).throttle_time_ms == 9
        assert world.network.memory.used == 0

    play(scenario)


def test_a_thousand_requests_in_one_send_get_a_thousand_answers(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.writer.write(b"".join(frame(HeartbeatRequest(generation_id=n), 4, n) for n in range(1000)))
        for n in range(1000):
            number, body = await client.answer()
            assert (number, decoded(12, 4, body).throttle_time_ms) == (n, n)

    play(scenario)


@pytest.mark.parametrize("size", [1_000, 60_000, 70_000, 300_000, 3_000_000])
def test_records_of_any_size_arrive_whole(play: Play, size: int) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        records = os.urandom(size)
        for n in range(4):
            client.send(produce(records), 9, n)
        assert [(await client.answer())[0] for _ in range(4)] == [0, 1, 2, 3]
        assert world.broker.produced == [records] * 4
        assert world.network.memory.used == 0

    play(scenario)


def test_who_sends_much_leaves_others_their_turn(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as reads fill their room, libuv goes on reading, 32 times, before it looks at anybody else."""
    looks = itertools.count()
    monkeypatch.setattr(Platform, "monotonic", lambda _: next(looks) / 2000)  # half a millisecond each

    async def scenario(world: World) -> None:
        client = await world.client()
        client.send(HeartbeatRequest(), 4)
        await client.answer()
        connection, records = world.only_connection(), bytes(200_000)
        sent = frame(produce(records), 9, 2)
        flood, position, reads = sent * 60, 0, 0
        while not connection._paused and reads < 20:
            room = connection.get_buffer(-1)
            room[:] = flood[position : position + len(room)]
            position, reads = position + len(room), reads + 1
            connection.buffer_updated(len(room))
        assert reads <= 4
        await until(lambda: not connection._paused)
        assert world.broker.produced == [records] * (position // len(sent))

    play(scenario)


def test_cve_2026_35554_records_stay_where_they_were_received_until_the_end_of_the_turn(play: Play) -> None:
    """A buffer that was used again too early put records into other topics.

    Several connections in one turn must not overwrite each other's bytes before they are written.
    """

    async def scenario(world: World) -> None:
        clients = [await world.client() for _ in range(20)]
        for n, client in enumerate(clients):
            client.send(produce(bytes([n]) * 40_000), 9, n)
        for n, client in enumerate(clients):
            assert (await client.answer())[0] == n
        assert sorted(world.broker.produced) == [bytes([n]) * 40_000 for n in range(20)]

    play(scenario)


def test_a_produce_with_acks_0_gets_no_answer(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.send(produce(b"x", acks=0), 9, 1)
        client.send(HeartbeatRequest(), 4, 2)
        assert (await client.answer())[0] == 2

    play(scenario)


@pytest.mark.parametrize("size", [10, 5_000, 65_536, 2_000_000])
def test_records_go_from_the_file_to_the_socket(play: Play, tmp_path: Path, size: int) -> None:
    path = tmp_path / "segment"
    content = os.urandom(size + 100)
    path.write_bytes(content)

    async def scenario(world: World) -> None:
        client = await world.client()
        for n in range(3):
            client.send(FetchRequest(), 12, n)
        await until(lambda: len(world.broker.fetches) == 3)
        for waiting in reversed(world.broker.fetches):
            waiting.complete(fetch_response(Slice(path, 50, size)))
        for n in range(3):
            number, body = await client.answer()
            answer = decoded(1, 12, body)
            assert number == n
            assert bytes(answer.responses[0].partitions[0].records) == content[50 : 50 + size]
        assert world.network.memory.used == 0

    play(scenario)


def test_a_future_may_answer_later(play: Play) -> None:
    async def scenario(world: World) -> None:
        promised: list[asyncio.Future[Any]] = []
        world.requests.routes[3].handler = lambda *_: (
            promised.append(world.runtime.loop.create_future()) or promised[-1]
        )
        client = await world.client()
        client.send(MetadataRequest(), 12, 1)
        client.send(HeartbeatRequest(), 4, 2)
        await until(lambda: bool(promised))
        from barnabas.wire.schemas.cluster import MetadataResponse

        promised[0].set_result(MetadataResponse(cluster_id="here"))
        number, body = await client.answer()
        assert (number, decoded(3, 12, body).cluster_id) == (1, "here")
        assert (await client.answer())[0] == 2

    play(scenario)


@pytest.mark.parametrize(
    ("sent", "event"),
    [
        (struct.pack(">i", -1), "connection.frame-negative"),
        (struct.pack(">i", 0), "connection.frame-negative"),
        (struct.pack(">i", 2**31 - 1), "connection.frame-too-large"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50), "connection.foreign-protocol"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "connection.foreign-protocol"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "request.unknown-api"),
        (struct.pack(">ihhih", 10, -5, 0, 1, -1), "request.unknown-api"),
        (struct.pack(">ihhihb", 11, 12, 99, 1, -1, 0), "request.unsupported-version"),
        (struct.pack(">ihhih", 10, 0, 2, 1, -1), "request.unsupported-version"),
        (struct.pack(">i", 3) + b"abc", "request.malformed"),
        (struct.pack(">ihhih", 10, 12, 0, 1, 5000), "request.malformed"),
        (struct.pack(">ihhih", 10, 12, 0, 1, -1), "request.malformed"),
        # a Metadata v0 whose array claims 2^31-1 topics
        (struct.pack(">ihhihi", 14, 3, 0, 1, -1, 2**31 - 1), "request.malformed"),
        # a request with bytes behind its end
        (struct.pack(">ihhihi", 17, 18, 0, 1, -1, 0) + b"abc", "request.malformed"),
    ],
)
def test_senseless_bytes_end_the_connection_and_nothing_else(
    play: Play, sent: bytes, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        good, bad = await world.client(), await world.client()
        bad.writer.write(sent)
        left = await bad.closed()
        assert (b"400 Bad Request" in left) == sent.startswith(b"GET")
        good.send(HeartbeatRequest(), 4, 8)
        assert (await good.answer())[0] == 8

    with caplog.at_level(logging.WARNING, "barnabas"):
        play(scenario)
    assert event in [getattr(record, "event", "") for record in caplog.records]


@pytest.mark.parametrize(("key", "api"), NOT_SERVED)
def test_who_asks_for_share_or_streams_groups_is_named_in_the_log(
    play: Play, key: int, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.writer.write(struct.pack(">ihhih", 14, key, 1, 1, 3) + b"etl\0")
        await client.closed()

    with caplog.at_level(logging.WARNING, "barnabas"):
        play(scenario)
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "request.unknown-api"]
    fields = line.fields  # type: ignore[attr-defined]
    assert (fields["api"], fields["client_id"]) == (api, "etl")
    assert fields["client"].startswith("127.0.0.1:")


def test_what_was_answered_before_senseless_bytes_still_leaves(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.writer.write(frame(HeartbeatRequest(), 4, 3) + struct.pack(">i", -7))
        assert (await client.answer())[0] == 3
        assert await client.closed() == b""

    play(scenario)


def test_apiversions_of_an_unknown_version_is_told_what_is_known(play: Play) -> None:
    """KIP-511: the answer is in version 0, has error 35 and the range of ApiVersions itself."""

    async def scenario(world: World) -> None:
        client = await world.client()
        client.writer.write(struct.pack(">ihhih", 22, 18, 99, 4, -1) + bytes(12))
        number, body = await client.answer()
        answer = decoded(18, 0, body)
        assert (number, answer.error_code) == (4, ErrorCode.UNSUPPORTED_VERSION)
        assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 5)]
        client.send(ApiVersionsRequest(), 0, 5)
        assert (await client.answer())[0] == 5

    play(scenario)


def test_only_what_is_served_is_advertised_and_produce_from_0_on(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.send(ApiVersionsRequest(client_software_name="a", client_software_version="1.0"), 3)
        answer = decoded(18, 3, (await client.answer())[1])
        shown = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        assert shown == {18: (0, 5), 0: (0, 12), 1: (4, 12), 12: (0, 4), 3: (0, 12)}
        assert all(feature.min_version > 0 for feature in answer.supported_features)
        client.send(ApiVersionsRequest(client_software_name="a b", client_software_version=""), 3)
        answer = decoded(18, 3, (await client.answer())[1])
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


@pytest.mark.parametrize(
    ("cluster_id", "node", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("cluster", 1, ErrorCode.NONE),
        ("cluster", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("cluster", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_that_means_another_node_or_cluster_is_told_to_bootstrap_again(
    play: Play, cluster_id: str | None, node: int, code: ErrorCode
) -> None:
    """KIP-1242: an address that was given to another node is no reason to believe what this one says."""

    async def scenario(world: World) -> None:
        client = await world.client()
        asked = ApiVersionsRequest(
            client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node
        )
        client.send(asked, 5)
        answer = decoded(18, 5, (await client.answer())[1])
        assert answer.error_code == code
        assert bool(answer.api_keys) == (code is ErrorCode.NONE)

    play(scenario)


def test_an_error_of_a_handler_is_answered_where_the_api_can_say_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        for failure, code in (
            (KafkaError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
            (ZeroDivisionError("a mistake of ours"), ErrorCode.UNKNOWN_SERVER_ERROR),
        ):
            world.broker.failure = failure
            client.send(HeartbeatRequest(), 4)
            assert decoded(12, 4, (await client.answer())[1]).error_code == code

    play(scenario)


def test_a_client_that_goes_away_takes_its_waiters_along(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        client.send(FetchRequest(), 12)
        await until(lambda: len(world.broker.fetches) == 1)
        client.close()
        await until(lambda: world.broker.fetches[0].done)
        assert not world.connections.opened

    play(scenario)


def test_a_refusal_that_comes_when_its_client_is_gone_is_not_reported_as_lost(play: Play) -> None:
    reported: list[dict[str, Any]] = []

    async def scenario(world: World) -> None:
        world.runtime.loop.set_exception_handler(lambda loop, context: reported.append(context))
        promised: list[asyncio.Future[Any]] = []
        world.requests.routes[3].handler = lambda *_: (
            promised.append(world.runtime.loop.create_future()) or promised[-1]
        )
        client = await world.client()
        client.send(MetadataRequest(), 12, 1)
        await until(lambda: bool(promised))
        client.close()
        await until(lambda: not world.connections.opened)
        promised.pop().set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
        await settled()
        gc.collect()

    play(scenario)
    assert reported == []


def test_a_full_line_stops_the_reading_and_an_emptier_one_resumes_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        client = await world.client()
        for n in range(40):
            client.send(FetchRequest(), 12, n)
        await until(lambda: len(world.broker.fetches) == 16)
        await settled(20)
        assert len(world.broker.fetches) == 16
        answered = 0
        while answered < 40:
            world.broker.fetches[answered].complete(FetchResponse())
            assert (await client.answer())[0] == answered
            answered += 1
        assert world.network.memory.used == 0

    play(scenario, {"barnabas.connection.max.pipelined": "16"})


def test_connections_beyond_the_limit_are_closed_at_once(play: Play) -> None:
    async def scenario(world: World) -> None:
        kept = [await world.client() for _ in range(3)]
        await until(lambda: len(world.connections.opened) == 3)
        assert await world.refuses()
        kept[0].close()
        await until(lambda: len(world.connections.opened) == 2)
        again = await world.client()
        again.send(HeartbeatRequest(), 4, 6)
        assert (await again.answer())[0] == 6

    play(scenario, {"max.connections": "3"})
    play(scenario, {"max.connections.per.ip": "3"})
    play(
        scenario,
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:9,127.0.0.1:3"},
    )


def test_a_connection_whose_answers_cannot_be_sent_takes_no_other_along(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        clients = [await world.client() for _ in range(3)]
        for client in clients:
            client.send(HeartbeatRequest(), 4, 1)
            await client.answer()
        broken = min(world.connections.opened)
        flush = Connection.flush

        def flush_most(self: Connection) -> None:
            if self.id == broken:
                raise AssertionError("a defect")
            flush(self)

        monkeypatch.setattr(Connection, "flush", flush_most)
        for n, client in enumerate(clients):
            client.send(HeartbeatRequest(), 4, n)
        for n, client in enumerate(clients[1:], 1):
            assert (await client.answer())[0] == n
        assert await clients[0].closed() == b""

    play(scenario)
