"""Members that come and go leave nothing behind, however long their sessions would have lasted."""

from __future__ import annotations

import gc

from tests.broker.test_groups import World

from barnabas.broker.groups.group import Member
from barnabas.broker.groups.timers import Timers
from barnabas.model import Now
from barnabas.wire.schemas.groups import LeaveGroupRequest, MemberIdentity

OFTEN = 500


def comes_and_goes(world: World) -> None:
    """One member joins, syncs and leaves."""
    member = world.new_id()
    joined = world.join(member, session_ms=1_800_000)
    answer = getattr(joined, "response", joined)
    world.sync(member, answer.generation_id, {member: b"a"})
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
    world.groups.leave(world.context(4), request, world.now)
    world.run()


def test_members_that_left_are_gone_at_once_without_the_garbage_collector() -> None:
    """It may be that it never looks at them: a node freezes what it has."""
    world = World(group_max_session_timeout_ms="1800000")
    comes_and_goes(world)
    gc.collect()  # what other tests left
    gc.disable()
    try:
        for _ in range(OFTEN):
            comes_and_goes(world)
        assert sum(isinstance(one, Member) for one in gc.get_objects()) <= 1
    finally:
        gc.enable()
    assert len(world.groups._timers) < OFTEN // 2


def test_a_cancelled_timer_calls_nobody_and_the_others_still_do() -> None:
    timers, called = Timers(), list[int]()
    every = [
        timers.at(float(number), lambda now, number=number: called.append(number)) for number in range(300)
    ]
    for timer in every[::2] + every[1:290:2]:
        timer.cancel()
    assert len(timers) < 300
    timers.tick(Now(1000.0, 0))
    assert called == [291, 293, 295, 297, 299]
    assert timers.next_deadline() is None
    every[0].cancel()
    every[299].cancel()
