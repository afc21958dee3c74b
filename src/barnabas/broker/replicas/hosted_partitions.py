"""Which partitions this node hosts: it follows the metadata, step by step (`reconcile`).

A log on disk that the metadata does not know, or knows under another topic id, is put aside as a stray and
never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from barnabas.broker.ports import Outside
from barnabas.broker.replicas.assignments import Assignments
from barnabas.broker.replicas.dir_moves import Moves
from barnabas.broker.replicas.disk_space import Space
from barnabas.broker.replicas.fetcher import Followers
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.replicas.quota import Quota
from barnabas.broker.replicas.reconcile import Reconciler
from barnabas.config import Config, LogConfig
from barnabas.controller.image import ImageDelta, MetadataImage, PartitionState, Topic
from barnabas.errors import ConfigError, ErrorCode, StorageError
from barnabas.log.log import Log
from barnabas.log.segments.damage import DamagedError
from barnabas.log.storage.log_directories import LogDirectories
from barnabas.log.storage.log_directory import LogDirectory
from barnabas.model import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    NO_NODE,
    BrokerEpoch,
    DirectoryId,
    Epoch,
    NodeId,
    Now,
    Offset,
    TopicId,
    TopicPartition,
    Uuid,
)

__all__ = ["HostedTopic", "Hosting", "LeadershipCallback"]

LeadershipCallback = Callable[[Partition, bool, Epoch], None]
"""Called as (partition, whether this node leads it now, leader epoch) after the change."""

_T = TypeVar("_T")
_RESERVED = (DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)


class HostedTopic:
    """A topic and those of its partitions that are hosted here."""

    __slots__ = ("id", "internal", "name", "partitions")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.id = topic_id
        self.internal = name in INTERNAL_TOPICS
        self.partitions: dict[int, Partition] = {}

    def __repr__(self) -> str:
        return f"<HostedTopic {self.name} partitions={sorted(self.partitions)}>"


class Hosting:
    """The hosted partitions, kept equal to what the metadata says about this node."""

    def __init__(
        self,
        config: Config,
        node_id: NodeId,
        logs: LogDirectories,
        image: MetadataImage,
        outside: Outside,
    ) -> None:
        self.config = config
        self.node_id = node_id
        self.logs = logs
        self.image = image
        self.outside = outside
        self.generation = 0
        self.topics: dict[str, HostedTopic] = {}
        self.topics_by_id: dict[Uuid, HostedTopic] = {}
        self.turn: list[Partition] = []
        self.followers = Followers(self)
        self.space = Space(self, outside, config)
        self.assignments = Assignments(outside)
        self.moves = Moves(self, config)
        self.behind = Reconciler(self)
        """What the metadata say and is not so yet."""
        self._applied: Offset = -1
        self.leader_quota, self.follower_quota = Quota(), Quota()
        self._configure_quotas(config)
        self._cordon(config)
        self._unhosted: dict[tuple[TopicId, int], None] = {}
        """Partitions that could not be made: there was no room."""
        self._refused = False
        """Whether that was why the last thing that was `_guarded` failed."""
        self._failed: set[str] = set()
        self._leadership: list[LeadershipCallback] = []

    @property
    def epoch(self) -> BrokerEpoch:
        """The epoch under which this node is registered, as far as the metadata says; -1 before."""
        known = self.image.brokers.get(self.node_id)
        return -1 if known is None else known.epoch

    def eligible(self, node: NodeId, epoch: BrokerEpoch) -> bool:
        """Whether a node may be in sync: alive, not leaving, and in the life in which it fetched."""
        known = self.image.brokers.get(node)
        return known is not None and known.active and epoch in (-1, known.epoch)

    # ---- finding -----------------------------------------------------------------------------------------

    def topic(self, name: str) -> HostedTopic | None:
        """The topic of this name; without partitions when none of them is here; None when there is none."""
        hosted = self.topics.get(name)
        if hosted is None and (topic := self.image.topics_by_name.get(name)) is not None:
            return HostedTopic(name, topic.id)
        return hosted

    def topic_with(self, topic_id: Uuid) -> HostedTopic | None:
        """The topic of this id, as `topic`."""
        hosted = self.topics_by_id.get(topic_id)
        if hosted is None and (topic := self.image.topics.get(topic_id)) is not None:
            return HostedTopic(topic.name, topic.id)
        return hosted

    def partition(self, topic: str, index: int) -> Partition | None:
        """A partition that is hosted here."""
        hosted = self.topics.get(topic)
        return hosted.partitions.get(index) if hosted is not None else None

    def partitions(self) -> Iterator[Partition]:
        for topic in list(self.topics.values()):
            yield from list(topic.partitions.values())

    def missing(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not hosted here."""
        state = self.image.partition(topic, index)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.node_id in state.replicas and not self.behind.hasten(TopicPartition(topic, index)):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    # ---- following the metadata --------------------------------------------------------------------------

    def on_leadership(self, callback: LeadershipCallback) -> None:
        """Be told whenever this node begins or ceases to lead a partition."""
        self._leadership.append(callback)

    def begin(self, now: Now) -> None:
        """Note all that the metadata give this node, put aside logs that they do not know."""
        self.notice_failures(now)
        for log in list(self.logs.all_logs()):
            where = log.topic_partition
            topic = self.image.topics_by_name.get(where.topic)
            state = topic.partitions.get(where.partition) if topic is not None else None
            same = topic is not None and log.topic_id in (None, topic.id)
            if where.topic != METADATA_TOPIC and not (state and same and self.node_id in state.replicas):
                self.guarded(partial(self.logs.drop_future, where, now), now)
                aside = self.guarded(partial(self.logs.stray, where), now)
                if aside is not None:
                    self.outside.set_aside(where, aside, log.topic_id if state else None)
        self.logs.settle()
        self.behind.note_all(self.image)

    def note(self, delta: ImageDelta) -> None:
        """Note what one commit changed, to be carried out step by step (`behind`)."""
        self.image = delta.image
        self.generation += 1
        self.behind.note(delta)

    def start(self, now: Now) -> None:
        """Take the whole image at once."""
        self.begin(now)
        self._catch_up(now)

    def apply(self, delta: ImageDelta, now: Now) -> None:
        """Follow what one commit changed, at once."""
        self.note(delta)
        self._catch_up(now)

    def _catch_up(self, now: Now) -> None:
        while self.behind:
            self.behind.step(now)
        self.behind.tell()

    @property
    def applied_offset(self) -> Offset:
        """Up to where this broker is what the metadata say; it never goes back."""
        if not self.behind:
            self._applied = self.image.offset
        return self._applied

    def reconfigure(self, config: Config) -> None:
        """The node's own settings changed: every topic that does not override them follows."""
        self.config = config
        self.generation += 1
        self.space.configure(config)
        self.moves.configure(config)
        self._configure_quotas(config)
        self._cordon(config)
        for topic in self.topics.values():
            self._configure(topic)

    def _cordon(self, config: Config) -> None:
        for path in self.logs.cordon(config.list("cordoned.log.dirs")):
            self.outside.setting_refused(
                "", ConfigError(f"cordoned.log.dirs names {path}, which is not among log.dirs")
            )

    def _configure_quotas(self, config: Config) -> None:
        self.leader_quota.configure(config.int("leader.replication.throttled.rate"))
        self.follower_quota.configure(config.int("follower.replication.throttled.rate"))

    def _configure(self, topic: HostedTopic) -> None:
        for partition in topic.partitions.values():
            self.configure(partition)

    def configure(self, partition: Partition) -> None:
        """Its topic's settings, or the node's, changed."""
        partition.configure(self._log_config(partition.topic))
        partition.touch()

    def _log_config(self, topic: str) -> LogConfig:
        """The settings of a topic: its own over those of the node.

        What the metadata says was checked by the controller that wrote it, which may know more settings than
        this release does: such a one is left out, it must not keep the node from serving everything else.
        """
        overrides = self.image.topic_config(topic)
        try:
            return self.config.log_config(overrides)
        except ConfigError:
            known = dict(overrides)
        for name, value in overrides.items():
            try:
                self.config.log_config({name: value})
            except ConfigError as error:
                del known[name]
                self.outside.setting_refused(topic, error)
        return self.config.log_config(known)

    def begin_anew(self, partition: Partition, state: PartitionState, now: Now) -> bool:
        """A replica whose log was damaged when this node started is fetched anew from its leader.

        Not while it counts for what is committed: it is not in sync, and this node has registered as one that
        lost something (`server.last_life`), so that it is not eligible either.  Returns whether it was done.
        """
        log = partition.log
        if not (log.damage and log.damaged_at_start) or partition.offline:
            return False
        if self.node_id in state.isr or state.leader == NO_NODE:
            return False
        gone = tuple(log.damage)
        self.guarded(lambda: log.truncate_fully_and_start_at(log.log_start_offset, now), now)
        if log.damage:
            return False
        partition.high_watermark = log.high_watermark
        partition.touch()
        self.outside.fetched_anew(log, gone)
        return True

    def host(
        self,
        topic: Topic,
        state: PartitionState,
        now: Now,
        assigned: list[tuple[TopicId, int, DirectoryId]],
    ) -> Partition | None:
        """The partition with its log, made where it is missing; None when its directory is offline."""
        hosted = self.topics.get(topic.name)
        if hosted is not None and hosted.id == topic.id and state.index in hosted.partitions:
            return hosted.partitions[state.index]
        where = TopicPartition(topic.name, state.index)
        registered = state.directory_of(self.node_id) or DIRECTORY_UNASSIGNED
        log = self.logs.get(where)
        if log is None and self.logs.future(where) is not None:
            log = self.guarded(lambda: self._last_copy(where, registered, now), now)
        if log is None:
            wanted = None if registered in _RESERVED else registered
            if wanted is not None and not any(d.directory_id == wanted for d in self.logs.online()):
                if self.logs.missing():
                    return None
                wanted = None  # all are there, so that one was replaced by an empty one
            if wanted is None and (asked := self.moves.wanted(where)) is not None:
                wanted = asked.directory_id
            log = self.guarded(lambda: self.logs.create(where, topic.id, now, directory_id=wanted), now)
            if log is None:
                if self._refused:
                    self._unhosted[topic.id, state.index] = None
                return None
        elif log.topic_id is None:
            self.guarded(lambda: log.belongs_to(topic.id), now)
        directory = self.logs.directory_of(where)
        if hosted is None or hosted.id != topic.id:
            hosted = self.topics[topic.name] = self.topics_by_id[topic.id] = HostedTopic(topic.name, topic.id)
        partition = hosted.partitions[state.index] = Partition(
            topic.name,
            state.index,
            topic.id,
            self.node_id,
            log,
            directory,
            self.turn,
            config=self._log_config(topic.name),
            max_lag=self.config.int("replica.lag.time.max.ms") / 1000.0,
            eligible=self.eligible,
        )
        self.space.applies_to(partition)
        self.moves.hosted(partition)
        if directory is not None and directory.directory_id != registered:
            assigned.append((topic.id, state.index, directory.directory_id))
        return partition

    def _last_copy(self, where: TopicPartition, registered: DirectoryId, now: Now) -> Log | None:
        """A copy without its log: a crash came in the middle of the swap, unless the log lies on a lost disk."""
        directory = self.logs.future_directory(where)
        if directory is not None and directory.directory_id == registered:
            return self.logs.promote(where, now)
        if not self.logs.missing():
            self.logs.drop_future(where, now)
        return None

    def unlist(self, name: str, topic_id: TopicId) -> list[Partition]:
        """A topic was deleted: nobody finds its partitions any more.  They are to be removed."""
        hosted = self.topics.get(name)
        if hosted is None or hosted.id != topic_id:
            return []
        del self.topics[name]
        del self.topics_by_id[topic_id]
        return list(hosted.partitions.values())

    def remove(self, partition: Partition, now: Now) -> None:
        """Host it no longer: its log is deleted."""
        hosted = self.topics_by_id.get(partition.topic_id)
        if hosted is not None and hosted.partitions.get(partition.index) is partition:
            del hosted.partitions[partition.index]
            if not hosted.partitions:
                del self.topics[hosted.name]
                del self.topics_by_id[hosted.id]
        self.followers.release(partition)
        self.moves.release(partition)
        self.leave(partition)
        if not partition.offline:
            where = TopicPartition(partition.topic, partition.index)
            self.guarded(lambda: self.logs.delete(where, now), now)

    def leave(self, partition: Partition) -> None:
        """It accepts and serves nothing any more; waiting requests are answered."""
        led, epoch = partition.is_leader, partition.leader_epoch
        partition.leave()
        if led:
            self.leads(partition, False, epoch)

    def leads(self, partition: Partition, leads: bool, epoch: Epoch) -> None:
        """Tell the listeners that this node starts or stops leading a partition."""
        for callback in self._leadership:
            callback(partition, leads, epoch)

    # ---- directories that fail ---------------------------------------------------------------------------

    def guarded(self, action: Callable[[], _T], now: Now) -> _T | None:
        """Do something with directories; None when that took one of them offline."""
        try:
            return action()
        except StorageError as error:
            self._refused = error.full
            if not self.notice_failures(now):
                self.outside.not_hosted(error)
            return None

    def host_again(self, now: Now) -> None:
        """There may be room by now for partitions that found none."""
        waiting, self._unhosted = self._unhosted, {}
        for topic_id, index in waiting:
            self.behind.note_again(topic_id, index)

    def notice_failures(self, now: Now) -> bool:
        """Follow directories that went offline by themselves; false when none did."""
        news = [directory for directory in self.logs.offline() if directory.path not in self._failed]
        for directory in news:
            self.directory_failed(directory, directory.offline or StorageError("offline"), now)
        return bool(news)

    def storage_failed(self, partition: Partition, error: StorageError, now: Now) -> None:
        """An operation on a partition's log failed: its directory is offline for good.

        If there was only no room, what was not written is gone again and who waits for it is told.
        """
        if error.full and partition.log.failed is None:
            if error.descriptors:
                self.outside.descriptors_short(error)
            elif partition.directory is not None:
                self.space.refused(partition.directory, error, now)
            partition.refuse_unwritten()
            return
        error.full = False
        directory = self.logs.fail(partition.log, error)
        if directory is not None:
            self.directory_failed(directory, error, now)

    def damage_found(self, partition: Partition, error: DamagedError) -> None:
        """Somebody asked for records that are not there any more; the first time it is told."""
        if error.news:
            self.outside.damaged(partition.log, error.news)

    def unreadable(self, error: StorageError, now: Now) -> None:
        """A disk did not give what was to be sent from one of its files."""
        if error.descriptors:
            self.outside.descriptors_short(error)
            return
        for directory in sorted(self.logs.online(), key=lambda one: -len(one.path)):  # one may lie in another
            if f" {directory.path}/" in error.message:
                error.full = False
                self.logs.fail(directory, error)
                self.notice_failures(now)
                return

    def directory_failed(self, directory: LogDirectory, error: StorageError, now: Now) -> None:
        """A directory is offline for good: so is every partition in it.  The second time changes nothing."""
        if directory.path in self._failed:
            return
        self._failed.add(directory.path)
        self.generation += 1
        for partition in self.partitions():
            if partition.directory is directory:
                partition.fail()
                self.followers.release(partition)
        self.outside.directory_failed(directory, error)
