"""The replicas of this node that lack records: since when, and up to where.

Heartbeats, gauges, fetches and what is fetched again all ask here.  Asking changes nothing: a replica is forgotten
only by `settle`, at the end of a loop step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model import Now, Offset

if TYPE_CHECKING:
    from barnabas.broker.replicas.partition import Partition
    from barnabas.log.log import Log

__all__ = ["Lack", "Lacking"]


class Lack(NamedTuple):
    """A replica lacks records until its log has all below `end` again; `since`: monotonic seconds."""

    end: Offset
    since: float


class Lacking:
    """The replicas that lack records, in the order in which they were found."""

    __slots__ = ("_lacks", "_whole_again")

    def __init__(self, whole_again: Callable[[Log], None]) -> None:
        """`whole_again` hears of each log that has again what it lacked."""
        self._lacks: dict[Partition, Lack] = {}
        self._whole_again = whole_again

    def __len__(self) -> int:
        return len(self._lacks)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._lacks)

    def __repr__(self) -> str:
        return f"<Lacking {' '.join(f'{p.topic}-{p.index}<{lack.end}' for p, lack in self._lacks.items())}>"

    def of(self, partition: Partition) -> Lack | None:
        """Return what a replica lacks; None: nothing that is known."""
        return self._lacks.get(partition)

    def note(self, partition: Partition, now: Now, end: Offset = 0) -> None:
        """A replica lacks records, perhaps all up to the high watermark that it knows, and up to `end`."""
        lack = self._lacks.get(partition, Lack(0, now.mono))
        self._lacks[partition] = lack._replace(end=max(lack.end, end, partition.high_watermark))

    def cut(self, partition: Partition) -> None:
        """A log was cut back to where it agrees with its leader's, which decides what it lacks."""
        if (lack := self._lacks.get(partition)) is not None:
            self._lacks[partition] = lack._replace(end=min(lack.end, partition.log.log_end_offset))

    def settle(self) -> None:
        """Forget the replicas that have everything again that they knew to be committed, and those that went.

        Not before, though nothing unreadable is left: meanwhile the leader has heard of where they begin anew.
        """
        for partition, lack in list(self._lacks.items()):
            log = partition.log
            if partition.gone or (not log.damage and log.acknowledged_end_offset >= lack.end):
                del self._lacks[partition]
                if not partition.gone:
                    self._whole_again(log)
