"""A node's own questions to another broker end once the controller has fenced the one that is asked."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.fake_broker import FakeBroker

from barnabas.client.connection import RequestTimedOut
from barnabas.client.waits import silence
from barnabas.server.replication.broker_connections import BrokerConnections, PeerListener
from barnabas.wire.schemas.cluster import MetadataRequest

PATIENCE_S = 20.0


def test_a_question_to_a_broker_that_hangs_ends_when_it_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch of a transaction waits for such a question: request.timeout.ms would be 30 s."""
    monkeypatch.setattr(silence, "SILENCE", 0.01)
    monkeypatch.setattr(silence, "_AGAIN", 0.01)
    released = threading.Event()

    async def story(port: int) -> None:
        endpoint = SimpleNamespace(host="127.0.0.1", port=port)
        broker = SimpleNamespace(endpoint=lambda _: endpoint, fenced=False)
        image: Any = SimpleNamespace(brokers={2: broker})
        connections = BrokerConnections(image, PeerListener("PLAINTEXT"), "test")
        line = await connections.to(2)
        asked = asyncio.ensure_future(line.request(MetadataRequest(topics=[]), timeout=PATIENCE_S))
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done, "the broker lives: it is waited for"
        broker.fenced = True
        with pytest.raises(RequestTimedOut, match="count it out"):
            await asked
        connections.stop()

    with FakeBroker() as hanging:
        hanging.on(MetadataRequest, lambda _: released.wait(PATIENCE_S) and None)
        asyncio.run(story(hanging.port))
        released.set()
