"""What waits for records of a partition to become safe."""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.model import Offset

__all__ = ["Acknowledgement", "AcknowledgementQueue"]


class Acknowledgement:
    """One appended batch whose producer waits until the log is acknowledged up to `end`.

    `everywhere`: by all in-sync replicas (acks=all), else by this node alone (acks=1).
    """

    __slots__ = ("end", "everywhere")

    def __init__(self, end: Offset, everywhere: bool) -> None:
        self.end = end
        self.everywhere = everywhere

    def settle(self, error: ErrorCode) -> None:
        """Report the outcome, NONE when the batch is safe.  The partition calls it once."""
        raise NotImplementedError

    def park(self) -> bool:
        """The loop step is over and it must wait: from now on its deadline counts.  False: nobody waits for it."""
        return True


class AcknowledgementQueue:
    """The open acknowledgements of one partition."""

    __slots__ = ("_everywhere", "_here", "fresh", "purging")

    def __init__(self) -> None:
        self.fresh: list[Acknowledgement] = []
        """Of this loop step."""
        self._everywhere: dict[Acknowledgement, None] = {}
        self._here: dict[Acknowledgement, None] = {}
        self.purging: dict[Acknowledgement, None] = {}
        """Of DeleteRecords: they wait for the log start of every replica."""

    def __len__(self) -> int:
        return len(self.fresh) + len(self._everywhere) + len(self._here) + len(self.purging)

    def __repr__(self) -> str:
        return f"<AcknowledgementQueue {len(self)}>"

    def add(self, acknowledgement: Acknowledgement) -> None:
        """A batch was appended in this loop step."""
        self.fresh.append(acknowledgement)

    def add_purging(self, acknowledgement: Acknowledgement) -> None:
        """The log start was raised."""
        self.purging[acknowledgement] = None

    def forget(self, acknowledgement: Acknowledgement) -> None:
        """It does not wait any longer."""
        self._everywhere.pop(acknowledgement, None)
        self._here.pop(acknowledgement, None)
        self.purging.pop(acknowledgement, None)

    def dismiss(self, error: ErrorCode) -> None:
        """Settle all of them with this error."""
        waiting = [*self._everywhere, *self._here, *self.purging, *self.fresh]
        self._everywhere.clear()
        self._here.clear()
        self.purging.clear()
        self.fresh.clear()
        for acknowledgement in waiting:
            acknowledgement.settle(error)

    def refuse_unwritten(self, end: Offset) -> None:
        """What this loop step appended after `end` found no room on the disk."""
        refused = [acknowledgement for acknowledgement in self.fresh if acknowledgement.end > end]
        self.fresh = [acknowledgement for acknowledgement in self.fresh if acknowledgement.end <= end]
        for acknowledgement in refused:
            acknowledgement.settle(ErrorCode.KAFKA_STORAGE_ERROR)

    def advance(self, high_watermark: Offset, here: Offset, enough_in_sync: bool) -> None:
        """Settle what all in-sync replicas hold, and what this node holds up to `here`; park the rest."""
        safe = ErrorCode.NONE if enough_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if self._everywhere:
            _settle(self._everywhere, high_watermark, safe)
        if self._here:
            _settle(self._here, here, ErrorCode.NONE)
        if self.fresh:
            fresh, self.fresh = self.fresh, []
            for acknowledgement in fresh:
                if acknowledgement.everywhere:
                    if acknowledgement.end <= high_watermark:
                        acknowledgement.settle(safe)
                    elif acknowledgement.park():
                        self._everywhere[acknowledgement] = None
                elif acknowledgement.end <= here:
                    acknowledgement.settle(ErrorCode.NONE)
                elif acknowledgement.park():
                    self._here[acknowledgement] = None

    def purged(self, low_watermark: Offset) -> None:
        """Every replica starts there or later."""
        _settle(self.purging, low_watermark, ErrorCode.NONE)


def _settle(pending: dict[Acknowledgement, None], reached: Offset, error: ErrorCode) -> None:
    ready = [acknowledgement for acknowledgement in pending if acknowledgement.end <= reached]
    for acknowledgement in ready:
        del pending[acknowledgement]
        acknowledgement.settle(error)
