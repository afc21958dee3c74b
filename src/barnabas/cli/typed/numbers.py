"""Numbers as they are typed, each no larger than the field of a message that it goes into."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable

from barnabas.model import NodeId

__all__ = [
    "INT16",
    "INT32",
    "INT64",
    "at_least",
    "count",
    "interval",
    "node_id",
    "node_ids",
    "partition",
    "seconds",
    "whole",
]

INT16, INT32, INT64 = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1
"""The largest numbers of the protocol's types."""
_LONGEST_S = INT32 // 1000
"""Requests carry timeouts as milliseconds in 32 bits: 24 days."""
_SHOWN = 40
_INTERVAL = re.compile(r"(?:\d{1,6} (?:millisecond|second|minute|hour|day|week)s?(?: |$))+", re.ASCII)


def whole(least: int, most: int = INT32) -> Callable[[str], int]:
    """`type=whole(1)` -> a reader for argparse: whole numbers within these bounds, which a refusal names."""

    def read(text: str) -> int:
        number = _number(text)
        if number is None or not least <= number <= most:
            raise _refused(text, f"give a whole number from {least} to {most}")
        return number

    return read


node_id = whole(0)
partition = whole(0)
count = whole(0, INT64)
"""A number of records, bytes or looks."""


def at_least(least: float, most: float = _LONGEST_S, unit: str = "seconds") -> Callable[[str], float]:
    """`type=at_least(0)` -> a reader for argparse: numbers within these bounds, none of them "nan"."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise _refused(text, f"give {unit} from {least:g} to {most:.0f}")
        return number

    return read


seconds = at_least(0.001)


def interval(text: str) -> str:
    """`interval("10 seconds")` -> "10 seconds", a reader for argparse: a time as Spark reads it."""
    if _INTERVAL.fullmatch(text) is None:
        raise _refused(text, "give a time with its unit, as '10 seconds' or '1 minute 30 seconds'")
    return text


def node_ids(text: str) -> list[NodeId]:
    """`node_ids("4,5")` -> [4, 5], a reader for argparse."""
    found = [_number(word) for word in text.split(",")]
    ids = [number for number in found if number is not None and 0 <= number <= INT32]
    if len(ids) < len(found):
        raise _refused(text, "give node ids with commas, as 4,5,6")
    return ids


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _refused(text: str, advice: str) -> argparse.ArgumentTypeError:
    """Return an error of a reason and, in its second line, the next step: `Parser` prints both."""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return argparse.ArgumentTypeError(f"{shown!r} cannot be used\n{advice}")
