"""While nothing is due, a timer only looks at the deadlines; what is due is done, and never early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.model import Now
from barnabas.server.loop.loop_step import DEADLINES_APART_S, LoopStep
from barnabas.server.observe.metrics import Metrics


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call = at, call

    def cancel(self) -> None:
        self.at = float("inf")


class Loop:
    """Time that stands still until somebody lets a timer fire."""

    def __init__(self) -> None:
        self.now, self.timers, self.soon = 100.0, list[Timer](), list[Callable[[], None]]()

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        assert delay >= 0
        self.timers.append(Timer(self.now + delay, call))
        return self.timers[-1]

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def fire(self, early: float = 0.0) -> float:
        """Let the next timer fire, rounded down by so much; returns its time."""
        timer = min(self.timers, key=lambda timer: timer.at)
        assert timer.at < float("inf")
        self.timers.remove(timer)
        self.now = timer.at - early
        timer.call()
        return timer.at


class Node:
    """A broker and its clock: has one deadline, and counts what is done."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.deadline = loop, None
        self.deadline: float | None = None
        self.ticks, self.ends, self.looks = list[float](), 0, 0

    def now(self) -> Now:
        return Now(self.loop.now, 0)

    def end_loop_step(self, now: Now) -> list[Any]:
        self.ends += 1
        return []

    def next_deadline(self) -> float | None:
        self.looks += 1
        return self.deadline

    def tick(self, now: Now) -> None:
        self.ticks.append(now.mono)
        if self.deadline is not None and self.deadline <= now.mono:
            self.deadline = None

    def reset(self) -> None:
        """As a receive buffer."""


def started() -> tuple[LoopStep, Loop, Node]:
    loop: Any = Loop()
    node: Any = Node(loop)
    step = LoopStep(loop, node, Metrics(), node, lambda loop, seconds: node, lambda error: None)
    step.drive(node, (), lambda: None)
    return step, loop, node


def end_of_a_step(step: LoopStep, loop: Loop) -> None:
    step.soon()
    loop.run()


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
