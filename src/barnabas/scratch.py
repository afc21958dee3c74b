"""Temporary directories that go with the processes that use them, however those end.

A process holds its directory by a lock on an open descriptor, which a child may inherit.  The kernel lets the lock
go when the last of them has ended.  Then the next process that makes such a directory removes the one left behind.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile

__all__ = ["hold", "scratch_directory"]


def scratch_directory(prefix: str) -> tuple[str, int]:
    """Make a directory, and remove those with this prefix that no process holds any more.

    Return its path and the descriptor that holds it.  Raises OSError where directories cannot be made, or held.
    """
    for left in glob.glob(f"{glob.escape(tempfile.gettempdir())}/{prefix}*"):
        with contextlib.suppress(OSError):
            held = hold(left)
            shutil.rmtree(left, ignore_errors=True)
            os.close(held)
    while True:
        made = tempfile.mkdtemp(prefix=prefix)
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            held = hold(made)
            if os.path.isdir(made):
                return made, held
            os.close(held)
        # Another process took it for one that was left.


def hold(directory: str) -> int:
    """Return a descriptor that holds the directory while it is open.  Raises OSError where another one does."""
    import fcntl  # (Windows has none, and imports this module before it is said that nodes do not run there)

    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held
