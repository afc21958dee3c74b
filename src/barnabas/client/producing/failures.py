"""The errors of records that nobody has heard of yet: `flush` and `close` raise the first of them."""

from __future__ import annotations

from barnabas.client.producing.batching import Batch
from barnabas.errors import BarnabasError

__all__ = ["Failures"]

_MOST = 1000
"""Failed batches kept.  Only the first is raised: later ones count once all before them were heard of."""


class Failures:
    """`failures.failed(batch)`, `failures.heard(batch, 3)`; `failures.take()` -> the first error unheard."""

    def __init__(self) -> None:
        self._unheard: dict[Batch, set[int]] = {}

    def __repr__(self) -> str:
        return f"<Failures batches={len(self._unheard)}>"

    def failed(self, batch: Batch) -> None:
        """Keep the error of this batch until each of its records was heard of; callbacks hear of theirs."""
        unheard = set(range(len(batch.records))) - {index for index, _ in batch.callbacks}
        if unheard and len(self._unheard) < _MOST:
            self._unheard[batch] = unheard

    def heard(self, batch: Batch, index: int) -> None:
        """The user has been told of this record's error."""
        unheard = self._unheard.get(batch)
        if unheard is not None:
            unheard.discard(index)
            if not unheard:
                del self._unheard[batch]

    def take(self) -> BarnabasError | None:
        """Return the first error that nobody has heard of, and forget all."""
        first = next(iter(self._unheard), None)
        self._unheard.clear()
        return None if first is None else first.error
