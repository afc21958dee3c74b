"""While nothing is due, a timer only looks at the deadlines; what is due is done, and never early."""

from __future__ import annotations

from math import inf

from tests.server.step_doubles import Coordinator, end_of_a_step, started

from barnabas.server.loop.loop_step import DEADLINES_APART_S


def test_a_look_that_finds_nothing_due_runs_no_tick_and_no_end_of_a_step() -> None:
    step, loop, node = started()
    node.deadline = loop.now + 30
    for _ in range(10):  # ends of steps, one after the other: only some look at the deadlines
        end_of_a_step(step, loop)
        loop.now += DEADLINES_APART_S / 10
    assert node.looks < 3
    ends = node.ends
    assert loop.fire() <= loop.now
    assert node.ends == ends
    assert not node.ticks
    assert not loop.soon


def test_what_becomes_due_between_two_looks_is_done_soon_and_never_early() -> None:
    step, loop, node = started()
    end_of_a_step(step, loop)
    node.deadline = due = loop.now + 2 * DEADLINES_APART_S  # after that look: the timer does not know of it
    end_of_a_step(step, loop)
    for _ in range(5):
        if node.ticks:
            break
        loop.fire(early=0.0005)  # as a loop does whose clock has milliseconds
        loop.run()
    assert len(node.ticks) == 1
    assert due <= node.ticks[0] < due + DEADLINES_APART_S
    assert node.ends == 3  # what was done is answered at the end of a step of its own


def test_a_node_without_deadlines_sets_no_timer_after_a_look() -> None:
    step, loop, _ = started()
    end_of_a_step(step, loop)
    end_of_a_step(step, loop)
    loop.fire()
    assert not loop.timers


def test_a_coordinator_that_works_in_small_pieces_does_one_in_every_turn_of_the_loop() -> None:
    coordinator = Coordinator(pieces=100)
    step, loop, _ = started(inf, coordinator)
    end_of_a_step(step, loop)
    begun = loop.now
    while coordinator.pieces:
        loop.fire()
        loop.run()
    assert loop.now == begun
    loop.fire()  # it has no more to do: somebody looks at the deadlines once, and that is all
    assert not loop.timers
