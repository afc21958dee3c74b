"""Leaders whose log ends below what was committed: nothing is cut at their word.

A replica that is in sync, or eligible, has everything that was committed, and so has each leader.  If a leader's
log ends below the high watermark that such a replica knows, the leader lost records and does not know it: its disk
gave it an older file, perhaps.  So the replica cuts nothing, says so, and its heartbeats ask for another leader.

A replica that counts for nothing follows its leader's log: while it was away a replica may have been elected that
lacked records, by an operator's word.  But it waits a while if others count besides the leader: perhaps the
leader's disk lost what it had synced, and they come back and refuse.  As soon as this one is in sync, an eligible
one that is away just now counts for nothing either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from barnabas.model import NO_EPOCH, Epoch, NodeId, Now, Offset, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.ports import BrokerHost
    from barnabas.broker.replicas.partition import Partition
    from barnabas.controller.image import MetadataImage

__all__ = ["Refusals"]


_PATIENCE_S = 10.0
"""The time in which those that count may come back and refuse, before one that does not is cut."""


class _Broker(Protocol):
    node_id: NodeId
    image: MetadataImage
    host: BrokerHost


class Refusals:
    """The partitions of which this node refuses to cut its log, and the leader epochs in which it does."""

    __slots__ = ("_broker", "_refused", "_waiting")

    def __init__(self, broker: _Broker) -> None:
        self._broker = broker
        self._refused: dict[Partition, Epoch] = {}
        self._waiting: dict[Partition, tuple[Epoch, float]] = {}
        """Leaders that are waited for, in which epoch and since when (monotonic seconds)."""

    def refuses(self, partition: Partition, end: Offset, now: Now) -> bool:
        """Return whether this node refuses to cut its log at `end`, where its leader's log ends."""
        committed = partition.log.high_watermark
        if end >= committed:
            return False
        broker, epoch = self._broker, partition.leader_epoch
        state = broker.image.partition(partition.topic, partition.index)
        if state is None or state.leader_epoch != epoch:
            return True  # another leader, which the next step follows
        counting = {*state.isr, *state.elr}
        counts = broker.node_id in counting
        if not counts and counting != {state.leader} and self._waits(partition, epoch, now):
            return True
        if self._refused.get(partition) != epoch or not counts:
            tp = TopicPartition(partition.topic, partition.index)
            broker.host.leader_is_short(tp, partition.leader, end, committed, refused=counts)
        if counts:
            self._refused = {one: epoch for one, epoch in self._refused.items() if _is_asked(one, epoch)}
            self._refused[partition] = epoch
        return counts

    def _waits(self, partition: Partition, epoch: Epoch, now: Now) -> bool:
        """Return whether it is too early to be cut at the word of this leader."""
        waiting, since = self._waiting.get(partition, (NO_EPOCH, 0.0))
        if waiting != epoch:
            self._waiting = {one: row for one, row in self._waiting.items() if _is_asked(one, row[0])}
            self._waiting[partition] = (epoch, since := now.mono)
        if waits := now.mono < since + _PATIENCE_S:
            return waits
        del self._waiting[partition]
        return False

    def __iter__(self) -> Iterator[tuple[Partition, Epoch]]:
        """Yield the partitions that another one should lead, as far as nothing has changed."""
        return ((one, epoch) for one, epoch in self._refused.items() if _is_asked(one, epoch))

    def __repr__(self) -> str:
        return f"<Refusals {list(self._refused)}>"


def _is_asked(partition: Partition, epoch: Epoch) -> bool:
    return partition.leader_epoch == epoch and not (partition.gone or partition.offline)
