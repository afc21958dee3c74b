"""Simulated consumers that read committed records only, and leave out what was aborted (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.model import TopicPartition
from barnabas.sim.cluster.clients.consumer import Consumer, LastReader
from barnabas.sim.cluster.clients.contact import Contact
from barnabas.sim.kernel.report import InvariantViolation

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.consumer import Reading
    from barnabas.sim.cluster.history import History
    from barnabas.wire.records import BatchHeader

__all__ = ["CommittedConsumer", "LastCommittedReader", "StableOffsets"]


class StableOffsets:
    """How far readers were told that everything is decided: (true seconds, last stable offset), rising."""

    def __init__(self) -> None:
        self.seen: dict[TopicPartition, list[tuple[float, int]]] = {}

    def note(self, where: TopicPartition, at: float, stable: int) -> None:
        rows = self.seen.setdefault(where, [])
        if not rows or stable > rows[-1][1]:
            rows.append((at, stable))

    def __repr__(self) -> str:
        return f"<StableOffsets of {len(self.seen)} partitions>"


class _Aborted:
    """The aborted transactions of one answer: whose records are left out from which offset, to the marker."""

    def __init__(self) -> None:
        self.left: list[tuple[int, int]] = []
        self.open: set[int] = set()

    def begin(self, data: Any) -> None:
        """The batches of this answer come now."""
        rows = data.aborted_transactions or []
        self.left = sorted((row.first_offset, row.producer_id) for row in rows)
        self.open = set()

    def leaves_out(self, header: BatchHeader) -> bool:
        self._reach(header)
        return header.is_transactional and header.producer_id in self.open

    def ended(self, header: BatchHeader) -> None:
        self._reach(header)
        self.open.discard(header.producer_id)

    def _reach(self, header: BatchHeader) -> None:
        while self.left and self.left[0][0] <= header.last_offset:
            self.open.add(self.left.pop(0)[1])


def _check(contact: Contact, reading: Reading, data: Any, stable: StableOffsets) -> None:
    if data.last_stable_offset > data.high_watermark:
        raise InvariantViolation(
            "T2",
            f"{contact.name}: {reading.name} is stable up to {data.last_stable_offset}, beyond its high "
            f"watermark {data.high_watermark}",
        )
    stable.note(reading.where, contact.time, data.last_stable_offset)


class CommittedConsumer(Consumer):
    """Reads on and on, committed records only."""

    isolation = 1

    def __init__(
        self,
        contact: Contact,
        history: History,
        partitions: list[TopicPartition],
        interval: float,
        stable: StableOffsets,
    ) -> None:
        super().__init__(contact, history, partitions, interval)
        self.stable = stable
        self._aborted = _Aborted()

    def _take(self, reading: Reading, data: Any, begun: float) -> int:
        _check(self.contact, reading, data, self.stable)
        self._aborted.begin(data)
        return super()._take(reading, data, begun)

    def leaves_out(self, header: BatchHeader, data: Any) -> bool:
        return self._aborted.leaves_out(header)

    def ended(self, header: BatchHeader) -> None:
        self._aborted.ended(header)


class LastCommittedReader(LastReader):
    """Reads everything that is committed, once nothing is open any more."""

    isolation = 1

    def __init__(
        self, contact: Contact, history: History, where: TopicPartition, stable: StableOffsets
    ) -> None:
        super().__init__(contact, history, where)
        self.stable = stable
        self._aborted = _Aborted()

    def _take(self, reading: Reading, data: Any, begun: float) -> int:
        _check(self.contact, reading, data, self.stable)
        self._aborted.begin(data)
        return super()._take(reading, data, begun)

    def leaves_out(self, header: BatchHeader, data: Any) -> bool:
        return self._aborted.leaves_out(header)

    def ended(self, header: BatchHeader) -> None:
        self._aborted.ended(header)
