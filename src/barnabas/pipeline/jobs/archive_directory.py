"""A directory that holds archived topics: what it says of itself, and an index of its files.

    DIR/archive.json           the cluster, the topics, their ids and numbers of partitions
    DIR/records/topic=.../partition=.../*.parquet
    DIR/_checkpoint            how far the archiving query is (Spark's)

The files are in `records/_spark_metadata`, too: a file that is there and not in that list was written by a
micro-batch that did not end, and nobody may read it.  The index has the listed files only, by first offset.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import TopicPartition

__all__ = [
    "ArchiveDirectory",
    "ArchivedFile",
    "ArchivedTopic",
    "DamagedArchiveError",
    "grown_index",
    "index_of",
    "read_index",
    "write_index",
]

_FORMAT = 1


class DamagedArchiveError(BarnabasError):
    """A file of an archive is not what it should be."""

    exit_code = 6


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic of an archive; `id` as text."""

    name: str
    id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file: records of one partition, from offset `first` to offset `last`, in their order."""

    topic: str
    partition: int
    first: int
    last: int
    records: int
    path: str

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ArchiveDirectory:
    """`ArchiveDirectory("/data/archive")`; nothing is opened when it is made."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.records = os.path.join(self.path, "records")
        self.checkpoint = os.path.join(self.path, "_checkpoint")
        self._manifest = os.path.join(self.path, "archive.json")

    def __repr__(self) -> str:
        return f"<ArchiveDirectory {self.path}>"

    def topics(self) -> list[ArchivedTopic]:
        """What is archived here.  Raises BarnabasError where that is nothing."""
        return [
            ArchivedTopic(name, str(said["id"]), int(said["partitions"]))
            for name, said in sorted(self._read()["topics"].items())
        ]

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._manifest, encoding="utf-8") as file:
                tree = json.load(file)
            if tree["format"] != _FORMAT or not isinstance(tree["topics"], dict):
                raise ValueError(f"its format is {tree['format']}")
            return dict(tree)
        except FileNotFoundError as error:
            raise NoArchiveError(
                f"{self.path} is not an archive: it has no archive.json",
                next_step="name the directory that `barnabas pipeline run archive` wrote",
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedArchiveError(f"{self._manifest} cannot be read: {error}") from error

    def check_list(self) -> bool:
        """Whether there is a list of files.  Raises DamagedArchiveError where it lacks a micro-batch that ended.

        Spark lists the files of a micro-batch before it notes that this one has ended: so a list that is shorter
        has lost something, and reading on would leave records out without a word.
        """
        ended = _newest(self.checkpoint, "commits")
        listed = _newest(self.records, "_spark_metadata")
        if listed < ended:
            raise DamagedArchiveError(
                f"{self.records}/_spark_metadata lists micro-batches up to {listed}, and {ended} has ended"
                if listed >= 0
                else f"{self.records}/_spark_metadata, the list of its files, is gone",
                next_step="bring it back from a copy, or archive the topics again, into another directory",
            )
        return listed >= 0

    def claim(self, cluster: str, topics: Iterable[ArchivedTopic]) -> None:
        """Make this the archive of these topics, or see that it is.  Raises ConfigError where it is another's."""
        wanted = {topic.name: topic for topic in topics}
        if os.path.exists(self._manifest):
            self._check(cluster, wanted)
        elif os.path.isdir(self.path) and os.listdir(self.path):
            raise ConfigError(
                f"{self.path} holds something else", next_step="name an empty directory, or a new one"
            )
        os.makedirs(self.path, exist_ok=True)
        content = {
            "format": _FORMAT,
            "cluster": cluster,
            "topics": {
                name: {"id": topic.id, "partitions": topic.partitions} for name, topic in wanted.items()
            },
        }
        replace(self._manifest, json.dumps(content, indent=1, sort_keys=True))

    def _check(self, cluster: str, wanted: Mapping[str, ArchivedTopic]) -> None:
        found = self._read()
        if found["cluster"] != cluster:
            raise ConfigError(
                f"{self.path} is an archive of cluster {found['cluster']}, not of {cluster}",
                next_step="name another directory",
            )
        if found["topics"].keys() != wanted.keys():
            raise ConfigError(
                f"{self.path} is an archive of {', '.join(sorted(found['topics']))}",
                next_step="name the same topics, or another directory",
            )
        for name, topic in wanted.items():
            if found["topics"][name]["id"] != topic.id:
                raise ConfigError(
                    f"{self.path} has another topic {name}, which was deleted: its id is "
                    f"{found['topics'][name]['id']}, not {topic.id}",
                    next_step="name another directory",
                )


def _newest(directory: str, log: str) -> int:
    """The number of the newest micro-batch in one of Spark's logs; -1 where there is none."""
    try:
        names = os.listdir(os.path.join(directory, log))
    except FileNotFoundError:
        return -1
    return max((int(name.split(".")[0]) for name in names if name.split(".")[0].isdigit()), default=-1)


class NoArchiveError(BarnabasError):
    """There is no archive where one was named."""

    exit_code = 4


def index_of(urls: Iterable[str]) -> list[ArchivedFile]:
    """The files behind Spark's addresses of an archive's files, by partition and offset; without empty ones.

    Reads the footer of each.  Raises DamagedArchiveError for a file that is damaged, and where two overlap.
    """
    found = sorted(
        (file for url in urls if (file := _archived_file(url)) is not None),
        key=lambda file: (file.topic, file.partition, file.first),
    )
    for before, after in itertools.pairwise(found):
        if before.where == after.where and after.first <= before.last:
            raise DamagedArchiveError(
                f"{before.path} and {after.path} both have offset {after.first}",
                next_step="archive the topic again, into another directory",
            )
    return found


def local_path(url: str) -> str:
    """The path of one of Spark's addresses.  Raises ConfigError where it is not in this machine's file tree."""
    parts = urlparse(url)
    if parts.scheme not in ("", "file"):
        raise ConfigError(
            f"an archive in {parts.scheme}:// cannot be read",
            next_step="use a directory that this machine and Spark's workers see under one path",
        )
    return unquote(parts.path)


def _archived_file(url: str) -> ArchivedFile | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = local_path(url)
    folders = dict(part.split("=", 1) for part in path.split("/") if "=" in part)
    try:
        footer = pq.read_metadata(path)
        column = footer.schema.to_arrow_schema().get_field_index("offset")
        if footer.num_rows == 0:
            return None
        sums = [footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups)]
        return ArchivedFile(
            unquote(folders["topic"]),
            int(folders["partition"]),
            min(part.min for part in sums),
            max(part.max for part in sums),
            footer.num_rows,
            path,
        )
    except (OSError, pa.ArrowException, KeyError, ValueError, AttributeError) as error:
        raise damaged(path, error) from error


def damaged(path: str, error: object) -> DamagedArchiveError:
    """What to say of a file that cannot be read."""
    return DamagedArchiveError(
        f"{path} cannot be read: {error}",
        next_step="bring the file back from a copy, or archive the topic again, into another directory",
    )


def write_index(path: str, files: Iterable[ArchivedFile]) -> None:
    """Keep an index, whole or not at all."""
    replace(path, json.dumps([asdict(file) for file in files]))


def grown_index(path: str, files: list[ArchivedFile]) -> None:
    """Put an archive's files of now in place of an index that was kept.  ConfigError where that had others.

    Positions in the old index hold in the new one: an archive only gets files with later offsets.
    """
    had, has = ({astuple(replace_path(file)) for file in some} for some in (read_index(path), files))
    if not had <= has:
        raise ConfigError(
            f"{path} has files that the archive has not: it belongs to another archive",
            next_step="name another --checkpoint",
        )
    write_index(path, files)


def replace_path(file: ArchivedFile) -> ArchivedFile:
    """The same file wherever it lies: an archive may be mounted somewhere else."""
    return dataclasses.replace(file, path=os.path.basename(file.path))


def read_index(path: str) -> list[ArchivedFile]:
    """An index that was kept.  Raises BarnabasError."""
    try:
        with open(path, encoding="utf-8") as file:
            return [ArchivedFile(**entry) for entry in json.load(file)]
    except (OSError, ValueError, TypeError) as error:
        raise BarnabasError(f"{path} is no index of an archive: {error}") from error


def replace(path: str, text: str) -> None:
    """Write a small file, whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
