"""What Spark's Python workers do around every task costs more than a small task, unless they are told not to.

Workers that plan (they make a data source, and its reader or writer) are treated like those that run tasks:

- After it they look for garbage in everything they have (`gc.collect()` in Spark's daemon): 45 ms, with what
  PySpark, pandas and Arrow bring along.  Nearly all of it are modules, which live as long as the process: they
  are set aside once, and what tasks make is collected as before.
- Before it they forget what can be imported (`importlib.invalidate_caches()`), and Python then reads the
  directory of Spark's archive anew for each of its packages: 60 ms.  These archives do not change.
- glibc gives memory of more than 128 KiB back to the system as soon as it is free, which clears it, page by page,
  when it is asked for again, for every column of every Arrow batch.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import re
import sys
import zipimport

from pyspark import TaskContext, daemon

from barnabas.pipeline import worker_daemon

__all__ = ["settle"]

_DAEMONS = frozenset({daemon.__name__, worker_daemon.__name__})
"""Programs that keep Python workers, planning ones, too, and look for garbage between two uses of one."""
_uses = itertools.count(1)
_USES_THAT_IMPORT = 2
"""The first task imports, some of it (pandas) after it has called us; the second one finds all of that."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
_KEPT_BLOCK, _KEPT = 32 << 20, 64 << 20
"""Bytes: larger blocks are the system's; more than this at the end of the heap goes back to it."""


_SPARKS_ARCHIVE = re.compile(r"(pyspark|py4j-[\w.]+-src)\.zip")


def settle() -> None:
    """Call it in a task, or in a plan, once its modules are imported.  Does nothing outside of Spark's workers."""
    program = sys.modules["__main__"]
    name = getattr(program.__spec__, "name", None)
    if name == worker_daemon.STREAM_PLANNER:
        worker_daemon.end_quietly()
    if TaskContext.get() is None and _DAEMONS.isdisjoint(sys.orig_argv):
        return
    if name == daemon.__name__:
        worker_daemon.keep_quiet(program)
    _keep_directories()
    if (use := next(_uses)) > _USES_THAT_IMPORT:
        return
    gc.freeze()
    if use == 1 and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # (musl has none)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _KEPT_BLOCK)
            mallopt(_TRIM_THRESHOLD, _KEPT)


def _keep_directories() -> None:
    """Importers of Spark's archives do not read their directories again."""
    for finder in list(sys.path_importer_cache.values()):
        if isinstance(finder, zipimport.zipimporter) and _SPARKS_ARCHIVE.fullmatch(
            os.path.basename(finder.archive)
        ):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _nothing() -> None:
    pass
