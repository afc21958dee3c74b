"""What clients use of their quotas, under Kafka's names (KIP-13, KIP-124); times are seconds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.quotas.client_quotas import CONSUMER, PRODUCER, REQUESTS, ClientQuotas
from barnabas.ports import Clock
from barnabas.server.observe.metrics import Metric, Reading, sample_of

if TYPE_CHECKING:
    from barnabas.server.observe.metrics import Metrics

__all__ = ["MOST_QUOTAS", "register_quotas"]

MOST_QUOTAS = 1000
"""Quotas that a scrape shows."""
_RATES = {
    PRODUCER: ("Produce", "byte_rate", "Bytes produced each second by those who share a quota"),
    CONSUMER: ("Fetch", "byte_rate", "Bytes fetched each second by those who share a quota"),
    REQUESTS: ("Request", "request_time", "Percent of a core that requests take of those who share a quota"),
}
_WAITED = "Seconds that requests above a quota were told to wait"


def register_quotas(metrics: Metrics, quotas: ClientQuotas, clock: Clock) -> None:
    """Add what is used of each quota of users and clients."""
    metrics.collect(partial(_used, quotas, clock))


def _used(quotas: ClientQuotas, clock: Clock) -> Iterator[Metric]:
    for use in quotas.uses(MOST_QUOTAS, clock.now().mono):
        if use.quota not in _RATES:
            continue
        kind, rate, meaning = _RATES[use.quota]
        base = f"kafka_server_{kind}_"
        whom = {"user": use.user or "", "client_id": use.client or ""}
        for name, help_, value, counter in (
            (base + rate, meaning, use.rate, False),
            (f"{base}throttle_time_seconds", _WAITED, use.delayed_s, True),
            (f"{base}throttled", "Requests above a quota", float(use.delays), True),
        ):
            yield Reading(name, help_, sample_of(name, whom, counter=counter), value, counter=counter)
