"""One log directory (a disk, as the operator sees it): its lock, its identity, its logs, its checkpoints.

A directory in which a file operation failed is offline: every log in it refuses everything, and nothing in it
is written until the node starts again.  (A write without room does not count as a failure.)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.errors import StorageError
from barnabas.log.directories.checkpoints import CheckpointJob, Checkpoints, Rows
from barnabas.log.directories.jobs import Opening, Settling
from barnabas.log.directories.making import Making
from barnabas.log.files import meta_properties as meta
from barnabas.log.files.checkpoint import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from barnabas.log.files.log_names import (
    LONGEST_NAME,
    free_name,
    future_of,
    is_deleted,
    is_stray,
    partition_of,
)
from barnabas.log.files.removal import Removal
from barnabas.log.files.sync import RunJobs, run_in_turn
from barnabas.log.log import Log
from barnabas.log.producers.producers import DEFAULT_EXPIRATION_MS
from barnabas.log.results import finished
from barnabas.log.segments.segment import MAX_OFFSET
from barnabas.model import (
    METADATA_TOPIC,
    NO_NODE,
    NO_OFFSET,
    DirectoryId,
    NodeId,
    Now,
    Offset,
    TopicId,
    TopicPartition,
)
from barnabas.ports import DirectoryLock, Disk, Randomness

if TYPE_CHECKING:
    from barnabas.config import LogConfig

__all__ = ["LogDirectory"]

ConfigFor = Callable[[str], "LogConfig"]


class LogDirectory:
    """A formatted directory that this process holds the lock of."""

    __slots__ = (
        "_checkpoints",
        "_config_for",
        "_deleted",
        "_lock",
        "_renamed",
        "_retired",
        "broker_epoch",
        "cordoned",
        "directory_id",
        "disk",
        "expiration_ms",
        "full",
        "futures",
        "logs",
        "making",
        "offline",
        "path",
        "slow",
        "strays",
        "was_clean",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        lock: DirectoryLock,
        *,
        directory_id: DirectoryId,
        config_for: ConfigFor,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> None:
        self.disk = disk
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        """Copies of logs that are on their way here from another directory."""
        self.making = 0
        """Logs that are being made."""
        self.offline: StorageError | None = None
        """The error that took this directory offline."""
        self.full = False
        """New logs go elsewhere if they can: there is little room (whoever looks after that says so)."""
        self.slow = False
        """Its disk takes seconds for a sync (whoever looks after that says so)."""
        self.cordoned = False
        """New logs go elsewhere if they can: an operator wants it so."""
        self.was_clean = False
        """Whether the last stop was clean."""
        self.broker_epoch = NO_NODE
        """The broker epoch that the last clean stop left, -1 if none."""
        self.strays: list[str] = []
        """Names of `-stray` directories: left alone."""
        self._lock = lock
        self._config_for = config_for
        self.expiration_ms = expiration_ms
        self._checkpoints = Checkpoints(disk, path)
        self._deleted: list[tuple[float, str]] = []
        self._retired: dict[str, Log] = {}
        """By path, deleted logs that earlier readers still read."""
        self._renamed = False

    def __repr__(self) -> str:
        state = "offline" if self.offline else "online"
        return f"<LogDirectory {self.path} {state} id={self.directory_id} logs={len(self.logs)}>"

    # --- opening ------------------------------------------------------------------------------------------

    @classmethod
    def lock(
        cls,
        disk: Disk,
        path: str,
        *,
        cluster_id: str,
        node_id: NodeId,
        config_for: ConfigFor,
        randomness: Randomness,
        now: Now,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> LogDirectory:
        """Take the lock and see that the directory is ours; a missing directory id is made up and written.

        Raises StorageError naming what is wrong: missing, not formatted, cannot be read; `fatal` where it is
        locked, or of another cluster or node: there the operator was wrong, and not a disk.
        """
        if not disk.is_directory(path):
            raise StorageError(
                f"log directory {path} is missing",
                directory=path,
                next_step="mount the disk or correct log.dirs, then start the node again; for an empty one in its"
                " place, `barnabas storage format --ignore-formatted`",
            )
        lock = disk.lock(f"{path}/{meta.LOCK}")
        try:
            found = meta.read_meta_properties(disk, path)
            if found is None and meta.holds_data(disk, path):
                raise meta.not_formatted(path)
            meta.check_identity(path, found, cluster_id, node_id)
            directory_id = found.directory_id if found is not None else None
            if directory_id is None:
                directory_id = randomness.uuid()
                ours = meta.MetaProperties(cluster_id, node_id, directory_id)
                meta.write_meta_properties(disk, path, ours, now)
        except StorageError:
            lock.release()
            raise
        return cls(
            disk, path, lock, directory_id=directory_id, config_for=config_for, expiration_ms=expiration_ms
        )

    def load_in_steps(self, now: Now) -> Generator[Sequence[Opening], None, None]:
        """Open every log of the directory: yields what is to be opened, and goes on when all of it was.

        Raises StorageError when a file operation failed (the directory is offline then).
        """
        try:
            yield from self._load(now)
        except StorageError as error:
            error.full = False  # half of its logs are open
            self.fail(error)
            raise

    def _load(self, now: Now) -> Generator[Sequence[Opening], None, None]:
        epoch = meta.take_clean_shutdown(self.disk, self.path)
        self.was_clean = epoch is not None
        self.broker_epoch = NO_NODE if epoch is None else epoch
        points, known_points = self._checkpoints.read(RECOVERY_POINTS)
        starts, _ = self._checkpoints.read(LOG_STARTS)
        watermarks, _ = self._checkpoints.read(HIGH_WATERMARKS)
        cleaned, known_cleaned = self._checkpoints.read(CLEANER_OFFSETS)
        clean = self.was_clean and known_points
        openings: list[Opening] = []
        for name in self.disk.list(self.path):
            directory = f"{self.path}/{name}"
            if not self.disk.is_directory(directory):
                continue
            if is_deleted(name):
                self._deleted.append((now.mono, directory))
            elif is_stray(name):
                self.strays.append(name)
            elif (key := partition_of(name)) is not None and key.topic != METADATA_TOPIC:
                steps = Log.open_in_steps(
                    self.disk,
                    directory,
                    self._config_for(key.topic),
                    clean=clean,
                    now=now,
                    recovery_point=points.get(key, 0),
                    log_start=starts.get(key, 0),
                    first=starts.get(key, NO_OFFSET),
                    high_watermark=watermarks.get(key),
                    cleaned=cleaned.get(key, 0 if known_cleaned else MAX_OFFSET),
                    expiration_ms=self.expiration_ms,
                )
                openings.append(Opening(name, steps, clean=clean))
        try:
            yield openings
        finally:
            for opening in openings:
                if (log := opening.log) is not None:
                    own = opening.name == str(log.topic_partition)
                    self._adopt(log, self.logs if own else self.futures)
        for opening in openings:
            if opening.error is not None:
                raise opening.error
        if not self.was_clean:
            self.disk.sync_directory(self.path)  # once for all logs that were never synced themselves

    def _adopt(self, log: Log, where: dict[TopicPartition, Log]) -> None:
        key = log.topic_partition
        where[key] = log
        log.lower_recovery_point = lambda point, start: self._lower_recovery_point(key, point, start)

    def _lower_recovery_point(self, key: TopicPartition, point: Offset, start: Offset) -> None:
        """No file shall say more of a log; one that started above its own end would be taken for empty."""
        self.check_online()
        for name, most in ((RECOVERY_POINTS, point), (CLEANER_OFFSETS, start), (LOG_STARTS, start)):
            self._guarded(partial(self._checkpoints.lower, name, key, most))

    def _guarded(self, action: Callable[[], object]) -> None:
        """Do something with the disk: if it fails the directory is offline.  Raises StorageError."""
        try:
            action()
        except StorageError as error:
            self.fail(error)
            raise

    # --- logs ---------------------------------------------------------------------------------------------

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, now: Now) -> Log:
        """Make the log of a partition, durable with its first sync.  Raises StorageError."""
        making = self.begin(topic_partition, topic_id, now)
        making.run()
        return self.take(making, now)

    def create_future(self, topic_partition: TopicPartition, topic_id: TopicId, now: Now) -> Log:
        """Make an empty copy that is to become the log of a partition here.  Raises StorageError."""
        name = free_name(self.disk, self.path, str(topic_partition), "future", topic_id)
        if future_of(name) != topic_partition:
            raise StorageError(f"the name of {topic_partition} is too long for a replica that moves")
        making = self.begin(topic_partition, topic_id, now, name=name)
        making.run()
        return self.take(making, now)

    def begin(
        self, topic_partition: TopicPartition, topic_id: TopicId, now: Now, *, name: str = ""
    ) -> Making:
        """What a thread does to make a log; `take` it afterwards.  Raises StorageError."""
        self.check_online()
        name = name or str(topic_partition)
        if len(name) > LONGEST_NAME:
            raise StorageError(f"{name} is too long for a directory")
        self._guarded(partial(self._checkpoints.forget, topic_partition, self._all()))
        config = self._config_for(topic_partition.topic)
        self.making += 1
        return Making(self.disk, self.path, name, topic_partition, topic_id, config, now, self.expiration_ms)

    def take(self, making: Making, now: Now) -> Log:
        """The log that was made is one of this directory's.  Raises StorageError."""
        self.making -= 1
        self.check_online()
        if making.aside is not None:
            self._deleted.append((now.mono, making.aside))
            self._renamed = True
        if making.log is None:
            error = making.error or StorageError(f"{making} was not run")
            self.fail(error)
            raise error
        self._adopt(making.log, self.logs if making.name == str(making.topic_partition) else self.futures)
        return making.log

    def delete(self, topic_partition: TopicPartition, now: Now, *, delay_ms: int | None = None) -> None:
        """Take a log out of service: renamed `-delete` now, due for removal after file.delete.delay.ms.

        The rename is durable with `settle`, once for many of them.
        """
        log = self.logs[topic_partition]
        delay = log.config.file_delete_delay_ms if delay_ms is None else delay_ms
        self._retire(log, self.logs)
        target = self._rename(log.path, str(topic_partition), "delete", log.topic_id)
        self._deleted.append((now.mono + delay / 1000, target))

    def drop_future(self, topic_partition: TopicPartition, now: Now) -> None:
        """Give up a copy: it is removed as soon as may be."""
        log = self.futures[topic_partition]
        self._retire(log, self.futures)
        target = self._rename(log.path, str(topic_partition), "delete", log.topic_id)
        self._deleted.append((now.mono, target))

    def give_away(self, topic_partition: TopicPartition, now: Now) -> None:
        """Its copy in another directory takes over: the log is deleted, durably when this returns.

        Readers of its files may finish until they are removed.  Raises StorageError.
        """
        self.check_online()
        log = self.logs[topic_partition]
        log.stop_compaction()
        target = self._rename(log.path, str(topic_partition), "delete", log.topic_id)
        del self.logs[topic_partition]
        log.retire()
        self._retired[target] = log
        self._deleted.append((now.mono + log.config.file_delete_delay_ms / 1000, target))
        self.settle()

    def promote(self, topic_partition: TopicPartition, now: Now) -> Log:
        """The copy is the log of the partition from now on (its name is durable with its next sync).

        No sync of it is in flight.  Raises StorageError.
        """
        self.check_online()
        log = self.futures[topic_partition]
        name = str(topic_partition)
        path = f"{self.path}/{name}"

        def rename() -> None:
            if self.disk.is_directory(path):
                self._set_aside(path, name, "delete", log.topic_id, now)
            self.disk.rename(log.path, path)

        self._guarded(rename)
        del self.futures[topic_partition]
        log.take_name(path)
        self._adopt(log, self.logs)
        return log

    def stray(self, topic_partition: TopicPartition) -> str:
        """Set a log aside that the cluster's metadata does not know (`settle` makes that durable).

        Returns the new path.
        """
        log = self.logs[topic_partition]
        self._retire(log, self.logs)
        target = self._rename(log.path, str(topic_partition), "stray", log.topic_id)
        self.strays.append(target.rpartition("/")[2])
        return target

    def _retire(self, log: Log, where: dict[TopicPartition, Log]) -> None:
        self.check_online()
        del where[log.topic_partition]
        log.abandon()

    def _set_aside(self, path: str, name: str, suffix: str, topic_id: TopicId | None, now: Now) -> None:
        old_id = meta.read_partition_metadata(self.disk, path) or topic_id
        self._deleted.append((now.mono, self._rename(path, name, suffix, old_id)))

    def _rename(self, path: str, name: str, suffix: str, topic_id: TopicId | None) -> str:
        target = f"{self.path}/{free_name(self.disk, self.path, name, suffix, topic_id)}"
        self._guarded(lambda: self.disk.rename(path, target))
        self._renamed = True
        return target

    def settle(self) -> None:
        """Make renames durable.  Raises StorageError (offline then)."""
        if self._renamed and self.offline is None:
            self._renamed = False
            self._guarded(lambda: self.disk.sync_directory(self.path))

    # --- checkpoints --------------------------------------------------------------------------------------

    def high_watermarks(self) -> CheckpointJob | None:
        """Write every log's high watermark, in a thread; None when the file says that already.

        It is a hint (a lower one is safe, too), so nobody waits for the disk.
        """
        return self._checkpoints.job({HIGH_WATERMARKS: self._high_watermarks()}, durable=False)

    def recovery_points(self) -> CheckpointJob | None:
        """Write up to where every log is durable, where it starts, and how far it is compacted, in a thread.

        None when the files say that already.
        """
        return self._checkpoints.job(self._recovery_points())

    def checkpoint_high_watermarks(self, *, durable: bool = False) -> None:
        """The same, here and now.  Raises StorageError (offline then)."""
        self._checkpoint({HIGH_WATERMARKS: self._high_watermarks()}, durable=durable)

    def checkpoint_recovery_points(self) -> None:
        """The same, here and now.  Raises StorageError (offline then)."""
        self._checkpoint(self._recovery_points(), durable=True)

    def checkpoint_compacted(self, *, durable: bool = False) -> None:
        """Write up to where every log is compacted.  Raises StorageError (offline then)."""
        self._checkpoint({CLEANER_OFFSETS: self._compacted_offsets()}, durable=durable)

    def _all(self) -> dict[TopicPartition, Log]:
        """Every log that the checkpoints speak of; a partition lies here once, as itself or as a copy."""
        return {**self.futures, **self.logs} if self.futures else self.logs

    def _high_watermarks(self) -> Rows:
        return {key: log.high_watermark for key, log in self._all().items()}

    def _recovery_points(self) -> dict[str, Rows]:
        logs = self._all()
        points = {key: log.recovery_point for key, log in logs.items()}
        starts = {key: log.log_start_offset for key, log in logs.items()}
        return {RECOVERY_POINTS: points, LOG_STARTS: starts, CLEANER_OFFSETS: self._compacted_offsets()}

    def _compacted_offsets(self) -> Rows:
        return {key: log.compacted_offset for key, log in self._all().items() if log.compacted_offset > 0}

    def _checkpoint(self, contents: dict[str, Rows], *, durable: bool) -> None:
        self.check_online()
        for name, rows in contents.items():
            self._guarded(partial(self._checkpoints.write, name, rows, durable=durable))

    # --- life ---------------------------------------------------------------------------------------------

    def check_online(self) -> None:
        """Raises the StorageError that took this directory offline, if one did."""
        if self.offline is not None:
            raise self.offline

    def fail(self, error: StorageError) -> None:
        """Offline, for good: the first error stays.  That there was no room is nothing to go offline for."""
        if error.directory is None:
            error.directory = self.path
        if self.offline is None and not error.full:
            self.offline = error
            for log in self._all().values():
                log.fail(error)

    def tick(self, now: Now) -> Removal | None:
        """Forget silent producers; what was deleted and is due, for a thread to remove; see `tick_in_steps`."""
        return finished(self.tick_in_steps(now))

    def tick_in_steps(self, now: Now) -> Generator[Log, None, Removal | None]:
        """The same, a log that has something due at a time.  The thread makes the renames durable, too."""
        files: list[str] = []
        for key, log in [item for item in self.logs.items() if item[1].has_chores(now)]:
            if self.offline is not None:
                return None
            if self.logs.get(key) is log:  # (it may be gone since the step before)
                start = MAX_OFFSET if self.full else self._checkpoints.says(LOG_STARTS).get(key, 0)
                files += log.tick(now, start)
            yield log
        if self.offline is not None:
            return None
        trees = [path for deadline, path in self._deleted if deadline <= now.mono]
        self._deleted = [deleted for deleted in self._deleted if deleted[0] > now.mono]
        for tree in trees:
            if (retired := self._retired.pop(tree, None)) is not None:
                retired.abandon()
        renamed, self._renamed = self._renamed, False
        if not (files or trees or renamed):
            return None
        return Removal(self.disk, self.path, files, trees, settle=renamed)

    def close(
        self, now: Now, broker_epoch: int = NO_NODE, run: RunJobs = run_in_turn, *, clean: bool = True
    ) -> None:
        """Close every log, write the checkpoints, then the marker of a `clean` stop; give the lock back.

        `run` settles the logs, and then syncs those that have something to sync, each on its own.  Raises
        StorageError; the marker is not written then.
        """
        try:
            if self.offline is None:
                logs = list(self._all().values())
                settled = [Settling(log) for log in logs]
                run(settled)
                jobs = [(one.log, one.job) for one in settled if one.job is not None]
                run([job for _, job in jobs])
                for log, job in jobs:
                    log.finish_sync(job)
                    if job.refused is not None:
                        raise job.refused
                for log in logs:
                    log.abandon()
                self.checkpoint_recovery_points()
                self.checkpoint_high_watermarks(durable=True)
                if clean:
                    meta.write_clean_shutdown(self.disk, self.path, broker_epoch)
        except StorageError as error:
            self.fail(error)
            raise
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close files and give the lock back, as a crash would."""
        for log in (*self._all().values(), *self._retired.values()):
            log.abandon()
        self._lock.release()
