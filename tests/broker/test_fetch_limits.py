"""How much an answer to a fetch holds and how long it waits: the same for every client, in bytes or decoded."""

from __future__ import annotations

import pytest
from tests.broker.harness import PAGE_CACHE, Node, batch
from tests.broker.plain_nodes import SIZE, WAIT_S, Reading, node_for, put

MUCH = 1 << 20
SMALLEST_MAX = 1024
"""The least that the node's fetch.max.bytes can be."""


def batch_of(size: int) -> bytearray:
    """One batch of so many bytes, a few hundred."""
    made = batch("x" * (200 + size - len(batch("x" * 200))))
    assert len(made) == size
    return made


# ---- the least that is worth an answer -------------------------------------------------------------------

LEAST = pytest.mark.parametrize(
    ("least", "enough"),
    [
        (1, 1),
        (SIZE - 1, 1),
        (SIZE, 1),
        (SIZE + 1, 2),
        (2 * SIZE - 1, 2),
        (2 * SIZE, 2),
        (2 * SIZE + 1, 3),
    ],
)


def waits_for(count: int, node: Node, reading: Reading) -> None:
    """The next fetch waits until so many batches more are there, and gets them."""
    waiting = reading.fetch()
    for _ in range(count):
        assert not waiting.here
        put(node, 0)
    assert len(reading.batches(waiting)) == count


@LEAST
def test_a_fetch_waits_until_the_least_bytes_are_there(kind: str, way: str, least: int, enough: int) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, min_bytes=least)
    for _ in range(2):
        waits_for(enough, node, reading)


@LEAST
def test_a_fetch_does_not_wait_where_the_least_bytes_are_there(
    kind: str, way: str, least: int, enough: int
) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, min_bytes=least)
    for _ in range(2):
        put(node, *[0] * enough)
        assert len(reading.batches()) == enough
    if enough > 1:
        put(node, *[0] * (enough - 1))
        assert not reading.fetch().here


def test_the_least_bytes_are_those_of_all_partitions(kind: str, way: str) -> None:
    node = node_for(kind, way, 4)
    reading = Reading(node, kind, partitions=4, min_bytes=3 * SIZE)
    for _ in range(2):
        waiting = reading.fetch()
        put(node, 2, 0)
        assert not waiting.here
        put(node, 3)
        assert sorted(index for index, _ in reading.batches(waiting)) == [0, 2, 3]
        put(node, 1, 3, 2)
        assert sorted(index for index, _ in reading.batches()) == [1, 2, 3]


@pytest.mark.parametrize("least", [0, -1])
def test_who_asks_for_no_bytes_does_not_wait(kind: str, way: str, least: int) -> None:
    reading = Reading(node_for(kind, way), kind, min_bytes=least)
    assert reading.batches() == []


def test_who_does_not_wait_gets_what_there_is(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False, min_bytes=5 * SIZE)
    assert reading.batches() == []
    put(node, 0)
    assert reading.batches() == [(0, 0)]


def test_when_its_time_is_up_a_fetch_gets_what_there_is(kind: str, way: str) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, min_bytes=5 * SIZE)
    waiting = reading.fetch()
    put(node, 0, 1, 0)
    node.after(WAIT_S - 0.01)
    assert not waiting.here
    node.after(0.02)
    assert sorted(reading.batches(waiting)) == [(0, 0), (0, 1), (1, 0)]
    assert len(node.broker.purgatory) == 0


# ---- nobody waits for more than an answer may hold -------------------------------------------------------


@pytest.mark.parametrize("least", [2 * SIZE, 2 * SIZE + 1, MUCH])
def test_a_fetch_waits_for_no_more_than_its_answer_may_hold(kind: str, way: str, least: int) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, min_bytes=least, max_bytes=2 * SIZE)
    waiting = reading.fetch()
    put(node, 0)
    assert not waiting.here
    put(node, 0)
    assert len(reading.batches(waiting)) == 2
    put(node, 0, 0)
    assert len(reading.batches()) == 2
    put(node, 0)
    assert not reading.fetch().here


def test_a_fetch_waits_for_no_more_than_the_node_lets_an_answer_hold(kind: str, way: str) -> None:
    node = node_for(kind, way, fetch_max_bytes=str(SMALLEST_MAX))
    reading = Reading(node, kind, min_bytes=MUCH, max_bytes=MUCH)
    waiting = reading.fetch()
    node.append(batch_of(512), acks=1)
    assert not waiting.here
    node.append(batch_of(512), acks=1)
    assert reading.batches(waiting) == [(0, 0), (0, 1)]
    node.append(batch_of(512), acks=1)
    node.append(batch_of(512), acks=1)
    assert reading.batches() == [(0, 2), (0, 3)]


# ---- nobody waits for more where more is there already (found 2026-11-26; Apache Kafka cuts within a batch) ----


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_who_may_have_no_further_batch_does_not_wait_for_it(kind: str, way: str, limit: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, min_bytes=3 * SIZE - 1, **{limit: 3 * SIZE - 1})
    put(node, 0, 0, 0)
    assert len(reading.batches()) == 2
    waits_for(2, node, reading)
    assert not reading.fetch().here


@pytest.mark.parametrize(("more", "waits"), [(0, True), (1, False)])
def test_what_the_limits_of_partitions_hold_back_counts_in_each(
    kind: str, way: str, more: int, waits: bool
) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, min_bytes=2 * SIZE + 2, partition_max_bytes=SIZE + 1)
    put(node, 0, 0, 1, *[1] * more)
    waiting = reading.fetch()
    assert waiting.here != waits
    if waits:
        node.after(WAIT_S + 0.01)
    assert len(reading.batches(waiting)) == 2


def test_a_limit_below_the_least_counts_for_no_more_than_it_is(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, min_bytes=2 * SIZE + 1, partition_max_bytes=2 * SIZE)
    put(node, *[0] * 9)
    waiting = reading.fetch()
    assert not waiting.here
    node.after(WAIT_S + 0.01)
    assert len(reading.batches(waiting)) == 2


def test_who_reads_in_a_sealed_segment_does_not_wait_for_more_of_it(kind: str, way: str) -> None:
    node = node_for(kind, way, segment_bytes=2 * SIZE)
    reading = Reading(node, kind, min_bytes=MUCH)
    put(node, *[0] * 5)
    assert [len(reading.batches()) for _ in range(2)] == [2, 2]
    waits_for(2, node, reading)


# ---- the most that an answer holds -----------------------------------------------------------------------


@pytest.mark.parametrize(("last", "held"), [(512, 2), (513, 1)])
def test_an_answer_holds_no_more_than_the_node_allows(kind: str, way: str, last: int, held: int) -> None:
    node = node_for(kind, way, 2, fetch_max_bytes=str(SMALLEST_MAX))
    reading = Reading(node, kind, partitions=2, max_bytes=MUCH)
    node.append(batch_of(512), acks=1)
    node.append(batch_of(last), index=1, acks=1)
    node.append(batch_of(last), index=1, acks=1)
    assert len(reading.batches()) == held


@pytest.mark.parametrize(
    ("most", "held"),
    [
        (SIZE, [0]),
        (2 * SIZE - 1, [0]),
        (2 * SIZE, [0, 0]),
        (3 * SIZE, [0, 0, 0]),
        (4 * SIZE - 1, [0, 0, 0]),
        (4 * SIZE, [0, 0, 0, 1]),
        (5 * SIZE - 1, [0, 0, 0, 1]),
        (6 * SIZE, [0, 0, 0, 1, 1, 1]),
    ],
)
def test_an_answer_holds_no_more_than_was_asked_for(kind: str, way: str, most: int, held: list[int]) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, max_bytes=most)
    put(node, 0, 0, 0, 1, 1, 1)
    assert [index for index, _ in reading.batches()] == held


@pytest.mark.parametrize(
    ("most", "held"),
    [
        (3 * SIZE, [0, 0, 0, 1, 1, 1]),
        (3 * SIZE - 1, [0, 0, 1, 1]),
        (2 * SIZE, [0, 0, 1, 1]),
        (2 * SIZE - 1, [0, 1]),
        (SIZE, [0, 1]),
        (SIZE - 1, [0]),
    ],
)
def test_a_partition_gives_no_more_than_its_limit(kind: str, way: str, most: int, held: list[int]) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, partition_max_bytes=most)
    put(node, 0, 0, 0, 1, 1, 1)
    assert [index for index, _ in reading.batches()] == held


def test_what_came_in_one_step_is_cut_to_the_limits(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, partition_max_bytes=2 * SIZE)
    waiting = reading.fetch()
    for _ in range(3):
        node.produce(batch("x" * 40), acks=1)
    node.turn()
    assert reading.batches(waiting) == [(0, 0), (0, 1)]
    assert reading.batches() == [(0, 2)]


@pytest.mark.parametrize("most", [1, 0, -1])
@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_the_first_batch_is_whole_and_partitions_take_turns(
    kind: str, way: str, limit: str, most: int
) -> None:
    node = node_for(kind, way, 3)
    reading = Reading(node, kind, partitions=3, **{limit: most})
    put(node, *[0] * 3, *[1] * 3, *[2] * 3)
    for _ in range(9):
        assert len(reading.batches()) == 1
    turns = [0, 0, 0, 1, 1, 1, 2, 2, 2] if kind == "alone" else [0, 1, 2] * 3
    assert [index for index, _ in reading.taken] == turns


def test_who_got_records_is_asked_last(kind: str, way: str) -> None:
    node = node_for(kind, way, 3)
    reading = Reading(node, kind, partitions=3, max_bytes=SIZE)
    put(node, 1, 1)
    reading.batches()
    put(node, 0, 2)
    for _ in range(3):
        reading.batches()
    last = [0, 1, 2] if kind == "alone" else [0, 2, 1]
    assert [index for index, _ in reading.taken] == [1, *last]


# ---- reading on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [SIZE, 2 * SIZE + 1, MUCH])
@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
def test_a_client_reads_on_to_the_end(kind: str, way: str, mode: str, most: int) -> None:
    node = node_for(kind, way, 3, log_flush_interval_messages=mode)
    reading = Reading(node, kind, partitions=3, max_bytes=most)
    put(node, *[0, 1, 0, 2] * 5)
    while len(reading.taken) < 20:
        assert reading.batches()
    waiting = reading.fetch()
    assert not waiting.here
    for number in range(5):
        put(node, 1)
        assert reading.batches(waiting) == [(1, 5 + number)]
        waiting = reading.fetch()
    assert sorted(reading.taken) == [
        (index, offset) for index, end in ((0, 10), (1, 10), (2, 5)) for offset in range(end)
    ]
