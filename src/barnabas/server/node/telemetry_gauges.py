"""What clients pushed, for whoever scrapes: each series as `client_` and its name, with who its client is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.ports import Clock
from barnabas.server.observe.metrics import Gauge, Metric, Reading

if TYPE_CHECKING:
    from barnabas.server.api.telemetry import TelemetryApi
    from barnabas.server.observe.metrics import Metrics

__all__ = ["register_telemetry"]

_BASE = "kafka.server:type=client-metrics,name="
_SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_info")
"""Endings that mean something else in Prometheus' text."""


def register_telemetry(metrics: Metrics, api: TelemetryApi, clock: Clock) -> None:
    """Add counts of telemetry under Kafka's names, and everything that clients pushed."""
    metrics.collect(partial(_counts, api))
    metrics.collect(partial(_pushed, api, clock))


def _counts(api: TelemetryApi) -> Iterator[Metric]:
    if (telemetry := api.telemetry) is None:
        return
    known, throttled, unknown = telemetry.instances.statistics()
    kept = telemetry.statistics()
    for name, meaning, value in (
        ("instance-count", "Clients that asked what to push, or pushed", known),
        ("throttle-count", "Requests of telemetry that came too early", throttled),
        ("unknown-subscription-request-count", "Pushes for a subscription that is over", unknown),
        ("plugin-export-count", "Pushes that were taken", telemetry.taken),
        ("plugin-error-count", "Pushes that could not be read", telemetry.refused),
        ("SeriesCount", "Series of clients that are kept", kept.series),
        (
            "SeriesLeftOut",
            "Series that were not kept: too many, too long or of another kind",
            kept.left_out,
        ),
    ):
        yield Gauge(_BASE + name, meaning, partial(float, value))


def _pushed(api: TelemetryApi, clock: Clock) -> Iterator[Metric]:
    if (telemetry := api.telemetry) is None:
        return
    for instance_id, about, series in telemetry.clients(clock.now()):
        who = {"client_instance_id": str(instance_id)}
        shown = {_label(key): text for key, text in about} | who
        yield Reading("client_instance_info", "A client that pushes metrics", shown, 1.0, counter=False)
        who["client_id"] = dict(about)["client_id"]
        lines = set()
        for name, labels, counter, value in series:
            clear = name.removesuffix("_total") if counter else name
            clear = f"{clear}_value" if clear.endswith(_SUFFIXES) else clear
            shown = {_label(key): text for key, text in labels} | who
            line = (clear, counter, tuple(sorted(shown.items())))
            if line in lines:
                continue  # names that differ in what Prometheus does not take: the first counts
            lines.add(line)
            yield Reading(f"client_{clear}", "Pushed by clients (KIP-714)", shown, value, counter=counter)


def _label(key: str) -> str:
    """A name that Prometheus takes: those that begin with two underscores are its own."""
    return f"l{key}" if key.startswith("__") or key[:1].isdigit() else key
