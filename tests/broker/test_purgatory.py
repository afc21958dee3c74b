"""Waiting: once in, once done, off every list."""

from __future__ import annotations

from typing import Any

from barnabas.broker.purgatory import Purgatory, Waiting
from barnabas.model import Now


class Bell(Waiting):
    __slots__ = ("released",)

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.released = 0

    def expired(self, now: Now) -> None:
        self.complete(f"late at {now.mono}")

    def release(self) -> None:
        self.released += 1


def heard(waiting: Waiting) -> list[Any]:
    answers: list[Any] = []
    waiting.on_done = answers.append
    return answers


def test_an_answer_is_given_once_and_leaves_every_list() -> None:
    room = Purgatory()
    bell = Bell(5.0)
    answers = heard(bell)
    assert room.add(bell)
    bell.complete("first")
    bell.complete("second")
    room.expire(Now(99.0, 0))
    assert answers == ["first"]
    assert (bell.released, len(room), bell.done) == (1, 0, True)


def test_waiters_expire_in_the_order_of_their_deadlines_and_never_early() -> None:
    room = Purgatory(tick=0.01)
    order: list[float] = []
    for deadline in (3.0, 1.0, 2.0, 1.004):
        bell = Bell(deadline)
        bell.on_done = lambda _, deadline=deadline: order.append(deadline)
        room.add(bell)
    assert room.expire(Now(0.99, 0)) == 0
    assert 1.0 <= (room.next_deadline() or 0) <= 1.011
    assert room.expire(Now(1.003, 0)) == 0  # (1.0 may be late by a tick, 1.004 may not be early)
    assert room.expire(Now(1.02, 0)) == 2
    assert room.expire(Now(3.02, 0)) == 2
    assert order == [1.0, 1.004, 2.0, 3.0]
    assert room.next_deadline() is None


def test_a_cancelled_waiter_says_nothing_and_is_gone() -> None:
    room = Purgatory()
    bell = Bell(1.0)
    answers = heard(bell)
    room.add(bell)
    bell.cancel()
    room.expire(Now(2.0, 0))
    assert answers == []
    assert len(room) == 0
    assert bell.released == 1


def test_a_full_room_refuses_and_has_room_again_when_one_leaves() -> None:
    room = Purgatory(capacity=1)
    first, second = Bell(1.0), Bell(1.0)
    assert room.add(first)
    assert not room.add(second)
    assert room.add(second, force=True)
    second.cancel()
    first.complete(None)
    assert room.add(Bell(1.0))


def test_the_next_deadline_is_not_that_of_one_who_left() -> None:
    room = Purgatory()
    early, late = Bell(1.0), Bell(50.0)
    room.add(early)
    room.add(late)
    early.complete(None)
    assert (room.next_deadline() or 0) > 49


def test_a_deadline_that_everybody_left_is_kept_by_the_next_who_has_it() -> None:
    room = Purgatory()
    gone, bell = Bell(1.0), Bell(1.0)
    room.add(gone)
    gone.complete(None)
    assert room.next_deadline() is None
    room.add(bell)
    assert room.next_deadline() is not None
    assert room.expire(Now(1.02, 0)) == 1
    assert bell.done


def test_who_is_answered_because_another_expired_does_not_expire() -> None:
    room = Purgatory()
    neighbour = Bell(1.0)
    answers = heard(neighbour)

    class Takes(Bell):
        __slots__ = ()

        def expired(self, now: Now) -> None:
            neighbour.complete("taken along")
            super().expired(now)

    room.add(Takes(1.0))
    room.add(neighbour)
    assert room.expire(Now(1.02, 0)) == 1
    assert answers == ["taken along"]


def test_removing_costs_the_same_for_any_number() -> None:
    room = Purgatory()
    bells = [Bell(1.0) for _ in range(20_000)]
    for bell in bells:
        room.add(bell)
    for bell in reversed(bells):
        bell.complete(None)
    assert len(room) == 0
