"""Planning against a cluster that is a dictionary: which offsets a micro-batch covers, and what is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.errors import ConfigError, KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.pipeline.offsets import Positions
from barnabas.pipeline.options import Bound, SourceOptions
from barnabas.pipeline.plan import admit, check_loss, discover, ends_of, resolve, split, times_of

from .fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def options(**given_options: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": "a:1"}
    if not {"subscribe", "assign", "subscribePattern"} & given_options.keys():
        base["subscribe"] = "t"
    return SourceOptions.parse(base | given_options, streaming=True)


def test_subscribed_topics_give_their_partitions_and_ids() -> None:
    cluster = FakeCluster({"t": [(0, 9), (0, 5)], "u": [(0, 1)]})
    found = discover(cluster, options(subscribe="t"))
    assert found.partitions == (T0, T1)
    assert found.ids == {"t": cluster.ids["t"]}


def test_a_pattern_matches_whole_names_and_no_internal_topic() -> None:
    cluster = FakeCluster({"t1": [(0, 1)], "t22": [(0, 1)], "__consumer_offsets": [(0, 1)]})
    assert [w.topic for w in discover(cluster, options(subscribePattern=r"t\d")).partitions] == ["t1"]
    assert [w.topic for w in discover(cluster, options(subscribePattern=".*")).partitions] == ["t1", "t22"]


def test_a_subscribed_topic_that_is_missing_is_an_error_unless_it_may_be() -> None:
    with pytest.raises(KafkaError):
        discover(FakeCluster({}), options(subscribe="t"))
    assert discover(FakeCluster({}), options(subscribe="t"), missing_ok=True).partitions == ()


def test_assigned_partitions_must_exist() -> None:
    cluster = FakeCluster({"t": [(0, 1), (0, 1)]})
    assert discover(cluster, options(assign='{"t": [1]}')).partitions == (T1,)
    with pytest.raises(ConfigError, match="t-7"):
        discover(cluster, options(assign='{"t": [1, 7]}'))


def resolved(cluster: FakeCluster, bound: Bound, **how: str) -> dict[TopicPartition, int]:
    found = discover(cluster, options())
    [at_times] = cluster.offsets(times_of(found, bound))
    return resolve(found, bound, ends_of(cluster, found.partitions), at_times, **how)


def test_bounds_become_offsets() -> None:
    cluster = FakeCluster({"t": [(3, 9), (0, 5)]}, times={("t", 0, 1000): 4, ("t", 1, 1000): -1})
    assert resolved(cluster, Bound(everywhere=-2)) == {T0: 3, T1: 0}
    assert resolved(cluster, Bound(everywhere=-1)) == {T0: 9, T1: 5}
    assert resolved(cluster, Bound(offsets={T0: 7, T1: -1})) == {T0: 7, T1: 5}
    assert resolved(cluster, Bound(timestamp=1000)) == {T0: 4, T1: 5}
    assert resolved(cluster, Bound(timestamps={T0: 1000, T1: 1000})) == {T0: 4, T1: 5}
    with pytest.raises(ConfigError, match="no record of t-1 is as late as 1000"):
        resolved(cluster, Bound(timestamp=1000), after_the_last="error")


@pytest.mark.parametrize("given", [{T0: 7, TopicPartition("x", 0): 1}])
def test_offsets_must_be_given_for_exactly_the_partitions_that_are_read(given: dict) -> None:
    for bound in (Bound(offsets=given), Bound(timestamps=given)):
        with pytest.raises(ConfigError, match=r"missing: t-1.*not there: x-0"):
            resolved(FakeCluster({"t": [(0, 9), (0, 5)]}), bound)


# -- what is lost ---------------------------------------------------------------------------------

ID, OTHER = Uuid(b"a" * 16), Uuid(b"b" * 16)


def test_nothing_is_lost_when_the_position_is_inside_the_log() -> None:
    assert check_loss(Positions({T0: 5}, {"t": ID}), {T0: 3}, {T0: 9}, {"t": ID}) == ({T0: 5}, [])


def test_a_new_partition_begins_at_its_first_record() -> None:
    assert check_loss(Positions({T0: 5}, {}), {T0: 0, T1: 0}, {T0: 9, T1: 4}, {}) == ({T0: 5, T1: 0}, [])


@pytest.mark.parametrize(
    ("stand", "earliest", "latest", "ids", "begin", "said"),
    [
        ({T0: 5}, {T0: 7}, {T0: 9}, {"t": ID}, {T0: 7}, "begins at offset 7"),
        ({T0: 5}, {T0: 0}, {T0: 3}, {"t": ID}, {T0: 3}, "ends at offset 3"),
        ({T0: 5}, {T0: 0}, {T0: 9}, {"t": OTHER}, {T0: 0}, "deleted and created again"),
        ({T0: 5, T1: 1}, {T0: 0}, {T0: 9}, {"t": ID}, {T0: 5}, "t-1 is gone"),
        ({T0: 5}, {T0: 0, T1: 2}, {T0: 9, T1: 4}, {"t": ID}, {T0: 5, T1: 2}, "first 2 offsets"),
    ],
)
def test_what_is_gone_is_said_and_reading_goes_on_with_what_is_there(
    stand: dict, earliest: dict, latest: dict, ids: dict, begin: dict, said: str
) -> None:
    found, [lost] = check_loss(Positions(stand, {"t": ID}), earliest, latest, ids)
    assert found == begin
    assert said in lost


# -- how much ---------------------------------------------------------------------------------------

lags = st.dictionaries(
    st.builds(TopicPartition, st.just("t"), st.integers(0, 9)), st.integers(0, 10**12), min_size=1
)


@given(lags, st.integers(1, 10**12))
@example(dict(zip((T0, T1, TopicPartition("t", 2)), (493_663, 1, 381_215), strict=True)), 730_774)
def test_exactly_the_limit_is_admitted_and_every_partition_that_lags_gets_something(
    lag: dict, limit: int
) -> None:
    begin = dict.fromkeys(lag, 5)
    latest = {where: 5 + records for where, records in lag.items()}
    end = admit(begin, latest, limit)
    lagging = sum(records > 0 for records in lag.values())
    assert sum(end.values()) - sum(begin.values()) == min(max(limit, lagging), sum(lag.values()))
    assert all(begin[where] + min(lag[where], 1) <= end[where] <= latest[where] for where in lag)


def test_each_partition_gets_its_share_by_lag() -> None:
    assert admit({T0: 0, T1: 0}, {T0: 90, T1: 10}, 10) == {T0: 9, T1: 1}
    assert admit({T0: 0, T1: 0}, {T0: 10_000_000, T1: 3}, 10) == {T0: 9, T1: 1}


@given(lags, st.none() | st.integers(1, 40), st.none() | st.integers(10**9, 10**12))
def test_the_ranges_of_the_tasks_cover_everything_once(
    lag: dict, parts: int | None, most: int | None
) -> None:
    given_options = {}
    if parts is not None:
        given_options["minPartitions"] = str(parts)
    if most is not None:
        given_options["maxRecordsPerPartition"] = str(most)
    ranges = split(dict.fromkeys(lag, 0), lag, options(**given_options), {"t": ID})
    for where, records in lag.items():
        mine = [(r.start, r.end) for r in ranges if r.where == where]
        assert sum(end - start for start, end in mine) == records
        assert all(before[1] == after[0] for before, after in pairwise(mine))
    assert all(r.start < r.end and r.id == ID for r in ranges)
    if most is not None:
        assert all(r.end - r.start <= most for r in ranges)
    if parts is not None and sum(lag.values()) >= 100 * parts:
        assert len(ranges) >= min(parts, sum(lag.values()))
