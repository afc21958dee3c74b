"""Threads and tasks that work behind the user's back: what those hear that wait for one that has died."""

from __future__ import annotations

import sys
import threading

from barnabas.errors import BarnabasError

__all__ = ["as_ours", "callback_failed", "died", "told_at_exit"]


def died(what: str, error: BaseException) -> BarnabasError:
    """`died("the producer's thread", error)` -> the reason for all that waits on it, and all that comes later."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    failure = BarnabasError(
        f"{what} has ended: {said}",
        next_step="close this client and make another one; please report the error, with its traceback",
    )
    failure.__cause__ = error
    return failure


def as_ours(what: str, error: BaseException) -> BarnabasError:
    """Return the error itself if its reader can act on it, else what `died` makes of it."""
    return error if isinstance(error, BarnabasError) else died(what, error)


def callback_failed(error: Exception) -> None:
    """Show the error of a user's callback as Python shows that of a thread; the thread itself goes on."""
    threading.excepthook(
        threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    )


def told_at_exit(text: str) -> None:
    """Write a line to the standard error of a program that ends; nothing where there is none."""
    if sys.stderr is not None:
        sys.stderr.write(f"barnabas: {text}\n")
        sys.stderr.flush()
