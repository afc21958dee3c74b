"""What clients pushed, for whoever scrapes: each series as `client_` and its name, with who its client is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.model import Uuid
from barnabas.ports import Clock
from barnabas.server.observe.metrics import Gauge, Metric, Reading, sample_of

if TYPE_CHECKING:
    from barnabas.broker.telemetry.otlp import Labels
    from barnabas.broker.telemetry.pushed import Series
    from barnabas.server.api.telemetry import TelemetryApi
    from barnabas.server.observe.metrics import Metrics

__all__ = ["register_telemetry"]

_BASE = "kafka.server:type=client-metrics,name="
_SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_info")
"""Endings that mean something else in Prometheus' text."""


def register_telemetry(metrics: Metrics, api: TelemetryApi, clock: Clock) -> None:
    """Add counts of telemetry under Kafka's names, and everything that clients pushed."""
    metrics.collect(partial(_counts, api))
    metrics.collect(_Pushed(api, clock))


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


class _Pushed:
    """What clients pushed, line by line.  A line is made once, and forgotten with its client."""

    def __init__(self, api: TelemetryApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._made: dict[Uuid, _Lines] = {}

    def __call__(self) -> Iterator[Metric]:
        if self._api.telemetry is None:
            return
        before, self._made = self._made, {}
        for instance_id, about, series in self._api.telemetry.clients(self._clock.now()):
            lines = before.get(instance_id)
            if lines is None or lines.about != about:
                lines = _Lines(instance_id, about)
            self._made[instance_id] = lines
            yield Reading(
                "client_instance_info", "A client that pushes metrics", lines.info, 1.0, counter=False
            )
            shown = set()
            for one in series:
                name, sample = lines.of(one)
                if (
                    sample not in shown
                ):  # names that differ in what Prometheus does not take: the first counts
                    shown.add(sample)
                    yield Reading(name, "Pushed by clients (KIP-714)", sample, one.value, counter=one.counter)


class _Lines:
    """The lines of one client."""

    __slots__ = ("_made", "_who", "about", "info")

    def __init__(self, instance_id: Uuid, about: Labels) -> None:
        who = {"client_instance_id": str(instance_id)}
        self.about = about
        labels = {_label(key): text for key, text in about} | who
        self.info = sample_of("client_instance_info", labels, counter=False)
        self._who = {**who, "client_id": dict(about)["client_id"]}
        self._made: dict[tuple[str, Labels, bool], tuple[str, str]] = {}

    def of(self, series: Series) -> tuple[str, str]:
        """Prometheus' name of a series, and its line but the value."""
        key = series[:3]
        made = self._made.get(key)
        if made is None:
            name, labels, counter = key
            clear = name.removesuffix("_total") if counter else name
            clear = f"client_{clear}_value" if clear.endswith(_SUFFIXES) else f"client_{clear}"
            shown = {_label(label): text for label, text in labels} | self._who
            made = self._made[key] = clear, sample_of(clear, shown, counter=counter)
        return made


def _label(key: str) -> str:
    """A name that Prometheus takes: those that begin with two underscores are its own."""
    return f"l{key}" if key.startswith("__") or key[:1].isdecimal() else key
