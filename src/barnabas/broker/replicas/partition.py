"""One partition on this node: who leads it, who is in sync, what may be seen of it.

The leader keeps four numbers in order, and every rule of this file is about one of them moving:

    log start  <=  last stable offset  <=  high watermark  <=  acknowledged end  <=  log end

*Log end* moves at an append, before anything is written.  The *acknowledged end* is the log's word for what
may be acknowledged: the synced end, or the written end where acks may come from the page cache.  The *high
watermark* is the least acknowledged end of all in-sync replicas (of a single replica: its own); consumers
see nothing above it.  The *last stable offset* stops before the first open transaction.

Followers report the end of their own log by fetching from there; what they fetch, too, ends at the leader's
acknowledged end.  State is changed here, the I/O it asks for (writes, syncs) is done by `broker` at the
end of the loop step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.replicas.acknowledgements import Acknowledgement, AcknowledgementQueue
from barnabas.broker.replicas.held_back import HeldBack
from barnabas.broker.replicas.leader_state import LeaderState
from barnabas.broker.replicas.partition_settings import PartitionSettings
from barnabas.broker.replicas.sync_schedule import SyncSchedule
from barnabas.broker.watching import END, FOLLOWED, HIGH_WATERMARK, START, STATE, Watchers
from barnabas.controller.image import PartitionState
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_EPOCH, NO_NODE, Epoch, NodeId, Now, Offset, TopicId

if TYPE_CHECKING:
    from barnabas.config import LogConfig
    from barnabas.log.directories.log_directory import LogDirectory
    from barnabas.log.files.sync import SyncJob
    from barnabas.log.log import Log
    from barnabas.wire.codec.declaration import LazyBytes
    from barnabas.wire.records import BatchHeader

__all__ = ["Following", "Partition", "PartitionStatistics"]

_UNREAD = (-1, -1, -1)
"""What was last said about the offsets of a partition: nothing, so that all of it is said next."""


class Following(Protocol):
    """What fetches a partition from its leader, in one leader epoch."""

    def advanced(self, now: Now) -> None:
        """The partition's log was written or synced, or the leader said something new."""
        ...

    def pause(self, paused: bool) -> None:
        """Its disk has no room for records any more, or has room again."""
        ...

    def release(self) -> None:
        """Fetch it no longer."""
        ...


class PartitionStatistics(NamedTuple):
    topic: str
    partition: int
    leads: bool
    leader_epoch: Epoch
    log_start: Offset
    high_watermark: Offset
    log_end: Offset
    in_sync: int
    replicas: int
    size: int
    offline: bool


class Partition:
    """The state of one hosted partition.

    `touched` is the broker's list of partitions with work for the end of the loop step; a partition puts
    itself on it (once) whenever something happened that may let somebody go on.
    """

    __slots__ = (
        "_dirty",
        "_readable",
        "_touched",
        "acknowledgements",
        "config",
        "directory",
        "followed",
        "gone",
        "high_watermark",
        "index",
        "is_leader",
        "leader",
        "leader_epoch",
        "leading",
        "log",
        "no_room",
        "node_id",
        "offline",
        "partition_epoch",
        "replicas",
        "settings",
        "sync",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: TopicId,
        node_id: NodeId,
        log: Log,
        directory: LogDirectory | None,
        touched: list[Partition],
        *,
        config: LogConfig,
        max_lag: float = 30.0,
        held_back: HeldBack[Partition] | None = None,
        eligible: Callable[[NodeId, int], bool] = lambda node, epoch: True,
    ) -> None:
        """`max_lag` in seconds; `eligible(node, broker epoch)`: whether a replica may be in sync at all;
        `held_back` hears of it when acknowledgements wait for its followers."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.node_id = node_id
        self.log = log
        self.directory = directory
        self.followed: Following | None = None
        self.leader: NodeId = NO_NODE
        self.leader_epoch: Epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[NodeId, ...] = ()
        self.is_leader = False
        self.leading = LeaderState(max_lag, eligible, held_back or HeldBack(max_lag))
        self.offline = False
        self.gone = False
        self.high_watermark: Offset = log.high_watermark
        self.no_room = False
        """Its disk is (nearly) full: it takes no records (`space`)."""
        self.sync = SyncSchedule()
        self.watchers = Watchers()
        self.acknowledgements = AcknowledgementQueue()
        self._touched = touched
        self._dirty = False
        self._readable = _UNREAD
        self.configure(config)

    # ---- who leads -------------------------------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        """Take the topic's settings, now and whenever they change."""
        self.config = config
        self.log.reconfigure(config)
        self.settings = PartitionSettings.of(config, self.index, self.node_id)
        self._count_in_sync()

    def _count_in_sync(self) -> None:
        self.leading.count_in_sync(self.config.min_insync_replicas, len(self.replicas))

    def lead(self, state: PartitionState, now: Now) -> bool:
        """Lead it from this state of the metadata log on; False when this node led it already in this epoch.

        A new leader epoch starts at the log end, and says so in the epoch cache at once, even before its
        first record; what followers reported to an earlier leader counts for nothing.
        """
        if state.partition_epoch < self.partition_epoch:
            return False
        fresh = state.leader_epoch != self.leader_epoch or not self.is_leader
        if fresh or state.partition_epoch > self.partition_epoch:
            self.leading.proposed = None
            self._changed()  # the requests parked here expect other replicas, or another epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.leader = self.node_id
        self.leading.lead(state, self.node_id, now, fresh=fresh)
        if fresh:
            self.leader_epoch = state.leader_epoch
            self.leading.epoch_start = self.log.log_end_offset
            self.log.epochs.assign(state.leader_epoch, self.leading.epoch_start)
            self.is_leader = True
            self.high_watermark = self.log.high_watermark
        self._count_in_sync()
        self.touch()
        return fresh

    def follow(self, state: PartitionState) -> bool:
        """Another node leads (or none): answer the waiting requests.  False when nothing changed."""
        if state.partition_epoch < self.partition_epoch:
            return False
        changed = self.is_leader or state.leader_epoch != self.leader_epoch or state.leader != self.leader
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.leading.clear()
        self.is_leader = False
        self._count_in_sync()
        if changed:
            self.dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return changed

    def stop_following(self) -> None:
        """Fetch it no longer: it is led here, or by nobody, or gone."""
        followed, self.followed = self.followed, None
        if followed is not None:
            followed.release()

    def fail(self) -> None:
        """Its directory went offline, for good."""
        self.offline = True
        self.dismiss(ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse_unwritten(self) -> None:
        """What this loop step appended found no room and was rolled back: answer the requests that wait."""
        self.acknowledgements.refuse_unwritten(self.log.log_end_offset)

    def moved(self, log: Log, directory: LogDirectory) -> None:
        """The replica moved to another directory; `log` holds the same records, as durably."""
        self.log = log
        self.directory = directory
        self.sync.restart()
        self._changed()

    def leave(self) -> None:
        """It was deleted from this node: producers cannot know what became of their records."""
        self.gone = True
        self.is_leader = False
        self.dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def dismiss(self, error: ErrorCode) -> None:
        """Settle everything that waits with this error, and wake parked fetches, which then read again."""
        self.acknowledgements.dismiss(error)
        if self.watchers:
            self._changed()

    def check_epoch(self, epoch: Epoch) -> ErrorCode:
        """Compare the leader epoch that a request names (-1: none) with this partition's."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def unavailable(self, epoch: Epoch = NO_EPOCH) -> ErrorCode:
        """Why the leader of this partition cannot answer here; NONE when it can."""
        if self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            return self.check_epoch(epoch)
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # ---- appending -------------------------------------------------------------------------------------

    def append(self, batch: bytearray | memoryview, header: BatchHeader, now: Now) -> Offset:
        """Append one checked batch as leader; returns its first offset.  Written at the end of the loop step.

        `batch` must be writable and stay untouched until then.
        """
        first = self.log.append_as_leader(batch, header, self.leader_epoch, now).first_offset
        self.leading.traffic.wrote(len(batch), header.count)
        if not self._dirty:
            self._dirty = True
            self._touched.append(self)
        return first

    def await_acknowledgement(self, acknowledgement: Acknowledgement) -> None:
        """Settle it when the log is acknowledged far enough, at the end of this loop step at the earliest."""
        self.acknowledgements.fresh.append(acknowledgement)
        if not self._dirty:
            self._dirty = True
            self._touched.append(self)

    def await_low_watermark(self, acknowledgement: Acknowledgement) -> None:
        """Settle it when every replica starts at its `end` or later (DeleteRecords)."""
        self.acknowledgements.add_purging(acknowledgement)
        self.touch()

    def touch(self) -> None:
        """Something happened that may let somebody go on: look at the end of the loop step."""
        if not self._dirty:
            self._dirty = True
            self._touched.append(self)

    def moves(self, what: int) -> None:
        """This moved before the end of the loop step: fetches see it from now on, parked ones wake then."""
        if what & self.watchers.watched_for:
            for watcher in self.watchers.every:
                watcher.moved(what)
        self.touch()

    def _changed(self) -> None:
        self._readable = _UNREAD
        self.moves(STATE)

    # ---- the end of the loop step ----------------------------------------------------------------------

    def write(self) -> None:
        """Write what this loop step appended.  Raises StorageError."""
        self._dirty = False
        if not self.gone and not self.offline:
            self.log.write(keep=True)

    def advance(self, now: Now) -> int:
        """Move the high watermark as far as the in-sync replicas allow, and answer what waited for it.

        Returns what moved (`watching`), 0 for nothing: somebody may read further than before, or must learn
        that it may not read here.
        """
        if not self.is_leader or self.offline:
            if self.followed is not None and not self.offline:
                self.followed.advanced(now)
            return STATE
        log, leading = self.log, self.leading
        here = log.written_end_offset if log.page_cache else log.acknowledged_end_offset
        high_watermark = here if not leading.progress else leading.least_end(here, now)
        if high_watermark > self.high_watermark and leading.enough_in_sync:
            self.high_watermark = log.high_watermark = high_watermark
        high_watermark = self.high_watermark
        acknowledgements, watchers = self.acknowledgements, self.watchers
        acknowledgements.advance(high_watermark, here, leading.enough_in_sync)
        if high_watermark < here and leading.may_spare_one and not leading.noted:
            leading.noted = True
            leading.held_back.noted.append(self)
        if acknowledgements.purging:
            acknowledgements.purged(self.low_watermark)
        moved = 0
        if watchers.reported:
            moved, watchers.reported = FOLLOWED, False
        before, readable = self._readable, (high_watermark, here, log.log_start_offset)
        if readable != before:
            self._readable = readable
            if before is _UNREAD:
                moved |= STATE
            if high_watermark != before[0]:
                moved |= HIGH_WATERMARK
            if here != before[1]:
                moved |= END
            if log.log_start_offset != before[2]:
                moved |= START
        return moved

    def begin_sync(self) -> SyncJob | None:
        """The sync that should begin now, if any."""
        log, sync = self.log, self.sync
        if log.page_cache and not (sync.flush_now or log.unsynced.files or log.epochs.dirty):
            return None  # (most often, so it is asked first)
        if self.gone or self.offline or not sync.due(log):
            return None
        job = log.begin_sync()
        if job is not None:
            sync.began(job)
        return job

    def synced(self, log: Log, job: SyncJob) -> None:
        """A sync of its log came back."""
        log.finish_sync(job)
        self.sync.concluded(job)
        self.moves(END)

    def sync_again(self) -> None:
        """There may be room by now for a sync that found none."""
        if self.sync.try_again():
            self.touch()

    def flush_if_old(self, now: Now) -> None:
        """Where acks do not wait for syncs, flush.ms still bounds how long records stay unsynced."""
        if not self.offline and self.sync.flush_if_old(self.log, self.config, now):
            self.touch()

    # ---- reading ---------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> Offset:
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here every transaction is decided; never above the high watermark."""
        return min(self.log.last_stable_offset, self.high_watermark)

    @property
    def low_watermark(self) -> Offset:
        """The least log start of all live replicas.  A dead one learns the new start when it returns."""
        return self.leading.least_start(self.log.log_start_offset)

    @property
    def replicated_end(self) -> Offset:
        """Up to here followers may fetch."""
        return self.log.written_end_offset if self.log.page_cache else self.log.acknowledged_end_offset

    def read(self, offset: Offset, max_bytes: int) -> LazyBytes:
        """Whole batches from `offset` up to the written end, for the node's own use (loading groups)."""
        return self.log.read(offset, max_bytes, self.log.written_end_offset, at_least_one=True)

    def offsets_available(self) -> bool:
        """Whether offsets may be listed: not before the high watermark reached this leader's epoch, else
        they could go backwards after an election (KIP-207)."""
        return self.high_watermark >= self.leading.epoch_start

    def fetched_by(self, node: NodeId, offset: Offset, log_start: Offset, now: Now, epoch: int) -> bool:
        """A follower fetched from `offset`, so it holds everything below.

        False when it is no replica, or its broker epoch is older than the last one it fetched with.
        """
        replica = self.leading.progress.get(node)
        if replica is None or -1 < epoch < replica.broker_epoch:
            return False
        moved = offset != replica.log_end or log_start != replica.log_start
        log, watchers = self.log, self.watchers
        here = log.written_end_offset if log.page_cache else log.acknowledged_end_offset
        if moved:
            watchers.reported = True
        replica.fetched(offset, log_start, here, now, epoch)
        if self.leading.least_end(here, now) > self.high_watermark or (
            moved and (watchers.watched_for & FOLLOWED or self.acknowledgements.purging)
        ):
            self.touch()  # else it lets nobody go on
        return True

    # ---- the in-sync set -------------------------------------------------------------------------------

    def may_join(self, node: NodeId) -> bool:
        """Whether a follower may be proposed for the in-sync set."""
        return self.is_leader and not self.offline and self.leading.may_join(node, self.high_watermark)

    def laggards(self, now: Now) -> tuple[NodeId, ...]:
        """The in-sync replicas that have not caught up for too long."""
        return self.leading.laggards(self.log.acknowledged_end_offset, now)

    def propose(self, isr: tuple[NodeId, ...] | None) -> None:
        """The controller is asked for this in-sync set; None: it did not agree, the last one stays."""
        self.leading.proposed = isr
        self.touch()

    def agreed(self, isr: tuple[NodeId, ...], leader_epoch: Epoch, partition_epoch: int) -> None:
        """The controller agreed to this in-sync set."""
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return
        self.leading.agreed(isr)
        self.partition_epoch = partition_epoch
        self._count_in_sync()
        self._changed()  # who is no longer in sync is looked at with every fetch

    def delete_records(self, offset: Offset) -> Offset:
        """Move the log start to `offset` (-1: the high watermark); returns it.  OFFSET_OUT_OF_RANGE above."""
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot delete up to offset {offset} of {self.topic}-{self.index}: "
                f"its high watermark is {self.high_watermark}",
            )
        if self.log.increment_log_start(target):
            self.moves(START)  # so that followers learn the new start
        return target

    def statistics(self) -> PartitionStatistics:
        log = self.log
        return PartitionStatistics(
            self.topic,
            self.index,
            self.is_leader,
            self.leader_epoch,
            log.log_start_offset,
            self.high_watermark,
            log.log_end_offset,
            len(self.leading.isr),
            len(self.replicas),
            log.size,
            self.offline,
        )

    def __repr__(self) -> str:
        role = "offline" if self.offline else "leader" if self.is_leader else f"follows {self.leader}"
        return (
            f"<Partition {self.topic}-{self.index} {role} epoch={self.leader_epoch} "
            f"start={self.log.log_start_offset} hw={self.high_watermark} end={self.log.log_end_offset} "
            f"isr={'·'.join(map(str, self.leading.isr))}>"
        )
