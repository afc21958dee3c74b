"""What a node counts: plain ints on the hot path, Kafka's names when somebody looks.

    metrics.counter("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec").value += n

A name is Kafka's MBean name; `exposition` turns it into Prometheus' form when it is scraped, and nothing
of that is imported before.  Rates are left to whoever reads: a counter only ever grows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping

__all__ = ["Counter", "Gauge", "Histogram", "Metric", "Metrics", "Reading", "escaped", "sample_of"]

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of a histogram's buckets, in seconds."""


class Metric:
    """A name, a sentence, and a way to read it."""

    __slots__ = ("help", "name")

    def __init__(self, name: str, help: str) -> None:  # noqa: A002 - Prometheus' word
        self.name = name
        self.help = help


class Counter(Metric):
    """A number that grows: `counter.value += 1`."""

    __slots__ = ("value",)

    def __init__(self, name: str, help: str) -> None:  # noqa: A002
        super().__init__(name, help)
        self.value = 0


class Gauge(Metric):
    """A number that is read when somebody looks."""

    __slots__ = ("read",)

    def __init__(self, name: str, help: str, read: Callable[[], float]) -> None:  # noqa: A002
        super().__init__(name, help)
        self.read = read


class Histogram(Metric):
    """Durations in seconds, counted by bucket.

    `note` is for paths that cannot spare the time: it keeps a duration, which is counted when somebody reads, or
    at the next `settle`.
    """

    __slots__ = ("_counts", "_highest", "_total", "note", "noted")

    def __init__(self, name: str, help: str) -> None:  # noqa: A002
        super().__init__(name, help)
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0
        self._highest = 0.0
        self.noted = array("d")
        """Durations that are not counted yet."""
        self.note: Callable[[float], None] = self.noted.append

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count a duration, `count` times."""
        self._counts[bisect_left(BOUNDS, seconds)] += count
        self._total += seconds * count
        if seconds > self._highest:
            self._highest = seconds

    def settle(self) -> None:
        """Count what was noted."""
        if not self.noted:
            return
        ordered = sorted(self.noted)  # (one search for each bucket, not for each duration)
        del self.noted[:]
        counts, before = self._counts, 0
        for bucket, bound in enumerate(BOUNDS):
            if before == len(ordered):
                break
            end = bisect_right(ordered, bound, before)
            counts[bucket] += end - before
            before = end
        counts[-1] += len(ordered) - before
        self._total += sum(ordered)
        self._highest = max(self._highest, ordered[-1])

    @property
    def counts(self) -> list[int]:
        """How many durations each bucket has, the last one those above all bounds."""
        self.settle()
        return self._counts

    @property
    def total(self) -> float:
        """The sum of all durations."""
        self.settle()
        return self._total

    @property
    def highest(self) -> float:
        """The longest duration."""
        self.settle()
        return self._highest

    @property
    def count(self) -> int:
        """How many durations were counted."""
        return sum(self.counts)


class Reading(Metric):
    """A number that somebody else counted: `sample` is all of its line in Prometheus' text but the value.

    `sample_of` makes it of names and labels that may hold anything; who has many keeps what it made.
    """

    __slots__ = ("counter", "sample", "value")

    def __init__(self, name: str, help: str, sample: str, value: float, *, counter: bool) -> None:  # noqa: A002
        super().__init__(name, help)
        self.sample = sample
        self.value = value
        self.counter = counter


def sample_of(name: str, labels: Mapping[str, str], *, counter: bool) -> str:
    """`sample_of("client_x", {"id": "a"}, counter=True)` -> `client_x_total{id="a"}`."""
    shown = ",".join(f'{key}="{escaped(text)}"' for key, text in sorted(labels.items()))
    return f"{name}{'_total' if counter else ''}{{{shown}}}"


def escaped(text: str) -> str:
    """The value of a label as Prometheus' text has it."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Metrics:
    """All metrics of one node, by name.  Asking twice for a name gives the same object."""

    __slots__ = ("_collectors", "_histograms", "_metrics")

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._histograms: list[Histogram] = []
        self._collectors: list[Callable[[], Iterator[Metric]]] = []

    def counter(self, name: str, help: str = "") -> Counter:  # noqa: A002
        found = self._metrics.get(name)
        if found is None:
            found = self._metrics[name] = Counter(name, help)
        assert isinstance(found, Counter), name
        return found

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> Gauge:  # noqa: A002
        """Set what is read under this name (the last one counts)."""
        found = self._metrics[name] = Gauge(name, help, read)
        return found

    def histogram(self, name: str, help: str = "") -> Histogram:  # noqa: A002
        found = self._metrics.get(name)
        if found is None:
            found = self._metrics[name] = Histogram(name, help)
            self._histograms.append(found)
        assert isinstance(found, Histogram), name
        return found

    def settle(self) -> None:
        """Count what histograms have noted.  Call it often, for they keep all of it."""
        for histogram in self._histograms:
            if histogram.noted:
                histogram.settle()

    def collect(self, collector: Callable[[], Iterator[Metric]]) -> None:
        """Have `collector` called at each reading for metrics that come and go."""
        self._collectors.append(collector)

    def __iter__(self) -> Iterator[Metric]:
        yield from self._metrics.values()
        for collector in self._collectors:
            yield from collector()

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"<Metrics {len(self)}>"
