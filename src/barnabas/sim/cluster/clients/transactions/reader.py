"""Simulated consumers that read committed records only, and leave out what was aborted (KIP-98)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from barnabas.model import Offset, ProducerId, TopicPartition
from barnabas.sim.cluster.clients.consumer import Consumer, LastReader, Reader
from barnabas.sim.kernel.report import InvariantViolation

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.consumer import Reading
    from barnabas.wire.records import BatchHeader

__all__ = ["CommittedConsumer", "LastCommittedReader", "Markers", "StableOffsets"]


class StableOffsets:
    """How far readers were told that everything is decided.

    `seen`: (true seconds, last stable offset), rising.
    """

    def __init__(self) -> None:
        self.seen: dict[TopicPartition, list[tuple[float, Offset]]] = {}
        self._committed: dict[TopicPartition, dict[Offset, Offset]] = {}
        """Last stable offset -> the least high watermark that came with it."""
        self._sorted: dict[TopicPartition, tuple[list[Offset], list[Offset]]] = {}

    def note(self, where: TopicPartition, at: float, stable: Offset, high_watermark: Offset) -> None:
        """A reader was told both."""
        rows = self.seen.setdefault(where, [])
        if not rows or stable > rows[-1][1]:
            rows.append((at, stable))
        least = self._committed.setdefault(where, {})
        least[stable] = min(high_watermark, least.get(stable, high_watermark))
        self._sorted.pop(where, None)

    def least_committed(self, where: TopicPartition, offset: Offset) -> Offset | None:
        """The least high watermark with which a reader was told that `offset` is stable; None: nobody was."""
        if where not in self._sorted:
            told = sorted(self._committed.get(where, {}).items())
            least = list(accumulate((mark for _, mark in reversed(told)), min))
            self._sorted[where] = [stable for stable, _ in told], least[::-1]
        stables, least = self._sorted[where]
        first = bisect_right(stables, offset)
        return least[first] if first < len(least) else None

    def __repr__(self) -> str:
        return f"<StableOffsets of {len(self.seen)} partitions>"


class Markers:
    """Where the markers of each producer are at the end."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[TopicPartition, ProducerId], list[Offset]] = {}

    def note(self, where: TopicPartition, producer_id: ProducerId, offset: Offset) -> None:
        """There is one."""
        insort(self._offsets.setdefault((where, producer_id), []), offset)

    def after(self, where: TopicPartition, producer_id: ProducerId, offset: Offset) -> Offset | None:
        """The marker that ended the transaction of what this producer wrote at `offset`."""
        offsets = self._offsets.get((where, producer_id), [])
        first = bisect_right(offsets, offset)
        return offsets[first] if first < len(offsets) else None

    def __repr__(self) -> str:
        return f"<Markers {sum(map(len, self._offsets.values()))}>"


class _Aborted:
    """The aborted transactions of one answer: whose records are left out from which offset, to the marker."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.left = sorted((row.first_offset, row.producer_id) for row in rows)
        self.open: set[ProducerId] = set()

    def reach(self, header: BatchHeader) -> None:
        """This batch comes next."""
        while self.left and self.left[0][0] <= header.last_offset:
            self.open.add(self.left.pop(0)[1])


class _CommittedOnly(Reader):
    """What readers of committed records have in common; beside a kind of reader, and before it."""

    isolation = 1

    def __init__(self, *reader: Any, stable: StableOffsets) -> None:
        super().__init__(*reader)
        self.stable = stable
        self._aborted = _Aborted(())

    def _take(self, reading: Reading, data: Any, begun: float) -> int:
        if data.last_stable_offset > data.high_watermark:
            raise InvariantViolation(
                "T2",
                f"{self.contact.name}: {reading.name} is stable up to {data.last_stable_offset}, beyond its "
                f"high watermark {data.high_watermark}",
            )
        self.stable.note(reading.where, self.contact.time, data.last_stable_offset, data.high_watermark)
        self._aborted = _Aborted(data.aborted_transactions or ())
        return super()._take(reading, data, begun)

    def leaves_out(self, header: BatchHeader, data: Any) -> bool:
        self._aborted.reach(header)
        return header.is_transactional and header.producer_id in self._aborted.open

    def ended(self, reading: Reading, header: BatchHeader) -> None:
        self._aborted.reach(header)
        self._aborted.open.discard(header.producer_id)


class CommittedConsumer(_CommittedOnly, Consumer):
    """Reads on and on, committed records only."""


class LastCommittedReader(_CommittedOnly, LastReader):
    """Reads everything that is committed, once nothing is open any more, and notes the markers."""

    def __init__(self, *reader: Any, stable: StableOffsets, markers: Markers) -> None:
        super().__init__(*reader, stable=stable)
        self.markers = markers

    def ended(self, reading: Reading, header: BatchHeader) -> None:
        super().ended(reading, header)
        self.markers.note(reading.where, header.producer_id, header.base_offset)
