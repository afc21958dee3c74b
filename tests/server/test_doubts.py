"""Who asks for a leader that died a moment ago is answered when others lead, and after a second at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from tests.patience import PATIENCE_S

from barnabas.controller.image import BrokerState, ImageDelta, MetadataImage
from barnabas.model import ZERO_UUID, NodeId, Now, Uuid
from barnabas.server.replication.leader_suspicion import LONGEST, REMEMBERED, Doubts

TOPIC = Uuid(bytes(15) + b"\1")


class Clock:
    def __init__(self) -> None:
        self.mono = 100.0

    def now(self) -> Now:
        return Now(self.mono, 0)


async def nobody(leaders: Iterable[NodeId]) -> None:
    """Asks none of them."""


def topic(leader: int) -> Any:
    return SimpleNamespace(id=TOPIC, partitions={0: SimpleNamespace(leader=leader)})


def fenced(node: int, *, led: bool = True, fenced: bool = True) -> ImageDelta:
    """A commit that fences the node, and moves what it led."""
    image = MetadataImage("cluster")
    image.brokers[node] = BrokerState(node, 7, ZERO_UUID, (), {}, None, fenced, False, (), ())
    delta = ImageDelta(image)
    delta.brokers.add(node)
    if led:
        delta.partitions[TOPIC] = {0: SimpleNamespace(leader=node)}  # type: ignore[dict-item]
    return delta


def test_only_topics_that_a_lost_leader_leads_are_concerned() -> None:
    doubts = Doubts(Clock())
    assert not doubts.concern([topic(3)])
    doubts.lost(3)
    assert doubts.concern([topic(3)]) and not doubts.concern([topic(2)])


def test_a_leader_that_answers_again_is_not_doubted() -> None:
    doubts = Doubts(Clock())
    doubts.lost(3)
    doubts.heard(3)
    assert not doubts.concern([topic(3)])


def test_a_doubt_ends_by_itself_however_often_the_leader_refuses() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    doubts.lost(3)
    clock.mono += LONGEST / 2
    doubts.lost(3)
    assert doubts.concern([topic(3)])
    clock.mono += LONGEST / 2
    assert not doubts.concern([topic(3)])
    doubts.lost(3)
    assert not doubts.concern([topic(3)]), "it has neither answered nor registered since it was lost"
    doubts.heard(3)
    doubts.lost(3)
    assert doubts.concern([topic(3)])


def test_a_node_that_registers_anew_is_not_doubted() -> None:
    doubts = Doubts(Clock())
    doubts.lost(3)
    doubts.changed(fenced(3, fenced=False))
    assert not doubts.concern([topic(3)])


def test_who_waits_is_told_when_something_changes() -> None:
    async def story() -> None:
        doubts = Doubts(Clock())
        doubts.lost(3)
        for what in (lambda: doubts.heard(3), lambda: doubts.changed(fenced(2))):
            doubts.lost(3)
            waiting = [asyncio.ensure_future(doubts.news()) for _ in range(2)]
            await asyncio.sleep(0)
            what()
            await asyncio.wait_for(asyncio.gather(*waiting), 0.5)

    asyncio.run(story())


def test_a_question_is_settled_when_its_leader_answers_again_and_not_before() -> None:
    async def story() -> None:
        doubts = Doubts(Clock())
        doubts.lost(3)
        asked = asyncio.ensure_future(doubts.settled(lambda: [topic(3)], nobody))
        await asyncio.wait([asked], timeout=0.03)
        assert not asked.done()
        await asyncio.wait_for(doubts.settled(lambda: [topic(2)], nobody), PATIENCE_S)
        doubts.heard(3)
        await asyncio.wait_for(asked, PATIENCE_S)

    asyncio.run(story())


def test_a_question_asks_the_leaders_that_it_would_name_and_no_others() -> None:
    async def story() -> None:
        doubts = Doubts(Clock(), NodeId(1))
        asked: list[list[NodeId]] = []

        async def ask(leaders: Iterable[NodeId]) -> None:
            asked.append(list(leaders))
            doubts.lost(NodeId(3))

        waiting = asyncio.ensure_future(
            doubts.settled(lambda: [topic(3), topic(1), topic(-1), topic(2)], ask)
        )
        await asyncio.wait([waiting], timeout=0.03)
        assert asked == [[2, 3]] and not waiting.done(), "node 3 turned out to be gone"
        doubts.changed(fenced(3))
        await asyncio.wait_for(waiting, PATIENCE_S)

    asyncio.run(story())


def test_nobody_waits_when_nothing_is_in_doubt() -> None:
    asyncio.run(asyncio.wait_for(Doubts(Clock()).news(), PATIENCE_S))


def asking(doubts: Doubts, connection: int) -> asyncio.Task[None]:
    """A question of a connection that waits."""
    return asyncio.ensure_future(doubts.settled(lambda: [topic(3)], nobody, connection))


def test_a_connection_that_asks_twice_hears_once_more_of_a_leader_that_was_fenced() -> None:
    async def story() -> None:
        clock = Clock()
        doubts = Doubts(clock)
        doubts.changed(fenced(3))
        waiting = [asking(doubts, connection) for connection in (1, 2, 4)]
        await asyncio.sleep(0)
        assert doubts.departed(1) == [3] and doubts.departed(1) == [] and doubts.departed(2) == [3]
        clock.mono += REMEMBERED
        assert doubts.departed(4) == []
        await asyncio.gather(*waiting)

    asyncio.run(story())


def test_a_connection_that_asks_once_is_not_told_the_name_of_a_dead_node() -> None:
    async def story() -> None:
        doubts = Doubts(Clock())
        doubts.changed(fenced(3))
        assert doubts.departed(1) == []
        await asking(doubts, 2)
        assert doubts.departed(2) == []

    asyncio.run(story())


def test_a_node_that_led_nothing_or_came_back_is_not_named_once_more() -> None:
    async def story() -> None:
        doubts = Doubts(Clock())
        waiting = asking(doubts, 1)
        await asyncio.sleep(0)
        doubts.changed(fenced(3, led=False))
        assert doubts.departed(1) == []
        doubts.changed(fenced(3))
        doubts.changed(fenced(3, fenced=False))
        assert doubts.departed(1) == []
        await waiting

    asyncio.run(story())
