"""One log directory (a disk, as the operator sees it): its lock, its identity, its logs, its checkpoints.

A directory in which a file operation failed is offline for good: every log in it refuses everything, and
nothing in it is written again until the node is started anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from barnabas.doors import DirectoryLock, Disk, Randomness
from barnabas.errors import StorageError
from barnabas.log import meta
from barnabas.log.checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from barnabas.log.log import Log
from barnabas.log.producers import DEFAULT_EXPIRATION_MS
from barnabas.log.removal import Removal
from barnabas.model import METADATA_TOPIC, NO_NODE, DirectoryId, NodeId, Now, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from barnabas.config import LogConfig

__all__ = ["LogDirectory"]

ConfigFor = Callable[[str], "LogConfig"]

_DELETED = re.compile(r".+\.[0-9a-f]{32}-delete")
_STRAY = re.compile(r".+\.[0-9a-f]{32}-stray")
_FUTURE = re.compile(r".+\.[0-9a-f]{32}-future")
_PARTITION = re.compile(r".+-\d+")
_LONGEST_NAME = 255
MAX_OFFSET = (1 << 63) - 1


class LogDirectory:
    """A formatted directory that this process holds the lock of."""

    __slots__ = (
        "_config_for",
        "_doomed",
        "_expiration_ms",
        "_lock",
        "_renamed",
        "_written",
        "broker_epoch",
        "directory_id",
        "disk",
        "logs",
        "offline",
        "path",
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
        self.offline: StorageError | None = None
        """The error that took this directory offline."""
        self.was_clean = False
        """Whether the last stop was clean."""
        self.broker_epoch = NO_NODE
        """The broker epoch that the last clean stop left, -1 if none."""
        self.strays: list[str] = []
        """Names of `-stray` and `-future` directories: left alone."""
        self._lock = lock
        self._config_for = config_for
        self._expiration_ms = expiration_ms
        self._written: dict[str, dict[TopicPartition, Offset]] = {}
        """What each checkpoint file says; a file that is not in here is written anew at the next occasion."""
        self._doomed: list[tuple[float, str]] = []
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

        Raises StorageError naming what is wrong: missing, locked, not formatted, of another cluster or node.
        """
        if not disk.is_directory(path):
            raise StorageError(
                f"log directory {path} is missing",
                directory=path,
                next_step="mount the disk or correct log.dirs; `barnabas storage format` makes a new one",
            )
        lock = disk.lock(f"{path}/{meta.LOCK}")
        try:
            found = meta.read_meta_properties(disk, path)
            _check_identity(path, found, cluster_id, node_id)
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

    def load_in_steps(self, now: Now) -> Generator[str, None, None]:
        """Open every log of the directory, yielding its name now and then.

        Raises StorageError when a file operation failed (the directory is offline then).
        """
        try:
            yield from self._load(now)
        except StorageError as error:
            self.fail(error)
            raise

    def _load(self, now: Now) -> Generator[str, None, None]:
        epoch = meta.take_clean_shutdown(self.disk, self.path)
        self.was_clean = epoch is not None
        self.broker_epoch = NO_NODE if epoch is None else epoch
        points, known_points = self._read(RECOVERY_POINTS)
        starts, _ = self._read(LOG_STARTS)
        watermarks, _ = self._read(HIGH_WATERMARKS)
        cleaned, known_cleaned = self._read(CLEANER_OFFSETS)
        for name in self.disk.list(self.path):
            directory = f"{self.path}/{name}"
            if not self.disk.is_directory(directory):
                continue
            if _DELETED.fullmatch(name):
                self._doomed.append((now.mono, directory))
            elif _STRAY.fullmatch(name) or _FUTURE.fullmatch(name):
                self.strays.append(name)
            elif _PARTITION.fullmatch(name) and not name.startswith(f"{METADATA_TOPIC}-"):
                topic, _, number = name.rpartition("-")
                key = TopicPartition(topic, int(number))
                steps = Log.open_in_steps(
                    self.disk,
                    directory,
                    self._config_for(topic),
                    clean=self.was_clean and known_points,
                    now=now,
                    recovery_point=points.get(key, 0),
                    log_start=starts.get(key, 0),
                    high_watermark=watermarks.get(key),
                    cleaned=cleaned.get(key, 0 if known_cleaned else MAX_OFFSET),
                    expiration_ms=self._expiration_ms,
                )
                self._adopt((yield from _named(steps, name)))

    def _read(self, name: str) -> tuple[dict[TopicPartition, Offset], bool]:
        """A checkpoint, and whether it could be read: a corrupt one counts as empty, and costs a recovery."""
        try:
            found = self._written[name] = read_offsets(self.disk, f"{self.path}/{name}")
        except StorageError:
            return {}, False
        return found, True

    def _adopt(self, log: Log) -> None:
        key = log.topic_partition
        self.logs[key] = log
        log.lower_recovery_point = lambda offset: self._lower_recovery_point(key, offset)

    # --- logs ---------------------------------------------------------------------------------------------

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, now: Now) -> Log:
        """Make the directory and the first segment of a partition, durable with its first sync.

        Raises StorageError.
        """
        self.check_online()
        name = str(topic_partition)
        path = f"{self.path}/{name}"
        if len(name) > _LONGEST_NAME:
            raise StorageError(f"{name} is too long for a directory")
        try:
            self._forget_checkpoints(topic_partition)
            if self.disk.is_directory(path):
                self._set_aside(path, name, "delete", topic_id, now)  # of an earlier topic of this name
            self.disk.make_directories(path)
            log = Log.open(
                self.disk,
                path,
                self._config_for(topic_partition.topic),
                clean=True,
                now=now,
                expiration_ms=self._expiration_ms,
            )
            log.belongs_to(topic_id)
        except StorageError as error:
            self.fail(error)
            raise
        self._adopt(log)
        return log

    def delete(self, topic_partition: TopicPartition, now: Now, *, delay_ms: int | None = None) -> None:
        """Take a log out of service: renamed `-delete` now, due for removal after file.delete.delay.ms.

        The rename is durable with `settle`, once for many of them.
        """
        log = self.logs[topic_partition]
        delay = log.config.file_delete_delay_ms if delay_ms is None else delay_ms
        self._retire(log)
        target = self._rename(log.path, str(topic_partition), "delete", log.topic_id)
        self._doomed.append((now.mono + delay / 1000, target))

    def stray(self, topic_partition: TopicPartition) -> str:
        """Set a log aside that the cluster's metadata does not know (`settle` makes that durable).

        Returns the new path.
        """
        log = self.logs[topic_partition]
        self._retire(log)
        target = self._rename(log.path, str(topic_partition), "stray", log.topic_id)
        self.strays.append(target.rpartition("/")[2])
        return target

    def _retire(self, log: Log) -> None:
        self.check_online()
        del self.logs[log.topic_partition]
        log.abandon()

    def _set_aside(self, path: str, name: str, suffix: str, topic_id: TopicId, now: Now) -> None:
        old_id = meta.read_partition_metadata(self.disk, path) or topic_id
        self._doomed.append((now.mono, self._rename(path, name, suffix, old_id)))

    def _rename(self, path: str, name: str, suffix: str, topic_id: TopicId | None) -> str:
        """`<topic>-<p>.<32 hex>-<suffix>`: the hex is the topic id, unless that name is taken."""
        number = int.from_bytes(topic_id or b"", "big")
        while True:
            tail = f".{number % (1 << 128):032x}-{suffix}"
            target = f"{self.path}/{name[: _LONGEST_NAME - len(tail)]}{tail}"
            if not self.disk.exists(target):
                break
            number += 1
        try:
            self.disk.rename(path, target)
        except StorageError as error:
            self.fail(error)
            raise
        self._renamed = True
        return target

    def settle(self) -> None:
        """Make renames durable.  Raises StorageError (offline then)."""
        if self._renamed and self.offline is None:
            self._renamed = False
            try:
                self.disk.sync_directory(self.path)
            except StorageError as error:
                self.fail(error)
                raise

    # --- checkpoints --------------------------------------------------------------------------------------

    def checkpoint_high_watermarks(self, *, durable: bool = False) -> None:
        """Write every log's high watermark.  Raises StorageError (offline then).

        It is a hint (a lower one is safe, too), so the loop does not wait for the disk every few seconds.
        """
        marks = {key: log.high_watermark for key, log in self.logs.items()}
        self._write(HIGH_WATERMARKS, marks, durable=durable)

    def checkpoint_recovery_points(self) -> None:
        """Write up to where every log is durable, and where it starts.

        Raises StorageError (offline then).
        """
        self._write(RECOVERY_POINTS, {key: log.durable_end_offset for key, log in self.logs.items()})
        starts = {k: g.log_start_offset for k, g in self.logs.items() if g.log_start_offset > g.bases[0]}
        self._write(LOG_STARTS, starts)
        self.checkpoint_cleaned(durable=True)

    def checkpoint_cleaned(self, *, durable: bool = False) -> None:
        """Write up to where every log is compacted.  Raises StorageError (offline then)."""
        rows = {key: log.cleaned_offset for key, log in self.logs.items() if log.cleaned_offset > 0}
        self._write(CLEANER_OFFSETS, rows, durable=durable)

    def _lower_recovery_point(self, key: TopicPartition, offset: Offset) -> None:
        for name in (RECOVERY_POINTS, CLEANER_OFFSETS):
            points = self._written.get(name, {})
            if points.get(key, 0) > offset:
                self._write(name, {**points, key: offset})

    def _forget_checkpoints(self, key: TopicPartition) -> None:
        """Rows of an earlier log of this name would make the next start cut the new one, or trust too much of
        it.  Rows of all logs that are gone leave with them, so that a topic costs one write and not many."""
        for name, rows in self._written.copy().items():
            if key in rows:
                self._write(name, {known: offset for known, offset in rows.items() if known in self.logs})

    def _write(self, name: str, offsets: dict[TopicPartition, Offset], *, durable: bool = True) -> None:
        """Write a checkpoint unless the file says that already."""
        self.check_online()
        if self._written.get(name) == offsets:
            return
        try:
            write_offsets(self.disk, f"{self.path}/{name}", offsets, durable=durable)
        except StorageError as error:
            self.fail(error)
            raise
        self._written[name] = offsets

    # --- life ---------------------------------------------------------------------------------------------

    def check_online(self) -> None:
        """Raises the StorageError that took this directory offline, if one did."""
        if self.offline is not None:
            raise self.offline

    def fail(self, error: StorageError) -> None:
        """Offline, for good: the first error stays."""
        if self.offline is None:
            error.directory = self.path
            self.offline = error
            for log in self.logs.values():
                log.fail(error)

    def tick(self, now: Now) -> Removal | None:
        """Forget silent producers; what was doomed and is due, for a thread to remove.

        Raises StorageError (offline then).
        """
        if self.offline is not None:
            return None
        files = [path for log in self.logs.values() for path in log.tick(now)]
        trees = [path for deadline, path in self._doomed if deadline <= now.mono]
        self._doomed = [doomed for doomed in self._doomed if doomed[0] > now.mono]
        self.settle()
        return Removal(self.disk, self.path, files, trees) if files or trees else None

    def close(self, now: Now, broker_epoch: int = NO_NODE) -> None:
        """Close every log, write the checkpoints, then the marker that says so; give the lock back.

        Raises StorageError; the marker is not written then.
        """
        try:
            if self.offline is None:
                for log in self.logs.values():
                    log.close(now)
                self.checkpoint_recovery_points()
                self.checkpoint_high_watermarks(durable=True)
                meta.write_clean_shutdown(self.disk, self.path, broker_epoch)
        except StorageError as error:
            self.fail(error)
            raise
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close files and give the lock back, as a crash would."""
        for log in self.logs.values():
            log.abandon()
        self._lock.release()


def _named(steps: Generator[None, None, Log], name: str) -> Generator[str, None, Log]:
    yield name
    while True:
        try:
            next(steps)
        except StopIteration as end:
            log: Log = end.value
            return log
        yield name


def _check_identity(path: str, found: meta.MetaProperties | None, cluster_id: str, node_id: NodeId) -> None:
    if found is None:
        raise StorageError(
            f"{path} is not formatted: it has no {meta.META_PROPERTIES}",
            directory=path,
            next_step="run `barnabas storage format` for this node",
        )
    if found.cluster_id and found.cluster_id != cluster_id:
        raise StorageError(
            f"{path} belongs to cluster {found.cluster_id}, this node to {cluster_id}",
            directory=path,
            next_step="give the node its own directory (log.dirs); meta.properties is right, do not edit it",
        )
    if found.node_id != node_id:
        raise StorageError(
            f"{path} belongs to node {found.node_id}, this is node {node_id}",
            directory=path,
            next_step="correct node.id or log.dirs; two nodes may not share a directory",
        )
