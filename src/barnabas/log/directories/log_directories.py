"""All log directories of a node: which log is where, and where the next one goes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.errors import LostFileError, StorageError
from barnabas.log.directories.checkpoints import CheckpointJob
from barnabas.log.directories.jobs import Opening
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.files.removal import Removal
from barnabas.log.files.sync import RunJobs, run_in_turn
from barnabas.log.log import Log
from barnabas.log.producers.producers import DEFAULT_EXPIRATION_MS
from barnabas.log.results import finished
from barnabas.log.retention import Retention
from barnabas.model import NO_NODE, DirectoryId, NodeId, Now, TopicId, TopicPartition
from barnabas.ports import Disk, Randomness

if TYPE_CHECKING:
    from barnabas.config import LogConfig

__all__ = ["LogDirectories"]


class LogDirectories:
    """The directories of `log.dirs`, in their order."""

    __slots__ = ("directories", "failures")

    def __init__(self, directories: Sequence[LogDirectory], failures: Sequence[StorageError] = ()) -> None:
        self.directories = list(directories)
        self.failures = list(failures)
        """Why directories of log.dirs are not there: one error for each, which names it.

        Some could not even be locked and are not among `directories`.
        """

    def __repr__(self) -> str:
        return f"<LogDirectories {' '.join(map(repr, self.directories))}>"

    @classmethod
    def open(
        cls,
        disk: Disk,
        paths: Sequence[str],
        *,
        cluster_id: str,
        node_id: NodeId,
        config_for: Callable[[str], LogConfig],
        randomness: Randomness,
        now: Now,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> LogDirectories:
        """Lock and load every directory, blocking.  Raises StorageError when none could be opened."""
        steps = cls.open_in_steps(
            disk,
            paths,
            cluster_id=cluster_id,
            node_id=node_id,
            config_for=config_for,
            randomness=randomness,
            now=now,
            expiration_ms=expiration_ms,
        )
        while True:
            try:
                openings = next(steps)
            except StopIteration as end:
                logs: LogDirectories = end.value
                return logs
            for opening in openings:
                deque(opening.steps(), maxlen=0)

    @classmethod
    def open_in_steps(
        cls,
        disk: Disk,
        paths: Sequence[str],
        *,
        cluster_id: str,
        node_id: NodeId,
        config_for: Callable[[str], LogConfig],
        randomness: Randomness,
        now: Now,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> Generator[Sequence[Opening], None, LogDirectories]:
        """`open`, but its caller opens the logs: those of one directory are yielded at a time.

        A directory that is missing or damaged is left out (`failures`) and the others serve; one that is
        locked, or belongs to another cluster or node, stops the start.
        """
        locked: list[LogDirectory] = []
        failures: list[StorageError] = []
        try:
            for path in paths:
                try:
                    locked.append(
                        LogDirectory.lock(
                            disk,
                            path,
                            cluster_id=cluster_id,
                            node_id=node_id,
                            config_for=config_for,
                            randomness=randomness,
                            now=now,
                            expiration_ms=expiration_ms,
                        )
                    )
                except StorageError as error:
                    if error.fatal:
                        raise
                    error.directory = path
                    failures.append(error)
            for directory in locked:
                try:
                    yield from directory.load_in_steps(now)
                except StorageError as error:
                    failures.append(error)
            _check_unique(locked)
            if failures and all(directory.offline for directory in locked):
                raise failures[0]
        except BaseException:
            for directory in locked:
                directory.abandon()
            raise
        return cls(locked, failures)

    # --- finding ------------------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, None if there is none in a directory that is online."""
        directory = self.directory_of(topic_partition)
        return directory.logs[topic_partition] if directory is not None and not directory.offline else None

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory of a partition's log.  An online directory comes before an offline one."""
        found = None
        for directory in self.directories:
            if topic_partition in directory.logs:
                if directory.offline is None:
                    return directory
                found = found or directory
        return found

    def by_id(self, directory_id: DirectoryId) -> LogDirectory | None:
        for directory in self.directories:
            if directory.directory_id == directory_id:
                return directory
        return None

    def at(self, path: str) -> LogDirectory | None:
        """The directory at this path."""
        return next((directory for directory in self.directories if directory.path == path), None)

    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.offline is None]

    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.offline is not None]

    def missing(self) -> dict[str, StorageError]:
        """The directories that are not there, those that went offline since the start among them, and why."""
        missing = {error.directory: error for error in self.failures if error.directory is not None}
        return missing | {d.path: d.offline for d in self.directories if d.offline is not None}

    def all_logs(self) -> Iterator[Log]:
        """Every log of the directories that are online."""
        for directory in self.directories:
            if directory.offline is None:
                yield from list(directory.logs.values())

    def forget_producers_after(self, expiration_ms: int) -> None:
        """Have every log, and those made later, forget a producer that was silent for so long (ms)."""
        for directory in self.directories:
            directory.expiration_ms = expiration_ms
        for log in self.all_logs():
            log.producers.expiration_ms = expiration_ms

    def cordon(self, paths: Sequence[str]) -> list[str]:
        """These directories, and no others, take no new logs ("*": none does).  Returns those not ours."""
        named = {os.path.abspath(path) for path in paths if path != "*"}
        for directory in self.directories:
            directory.cordoned = "*" in paths or os.path.abspath(directory.path) in named
        known = {os.path.abspath(path) for path in (*(one.path for one in self.directories), *self.missing())}
        return sorted(named - known)

    # --- making and removing ------------------------------------------------------------------------------

    def place(self, directory_id: DirectoryId | None) -> LogDirectory:
        """Where a new log goes: the directory asked for, or else the one with the fewest logs (of those that
        are neither cordoned nor full, where there are some).

        Raises StorageError when every one is offline.
        """
        directory = self.by_id(directory_id) if directory_id is not None else None
        if directory is not None:
            return directory
        online = self.online()
        if not online:
            raise self.directories[0].offline or StorageError("no log directory is online")
        return min(
            online,
            key=lambda one: (one.cordoned, one.full, len(one.logs) + len(one.futures) + one.making),
        )

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        now: Now,
        *,
        directory_id: DirectoryId | None = None,
    ) -> Log:
        """Make the log of a partition.

        Raises StorageError when its directory (or every one) is offline, or the disk fails.
        """
        return self.place(directory_id).create(topic_partition, topic_id, now)

    def delete(self, topic_partition: TopicPartition, now: Now) -> bool:
        """Take a partition's log out of service and remove it later; false when there is none."""
        self.drop_future(topic_partition, now)
        directory = self.directory_of(topic_partition)
        if directory is None or directory.offline:
            return False
        directory.delete(topic_partition, now)
        return True

    # --- moving from one directory to another -------------------------------------------------------------

    def future(self, topic_partition: TopicPartition) -> Log | None:
        """The copy of a partition's log that is on its way into another directory."""
        directory = self.future_directory(topic_partition)
        return None if directory is None else directory.futures[topic_partition]

    def future_directory(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Where that copy lies (online)."""
        for directory in self.directories:
            if topic_partition in directory.futures and directory.offline is None:
                return directory
        return None

    def is_moving(self, log: Log) -> bool:
        """Whether it is being copied to another directory."""
        return any(log.topic_partition in directory.futures for directory in self.directories)

    def drop_future(self, topic_partition: TopicPartition, now: Now) -> bool:
        """Give up a copy; false when there is none.  Raises StorageError."""
        directory = self.future_directory(topic_partition)
        if directory is None:
            return False
        directory.drop_future(topic_partition, now)
        return True

    def promote(self, topic_partition: TopicPartition, now: Now) -> Log:
        """The copy becomes the log of the partition, and the former log is deleted.

        Both are equal, and no sync of the copy is in flight.  The one call here that waits for the disk: the
        old log must be gone for good before the copy takes its name.  Raises StorageError.
        """
        target = self.future_directory(topic_partition)
        if target is None:
            raise StorageError(f"there is no copy of {topic_partition}")
        source = self.directory_of(topic_partition)
        if source is not None and source.offline is None:
            target.futures[topic_partition].take_over(source.logs[topic_partition])
            source.give_away(topic_partition, now)
        return target.promote(topic_partition, now)

    # --- beside serving -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Make the renames of deletions durable, once for many.  A directory that fails goes offline."""
        self._each(LogDirectory.settle)

    def stray(self, topic_partition: TopicPartition) -> str | None:
        """Set a log aside that the cluster does not know.  Returns where it lies now."""
        directory = self.directory_of(topic_partition)
        return None if directory is None or directory.offline else directory.stray(topic_partition)

    # --- life ---------------------------------------------------------------------------------------------

    def fail(self, where: Log | LogDirectory, error: StorageError) -> LogDirectory | None:
        """A file operation failed there: the directory is offline for good.  Returns it, None if not ours."""
        directory = where if isinstance(where, LogDirectory) else self.directory_of(where.topic_partition)
        if directory is not None:
            directory.fail(error)
        return directory

    def high_watermarks(self) -> list[CheckpointJob]:
        """Every 5 s (`replica.high.watermark.checkpoint.interval.ms`), in a thread."""
        jobs = [directory.high_watermarks() for directory in self.online()]
        return [job for job in jobs if job is not None]

    def recovery_points(self) -> list[CheckpointJob]:
        """Every 60 s (`log.flush.offset.checkpoint.interval.ms`), in a thread; log starts too."""
        jobs = [directory.recovery_points() for directory in self.online()]
        return [job for job in jobs if job is not None]

    def checkpoint_high_watermarks(self) -> None:
        """The same, here and now.  A directory that fails goes offline."""
        self._each(LogDirectory.checkpoint_high_watermarks)

    def checkpoint_recovery_points(self) -> None:
        """The same, here and now.  A directory that fails goes offline."""
        self._each(LogDirectory.checkpoint_recovery_points)

    def checkpoint_compacted(self, log: Log) -> None:
        """Compaction came further in this log.  A directory that fails goes offline."""
        directory = self.directory_of(log.topic_partition)
        if directory is not None and directory.offline is None:
            try:
                directory.checkpoint_compacted()
            except StorageError as error:
                directory.fail(error)

    def tick(self, now: Now) -> list[Removal]:
        """Forget silent producers; what was deleted and is due, for a thread to remove."""
        return finished(self.tick_in_steps(now))

    def tick_in_steps(self, now: Now) -> Generator[Log, None, list[Removal]]:
        """The same, a log at a time."""
        due: list[Removal] = []
        for directory in self.online():
            if (removal := (yield from directory.tick_in_steps(now))) is not None:
                due.append(removal)
        return due

    def retain_in_steps(
        self,
        now: Now,
        retention: Callable[[Log], Retention],
        on_lost: Callable[[Log, LostFileError, Now], None],
    ) -> Generator[tuple[Log, list[str]], None, None]:
        """Apply retention to one log after the other; yield each log and the segments it lost.

        `on_lost` hears of a log of which a file is gone.
        """
        for log in self.all_logs():
            try:
                if log.failed is None:
                    yield log, log.retain(now, retention(log))
            except LostFileError as error:
                on_lost(log, error, now)
            except StorageError as error:
                self.fail(log, error)

    def close(
        self, now: Now, broker_epoch: int = NO_NODE, run: RunJobs = run_in_turn, *, clean: bool = True
    ) -> None:
        """Close everything that is online and leave the marker of a `clean` stop in each directory."""
        for directory in self.directories:
            try:
                directory.close(now, broker_epoch, run, clean=clean)
            except StorageError as error:
                self.failures.append(error)

    def abandon(self) -> None:
        """Give up without syncing (tests; a second signal)."""
        for directory in self.directories:
            directory.abandon()

    def _each(self, work: Callable[[LogDirectory], None]) -> None:
        for directory in self.online():
            try:
                work(directory)
            except StorageError as error:
                directory.fail(error)


def _check_unique(directories: Sequence[LogDirectory]) -> None:
    """No partition may lie in two directories, no directory id be there twice.  Raises StorageError."""
    where: dict[TopicPartition, LogDirectory] = {}
    ids: dict[DirectoryId, LogDirectory] = {}
    for directory in directories:
        if (twin := ids.setdefault(directory.directory_id, directory)) is not directory:
            raise StorageError(
                f"{twin.path} and {directory.path} have the same directory id {directory.directory_id}",
                directory=directory.path,
                next_step="one is a copy of the other: remove it from log.dirs",
            )
        for key in directory.logs:
            if (twin := where.setdefault(key, directory)) is not directory:
                raise StorageError(
                    f"{key} lies in {twin.path} and in {directory.path}",
                    directory=directory.path,
                    next_step="move the older copy out of the directory (it is a copy somebody made)",
                )
