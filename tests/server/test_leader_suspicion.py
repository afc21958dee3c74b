"""Who asks for a leader that died a moment ago is answered when others lead, and after a second at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from tests.patience import PATIENCE_S

from barnabas.controller.image import BrokerState, ImageDelta, MetadataImage
from barnabas.model import ZERO_UUID, NodeId, Now, Uuid
from barnabas.server.replication.leader_suspicion import DEPARTED_FOR_S, LONGEST_SUSPICION_S, LeaderSuspicion

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
    suspicion = LeaderSuspicion(Clock())
    assert not suspicion.concern([topic(3)])
    suspicion.lost(3)
    assert suspicion.concern([topic(3)]) and not suspicion.concern([topic(2)])


def test_a_leader_that_answers_again_is_not_doubted() -> None:
    suspicion = LeaderSuspicion(Clock())
    suspicion.lost(3)
    suspicion.heard(3)
    assert not suspicion.concern([topic(3)])


def test_a_doubt_ends_by_itself_however_often_the_leader_refuses() -> None:
    clock = Clock()
    suspicion = LeaderSuspicion(clock)
    suspicion.lost(3)
    clock.mono += LONGEST_SUSPICION_S / 2
    suspicion.lost(3)
    assert suspicion.concern([topic(3)])
    clock.mono += LONGEST_SUSPICION_S / 2
    assert not suspicion.concern([topic(3)])
    suspicion.lost(3)
    assert not suspicion.concern([topic(3)]), "it has neither answered nor registered since it was lost"
    suspicion.heard(3)
    suspicion.lost(3)
    assert suspicion.concern([topic(3)])


def test_a_node_that_registers_anew_is_not_doubted() -> None:
    suspicion = LeaderSuspicion(Clock())
    suspicion.lost(3)
    suspicion.changed(fenced(3, fenced=False))
    assert not suspicion.concern([topic(3)])


def test_who_waits_is_told_when_something_changes() -> None:
    async def story() -> None:
        suspicion = LeaderSuspicion(Clock())
        suspicion.lost(3)
        for what in (lambda: suspicion.heard(3), lambda: suspicion.changed(fenced(2))):
            suspicion.lost(3)
            waiting = [asyncio.ensure_future(suspicion.news()) for _ in range(2)]
            await asyncio.sleep(0)
            what()
            await asyncio.wait_for(asyncio.gather(*waiting), 0.5)

    asyncio.run(story())


def test_a_question_is_settled_when_its_leader_answers_again_and_not_before() -> None:
    async def story() -> None:
        suspicion = LeaderSuspicion(Clock())
        suspicion.lost(3)
        asked = asyncio.ensure_future(suspicion.settled(lambda: [topic(3)], nobody))
        await asyncio.wait([asked], timeout=0.03)
        assert not asked.done()
        await asyncio.wait_for(suspicion.settled(lambda: [topic(2)], nobody), PATIENCE_S)
        suspicion.heard(3)
        await asyncio.wait_for(asked, PATIENCE_S)

    asyncio.run(story())


def test_a_question_asks_the_leaders_that_it_would_name_and_no_others() -> None:
    async def story() -> None:
        suspicion = LeaderSuspicion(Clock(), NodeId(1))
        asked: list[list[NodeId]] = []

        async def ask(leaders: Iterable[NodeId]) -> None:
            asked.append(list(leaders))
            suspicion.lost(NodeId(3))

        waiting = asyncio.ensure_future(
            suspicion.settled(lambda: [topic(3), topic(1), topic(-1), topic(2)], ask)
        )
        await asyncio.wait([waiting], timeout=0.03)
        assert asked == [[2, 3]] and not waiting.done(), "node 3 turned out to be gone"
        suspicion.changed(fenced(3))
        await asyncio.wait_for(waiting, PATIENCE_S)

    asyncio.run(story())


def test_nobody_waits_when_nothing_is_in_doubt() -> None:
    asyncio.run(asyncio.wait_for(LeaderSuspicion(Clock()).news(), PATIENCE_S))


def asking(suspicion: LeaderSuspicion, connection: int) -> asyncio.Task[None]:
    """A question of a connection that waits."""
    return asyncio.ensure_future(suspicion.settled(lambda: [topic(3)], nobody, connection))


def test_a_connection_that_asks_twice_hears_once_more_of_a_leader_that_was_fenced() -> None:
    async def story() -> None:
        clock = Clock()
        suspicion = LeaderSuspicion(clock)
        suspicion.changed(fenced(3))
        waiting = [asking(suspicion, connection) for connection in (1, 2, 4)]
        await asyncio.sleep(0)
        assert suspicion.departed(1) == [3] and suspicion.departed(1) == [] and suspicion.departed(2) == [3]
        clock.mono += DEPARTED_FOR_S
        assert suspicion.departed(4) == []
        await asyncio.gather(*waiting)

    asyncio.run(story())


def test_a_connection_that_asks_once_is_not_told_the_name_of_a_dead_node() -> None:
    async def story() -> None:
        suspicion = LeaderSuspicion(Clock())
        suspicion.changed(fenced(3))
        assert suspicion.departed(1) == []
        await asking(suspicion, 2)
        assert suspicion.departed(2) == []

    asyncio.run(story())


def test_a_node_that_led_nothing_or_came_back_is_not_named_once_more() -> None:
    async def story() -> None:
        suspicion = LeaderSuspicion(Clock())
        waiting = asking(suspicion, 1)
        await asyncio.sleep(0)
        suspicion.changed(fenced(3, led=False))
        assert suspicion.departed(1) == []
        suspicion.changed(fenced(3))
        suspicion.changed(fenced(3, fenced=False))
        assert suspicion.departed(1) == []
        await waiting

    asyncio.run(story())
