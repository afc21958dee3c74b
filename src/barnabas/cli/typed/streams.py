"""Standard streams that are closed, or whose volume is full: a command runs all the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["open_closed_streams", "settle_streams", "told_if_possible"]

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""By their descriptors."""


def open_closed_streams() -> None:
    """Give the null device to standard streams that were closed when this process started.

    Else the next file or socket would get the descriptor, and a message meant for people would be written to it;
    uvloop ends the process when it meets one.
    """
    for descriptor, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null > descriptor and not _is_open(descriptor):
                os.dup2(null, descriptor)
                os.close(null)
                null = descriptor
            setattr(sys, name, open(null, mode, encoding="utf-8", errors="replace"))  # noqa: SIM115


def settle_streams() -> None:
    """Let go of output that cannot be written, or Python would end with 120 instead of the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


@contextmanager
def told_if_possible() -> Iterator[None]:
    """Print what a node says once it serves; it serves on where that cannot be written."""
    with suppress(OSError):
        yield
        sys.stdout.flush()


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
