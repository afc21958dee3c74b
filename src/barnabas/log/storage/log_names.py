"""Whose log lies in a directory, by its name."""

from __future__ import annotations

import re

from barnabas.errors import StorageError
from barnabas.log.storage.meta_properties import read_partition_metadata
from barnabas.model import TopicId, TopicPartition
from barnabas.ports import Disk

__all__ = ["future_of", "identify"]

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
    if not topic or not partition.isdigit():
        raise StorageError(
            f"{path} is no log: its name is not <topic>-<partition>",
            next_step="move it out of the log directory",
        )
    return TopicPartition(topic, int(partition)), read_partition_metadata(disk, path)
