"""Which leader epoch started at which offset (KIP-101): a follower and a leader compare this to find where their
logs diverge.

It is kept as two growing columns, and written to `leader-epoch-checkpoint` together with the sync of the
records that started the epoch, never before them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from barnabas.model import NO_EPOCH, NO_OFFSET, Epoch, Offset

__all__ = ["EpochCache"]


class EpochCache:
    """Epochs and their start offsets, both strictly growing (epochs) and never falling (offsets)."""

    __slots__ = ("dirty", "epochs", "latest", "starts")

    def __init__(self, entries: Iterable[tuple[Epoch, Offset]] = ()) -> None:
        self.epochs: list[Epoch] = []
        self.starts: list[Offset] = []
        self.latest: Epoch = NO_EPOCH
        self.dirty = False
        """Whether the file does not have these epochs yet."""
        for epoch, start in entries:
            self.assign(epoch, start)
        self.dirty = False

    def __repr__(self) -> str:
        rows = " ".join(f"{epoch}@{start}" for epoch, start in self.entries())
        return f"<EpochCache {rows or 'empty'}>"

    def __len__(self) -> int:
        return len(self.epochs)

    def entries(self) -> list[tuple[Epoch, Offset]]:
        """(epoch, start offset) rows, oldest first."""
        return list(zip(self.epochs, self.starts, strict=True))

    def assign(self, epoch: Epoch, start: Offset) -> None:
        """Epoch `epoch` begins at `start`.  Rows that contradict it (same or later start, later epoch) go.

        An epoch that is already there with an earlier start stays as it is.
        """
        if epoch < 0:
            return
        if self.epochs and self.epochs[-1] == epoch and self.starts[-1] <= start:
            return
        while self.epochs and (self.epochs[-1] >= epoch or self.starts[-1] >= start):
            if self.epochs[-1] == epoch and self.starts[-1] < start:
                start = self.starts[-1]
            self.epochs.pop()
            self.starts.pop()
        self.epochs.append(epoch)
        self.starts.append(start)
        self.latest = epoch
        self.dirty = True

    def truncate_from_end(self, end: Offset) -> None:
        """Forget epochs that begin at or after `end` (the log was cut there)."""
        keep = bisect_left(self.starts, end)
        if keep < len(self.starts):
            del self.starts[keep:], self.epochs[keep:]
            self.latest = self.epochs[-1] if self.epochs else NO_EPOCH
            self.dirty = True

    def truncate_from_start(self, start: Offset) -> None:
        """Forget what lies before `start` (records were deleted); the epoch in force begins there now."""
        row = bisect_right(self.starts, start) - 1
        if row > 0:
            del self.starts[:row], self.epochs[:row]
            self.dirty = True
        if self.starts and self.starts[0] < start:
            self.starts[0] = start
            self.dirty = True

    def clear(self) -> None:
        self.dirty = self.dirty or bool(self.epochs)
        self.epochs.clear()
        self.starts.clear()
        self.latest = NO_EPOCH

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch in which the record at `offset` was written; NO_EPOCH before the first known."""
        row = bisect_right(self.starts, offset) - 1
        return self.epochs[row] if row >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: Epoch, log_end: Offset) -> tuple[Epoch, Offset]:
        """Largest known epoch up to `epoch`, and where it ends (OffsetForLeaderEpoch, KIP-101 and KIP-279).

        The latest epoch ends at `log_end`; an epoch before the first known one gives (epoch, start of the
        first); NO_EPOCH, or one beyond the latest, gives (-1, -1).
        """
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.epochs[-1]:
            return epoch, log_end
        row = bisect_right(self.epochs, epoch)
        if row == 0:
            return epoch, self.starts[0]
        return self.epochs[row - 1], self.starts[row]
