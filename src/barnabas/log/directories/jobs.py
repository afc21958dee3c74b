"""Whole logs as work for threads: one to be opened at a start, one to be flushed at a stop.

Logs are independent of each other, and each waits for the disk many times.  So threads open and flush them by
the thousand.  One thread works on one log, and nobody else touches the log meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from barnabas.errors import StorageError
from barnabas.log.log import Log

if TYPE_CHECKING:
    from barnabas.log.files.sync import SyncJob

__all__ = ["Opening", "Settling"]


class Opening:
    """A log to open: `steps` in any thread, once; then `log` is there, or else `error`."""

    __slots__ = ("_steps", "clean", "error", "log", "name")

    def __init__(self, name: str, steps: Generator[None, None, Log], *, clean: bool) -> None:
        self.name = name
        """Of its directory."""
        self.clean = clean
        """Whether nothing is to be recovered, by what its directory knows."""
        self._steps = steps
        self.log: Log | None = None
        self.error: StorageError | None = None

    def __repr__(self) -> str:
        state = "failed" if self.error else "open" if self.log else "waiting"
        return f"<Opening {self.name} {state}>"

    def steps(self) -> Iterator[None]:
        """Open it, a step (about a MiB read) at a time; there is at least one."""
        yield
        try:
            self.log = yield from self._steps
            self.log.active.rest()
        except StorageError as error:
            self.error = error


class Settling:
    """A log to settle (`Log.settle`): `run` in any thread, once; then `job` is its sync, if it needs one."""

    __slots__ = ("job", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.job: SyncJob | None = None

    def __repr__(self) -> str:
        return f"<Settling {self.log.topic_partition} job={self.job}>"

    def run(self) -> None:
        """Write what is to be synced.  Raises StorageError."""
        self.job = self.log.settle()
        self.log.active.rest()
