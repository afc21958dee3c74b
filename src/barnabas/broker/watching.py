"""Who watches a partition: fetches that wait, and fetch sessions that remember what they told.

A partition says what moved in a loop step, and each of its watchers judges whether that concerns it.  So what a
fetch costs depends on the partitions that moved, never on how many it reads.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.model import Now

__all__ = ["END", "FOLLOWED", "HIGH_WATERMARK", "START", "STATE", "ParkedFetch", "Watcher", "Watchers"]

HIGH_WATERMARK = 1
"""The high watermark moved (the last stable offset never moves further without it)."""
END = 2
"""The acknowledged end moved: followers may read further."""
START = 4
"""The log start moved."""
FOLLOWED = 8
"""A follower reported another end or start of its log."""
STATE = 16
"""Anything else that an answer may depend on: who leads, in which epoch, who is in sync, which log it is."""


class ParkedFetch(Protocol):
    """A fetch that waits until it may read further in one of its partitions."""

    def wake(self, now: Now) -> None:
        """Something that it reads moved: read again."""
        ...

    def expired(self, now: Now) -> None:
        """Its time is up: answer with what there is."""
        ...


class Watcher(Protocol):
    """What has to know when a partition moves."""

    @property
    def watches_for(self) -> int:
        """What concerns it."""
        ...

    def moved(self, what: int) -> ParkedFetch | None:
        """This moved.  Returns the fetch that must read again because of that."""
        ...


class Watchers:
    """Those of one partition, in the order in which they came."""

    __slots__ = ("every", "reported", "watched_for")

    def __init__(self) -> None:
        self.every: dict[Watcher, None] = {}
        self.watched_for = 0
        """What concerns at least one of them (or concerned one that left)."""
        self.reported = False
        """Whether a follower reported another end or start in this loop step."""

    def add(self, watcher: Watcher) -> None:
        """Tell it from now on what moves."""
        self.every[watcher] = None
        self.watched_for |= watcher.watches_for

    def discard(self, watcher: Watcher) -> None:
        """Tell it no longer."""
        if self.every.pop(watcher, self) is None and not self.every:
            self.watched_for = 0

    def __len__(self) -> int:
        return len(self.every)

    def __repr__(self) -> str:
        return f"<Watchers {len(self.every)}>"
