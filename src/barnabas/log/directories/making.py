"""A new log as work for a thread: its directory, its first segment and whose log it is.

Each of these waits wherever the file system writes its journal, which it does for every sync of any log.
`LogDirectory.begin` makes one on the loop, and `LogDirectory.take` takes its log into service there.
"""

from __future__ import annotations

from barnabas.config import LogConfig
from barnabas.errors import StorageError
from barnabas.log.files.log_names import free_name
from barnabas.log.files.meta_properties import read_partition_metadata
from barnabas.log.log import Log
from barnabas.model import Now, TopicId, TopicPartition
from barnabas.ports import Disk

__all__ = ["Making"]


class Making:
    """`run` in any thread, once; then `log` is there, or else `error`."""

    __slots__ = (
        "_config",
        "_disk",
        "_expiration_ms",
        "_now",
        "_parent",
        "aside",
        "error",
        "log",
        "name",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        parent: str,
        name: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        now: Now,
        expiration_ms: int,
    ) -> None:
        self.name = name
        """Of its directory, which lies in the log directory `parent`."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log: Log | None = None
        self.error: StorageError | None = None
        self.aside: str | None = None
        """Where a directory of this name lies now that was there before."""
        self._disk = disk
        self._parent = parent
        self._config = config
        self._now = now
        self._expiration_ms = expiration_ms

    def __repr__(self) -> str:
        state = "failed" if self.error else "made" if self.log else "waiting"
        return f"<Making {self._parent}/{self.name} {state}>"

    def run(self) -> None:
        """Make it, durable with its first sync."""
        try:
            log = self._make(f"{self._parent}/{self.name}")
            log.active.rest()
            self.log = log
        except StorageError as error:
            self.error = error

    def _make(self, path: str) -> Log:
        disk = self._disk
        if disk.is_directory(path):  # of an earlier topic of this name
            earlier = read_partition_metadata(disk, path) or self.topic_id
            aside = f"{self._parent}/{free_name(disk, self._parent, self.name, 'delete', earlier)}"
            disk.rename(path, aside)
            self.aside = aside
        disk.make_directories(path)
        log = Log.open(disk, path, self._config, clean=True, now=self._now, expiration_ms=self._expiration_ms)
        log.belongs_to(self.topic_id)
        return log
