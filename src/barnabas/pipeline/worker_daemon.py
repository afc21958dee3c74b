"""Spark's daemon of Python workers, which says nothing when Spark closes the line to a worker.

`session()` gives it to a local Spark (spark.python.daemon.module).  Spark closes lines of workers that had
nothing to do for a minute, and all at its end.  On a Unix socket, which costs less than TCP, the worker's last
words then meet a closed line at once, and Spark's own daemon prints a traceback of BrokenPipeError for each.
"""

from __future__ import annotations

import socket

from pyspark import daemon

__all__ = ["main", "quietly"]

_GONE = 1
"""What a worker returns that will not be used again."""
_worker = daemon.worker


def quietly(sock: socket.socket, authenticated: bool) -> int:
    """What a worker does until Spark closes its line: one use after the other."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return _GONE


def main() -> None:
    """Keep workers, as `python -m pyspark.daemon MODULE` does."""
    daemon.worker = quietly
    daemon.manager()


if __name__ == "__main__":
    main()
