"""The metrics in Prometheus' text form.  Imported at the first scrape, and prometheus_client with it.

`kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t` becomes
`kafka_server_BrokerTopicMetrics_MessagesInPerSec_total{topic="t"}`: domain, type and name in one word,
the other tags as labels.  Durations are in seconds whatever Kafka's name says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf, isfinite

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from barnabas.server.observe.metrics import BOUNDS, Counter, Gauge, Histogram, Metric, Metrics, Reading

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_NOT_FINITE = {inf: "+Inf", -inf: "-Inf"}
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Prometheus' name and the labels of an MBean name."""
    domain, _, rest = name.partition(":")
    tags = dict(tag.split("=", 1) for tag in rest.split(","))
    words = (domain, tags.pop("type", ""), tags.pop("name", ""))
    base = "_".join(_NOT_WORD.sub("_", word) for word in words if word)
    return base, {_NOT_WORD.sub("_", key): value for key, value in tags.items()}


class _Collector:
    """What prometheus_client asks for the families of one scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.readings: list[Reading] = []
        """What has its line already."""

    def collect(self) -> Iterator[Family]:
        families: dict[str, Family] = {}
        for metric in self._metrics:
            if isinstance(metric, Reading):
                self.readings.append(metric)
                continue
            base, labels = split_name(metric.name)
            family = families.get(base)
            if family is None:
                family = families[base] = _family(metric, base, list(labels))
            _add(family, metric, list(labels.values()))
        yield from families.values()


def _family(metric: Metric, base: str, labels: list[str]) -> Family:
    text = metric.help or base
    if isinstance(metric, Counter):
        return CounterMetricFamily(base, text, labels=labels)
    if isinstance(metric, Gauge):
        return GaugeMetricFamily(base, text, labels=labels)
    return HistogramMetricFamily(base.removesuffix("Ms") + "_seconds", text, labels=labels)


def _add(family: Family, metric: Metric, labels: list[str]) -> None:
    if isinstance(metric, Counter):
        assert isinstance(family, CounterMetricFamily)
        family.add_metric(labels, metric.value)
    elif isinstance(metric, Gauge):
        assert isinstance(family, GaugeMetricFamily)
        family.add_metric(labels, metric.read())
    elif isinstance(metric, Histogram):
        assert isinstance(family, HistogramMetricFamily)
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*BOUNDS, "+Inf"), metric.counts, strict=True):
            total += count
            buckets.append((str(bound), total))
        family.add_metric(labels, buckets, metric.total)


def exposition(metrics: Metrics) -> bytes:
    """One scrape."""
    registry, collector = CollectorRegistry(), _Collector(metrics)
    registry.register(collector)
    return generate_latest(registry) + _lines(collector.readings)


def _lines(readings: list[Reading]) -> bytes:
    """The readings, those of one name together.

    There may be thousands, and the event loop waits meanwhile: nothing is made of them but their lines.
    """
    families: dict[str, list[str]] = {}
    for reading in readings:
        name = f"{reading.name}_total" if reading.counter else reading.name
        lines = families.get(name)
        if lines is None:
            kind = "counter" if reading.counter else "gauge"
            lines = families[name] = [f"# HELP {name} {reading.help}\n# TYPE {name} {kind}\n"]
        value = reading.value
        text = repr(value) if isfinite(value) else _NOT_FINITE.get(value, "NaN")
        lines.append(f"{reading.sample} {text}\n")
    return "".join(line for lines in families.values() for line in lines).encode()
