"""An index of an archive's files, by partition and first offset: what is read in order, and how far one is.

It has the files that Spark lists (`file_log`), with what their footers say of offsets and timestamps.
"""

from __future__ import annotations

import bisect
import itertools
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.archives.file_log import DamagedArchiveError, damaged

__all__ = [
    "ArchivedFile",
    "FilesInOrder",
    "grown_index",
    "index_of",
    "read_index",
    "write_index",
    "write_whole",
]


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file: records of one partition, from offset `first` to offset `last`, in their order.

    `oldest` and `newest` timestamp in ms since 1970; None: the file does not say.
    """

    topic: str
    partition: int
    first: int
    last: int
    records: int
    path: str
    oldest: int | None = None
    newest: int | None = None

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def contents(self) -> tuple[str, int, int, int, int, str]:
        """What is the same wherever the archive lies: it may be mounted somewhere else, or be a copy."""
        return self.topic, self.partition, self.first, self.last, self.records, os.path.basename(self.path)


class FilesInOrder:
    """`FilesInOrder(files).between(where, 0, 500)`: the files of a partition that begin there."""

    def __init__(self, files: Iterable[ArchivedFile]) -> None:
        self._files: dict[TopicPartition, list[ArchivedFile]] = {}
        for file in sorted(files, key=lambda file: (file.where, file.first)):
            self._files.setdefault(file.where, []).append(file)
        self._firsts = {where: [file.first for file in some] for where, some in self._files.items()}

    def __repr__(self) -> str:
        return f"<FilesInOrder {sum(map(len, self._files.values()))} of {len(self._files)} partitions>"

    def partitions(self) -> list[TopicPartition]:
        """Those that have files, in order."""
        return list(self._files)

    def all(self) -> list[ArchivedFile]:
        """Every file, by partition and offset."""
        return [file for some in self._files.values() for file in some]

    def between(self, where: TopicPartition, start: int, end: int) -> list[ArchivedFile]:
        """Those that begin in [start, end); positions are ends of files, so they also end there."""
        firsts = self._firsts.get(where, [])
        return self._files.get(where, [])[bisect.bisect_left(firsts, start) : bisect.bisect_left(firsts, end)]

    def first_from(self, where: TopicPartition, start: int) -> ArchivedFile | None:
        """The first file that begins at an offset of at least `start`."""
        at = bisect.bisect_left(self._firsts.get(where, []), start)
        return self._files[where][at] if at < len(self._firsts.get(where, ())) else None


def index_of(paths: Iterable[str]) -> list[ArchivedFile]:
    """An archive's files by partition and offset; without empty ones.

    Reads the footer of each.  Raises DamagedArchiveError for a file that is damaged, and where two overlap.
    """
    found = sorted(
        (file for path in paths if (file := _archived_file(path)) is not None),
        key=lambda file: (file.topic, file.partition, file.first),
    )
    for before, after in itertools.pairwise(found):
        if before.where == after.where and after.first <= before.last:
            raise DamagedArchiveError(
                f"{before.path} and {after.path} both have offset {after.first}",
                next_step="archive the topic again, into another directory",
            )
    return found


def _archived_file(path: str) -> ArchivedFile | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folders = dict(part.split("=", 1) for part in path.split("/")[-3:-1] if "=" in part)
    try:
        footer = pq.read_metadata(path)
        if footer.num_rows == 0:
            return None
        sums = _statistics(footer, "offset")
        return ArchivedFile(
            unquote(folders["topic"]),
            int(folders["partition"]),
            min(part.min for part in sums),
            max(part.max for part in sums),
            footer.num_rows,
            path,
            *_times_ms(footer),
        )
    except (OSError, pa.ArrowException, KeyError, ValueError, AttributeError) as error:
        raise damaged(path, error) from error


def _statistics(footer: Any, name: str) -> list[Any]:
    """Of one column, by row group."""
    column = footer.schema.to_arrow_schema().get_field_index(name)
    if column < 0:
        raise ValueError(f"it has no column {name}")
    return [footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups)]


def _times_ms(footer: Any) -> tuple[int | None, int | None]:
    """The oldest and the newest timestamp, as stored (µs), in ms; None where the file does not say."""
    if "timestamp" not in footer.schema.to_arrow_schema().names:
        return None, None
    sums = _statistics(footer, "timestamp")
    if any(part is None or not part.has_min_max or not isinstance(part.min_raw, int) for part in sums):
        return None, None
    return min(int(part.min_raw) for part in sums) // 1000, max(int(part.max_raw) for part in sums) // 1000


def write_index(path: str, files: Iterable[ArchivedFile]) -> None:
    """Keep an index, whole or not at all."""
    write_whole(path, json.dumps([asdict(file) for file in files]))


def grown_index(path: str, files: list[ArchivedFile]) -> None:
    """Put an archive's files of now in place of an index that was kept.  ConfigError where that had others.

    Positions in the old index hold in the new one: an archive only gets files with later offsets.
    """
    had, has = ({file.contents() for file in some} for some in (read_index(path), files))
    if not had <= has:
        raise ConfigError(
            f"{path} has files that the archive has not: it belongs to another archive",
            next_step="name another --checkpoint",
        )
    write_index(path, files)


def read_index(path: str) -> list[ArchivedFile]:
    """An index that was kept.  Raises BarnabasError."""
    try:
        with open(path, encoding="utf-8") as file:
            return [ArchivedFile(**entry) for entry in json.load(file)]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BarnabasError(
            f"{path} is no index of an archive: {error}",
            next_step="bring it back from a copy; or delete the topics that were restored, and restore again with "
            "another --checkpoint",
        ) from error


def write_whole(path: str, text: str) -> None:
    """Write a small file, whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
