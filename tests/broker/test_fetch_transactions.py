"""What clients are told of transactions: the same whether a fetch is taken from its bytes or decoded."""

from __future__ import annotations

import pytest
from tests.broker.harness import Answer
from tests.broker.plain_nodes import SIZE, Reading, node_for, partition_of, put
from tests.broker.transactions import ask_to_end, write


def gone(answer: Answer) -> list[tuple[int, int]] | None:
    """The aborted transactions that an answer names: producer and first offset."""
    named = answer.fetched.aborted_transactions
    return None if named is None else [(one.producer_id, one.first_offset) for one in named]


def test_an_open_transaction_is_waited_for_and_its_abort_told(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, isolation=1)
    put(node, 0)
    write(node, "of a transaction", producer=7)
    put(node, 0)
    answer = reading.fetch()
    if kind == "follower":
        assert reading.batches(answer) == [(0, 0), (0, 1), (0, 2)]
        waiting = reading.fetch()
        node.turn()
        assert partition_of(node).last_stable_offset == 1
        put(node, 0)
        assert (waiting.fetched.high_watermark, waiting.fetched.last_stable_offset) == (3, 1)
    else:
        assert reading.batches(answer) == [(0, 0)]
        assert gone(answer) == []
        assert answer.fetched.last_stable_offset == 1
        waiting = reading.fetch()
        put(node, 0)
        assert not waiting.here
        ask_to_end(node, commit=False, producer=7)
        node.turn()
        assert gone(waiting) == [(7, 1)]
        assert reading.batches(waiting) == [(0, 1), (0, 2), (0, 3), (0, 4)]
        put(node, 0)
        answer = reading.fetch()
        assert gone(answer) == []
        assert reading.batches(answer) == [(0, 5)]


def test_who_reads_everything_reads_open_transactions_too(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    write(node, "of a transaction", producer=7)
    put(node, 0)
    answer = reading.fetch()
    assert reading.batches(answer) == [(0, 0), (0, 1)]
    assert gone(answer) is None
    assert answer.fetched.last_stable_offset == 0


def test_a_partition_with_an_open_transaction_does_not_keep_back_the_others(kind: str, way: str) -> None:
    node = node_for(kind, way, 3)
    reading = Reading(node, kind, partitions=3, max_bytes=SIZE, isolation=1)
    put(node, 0)
    write(node, "x" * 40, producer=7)
    put(node, *[0, 1, 2] * 4)
    for _ in range(9 if kind != "follower" else 14):
        assert len(reading.batches()) == 1
    if kind != "follower":
        waiting = reading.fetch()
        put(node, 0)
        assert not waiting.here
        ask_to_end(node, commit=True, producer=7)
        node.turn()
        assert reading.batches(waiting) == [(0, 1)]
        for _ in range(6):
            assert len(reading.batches()) == 1
    taken = {index: [offset for where, offset in reading.taken if where == index] for index in range(3)}
    assert taken == {0: list(range(6 if kind == "follower" else 8)), 1: [0, 1, 2, 3], 2: [0, 1, 2, 3]}


@pytest.mark.parametrize("kind", ["alone", "session"])
def test_an_answer_is_not_due_for_bytes_of_an_open_transaction(kind: str, way: str) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, min_bytes=2 * SIZE, isolation=1)
    write(node, "x" * 40, producer=7)
    put(node, 0, 0, 1)
    waiting = reading.fetch()
    assert not waiting.here
    put(node, 1)
    assert reading.batches(waiting) == [(1, 0), (1, 1)]
