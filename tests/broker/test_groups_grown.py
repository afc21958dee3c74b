"""__consumer_offsets that gets a second partition: where its groups are then, and what is known of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.test_groups import OffsetsPartition, World

from barnabas.broker.groups.placement import grown
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC

STAYS, MOVES = "b", "g"
"""By their hashes: of two partitions the first has the one group, the second the other."""


class Grown(World):
    """A coordinator that leads both partitions, or the first of them."""

    def __init__(self, old: OffsetsPartition | None = None, new: OffsetsPartition | None = None) -> None:
        super().__init__(old)
        self.new = new or OffsetsPartition()
        self.new.index = 1

    @property
    def topic(self) -> Any:
        return self.broker.image.topics_by_name[OFFSETS_TOPIC]

    def grow(self, *, leads_both: bool = True) -> None:
        """The commit as this node sees it: the count first, then what it has to do about it."""
        self.topic.partitions = {0: None, 1: None}
        delta: Any = SimpleNamespace(
            image=self.broker.image,
            topics_created={},
            topics_deleted={},
            partitions={self.topic.id: {1: None}},
        )
        self.groups.metadata_changed(delta, self.now)
        if leads_both:
            self.broker.lead(self.new, True, 0)
        self.run()

    def started_again(self, *first: int) -> Grown:
        """Another life, which reads the partitions in this order."""
        other = Grown(self.partition, self.new)
        other.broker.lead(other.partition, False, 0)
        other.topic.partitions = {0: None, 1: None}
        for index in first:
            other.broker.lead((other.partition, other.new)[index], True, 1)
            other.run()
        return other


@pytest.fixture
def world() -> Grown:
    return Grown()


def test_a_group_that_stays_keeps_its_positions(world: Grown) -> None:
    world.commit(5, group=STAYS)
    world.commit(6, group=MOVES)
    world.grow()
    assert world.position(STAYS) == 5


def test_a_group_that_belongs_to_another_partition_is_known_there_only(world: Grown) -> None:
    [member] = world.stable(1)
    world.commit(6, member, 1)
    world.grow()
    assert world.beat(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.position(MOVES) == -1, "as at its coordinator if that is another node"


def test_a_node_that_leads_only_the_old_partition_forgets_the_groups_that_moved(world: Grown) -> None:
    [member] = world.stable(1)
    world.grow(leads_both=False)
    assert world.beat(member, 1) == ErrorCode.NOT_COORDINATOR
    assert not world.groups.groups and not world.groups.offsets.committed


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_lies_in_the_old_partition_takes_back_nothing_after_a_restart(
    world: Grown, order: tuple[int, int]
) -> None:
    world.commit(5, group=MOVES)
    world.grow()
    world.commit(9, group=MOVES)
    assert world.started_again(*order).position(MOVES) == 9


def test_a_partition_that_is_being_read_when_the_topic_grows_is_read_by_the_new_count(world: Grown) -> None:
    world.commit(5, group=MOVES)
    world.broker.lead(world.partition, False, 1)
    world.broker.lead(world.partition, True, 2)  # nothing is read before the next tick
    world.grow(leads_both=False)
    assert not world.groups.groups and not world.groups.offsets.committed


def test_a_commit_that_made_the_topic_or_moved_a_partition_is_no_growth(world: Grown) -> None:
    def delta(partitions: dict[int, Any], made: bool) -> Any:
        created = {world.topic.id: world.topic} if made else {}
        return SimpleNamespace(
            image=world.broker.image, topics_created=created, partitions={world.topic.id: partitions}
        )

    assert not grown(delta({0: None}, made=True), OFFSETS_TOPIC)
    assert not grown(delta({0: "as it was"}, made=False), OFFSETS_TOPIC)
    assert not grown(delta({1: None}, made=False), "flights")
    assert grown(delta({1: None}, made=False), OFFSETS_TOPIC)
