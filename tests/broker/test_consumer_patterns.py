"""Consumer groups of KIP-848: subscriptions by a pattern."""

from __future__ import annotations

import pytest
from tests.broker.consumer_world import ConsumerWorld

from barnabas.broker.groups.consumer.patterns import compiled_pattern
from barnabas.errors import ErrorCode


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def test_a_pattern_matches_whole_names_and_is_looked_up_beside_the_heartbeat() -> None:
    world = ConsumerWorld({"flights": 2, "flights-old": 1, "planes": 1})
    assert world.join("a", "", subscribed_topic_names=None, subscribed_topic_regex="fli.+s|planes") == {}
    world.run(0.1)
    world.beat("a", owns={})
    assert world.owned["a"] == {"flights": [0, 1], "planes": [0]}
    assert world.reloaded().group().patterns == world.group().patterns


def test_a_pattern_matches_what_its_subscriber_may_see() -> None:
    """Nobody is given, by a pattern, a topic whose name is not theirs to know."""
    world = ConsumerWorld({"flights": 2, "flights-secret": 1})
    world.groups.consumers._visible = lambda context, topic: topic != "flights-secret"
    world.join("a", "", subscribed_topic_names=None, subscribed_topic_regex="flights.*")
    world.run(0.1)
    world.beat("a", owns={})
    assert world.owned["a"] == {"flights": [0, 1]}


def test_a_pattern_that_is_hard_to_match_is_compared_in_slices() -> None:
    """The broker does other things between them: such a pattern takes milliseconds for each name of a topic."""
    world = ConsumerWorld({f"t{number}": 1 for number in range(200)})
    world.beat("a", "", subscribed_topic_names=None, subscribed_topic_regex="(.{0,30}){0,30}1")
    steps = 0
    while not world.group().patterns:
        world.now = world.now._replace(mono=world.now.mono + 0.01)
        world.groups.tick(world.now)
        steps += 1
    assert steps >= 3


def test_groups_in_a_pattern_are_not_remembered() -> None:
    """A pattern of 1,500 groups took 30 ms for a name, and a few hundred names the broker's session."""
    assert compiled_pattern("(" * 1500 + "f" + ")" * 1500).groups == 0


def test_what_is_no_pattern_is_refused(world: ConsumerWorld) -> None:
    for regex in ("(", "[a", "(?<x", "\\", "a{2,1}", "(?=a)", "x" * 5000):
        answer = world.beat("a", "", subscribed_topic_names=None, subscribed_topic_regex=regex)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION, regex
    assert not world.groups.consumer_groups


def test_a_pattern_goes_with_its_last_subscriber() -> None:
    world = ConsumerWorld()
    for member in ("a", "b"):
        world.beat(member, "", subscribed_topic_names=None, subscribed_topic_regex="fl.*")
    world.run(0.1)
    assert list(world.group().patterns) == ["fl.*"]
    world.beat("a", epoch=-1)
    assert list(world.group().patterns) == ["fl.*"]
    world.beat("b", epoch=-1)
    assert not world.group().patterns


def test_a_clock_that_is_set_back_keeps_no_group_from_its_topics_and_assignments() -> None:
    world = ConsumerWorld({"flights": 2}, group_consumer_assignment_interval_ms="1000")
    world.join("a", "", subscribed_topic_names=None, subscribed_topic_regex="flights|planes")
    world.run(2)
    world.beat("a", owns={})
    world.run(2)
    world.now = world.now._replace(wall_ms=world.now.wall_ms - 3_600_000)
    world.beat("b", "", subscribed_topic_names=None, subscribed_topic_regex="planes|flights")
    world.run(2)
    world.follow("a", "b")
    assert sorted(len(owned["flights"]) for owned in world.owned.values()) == [1, 1]
