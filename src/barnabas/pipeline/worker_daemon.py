"""Spark's daemon of Python workers, which says nothing when Spark closes the line to a worker.

Spark closes lines of workers that had nothing to do for a minute, and all at its end.  On a Unix socket, which
costs less than TCP, the worker's last words then meet a closed line at once, and Spark's own daemon prints a
traceback of BrokenPipeError for each.

The worker that plans a stream prints such a traceback when its query is stopped in the middle of a question.

`session()` gives this daemon to a local Spark (spark.python.daemon.module).  Workers that plan are always kept by
Spark's own: there our code asks for silence when it is called (`worker_heap.settle`).
"""

from __future__ import annotations

import os
import socket
import sys
from types import ModuleType, TracebackType

from pyspark import daemon

__all__ = ["STREAM_PLANNER", "end_quietly", "keep_quiet", "main"]

STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""The program of Spark's that plans the micro-batches of one query."""
_GONE = 1
"""What a worker returns that will not be used again."""


def keep_quiet(of: ModuleType) -> None:
    """Let workers of a daemon, the module that runs in it, end without a word.

    In a worker it counts from its next use on.
    """
    worker = of.worker
    if worker.__module__ == __name__:
        return

    def quiet(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(worker(sock, authenticated))
        except BrokenPipeError:
            sys.unraisablehook = _but_for_the_line  # (the file of the line is let go next)
            return _GONE

    vars(of)["worker"] = quiet


def end_quietly() -> None:
    """Let this process, a planner of a stream, end without a word when Spark has closed its line."""

    def but_for_the_line(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, BrokenPipeError):
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = but_for_the_line


def _but_for_the_line(ignored: sys.UnraisableHookArgs) -> None:
    """Tell what was raised where nobody can catch it, but for that the line is closed: a file that is let go with
    something unsent says so since Python 3.13."""
    if not isinstance(ignored.exc_value, BrokenPipeError):
        sys.__unraisablehook__(ignored)


def main() -> None:
    """Keep workers, as `python -m pyspark.daemon MODULE` does."""
    if sys.flags.safe_path:
        sys.path.append(os.getcwd())  # (last: a job's modules are found, and none hides one of Python's)
    keep_quiet(daemon)
    daemon.manager()


if __name__ == "__main__":
    main()
