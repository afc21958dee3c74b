"""A directory that holds archived topics, and what it says of itself.

    DIR/archive.json           the cluster; of each topic its id, number of partitions and configs
    DIR/records/topic=.../partition=.../*.parquet
    DIR/_checkpoint            how far the archiving query is (Spark's)

The files are in `records/_spark_metadata`, too: a file that is there and not in that list was written by a
micro-batch that did not end, and nobody may read it (`remove_unlisted`).  A copy of the directory is an archive
like the original.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.errors import BarnabasError, ConfigError
from barnabas.pipeline.archives.file_log import (
    LISTED,
    DamagedArchiveError,
    list_is_gone,
    listed_files,
    newest_batch,
)
from barnabas.pipeline.archives.index import write_whole

__all__ = ["ArchiveDirectory", "ArchivedTopic", "NoArchiveError", "check_nothing_else"]

_FORMAT = 1
_WRITTEN = re.compile(r"part-.*\.parquet|\.part-.*\.parquet\.crc")
"""Names of the files that Spark's micro-batches write."""


class NoArchiveError(BarnabasError):
    """There is no archive where one was named."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """A topic of an archive; `id` as text.  `configs` that were its own; None: the archive does not say."""

    name: str
    id: str
    partitions: int
    configs: Mapping[str, str] | None = None


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
        _, topics = self._read()
        return [topics[name] for name in sorted(topics)]

    def files(self) -> list[str]:
        """The paths of the files that whole micro-batches wrote.  Raises BarnabasError."""
        self._read()
        return listed_files(self.records) if self.check_list() else []  # (none has ended yet)

    def _read(self) -> tuple[str, dict[str, ArchivedTopic]]:
        """The cluster's id, and the topics by name."""
        self._check_kind()
        try:
            with open(self._manifest, encoding="utf-8") as file:
                tree = json.load(file)
            if tree["format"] != _FORMAT:
                raise ValueError(f"its format is {tree['format']}")
            topics = {
                name: ArchivedTopic(name, str(said["id"]), int(said["partitions"]), _configs_in(said))
                for name, said in tree["topics"].items()
            }
            return str(tree["cluster"]), topics
        except FileNotFoundError as error:
            raise NoArchiveError(
                f"{self.path} is not an archive: it has no archive.json",
                next_step="name the directory that `barnabas pipeline run archive` wrote",
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedArchiveError(
                f"{self._manifest} cannot be read: {error}", next_step="bring it back from a copy"
            ) from error

    def _check_kind(self) -> None:
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise ConfigError(
                f"{self.path} is a file: an archive is a directory", next_step="name a directory"
            )

    def check_list(self) -> bool:
        """Whether there is a list of files.  Raises DamagedArchiveError where it lacks a micro-batch that ended.

        Spark lists the files of a micro-batch before it notes that this one has ended, and then begins the next:
        so a list that is shorter has lost something, and reading on would leave records out without a word.
        """
        ended = max(newest_batch(self.checkpoint, "commits"), newest_batch(self.checkpoint, "offsets") - 1)
        listed = newest_batch(self.records, LISTED)
        if listed < ended:
            raise list_is_gone(
                f"{self.records}/{LISTED} lists micro-batches up to {listed}, and {ended} has ended"
                if listed >= 0
                else f"{self.records}/{LISTED}, the list of its files, is gone"
            )
        return listed >= 0

    def check_checkpoint(self) -> None:
        """Raise DamagedArchiveError where the checkpoint is older than the list of files, or gone.

        Spark would number the next micro-batches as some that are listed, take them for written, and leave
        their records out without a word.  Who only reads an archive needs no checkpoint.
        """
        began, listed = newest_batch(self.checkpoint, "offsets"), newest_batch(self.records, LISTED)
        if listed > began:
            raise list_is_gone(
                f"{self.records}/{LISTED} lists micro-batches up to {listed}, and {self.checkpoint} "
                + (f"knows them up to {began}" if began >= 0 else "is gone")
            )

    def remove_unlisted(self) -> None:
        """Delete the files of micro-batches that did not end, which readers that do not know the list would read.

        Hold the directory first.  Raises DamagedArchiveError where there are files, but neither
        a list nor a micro-batch that began.
        """
        listed = set(self.files())
        left = [path for path in _written_files(self.records) if _data_of(path) not in listed]
        if left and not listed and newest_batch(self.checkpoint, "offsets") < 0:
            raise list_is_gone(f"{self.records} has files, and no list of them")
        for path in left:
            os.unlink(path)

    def claim(self, cluster: str, topics: Iterable[ArchivedTopic]) -> None:
        """Make this the archive of these topics, or see that it is.  Raises ConfigError where it is another's."""
        wanted = {topic.name: topic for topic in topics}
        self._check_kind()
        before: dict[str, ArchivedTopic] = {}
        if os.path.exists(self._manifest):
            before = self._check(cluster, wanted)
        else:
            check_nothing_else(self.path)
        content = {
            "format": _FORMAT,
            "cluster": cluster,
            "topics": {
                name: _described(topic, before[name].configs if name in before else None)
                for name, topic in wanted.items()
            },
        }
        try:
            os.makedirs(self.path, exist_ok=True)
            write_whole(self._manifest, json.dumps(content, indent=1, sort_keys=True))
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be written: {error.strerror or error}",
                next_step="name a directory that you may write to, on a disk with room",
            ) from error

    def _check(self, cluster: str, wanted: Mapping[str, ArchivedTopic]) -> dict[str, ArchivedTopic]:
        """What is written of the topics until now."""
        of, found = self._read()
        if of != cluster:
            raise ConfigError(
                f"{self.path} is an archive of cluster {of}, not of {cluster}",
                next_step="name another directory",
            )
        if found.keys() != wanted.keys():
            raise ConfigError(
                f"{self.path} is an archive of {', '.join(sorted(found))}",
                next_step="name the same topics, or another directory",
            )
        for name, topic in wanted.items():
            if found[name].id != topic.id:
                raise ConfigError(
                    f"{self.path} has another topic {name}, which was deleted: its id is "
                    f"{found[name].id}, not {topic.id}",
                    next_step="name another directory",
                )
        return found


def check_nothing_else(path: str, own: Collection[str] = ()) -> None:
    """Raise ConfigError where a job's directory has anything but its `own` names: it may be another job's."""
    if os.path.isdir(path) and set(os.listdir(path)) - set(own):
        raise ConfigError(f"{path} holds something else", next_step="name an empty directory, or a new one")


def _written_files(records: str) -> list[str]:
    """Return the paths of the files that micro-batches wrote, with their checksums; nobody else's."""
    found: list[str] = []
    for folder, folders, names in os.walk(records):
        folders[:] = [name for name in folders if not name.startswith("_")]
        found += [os.path.join(folder, name) for name in names if _WRITTEN.fullmatch(name)]
    return found


def _data_of(path: str) -> str:
    """The file that a path is of: Hadoop keeps checksums of `file` beside it, in `.file.crc`."""
    folder, name = os.path.split(path)
    if name.startswith(".") and name.endswith(".crc"):
        name = name.removeprefix(".").removesuffix(".crc")
    return os.path.join(folder, name)


def _configs_in(said: Mapping[str, Any]) -> dict[str, str] | None:
    configs = said.get("configs")
    return None if configs is None else {str(name): str(value) for name, value in configs.items()}


def _described(topic: ArchivedTopic, configs_before: Mapping[str, str] | None) -> dict[str, Any]:
    said: dict[str, Any] = {"id": topic.id, "partitions": topic.partitions}
    configs = configs_before if topic.configs is None else topic.configs
    return said if configs is None else said | {"configs": dict(configs)}
