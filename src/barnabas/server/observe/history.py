"""What became of the quorum: who changed it when, what it waited for.  Kept as records, bounded.

The leader appends one setting of all brokers for each change, right after the change's own record: where that is
truncated, its line in the history is, too.  Names begin with `barnabas.history.`, then a number; a node that does
not know them (one of Apache Kafka) keeps them like any setting that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from barnabas.controller.image import RESOURCE_BROKER, MetadataImage
from barnabas.errors import ErrorCode
from barnabas.ports import Clock
from barnabas.raft.effects import ChangeNoted
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
    """`asked(token, by)` when a change is asked for, `hear(effect)` when it is in the log or given up."""

    __slots__ = ("_append", "_asked", "_clock", "_forgotten", "_image", "_next")

    def __init__(
        self,
        clock: Clock,
        image: Callable[[], MetadataImage],
        append: Callable[[list[MetadataRecord]], None],
    ) -> None:
        self._clock = clock
        self._image = image
        self._append = append
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

    def hear(self, change: ChangeNoted) -> None:
        """Append its line.  Only the active controller may."""
        by = change.by or "on the way to the target"
        if change.token is not None:
            by = getattr(change.token, "by", "") or self._asked.get(change.token, "this node")
        outcome = "done" if change.outcome is ErrorCode.NONE else "given up"
        self.note(by, change.what, outcome, change.seconds, change.waited_for)

    def note(self, by: str, what: str, outcome: str, seconds: float = 0.0, waited_for: str = "") -> None:
        """Append one line, and forget the oldest where there are too many."""
        kept = self._image().cluster_config()
        numbers = [number for name in kept if (number := _number(name)) is not None]
        number = max([self._next, *(one + 1 for one in numbers)])
        self._next = number + 1
        line = {"at": self._clock.now().wall_ms, "by": by, "what": what, "outcome": outcome}
        if waited_for:
            line |= {"seconds": round(seconds, 3), "waited_for": waited_for[:LONGEST_REASON]}
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        gone = [one for one in sorted(numbers) if self._forgotten < one <= number - MOST]
        self._forgotten = max(self._forgotten, *gone, -1)
        self._append([_record(number, text), *(_record(one, None) for one in gone)])


def _record(number: int, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=RESOURCE_BROKER, resource_name="", name=f"{PREFIX}{number:010d}", value=value
    )


def _number(name: str) -> int | None:
    number = name.removeprefix(PREFIX)
    return int(number) if number != name and number.isdigit() else None


def lines_of(settings: Mapping[str, str]) -> list[str]:
    """`lines_of(image.cluster_config())` -> the history, oldest first, each line a JSON document."""
    found: Iterable[str] = sorted(name for name in settings if _number(name) is not None)
    return [settings[name] for name in found]
