"""Places in a partition as people write them: an offset, an end, the last N records, a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from barnabas.errors import ConfigError

__all__ = ["WORDS", "Place", "place"]

WORDS = "an offset, -N (the last N records), earliest, latest, time:MS or a time such as 2026-01-31T12:00:00Z"
"""The words for places, for the help of a flag and its errors."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_DIGITS = 19
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
    if (offset := _number(text)) is not None:
        return Place(offset=offset)
    if text.startswith("-") and (last := _number(text[1:])) is not None:
        return Place(last=last)
    if text.startswith("time:") and (time_ms := _number(text[5:])) is not None:
        return Place(time_ms=time_ms)
    if _DATE.match(text):
        try:
            moment = datetime.fromisoformat(text.removeprefix("time:"))
        except ValueError:
            pass
        else:
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            # No record is older than 1970, and to brokers negative times are words: -1 is "latest".
            return Place(time_ms=max(0, (moment - _EPOCH) // timedelta(milliseconds=1)))
    raise ConfigError(f"{flag} {text} names no place", next_step=f"write {WORDS}")


def _number(text: str) -> int | None:
    """Return a number that an offset or a time can be: 64 bits."""
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number < 1 << 63 else None
