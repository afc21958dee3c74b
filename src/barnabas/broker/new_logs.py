"""The logs of new partitions, made in threads: a topic's directories and files wait for the disk, and nobody else.

Creating a file waits whenever the file system writes its journal, and every sync of any log makes it do so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.directories.making import Making
from barnabas.model import TopicPartition

__all__ = ["MakeLogs", "NewLogs"]

LOGS_PER_JOB = 16


class MakeLogs:
    """A few logs to be made; `run` in any thread, once."""

    __slots__ = ("logs",)

    def __init__(self, logs: Sequence[tuple[LogDirectory, Making]]) -> None:
        self.logs = logs

    def __repr__(self) -> str:
        return f"<MakeLogs {len(self.logs)}>"

    def run(self) -> None:
        """Make them; each knows of its own error."""
        for _, making in self.logs:
            making.run()


class NewLogs:
    """What is to be made, and what a thread makes now: one job at a time, syncs need the threads too."""

    __slots__ = ("_doing", "_known", "aside", "waiting")

    def __init__(self) -> None:
        self.aside = False
        """Whether threads make them.  Else they are made at once, for whoever has none."""
        self.waiting: OrderedDict[TopicPartition, tuple[LogDirectory, Making]] = OrderedDict()
        self._known: set[TopicPartition] = set()
        self._doing: MakeLogs | None = None

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, tp: object) -> bool:
        return tp in self._known

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._known)

    def __repr__(self) -> str:
        return f"<NewLogs waiting={len(self.waiting)} of {len(self._known)}>"

    def add(self, directory: LogDirectory, making: Making) -> None:
        """Have it made."""
        self.waiting[making.topic_partition] = directory, making
        self._known.add(making.topic_partition)

    def hasten(self, tp: TopicPartition) -> None:
        """Somebody asks for it: it is made next."""
        if tp in self.waiting:
            self.waiting.move_to_end(tp, last=False)

    def next_job(self) -> MakeLogs | None:
        """What a thread should make now; hand it back to `returned`."""
        if self._doing is not None or not self.waiting:
            return None
        count = min(LOGS_PER_JOB, len(self.waiting))
        self._doing = MakeLogs([self.waiting.popitem(last=False)[1] for _ in range(count)])
        return self._doing

    def returned(self, job: MakeLogs) -> None:
        """A job has run."""
        self._doing = None
        self._known.difference_update(making.topic_partition for _, making in job.logs)
