"""What a log answers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from barnabas.model import Offset

__all__ = ["Appended", "LogStatistics", "finished"]

_Result = TypeVar("_Result")


class Appended(NamedTuple):
    """The offsets that an append was given."""

    first_offset: Offset
    last_offset: Offset


class LogStatistics(NamedTuple):
    """A reading of one log."""

    log_start_offset: Offset
    durable_end_offset: Offset
    written_end_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    segments: int
    size: int
    producers: int


def finished(steps: Generator[Any, None, _Result]) -> _Result:
    """What work that is done in steps comes to, all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result
