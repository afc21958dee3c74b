"""Metadata of many partitions are carried out between other work; who had them changed is answered afterwards."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now
from barnabas.server.loop.tasks import Tasks
from barnabas.server.replication.applier import SLICE_S, Applier

STEP = 0.001


class Behind:
    """`left` steps, each of which takes a millisecond, and `aside` that threads have."""

    def __init__(self, clock: Clock) -> None:
        self.left = self.aside = 0
        self.told = 0
        self._clock = clock

    def __bool__(self) -> bool:
        return self.ready or self.aside > 0

    @property
    def ready(self) -> bool:
        return self.left > 0

    def step(self, now: Now) -> None:
        self.left -= 1
        self._clock.mono += STEP

    def tell(self) -> None:
        self.told += 1


class Clock:
    mono = 0.0

    def now(self) -> Now:
        return Now(self.mono, 0)


class World:
    def __init__(self, most: int = 1 << 30) -> None:
        self.clock = Clock()
        self.behind = Behind(self.clock)
        self.errors: list[Exception] = []
        loop = asyncio.get_running_loop()
        self.node: Any = SimpleNamespace(
            clock=self.clock,
            loop=loop,
            tasks=Tasks(loop, self.errors.append),
            step=SimpleNamespace(soon=lambda: None, late=SimpleNamespace(note=lambda *_: None)),
        )
        broker: Any = SimpleNamespace(reconciler=self.behind, note=self.note)
        self.applier = Applier(self.node, most)
        self.applier.follow(broker)

    def note(self, steps: int) -> None:
        self.behind.left += steps

    def changed(self, steps: int) -> None:
        self.applier.changed(steps)  # type: ignore[arg-type]


def run(story: Any, most: int = 1 << 30) -> None:
    async def told() -> None:
        world = World(most)
        await story(world)
        assert not world.errors

    asyncio.run(asyncio.wait_for(told(), PATIENCE_S))


def test_a_small_commit_is_carried_out_before_its_turn_ends() -> None:
    async def story(world: World) -> None:
        world.changed(3)
        assert world.behind.left == 0 and world.behind.told

    run(story)


def test_a_large_commit_leaves_room_for_others_after_every_slice() -> None:
    async def story(world: World) -> None:
        longest, left = 0, 100
        world.changed(100)
        while world.behind:
            longest = max(longest, left - world.behind.left)
            left = world.behind.left
            await asyncio.sleep(0)
        assert longest <= SLICE_S / STEP + 1

    run(story)


def test_a_node_that_serves_gives_others_as_much_time_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def story(world: World) -> None:
        world.applier.serving = True
        world.changed(100)
        await world.applier.applied()

    monkeypatch.setattr("barnabas.server.replication.applier.asyncio.sleep", slept)
    run(story)
    assert pauses and all(pause >= SLICE_S for pause in pauses)


def test_a_machine_may_say_how_many_steps_a_slice_has() -> None:
    async def story(world: World) -> None:
        world.changed(5)
        assert world.behind.left == 3
        await world.applier.applied()
        assert world.behind.left == 0

    run(story, most=2)


@pytest.mark.parametrize("late", [False, True])
def test_an_answer_leaves_when_what_it_is_about_is_carried_out(late: bool) -> None:
    async def story(world: World) -> None:
        answer: asyncio.Future[Any] = world.node.loop.create_future()
        later = world.applier.after(answer)
        if late:
            world.changed(100)
        answer.set_result("created")
        await asyncio.sleep(0)
        assert later.done() is not late
        assert await later == "created" and not world.behind

    run(story)


def test_a_refusal_is_passed_on() -> None:
    async def story(world: World) -> None:
        answer: asyncio.Future[Any] = world.node.loop.create_future()
        later = world.applier.after(answer)
        answer.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
        with pytest.raises(KafkaError):
            await later

    run(story)


def test_nothing_is_carried_out_after_the_stop() -> None:
    async def story(world: World) -> None:
        world.changed(100)
        world.applier.stop()
        left = world.behind.left
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert world.behind.left == left > 0

    run(story)


def test_what_threads_make_is_waited_for_without_looking_again_and_again() -> None:
    async def story(world: World) -> None:
        carried_out: list[str] = []
        world.behind.aside = 1
        world.changed(2)
        world.applier.then(lambda: carried_out.append("all"))
        told = world.behind.told
        for _ in range(5):
            await asyncio.sleep(0)
        assert not carried_out and world.behind.told == told
        world.behind.aside, world.behind.left = 0, 1
        world.applier.soon()
        assert carried_out == ["all"]

    run(story)
