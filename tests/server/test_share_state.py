"""A broker that holds the state of share groups says so in its log, once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.controller.image import ImageDelta
from barnabas.model import SHARE_STATE_TOPIC
from barnabas.server.observe import events
from barnabas.server.replication.share_state import ShareState

ME, KAFKAS = 4, (1, 2, 3)


class World:
    """Broker 4 is ours; the others, which serve share groups, are not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, level: int = 2) -> None:
        self.told: list[dict[str, Any]] = []
        self.level = level
        self.image: Any = SimpleNamespace(topics_by_name={}, feature=lambda name: self.level)
        self.share_state = ShareState(ME, self.image)
        monkeypatch.setattr(events, "emit", lambda event, **fields: self.told.append(fields))

    def placed(self, *replicas: tuple[int, ...]) -> None:
        """The topic is made, or moves: of each partition the first replica leads."""
        states = {
            index: SimpleNamespace(leader=nodes[0], replicas=nodes) for index, nodes in enumerate(replicas)
        }
        topic = SimpleNamespace(id="id", partitions=states)
        self.image.topics_by_name[SHARE_STATE_TOPIC] = topic
        delta = ImageDelta(self.image)
        delta.partitions["id"] = dict.fromkeys(states)  # type: ignore[index]
        self.share_state.changed(delta)


def test_it_is_told_once_how_much_of_it_is_here_and_what_moves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.placed((1, 2, 3), (ME, 1, 2), (3, ME, 1))
    world.placed((1, 2, 3), (ME, 1, 2), (ME, 3, 1))
    [told] = world.told
    assert (told["leads"], told["replicas"]) == (1, 2)
    assert "barnabas topics reassign __share_group_state --brokers" in told["next"]


def test_it_is_told_again_when_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    for here in ((ME, 1), KAFKAS, (1, ME)):
        world.placed(here)
    assert [told["leads"] for told in world.told] == [1, 0]


def test_a_node_that_starts_tells_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, level=0)
    world.placed((ME, 1, 2))
    assert world.told == [], "share groups are not in force"
    world.level = 1
    world.share_state.look()
    assert len(world.told) == 1


def test_other_commits_and_other_brokers_partitions_are_nothing_to_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.placed(KAFKAS)
    world.share_state.changed(ImageDelta(world.image))
    world.image.topics_by_name.clear()
    world.share_state.changed(ImageDelta(world.image))
    assert world.told == []
