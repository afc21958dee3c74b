"""Which partitions still have to hear how a transaction ended, and which broker is asked next.

The coordinator hands in an `Ending`; a driver takes requests (`next_request`) and brings answers (`answered`,
`failed`).  A partition is asked for ever, at whoever leads it then, until it has its marker or is deleted.  One
request to a broker is in flight at a time; everything that waits for that broker shares the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from barnabas.controller.image import MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, Epoch, NodeId, Now, ProducerId, TopicPartition
from barnabas.wire.schemas.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = ["MARKERS_PER_REQUEST", "RETRY_S", "Ending", "MarkersStatistics", "TransactionMarkers"]

RETRY_S = 0.1
"""Seconds after which a partition is asked again that had no leader, or whose leader could not write."""
MARKERS_PER_REQUEST = 1000
"""Partitions that one request asks."""

_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The partition has its marker, or can have no record of the transaction."""
_SUPERSEDED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A newer coordinator, or a newer producer, was there: what is left of this end is not ours."""


class MarkersStatistics(NamedTuple):
    """Counts for the metrics."""

    endings: int
    partitions: int
    in_flight: int


class Ending:
    """A transaction whose end is decided.  `left` are the partitions that still have no marker."""

    __slots__ = (
        "commit",
        "coordinator_epoch",
        "done",
        "left",
        "on_done",
        "producer_epoch",
        "producer_id",
        "superseded",
        "transaction_version",
    )

    def __init__(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: Epoch,
        transaction_version: int,
        partitions: Iterable[TopicPartition],
        on_done: Callable[[Now], None],
    ) -> None:
        """`on_done` is called once, when no partition is left."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.left = set(partitions)
        self.on_done = on_done
        self.done = False
        self.superseded = False
        """Somebody else ends it: `on_done` is never called."""

    def marker(self, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
        """What a broker is asked to write."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            by_topic.setdefault(topic, []).append(index)
        return WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_result=self.commit,
            topics=[
                WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic.items()
            ],
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=self.transaction_version,
        )

    def __repr__(self) -> str:
        what = "commit" if self.commit else "abort"
        return (
            f"<Ending {what} producer={self.producer_id} epoch={self.producer_epoch} left={len(self.left)}>"
        )


_Item = tuple[Ending, TopicPartition]


class TransactionMarkers:
    """All markers that this coordinator has still to see written.

    `image` says who leads; `wake` is called with each broker for which there is something to send.
    """

    __slots__ = ("_image", "_in_flight", "_later", "_queues", "wake")

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self.wake: Callable[[NodeId], None] = _nobody
        self._queues: dict[NodeId, dict[_Item, None]] = {}
        self._in_flight: dict[NodeId, list[_Item]] = {}
        self._later: list[tuple[float, _Item]] = []
        """What is asked again, and when (monotonic seconds)."""

    def begin(self, ending: Ending, now: Now) -> None:
        """See that the partitions of `ending` get their markers."""
        if not ending.left:
            self._finish(ending, now)
            return
        self._assign([(ending, tp) for tp in ending.left], now)

    def withdraw(self, ending: Ending) -> None:
        """This node does not coordinate the transaction any more."""
        ending.superseded = True

    def _assign(self, items: Iterable[_Item], now: Now) -> None:
        """Put each into the queue of the broker that leads it."""
        image, touched = self._image(), set()
        for item in items:
            ending, tp = item
            if ending.superseded or tp not in ending.left:
                continue
            state = image.partition(tp.topic, tp.partition)
            if state is None:  # the topic was deleted, and the transaction's records with it
                self._written(item, now)
                continue
            if state.leader == NO_NODE:
                self._later.append((now.mono + RETRY_S, item))
                continue
            self._queues.setdefault(state.leader, {})[item] = None
            touched.add(state.leader)
        for leader in sorted(touched):
            self.wake(leader)

    def next_request(self, leader: NodeId) -> WriteTxnMarkersRequest | None:
        """What to send to `leader` now; None when nothing waits for it, or an answer is still to come."""
        queue = self._queues.get(leader)
        if not queue or leader in self._in_flight:
            return None
        items: list[_Item] = []
        for item in list(islice(queue, MARKERS_PER_REQUEST)):
            del queue[item]
            if not item[0].superseded:
                items.append(item)
        if not queue:
            del self._queues[leader]
        if not items:
            return self.next_request(leader)
        self._in_flight[leader] = items
        by_ending: dict[Ending, list[TopicPartition]] = {}
        for ending, tp in items:
            by_ending.setdefault(ending, []).append(tp)
        return WriteTxnMarkersRequest(markers=[ending.marker(tps) for ending, tps in by_ending.items()])

    def answered(self, leader: NodeId, response: WriteTxnMarkersResponse, now: Now) -> None:
        """The broker's answer to the last request.  A partition that it leaves out is asked again."""
        codes: dict[tuple[ProducerId, TopicPartition], ErrorCode] = {}
        for result in response.markers:
            for topic in result.topics:
                for partition in topic.partitions:
                    key = (result.producer_id, TopicPartition(topic.name, partition.partition_index))
                    codes[key] = ErrorCode(partition.error_code)
        for item in self._in_flight.pop(leader, ()):
            ending, tp = item
            code = codes.get((ending.producer_id, tp), ErrorCode.UNKNOWN_SERVER_ERROR)
            if ending.superseded:
                continue
            if code in _DONE:
                self._written(item, now)
            elif code in _SUPERSEDED:
                ending.superseded = True
            else:
                self._later.append((now.mono + RETRY_S, item))

    def failed(self, leader: NodeId, now: Now) -> None:
        """The broker could not be asked, or did not answer: what was asked is asked again, of who leads then."""
        queued = [*self._in_flight.pop(leader, ()), *self._queues.pop(leader, ())]
        self._later.extend((now.mono + RETRY_S, item) for item in queued)

    def _written(self, item: _Item, now: Now) -> None:
        ending, tp = item
        ending.left.discard(tp)
        if not ending.left:
            self._finish(ending, now)

    def _finish(self, ending: Ending, now: Now) -> None:
        if not ending.done and not ending.superseded:
            ending.done = True
            ending.on_done(now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        return min(when for when, _ in self._later) if self._later else None

    def tick(self, now: Now) -> None:
        """Ask again where it is time."""
        due = [item for when, item in self._later if when <= now.mono]
        if due:
            self._later = [(when, item) for when, item in self._later if when > now.mono]
            self._assign(due, now)

    def statistics(self) -> MarkersStatistics:
        """Counts, computed now."""
        queued = [item for queue in self._queues.values() for item in queue]
        sent = [item for items in self._in_flight.values() for item in items]
        every = {*queued, *sent, *(item for _, item in self._later)}
        return MarkersStatistics(len({ending for ending, _ in every}), len(every), len(sent))

    def __repr__(self) -> str:
        count = self.statistics()
        return f"<TransactionMarkers {count.endings} endings, {count.partitions} partitions>"


def _nobody(leader: NodeId) -> None:
    """What is called before there is a driver."""
