"""How long this machine's disk takes for a sync meanwhile: where everything waits for it, no node is to blame."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

__all__ = ["Syncs"]

EVERY_S = 0.2


class Syncs(threading.Thread):
    """`syncs = Syncs(path); syncs.start(); ...; syncs.longest(since)`."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="syncs", daemon=True)
        self._path = path
        self._over = threading.Event()
        self._waits: list[tuple[float, float]] = []
        """From when to when."""
        self._since: float | None = None

    def run(self) -> None:
        with self._path.open("wb", buffering=0) as file:
            while not self._over.wait(EVERY_S):
                since = self._since = time.monotonic()
                file.write(b".")
                os.fsync(file.fileno())
                self._since = None
                self.note(since, time.monotonic())

    def note(self, since: float, until: float) -> None:
        """A sync took from one moment to the other."""
        self._waits.append((since, until))

    def longest(self, since: float) -> float:
        """Seconds of the longest one that ended after `since`, or has not ended yet."""
        longest, began = 0.0, self._since
        for start, end in reversed(self._waits):
            if end < since:
                break
            longest = max(longest, end - start)
        return longest if began is None else max(longest, time.monotonic() - began)

    def end(self) -> None:
        self._over.set()
