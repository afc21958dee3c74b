"""The partitions that this node hosts: finding them, their settings, and the directories that fail under them.

`reconcile` keeps them equal to what the metadata says about this node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from barnabas.broker.ports import BrokerHost
from barnabas.broker.replicas.disk_space import Space
from barnabas.broker.replicas.following.refusals import Refusals
from barnabas.broker.replicas.held_back import HeldBack
from barnabas.broker.replicas.lacking import Lacking
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.replicas.quota import Quota
from barnabas.broker.replicas.sync_schedule import NO_LIMIT
from barnabas.config import Config, LogConfig
from barnabas.controller.image import MetadataImage
from barnabas.errors import ConfigError, ErrorCode, LostFileError, ShortFileError, StorageError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.files.log_names import partition_of
from barnabas.log.log import Log
from barnabas.log.reading import damage_of
from barnabas.log.segments.damage import DamagedError
from barnabas.model import (
    INTERNAL_TOPICS,
    NO_NODE,
    BrokerEpoch,
    Epoch,
    NodeId,
    Now,
    Offset,
    TopicId,
    Uuid,
)

__all__ = ["HostedPartitions", "HostedTopic", "LeadershipCallback"]

LeadershipCallback = Callable[[Partition, bool, Epoch], None]
"""Called as (partition, whether this node leads it now, leader epoch) after the change."""

_T = TypeVar("_T")


_HAND_OVER_S = 5.0
"""Seconds for which readers of what cannot be read are sent to look for another leader."""


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


class HostedPartitions:
    """The hosted partitions, by topic.  `generation` counts what an answer may depend on besides the logs."""

    def __init__(
        self,
        config: Config,
        node_id: NodeId,
        logs: LogDirectories,
        image: MetadataImage,
        host: BrokerHost,
    ) -> None:
        self.config = config
        self.node_id = node_id
        self.logs = logs
        self.image = image
        self.host = host
        self.generation = 0
        self.topics: dict[str, HostedTopic] = {}
        self.topics_by_id: dict[Uuid, HostedTopic] = {}
        self.touched: list[Partition] = []
        self.held_back = HeldBack[Partition](
            min(config.int("barnabas.replica.stall.max.ms"), config.int("replica.lag.time.max.ms")) / 1000.0
        )
        self.space = Space(config, logs, self.partitions, host, self._changed)
        self.leader_quota, self.follower_quota = Quota(), Quota()
        self._configure_quotas(config)
        self._cordon(config)
        self.clock_agrees = True
        """Whether this node's clock is the active controller's; else nothing is deleted here for its age."""
        self.no_room = False
        """Whether the last thing that was `guarded` failed because there was no room."""
        self._failed: set[str] = set()
        self.lacking = Lacking(host.whole_again)
        self.refusals = Refusals(self)
        self.leaderless: dict[Partition, None] = {}
        """The partitions that nobody leads, kept up with the metadata: heartbeats name them."""
        self.proven: set[Partition] = set()
        """Those with which this node was in sync in this life: what was acknowledged before is in their logs."""
        self._leadership: list[LeadershipCallback] = []

    @property
    def epoch(self) -> BrokerEpoch:
        """The epoch under which this node is registered, as far as the metadata says; -1 before."""
        known = self.image.brokers.get(self.node_id)
        return -1 if known is None else known.epoch

    def claims_unproven(self) -> bool:
        """Return whether a replica could be elected whose log was not proven since this node started.

        After an unclean stop the controller compares such a log with others before it leads.  A stop in order
        does not make it whole: the marker of a clean stop would only hide that it may lack records.
        """
        for partition in self.partitions():
            topic = self.image.topics.get(partition.topic_id)
            state = None if topic is None else topic.partitions.get(partition.index)
            if state is None or partition in self.proven:
                continue
            if state.leader == NO_NODE or self.node_id in state.elr:
                return True
        return False

    def eligible(self, node: NodeId, epoch: BrokerEpoch) -> bool:
        """Whether a node may be in sync: alive, not leaving, and registered in the epoch in which it fetched."""
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

    def ageing(self) -> list[Partition]:
        """Those of topics in which `flush.ms` bounds how long records stay unsynced: all, or none, of a topic."""
        found: list[Partition] = []
        for topic in self.topics.values():
            partitions = topic.partitions.values()
            if any(partition.config.flush_ms < NO_LIMIT for partition in islice(partitions, 1)):
                found += partitions
        return found

    # ---- leading, settings -------------------------------------------------------------------------------

    def on_leadership(self, callback: LeadershipCallback) -> None:
        """Be told whenever this node begins or ceases to lead a partition."""
        self._leadership.append(callback)

    def reconfigure(self, config: Config) -> None:
        """The node's own settings changed: every topic that does not override them follows."""
        self.config = config
        self.generation += 1
        self.space.configure(config)
        self.logs.forget_producers_after(config.int("producer.id.expiration.ms"))
        self._configure_quotas(config)
        self._cordon(config)
        for topic in self.topics.values():
            self._configure(topic)

    def _changed(self) -> None:
        self.generation += 1

    def _cordon(self, config: Config) -> None:
        for path in self.logs.cordon(config.list("cordoned.log.dirs")):
            self.host.setting_refused(
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
        partition.configure(self.log_config(partition.topic))
        partition.touch()

    def log_config(self, topic: str) -> LogConfig:
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
                self.host.setting_refused(topic, error)
        return self.config.log_config(known)

    def leads(self, partition: Partition, leads: bool, epoch: Epoch) -> None:
        """Tell the listeners that this node starts or stops leading a partition."""
        for callback in self._leadership:
            callback(partition, leads, epoch)

    # ---- directories that fail ---------------------------------------------------------------------------

    def guarded(self, action: Callable[[], _T], now: Now) -> _T | None:
        """Run an action on directories; None when it failed, which may have taken one of them offline."""
        try:
            return action()
        except StorageError as error:
            self.no_room = error.full
            if not self.notice_failures(now):
                self.host.not_hosted(error)
            return None

    def notice_failures(self, now: Now) -> bool:
        """Follow directories that went offline by themselves; false when none did."""
        news = [directory for directory in self.logs.offline() if directory.path not in self._failed]
        for directory in news:
            self.directory_failed(directory, directory.offline or StorageError("offline"), now)
        return bool(news)

    def storage_failed(self, partition: Partition, error: StorageError, now: Now) -> None:
        """An operation on a partition's log failed: its directory is offline for good.

        If there was only no room, what was not written is gone again and who waits for it is told.  A file that
        somebody cut or deleted is damage of that log alone.
        """
        if isinstance(error, LostFileError) and self._file_lost(partition, error, now):
            return
        if error.full and partition.log.failed is None:
            if error.descriptors:
                self.host.descriptors_short(error)
            elif partition.directory is not None:
                self.space.refused(partition.directory, error, now)
            partition.refuse_unwritten()
            return
        error.full = False
        directory = self.logs.fail(partition.log, error)
        if directory is not None:
            self.directory_failed(directory, error, now)

    def damage_found(self, partition: Partition, error: DamagedError, now: Now) -> ErrorCode:
        """Note that a reader asked for records that cannot be read; the host hears of it the first time.

        Returns what to answer: for `_HAND_OVER_S`, to look for another leader, where one may take over.
        """
        if error.news or self.lacking.of(partition) is None:  # (or who met it first was silent)
            self.lacking.note(partition, now)
            self.host.damaged(partition.log, error.news or (error.damage,))
            self.hand_over(partition)
        state, lack = self.image.partition(partition.topic, partition.index), self.lacking.of(partition)
        if state is None or len(state.isr) < 2 or lack is None or now.mono > lack.since + _HAND_OVER_S:
            return error.code
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def hand_over(self, partition: Partition) -> None:
        """Let another one lead, which has all records, where this node leads and cannot read some of them.

        Not before so many others are in sync that this node does not become eligible by leaving (KIP-966): its
        replica is to be fetched again.
        """
        state = self.image.partition(partition.topic, partition.index)
        if state is None or not (partition.is_leader and partition.log.damage) or partition.offline:
            return
        if len(state.isr) > min(partition.config.min_insync_replicas, len(state.replicas)):
            self.host.stand_down(partition.log)

    def rots(self, log: Log, error: DamagedError | LostFileError, now: Now) -> None:
        """A duty of this node met records that cannot be read, or a file that is not as it was left."""
        partition = self.partition(*log.topic_partition)
        if partition is None or partition.log is not log:
            return
        if isinstance(error, LostFileError):
            self.storage_failed(partition, error, now)
        else:
            self.damage_found(partition, error, now)

    def truncated(self, partition: Partition, before: Offset) -> None:
        """A log was cut back from `before` to where it agrees with its leader's, which decides what it lacks."""
        self.lacking.cut(partition)
        self.host.truncated(partition.topic, partition.index, before, partition.log.log_end_offset)

    def _file_lost(self, partition: Partition, error: LostFileError, now: Now) -> bool:
        """Note what is gone of a log of which somebody cut or deleted a file.

        A log of which the newest file is not whole goes on in another one.  False: the log has failed, or it is
        no file of a segment.
        """
        log = partition.log
        if log.failed is not None or not log.disk.is_directory(log.path):
            return isinstance(error, ShortFileError)
        try:
            if error.path == log.active.path(".log"):
                log.open_what_is_left()
            log.write()
            if error.path == log.active.path(".log") and not log.disk.exists(error.path):
                log.roll(now)
            found = damage_of(log, error.path)
            if error.path == log.active.path(".log") and log.is_short:
                log.roll(now)
            partition.sync_again()
        except StorageError as failed:
            self.storage_failed(partition, StorageError(failed.message), now)
            return True
        if found is not None:
            self.damage_found(partition, found, now)
        return found is not None or isinstance(error, ShortFileError)

    def unreadable(self, error: StorageError, now: Now) -> None:
        """A file could not be read, perhaps while an answer was sent from it."""
        if isinstance(error, ShortFileError):
            tp = partition_of(error.path.split("/")[-2])
            if tp is not None and (partition := self.partition(*tp)) is not None:
                self._file_lost(partition, error, now)
            return
        if error.descriptors:
            self.host.descriptors_short(error)
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
                partition.stop_following()
        self.host.directory_failed(directory, error)
