"""What became of the quorum: who changed it when, what it waited for.  Kept as records, bounded.

The leader appends one setting of all brokers for each change, in the step that appends the change's own record,
right behind it: where that is truncated, its line in the history is, too.  Names begin with `barnabas.history.`,
then a number; a node that does not know them (one of Apache Kafka) keeps them like any setting that it does not
know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from barnabas.controller.image import RESOURCE_BROKER, MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import Offset
from barnabas.ports import Clock
from barnabas.raft.entries import Opaque
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import ConfigRecord

__all__ = ["MOST", "PREFIX", "History", "asker", "lines_of"]

PREFIX = "barnabas.history."
MOST = 200
"""So many changes are remembered, the newest."""
LONGEST_REASON = 300
Token = TypeVar("Token")


class Asking(Protocol):
    """What of a request says who asks."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...


def asker(context: Asking) -> str:
    """`asker(context)` -> "User:ANONYMOUS at 10.0.0.7"."""
    return f"{context.principal} at {context.client_host}"


class History:
    """`asked(token, by)` when a change is asked for, `lines(change)` when it comes into the log or is given up."""

    __slots__ = ("_asked", "_clock", "_end", "_forgotten", "_image", "_next")

    def __init__(self, clock: Clock, image: Callable[[], MetadataImage], end: Callable[[], Offset]) -> None:
        """`image` returns what is committed, `end` the end of the log, committed or not."""
        self._clock = clock
        self._image = image
        self._end = end
        self._asked: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._next = 0
        self._forgotten = -1
        """Up to this number lines are forgotten, also where the image does not say so yet."""

    def __repr__(self) -> str:
        return f"<History next={self._next}>"

    def asked(self, token: Token, by: str) -> Token:
        """Remember who asks; the token again."""
        self._asked[token] = by
        return token

    def lines(self, change: ChangeNoted) -> tuple[Opaque, ...]:
        """Make the records of a change's line, for the leader to append (`raft.membership.noted`)."""
        by = change.by or "on the way to the target"
        if change.token is not None:
            by = getattr(change.token, "by", "") or self._asked.get(change.token, "this node")
        outcome = "done" if change.outcome is ErrorCode.NONE else "given up"
        records = self.note(by, change.what, outcome, change.seconds, change.waited_for)
        return (Opaque(tuple(records), len(records)),)

    def note(
        self, by: str, what: str, outcome: str, seconds: float = 0.0, waited_for: str = ""
    ) -> list[MetadataRecord]:
        """Return the records of one line, and of forgetting the oldest where there are too many."""
        number = max(self._next, self._end())  # no line of any leader before, applied here or not, has it
        self._next = number + 1
        line = {"at": self._clock.now().wall_ms, "by": by, "what": what, "outcome": outcome}
        if waited_for:
            line |= {"seconds": round(seconds, 3), "waited_for": waited_for[:LONGEST_REASON]}
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        names = self._image().cluster_config()
        kept = sorted(one for name in names if (one := _number(name)) is not None and one > self._forgotten)
        gone = kept[: max(0, len(kept) + 1 - MOST)]
        self._forgotten = max(self._forgotten, *gone, -1)
        return [_record(number, text), *(_record(one, None) for one in gone)]


def _record(number: int, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=RESOURCE_BROKER, resource_name="", name=f"{PREFIX}{number:010d}", value=value
    )


def _number(name: str) -> int | None:
    number = name.removeprefix(PREFIX)
    return int(number) if number != name and number.isdecimal() else None


def lines_of(settings: Mapping[str, str]) -> list[str]:
    """`lines_of(image.cluster_config())` -> the history, oldest first, each line a JSON document."""
    found: Iterable[str] = sorted(name for name in settings if _number(name) is not None)
    return [settings[name] for name in found]
