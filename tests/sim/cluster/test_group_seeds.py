"""Whole clusters by seed with consumer groups: one owner for each partition, whose positions count."""

from __future__ import annotations

import pytest

from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.sim.cluster.clients.groups.balance import check_balance
from barnabas.sim.cluster.clients.groups.positions import LATE, NOTHING, Positions
from barnabas.sim.cluster.clients.groups.workload import run_group_seed
from barnabas.sim.cluster.seeds import tell
from barnabas.sim.kernel.report import InvariantViolation

SEEDS = (2, 3, 4)
TOPIC = Uuid(b"flights".ljust(16, b"-"))
PLACE = (TOPIC, 0)


def test_no_fault_gives_a_partition_two_owners_or_loses_a_position() -> None:
    reports = [run_group_seed(seed) for seed in SEEDS]
    for report in reports:
        assert report.workload == "groups"
        assert report.ok, "\n".join(tell(report))
    for what in (
        "fenced",
        "left",
        "silences",
        "given up",
        "stale commits refused",
        "positions read",
        "moves",
        "classic rebalances",
        "changes of protocol seen",
    ):
        assert sum(report.counts[what] for report in reports) > 0, what


# -- G4 -----------------------------------------------------------------------------------------------


@pytest.fixture
def positions() -> Positions:
    """Two commits were acknowledged, one after the other."""
    positions = Positions("g")
    for at in (1.0, 3.0):
        commit = positions.sent(PLACE, "a", 5, at, stale=False)
        positions.answered(commit, ErrorCode.NONE, at + 1.0)
    return positions


def test_the_last_commit_is_the_position(positions: Positions) -> None:
    positions.read(PLACE, 2, 5.0, "reader")


@pytest.mark.parametrize("number", [NOTHING, 1, 7], ids=["forgotten", "set back", "made up"])
def test_another_position_is_found(positions: Positions, number: int) -> None:
    with pytest.raises(InvariantViolation, match="G4"):
        positions.read(PLACE, number, 5.0, "reader")


def test_who_asked_before_the_last_commit_was_acknowledged_may_read_the_one_before(
    positions: Positions,
) -> None:
    positions.read(PLACE, 1, 3.5, "reader")


def test_a_commit_that_nobody_answered_may_come_late_but_not_for_ever(positions: Positions) -> None:
    positions.sent(PLACE, "b", 6, 5.0, stale=False)
    positions.read(PLACE, 3, 6.0, "reader")
    commit = positions.sent(PLACE, "a", 7, 6.0 + LATE, stale=False)
    positions.answered(commit, ErrorCode.NONE, 7.0 + LATE)
    with pytest.raises(InvariantViolation, match="not <Commit 4"):
        positions.read(PLACE, 3, 8.0 + LATE, "reader")


def test_a_stale_commit_that_is_taken_is_found(positions: Positions) -> None:
    commit = positions.sent(PLACE, "a", 4, 5.0, stale=True)
    with pytest.raises(InvariantViolation, match="was not refused"):
        positions.answered(commit, ErrorCode.NONE, 6.0)


def test_a_stale_commit_that_nobody_answered_must_not_be_read(positions: Positions) -> None:
    positions.sent(PLACE, "a", 4, 5.0, stale=True)
    with pytest.raises(InvariantViolation, match="G4"):
        positions.read(PLACE, 3, 6.0, "reader")


def test_a_refused_commit_must_not_be_read(positions: Positions) -> None:
    positions.answered(positions.sent(PLACE, "a", 4, 5.0, stale=False), ErrorCode.STALE_MEMBER_EPOCH, 6.0)
    with pytest.raises(InvariantViolation, match="G4"):
        positions.read(PLACE, 3, 7.0, "reader")


def test_a_deleted_position_is_none(positions: Positions) -> None:
    positions.answered(positions.deleting(PLACE, 5.0), ErrorCode.NONE, 6.0)
    positions.read(PLACE, NOTHING, 7.0, "reader")


# -- G5 -----------------------------------------------------------------------------------------------

ALL = {(TOPIC, index) for index in range(4)}


def balance(a: set[int], b: set[int], assignor: str = "uniform") -> str | None:
    owned = {"a": {(TOPIC, index) for index in a}, "b": {(TOPIC, index) for index in b}}
    return check_balance({"a": ALL, "b": ALL}, owned, {assignor}, {"a": 1, "b": 2})


def test_one_owner_each_and_a_fair_share_is_in_order() -> None:
    assert balance({0, 2}, {1, 3}) is None
    assert balance({0, 1}, {2, 3}, "range") is None


@pytest.mark.parametrize(
    ("a", "b", "assignor", "wrong"),
    [
        ({0, 1}, {1, 2, 3}, "uniform", "a and b own"),
        ({0, 1}, {2}, "uniform", "nobody owns"),
        ({0}, {1, 2, 3}, "uniform", "not shared out evenly"),
        ({0, 2}, {1, 3}, "range", "not 0 to 1"),
        ({0, 1, 4}, {2, 3}, "uniform", "does not subscribe"),
    ],
)
def test_what_is_not_shared_out_is_found(a: set[int], b: set[int], assignor: str, wrong: str) -> None:
    assert wrong in (balance(a, b, assignor) or "")
