"""Moving a replica to another directory of this node, while it leads, follows and is read (KIP-113).

The node copies the log: a thread reads pieces, and this module appends them to the copy, as a follower
appends what a leader sends.  When the copy has caught up, the node tells the controller in which directory
the replica will be, because the controller must always know which disk has it (KIP-858). From the
controller's answer on, each loop step that writes to the log writes the same to the copy.  As soon as the
copy is acknowledged as far as the log, the copy becomes the log.

A crash leaves the log, or the copy alone: `LogDirectories.promote`.  A move continues after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError, ErrorCode, StorageError
from barnabas.log.files.sync import SyncJob
from barnabas.log.future import align
from barnabas.model import Now, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replicas.assignments import Assignments
    from barnabas.broker.replicas.hosted_partitions import HostedPartitions
    from barnabas.broker.replicas.partition import Partition
    from barnabas.config import Config
    from barnabas.log.directories.log_directory import LogDirectory
    from barnabas.log.log import Log
    from barnabas.log.segments.scan import FileSlice
    from barnabas.ports import Disk

__all__ = ["CopyJob", "MoveStatistics", "Moves"]

_PIECE_BYTES = 1 << 20
_CATCH_UP_BYTES = 1 << 18
"""Bytes that the loop copies itself, to catch up within one loop step."""
_SYNC_EVERY_BYTES = 16 << 20
_RETRY_S = 1.0
"""Seconds before a copy goes on that found no room, or could not be read."""
_MOST_WANTED = 10_000
"""So many requested directories are remembered for replicas that this node does not have yet."""


class CopyJob:
    """One piece of a copy, or a sync of it; `run` may be called in any thread, once."""

    __slots__ = ("_disk", "_length", "_path", "_position", "data", "move", "sync")

    def __init__(self, move: _Move, disk: Disk, piece: FileSlice | None, sync: SyncJob | None) -> None:
        self.move = move
        self.sync = sync
        self.data = b""
        self._disk = disk
        self._path = "" if piece is None else piece.file.path
        self._position = 0 if piece is None else piece.position
        self._length = 0 if piece is None else len(piece)

    def run(self) -> None:
        """Read or sync.  Raises StorageError; nothing is read where the segment cannot be opened (any more)."""
        if self.sync is not None:
            self.sync.run()
            return
        try:
            file = self._disk.open(self._path, read_only=True)
        except StorageError:
            return  # deleted meanwhile, or no descriptor is left
        try:
            self.data = file.read_at(self._position, self._length)
        finally:
            file.close()

    def __repr__(self) -> str:
        return f"<CopyJob {self.move.partition.topic}-{self.move.partition.index} {self._length}>"


class MoveStatistics(NamedTuple):
    moving: int
    moved: int
    copied_bytes: int


class _Move:
    """One replica on its way."""

    __slots__ = ("accepted", "asked", "copy", "partition", "rest_until", "synced", "target", "unsynced")

    def __init__(self, partition: Partition, copy: Log, target: LogDirectory) -> None:
        self.partition = partition
        self.copy = copy
        self.target = target
        self.asked = False
        self.accepted = False
        self.rest_until = 0.0
        self.synced = not copy.needs_sync
        """Whether its directory is durable: never before its first sync."""
        self.unsynced = 0

    @property
    def lag(self) -> int:
        """Records that the copy does not have yet."""
        return self.partition.log.log_end_offset - self.copy.log_end_offset

    @property
    def sync_due(self) -> bool:
        """Whether the copy is less durable than the log."""
        copy, log = self.copy, self.partition.log
        if not self.synced or self.unsynced >= _SYNC_EVERY_BYTES:
            return True
        return (
            copy.acknowledged_end_offset < log.acknowledged_end_offset
            or copy.durable_end_offset < log.durable_end_offset
        )


class Moves:
    """All replicas on their way, one piece at a time.  One for each broker."""

    __slots__ = (
        "_assignments",
        "_broker",
        "_looked_at",
        "_rate",
        "_resume_at",
        "_wanted",
        "bytes",
        "moved",
        "under_way",
        "working",
    )

    def __init__(self, broker: HostedPartitions, assignments: Assignments, config: Config) -> None:
        self._broker = broker
        self._assignments = assignments
        self.working: CopyJob | None = None
        """What a thread does now: one thing at a time, syncs need the threads too."""
        self._looked_at = 0.0
        self.under_way: dict[Partition, _Move] = {}
        self._wanted: dict[TopicPartition, str] = {}
        self._resume_at = 0.0
        self.moved = self.bytes = 0
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the settings, now and whenever they change."""
        self._rate = config.int("replica.alter.log.dirs.io.max.bytes.per.second")

    def __bool__(self) -> bool:
        return bool(self.under_way)

    # ---- what is asked for -------------------------------------------------------------------------------

    def wanted(self, tp: TopicPartition) -> LogDirectory | None:
        """The directory that a request named for a replica before this node created it."""
        path = self._wanted.pop(tp, None)
        directory = None if path is None else self._broker.logs.at(path)
        return None if directory is None or directory.offline is not None else directory

    def alter(self, tp: TopicPartition, path: str, now: Now) -> ErrorCode:
        """AlterReplicaLogDirs: have a replica lie in the directory `path` (as `log.dirs` has it)."""
        broker = self._broker
        target = broker.logs.at(path)
        if target is None or target.offline is not None:
            known = path in broker.logs.missing()
            return ErrorCode.KAFKA_STORAGE_ERROR if known else ErrorCode.LOG_DIR_NOT_FOUND
        partition = broker.partition(*tp)
        if target.cordoned and (partition is None or partition.directory is not target):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if partition is None:
            if len(self._wanted) < _MOST_WANTED:
                self._wanted[tp] = path
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if partition.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        move = self.under_way.get(partition)
        if move is not None and move.target is not target:
            self._give_up(move, now)
            move = None
        if move is None and partition.directory is not target:
            try:
                copy = target.create_future(tp, partition.topic_id, now)
            except StorageError as error:
                broker.notice_failures(now)
                broker.host.not_hosted(error)
                return ErrorCode.KAFKA_STORAGE_ERROR
            self._begin(partition, copy, target)
        return ErrorCode.NONE

    def hosted(self, partition: Partition) -> None:
        """A partition was opened: if a copy of it was found on disk, its move goes on."""
        tp = TopicPartition(partition.topic, partition.index)
        target = self._broker.logs.future_directory(tp)
        if target is not None and partition not in self.under_way:
            self._begin(partition, target.futures[tp], target)

    def _begin(self, partition: Partition, copy: Log, target: LogDirectory) -> None:
        partition.log.stop_compaction()
        copy.reconfigure(partition.config)
        self.under_way[partition] = _Move(partition, copy, target)
        partition.touch()

    def _give_up(self, move: _Move, now: Now) -> None:
        """Drop the copy and correct what the controller was told: the replica stays, or moves elsewhere."""
        partition = move.partition
        del self.under_way[partition]
        tp = TopicPartition(partition.topic, partition.index)
        self._broker.guarded(lambda: self._broker.logs.drop_future(tp, now), now)
        self._correct(move)

    def _correct(self, move: _Move) -> None:
        """The replica stays where it lies, whatever the controller was told of its destination."""
        partition = move.partition
        if move.asked and partition.directory is not None:
            replica = partition.topic_id, partition.index
            self._assignments.want(replica, partition.directory.directory_id)
            self._assignments.send()

    def release(self, partition: Partition) -> None:
        """The partition is gone from here, and its copy with it."""
        if self.under_way.pop(partition, None) is not None:
            self._assignments.forget((partition.topic_id, partition.index))

    # ---- copying -----------------------------------------------------------------------------------------

    def next_job(self, now: Now) -> CopyJob | None:
        """What a thread should do now; `returned` when it has."""
        self._looked_at = now.mono
        if self.working is not None or now.mono < self._resume_at:
            return None
        for move in list(self.under_way.values()):
            if now.mono >= move.rest_until and not move.target.full:
                self.working = self._job(move, now)
                if self.working is not None:
                    break
        return self.working

    def next_deadline(self) -> float | None:
        """When `next_job` has something without anything else happening."""
        if self.working is not None or not self.under_way:
            return None
        times = [max(self._resume_at, move.rest_until) for move in self.under_way.values()]
        return min((at for at in times if at > self._looked_at), default=None)

    def _job(self, move: _Move, now: Now) -> CopyJob | None:
        copy, log = move.copy, move.partition.log
        try:
            if move.unsynced < _SYNC_EVERY_BYTES and copy.log_end_offset < log.written_end_offset:
                align(copy, log, now)
                piece = log.read(copy.log_end_offset, _PIECE_BYTES, log.written_end_offset)
                return CopyJob(move, log.disk, piece, None) if len(piece) else None
            if move.sync_due:
                sync = copy.begin_sync()
                return None if sync is None else CopyJob(move, log.disk, None, sync)
        except StorageError as error:
            self._failed(move, error, now)
        return None

    def returned(self, job: CopyJob, error: StorageError | None, now: Now) -> None:
        """A piece came back, or a sync."""
        move = job.move
        if self.working is job:
            self.working = None
        if self.under_way.get(move.partition) is not move:
            return
        if error is not None:
            self._failed(move, error, now, reading=job.sync is None)
        elif job.sync is not None:
            move.copy.finish_sync(job.sync)
            if job.sync.refused is not None:
                move.rest_until = now.mono + _RETRY_S
            else:
                move.unsynced, move.synced = 0, True
        else:
            self._append(move, job.data, now)
        move.partition.touch()

    def _append(self, move: _Move, data: bytes, now: Now) -> None:
        copy, log = move.copy, move.partition.log
        try:
            if copy.config is not move.partition.config:
                copy.reconfigure(move.partition.config)
            align(copy, log, now)
            if data:
                _put(copy, data, now)
        except CorruptRecordError as error:
            self._broker.host.not_replicated(move.partition.topic, move.partition.index, error)
            move.rest_until = now.mono + _RETRY_S
        except StorageError as error:
            self._failed(move, error, now)
        move.unsynced += len(data)
        self.bytes += len(data)
        self._resume_at = now.mono + len(data) / self._rate
        if not data:
            move.rest_until = now.mono + _RETRY_S

    def _failed(self, move: _Move, error: StorageError, now: Now, *, reading: bool = False) -> None:
        move.rest_until = now.mono + _RETRY_S
        partition = move.partition
        if error.full:
            return
        if reading or partition.log.failed is not None:
            self._broker.storage_failed(partition, error, now)
        else:
            self._broker.logs.fail(move.target, error)
            self._broker.notice_failures(now)

    # ---- the end of a loop step --------------------------------------------------------------------------

    def advance(self, now: Now) -> None:
        """Everything of this loop step is written: see which copies have caught up."""
        for partition, move in list(self.under_way.items()):
            if partition.gone:
                self.release(partition)
            elif partition.offline or move.target.offline is not None:
                del self.under_way[partition]
                self._correct(move)
            elif now.mono >= move.rest_until and (self.working is None or self.working.move is not move):
                self._advance(move, now)

    def _advance(self, move: _Move, now: Now) -> None:
        partition, copy, log = move.partition, move.copy, move.partition.log
        try:
            if move.accepted and move.lag > 0:
                self._catch_up(move, now)
            if log.written_end_offset != log.log_end_offset or move.lag:
                return
            if move.sync_due or copy.syncing:
                return
            if move.accepted:
                align(copy, log, now)
                if not move.lag:
                    self._swap(move, now)
            elif not move.asked:
                move.asked = True
                replica = partition.topic_id, partition.index
                self._assignments.want(replica, move.target.directory_id, lambda: self._accepted(move))
                self._assignments.send()
        except CorruptRecordError as error:
            self._broker.host.not_replicated(partition.topic, partition.index, error)
            move.rest_until = now.mono + _RETRY_S
        except StorageError as error:
            self._failed(move, error, now)

    def _accepted(self, move: _Move) -> None:
        """The controller knows where the replica will lie."""
        move.accepted = True
        move.partition.touch()

    def _catch_up(self, move: _Move, now: Now) -> None:
        """Copy the last few records on the loop, so that both end at the same offset."""
        copy, log = move.copy, move.partition.log
        align(copy, log, now)
        piece = log.read(copy.log_end_offset, _CATCH_UP_BYTES, log.written_end_offset)
        if not len(piece):
            return
        data = piece.read()
        _put(copy, data, now)
        move.unsynced += len(data)
        self.bytes += len(data)

    def _swap(self, move: _Move, now: Now) -> None:
        partition = move.partition
        del self.under_way[partition]
        tp = TopicPartition(partition.topic, partition.index)
        try:
            log = self._broker.logs.promote(tp, now)
        except StorageError as error:
            # Either directory failed: what lay there is offline, and so may be this partition.
            self._broker.notice_failures(now)
            if not partition.offline:
                self._broker.storage_failed(partition, error, now)
            return
        partition.moved(log, move.target)
        self._broker.space.applies_to(partition)
        self._broker.generation += 1
        self.moved += 1

    def statistics(self) -> MoveStatistics:
        return MoveStatistics(len(self.under_way), self.moved, self.bytes)

    def __repr__(self) -> str:
        return f"<Moves {len(self.under_way)} under way, {self.moved} done>"


def _put(copy: Log, data: bytes, now: Now) -> None:
    """Append a piece to a copy, unless the end of the copy has moved meanwhile.

    Raises CorruptRecordError, StorageError.
    """
    base = int.from_bytes(data[:8], "big")
    if base < copy.log_end_offset:
        if copy.log_start_offset < copy.log_end_offset:
            return
        copy.truncate_fully_and_start_at(base, now)  # the log begins in the middle of a batch
    copy.append_as_follower(data, now)
    copy.write()
