"""The proof: what is in both topics is what the data set says, each record once, and nothing else.

Both are read back by a client that is not ours and sees committed records only.  The topic of flights is held
against the data set row by row; the topic of delays, which Spark wrote, against what the data set gives for each
day, carrier and hour, as a multiset: a record that is missing, comes twice, or says something else shows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.pipeline.jobs.flights import Delays, FlightsAnswer, answer_of

__all__ = ["Cell", "ReadBack", "differences", "expected_cells", "read_back"]


class Cell(NamedTuple):
    """One record of the topic of delays."""

    date: str
    carrier: str
    hour: int
    delays: Delays


class ReadBack(NamedTuple):
    """What both topics hold."""

    flights: FlightsAnswer
    delays: Counter[Cell]


def read_back(flights: Iterable[bytes], delays: Iterable[bytes]) -> ReadBack:
    """What the values of both topics say."""
    return ReadBack(answer_of(flights), Counter(_cell(value) for value in delays))


def _cell(value: bytes) -> Cell:
    said = json.loads(value)
    return Cell(
        said["date"],
        said["carrier"],
        said["hour"],
        Delays(said["flights"], said["departed"], said["minutes"]),
    )


def expected_cells(expected: FlightsAnswer) -> Counter[Cell]:
    """The records that Spark has to write, each once."""
    return Counter(Cell(*where, delays) for where, delays in expected.cells.items())


def differences(found: ReadBack, expected: FlightsAnswer) -> list[str]:
    """In words, where a topic does not hold what it should; empty: proven."""
    wrong = [f"flights: {said}" for said in found.flights.differences(expected)]
    wanted = expected_cells(expected)
    for what, cells in (
        ("are lost", wanted.keys() - found.delays.keys()),
        ("came more than once", {cell for cell, times in found.delays.items() if times > 1}),
        ("are not of this data set", found.delays.keys() - wanted.keys()),
    ):
        if cells:
            wrong.append(f"delays: {len(cells)} records {what}, the first is {_words(min(cells))}")
    return wrong


def _words(cell: Cell) -> str:
    return f"{cell.date} {cell.carrier} {cell.hour}h {tuple(cell.delays)}"
