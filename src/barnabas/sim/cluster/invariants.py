"""The invariants of a cluster's nodes, checked while they run: over their brokers, logs and metadata.

They are checked every few milliseconds of virtual time, and whenever a process ends or starts.  `checker`
checks the invariants that clients see, over their histories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.replicas.partition import Partition
from barnabas.controller.image import MetadataImage, PartitionState
from barnabas.controller.snapshot import image_records
from barnabas.errors import BarnabasError
from barnabas.log.log import Log
from barnabas.model import NO_NODE, Epoch, NodeId, Offset, TopicId
from barnabas.sim.cluster.clients.groups.ownership import check_classic, check_coordinator
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.wire.records import batches

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.groups.group import ClassicGroup, GroupState
    from barnabas.sim.cluster.node import SimNode
    from barnabas.sim.cluster.world import World

__all__ = ["LOOK_EVERY", "Invariants", "Stored"]

LOOK_EVERY = 0.02
_READ_SIZE = 1 << 20
Place = tuple[TopicId, int]


class Stored(NamedTuple):
    """A batch as it stands in a log."""

    base: Offset
    end: Offset
    epoch: Epoch
    crc: int


class Committed:
    """What is committed of a partition, as far as any leader ever said so."""

    __slots__ = ("batches", "elr", "end", "isr", "leaders", "name", "partition_epoch", "seen_by")

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[Stored] = []
        self.end: Offset = 0
        self.leaders: dict[Epoch, NodeId] = {}
        self.partition_epoch = -1
        self.isr: tuple[NodeId, ...] = ()
        self.elr: tuple[NodeId, ...] = ()
        self.seen_by: tuple[NodeId, int, Epoch] = (NO_NODE, 0, -1)
        """Node, run number and leader epoch of whoever was compared with it last."""


class Invariants:
    """See the module.  Every method raises InvariantViolation through `World.alarm`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partitions: dict[Place, Committed] = {}
        self.durable: dict[NodeId, dict[str, tuple[Offset, Epoch]]] = {}
        """What each node's logs had synced when its last run ended, by path."""
        self.states: dict[tuple[TopicId, int, int], PartitionState] = {}
        """The state of a partition at each of its epochs: the same for everybody."""
        self._images: dict[NodeId, tuple[int, Offset]] = {}
        self._classic: dict[ClassicGroup, tuple[GroupState, int, tuple[str, ...]]] = {}
        """Groups of the classic protocol as they were when they were looked at last."""
        self.looks = 0

    def __repr__(self) -> str:
        return f"<Invariants looks={self.looks} partitions={len(self.partitions)}>"

    def look(self) -> None:
        """All that can be seen at any moment."""
        self.looks += 1
        for node in self.world.nodes.values():
            if node.quorum is not None:
                self._image(node, node.quorum.image)
            broker = node.broker
            if broker is not None:
                for partition in broker.partitions():
                    if partition.is_leader and _open(partition) and not node.rotten:
                        self._leader(node, partition)
        for node in self.world.nodes.values():
            broker = node.broker
            if broker is not None and not node.damaged and not node.rotten:
                for partition in broker.partitions():
                    self._in_sync(node, partition)
            if (groups := node.groups) is not None:
                self._groups(groups)

    # G2: who owns what in a group, as its coordinator has it.

    def _groups(self, groups: Groups) -> None:
        try:
            for group in groups.consumer_groups.values():
                if groups.coordinated(group.id) is None:
                    check_coordinator(group)
            for classic in groups.groups.values():
                state = classic.state, classic.generation, tuple(classic.members)
                if self._classic.get(classic) != state and groups.coordinated(classic.id) is None:
                    check_classic(classic)
                    self._classic[classic] = state
        except InvariantViolation as violation:
            self.world.alarm(violation.invariant, violation.text)

    # P1, P3, P4: one leader per epoch; what is committed stays what it is.

    def _committed(self, partition: Partition) -> Committed:
        place = partition.topic_id, partition.index
        known = self.partitions.get(place)
        if known is None:
            known = self.partitions[place] = Committed(f"{partition.topic}-{partition.index}")
        return known

    def _leader(self, node: SimNode, partition: Partition) -> None:
        known = self._committed(partition)
        epoch = partition.leader_epoch
        first = known.leaders.setdefault(epoch, node.id)
        if first != node.id:
            self.world.alarm("P4", f"{known.name}: nodes {first} and {node.id} both lead in epoch {epoch}")
        if partition.partition_epoch > known.partition_epoch:
            known.partition_epoch, known.isr, known.elr = partition.partition_epoch, partition.leading.isr, ()
        mark = partition.high_watermark
        if mark <= known.end:
            return
        log = partition.log
        if known.seen_by != (node.id, node.run_number, epoch):
            known.seen_by = (node.id, node.run_number, epoch)
            self.holds_all(node, log, known)
        for batch in stored(log, known.end, mark):
            known.batches.append(batch)
            known.end = batch.end

    def holds_all(self, node: SimNode, log: Log, known: Committed) -> None:
        """A log below what is committed is what is committed."""
        self._same(node, log, known, min(known.end, log.log_end_offset))
        if log.log_end_offset < known.end:
            self.world.alarm(
                "P1",
                f"{known.name}: node {node.id} leads and ends at {log.log_end_offset}, "
                f"but everything below {known.end} is committed",
            )

    def _same(self, node: SimNode, log: Log, known: Committed, end: Offset) -> None:
        if (odd := _difference(log, known, end)) is not None:
            self.world.alarm("P3", f"{known.name}: node {node.id} {odd}")

    def committed_end(self, partition: Partition) -> Offset:
        """Return up to where the partition is committed, as far as any leader ever said so."""
        return self._committed(partition).end

    def differs(self, partition: Partition) -> str | None:
        """Return how a replica differs from what is committed; None where it does not, or cannot be read."""
        known = self._committed(partition)
        try:
            return _difference(partition.log, known, min(known.end, partition.log.log_end_offset))
        except BarnabasError as error:
            return str(error)

    # P2: who is in sync, or may be elected, has what is committed on its disk.

    def _in_sync(self, node: SimNode, partition: Partition) -> None:
        known = self.partitions.get((partition.topic_id, partition.index))
        if known is None or not _open(partition) or node.id not in (*known.isr, *known.elr):
            return
        end = partition.log.acknowledged_end_offset
        if end < known.end:
            if node.lied and node.id not in known.isr:
                return  # it is compared before it leads
            what = f"in sync ({known.isr}" if node.id in known.isr else f"eligible ({known.elr}"
            self.world.alarm(
                "P2",
                f"{known.name}: node {node.id} is {what} in partition epoch {known.partition_epoch}), its log is "
                f"safe up to {end}, but everything below {known.end} is committed",
            )

    # P4, C1: the metadata.

    def _image(self, node: SimNode, image: MetadataImage) -> None:
        before = self._images.get(node.id)
        if before is not None and before[0] == node.run_number:
            if before[1] == image.offset:
                return
            if before[1] > image.offset:
                self.world.alarm(
                    "C1", f"the metadata of node {node.id} went from {before[1]} to {image.offset}"
                )
        self._images[node.id] = (node.run_number, image.offset)
        for topic in image.topics.values():
            for index, state in topic.partitions.items():
                key = topic.id, index, state.partition_epoch
                known = self.states.get(key)
                if known is None:
                    self.states[key] = state
                    self._state(f"{topic.name}-{index}", topic.id, state, image)
                elif known != state:
                    self.world.alarm(
                        "C1", f"{topic.name}-{index} is {state} on node {node.id}, and was {known}"
                    )
                self._fenced(f"{topic.name}-{index}", state, image)

    def _fenced(self, name: str, state: PartitionState, image: MetadataImage) -> None:
        """A fenced broker leads nothing and is in no in-sync set, unless it is the last one of it."""
        for member in state.isr if len(state.isr) > 1 else ():
            broker = image.brokers.get(member)
            if broker is None or broker.fenced:
                self.world.alarm("P4", f"{name}: {member} is fenced, and in sync are {state.isr}")
        leader = image.brokers.get(state.leader)
        if state.leader != NO_NODE and (leader is None or leader.fenced):
            self.world.alarm("P4", f"{name}: {state.leader} is fenced and leads")

    def _state(self, name: str, topic_id: TopicId, state: PartitionState, image: MetadataImage) -> None:
        for what, nodes in (("in sync", state.isr), ("eligible", state.elr)):
            if not set(nodes) <= set(state.replicas):
                self.world.alarm("P4", f"{name}: {nodes} are {what}, and {state.replicas} are its replicas")
        if set(state.isr) & set(state.elr):
            self.world.alarm("P4", f"{name}: in sync {state.isr} and eligible {state.elr}")
        if state.leader != NO_NODE and state.leader not in state.isr:
            self.world.alarm("P4", f"{name}: {state.leader} leads, and {state.isr} are in sync")
        place = topic_id, state.index
        committed = self.partitions.get(place)
        if committed is None:
            committed = self.partitions[place] = Committed(name)
        if state.partition_epoch >= committed.partition_epoch:
            committed.partition_epoch, committed.isr = state.partition_epoch, state.isr
            committed.elr = state.elr

    # S1: what was synced is there after a crash.

    def run_over(self, node: SimNode) -> None:
        """A run of that node ends: remember what its logs have synced."""
        self.look()
        home = None if node.process is None else node.process.storage
        if home is not None:
            self.durable[node.id] = {
                log.path: (log.durable_end_offset, log.latest_epoch) for log in home.logs.all_logs()
            }
        if node.damaged or node.rotten:
            self.durable.pop(node.id, None)

    def emptied(self, node: SimNode) -> None:
        """Its disk is gone, and with it what it had synced."""
        self.durable.pop(node.id, None)

    def recovered(self, node: SimNode) -> None:
        """A node has just recovered its logs, and done nothing else yet."""
        home = None if node.process is None else node.process.storage
        before = self.durable.pop(node.id, None)
        if before is None or home is None or node.rotten:
            return
        for log in home.logs.all_logs():
            end, epoch = before.get(log.path, (0, -1))
            if 0 <= log.recovery.cut_at < log.log_start_offset:
                continue  # records that had been deleted were changed: the log is told as lost, and fetched again
            if log.log_end_offset < end and log.log_start_offset < end:
                self.world.alarm(
                    "S1",
                    f"node {node.id}: {log.path} had synced up to {end} (epoch {epoch}) and ends at "
                    f"{log.log_end_offset} after it was recovered",
                )

    # At the end.

    def final(self) -> None:
        """Everybody runs and has caught up: all logs are the same, and so is the metadata."""
        self.look()
        offsets: dict[Offset, tuple[NodeId, list[str]]] = {}
        for node in self.world.nodes.values():
            if node.quorum is not None:
                image = node.quorum.image
                mine = sorted(map(repr, image_records(image)))
                other, theirs = offsets.setdefault(image.offset, (node.id, mine))
                if mine != theirs:
                    odd = [line for line in mine if line not in theirs][:2]
                    self.world.alarm("C1", f"at {image.offset} nodes {other} and {node.id} differ: {odd}")
            broker = node.broker
            for partition in broker.partitions() if broker is not None else ():
                known = self._committed(partition)
                if _open(partition):
                    self._same(node, partition.log, known, min(known.end, partition.log.log_end_offset))
        self._producers()

    def _producers(self) -> None:
        """P1: every replica would know a repeated batch again."""
        remembered: dict[Place, tuple[NodeId, Partition]] = {}
        for node in self.world.nodes.values():
            for partition in node.broker.partitions() if node.broker is not None else ():
                if not _open(partition):
                    continue
                first, other = remembered.setdefault(
                    (partition.topic_id, partition.index), (node.id, partition)
                )
                start = max(partition.log.log_start_offset, other.log.log_start_offset)
                end = min(partition.log.log_end_offset, other.log.log_end_offset)
                mine, theirs = _remembered(partition.log, start, end), _remembered(other.log, start, end)
                if mine != theirs:
                    odd = sorted(set(mine.items()) ^ set(theirs.items()))[:4]
                    self.world.alarm(
                        "P1",
                        f"{partition.topic}-{partition.index}: nodes {first} and {node.id} remember other "
                        f"batches of producers: {odd}",
                    )


def _difference(log: Log, known: Committed, end: Offset) -> str | None:
    """Return where a log below `end` is not what is committed, in words."""
    start = log.log_start_offset
    mine = list(stored(log, start, end))
    theirs = [batch for batch in known.batches if batch.end > start and batch.end <= end]
    if mine == theirs:
        return None
    number = next(
        (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
    )
    return f"holds {mine[number : number + 1]} below {end}, where {theirs[number : number + 1]} is committed"


def _open(partition: Partition) -> bool:
    return not partition.offline and not partition.gone and partition.log.failed is None


def _remembered(log: Log, start: Offset, end: Offset) -> dict[int, tuple[int, int]]:
    """Of each producer the last sequence and offset, where that lies between these offsets in all logs."""
    found = {}
    for state in log.producers.active():
        if state.batches and start <= state.last_offset < end:
            found[state.producer_id] = (state.last_sequence, state.last_offset)
    return found


def stored(log: Log, start: Offset, end: Offset) -> Iterator[Stored]:
    """The batches of a log from `start` up to `end`."""
    offset = max(start, log.log_start_offset)
    while offset < end:
        data = log.read(offset, _READ_SIZE, end).read()
        if not data:
            return
        begun = offset
        for _, header in batches(data):
            if header.last_offset >= end:
                return
            if header.last_offset >= start:
                yield Stored(header.base_offset, header.last_offset + 1, header.leader_epoch, header.crc)
            offset = header.last_offset + 1
        if offset <= begun:
            return  # a batch with an offset that is not its own
