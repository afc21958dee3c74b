"""The asyncio shell behaves as the blocking one, for many callers at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.client.fake_broker import CLOSE, FakeBroker
from tests.patience import PATIENCE_S

from barnabas.client.aio import AsyncConnection
from barnabas.client.connection import ConnectionFailed, RequestTimedOut
from barnabas.wire.schemas.cluster import MetadataRequest


def test_callers_share_one_connection() -> None:
    async def talk(port: int) -> list[int]:
        async with await AsyncConnection.connect("127.0.0.1", port) as connection:
            requests = [MetadataRequest(topics=None if n % 2 else []) for n in range(20)]
            answers = await asyncio.gather(*(connection.request(request) for request in requests))
            return [len(answer.topics) for answer in answers]

    with FakeBroker(t=1) as broker:
        assert asyncio.run(talk(broker.port)) == [0, 1] * 10


def test_nobody_there_is_said_at_once() -> None:
    with pytest.raises(ConnectionFailed, match=r"cannot connect to 127\.0\.0\.1:1"):
        asyncio.run(AsyncConnection.connect("127.0.0.1", 1))


def test_a_late_answer_ends_the_connection() -> None:
    release = threading.Event()

    async def talk(port: int) -> None:
        connection = await AsyncConnection.connect("127.0.0.1", port)
        with pytest.raises(RequestTimedOut):
            await connection.request(MetadataRequest(), timeout=0.05)
        assert connection.closed
        release.set()
        await connection.close()

    with FakeBroker() as broker:
        broker.on(MetadataRequest, lambda _: release.wait(PATIENCE_S) and None)
        asyncio.run(talk(broker.port))


def test_all_waiting_callers_hear_that_the_broker_hung_up() -> None:
    async def talk(port: int) -> list[object]:
        connection = await AsyncConnection.connect("127.0.0.1", port)
        calls = [connection.request(MetadataRequest()) for _ in range(3)]
        outcomes: list[object] = await asyncio.gather(*calls, return_exceptions=True)
        await connection.close()
        return outcomes

    with FakeBroker() as broker:
        broker.on(MetadataRequest, lambda _: CLOSE)
        outcomes = asyncio.run(talk(broker.port))
    assert all(isinstance(outcome, ConnectionFailed) for outcome in outcomes)
