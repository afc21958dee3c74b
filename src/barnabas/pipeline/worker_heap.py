"""What Spark's Python workers do with their memory costs more than a small task, unless it is told not to.

After every task a worker looks for garbage in everything it has (`gc.collect()` in Spark's daemon): 45 ms, with
what PySpark, pandas and Arrow bring along.  Nearly all of these objects are modules, which live as long as the
process: they are set aside once, and what tasks make is collected as before.

And glibc gives memory of more than 128 KiB back to the system as soon as it is free, which clears it, page by
page, when it is asked for again, for every column of every Arrow batch.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys

from pyspark import TaskContext

__all__ = ["settle"]

_tasks = itertools.count(1)
_TASKS_THAT_IMPORT = 2
"""The first task imports, some of it (pandas) after it has called us; the second one finds all of that."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
_KEPT_BLOCK, _KEPT = 32 << 20, 64 << 20
"""Bytes: larger blocks are the system's; more than this at the end of the heap goes back to it."""


def settle() -> None:
    """Call it in a task once its modules are imported.  Does something in a Spark worker's first tasks only."""
    if TaskContext.get() is None or (task := next(_tasks)) > _TASKS_THAT_IMPORT:
        return
    gc.freeze()
    if task == 1 and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # (musl has none)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _KEPT_BLOCK)
            mallopt(_TRIM_THRESHOLD, _KEPT)
