"""The names of the directories of logs: whose log lies there, and whether it is in use."""

from __future__ import annotations

import re

from barnabas.errors import StorageError
from barnabas.log.files.meta_properties import read_partition_metadata
from barnabas.model import TopicId, TopicPartition
from barnabas.ports import Disk

__all__ = [
    "LONGEST_NAME",
    "free_name",
    "future_of",
    "identify",
    "is_deleted",
    "is_stray",
    "may_be_of",
    "partition_of",
]

LONGEST_NAME = 255
_ALIKE = 11
"""Letters of 22 that two topic ids share only if a disk damaged one: of ids that were drawn, one in 10^14 does."""
_DELETED = re.compile(r".+\.[0-9a-f]{32}-delete")
_STRAY = re.compile(r".+\.[0-9a-f]{32}-stray")
_PARTITION = re.compile(r".+-\d+")
_FUTURE = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-future")


def future_of(name: str) -> TopicPartition | None:
    """Whose copy lies in a directory of this name; None when it is none."""
    found = _FUTURE.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found is not None else None


def identify(disk: Disk, path: str) -> tuple[TopicPartition, TopicId | None]:
    """Whose log lies in the directory `path`, by its name and its `partition.metadata`.

    Raises StorageError when the name is not `<topic>-<partition>`.
    """
    name = path.rstrip("/").rpartition("/")[2]
    if (copied := future_of(name)) is not None:
        return copied, read_partition_metadata(disk, path)
    topic, _, partition = name.rpartition("-")
    if not topic or not partition.isdecimal():
        raise StorageError(
            f"{path} is no log: its name is not <topic>-<partition>",
            next_step="move it out of the log directory",
        )
    return TopicPartition(topic, int(partition)), read_partition_metadata(disk, path)


def may_be_of(written: TopicId | None, topic_id: TopicId) -> bool:
    """Return whether a log may be of a topic, by the id that lies with it: None, or damaged, it names no other."""
    if written is None or written == topic_id:
        return True
    return sum(a == b for a, b in zip(str(written), str(topic_id), strict=True)) >= _ALIKE


def is_deleted(name: str) -> bool:
    """Whether the log is deleted, and only waits to be removed."""
    return _DELETED.fullmatch(name) is not None


def is_stray(name: str) -> bool:
    """Whether the log was put aside, because the metadata does not know it."""
    return _STRAY.fullmatch(name) is not None


def partition_of(name: str) -> TopicPartition | None:
    """Whose log, or copy of one, lies in a directory of this name; None when it is none."""
    if (copied := future_of(name)) is not None:
        return copied
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number)) if _PARTITION.fullmatch(name) else None


def free_name(disk: Disk, path: str, name: str, suffix: str, topic_id: TopicId | None) -> str:
    """`<topic>-<p>.<32 hex>-<suffix>`: the hex is the topic id, unless that name is taken in `path`."""
    number = int.from_bytes(topic_id or b"", "big")
    while True:
        tail = f".{number % (1 << 128):032x}-{suffix}"
        free = f"{name[: LONGEST_NAME - len(tail)]}{tail}"
        if not disk.exists(f"{path}/{free}"):
            return free
        number += 1
