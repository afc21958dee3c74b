"""A descriptor of another process, which is readable once that has ended."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

__all__ = ["pidfd_open"]

_NUMBER = 434
"""Of the system call, the same on every processor."""


def _call(pid: int, flags: int = 0) -> int:
    """`os.pidfd_open`, which CPython lacks where it was built with the headers of an older Linux."""
    descriptor: int = ctypes.CDLL(None, use_errno=True).syscall(_NUMBER, pid, flags)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


pidfd_open: Callable[[int], int] = getattr(os, "pidfd_open", _call)
