"""The offset checkpoints of one log directory: what each file says, and who may write it when.

They are synced, so a thread writes them (`CheckpointJob`) while the loop continues.  Only when a file must no
longer say what it says (a log is truncated, or made again under an earlier name), the loop corrects it at
once; what a thread was about to write is then void.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from barnabas.errors import StorageError
from barnabas.log.files.checkpoint import read_offsets, write_offsets
from barnabas.model import Offset, TopicPartition
from barnabas.ports import Disk

__all__ = ["CheckpointJob", "Checkpoints", "Rows"]

Rows = Mapping[TopicPartition, Offset]


class Checkpoints:
    """The `*-offset-checkpoint` files of a directory, by name."""

    __slots__ = ("_disk", "_guard", "_path", "_serials", "_written")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._guard = threading.Lock()
        self._written: dict[str, Rows] = {}
        """What each file says; one that is not in here is written anew at the next occasion."""
        self._serials: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Checkpoints {self._path} {sorted(self._written)}>"

    def read(self, name: str) -> tuple[Rows, bool]:
        """A checkpoint, and whether it could be read: a corrupt one counts as empty, and costs a recovery."""
        try:
            self._serials.setdefault(name, 0)
            found = self._written[name] = read_offsets(self._disk, f"{self._path}/{name}")
        except StorageError:
            return {}, False
        return found, True

    def says(self, name: str) -> Rows:
        """What the file says by now."""
        return self._written.get(name, {})

    def write(self, name: str, rows: Rows, *, durable: bool = True) -> None:
        """Write a checkpoint unless the file says that already.  Raises StorageError."""
        with self._guard:
            self._serials[name] = self._serials.get(name, 0) + 1
            self._write(name, rows, durable)

    def _write(self, name: str, rows: Rows, durable: bool) -> None:
        if self._written.get(name) != rows:
            write_offsets(self._disk, f"{self._path}/{name}", rows, durable=durable)
            self._written[name] = rows

    def lower(self, name: str, key: TopicPartition, offset: Offset) -> None:
        """See that the file says at most `offset` for a log, from now on.  Raises StorageError."""
        with self._guard:
            self._serials[name] = self._serials.get(name, 0) + 1
            rows = self._written.get(name, {})
            if rows.get(key, 0) > offset:
                self._write(name, {**rows, key: offset}, True)

    def forget(self, key: TopicPartition, known: Mapping[TopicPartition, object]) -> None:
        """No file shall say anything of `key`: its rows are an earlier log's.

        Rows of all logs that are not `known` leave with it, so that a topic costs one write and not many.
        Raises StorageError.
        """
        with self._guard:
            for name in self._serials:
                self._serials[name] += 1
                if key in (rows := self._written.get(name, {})):
                    left = {other: offset for other, offset in rows.items() if other in known}
                    self._write(name, left, True)

    def job(self, contents: Mapping[str, Rows], *, durable: bool = True) -> CheckpointJob | None:
        """Write these files, in a thread; None when they say that already."""
        with self._guard:
            news = {name: rows for name, rows in contents.items() if self._written.get(name) != rows}
            if not news:
                return None
            serials = {name: self._serials.setdefault(name, 0) for name in news}
            return CheckpointJob(self, self._path, news, serials, durable)

    def run(self, job: CheckpointJob) -> None:
        """Write what is not void by now.  Raises StorageError."""
        for name, rows in job.contents.items():
            with self._guard:
                if self._serials.get(name, 0) == job.serials[name]:
                    self._write(name, rows, job.durable)


class CheckpointJob:
    """Checkpoints to write; `run` may be called in any thread, once."""

    __slots__ = ("_owner", "cancelled", "contents", "directory", "durable", "serials")

    def __init__(
        self,
        owner: Checkpoints,
        directory: str,
        contents: Mapping[str, Rows],
        serials: Mapping[str, int],
        durable: bool,
    ) -> None:
        self._owner = owner
        self.directory = directory
        """The log directory that they lie in."""
        self.contents = contents
        self.serials = serials
        self.durable = durable
        self.cancelled = False
        """Set when the node stops: it writes them itself, as the last thing it does."""

    def __repr__(self) -> str:
        return f"<CheckpointJob {self.directory} {sorted(self.contents)}>"

    def run(self) -> None:
        """Write them.  Raises StorageError."""
        if not self.cancelled:
            self._owner.run(self)
