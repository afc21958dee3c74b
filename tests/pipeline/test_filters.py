"""What a condition leaves of a topic: never less than the rows for which it is true."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from barnabas.model import TopicPartition
from barnabas.pipeline.filters import EVERYTHING, wanted_by
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.source import BatchReader, FilteringReader

from .fake_cluster import FakeCluster

PART, OFF, TIME = ("partition",), ("offset",), ("timestamp",)
TRUE = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
    In: lambda a, b: a in b,
}
numbers = st.integers(-3, 12)
conditions = st.lists(
    st.builds(
        lambda kind, column, number, more: kind(column, (number, *more) if kind is In else number),
        st.sampled_from(list(TRUE)),
        st.sampled_from([PART, OFF]),
        numbers,
        st.lists(numbers, max_size=2),
    ),
    max_size=3,
)


@given(conditions)
def test_every_row_that_a_condition_wants_is_planned(filters: list[Any]) -> None:
    wanted = wanted_by(filters)
    logs = {TopicPartition("t", partition): (0, 10) for partition in range(4)}
    begin, end = wanted.narrowed(dict.fromkeys(logs, 0), dict.fromkeys(logs, 10), {})
    planned = {(where.partition, n) for where in begin for n in range(begin[where], end[where])}
    rows = [{"partition": partition, "offset": offset} for partition in range(4) for offset in range(10)]
    for row in rows:
        if all(TRUE[type(one)](row[one.attribute[0]], one.value) for one in filters):
            assert (row["partition"], row["offset"]) in planned


def reader(cluster: FakeCluster, *filters: Any) -> BatchReader:
    given_options = {"kafka.bootstrap.servers": "a:1", "subscribePattern": ".*"}
    made = FilteringReader(SourceOptions.parse(given_options, streaming=False), lambda _: cluster)
    assert made.pushFilters(list(filters)) == list(filters), "Spark checks each row all the same"
    return made


def spans(found: list[Any]) -> list[tuple[str, int, int]]:
    return [(str(part.range.where), part.range.start, part.range.end) for part in found]


def test_only_what_the_conditions_leave_is_planned() -> None:
    logs = {"t": [(0, 9), (2, 9), (0, 9)], "u": [(0, 5)]}
    cut = reader(
        FakeCluster(logs), EqualTo(("topic",), "t"), In(PART, (0, 1)), LessThan(OFF, 5), GreaterThan(OFF, 0)
    )
    assert spans(cut.partitions()) == [("t-0", 1, 5), ("t-1", 2, 5)]
    assert spans(reader(FakeCluster(logs), EqualTo(PART, 7)).partitions()) == []


def test_a_time_bounds_the_start_alone() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    ms = int(noon.timestamp() * 1000) - 1
    times = {("t", 0, ms): 4, ("t", 1, ms): -1}
    cluster = FakeCluster({"t": [(0, 9), (0, 9)]}, times=times)
    assert spans(reader(cluster, GreaterThan(TIME, noon)).partitions()) == [("t-0", 4, 9)]
    assert wanted_by([LessThan(TIME, noon)]) == EVERYTHING


@pytest.mark.parametrize(
    "other",
    [
        Not(EqualTo(PART, 1)),
        EqualTo(PART, "1"),
        EqualTo(PART, True),
        In(OFF, (1, None)),
        In(OFF, ()),
        EqualTo(("value", "partition"), 1),
        EqualTo(("key",), b"x"),
        GreaterThan(TIME, datetime(2024, 1, 1)),
        StringStartsWith(("topic",), "t"),
    ],
)
def test_what_is_not_understood_leaves_everything(other: Any) -> None:
    assert wanted_by([other]) == EVERYTHING
