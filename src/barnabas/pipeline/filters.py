"""What `.where(...)` says about partition, offset, timestamp and topic, for the plan of a batch.

Spark hands over the conditions that are all true of the wanted rows (`pushFilters`).  Each one that speaks of
where a record is narrows what is fetched; Spark checks every row against all of them again, so that a condition
which is not understood here costs time and changes nothing.

A time bounds only the start: before the first record that is late enough (ListOffsets) there is none that is,
while behind the first that is too late there may be earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from barnabas.model import Offset, TopicPartition
from barnabas.pipeline.offsets import Offsets

__all__ = ["EVERYTHING", "Wanted", "wanted_by"]

_NO_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted: first <= offset < end, since a time (ms), of some topics and partitions."""

    first: Offset = 0
    end: Offset = _NO_END
    since: int | None = None
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    low: int = 0
    high: int = _NO_END
    """low <= partition <= high."""

    def has(self, where: TopicPartition) -> bool:
        """Whether any record of this partition is wanted."""
        return (
            (self.topics is None or where.topic in self.topics)
            and (self.partitions is None or where.partition in self.partitions)
            and self.low <= where.partition <= self.high
        )

    def narrowed(self, begin: Offsets, end: Offsets, since: Offsets) -> tuple[Offsets, Offsets]:
        """These ranges, cut; `since` has the first offset of each partition that is late enough, -1: none is."""
        starts: Offsets = {}
        ends: Offsets = {}
        for where in begin:
            if where in end and self.has(where):
                late = since.get(where, 0)
                ends[where] = min(end[where], self.end)
                starts[where] = ends[where] if late < 0 else max(begin[where], self.first, late)
        return starts, ends


EVERYTHING = Wanted()


def wanted_by(filters: Iterable[Filter]) -> Wanted:
    """What these conditions leave, all taken together."""
    wanted = EVERYTHING
    for one in filters:
        wanted = _narrow(wanted, one)
    return wanted


def _narrow(wanted: Wanted, one: Filter) -> Wanted:
    column: tuple[str, ...] = getattr(one, "attribute", ())
    name = column[0].lower() if len(column) == 1 else ""
    value: Any = getattr(one, "value", None)
    if name == "topic":
        return _of_topics(wanted, one, value)
    if name == "timestamp" and isinstance(value, datetime):
        if isinstance(one, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
            since = _milliseconds(value)
            return replace(wanted, since=max(since, wanted.since or 0)) if since is not None else wanted
        return wanted
    if name not in ("partition", "offset"):
        return wanted
    if isinstance(one, In):
        numbers = [number for number in value if _is_whole(number)]
        if len(numbers) != len(value) or not numbers:
            return wanted
        if name == "partition":
            known = wanted.partitions
            return replace(wanted, partitions=frozenset(n for n in numbers if known is None or n in known))
        return _between(wanted, name, min(numbers), max(numbers))
    if not _is_whole(value):
        return wanted
    match one:
        case EqualTo() | EqualNullSafe():
            return _between(wanted, name, value, value)
        case GreaterThan():
            return _between(wanted, name, value + 1, _NO_END - 1)
        case GreaterThanOrEqual():
            return _between(wanted, name, value, _NO_END - 1)
        case LessThan():
            return _between(wanted, name, 0, value - 1)
        case LessThanOrEqual():
            return _between(wanted, name, 0, value)
    return wanted


def _between(wanted: Wanted, name: str, low: int, high: int) -> Wanted:
    if name == "partition":
        return replace(wanted, low=max(wanted.low, low), high=min(wanted.high, high))
    return replace(wanted, first=max(wanted.first, low), end=min(wanted.end, high + 1))


def _of_topics(wanted: Wanted, one: Filter, value: Any) -> Wanted:
    if isinstance(one, EqualTo | EqualNullSafe) and isinstance(value, str):
        names = frozenset({value})
    elif isinstance(one, In) and all(isinstance(name, str) for name in value):
        names = frozenset(value)
    else:
        return wanted
    return replace(wanted, topics=names if wanted.topics is None else names & wanted.topics)


def _milliseconds(moment: datetime) -> int | None:
    """Of a moment with a zone; None where it has none, or lies before 1970."""
    if moment.tzinfo is None or (seconds := moment.timestamp()) < 0:
        return None
    return int(seconds * 1000) - 1  # (a float may be off by less than that)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
