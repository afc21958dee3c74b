"""Simulated consumers that read committed records only, and leave out what was aborted (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barnabas.model import Offset, ProducerId, TopicPartition
from barnabas.sim.cluster.clients.consumer import EARLIEST, Consumer, LastReader, Reader
from barnabas.sim.kernel.report import InvariantViolation

if TYPE_CHECKING:
    from barnabas.sim.cluster.clients.consumer import Reading
    from barnabas.wire.records import BatchHeader

__all__ = ["CommittedConsumer", "LastCommittedReader", "StableOffsets"]


class StableOffsets:
    """From where and how far readers were told that everything is decided, rising.

    A row is (true seconds, last stable offset, log start offset).  Where the first record of an open transaction
    was deleted, all that is left may be open, and the log is stable up to its start.
    """

    def __init__(self) -> None:
        self.seen: dict[TopicPartition, list[tuple[float, Offset, Offset]]] = {}

    def note(self, where: TopicPartition, at: float, stable: Offset, start: Offset) -> None:
        """A reader was told so."""
        rows = self.seen.setdefault(where, [])
        if not rows or stable > rows[-1][1]:
            rows.append((at, stable, start))

    def __repr__(self) -> str:
        return f"<StableOffsets of {len(self.seen)} partitions>"


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
        self.stable.note(reading.where, self.contact.time, data.last_stable_offset, data.log_start_offset)
        self._aborted = _Aborted(data.aborted_transactions or ())
        return super()._take(reading, data, begun)

    async def told_end(self, reading: Reading, end: int, begun: float) -> None:
        """A stable end that is the start of the log goes back with it.

        A broker that dies forgets lately deleted records: where these began a transaction, all after it is open.
        """
        heard = self.contact.time
        start = await self.offset(reading, EARLIEST)
        if start is not None and start < end:
            self.history.end(self.process, reading.name, end, begun, heard)

    def leaves_out(self, header: BatchHeader, data: Any) -> bool:
        self._aborted.reach(header)
        return header.is_transactional and header.producer_id in self._aborted.open

    def ended(self, header: BatchHeader) -> None:
        self._aborted.reach(header)
        self._aborted.open.discard(header.producer_id)


class CommittedConsumer(_CommittedOnly, Consumer):
    """Reads on and on, committed records only."""


class LastCommittedReader(_CommittedOnly, LastReader):
    """Reads everything that is committed, once nothing is open any more."""
