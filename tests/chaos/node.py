"""`python -m tests.chaos.node FILE STALL`: `barnabas start FILE` on a disk that can be stalled.

The file STALL names a moment (seconds since 1970) and a length (seconds): until that moment no sync comes back
before it took so long.
"""

from __future__ import annotations

import os
import sys
import time
from typing import cast

from barnabas.cli.main import main
from barnabas.log.files.disk import OsFile

_sync = OsFile._sync


def stalled_until(path: str, began: float) -> float:
    """Until when a sync that began then does not come back."""
    try:
        with open(path, encoding="ascii") as file:
            moment, length = map(float, file.read().split())
    except (OSError, ValueError):
        return 0.0
    return min(moment, began + length)


def install(path: str) -> None:
    """Make every sync of this process look at the file first."""

    def slow_sync(self: OsFile, fd: int) -> None:
        began = time.time()
        while os.path.exists(path) and time.time() < stalled_until(path, began):
            time.sleep(0.02)
        _sync(self, fd)

    OsFile._sync = slow_sync  # type: ignore[method-assign]


if __name__ == "__main__":
    install(sys.argv[2])
    sys.exit(cast(int, main(["start", sys.argv[1]])))
