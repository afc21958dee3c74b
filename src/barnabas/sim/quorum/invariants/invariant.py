"""An invariant: a class with a name that observes everything, and raises an error when it is violated."""

from __future__ import annotations

from barnabas.sim.kernel.report import InvariantViolation
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.observer import Observer
from barnabas.sim.quorum.world import World

__all__ = ["Invariant"]


class Invariant(Observer[Machine]):
    """One invariant.  It overrides what it wants to hear of; `fail` says that it is violated."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def fail(self, text: str) -> None:
        raise InvariantViolation(self.name, text)
