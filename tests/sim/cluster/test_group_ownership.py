"""The simulator's check of who owns what in a consumer group finds what it shall find."""

from __future__ import annotations

import pytest
from tests.broker.consumer_world import ConsumerWorld

from barnabas.model import Uuid
from barnabas.sim.cluster.clients.groups.ownership import Holdings, check_coordinator
from barnabas.sim.kernel.report import InvariantViolation

PLACE = (Uuid(b"flights".ljust(16, b"-")), 0)


@pytest.fixture
def world() -> ConsumerWorld:
    world = ConsumerWorld()
    world.join("a")
    world.join("b")
    return world


def test_a_group_in_which_a_partition_moves_is_in_order(world: ConsumerWorld) -> None:
    check_coordinator(world.group())


def test_two_owners_of_one_partition_are_found(world: ConsumerWorld) -> None:
    group = world.group()
    first = group.members["a"]
    group.members["c"] = first._replace(id="c")
    with pytest.raises(InvariantViolation, match=r"G2: .* a and c own"):
        check_coordinator(group)


def test_a_partition_that_is_not_released_with_its_owner_is_found(world: ConsumerWorld) -> None:
    group = world.group()
    del group.members["a"]
    with pytest.raises(InvariantViolation, match="nobody owns"):
        check_coordinator(group)


def test_a_partition_in_two_targets_is_found(world: ConsumerWorld) -> None:
    group = world.group()
    group.target["c"] = group.target["a"]
    with pytest.raises(InvariantViolation, match="in the targets of a and c"):
        check_coordinator(group)


def test_a_member_ahead_of_its_group_is_found(world: ConsumerWorld) -> None:
    group = world.group()
    group.members["a"] = group.members["a"]._replace(epoch=group.epoch + 1)
    with pytest.raises(InvariantViolation, match="ahead of"):
        check_coordinator(group)


def test_what_one_member_holds_another_must_not_get() -> None:
    holdings = Holdings("g")
    holdings.granted("a", PLACE, 1.0, 6.0)
    with pytest.raises(InvariantViolation, match="a holds until 6"):
        holdings.granted("b", PLACE, 5.9, 9.0)


@pytest.mark.parametrize("end", ["given up", "gone", "session over"])
def test_what_a_member_holds_no_longer_another_may_get(end: str) -> None:
    holdings = Holdings("g")
    holdings.granted("a", PLACE, 1.0, 6.0)
    match end:
        case "given up":
            holdings.given_up("a", PLACE)
        case "gone":
            holdings.gone("a")
    holdings.granted("b", PLACE, 6.0 if end == "session over" else 2.0, 12.0)
    with pytest.raises(InvariantViolation):
        holdings.granted("a", PLACE, 7.0, 12.0)


def test_an_answered_heartbeat_keeps_what_its_member_holds() -> None:
    holdings = Holdings("g")
    holdings.granted("a", PLACE, 1.0, 6.0)
    holdings.granted("a", PLACE, 4.0, 10.0)
    assert holdings.last(PLACE) == "a"
    with pytest.raises(InvariantViolation, match="a holds until 10"):
        holdings.granted("b", PLACE, 7.0, 12.0)


def test_a_static_member_that_another_client_takes_over_holds_what_that_one_says() -> None:
    holdings = Holdings("g")
    holdings.granted("a", PLACE, 1.0, 6.0)
    holdings.owns_only("a", [PLACE])
    with pytest.raises(InvariantViolation, match="G3"):
        holdings.granted("b", PLACE, 2.0, 7.0)
    holdings.owns_only("a", [])
    holdings.granted("b", PLACE, 2.0, 7.0)
