"""The difference between the metadata and this node, resolved partition by partition, in small steps.

A commit may concern thousands of partitions, and making one takes a directory and files.  So a commit is only
recorded here, and `step` applies it, as many times as its caller has time for.  A step brings one partition
to what the metadata say *now*; how often the partition was recorded meanwhile makes no difference.  First
come partitions that are here (other leaders, other replicas: clients wait for them), then those to be
removed, then those to be made, each in the order of the log, and within one commit those that this node leads
first.

Files are made in threads: a partition whose log is to be made there has another step when it is (`new_logs`).

Until its step a partition stays as it was.  A partition that is not made yet does not exist: requests for it
get NOT_LEADER_OR_FOLLOWER, as from a broker of Apache Kafka that has not applied the change, and are
repeated.  A deleted partition accepts and serves nothing from the moment its deletion is recorded, so that no
record goes to the log of an earlier topic of the same name.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from barnabas.broker.new_logs import MakeLogs, NewLogs
from barnabas.broker.replicas.assignments import Assignments
from barnabas.broker.replicas.dir_moves import Moves
from barnabas.broker.replicas.following.followers import Followers
from barnabas.broker.replicas.hosted_partitions import HostedPartitions, HostedTopic
from barnabas.broker.replicas.partition import Partition
from barnabas.controller.image import RESOURCE_TOPIC, ImageDelta, MetadataImage, PartitionState, Topic
from barnabas.log.log import Log
from barnabas.log.segments.damage import Damage, DamagedError
from barnabas.model import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_NODE,
    DirectoryId,
    Epoch,
    Now,
    TopicId,
    TopicPartition,
)

__all__ = ["Reconciler"]

_RESERVED = (DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)


class Reconciler:
    """`note` what changed; `while reconciler: reconciler.step(now)`; then, or now and then, `tell`."""

    __slots__ = (
        "_assignments",
        "_broker",
        "_configured",
        "_followers",
        "_gone",
        "_here",
        "_made",
        "_moves",
        "_new",
        "_unhosted",
        "new_logs",
    )

    def __init__(
        self, broker: HostedPartitions, followers: Followers, assignments: Assignments, moves: Moves
    ) -> None:
        self._broker = broker
        self._followers = followers
        self._assignments = assignments
        self._moves = moves
        self._here: OrderedDict[TopicPartition, None] = OrderedDict()
        self._gone: OrderedDict[TopicPartition, Partition] = OrderedDict()
        self._new: OrderedDict[TopicPartition, None] = OrderedDict()
        self._configured: set[str] = set()
        """Topics whose settings changed."""
        self._unhosted: dict[tuple[TopicId, int], None] = {}
        """Partitions that could not be made: there was no room."""
        self.new_logs = NewLogs()
        self._made = False
        """Threads have made logs, or failed to, since the last step."""

    def __bool__(self) -> bool:
        """Whether something is left to do, here or in threads."""
        return self.ready or bool(self.new_logs)

    @property
    def ready(self) -> bool:
        """Whether `step` has something to do now."""
        return bool(self._here or self._new or self._gone or self._made)

    def __len__(self) -> int:
        return len(self._here) + len(self._new) + len(self._gone) + len(self.new_logs)

    def __repr__(self) -> str:
        return f"<Reconciler here={len(self._here)} gone={len(self._gone)} new={len(self._new)}>"

    # ---- what is to be done ------------------------------------------------------------------------------

    def note_all(self, image: MetadataImage) -> None:
        """Everything that the metadata give this node."""
        me = self._broker.node_id
        tps = [
            (state.leader != me, TopicPartition(topic.name, state.index))
            for topic in image.topics.values()
            for state in topic.partitions.values()
            if me in state.replicas
        ]
        tps.sort(key=lambda one: one[0])
        self._new.update((tp, None) for _, tp in tps)

    def note_unhosted(self) -> None:
        """There may be room by now for partitions that found none."""
        waiting, self._unhosted = self._unhosted, {}
        for topic_id, index in waiting:
            topic = self._broker.image.topics.get(topic_id)
            if topic is not None and index in topic.partitions:
                self._new[TopicPartition(topic.name, index)] = None

    def note_damaged(self) -> None:
        """Replicas with damage are to be fetched again, which no commit may announce: one that was out of sync
        when it was met is out of sync already."""
        for partition in self._broker.lacking:
            if partition.log.damage and not partition.is_leader:
                self._here[partition.log.topic_partition] = None

    def note(self, delta: ImageDelta) -> None:
        """What one commit changed."""
        broker, me = self._broker, self._broker.node_id
        for topic in delta.topics_deleted.values():
            for partition in self._unlist(topic.name, topic.id):
                self._leave(partition)
                self._gone[partition.log.topic_partition] = partition
        followed: list[TopicPartition] = []
        for topic, state, _ in delta.changed_partitions():
            hosted = broker.topics_by_id.get(topic.id)
            here = hosted is not None and state.index in hosted.partitions
            if here or me in state.replicas:
                tp = TopicPartition(topic.name, state.index)
                if state.leader != me:
                    followed.append(tp)
                elif here:
                    self._here[tp] = None
                else:
                    self._new[tp] = None
        for tp in followed:
            (self._new if broker.partition(*tp) is None else self._here)[tp] = None
        if delta.brokers:
            for partition in broker.partitions():
                if partition.is_leader and not delta.brokers.isdisjoint(partition.leading.progress):
                    self._here[partition.log.topic_partition] = None  # who is gone does not hold it back
        for resource, name in delta.configs:
            if resource == RESOURCE_TOPIC and name in broker.topics:
                self._configured.add(name)
                for index in broker.topics[name].partitions:
                    self._here[TopicPartition(name, index)] = None

    def awaits(self, topic: str) -> bool:
        """Whether something is left to do about partitions of this topic."""
        every = (self._here, self._gone, self._new, self.new_logs)
        return any(tp.topic == topic for tps in every for tp in tps)

    def hasten(self, tp: TopicPartition) -> bool:
        """A request asks for a partition that is to be created: create it next.  False if it is not."""
        if tp in self.new_logs:
            self.new_logs.hasten(tp)
            return True
        if tp not in self._new:
            return False
        self._new.move_to_end(tp, last=False)
        return True

    # ---- doing it ----------------------------------------------------------------------------------------

    def step(self, now: Now) -> None:
        """Carry out one change."""
        self._made = False
        if self._here:
            tp, _ = self._here.popitem(last=False)
            self._reconcile(tp, now)
        elif self._gone:
            _, partition = self._gone.popitem(last=False)
            self._remove(partition, now)
        elif self._new:
            tp, _ = self._new.popitem(last=False)
            self._reconcile(tp, now)
        if not self:
            self._configured.clear()

    def made(self, job: MakeLogs, now: Now) -> None:
        """A thread has made these logs, or failed to.  The metadata may have changed meanwhile."""
        self.new_logs.returned(job)
        self._made = True
        broker = self._broker
        for directory, making in job.logs:
            tp, topic_id = making.topic_partition, making.topic_id
            log = broker.guarded(partial(directory.take, making, now), now)
            topic = broker.image.topics.get(topic_id)
            state = topic.partitions.get(tp.partition) if topic is not None else None
            if log is not None:
                if state is None or broker.node_id not in state.replicas:
                    broker.guarded(partial(broker.logs.delete, tp, now), now)
                self._new[tp] = None
            elif state is None:
                self._new[tp] = None  # another topic of this name waits for that, perhaps
            elif broker.no_room:
                self._unhosted[topic_id, tp.partition] = None

    def tell(self) -> None:
        """Report the directories of new replicas to the controller."""
        self._assignments.send()

    def _reconcile(self, tp: TopicPartition, now: Now) -> None:
        """Bring a partition to what the metadata say."""
        broker = self._broker
        broker.generation += 1
        topic = broker.image.topics_by_name.get(tp.topic)
        state = topic.partitions.get(tp.partition) if topic is not None else None
        if topic is None or state is None or broker.node_id not in state.replicas:
            partition = broker.partition(*tp)
            if partition is not None:
                self._remove(partition, now)
            return
        if (earlier := self._gone.pop(tp, None)) is not None:
            self._remove(earlier, now)
        assigned: list[tuple[TopicId, int, DirectoryId]] = []
        partition = self._host(topic, state, now, assigned)
        for topic_id, index, directory in assigned:
            self._assignments.want((topic_id, index), directory)
        if partition is None:
            return
        if tp.topic in self._configured:
            broker.configure(partition)
        if state.leader == NO_NODE:
            broker.leaderless[partition] = None
        else:
            broker.leaderless.pop(partition, None)
        if broker.node_id in state.isr:
            broker.proven.add(partition)
        if state.leader == broker.node_id:
            if not partition.offline and partition.lead(state, now):
                partition.stop_following()
                broker.leads(partition, True, partition.leader_epoch)
            partition.touch()
            broker.hand_over(partition)
            return
        led = partition.is_leader
        changed = partition.follow(state)
        if not (self._begin_anew(partition, state, now) or changed):
            return
        if partition.leader != NO_NODE and not partition.offline:
            self._followers.follow(partition)
        else:
            partition.stop_following()
        if led:
            broker.leads(partition, False, partition.leader_epoch)

    # ---- partitions and their logs -----------------------------------------------------------------------

    def _begin_anew(self, partition: Partition, state: PartitionState, now: Now) -> bool:
        """Fetch a replica again from its leader, from the first record on that cannot be read.

        Not while it counts for what is committed, in sync or eligible: where this node registers with damage, it
        is as one that lost something (`server.replication.previous_epoch`), and the controller takes out what a
        heartbeat calls incomplete.  Returns whether it was done.
        """
        broker = self._broker
        log = partition.log
        if not log.damage or partition.offline:
            return False
        if broker.node_id in (*state.isr, *state.elr) or state.leader == NO_NODE:
            return False
        gone = tuple(log.damage)
        start = max(gone[0].start, log.log_start_offset)
        cut = log.truncate_to if start > log.log_start_offset else log.truncate_fully_and_start_at
        broker.guarded(lambda: cut(start, now), now)
        if log.damage:
            return False
        partition.high_watermark = log.high_watermark
        partition.touch()
        broker.host.fetched_anew(log, gone)
        return True

    def _host(
        self,
        topic: Topic,
        state: PartitionState,
        now: Now,
        assigned: list[tuple[TopicId, int, DirectoryId]],
    ) -> Partition | None:
        """The partition with its log, made where it is missing; None when its directory is offline."""
        broker = self._broker
        hosted = broker.topics.get(topic.name)
        if hosted is not None and hosted.id == topic.id and state.index in hosted.partitions:
            return hosted.partitions[state.index]
        tp = TopicPartition(topic.name, state.index)
        registered = state.directory_of(broker.node_id) or DIRECTORY_UNASSIGNED
        log = broker.logs.get(tp)
        if log is None and broker.logs.future(tp) is not None:
            log = broker.guarded(lambda: self._last_copy(tp, registered, now), now)
        if log is None:
            wanted = None if registered in _RESERVED else registered
            if wanted is not None and not any(d.directory_id == wanted for d in broker.logs.online()):
                if broker.logs.missing():
                    return None
                wanted = None  # all are there, so that one was replaced by an empty one
            if wanted is None and (asked := self._moves.wanted(tp)) is not None:
                wanted = asked.directory_id
            log = self._make(tp, topic, wanted, now)
            if log is None:
                return None
        elif log.topic_id != topic.id:
            broker.guarded(lambda: self._adopt(log, topic, state, now), now)
        directory = broker.logs.directory_of(tp)
        if hosted is None or hosted.id != topic.id:
            hosted = broker.topics[topic.name] = broker.topics_by_id[topic.id] = HostedTopic(
                topic.name, topic.id
            )
        partition = hosted.partitions[state.index] = Partition(
            topic.name,
            state.index,
            topic.id,
            broker.node_id,
            log,
            directory,
            broker.touched,
            config=broker.log_config(topic.name),
            max_lag=broker.config.int("replica.lag.time.max.ms") / 1000.0,
            held_back=broker.held_back,
            eligible=broker.eligible,
        )
        broker.space.applies_to(partition)
        if log.damage:
            broker.lacking.note(partition, now)
        if log.latest_epoch > state.leader_epoch:
            broker.guarded(lambda: self._check_epochs(partition, state.leader_epoch, now), now)
        self._moves.hosted(partition)
        if directory is not None and directory.directory_id != registered:
            assigned.append((topic.id, state.index, directory.directory_id))
        return partition

    def _adopt(self, log: Log, topic: Topic, state: PartitionState, now: Now) -> None:
        """Write down again whose log it is: what said that was not written in time, or was damaged.

        Its records may be of an earlier topic of this name, if the metadata do not count on them.
        """
        node = self._broker.node_id
        if (
            state.leader not in (NO_NODE, node)
            and node not in (*state.isr, *state.elr)
            and log.log_end_offset
        ):
            log.truncate_fully_and_start_at(0, now)
        log.belongs_to(topic.id)
        self._broker.host.adopted(log)

    def _check_epochs(self, partition: Partition, latest: Epoch, now: Now) -> None:
        """Call records damaged that claim an epoch which no leader had yet: no CRC covers a batch's epoch."""
        log = partition.log
        epoch, start = next(entry for entry in log.epochs.entries() if entry[0] > latest)
        if start < log.log_end_offset:
            damage = Damage(
                start, log.log_end_offset, f"epoch {epoch} at {start}, and the latest is {latest}"
            )
            error = DamagedError(log.topic_partition, damage, log.note_damage([damage]))
            self._broker.damage_found(partition, error, now)

    def _make(self, tp: TopicPartition, topic: Topic, wanted: DirectoryId | None, now: Now) -> Log | None:
        """The log, if it is made at once; None where a thread makes it, or it cannot be made."""
        broker, new_logs = self._broker, self.new_logs
        if tp in new_logs:
            return None

        def make() -> Log | None:
            directory = broker.logs.place(wanted)
            if not new_logs.aside:
                return directory.create(tp, topic.id, now)
            new_logs.add(directory, directory.begin(tp, topic.id, now))
            return None

        broker.no_room = False
        log = broker.guarded(make, now)
        if log is None and broker.no_room:
            self._unhosted[topic.id, tp.partition] = None
        return log

    def _last_copy(self, tp: TopicPartition, registered: DirectoryId, now: Now) -> Log | None:
        """Use a copy whose log is missing: a crash interrupted the swap, unless the log is on a lost disk."""
        broker = self._broker
        directory = broker.logs.future_directory(tp)
        if directory is not None and directory.directory_id == registered:
            return broker.logs.promote(tp, now)
        if not broker.logs.missing():
            broker.logs.drop_future(tp, now)
        return None

    def _unlist(self, name: str, topic_id: TopicId) -> list[Partition]:
        """A topic was deleted: take its partitions off the table.  The caller removes them."""
        broker = self._broker
        hosted = broker.topics.get(name)
        if hosted is None or hosted.id != topic_id:
            return []
        del broker.topics[name]
        del broker.topics_by_id[topic_id]
        return list(hosted.partitions.values())

    def _remove(self, partition: Partition, now: Now) -> None:
        """Host it no longer: its log is deleted."""
        broker = self._broker
        hosted = broker.topics_by_id.get(partition.topic_id)
        if hosted is not None and hosted.partitions.get(partition.index) is partition:
            del hosted.partitions[partition.index]
            if not hosted.partitions:
                del broker.topics[hosted.name]
                del broker.topics_by_id[hosted.id]
        partition.stop_following()
        broker.leaderless.pop(partition, None)
        broker.proven.discard(partition)
        self._moves.release(partition)
        self._leave(partition)
        if not partition.offline:
            tp = TopicPartition(partition.topic, partition.index)
            broker.guarded(lambda: broker.logs.delete(tp, now), now)

    def _leave(self, partition: Partition) -> None:
        """It accepts and serves nothing any more; waiting requests are answered."""
        led, epoch = partition.is_leader, partition.leader_epoch
        partition.leave()
        if led:
            self._broker.leads(partition, False, epoch)
