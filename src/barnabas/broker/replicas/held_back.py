"""Partitions whose acknowledgements one follower holds back though enough other replicas have the records.

`replica.lag.time.max.ms` alone would let a follower whose disk or link hangs stop every producer for that long.
The leader knows sooner: each partition whose high watermark is below its end is held back, and the first look
notes that end.  If the high watermark has not reached it after `barnabas.replica.stall.max.ms`, the in-sync
followers that have not reached it either are stalled, provided that enough other replicas have: as many as
`min.insync.replicas`, and one besides the leader, so that a leader that hears nobody takes nobody out.

A stalled follower returns only after it kept up for a while, which doubles each time: a disk that hangs now and
then would stop the producers each time it came back.  A look that comes late judges nobody, because then this
node itself stood still.
"""

from __future__ import annotations

from math import inf
from typing import Generic, Protocol, TypeVar

from barnabas.broker.replicas.replica_progress import ReplicaProgress
from barnabas.model import NodeId, Now, Offset

__all__ = ["HeldBack"]

_LOOK_EVERY_S = 0.25
_LATE_S = 0.75
"""Seconds between two looks after which this node itself stood still."""
_KEEP_UP_S = 2.0
"""Seconds for which a follower has to keep up after its first stall."""
_KEEP_UP_MOST_S = 300.0
_FORGIVEN_S = 600.0
"""Seconds in sync after which earlier stalls of a follower count no longer."""


class _Leading(Protocol):
    """The leader's knowledge of its replicas (`LeaderState`)."""

    noted: bool
    stalled: set[NodeId]
    progress: dict[NodeId, ReplicaProgress]
    isr: tuple[NodeId, ...]
    proposed: tuple[NodeId, ...] | None

    def holding_back(self, end: Offset) -> tuple[NodeId, ...]: ...


class _Led(Protocol):
    """A partition that this node leads, or led (`Partition`)."""

    gone: bool
    offline: bool
    is_leader: bool
    high_watermark: Offset

    @property
    def leading(self) -> _Leading: ...
    @property
    def replicated_end(self) -> Offset: ...


_P = TypeVar("_P", bound=_Led)


class _Probation:
    """A follower that stalled: since when it keeps up (mono s), and for how long it has to."""

    __slots__ = ("ended", "since", "wait")

    def __init__(self) -> None:
        self.wait = 0.0
        self.since = -inf
        self.ended = -inf
        """When the last one ended; inf while it is on probation."""

    def begin(self, now: Now) -> None:
        forgiven = now.mono - self.ended > _FORGIVEN_S
        self.wait = _KEEP_UP_S if forgiven else min(self.wait * 2, _KEEP_UP_MOST_S)
        self.since = now.mono
        self.ended = inf


class HeldBack(Generic[_P]):
    """Those of one broker.  Times are monotonic seconds."""

    __slots__ = ("_held", "_looked_at", "_probations", "limit", "noted")

    def __init__(self, limit: float) -> None:
        """`limit`: seconds for which acknowledgements may wait for one follower."""
        self.limit = limit
        self.noted: list[_P] = []
        """Partitions that put themselves here (once) when their high watermark stayed below their end."""
        self._held: dict[_P, tuple[float, Offset]] = {}
        """Since when each waits, and for the high watermark to reach what."""
        self._probations: dict[tuple[_P, NodeId], _Probation] = {}
        self._looked_at = -inf

    def next_deadline(self) -> float | None:
        """Return when to look next; None while nothing is held back."""
        if self.noted or self._held:
            return self._looked_at + _LOOK_EVERY_S
        return self._looked_at + _LOOK_EVERY_S if self._probations else None

    def look(self, now: Now) -> list[tuple[_P, tuple[NodeId, ...], tuple[NodeId, ...]]]:
        """Return the partitions with followers that stalled, and with those that kept up long enough to return."""
        if now.mono < self._looked_at + _LOOK_EVERY_S:
            return []
        stood_still = now.mono > self._looked_at + _LATE_S
        self._looked_at = now.mono
        returning = self._returning(now)
        stalled = self._stalled(now, stood_still)
        both = {**stalled, **returning}
        return [(p, stalled.get(p, ()), returning.get(p, ())) for p in both]

    def _stalled(self, now: Now, stood_still: bool) -> dict[_P, tuple[NodeId, ...]]:
        found: dict[_P, tuple[NodeId, ...]] = {}
        noted = self.noted[:]
        self.noted.clear()
        held, self._held = self._held, {}
        for partition in dict.fromkeys((*held, *noted)):
            end = partition.replicated_end
            if (
                partition.gone
                or partition.offline
                or not partition.is_leader
                or partition.high_watermark >= end
            ):
                partition.leading.noted = False
                continue
            since, target = held.get(partition, (now.mono, end))
            if stood_still or partition.high_watermark >= target:
                since, target = now.mono, end
            elif now.mono - since >= self.limit and partition.leading.proposed is None:
                if nodes := partition.leading.holding_back(target):
                    found[partition] = nodes
                    for node in nodes:
                        self._begin(partition, node, now)
                since, target = now.mono, end
            self._held[partition] = since, target
        return found

    def _begin(self, partition: _P, node: NodeId, now: Now) -> None:
        probation = self._probations.setdefault((partition, node), _Probation())
        probation.begin(now)
        partition.leading.stalled.add(node)

    def _returning(self, now: Now) -> dict[_P, tuple[NodeId, ...]]:
        found: dict[_P, tuple[NodeId, ...]] = {}
        for (partition, node), probation in list(self._probations.items()):
            leading = partition.leading
            replica = leading.progress.get(node)
            if replica is None or partition.gone or not partition.is_leader:
                leading.stalled.discard(node)
                del self._probations[partition, node]
            elif probation.ended < inf:
                if now.mono - probation.ended > _FORGIVEN_S:
                    del self._probations[partition, node]
            elif node not in leading.stalled or (node in leading.isr and leading.proposed is None):
                leading.stalled.discard(node)  # a new epoch, or the controller did not agree
                probation.ended = now.mono
            elif not replica.caught_up(partition.replicated_end, now, self.limit):
                probation.since = now.mono
            elif now.mono - probation.since >= probation.wait:
                leading.stalled.discard(node)
                probation.ended = now.mono
                found[partition] = (*found.get(partition, ()), node)
        return found

    def __repr__(self) -> str:
        return f"<HeldBack {len(self._held)} stalled={len(self._probations)}>"
