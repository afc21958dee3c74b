"""A seed -> a sequence of steps, the same in every process."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.compat.side_by_side.plan_classic import classic_groups
from tests.compat.side_by_side.plan_consumer import consumer_groups, mixed_groups
from tests.compat.side_by_side.plan_transactions import transactions
from tests.compat.side_by_side.steps import Step

__all__ = ["Sequence", "sequence"]

FAMILIES: dict[str, tuple[Callable[[random.Random], list[Step]], int]] = {
    "transactions": (transactions, 45),
    "classic groups": (classic_groups, 22),
    "consumer groups": (consumer_groups, 22),
    "mixed groups": (mixed_groups, 11),
}
"""Name -> what draws one, and how many of a hundred it is."""


class Sequence(NamedTuple):
    seed: int
    family: str
    steps: list[Step]


def sequence(seed: int) -> Sequence:
    """`sequence(7)`: always the same."""
    rng = random.Random(f"side by side {seed}")
    name = rng.choices(list(FAMILIES), [share for _, share in FAMILIES.values()])[0]
    return Sequence(seed, name, FAMILIES[name][0](rng))
