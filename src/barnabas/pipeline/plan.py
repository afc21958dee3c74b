"""Which offsets the next micro-batch covers: decided on the driver, before any record is read.

Functions over a view of the cluster, so they are tested without one.  The order of a micro-batch: `discover`
the partitions, ask for their ends, hold the beginning against what is still there (`check_loss`), cut the
end to what is admitted (`admit`), and `split` the rest into ranges, one per task.

What was there and was not read, and is gone now, is *data loss*: a topic that was deleted, or deleted and
created again (another id under the same name), a log that ends before the offset we stand at, one whose
first record lies after it.  With failOnDataLoss it stops the query; without, it is said and the reading
goes on with what there is.  Gaps in the middle (compaction, transaction markers) are no loss.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple, Protocol

from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.model import INTERNAL_TOPICS, Offset, TopicPartition, Uuid
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.options import EARLIEST, LATEST, Bound, SourceOptions

__all__ = [
    "ClusterView",
    "DataLossError",
    "Found",
    "Range",
    "admit",
    "ask",
    "check_loss",
    "discover",
    "resolve",
    "split",
]


class ClusterView(Protocol):
    """What planning asks a cluster.  Every method may raise KafkaError or ConnectionFailed."""

    def names(self) -> list[str]:
        """The names of all topics."""
        ...

    def topic(self, name: str) -> tuple[Uuid, list[int]]:
        """Id (zero where the cluster has none) and partitions.  KafkaError when there is no such topic."""
        ...

    def offsets(self, topic: str, when: int, partitions: list[int]) -> dict[int, Offset]:
        """Offsets at EARLIEST, LATEST or a time in ms; -1 where no record is that late."""
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


class Range(NamedTuple):
    """What one task reads: start <= offset < end of one partition."""

    where: TopicPartition
    id: Uuid
    start: Offset
    end: Offset


def discover(view: ClusterView, options: SourceOptions, *, missing_ok: bool = False) -> Found:
    """The partitions that the options name.  A topic that is missing raises, unless `missing_ok`."""
    if options.pattern is not None:
        wanted = re.compile(options.pattern)
        topics = sorted(t for t in view.names() if t not in INTERNAL_TOPICS and wanted.fullmatch(t))
    elif options.assigned:
        topics = sorted({where.topic for where in options.assigned})
    else:
        topics = sorted(options.topics)
    found: list[TopicPartition] = []
    ids: dict[str, Uuid] = {}
    for topic in topics:
        try:
            ids[topic], numbers = view.topic(topic)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not missing_ok:
                raise
            continue
        found += [TopicPartition(topic, number) for number in sorted(numbers)]
    if options.assigned:
        there = set(found)
        absent = [str(where) for where in options.assigned if where not in there]
        if absent and not missing_ok:
            raise ConfigError(f"assign names partitions that do not exist: {', '.join(absent)}")
        found = [where for where in found if where in set(options.assigned)]
    return Found(tuple(found), ids)


def resolve(view: ClusterView, found: Found, bound: Bound, *, after_the_last: str = "latest") -> Offsets:
    """The offset of each partition that a bound means.

    `after_the_last` says what a time later than every record means: "latest", or "error".
    Raises ConfigError when a bound names other partitions than those there are.
    """
    if bound.everywhere is not None:
        return ask(view, found.partitions, dict.fromkeys(found.partitions, bound.everywhere))
    if bound.timestamp is not None:
        wanted = dict.fromkeys(found.partitions, bound.timestamp)
    else:
        wanted = dict((bound.timestamps if bound.timestamps is not None else bound.offsets) or {})
        _same_partitions(wanted, found)
    if not bound.by_time:
        special = {where: offset for where, offset in wanted.items() if offset < 0}
        return wanted | ask(view, tuple(special), special)
    offsets = ask(view, found.partitions, wanted)
    late = sorted(where for where, offset in offsets.items() if offset < 0)
    if late and after_the_last == "error":
        raise ConfigError(
            f"no record of {late[0]} is as late as {wanted[late[0]]}",
            next_step="set startingOffsetsByTimestampStrategy to latest to start at their ends",
        )
    return offsets | ask(view, tuple(late), dict.fromkeys(late, LATEST))


def ask(
    view: ClusterView, partitions: tuple[TopicPartition, ...], when: Mapping[TopicPartition, int]
) -> Offsets:
    """One question per topic and point in time."""
    questions: dict[tuple[str, int], list[int]] = {}
    for where in partitions:
        questions.setdefault((where.topic, when[where]), []).append(where.partition)
    answers: Offsets = {}
    for (topic, moment), numbers in questions.items():
        for number, offset in view.offsets(topic, moment, numbers).items():
            answers[TopicPartition(topic, number)] = offset
    return answers


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
    by_remainder = sorted(lags, key=lambda where: (-(lags[where] * limit % total), where))
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
