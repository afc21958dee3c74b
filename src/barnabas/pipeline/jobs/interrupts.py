"""Ctrl-C while Spark works for a command: the query ends, then Spark, then the command, without a traceback.

Ctrl-C reaches the main thread while it waits for an answer of Java's.  PySpark then asks Java on the same line for
something else, which breaks it.  So Ctrl-C is only noted, and whoever follows a query asks for it between two
questions.  Where nobody follows one, or when it comes again, it ends the wait at once.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTS", "Interrupts"]


class Interrupts:
    """`with INTERRUPTS.noted():` around a command, `with INTERRUPTS.asked_for():` and `check()` around a query."""

    def __init__(self) -> None:
        self._came = False
        self._asked_for = False

    def __repr__(self) -> str:
        return f"<Interrupts came={self._came}>"

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Take Ctrl-C over from PySpark, whose session is there already; in the main thread."""
        self._came = False
        before = signal.signal(signal.SIGINT, self.note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def asked_for(self) -> Iterator[None]:
        """Meanwhile `check` is called again and again."""
        self._asked_for = True
        try:
            yield
        finally:
            self._asked_for = False

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C came."""
        if self._came:
            raise KeyboardInterrupt

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of Ctrl-C, and of every signal that is to end a command in the same way."""
        logging.disable()  # (py4j writes a traceback for each question that is broken off; the process ends now)
        again, self._came = self._came, True
        if again or not self._asked_for:
            raise KeyboardInterrupt


INTERRUPTS = Interrupts()
"""Of this process."""
