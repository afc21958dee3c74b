"""A fault: a noun, with a rate and a duration.

A seed enables some faults (a different mix each time, so that no fault always blocks another), draws their
times, and prints all of them.  `begin` does the damage and describes it in words, or returns None if there is
nothing to damage; `end` undoes it after its duration.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

__all__ = ["Fault", "LinkCut", "NodeFault", "both_ways"]

W = TypeVar("W")
"""The world in which a fault happens."""
N = TypeVar("N")
"""A node of it."""
E = TypeVar("E")
"""What stands for one end of a link."""
E_contra = TypeVar("E_contra", contravariant=True)


class Fault(Generic[W]):
    """One occurrence of a fault.  `rate`: how often, against the others; `duration`: seconds, from and to."""

    name: ClassVar[str] = ""
    rate: ClassVar[float] = 1.0
    duration: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def __init__(self, world: W, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.lasts = rng.uniform(*self.duration)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lasts:.2f} s>"

    def begin(self) -> str | None:
        raise NotImplementedError

    def end(self) -> None:
        """Undo it.  Called once, also when the world is healed before its time."""


class NodeFault(Fault[W], Generic[W, N]):
    """A fault of one node that runs."""

    node: N

    def begin(self) -> str | None:
        node = self._up()
        if node is None:
            return None
        self.node = node
        return self.strike(node)

    def strike(self, node: N) -> str:
        """Do the damage to this node; what it is, in words."""
        raise NotImplementedError

    def _up(self) -> N | None:
        """A node that runs; often one where most can go wrong."""
        raise NotImplementedError


class Links(Protocol[E_contra]):
    """A network whose links can be cut, by pairs: from, to."""

    def cut(self, pairs: Iterable[tuple[E_contra, E_contra]]) -> Any: ...
    def mend(self, pairs: Iterable[tuple[E_contra, E_contra]]) -> Any: ...


class LinkCut(Fault[W], Generic[W, E]):
    """Some pairs cannot talk."""

    pairs: list[tuple[E, E]]

    @property
    def links(self) -> Links[E]:
        raise NotImplementedError

    def begin(self) -> str | None:
        self.pairs, text = self.choose()
        if not self.pairs:
            return None
        self.links.cut(self.pairs)
        return text

    def end(self) -> None:
        self.links.mend(self.pairs)

    def choose(self) -> tuple[list[tuple[E, E]], str]:
        """The pairs, and what they are in words; no pairs: there is nothing to cut."""
        raise NotImplementedError


def both_ways(one: Iterable[E], other: Iterable[E]) -> list[tuple[E, E]]:
    """Every link between a member of the one group and a member of the other."""
    return [pair for a in one for b in other for pair in ((a, b), (b, a))]
