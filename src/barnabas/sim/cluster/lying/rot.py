"""What lies there, and what may: at most one disk at a time, and only while others have all that is on it.

A disk is *rotten* from the first lie until every log on it is whole again: each batch as it was written, and what
is committed.  Until then its node is promised nothing, but for one thing: it serves no damage that it has met.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError, StorageError
from barnabas.log.files.checkpoint import LOG_STARTS, read_offsets
from barnabas.log.unsynced import parent_of
from barnabas.model import METADATA_TOPIC, Offset
from barnabas.sim.kernel.lies import Memory, files_below
from barnabas.wire.records import batches, check_crc

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.sim.cluster.invariants import Invariants
    from barnabas.sim.cluster.node import SimNode
    from barnabas.sim.cluster.world import World

__all__ = ["METADATA", "ROOT", "Rot"]

ROOT = "/data"
_HANDED_OVER_S = 2.0
"""From the first who meets damage until nobody serves it."""
METADATA = f"/{METADATA_TOPIC}-0"
_NOT_OURS = ("meta.properties", ".lock", f"{METADATA}/", "bootstrap.checkpoint")
"""An operator's files, and those of the controllers: the quorum simulator lies about these."""


class Rot:
    """`rot.begins(node)` after a lie; `look()` again and again."""

    def __init__(self, world: World, invariants: Invariants) -> None:
        self.world = world
        self.memories: dict[int, Memory] = {node_id: Memory() for node_id in world.nodes}
        self.served = 0
        """Damaged batches that readers got, before anybody had met them."""
        self._invariants = invariants
        self._met_at: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"<Rot of {[node.id for node in self.world.nodes.values() if node.rotten]}>"

    # -- the budget --

    def may_begin(self, node: SimNode) -> bool:
        """Return whether a lie of this disk now leaves a complete replica of everything that is on it."""
        world, newest, active = self.world, self.world.image, self.world.active_controller
        if not node.is_broker or newest is None or any(other.rotten for other in world.nodes.values()):
            return False
        if active is None or active.quorum is None or active.quorum.image.offset < newest.offset:
            return False  # nobody knows who is in sync
        image = active.quorum.image
        states = [state for topic in image.topics.values() for state in topic.partitions.values()]
        return all(set(state.isr) - {node.id} for state in states if node.id in state.replicas)

    def files(self, node: SimNode) -> list[str]:
        """Return what may be lied about: the files of brokers on a disk."""
        return [path for path in files_below(node.disk, ROOT) if not any(part in path for part in _NOT_OURS)]

    def begins(self, node: SimNode) -> None:
        """Note that its disk has lied."""
        node.rotten = node.lied = True
        self._met_at[node.id] = inf

    # -- what is seen --

    def look(self) -> None:
        """Note who has met damage, and whose disk is whole again."""
        for node in self.world.nodes.values():
            self.memories[node.id].note(node.disk, ROOT)
            if not node.rotten:
                node.lied = node.lied and self._is_eligible(node)
                continue
            if node.broker is not None and any(
                partition.log.damage for partition in node.broker.partitions()
            ):
                self._met_at[node.id] = min(self._met_at[node.id], self.world.time)
            if self.wanting(node) is None:
                node.rotten = False
                self.world.tell(node.id, "its disk is whole again")

    def _is_eligible(self, node: SimNode) -> bool:
        """Return whether a partition may elect this node, with which it is not in sync."""
        topics = () if self.world.image is None else self.world.image.topics.values()
        return any(node.id in state.elr for topic in topics for state in topic.partitions.values())

    def excuses(self, node_id: int) -> bool:
        """Return whether a node may serve a damaged batch: its disk lied, and nobody has met that yet."""
        node = self.world.nodes[node_id]
        excused = node.rotten and self.world.time < self._met_at[node_id] + _HANDED_OVER_S
        self.served += excused
        return excused

    def wanting(self, node: SimNode) -> str | None:
        """Return what is still damaged on a disk; None when nothing is."""
        broker = node.broker
        if not node.serves or broker is None:
            return f"node {node.id} does not serve"
        if node.disk.lying:
            return f"the disk of node {node.id} does not sync"
        for partition in broker.partitions():
            name = f"{partition.topic}-{partition.index} on node {node.id}"
            if partition.offline or partition.log.failed is not None:
                return f"{name} is offline"
            if partition.log.damage:
                return f"{name} lacks records"
            if (wrong := _wrong(node, partition.log)) is not None:
                return f"{name}: {wrong}"
            if (end := self._invariants.committed_end(partition)) > partition.log.acknowledged_end_offset:
                return f"{name} is not safe up to {end}, where it is committed"
            if (wrong := self._invariants.differs(partition)) is not None:
                return f"{name}: {wrong}"
        return None


def _wrong(node: SimNode, log: Log) -> str | None:
    """Return the first batch on the disk that is not what was written; None when all are.

    What was deleted nobody reads any more, once the checkpoint says so.  Before that a node that is killed would
    begin there again, and cut its log there.
    """
    start = min(log.log_start_offset, _checkpointed_start(node, log))
    for segment in log.segments:
        path = segment.path(".log")
        if segment.limit <= start:
            continue
        try:
            begin = segment.locate(start)
            content = node.disk.peek(path)[begin : segment.end_position]
            if len(content) < segment.end_position - begin:
                return f"{path} is short"
            for at, header in batches(content):
                if not check_crc(content, at, header):
                    return f"the batch at {begin + at} of {path} has a wrong CRC"
        except (StorageError, CorruptRecordError) as error:
            return str(error)
    return None


def _checkpointed_start(node: SimNode, log: Log) -> Offset:
    """Return where the log would begin if its node were killed now."""
    path = f"{parent_of(log.path)}/{LOG_STARTS}"
    try:
        return read_offsets(node.disk, path).get(log.topic_partition, 0)
    except StorageError:
        return 0  # (that file may be what rotted, and is written again)
