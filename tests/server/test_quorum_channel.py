"""Requests for the active controller: they look for it again, and say so when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.patience import PATIENCE_S
from tests.server.quorum_node import until
from tests.server.test_quorum_peers import Other

from barnabas.client.security.options import PLAINTEXT
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Endpoint, Uuid
from barnabas.server.api.cluster import ClusterApi
from barnabas.server.api.table import served_on
from barnabas.server.kraft.codec.envelope import principal_of
from barnabas.server.kraft.controller_channel import ControllerChannel
from barnabas.wire.codec.message import Message
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    EnvelopeRequest,
    EnvelopeResponse,
)
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

HEARTBEAT = BrokerHeartbeatRequest(broker_id=7)
CREATE = CreateTopicsRequest()
CONTEXT = cast(
    "Any",
    SimpleNamespace(
        api_key=19,
        version=7,
        correlation_id=33,
        client_id="c",
        client_host="10.1.2.3",
        principal="User:alice",
        client=SimpleNamespace(by_token=False),
    ),
)


class Knows:
    """As much of a quorum as the channel asks for: who leads, and where."""

    def __init__(self) -> None:
        self.is_active_controller = False
        self.leader_id = 2
        self.leader_endpoint: Endpoint | None = None
        self.origin = ZERO_UUID
        self.settings = SimpleNamespace(
            key=SimpleNamespace(id=7),
            raft=SimpleNamespace(request_timeout=1.0, listener="CONTROLLER"),
            security=PLAINTEXT,
        )


def run(
    story: Callable[[ControllerChannel, Knows, Other], Awaitable[None]], timeout: float = PATIENCE_S
) -> None:
    async def whole() -> None:
        other, knows = Other(), Knows()
        server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
        other.endpoint = Endpoint("CONTROLLER", "127.0.0.1", server.sockets[0].getsockname()[1])
        channel = ControllerChannel(cast("Any", knows), timeout)
        async with asyncio.timeout(PATIENCE_S):
            await story(channel, knows, other)
            await channel.close()
        server.close()

    asyncio.run(whole())


def forward(channel: ControllerChannel, context: Any = CONTEXT) -> asyncio.Future[Message]:
    """A client's request, where this node is not the active controller."""
    return channel.forward(context, CREATE, "clients", lambda context, request: None)


def wrapped(answer: Message) -> EnvelopeResponse:
    parts: list[Any] = []
    write_response(parts, 33, 19, 7, answer)
    return EnvelopeResponse(response_data=b"".join(map(bytes, parts))[4:])


def test_without_a_controller_an_own_request_fails_at_once_and_a_clients_when_its_time_is_up() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        with pytest.raises(KafkaError) as own:
            await channel.submit(HEARTBEAT)
        assert own.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(KafkaError) as forwarded:
            await forward(channel)
        assert forwarded.value.code is ErrorCode.REQUEST_TIMED_OUT

    run(story, timeout=0.05)


def test_an_own_request_goes_to_the_active_controller_as_it_is() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        async def heartbeat(version: int) -> Message:
            return BrokerHeartbeatResponse(is_caught_up=True)

        other.answers[63] = heartbeat
        knows.leader_endpoint = other.endpoint
        answer = await channel.submit(HEARTBEAT)
        assert isinstance(answer, BrokerHeartbeatResponse) and answer.is_caught_up
        await channel.submit(HEARTBEAT)
        assert other.connections == 1

    run(story)


def test_every_request_names_the_quorum_of_this_node_as_soon_as_it_is_known() -> None:
    ours = Uuid(bytes(range(16)))

    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        async def heartbeat(version: int) -> Message:
            return BrokerHeartbeatResponse()

        async def envelope(version: int) -> Message:
            return wrapped(CreateTopicsResponse(topics=[CreatableTopicResult(name="flights")]))

        other.answers |= {63: heartbeat, 58: envelope}
        knows.leader_endpoint = other.endpoint
        for knows.origin in (ZERO_UUID, ours):
            await channel.submit(HEARTBEAT)
            await forward(channel)
        named = [(type(asked), getattr(asked, "origin", None)) for asked in other.requests[1:]]
        assert named == [
            (BrokerHeartbeatRequest, ZERO_UUID),
            (ApiVersionsRequest, None),
            (EnvelopeRequest, ZERO_UUID),
            (BrokerHeartbeatRequest, ours),
            (EnvelopeRequest, ours),
        ]
        assert HEARTBEAT.origin == ZERO_UUID, "what was handed over stays as it is"

    run(story)


def test_an_own_request_that_gets_no_answer_is_lost_and_the_next_one_takes_another_connection() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        async def heartbeat(version: int) -> Message:
            if other.connections == 1:
                await asyncio.sleep(60)
            return BrokerHeartbeatResponse(is_caught_up=True)

        other.answers[63] = heartbeat
        knows.leader_endpoint = other.endpoint
        with pytest.raises(KafkaError) as lost:
            await channel.submit(HEARTBEAT)
        assert lost.value.code is ErrorCode.NOT_CONTROLLER
        channel._timeout = PATIENCE_S  # the next one is answered, however long that takes
        answer = await channel.submit(HEARTBEAT)
        assert isinstance(answer, BrokerHeartbeatResponse) and answer.is_caught_up

    run(story, timeout=0.2)


def test_a_clients_request_looks_for_the_controller_until_one_takes_it() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        tries = 0

        async def envelope(version: int) -> Message:
            nonlocal tries
            tries += 1
            if tries < 3:
                return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
            return wrapped(CreateTopicsResponse(topics=[CreatableTopicResult(name="flights")]))

        other.answers[58] = envelope
        waiting = forward(channel)
        await asyncio.sleep(0)
        knows.leader_endpoint = other.endpoint
        answer = await waiting
        assert isinstance(answer, CreateTopicsResponse) and answer.topics[0].name == "flights"
        assert tries == 3

    run(story)


def test_the_envelope_says_who_asks_and_holds_the_request_with_its_header() -> None:
    from barnabas.server.kraft.codec.envelope import wrap

    envelope = wrap(CONTEXT, CREATE)
    assert isinstance(envelope, EnvelopeRequest)
    assert principal_of(envelope.request_principal) == "User:alice"
    assert envelope.client_host_address == bytes([10, 1, 2, 3])
    header, _ = read_request_header(envelope.request_data)
    assert header == (19, 7, 33, "c")


def test_another_error_of_the_envelope_reaches_the_client_as_kafka_says_it() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        async def envelope(version: int) -> Message:
            return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        other.answers[58] = envelope
        knows.leader_endpoint = other.endpoint
        with pytest.raises(KafkaError) as caught:
            await forward(channel)
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR

    run(story)


def test_a_client_whose_request_the_controller_cannot_read_is_hung_up_on_to_ask_for_versions_again() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        says = [ErrorCode.INVALID_REQUEST]

        async def envelope(version: int) -> Message:
            return EnvelopeResponse(error_code=says[-1])

        other.answers[58] = envelope
        knows.leader_endpoint = other.endpoint
        closed: list[ErrorCode] = []
        client = SimpleNamespace(by_token=False, hang_up=lambda: closed.append(says[-1]))
        context = cast("Any", SimpleNamespace(**{**vars(CONTEXT), "client": client}))
        for _ in range(2):
            with pytest.raises(KafkaError):
                await forward(channel, context)
            says.append(ErrorCode.UNSUPPORTED_VERSION)
        assert closed == [ErrorCode.UNSUPPORTED_VERSION]

    run(story)


def test_a_broker_offers_of_what_it_forwards_only_what_the_active_controller_can_read() -> None:
    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        async def heartbeat(version: int) -> Message:
            return BrokerHeartbeatResponse()

        other.answers[63] = heartbeat
        other.served = {18: (0, 4), 63: (0, 1), 19: (2, 5), 20: (90, 99), 3: (0, 1)}
        image = SimpleNamespace(features={}, offset=0)
        vars(knows).update(channel=channel, image=image, kraft_version=1)
        api = ClusterApi(served_on("B"), cast("Any", knows), cast("Any", None))
        context = cast("Any", SimpleNamespace(version=0, client=SimpleNamespace(kind="B")))

        def offered() -> dict[int, tuple[int, int]]:
            keys = api.api_versions(context, ApiVersionsRequest()).api_keys
            return {key.api_key: (key.min_version, key.max_version) for key in keys}

        alone = offered()
        assert alone[19] == (2, 7) and 20 in alone and 37 in alone
        knows.leader_endpoint = other.endpoint
        await channel.submit(HEARTBEAT)
        with_it = offered()
        assert with_it[19] == (2, 5) and 20 not in with_it and 37 not in with_it
        assert with_it[3] == alone[3], "Metadata is answered here"
        knows.is_active_controller = True
        assert offered() == alone

    run(story)


def test_who_waits_for_a_leader_that_is_none_any_more_is_told_at_once() -> None:
    """It may have died without a word: a broker that waited for it would be fenced by its successor."""

    async def story(channel: ControllerChannel, knows: Knows, other: Other) -> None:
        async def silent(version: int) -> Message:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        other.answers[63] = silent
        knows.leader_endpoint = other.endpoint
        waiting = channel.submit(HEARTBEAT)
        await until(lambda: 63 in other.asked)
        for still in (other.endpoint, None):  # the same one, or nobody yet: it may still answer
            knows.leader_endpoint = still
            channel.leader_moved()
        await asyncio.sleep(0)
        assert not waiting.done()
        knows.leader_endpoint = Endpoint("CONTROLLER", "127.0.0.1", 1)
        channel.leader_moved()
        with pytest.raises(KafkaError) as caught:
            await waiting
        assert caught.value.code is ErrorCode.NOT_CONTROLLER

    run(story, timeout=PATIENCE_S)
