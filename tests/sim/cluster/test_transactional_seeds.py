"""Whole clusters by seed with transactions: readers of committed records see all of each, or nothing."""

from __future__ import annotations

import pytest

from barnabas.model import TopicPartition
from barnabas.sim.cluster.clients.transactions.isolation import check_isolation, check_position, check_told
from barnabas.sim.cluster.clients.transactions.reader import StableOffsets
from barnabas.sim.cluster.clients.transactions.record import Attempt, Written
from barnabas.sim.cluster.clients.transactions.workload import run_transactional_seed
from barnabas.sim.cluster.seeds import tell
from barnabas.sim.kernel.report import InvariantViolation

SEEDS = (8, 9, 15)
HERE, THERE = TopicPartition("t0", 0), TopicPartition("t0", 1)


def test_no_fault_breaks_isolation() -> None:
    reports = [run_transactional_seed(seed) for seed in SEEDS]
    for report in reports:
        assert report.workload == "transactions"
        assert report.ok, "\n".join(tell(report))
    for what in (
        "committed",
        "aborted",
        "fenced",
        "moves",
        "repeated markers",
        "late batches",
        "strikes",
        "positions told",
    ):
        assert sum(report.counts[what] for report in reports) > 2, what


def attempt(*, commits: bool | None, settled: bool | None, position: int = 0) -> Attempt:
    records = [Written(1, HERE, 5, 0), Written(2, THERE, 7, 1)]
    return Attempt(1, "id1", "producer1a", 2, records, position, commits, 10.0, settled)


def judge(one: Attempt, times: dict[int, int], stable: tuple[float, int, int] | None = None) -> None:
    offsets = StableOffsets()
    if stable is not None:
        offsets.note(HERE, *stable)
    check_isolation([one], times, offsets, lambda written: False)


@pytest.mark.parametrize(
    ("commits", "settled", "times"),
    [
        (True, None, {1: 1}),
        (True, True, {}),
        (True, True, {1: 2, 2: 1}),
        (False, False, {1: 1, 2: 1}),
        (None, None, {1: 1, 2: 1}),
    ],
    ids=["torn", "lost", "twice", "aborted", "never ended"],
)
def test_what_is_not_whole_is_found(
    commits: bool | None, settled: bool | None, times: dict[int, int]
) -> None:
    with pytest.raises(InvariantViolation, match="T3"):
        judge(attempt(commits=commits, settled=settled), times)


def test_an_unknown_end_is_either_for_all_records() -> None:
    judge(attempt(commits=True, settled=None), {1: 1, 2: 1})
    judge(attempt(commits=True, settled=None), {})


def test_an_open_transaction_below_the_last_stable_offset_is_found() -> None:
    whole = {1: 1, 2: 1}
    judge(attempt(commits=True, settled=True), whole, (9.0, 5, 0))
    judge(attempt(commits=True, settled=True), whole, (10.5, 6, 0))
    with pytest.raises(InvariantViolation, match="T2"):
        judge(attempt(commits=True, settled=True), whole, (9.0, 6, 0))


def test_a_log_whose_open_transaction_lost_its_first_records_is_stable_up_to_its_start() -> None:
    judge(attempt(commits=True, settled=True), {1: 1, 2: 1}, (9.0, 6, 6))


def test_a_batch_that_came_late_and_counts_is_found() -> None:
    one = attempt(commits=False, settled=False)
    one.late.append(3)
    judge(one, {})
    with pytest.raises(InvariantViolation, match="T3"):
        judge(one, {3: 1})


def test_a_position_that_is_told_before_its_transaction_counts_is_found() -> None:
    one = attempt(commits=True, settled=True, position=1)
    check_told("group", [one], [(1.0, -1), (10.1, 1)])
    for early in ([(9.9, 1)], [(10.1, 2)]):
        with pytest.raises(InvariantViolation, match="T4"):
            check_told("group", [one], early)
    with pytest.raises(InvariantViolation, match="T4"):
        check_told("group", [attempt(commits=False, settled=False)], [(11.0, 1)])


def test_a_position_moves_with_the_records_of_its_transaction() -> None:
    one = attempt(commits=True, settled=None, position=1)
    check_position("group", [one], lambda value: True, 1, lambda written: False)
    check_position("group", [one], lambda value: False, -1, lambda written: True)
    with pytest.raises(InvariantViolation, match="T4"):
        check_position("group", [one], lambda value: True, -1, lambda written: False)
    aborted = attempt(commits=False, settled=False, position=1)
    with pytest.raises(InvariantViolation, match="T4"):
        check_position("group", [aborted], lambda value: False, 1, lambda written: False)
