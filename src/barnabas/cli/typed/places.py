"""Places in a partition as people write them: an offset, an end, the last N records, a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.errors import ConfigError

__all__ = ["WORDS", "Place", "place"]

WORDS = "an offset, -N (the last N records), earliest, latest, time:MS or a time such as 2026-01-31T12:00:00Z"
"""The words for places, for the help of a flag and its errors."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"(time:)?\d{4}-\d\d-\d\d")


class Place(NamedTuple):
    """A place: `end` ("earliest", "latest"), `offset`, `last` (records before the end) or `time_ms`."""

    end: str | None = None
    offset: int | None = None
    last: int | None = None
    time_ms: int | None = None


def place(text: str, flag: str) -> Place:
    """`place("-5", "--offset")` -> Place(last=5).  A time without a zone is UTC.  Raises ConfigError."""
    if text in ("earliest", "latest"):
        return Place(end=text)
    if text.isdecimal():
        return Place(offset=int(text))
    if text.startswith("-") and text[1:].isdecimal():
        return Place(last=int(text[1:]))
    if text.startswith("time:") and text[5:].isdecimal():
        return Place(time_ms=int(text[5:]))
    if _DATE.match(text):
        try:
            moment = datetime.fromisoformat(text.removeprefix("time:"))
        except ValueError:
            pass
        else:
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return Place(time_ms=int((moment - _EPOCH).total_seconds() * 1000))
    raise ConfigError(f"{flag} {text} names no place", next_step=f"write {WORDS}")
