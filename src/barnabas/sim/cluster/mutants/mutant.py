"""A planted replication bug: a few changed characters of one function, and the outcome of the search for it."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.sim.quorum.mutants.mutants import Bug as Change

__all__ = ["Bug", "planted_bug"]


class Bug(NamedTuple):
    """A change, and what came of looking for it."""

    change: Change
    guard: str = ""

    @property
    def name(self) -> str:
        return self.change.name

    @property
    def seed(self) -> int:
        return self.change.seed


def planted_bug(name: str, says: str, where: str, old: str, new: str, seed: int = 0, guard: str = "") -> Bug:
    """`where` is "room.module function"."""
    module, function = where.split()
    return Bug(Change(name, says, module, function, old, new, seed), guard)
