"""A loop, and a broker with its clock, for a `LoopStep` that is alone: time stands still unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from barnabas.model import Now
from barnabas.server.loop.loop_step import LoopStep
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
        self.on_end: Callable[[], None] = lambda: None

    def now(self) -> Now:
        return Now(self.loop.now, 0)

    def end_loop_step(self, now: Now) -> list[Any]:
        self.ends += 1
        self.on_end()
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


class Coordinator:
    """Works in so many pieces."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    def next_deadline(self) -> float | None:
        return 0.0 if self.pieces else None

    def tick(self, now: Now) -> None:
        self.pieces -= 1


def started(reads_apart_s: float = inf, *coordinators: Coordinator) -> tuple[LoopStep, Loop, Node]:
    loop: Any = Loop()
    node: Any = Node(loop)
    step = LoopStep(
        loop,
        node,
        Metrics(),
        node,
        lambda loop, seconds: node,
        lambda error: None,
        reads_apart_s=reads_apart_s,
    )
    step.drive(node, coordinators, lambda: None)
    return step, loop, node


def end_of_a_step(step: LoopStep, loop: Loop) -> None:
    step.soon()
    loop.run()
