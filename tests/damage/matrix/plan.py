"""The columns of the matrix, and which row each seed is: a cover table, not a draw.

Every pair of a file and a harm that means something for it comes once in each round of seeds; the place and the
way move on by one from round to round.  So each cell comes once before any comes twice, and any 300 seeds in a row
have each value of each column more than ten times.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["COLUMNS", "FILES", "HARMS", "PLACES", "WAYS", "Row", "row_of", "spread"]

BIT, ZEROED, SWAPPED, OLDER, TRUNCATED, DELETED = HARMS = (
    "bit flip",
    "4 KiB zeroed",
    "blocks swapped",
    "older copy",
    "truncated",
    "deleted",
)
LARGE = (
    "active segment",
    "sealed segment",
    "index",
    "time index",
    "group log",
    "transaction log",
    "metadata log",
    "metadata snapshot",
)
SMALL = (
    "producer snapshot",
    "epoch checkpoint",
    "high-watermark checkpoint",
    "recovery point",
    "log starts",
    "quorum-state",
)
"""Files of at most a few hundred bytes, in which there are no blocks."""
FILES = (*LARGE, *SMALL)
PLACES = ("leader", "follower", "controller leader", "controller follower")
RUNNING, STOPPED, KILLED, ALL_KILLED = WAYS = (
    "while running",
    "stop and start",
    "kill -9 of it",
    "kill -9 of all",
)
COLUMNS = {"harm": HARMS, "file": FILES, "place": PLACES, "way": WAYS}
_NOTHING = {*((file, harm) for file in SMALL for harm in (ZEROED, SWAPPED)), ("log starts", OLDER)}
"""Pairs that mean nothing: no blocks in small files, and no log begins later than it did before."""
_PAIRS = [(file, harm) for file in FILES for harm in HARMS if (file, harm) not in _NOTHING]
random.Random(45).shuffle(_PAIRS)


class Row(NamedTuple):
    """One row of the matrix: what is done to which file of which node, and what is restarted."""

    harm: str
    file: str
    place: str
    way: str

    def __str__(self) -> str:
        return f"{self.harm}, {self.file} of the {self.place}, {self.way}"


def row_of(seed: int) -> Row:
    """Return the row of a seed, which begin at 1."""
    turn, number = divmod(seed - 1, len(_PAIRS))
    file, harm = _PAIRS[number]
    cell = (number + turn) % (len(PLACES) * len(WAYS))
    place, way = divmod(cell, len(WAYS))
    return Row(harm, file, PLACES[place], WAYS[way])


def spread(seeds: Iterable[int], count: int) -> list[int]:
    """Choose so many of these seeds that each value of each column comes about equally often."""
    left, met = {seed: row_of(seed) for seed in seeds}, Counter[str]()

    def often(seed: int) -> int:
        return sum(met[value] * len(COLUMNS[column]) for column, value in left[seed]._asdict().items())

    chosen: list[int] = []
    while left and len(chosen) < count:
        chosen.append(min(left, key=often))
        met.update(left.pop(chosen[-1]))
    return sorted(chosen)
