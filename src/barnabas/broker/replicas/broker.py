"""The broker: all partitions that this node hosts, and the loop steps in which they work.

The server calls a handler for each request, and `end_loop_step` when it has nothing more to read for now.  The
order inside `end_loop_step` is the central guarantee of this package:

1. write what every partition appended, one gathered write each;
2. only then let partitions advance: high watermarks move, producers are answered;
3. only then wake parked fetches, so that none reads what is not in its file yet;
4. hand out the syncs that are due, at most one per log: the next one takes all that arrives meanwhile.

A directory in which a write, a read or a sync failed is offline until the next start.  A failed sync is not
repeated, because nobody knows afterwards what the disk holds.  Its partitions answer KAFKA_STORAGE_ERROR.

The hosted partitions follow the metadata: `start` takes the whole image, `apply` what a commit changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from barnabas.broker.new_logs import MakeLogs
from barnabas.broker.ports import Authorizer, BrokerHost, Operation, RequestContext, ResourceType, allowed
from barnabas.broker.producer_id_blocks import ProducerIdBlocks, ProducerIdStatistics
from barnabas.broker.purgatory import Purgatory
from barnabas.broker.replicas.assignments import Assignments
from barnabas.broker.replicas.batch_checks import BatchCheck, BatchChecks
from barnabas.broker.replicas.dir_moves import CopyJob, Moves
from barnabas.broker.replicas.following.followers import Followers
from barnabas.broker.replicas.hosted_partitions import HostedPartitions
from barnabas.broker.replicas.isr import InSyncSets
from barnabas.broker.replicas.maintenance.maintenance import Maintenance
from barnabas.broker.replicas.maintenance.scrubber import Scrub
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.replicas.reconcile import Reconciler
from barnabas.broker.replicas.slow_disks import SlowDisks
from barnabas.broker.sessions import SessionCache, SessionStatistics
from barnabas.broker.txn_verification import Verifications
from barnabas.broker.walk import Walk
from barnabas.broker.watching import END, START, STATE, ParkedFetch
from barnabas.config import Config
from barnabas.controller.image import BrokerEndpoint, ImageDelta, MetadataImage
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.cleaning.compaction import Compaction
from barnabas.log.directories.checkpoints import CheckpointJob
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.files.log_names import may_be_of, partition_of
from barnabas.log.files.removal import Removal
from barnabas.log.files.sync import SyncJob
from barnabas.log.log import Log
from barnabas.log.retention import Retention
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    DirectoryId,
    Epoch,
    NodeId,
    Now,
    Offset,
    TopicPartition,
)
from barnabas.ports import Randomness

__all__ = ["RACK_AWARE", "Broker", "BrokerStatistics", "SyncRequest", "Work"]

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_PARTITIONS_PER_STEP = 2000


class SyncRequest:
    """One log to sync.  `run` may be called in any thread; then `Broker.synced` on the loop."""

    __slots__ = ("job", "log", "partition", "running")
    measured = True
    """The metrics of syncs count it, and no other work of threads."""

    def __init__(self, partition: Partition, job: SyncJob) -> None:
        self.partition = partition
        self.log = partition.log
        self.job = job
        self.running = False
        """A thread has begun with it."""

    @property
    def directory(self) -> LogDirectory | None:
        """Return the directory that the log lies in."""
        return self.partition.directory

    def run(self) -> None:
        """Sync.  Raises StorageError."""
        self.running = True
        self.job.run()

    def __repr__(self) -> str:
        return f"<SyncRequest {self.partition.topic}-{self.partition.index}>"


Work = SyncRequest | Removal | CheckpointJob | Scrub | Compaction | CopyJob | BatchCheck | MakeLogs
"""What threads do for the broker."""


class _Waits(Protocol):
    def next_deadline(self) -> float | None: ...


class BrokerStatistics(NamedTuple):
    partitions: int
    leading: int
    offline: int
    under_replicated: int
    under_min_isr: int
    waiting: int
    generation: int
    sessions: SessionStatistics
    producer_ids: ProducerIdStatistics


class Broker(HostedPartitions):
    """The data path of one node.  One loop, no locks.

    `generation` is bumped whenever something changes that an answer may depend on besides the logs:
    leadership, topics, settings.
    """

    def __init__(
        self,
        config: Config,
        node_id: NodeId,
        logs: LogDirectories,
        image: MetadataImage,
        *,
        host: BrokerHost,
        random: Randomness,
        authorizer: Authorizer | None = None,
    ) -> None:
        super().__init__(config, node_id, logs, image, host)
        self.authorizer = authorizer
        self.fetch_max_bytes = config.int("fetch.max.bytes")
        self.request_timeout_s = config.int("request.timeout.ms") / 1000
        self.rack_aware = config.optional_str("replica.selector.class") == RACK_AWARE
        self.purgatory = Purgatory(config.int("barnabas.max.waiters"))
        self.sessions = SessionCache(config.int("max.incremental.fetch.session.cache.slots"), random)
        self.producer_ids = ProducerIdBlocks()
        self.checks = BatchChecks(host.held)
        self.verifications = Verifications(config, host.verify_transaction)
        self.in_sync = InSyncSets(self)
        self._given_away = NO_OFFSET
        self.slow_disks = SlowDisks(config.int("barnabas.replica.stall.max.ms") / 1000.0, host.speed_changed)
        self.followers = Followers(self)
        self.assignments = Assignments(host)
        self.moves = Moves(self, self.assignments, config)
        self.reconciler = Reconciler(self, self.followers, self.assignments, self.moves)
        """What the metadata say and is not so yet."""
        self._applied: Offset = -1
        self._ageing: Walk[Partition] = Walk()
        """Partitions whose oldest unsynced record is still to be looked at."""
        self.maintenance = Maintenance(
            config, logs, host, lambda: self.clock_agrees, self._retention, self._retained, self.rots
        )
        self._others: tuple[_Waits, ...] = (
            self.in_sync,
            self.slow_disks,
            self.maintenance.cleaner,
            self.assignments,
            self.moves,
            self.verifications,
        )
        """What has deadlines besides the purgatory."""

    # ---- following the metadata --------------------------------------------------------------------------

    def may_see(self, context: RequestContext, topic: str) -> bool:
        """Whether the sender may describe a topic; it is no news if not."""
        topics, describe = ResourceType.TOPIC, Operation.DESCRIBE
        return allowed(self.authorizer, context, describe, topics, topic, asked=False)

    def rights_changed(self) -> None:
        """Somebody may do more, or less, than before: what was learned of earlier requests does not count."""
        self.generation += 1

    def missing(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not hosted here."""
        state = self.image.partition(topic, index)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.node_id in state.replicas and not self.reconciler.hasten(TopicPartition(topic, index)):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def begin(self, now: Now) -> None:
        """Note all partitions that the metadata give this node, and put aside logs that they do not know."""
        self.notice_failures(now)
        for log in list(self.logs.all_logs()):
            tp = log.topic_partition
            topic = self.image.topics_by_name.get(tp.topic)
            state = topic.partitions.get(tp.partition) if topic is not None else None
            same = topic is not None and may_be_of(log.topic_id, topic.id)
            if tp.topic != METADATA_TOPIC and not (state and same and self.node_id in state.replicas):
                self.guarded(partial(self.logs.drop_future, tp, now), now)
                aside = self.guarded(partial(self.logs.stray, tp), now)
                if aside is not None:
                    self.host.set_aside(tp, aside, log.topic_id if state else None)
        self.logs.settle()
        self.reconciler.note_all(self.image)

    def note(self, delta: ImageDelta) -> None:
        """Note what one commit changed, to be carried out step by step (`reconciler`)."""
        self.image = delta.image
        self.generation += 1
        self.reconciler.note(delta)

    def start(self, now: Now) -> None:
        """Take the whole image at once."""
        self.begin(now)
        self._catch_up(now)

    def apply(self, delta: ImageDelta, now: Now) -> None:
        """Follow what one commit changed, at once."""
        self.note(delta)
        self._catch_up(now)

    def _catch_up(self, now: Now) -> None:
        while self.reconciler.ready:
            self.reconciler.step(now)
        self.reconciler.tell()

    @property
    def applied_offset(self) -> Offset:
        """Up to where this broker is what the metadata say; it never goes back."""
        if not self.reconciler:
            self._applied = self.image.offset
        return self._applied

    # ---- loop steps --------------------------------------------------------------------------------------

    def end_loop_step(self, now: Now) -> list[Work]:
        """Write, advance, answer, wake (in this order).

        Returns the syncs (now and then a removal of deleted files, a piece of compaction, a slice of a batch's
        check) that the server must run in threads.
        """
        syncs: list[Work] = []
        touched = self.touched
        while touched:
            partitions = touched[:]
            touched.clear()
            for partition in partitions:
                try:
                    partition.write()
                except StorageError as error:
                    self.storage_failed(partition, error, now)
            if self.moves.under_way:
                self.moves.advance(now)
            woken: dict[ParkedFetch, None] = {}
            for partition in partitions:
                moved, watchers = partition.advance(now), partition.watchers
                if moved & watchers.watched_for:
                    for watcher in watchers.every:
                        if (parked := watcher.moved(moved)) is not None:
                            woken[parked] = None
                if (job := partition.begin_sync()) is not None:
                    sync = SyncRequest(partition, job)
                    self.slow_disks.began(sync)
                    syncs.append(sync)
            for waiting in woken:
                waiting.wake(now)
            for partition in partitions:
                partition.log.active.fresh = None
            if OPEN_FILES.unsynced:
                self._sync_for_descriptors()
        if self.lacking:
            self.lacking.settle()
        # (most steps ask none of them)
        new_logs, checks, maintenance, moves = (
            self.reconciler.new_logs,
            self.checks,
            self.maintenance,
            self.moves,
        )
        if new_logs.waiting and (making := new_logs.next_job()) is not None:
            syncs.append(making)
        if checks.in_order and (check := checks.next_slice()) is not None:
            syncs.append(check)
        if maintenance.waiting and (chore := maintenance.next_job()) is not None:
            syncs.append(chore)
        if (cleaner := maintenance.cleaner).running is not None and (
            cleaning := cleaner.next_piece(now)
        ) is not None:
            syncs.append(cleaning)
        if moves.under_way and (copying := moves.next_job(now)) is not None:
            syncs.append(copying)
        return syncs

    def _sync_for_descriptors(self) -> None:
        """Have logs synced whose files are to be closed, so that no loop step waits for that."""
        for path in OPEN_FILES.take_unsynced():
            tp = partition_of(path.rpartition("/")[2])
            partition = self.partition(*tp) if tp is not None else None
            if partition is not None and partition.log.path == path:
                partition.sync.hasten()
                partition.touch()

    def write_now(self, partition: Partition, now: Now) -> None:
        """Write what a partition appended before the loop step ends.  Raises KafkaError when its disk fails."""
        try:
            partition.log.write()
            partition.moves(END)
        except StorageError as error:
            self.storage_failed(partition, error, now)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, error.message) from error

    def synced(self, sync: Work, error: StorageError | None, now: Now) -> None:
        """What `end_loop_step` gave out came back.  Call it again: it answers, and begins the next sync."""
        match sync:
            case SyncRequest():
                self._log_synced(sync, error, now)
            case MakeLogs():
                self.reconciler.made(sync, now)
            case BatchCheck():
                self.checks.returned(sync, now)
            case CopyJob():
                self.moves.returned(sync, error, now)
            case Compaction():
                self.maintenance.cleaner.returned(sync, error, now)
                self.notice_failures(now)
            case Removal() | CheckpointJob() | Scrub():
                self.maintenance.done(sync, now)
                if error is not None and (directory := self.logs.at(sync.directory)) is not None:
                    self.logs.fail(directory, error)
                    self.notice_failures(now)

    def _log_synced(self, sync: SyncRequest, error: StorageError | None, now: Now) -> None:
        partition = sync.partition
        self.slow_disks.ended(sync)
        partition.sync.returned(sync.job)
        if partition.gone or partition.offline:
            return
        if error is not None:
            if sync.log is partition.log:
                self.storage_failed(partition, error, now)
            return
        partition.synced(sync.log, sync.job)
        if sync.job.refused is not None:
            self.space.unsynced(partition)
            self.storage_failed(partition, sync.job.refused, now)

    def tick(self, now: Now) -> None:
        """Let overdue waiters have their answers.  Call it at `next_deadline`."""
        self.purgatory.expire(now)
        self.in_sync.tick(now)
        self.slow_disks.look(now)
        self._send_away()
        self.assignments.tick(now)
        self.verifications.tick(now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, in monotonic seconds."""
        earliest = self.purgatory.next_deadline()
        for other in self._others:
            at = other.next_deadline()
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def maintain(self, now: Now) -> None:
        """Retention, checkpoints, expiry, each at its own interval, in small steps.  Call about every
        second; raises nothing."""
        if self.space.look(now):
            self.reconciler.note_unhosted()
        if self.lacking:
            self.reconciler.note_damaged()
        for partition in self.touched:  # else retention writes it, and where there is no room nobody is told
            with suppress(KafkaError):
                self.write_now(partition, now)
        self.maintenance.step(now)
        self.notice_failures(now)
        self.in_sync.look(now)
        if self.producer_ids.waiting and self.producer_ids.should_ask(now):
            self.host.allocate_producer_ids()
        if not self._ageing.running:
            self._ageing.begin(self.ageing())
        for partition in self._ageing.slice(_PARTITIONS_PER_STEP):
            if not partition.gone:
                partition.flush_if_old(now)

    def _retention(self, log: Log) -> Retention:
        """Return what this node may decide about a log.

        A follower deletes what its leader deleted, which it hears of with every fetch; without room it fetches
        nothing, and decides as the leader would.
        """
        partition = self.partition(*log.topic_partition)
        decides = (
            partition is not None and partition.log is log and (partition.is_leader or partition.no_room)
        )
        return Retention(by_size=decides, by_age=decides and self.clock_agrees)

    def _retained(self, log: Log) -> None:
        """Retention raised the start of a log: who reads it hears of it at the end of the loop step."""
        partition = self.partition(*log.topic_partition)
        if partition is not None and partition.log is log:
            partition.moves(START)

    @property
    def maintaining(self) -> bool:
        """Whether `maintain` is in the middle of something, so that the next call should not wait for long."""
        return self.maintenance.busy or self._ageing.running or self.in_sync.looking

    def reconfigure(self, config: Config) -> None:
        """The node's own settings changed."""
        super().reconfigure(config)
        self.moves.configure(config)
        self.verifications.configure(config)
        self.maintenance.cleaner.configure(config)
        self.maintenance.scrubber.configure(config)

    def stop(self, now: Now) -> list[Work]:
        """Write what is pending, then answer everybody who waits.  Returns the syncs still to run."""
        self.maintenance.stop()
        self.checks.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER, now)
        self.verifications.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER, now)
        syncs = self.end_loop_step(now)
        for partition in self.partitions():
            partition.dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            for watcher in list(partition.watchers.every):
                if (parked := watcher.moved(STATE)) is not None:
                    parked.expired(now)
        for init in list(self.producer_ids.waiting):
            init.expired(now)
        return syncs

    # ---- views -------------------------------------------------------------------------------------------

    def leader_of(self, tp: TopicPartition) -> tuple[NodeId, Epoch]:
        """The leader of a partition, as far as this node knows; otherwise (NO_NODE, NO_EPOCH)."""
        partition = self.partition(*tp)
        if partition is not None:
            return partition.leader, partition.leader_epoch
        state = self.image.partition(*tp)
        return (NO_NODE, NO_EPOCH) if state is None else (state.leader, state.leader_epoch)

    def endpoints(
        self, nodes: list[NodeId], listener: str
    ) -> Iterator[tuple[NodeId, BrokerEndpoint, str | None]]:
        """Where these nodes can be reached through a listener of this name, and their racks."""
        for node in nodes:
            broker = self.image.brokers.get(node)
            endpoint = broker.endpoint(listener) if broker is not None else None
            if broker is not None and endpoint is not None:
                yield node, endpoint, broker.rack

    def gave_away(self, since: Offset) -> None:
        """Others lead what lies on slow disks, as the metadata say at offset `since`.

        A voter reads nothing beyond what its own slow disk has synced, so this node may learn it seconds later.
        Until then it sends the producers that wait here to the new leaders.
        """
        self._given_away = since
        self._send_away()

    def _send_away(self) -> None:
        if self._given_away <= self.applied_offset:
            return
        for partition in self.partitions():
            slow = partition.directory is not None and partition.directory.slow
            others = partition.leading.progress and partition.topic not in INTERNAL_TOPICS
            if slow and others and partition.is_leader:
                partition.dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def unfit_directories(self) -> list[DirectoryId]:
        """The directories whose partitions others should lead: the disk is full, or slow."""
        return [d.directory_id for d in self.logs.online() if d.full or d.slow]

    def statistics(self) -> BrokerStatistics:
        partitions = list(self.partitions())
        leading = [partition for partition in partitions if partition.is_leader]
        return BrokerStatistics(
            len(partitions),
            len(leading),
            sum(partition.offline for partition in partitions),
            sum(len(partition.leading.isr) < len(partition.replicas) for partition in leading),
            sum(not partition.leading.enough_in_sync for partition in leading),
            len(self.purgatory),
            self.generation,
            self.sessions.statistics(),
            self.producer_ids.statistics(),
        )

    def __repr__(self) -> str:
        return f"<Broker {self.node_id} topics={len(self.topics)} generation={self.generation}>"
