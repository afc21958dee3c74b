"""The metrics in Prometheus' text form.  Imported at the first scrape.

`kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t` becomes
`kafka_server_BrokerTopicMetrics_MessagesInPerSec_total{topic="t"}`: domain, type and name in one word,
the other tags as labels.  Durations are in seconds whatever Kafka's name says.

`Names.JMX` gives the names that dashboards for the usual rules of the JMX exporter expect: in lower case and
without PerSec, `kafka_server_brokertopicmetrics_messagesin_total`.

A request that nobody has sent and a duration that was never measured have no line: of some ninety APIs a node
serves a dozen.  The text is written here, for a scrape must not hold up the event loop.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from math import inf, isfinite

from barnabas.server.observe.metrics import BOUNDS, Counter, Gauge, Histogram, Metrics, Reading, escaped

__all__ = ["CONTENT_TYPE", "Names", "exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NOT_FINITE = {inf: "+Inf", -inf: "-Inf"}
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")
_REMEMBERED = 20_000
"""Names whose text is kept: those of a node with its largest number of partitions."""


class Names(Enum):
    """How the metrics are called."""

    KAFKA = "kafka"
    JMX = "jmx"


class _Name:
    """What stands in front of the values of one metric."""

    __slots__ = ("_buckets", "_shown", "base", "labelled", "labels")

    def __init__(self, mbean: str, style: Names) -> None:
        domain, _, rest = mbean.partition(":")
        tags = dict(tag.split("=", 1) for tag in rest.split(","))
        words = (domain, tags.pop("type", ""), tags.pop("name", ""))
        base = "_".join(_NOT_WORD.sub("_", word) for word in words if word)
        self.base = base.lower().removesuffix("persec") if style is Names.JMX else base
        shown = [f'{_NOT_WORD.sub("_", key)}="{escaped(text)}"' for key, text in sorted(tags.items())]
        self.labelled = bool(shown)
        self.labels = f"{{{','.join(shown)}}}" if shown else ""
        self._shown = shown
        self._buckets: tuple[str, ...] = ()

    @property
    def buckets(self) -> tuple[str, ...]:
        """The labels of each bucket of a histogram."""
        if not self._buckets:
            self._buckets = tuple(
                "{" + ",".join(sorted([*self._shown, f'le="{bound}"'])) + "}" for bound in (*BOUNDS, "+Inf")
            )
        return self._buckets


_name = lru_cache(maxsize=_REMEMBERED)(_Name)


def exposition(metrics: Metrics, style: Names = Names.KAFKA) -> bytes:
    """One scrape."""
    families: dict[str, list[str]] = {}

    def lines_of(name: str, kind: str, text: str) -> list[str]:
        lines = families.get(name)
        if lines is None:
            lines = families[name] = [f"# HELP {name} {text}\n# TYPE {name} {kind}\n"]
        return lines

    for metric in metrics:
        if isinstance(metric, Reading):
            base = f"{metric.name}_total" if metric.counter else metric.name
            kind, sample = "counter" if metric.counter else "gauge", metric.sample
            if style is Names.JMX:
                sample = base.lower() + sample[len(base) :]
                base = base.lower()
            lines_of(base, kind, metric.help).append(f"{sample} {_number(metric.value)}\n")
            continue
        name = _name(metric.name, style)
        text = metric.help or name.base
        if isinstance(metric, Counter):
            if metric.value or not name.labelled:
                base = name.base + "_total"
                lines_of(base, "counter", text).append(f"{base}{name.labels} {float(metric.value)!r}\n")
        elif isinstance(metric, Gauge):
            value = _number(float(metric.read()))
            lines_of(name.base, "gauge", text).append(f"{name.base}{name.labels} {value}\n")
        elif isinstance(metric, Histogram) and metric.count:
            base = name.base.removesuffix("ms" if style is Names.JMX else "Ms") + "_seconds"
            _add_buckets(lines_of(base, "histogram", text), base, name, metric)
    return "".join(line for lines in families.values() for line in lines).encode()


def _add_buckets(lines: list[str], base: str, name: _Name, metric: Histogram) -> None:
    total = 0
    for shown, count in zip(name.buckets, metric.counts, strict=True):
        total += count
        lines.append(f"{base}_bucket{shown} {total}.0\n")
    lines.append(f"{base}_count{name.labels} {total}.0\n{base}_sum{name.labels} {metric.total!r}\n")


def _number(value: float) -> str:
    """As Prometheus writes it; whole numbers keep their `.0`, as its own client does."""
    return repr(float(value)) if isfinite(value) else _NOT_FINITE.get(value, "NaN")
