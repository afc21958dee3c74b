"""Which batches were aborted, for compaction, which reads a log from its start.

Every round removes aborted data.  A marker stays as long as a round still finds a batch of its transaction,
because readers decide by it what they may show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from barnabas.log.segments.transactions import AbortedTransaction
from barnabas.model import Offset, ProducerId
from barnabas.wire.records import BatchHeader

__all__ = ["Undecided"]


class Undecided:
    """The transactions that are open where the walk is."""

    __slots__ = ("_aborting", "_coming", "_committing", "_met")

    def __init__(self, rows: Iterable[AbortedTransaction], start: Offset) -> None:
        """`rows` of the transaction indexes; `start` is where the walk begins."""
        ahead = (row for row in rows if row.last_offset >= start)
        self._coming = deque(sorted(ahead, key=lambda row: row.first_offset))
        self._aborting: dict[ProducerId, AbortedTransaction] = {}
        self._met: set[ProducerId] = set()
        self._committing: set[ProducerId] = set()

    def __repr__(self) -> str:
        return f"<Undecided aborting={len(self._aborting)} committing={len(self._committing)}>"

    def _reach(self, offset: Offset) -> None:
        coming = self._coming
        while coming and coming[0].first_offset <= offset:
            row = coming.popleft()
            self._aborting.setdefault(row.producer_id, row)

    def data(self, header: BatchHeader) -> bool:
        """The walk meets a batch of records; true when it was aborted."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id not in self._aborting:
            self._committing.add(header.producer_id)
            return False
        self._met.add(header.producer_id)
        return True

    def marker(
        self, header: BatchHeader, *, abort: bool, index: list[AbortedTransaction] | None = None
    ) -> bool:
        """The walk meets the end of a transaction; true when no batch of it was met, so that it may go.

        The row of an aborted transaction whose marker stays is added to `index`.
        """
        self._reach(header.last_offset)
        producer_id = header.producer_id
        known = self._committing if not abort else self._met
        met = producer_id in known
        known.discard(producer_id)
        row = self._aborting.pop(producer_id, None) if abort else None
        if met and row is not None and index is not None:
            index.append(row)
        return not met
