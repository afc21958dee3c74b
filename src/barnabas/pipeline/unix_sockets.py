"""Where Java and its Python workers talk on this machine: Unix sockets take less CPU for large rows than TCP.

Whoever connects to such a socket is not asked for a secret.  So they are in a directory that only we can enter.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import tempfile

__all__ = ["unix_sockets"]

_NAME = "barnabas-spark-"
_SOCKET = 43
"""Characters of what Spark makes there: a slash, a dot, a UUID, .sock"""
_LONGEST = 103
"""Characters of a socket's path: macOS takes no more, Linux takes 107."""


@functools.cache
def unix_sockets() -> dict[str, str]:
    """Spark's settings, with a directory for this process; {} where its path would be too long."""
    parent = tempfile.gettempdir()
    _remove_those_of_the_dead(parent)
    if len(parent) + len(f"/{_NAME}{2**22}-12345678") + _SOCKET > _LONGEST or os.name != "posix":
        return {}
    directory = tempfile.mkdtemp(prefix=f"{_NAME}{os.getpid()}-", dir=parent)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
    }


def _remove_those_of_the_dead(parent: str) -> None:
    """Directories of ours whose process was killed before it could remove them."""
    for entry in os.scandir(parent):
        named = re.fullmatch(rf"{_NAME}(\d+)-\w+", entry.name)
        if named is None or not entry.is_dir(follow_symlinks=False):
            continue
        try:
            os.kill(int(named[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(entry.path, ignore_errors=True)  # (what belongs to somebody else stays)
        except OSError:
            continue
