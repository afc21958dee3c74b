"""Which offsets the next micro-batch covers: decided on the driver, before any record is read.

Functions over a view of the cluster, so they are tested without one.  The order of a micro-batch: `discover`
the partitions, ask for where they begin and end (in one round), hold the beginning against what is still there
(`check_loss`), cut the end to what is admitted (`admit`), and `split` the rest into ranges, one per task.

What was there and was not read, and is gone now, is *data loss*: a topic that was deleted, or deleted and
created again (another id under the same name), a log that ends before the offset we stand at, one whose
first record lies after it.  With failOnDataLoss it stops the query; without, it is said and the reading
goes on with what there is.  Gaps in the middle (compaction, transaction markers) are no loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from barnabas.client.metadata import topic_error
from barnabas.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.model import INTERNAL_TOPICS, Offset, TopicPartition, Uuid
from barnabas.pipeline.java_patterns import python_pattern
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.options import EARLIEST, LATEST, Bound, SourceOptions

__all__ = [
    "ClusterView",
    "DataLossError",
    "Ends",
    "Found",
    "Range",
    "admit",
    "check_loss",
    "check_order",
    "discover",
    "ends_of",
    "resolve",
    "split",
    "times_of",
]


class ClusterView(Protocol):
    """What planning asks a cluster, as seldom as it can.  All may raise KafkaError or ConnectionFailed."""

    def topics(self, names: Sequence[str] | None) -> dict[str, tuple[Uuid, list[int]]]:
        """Id (zero where the cluster has none) and partitions of these topics, if they exist; None: of all."""
        ...

    def offsets(self, *questions: Mapping[TopicPartition, int]) -> list[Offsets]:
        """For each partition its offset at EARLIEST, LATEST or a time in ms; -1 where no record is that late.

        All questions are asked at once.
        """
        ...

    def commit(self, group: str, offsets: Offsets) -> None:
        """Say in a group how far was read."""
        ...


class DataLossError(BarnabasError):
    """Records that were not read yet are gone."""

    def __init__(self, what: str) -> None:
        step = "set failOnDataLoss to false to go on with what is there, or use a new checkpoint"
        super().__init__(f"data loss: {what}", next_step=step)


class Found(NamedTuple):
    """The partitions to read now, and the ids of their topics."""

    partitions: tuple[TopicPartition, ...]
    ids: dict[str, Uuid]


class Ends(NamedTuple):
    """The first offset of each partition, and the one after its last."""

    earliest: Offsets
    latest: Offsets


class Range(NamedTuple):
    """What one task reads: start <= offset < end of one partition."""

    where: TopicPartition
    id: Uuid
    start: Offset
    end: Offset


def discover(view: ClusterView, options: SourceOptions, *, missing_ok: bool = False) -> Found:
    """The partitions that the options name.  A topic that is missing raises, unless `missing_ok`."""
    if options.pattern is not None:
        wanted = python_pattern(options.pattern)
        every = view.topics(None).items()
        there = {t: one for t, one in every if t not in INTERNAL_TOPICS and wanted.fullmatch(t)}
    else:
        names = {where.topic for where in options.assigned} or set(options.topics)
        there = view.topics(sorted(names))
        missing = sorted(names - there.keys())
        if missing and not missing_ok:
            raise topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing[0])
    ids = {topic: there[topic][0] for topic in sorted(there)}
    found = [TopicPartition(topic, number) for topic in ids for number in sorted(there[topic][1])]
    if options.assigned:
        absent = [str(where) for where in options.assigned if where not in set(found)]
        if absent and not missing_ok:
            raise ConfigError(f"assign names partitions that do not exist: {', '.join(absent)}")
        found = [where for where in found if where in set(options.assigned)]
    return Found(tuple(found), ids)


def ends_of(view: ClusterView, partitions: Iterable[TopicPartition]) -> Ends:
    """Where these partitions begin and end, asked at once."""
    wanted = list(partitions)
    earliest, latest = view.offsets(dict.fromkeys(wanted, EARLIEST), dict.fromkeys(wanted, LATEST))
    return Ends(earliest, latest)


def times_of(found: Found, bound: Bound) -> dict[TopicPartition, int]:
    """The points in time (ms) that have to be looked up for a bound.  Raises ConfigError as `resolve`."""
    if bound.timestamp is not None:
        return dict.fromkeys(found.partitions, bound.timestamp)
    if bound.timestamps is not None:
        _same_partitions(bound.timestamps, found)
        return dict(bound.timestamps)
    return {}


def resolve(
    found: Found, bound: Bound, ends: Ends, at_times: Offsets, *, after_the_last: str = "latest"
) -> Offsets:
    """The offset of each partition that a bound means; `at_times` answers `times_of`.

    `after_the_last` says what a time later than every record means: "latest", or "error".
    Raises ConfigError when a bound names other partitions than those there are.
    """
    if bound.everywhere is not None:
        return dict(ends.earliest if bound.everywhere == EARLIEST else ends.latest)
    if not bound.by_time:
        given = bound.offsets or {}
        _same_partitions(given, found)
        special = {EARLIEST: ends.earliest, LATEST: ends.latest}
        return {where: special[offset][where] if offset < 0 else offset for where, offset in given.items()}
    late = sorted(where for where, offset in at_times.items() if offset < 0)
    if late and after_the_last == "error":
        raise ConfigError(
            f"no record of {late[0]} is as late as {times_of(found, bound)[late[0]]}",
            next_step="set startingOffsetsByTimestampStrategy to latest to start at their ends",
        )
    return at_times | {where: ends.latest[where] for where in late}


def check_order(start: Offsets, end: Offsets) -> None:
    """ConfigError where reading would start after its end, which cannot be meant (failOnDataLoss or not)."""
    wrong = sorted(where for where in end if start[where] > end[where])
    if wrong:
        raise ConfigError(
            f"the start offset {start[wrong[0]]} of {wrong[0]} is after its end offset {end[wrong[0]]}",
            next_step="check the starting... and ending... options against where the topic ends",
        )


def _same_partitions(given: Offsets, found: Found) -> None:
    missing = sorted(set(found.partitions) - given.keys())
    extra = sorted(given.keys() - set(found.partitions))
    if missing or extra:
        raise ConfigError(
            "offsets must be given for exactly the partitions that are read"
            + (f"; missing: {', '.join(map(str, missing[:5]))}" if missing else "")
            + (f"; not there: {', '.join(map(str, extra[:5]))}" if extra else ""),
            next_step="-2 stands for the earliest offset, -1 for the latest",
        )


def check_loss(
    start: Positions, earliest: Offsets, latest: Offsets, ids: Mapping[str, Uuid]
) -> tuple[Offsets, list[str]]:
    """Hold the positions where reading goes on against what is there.

    Returns where each existing partition is to be read from, and what was lost, in words (empty: nothing).
    A partition that is new begins at its first record.
    """
    begin: Offsets = {}
    lost: list[str] = []
    recreated = {t for t, id_ in start.ids.items() if any(id_) and t in ids and any(ids[t]) and ids[t] != id_}
    lost += [f"topic {t} was deleted and created again" for t in sorted(recreated)]
    for where, end in latest.items():
        first, stand = earliest[where], start.offsets.get(where)
        if where.topic in recreated:
            begin[where] = first
        elif stand is None:
            begin[where] = first
            if first > 0:
                lost.append(f"{where} is new to this query and its first {first} offsets are gone already")
        elif stand > end:
            begin[where] = end
            lost.append(f"{where} ends at offset {end}, before {stand}, up to which it was read")
        elif stand < first:
            begin[where] = first
            lost.append(f"{where} begins at offset {first}: {first - stand} offsets from {stand} on are gone")
        else:
            begin[where] = stand
    gone = sorted(where for where in start.offsets if where not in latest)
    lost += [f"{where} is gone" for where in gone]
    return begin, lost


def admit(begin: Offsets, latest: Offsets, limit: int | None) -> Offsets:
    """Ends of the next micro-batch: at most `limit` offsets in all, each partition in proportion to its lag.

    Each partition with anything to read gets one offset at least, also where that makes more than `limit`: a slow
    one beside fast ones would else never be read.
    """
    lags = {where: latest[where] - begin[where] for where in begin if latest[where] > begin[where]}
    total = sum(lags.values())
    if limit is None or total <= limit:
        return dict(latest)
    shares = {where: max(1, lag * limit // total) for where, lag in lags.items()}
    left = limit - sum(shares.values())
    # (A share that was raised to one offset has its remainder already, and perhaps no further offset to read.)
    rounded_down = [where for where, lag in lags.items() if lag * limit >= total]
    by_remainder = sorted(rounded_down, key=lambda where: (-(lags[where] * limit % total), where))
    for where in by_remainder[: max(left, 0)]:
        shares[where] += 1
    for where in sorted(shares, key=lambda where: (-shares[where], where)):
        given_back = min(max(-left, 0), shares[where] - 1)
        shares[where] -= given_back
        left += given_back
    return {where: offset + shares.get(where, 0) for where, offset in begin.items()}


def split(begin: Offsets, end: Offsets, options: SourceOptions, ids: Mapping[str, Uuid]) -> list[Range]:
    """A range per partition with something to read, cut as minPartitions and maxRecordsPerPartition ask."""
    sizes = {where: end[where] - begin[where] for where in sorted(end) if end[where] > begin[where]}
    total = sum(sizes.values())
    ranges: list[Range] = []
    for where, size in sizes.items():
        parts = 1
        if options.max_records is not None:
            parts = -(-size // options.max_records)
        if options.min_partitions is not None and len(sizes) < options.min_partitions:
            parts = max(parts, -(-size * options.min_partitions // total))
        parts = min(parts, size)
        id_ = ids.get(where.topic, Uuid(16))
        cuts = [begin[where] + size * n // parts for n in range(parts + 1)]
        ranges += [Range(where, id_, low, high) for low, high in pairwise(cuts)]
    return ranges


assert EARLIEST == -2 and LATEST == -1  # the numbers of the protocol's ListOffsets, which views hand on
