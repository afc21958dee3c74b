"""Disk space: producing stops before a volume is full, and resumes by itself when there is room again.

The broker keeps a reserve on every volume (`barnabas.disk.reserve.bytes`, but at most
`barnabas.disk.reserve.percent` of the volume).  When less is free, the partitions of its directories accept
no records: producers get KAFKA_STORAGE_ERROR, which they retry, and followers stop fetching.  Everything else
continues: reads, retention, deletions, and the cluster's own writes.  The reserve is for these: metadata,
and, down to half of the reserve, the internal topics, so that groups may commit.  Producing resumes when 1.5
times the reserve is free.  It does not resume at the reserve itself, because the volume would then flap at
each segment that retention deletes.

The broker checks the free space about once a second.  A write that finds no room in spite of this (another
program writes to that volume, a quota, no inodes) has the same effect, for at least `_AFTER_REFUSAL_S`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import BrokerHost, DirectorySpace
from barnabas.errors import StorageError
from barnabas.model import INTERNAL_TOPICS, Now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.replicas.partition import Partition
    from barnabas.config import Config
    from barnabas.log.directories.log_directories import LogDirectories
    from barnabas.log.directories.log_directory import LogDirectory

__all__ = ["Space"]

_LOOK_EVERY_S = 1.0
_AFTER_REFUSAL_S = 10.0
"""Seconds without producing after a write was refused though enough seemed free."""


class Space:
    """The free space of each directory, and whether its partitions take records.  One for each broker."""

    __slots__ = (
        "_bytes",
        "_changed",
        "_host",
        "_logs",
        "_look_at",
        "_partitions",
        "_percent",
        "_refused",
        "_unsynced",
        "known",
    )

    def __init__(
        self,
        config: Config,
        logs: LogDirectories,
        partitions: Callable[[], Iterator[Partition]],
        host: BrokerHost,
        changed: Callable[[], None],
    ) -> None:
        """`partitions` gives those that are hosted; `changed` is called when answers of the broker may change."""
        self._logs = logs
        self._partitions = partitions
        self._host = host
        self._changed = changed
        self._look_at = 0.0
        self._refused: dict[str, float] = {}
        """Directories in which a write was refused, and until when (mono s) that counts."""
        self._unsynced: dict[Partition, None] = {}
        """Those whose last sync found no room."""
        self.known: dict[str, DirectorySpace] = {}
        """By path, as last looked at."""
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the settings, now and whenever they change."""
        self._bytes = config.int("barnabas.disk.reserve.bytes")
        self._percent = config.float("barnabas.disk.reserve.percent")
        self._look_at = 0.0

    def look(self, now: Now) -> bool:
        """Ask every directory for its free room, if it is time; whether there may be room for more now."""
        if now.mono < self._look_at:
            return False
        self._look_at = now.mono + _LOOK_EVERY_S
        for directory in self._logs.online():
            try:
                free, total = (
                    directory.disk.free_bytes(directory.path),
                    directory.disk.total_bytes(directory.path),
                )
            except StorageError as error:
                directory.fail(error)  # it vanished
                continue
            self._judge(directory, free, total, now)
        waiting, self._unsynced = self._unsynced, {}
        for partition in waiting:
            partition.sync_again()
        return any(not space.exhausted for space in self.known.values())

    def refused(self, directory: LogDirectory, error: StorageError, now: Now) -> None:
        """A write in this directory found no room."""
        self._refused[directory.path] = now.mono + _AFTER_REFUSAL_S
        known = self.known.get(directory.path, DirectorySpace(0, 0, 0))
        self._became(directory, known._replace(full=True, exhausted=True))

    def unsynced(self, partition: Partition) -> None:
        """A sync of this partition found no room: the next look has it tried again."""
        self._unsynced[partition] = None

    def applies_to(self, partition: Partition) -> None:
        """Apply what is known of its directory to a partition that is new, or has moved."""
        if (
            partition.directory is not None
            and (known := self.known.get(partition.directory.path)) is not None
        ):
            self._tell(partition, known)

    def _judge(self, directory: LogDirectory, free: int, total: int, now: Now) -> None:
        reserve = min(self._bytes, int(total * self._percent / 100))
        before = self.known.get(directory.path)
        if free < reserve:
            self._refused.pop(directory.path, None)  # that explains it: from here on what is free counts
        if refused := now.mono < self._refused.get(directory.path, 0.0):
            free = min(free, reserve - 1)
        limit = reserve + reserve // 2 if before is not None and before.full else reserve
        half = limit // 2
        self._became(
            directory,
            DirectorySpace(free, total, reserve, refused or free < limit, refused or free < half),
        )

    def _became(self, directory: LogDirectory, space: DirectorySpace) -> None:
        before = self.known.get(directory.path, DirectorySpace(0, 0, 0))
        self.known[directory.path] = space
        directory.full = space.full
        if (before.full, before.exhausted) == (space.full, space.exhausted):
            return
        for partition in self._partitions():
            if partition.directory is directory:
                self._tell(partition, space)
        if before.full != space.full:
            self._changed()
            self._host.room_changed(directory, space)

    def _tell(self, partition: Partition, space: DirectorySpace) -> None:
        full = space.exhausted if partition.topic in INTERNAL_TOPICS else space.full
        if partition.no_room != full:
            partition.no_room = full
            if partition.followed is not None:
                partition.followed.pause(full)

    def __repr__(self) -> str:
        return f"<Space {[path for path, space in self.known.items() if space.full]} full>"
