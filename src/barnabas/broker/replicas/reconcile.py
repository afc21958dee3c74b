"""The difference between the metadata and this node, resolved partition by partition, in small steps.

A commit may concern thousands of partitions, and making one takes a directory and files.  So a commit is only
recorded here, and `step` applies it, as many times as its caller has time for.  A step brings one partition
to what the metadata say *now*; how often the partition was recorded meanwhile makes no difference.  First
come partitions that are here (other leaders, other replicas: clients wait for them), then those to be
removed, then those to be made, each in the order of the log, and within one commit those that this node leads
first.

Until its step a partition stays as it was.  A partition that is not made yet does not exist: requests for it
get NOT_LEADER_OR_FOLLOWER, as from a broker of Apache Kafka that has not applied the change, and are
repeated.  A deleted partition accepts and serves nothing from the moment its deletion is recorded, so that no
record goes to the log of an earlier topic of the same name.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from barnabas.broker.replicas.partition import Partition
from barnabas.controller.image import RESOURCE_TOPIC, ImageDelta, MetadataImage
from barnabas.model import NO_NODE, DirectoryId, Now, TopicId, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partitions import Hosting

__all__ = ["Reconciler"]


class Reconciler:
    """`note` what changed; `while reconciler: reconciler.step(now)`; then, or now and then, `tell`."""

    __slots__ = ("_configured", "_gone", "_here", "_hosting", "_new")

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._here: OrderedDict[TopicPartition, None] = OrderedDict()
        self._gone: OrderedDict[TopicPartition, Partition] = OrderedDict()
        self._new: OrderedDict[TopicPartition, None] = OrderedDict()
        self._configured: set[str] = set()
        """Topics whose settings changed."""

    def __bool__(self) -> bool:
        """Whether something is left to do."""
        return bool(self._here or self._new or self._gone)

    def __len__(self) -> int:
        return len(self._here) + len(self._new) + len(self._gone)

    def __repr__(self) -> str:
        return f"<Reconciler here={len(self._here)} gone={len(self._gone)} new={len(self._new)}>"

    # ---- what is to be done ------------------------------------------------------------------------------

    def note_all(self, image: MetadataImage) -> None:
        """Everything that the metadata give this node."""
        me = self._hosting.node_id
        wheres = [
            (state.leader != me, TopicPartition(topic.name, state.index))
            for topic in image.topics.values()
            for state in topic.partitions.values()
            if me in state.replicas
        ]
        wheres.sort(key=lambda one: one[0])
        self._new.update((where, None) for _, where in wheres)

    def note_again(self, topic_id: TopicId, index: int) -> None:
        """A partition that could not be made may be made now."""
        topic = self._hosting.image.topics.get(topic_id)
        if topic is not None and index in topic.partitions:
            self._new[TopicPartition(topic.name, index)] = None

    def note(self, delta: ImageDelta) -> None:
        """What one commit changed."""
        hosting, me = self._hosting, self._hosting.node_id
        for topic in delta.topics_deleted.values():
            for partition in hosting.unlist(topic.name, topic.id):
                hosting.leave(partition)
                self._gone[partition.log.topic_partition] = partition
        followed: list[TopicPartition] = []
        for topic, state, _ in delta.changed_partitions():
            hosted = hosting.topics_by_id.get(topic.id)
            here = hosted is not None and state.index in hosted.partitions
            if here or me in state.replicas:
                where = TopicPartition(topic.name, state.index)
                if state.leader != me:
                    followed.append(where)
                elif here:
                    self._here[where] = None
                else:
                    self._new[where] = None
        for where in followed:
            (self._new if hosting.partition(*where) is None else self._here)[where] = None
        if delta.brokers:
            for partition in hosting.partitions():
                if partition.is_leader and not delta.brokers.isdisjoint(partition.remote):
                    self._here[partition.log.topic_partition] = None  # who is gone holds its marks no longer
        for resource, name in delta.configs:
            if resource == RESOURCE_TOPIC and name in hosting.topics:
                self._configured.add(name)
                for index in hosting.topics[name].partitions:
                    self._here[TopicPartition(name, index)] = None

    def hasten(self, where: TopicPartition) -> bool:
        """Somebody asks for a partition that is to be made: it is the next one.  False: it is not to be."""
        if where not in self._new:
            return False
        self._new.move_to_end(where, last=False)
        return True

    # ---- doing it ----------------------------------------------------------------------------------------

    def step(self, now: Now) -> None:
        """Carry out one change."""
        if self._here:
            where, _ = self._here.popitem(last=False)
            self._reconcile(where, now)
        elif self._gone:
            _, partition = self._gone.popitem(last=False)
            self._hosting.remove(partition, now)
        elif self._new:
            where, _ = self._new.popitem(last=False)
            self._reconcile(where, now)
        if not self:
            self._configured.clear()

    def tell(self) -> None:
        """Tell the controller where what was made lies."""
        self._hosting.assignments.send()

    def _reconcile(self, where: TopicPartition, now: Now) -> None:
        """Make a partition what the metadata say."""
        hosting = self._hosting
        hosting.generation += 1
        topic = hosting.image.topics_by_name.get(where.topic)
        state = topic.partitions.get(where.partition) if topic is not None else None
        if topic is None or state is None or hosting.node_id not in state.replicas:
            partition = hosting.partition(*where)
            if partition is not None:
                hosting.remove(partition, now)
            return
        if (earlier := self._gone.pop(where, None)) is not None:
            hosting.remove(earlier, now)
        assigned: list[tuple[TopicId, int, DirectoryId]] = []
        partition = hosting.host(topic, state, now, assigned)
        for topic_id, index, directory in assigned:
            hosting.assignments.want((topic_id, index), directory)
        if partition is None:
            return
        if where.topic in self._configured:
            hosting.configure(partition)
        if state.leader == hosting.node_id:
            if not partition.offline and partition.lead(state, now):
                hosting.followers.release(partition)
                hosting.leads(partition, True, partition.leader_epoch)
            partition.touch()
            return
        led = partition.is_leader
        changed = partition.follow(state)
        if not (hosting.begin_anew(partition, state, now) or changed):
            return
        if partition.leader != NO_NODE and not partition.offline:
            hosting.followers.follow(partition)
        else:
            hosting.followers.release(partition)
        if led:
            hosting.leads(partition, False, partition.leader_epoch)
