"""Positions in topics: as JSON, in Spark's checkpoints, and against the end of the log.

The JSON is that of Spark's own Kafka connector, `{"flights": {"0": 120, "1": 97}}`, so offsets can be carried
over from one to the other.  One more key, `@ids`, which no topic can be called, remembers the id of each
topic: a topic that was deleted and created again under its old name is another topic, and offsets of the
first mean nothing in the second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import Offset, TopicPartition, Uuid

__all__ = ["CheckpointState", "Lag", "Offsets", "Positions", "lag", "read_checkpoint"]

Offsets: TypeAlias = dict[TopicPartition, Offset]

IDS = "@ids"
_LOG_VERSION = "v1"


class Positions(NamedTuple):
    """Where each partition stands, and which topic (by id) that was said about; ids may be unknown."""

    offsets: Offsets
    ids: dict[str, Uuid]

    @classmethod
    def read(cls, value: str | Mapping[str, Any]) -> Positions:
        """Read `{"topic": {"0": 5}}`, as text or already parsed; ConfigError when it is anything else."""
        try:
            tree = json.loads(value) if isinstance(value, str) else value
            ids = {str(topic): Uuid.parse(text) for topic, text in tree.get(IDS, {}).items()}
            offsets = {
                TopicPartition(topic, _number(partition)): _whole(offset)
                for topic, partitions in tree.items()
                if topic != IDS
                for partition, offset in partitions.items()
            }
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise ConfigError(
                f"these are no offsets: {str(value)[:200]}",
                next_step='write them as {"topic": {"0": 5, "1": -2}}; -2 is the earliest, -1 the latest',
            ) from error
        return cls(offsets, ids)

    def tree(self) -> dict[str, dict[str, Any]]:
        """The JSON tree; equal positions give equal text."""
        tree: dict[str, dict[str, Any]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            tree.setdefault(topic, {})[str(partition)] = offset
        ids = {topic: str(id_) for topic, id_ in sorted(self.ids.items()) if any(id_)}
        if ids:
            tree[IDS] = ids
        return tree

    def text(self) -> str:
        return json.dumps(self.tree(), separators=(",", ":"))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} has more than 64 bits")
    return value


def _number(text: str) -> int:
    """Return the number of a partition.  (Python reads "1_0" and " 1" as numbers, too.)"""
    number = int(text)
    if str(number) != text:
        raise ValueError(f"{text!r} is no number of a partition")
    return number


class CheckpointState(NamedTuple):
    """What a checkpoint directory of a streaming query says.

    `planned` is the newest batch whose offsets were written, `done` the newest that is finished (-1: none);
    `positions` are those at the end of `done`, one per source of the query, None where a source had none.
    """

    query_id: str
    planned: int
    done: int
    positions: tuple[Positions | None, ...]


def read_checkpoint(directory: str) -> CheckpointState:
    """Read the checkpoint of a Structured Streaming query from a local directory.

    Raises BarnabasError when it is none.
    """
    try:
        with open(os.path.join(directory, "metadata"), encoding="utf-8") as file:
            query_id = str(json.load(file)["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BarnabasError(
            f"{directory} is not the checkpoint of a streaming query: {error}",
            next_step="give the checkpointLocation of the query",
        ) from error
    planned, done = _newest(directory, "offsets"), _newest(directory, "commits")
    positions = _batch_positions(directory, done) if done >= 0 else ()
    return CheckpointState(query_id, planned, done, positions)


def _newest(directory: str, log: str) -> int:
    try:
        names = os.listdir(os.path.join(directory, log))
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise _unreadable(os.path.join(directory, log), error) from error
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _batch_positions(directory: str, batch: int) -> tuple[Positions | None, ...]:
    path = os.path.join(directory, "offsets", str(batch))
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        if len(lines) < 2 or lines[0] != _LOG_VERSION:
            raise ValueError(
                f"it is not an offset log that this release can read: it begins with {lines[:1]}"
            )
        return tuple(None if line == "-" else Positions.read(line) for line in lines[2:])
    except (OSError, ValueError, ConfigError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> BarnabasError:
    return BarnabasError(
        f"{path} of the checkpoint cannot be read: {error}",
        next_step='give the checkpointLocation of a query that reads format("barnabas"), or bring the file back '
        "from a copy",
    )


class Lag(NamedTuple):
    """How far behind the end of the log a reader is: records per partition, and in all."""

    partitions: dict[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.partitions.values())


def lag(read: Offsets, latest: Offsets) -> Lag:
    """Records between where a reader stands and the end; a partition it does not know counts from 0."""
    return Lag({where: max(0, end - read.get(where, 0)) for where, end in latest.items()})
