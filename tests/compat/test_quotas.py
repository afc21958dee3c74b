"""Quotas as real clients meet them: they are told how long to wait, and nothing is lost."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.compat.conftest import NodeProcess

pytestmark = pytest.mark.compat

RATE = 100_000
AT_ONCE = 10 * RATE


def test_a_producer_of_librdkafka_hears_of_its_quota_and_keeps_to_it(node: NodeProcess) -> None:
    """1.3 MB at 100 kB/s, of which ten seconds' worth may go at once."""
    to_node = ("--bootstrap-server", node.bootstrap)
    node.barnabas("quotas", "set", "--client-id", "slow", f"producer_byte_rate={RATE}", *to_node)
    node.barnabas("topics", "create", "quota", *to_node)
    waits: list[float] = []
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "slow",
            "batch.size": 20_000,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    begun = time.monotonic()
    for _ in range(130):
        producer.produce("quota", b"x" * 10_000, on_delivery=lambda error, _: error and errors.append(error))
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not errors
    assert time.monotonic() - begun > (130 * 10_000 - AT_ONCE) / RATE * 0.6
    assert max(waits) > 0
