"""Leaders whose log ends below what was committed: nothing is cut at their word.

A replica that is in sync, or eligible, has everything that was committed, and so has each leader.  If a leader's
log ends below the high watermark that such a replica knows, the leader lost records and does not know it: its disk
gave it an older file, perhaps.  So the replica cuts nothing, says so, and its heartbeats ask for another leader.

A replica that counts for nothing follows its leader's log: while it was away a replica may have been elected that
lacked records, by an operator's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from barnabas.model import Epoch, NodeId, Offset, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.ports import BrokerHost
    from barnabas.broker.replicas.partition import Partition
    from barnabas.controller.image import MetadataImage

__all__ = ["Refusals"]


class _Broker(Protocol):
    node_id: NodeId
    image: MetadataImage
    host: BrokerHost


class Refusals:
    """The partitions of which this node refuses to cut its log, and the leader epochs in which it does."""

    __slots__ = ("_broker", "_refused")

    def __init__(self, broker: _Broker) -> None:
        self._broker = broker
        self._refused: dict[Partition, Epoch] = {}

    def refuses(self, partition: Partition, end: Offset) -> bool:
        """Return whether this node refuses to cut its log at `end`, where its leader's log ends."""
        committed = partition.log.high_watermark
        if end >= committed:
            return False
        broker, epoch = self._broker, partition.leader_epoch
        state = broker.image.partition(partition.topic, partition.index)
        if state is None or state.leader_epoch != epoch:
            return True  # another leader, which the next step follows
        counts = broker.node_id in (*state.isr, *state.elr)
        if self._refused.get(partition) != epoch or not counts:
            tp = TopicPartition(partition.topic, partition.index)
            broker.host.leader_is_short(tp, partition.leader, end, committed, refused=counts)
        if counts:
            self._refused = {one: epoch for one, epoch in self._refused.items() if _is_asked(one, epoch)}
            self._refused[partition] = epoch
        return counts

    def __iter__(self) -> Iterator[tuple[Partition, Epoch]]:
        """Yield the partitions that another one should lead, as far as nothing has changed."""
        return ((one, epoch) for one, epoch in self._refused.items() if _is_asked(one, epoch))

    def __repr__(self) -> str:
        return f"<Refusals {list(self._refused)}>"


def _is_asked(partition: Partition, epoch: Epoch) -> bool:
    return partition.leader_epoch == epoch and not (partition.gone or partition.offline)
