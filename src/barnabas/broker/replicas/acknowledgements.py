"""What waits for records of a partition to become safe."""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.model import Offset

__all__ = ["Acknowledgement"]


class Acknowledgement:
    """One appended batch whose producer waits until the log is acknowledged up to `end`.

    `everywhere`: by all in-sync replicas (acks=all), else by this node alone (acks=1).
    """

    __slots__ = ("end", "everywhere")

    def __init__(self, end: Offset, everywhere: bool) -> None:
        self.end = end
        self.everywhere = everywhere

    def settle(self, error: ErrorCode) -> None:
        """It came to an end: NONE when the batch is safe.  Called once, by the partition."""
        raise NotImplementedError

    def park(self) -> bool:
        """The turn is over and it must wait: from now on its deadline counts.  False: nobody waits for it."""
        return True
