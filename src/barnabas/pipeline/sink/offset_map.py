"""Which offset a record had where it comes from, and which it has where it was written.

A task that copies records knows both once everything is acknowledged.  It says so in records of a topic, in the
same transaction: so the map has exactly the records that are there.  Offsets grow on both sides, mostly by one:
the map is a list of runs, and a gap on one side (the end of a transaction, a compacted record) begins another.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from barnabas.client.producer import Delivery
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["OffsetRun", "SentOffsets", "from_bytes", "runs_of", "to_bytes", "translate"]

_VERSION = 1
_RUNS = 10_000
"""Of one record: 300 kB at most."""


class OffsetRun(NamedTuple):
    """`length` records from `origin` on there are those from `offset` on here."""

    origin: Offset
    offset: Offset
    length: int


def runs_of(pairs: Iterable[tuple[Offset, Offset]]) -> list[OffsetRun]:
    """`runs_of([(5, 0), (6, 1), (9, 2)])` -> [OffsetRun(5, 0, 2), OffsetRun(9, 2, 1)]; both must grow."""
    found: list[OffsetRun] = []
    for origin, offset in pairs:
        last = found[-1] if found else None
        if last is not None and (last.origin + last.length, last.offset + last.length) == (origin, offset):
            found[-1] = last._replace(length=last.length + 1)
        else:
            found.append(OffsetRun(origin, offset, 1))
    return found


def translate(runs: Sequence[OffsetRun], origin: Offset) -> Offset | None:
    """Where a reader goes on here who would go on at `origin` there: it misses no record, and gets none twice.

    `runs` of one partition, by origin.  After the last one it is the end of what was copied; None: nothing was.
    """
    if not runs:
        return None
    after = bisect.bisect_right(runs, origin, key=lambda run: run.origin)
    if after == 0:
        return runs[0].offset
    run = runs[after - 1]
    if origin < run.origin + run.length:
        return run.offset + origin - run.origin
    return runs[after].offset if after < len(runs) else run.offset + run.length


class SentOffsets:
    """The records that one task has sent: where they come from, and their deliveries."""

    def __init__(self) -> None:
        self._sent: list[tuple[Offset, Delivery]] = []

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, origin: Offset | None, delivery: Delivery) -> None:
        """Raises BarnabasError where a row does not say where it comes from."""
        if origin is None:
            raise BarnabasError(
                "a row has no offset, which offsetMap needs", next_step="select the offset of the source, too"
            )
        self._sent.append((origin, delivery))

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of the map's records, once everything is acknowledged."""
        found: dict[TopicPartition, list[tuple[Offset, Offset]]] = {}
        for origin, delivery in self._sent:
            at = delivery.result()
            if at.offset < 0:
                raise BarnabasError(f"{at.topic}-{at.partition} does not say where a record was written")
            found.setdefault(TopicPartition(at.topic, at.partition), []).append((origin, at.offset))
        for where, pairs in sorted(found.items()):
            runs = runs_of(pairs)
            for begin in range(0, len(runs), _RUNS):
                yield f"{where.topic}/{where.partition}".encode(), to_bytes(runs[begin : begin + _RUNS])


def to_bytes(runs: Sequence[OffsetRun]) -> bytes:
    """The value of a record of the map (JSON); its key is TOPIC/PARTITION here."""
    return json.dumps({"version": _VERSION, "runs": runs}, separators=(",", ":")).encode()


def from_bytes(key: bytes, value: bytes) -> tuple[TopicPartition, list[OffsetRun]]:
    """Raises BarnabasError where it is no record of a map, or one of a later release."""
    try:
        topic, _, partition = key.decode().rpartition("/")
        said = json.loads(value)
        if said["version"] != _VERSION:
            raise ValueError(f"version {said['version']}")
        return TopicPartition(topic, int(partition)), [OffsetRun(*map(int, run)) for run in said["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BarnabasError(
            f"an offset map cannot be read: {error}: {value[:100]!r}",
            next_step="use the release that wrote it",
        ) from error
