"""The in-sync sets of the partitions that this node leads: which followers join or leave, and asking the
controller.

A follower joins once it holds everything below the high watermark and has reached this leader's epoch.  It
leaves when it has not caught up for `replica.lag.time.max.ms`, and sooner when acknowledgements wait for it
alone (`held_back`).  Neither takes effect until the controller has
agreed (AlterPartition, KIP-497). Until then a joining replica counts for the high watermark already, and a
leaving one still counts, so that the high watermark is right whatever the controller decides.

One request is in flight at a time, with all partitions that need a change.  Its answer says for each
partition what to do next (KIP-497, KIP-841):

    agreed                     the set is the answered one
    not eligible, not tried    the last agreed set stays
    our view is old            wait for the metadata, which is on its way
    anything else              ask again
"""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.walk import Walk
from barnabas.errors import ErrorCode
from barnabas.model import NodeId, Now, Uuid
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partitions import HostedPartitions
    from barnabas.broker.replicas.partition import Partition

__all__ = ["InSyncSets"]

_ASKED_AT_ONCE = 200
"""Partitions of one request: the controller decides a request in one step of its loop."""
_RETRY_S = 0.05
"""Seconds before an unanswered request is made again."""
_ROLL_BACK = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
_WAIT_FOR_METADATA = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NEW_LEADER_ELECTED,
)

PARTITIONS_PER_STEP = 1000
"""Partitions of one step of a look for followers that do not keep up."""


class InSyncSets:
    """What this node's partitions want changed.  Times are monotonic seconds."""

    __slots__ = (
        "_asked",
        "_broker",
        "_look_at",
        "_retry_at",
        "_walk",
        "_wanting",
        "expansions",
        "held_back",
        "shrinks",
    )

    def __init__(self, broker: HostedPartitions) -> None:
        self._broker = broker
        self._wanting: dict[Partition, None] = {}
        self._asked: dict[tuple[Uuid, int], tuple[Partition, int, int]] | None = None
        self._retry_at = inf
        self._look_at = 0.0
        self._walk: Walk[Partition] = Walk()
        self.held_back = broker.held_back
        self.expansions = self.shrinks = 0

    # ---- who joins, who leaves ---------------------------------------------------------------------------

    def consider(self, partition: Partition, node: NodeId, now: Now) -> None:
        """A follower outside the in-sync set fetched: propose it if it has caught up."""
        if (
            node in partition.leading.isr
            or partition.leading.proposed is not None
            or not partition.may_join(node)
        ):
            return
        self.expansions += 1
        self._propose(partition, (*partition.leading.isr, node), now)

    def look(self, now: Now) -> None:
        """Every half of `replica.lag.time.max.ms`, propose sets without the laggards, some partitions per step."""
        if not self._walk.running:
            if now.mono < self._look_at:
                return
            lag = self._broker.config.int("replica.lag.time.max.ms") / 1000.0
            self._look_at = now.mono + lag / 2
            self._walk.begin(list(self._broker.partitions()))
        for partition in self._walk.slice(PARTITIONS_PER_STEP):
            if (
                not partition.is_leader
                or partition.offline
                or partition.gone
                or partition.leading.proposed is not None
            ):
                continue
            self._take_out(partition, partition.laggards(now), now)

    def _take_out(self, partition: Partition, lagging: tuple[NodeId, ...], now: Now) -> None:
        if lagging:
            self.shrinks += 1
            self._propose(partition, tuple(n for n in partition.leading.isr if n not in lagging), now)

    @property
    def looking(self) -> bool:
        """Whether a look is not over: the next step of it should not wait for long."""
        return self._walk.running

    def _propose(self, partition: Partition, isr: tuple[NodeId, ...], now: Now) -> None:
        partition.propose(isr)
        self._wanting[partition] = None
        self._send(now)

    # ---- asking the controller ---------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `tick` has something to do."""
        look_at = self.held_back.next_deadline()
        at = self._retry_at if look_at is None else min(look_at, self._retry_at)
        return None if at == inf else at

    def tick(self, now: Now) -> None:
        """Propose sets without stalled followers, and with those that return; ask again what was not asked."""
        for partition, stalled, returning in self.held_back.look(now):
            self._take_out(partition, stalled, now)
            for node in returning:
                self.consider(partition, node, now)
        if now.mono >= self._retry_at:
            self._retry_at = inf
            self._send(now)

    def _send(self, now: Now) -> None:
        if self._asked is not None or self._retry_at != inf:
            return
        asked: dict[tuple[Uuid, int], tuple[Partition, int, int]] = {}
        topics: dict[Uuid, list[AlterPartitionRequestPartitionData]] = {}
        for partition in list(islice(self._wanting, _ASKED_AT_ONCE)):
            del self._wanting[partition]
            if not partition.is_leader or partition.gone or partition.leading.proposed is None:
                continue
            asked[partition.topic_id, partition.index] = (
                partition,
                partition.leader_epoch,
                partition.partition_epoch,
            )
            topics.setdefault(partition.topic_id, []).append(self._data(partition))
        if asked:
            self._asked = asked
            self._broker.host.alter_partitions(
                AlterPartitionRequest(
                    broker_id=self._broker.node_id,
                    broker_epoch=self._broker.epoch,
                    topics=[
                        AlterPartitionRequestTopicData(topic_id=topic_id, partitions=rows)
                        for topic_id, rows in topics.items()
                    ],
                )
            )

    def _data(self, partition: Partition) -> AlterPartitionRequestPartitionData:
        own, progress = self._broker.node_id, partition.leading.progress
        return AlterPartitionRequestPartitionData(
            partition_index=partition.index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(
                    broker_id=node,
                    broker_epoch=self._broker.epoch if node == own else progress[node].broker_epoch,
                )
                for node in partition.leading.proposed or ()
            ],
        )

    def answered(self, answer: AlterPartitionResponse | None, now: Now) -> None:
        """The controller's answer; None: it could not be asked, or its answer was lost."""
        asked, self._asked = self._asked or {}, None
        if answer is None or answer.error_code:
            self._wanting.update(dict.fromkeys(partition for partition, _, _ in asked.values()))
            self._retry_at = now.mono + _RETRY_S
            return
        again = False
        for topic in answer.topics:
            for data in topic.partitions:
                entry = asked.pop((topic.topic_id, data.partition_index), None)
                if entry is not None:
                    again |= self._settle(*entry, data)
        for partition, _, _ in asked.values():
            if partition.leading.proposed is not None:
                self._wanting[partition] = None
                again = True
        if again:
            self._retry_at = now.mono + _RETRY_S
        self._send(now)

    def _settle(
        self,
        partition: Partition,
        leader_epoch: int,
        partition_epoch: int,
        data: AlterPartitionResponsePartitionData,
    ) -> bool:
        """One partition's answer; true when it has to be asked again."""
        if not partition.is_leader or partition.leader_epoch != leader_epoch or partition.gone:
            return False
        error = data.error_code
        if error == ErrorCode.NONE:
            partition.agreed(tuple(data.isr), data.leader_epoch, data.partition_epoch)
            return False
        if partition.partition_epoch != partition_epoch:
            return False  # the metadata came first, and with it what counts
        if error in _ROLL_BACK:
            partition.propose(None)
            return False
        if error in _WAIT_FOR_METADATA:
            return False
        self._wanting[partition] = None
        return True

    def __repr__(self) -> str:
        return f"<InSyncSets wanting={len(self._wanting)} asked={len(self._asked or ())}>"
