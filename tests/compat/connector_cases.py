"""What both connectors are asked: `format("barnabas")` and Spark's own `format("kafka")`, with the same options.

The topics are those of `test_spark_connector.fill`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["REFUSED", "ROWS", "STREAMS", "Case"]

EARLY = 1_700_000_000_000
"""Timestamp (ms) of the first record of `plain`; each record is one later."""
QUICK = {"kafkaConsumer.pollTimeoutMs": "1500"}
"""The stock connector waits so long for records that never come."""


class Case(NamedTuple):
    """Options beside the address; `where` is a condition on the rows."""

    name: str
    options: dict[str, str]
    where: str = "true"


def _plain(name: str, where: str = "true", **options: str) -> Case:
    return Case(name, {"subscribe": "plain", **options}, where)


def _at(first: int, second: int, third: int) -> str:
    return f'{{"plain": {{"0": {first}, "1": {second}, "2": {third}}}}}'


ROWS = (
    _plain("everything"),
    _plain("headers", includeHeaders="true"),
    _plain("earliest and latest", startingOffsets="earliest", endingOffsets="latest"),
    _plain("words in capitals", startingOffsets="EARLIEST"),
    _plain("between offsets", startingOffsets=_at(5, 0, 99), endingOffsets=_at(50, 1, 100)),
    _plain("special offsets", startingOffsets=_at(-2, 7, 3), endingOffsets=_at(-1, 9, -1)),
    _plain("nothing between", startingOffsets=_at(5, 5, 5), endingOffsets=_at(5, 5, 5)),
    _plain("at the end", startingOffsets=_at(100, 100, 100)),
    _plain("since a time", startingTimestamp=str(EARLY + 150)),
    _plain("since 1970", startingTimestamp="0"),
    _plain("until a time", endingTimestamp=str(EARLY + 150)),
    _plain("between times", startingTimestamp=str(EARLY + 40), endingTimestamp=str(EARLY + 41)),
    _plain("times of partitions", startingOffsetsByTimestamp=_at(EARLY, EARLY + 9, EARLY + 299)),
    _plain("until times of partitions", endingOffsetsByTimestamp=_at(EARLY, EARLY + 9, EARLY + 299)),
    _plain(
        "later than all, from the end",
        startingTimestamp=str(EARLY + 10**6),
        startingOffsetsByTimestampStrategy="latest",
    ),
    _plain("until later than all", endingTimestamp=str(EARLY + 10**6)),
    _plain("a time wins over offsets", startingTimestamp=str(EARLY + 150), startingOffsets=_at(1, 1, 1)),
    _plain("two tasks", minPartitions="2"),
    _plain("seven tasks", minPartitions="7"),
    _plain("many tasks", maxRecordsPerPartition="3"),
    _plain("a condition", where="partition = 1 AND offset BETWEEN 10 AND 20"),
    _plain("a condition on time", where=f"timestamp >= timestamp_millis({EARLY + 290}) OR value IS NULL"),
    _plain("a condition on time alone", where=f"timestamp > timestamp_millis({EARLY + 290})"),
    _plain("a condition on values", where="key IS NULL AND partition IN (0, 2)"),
    _plain("past the end, loss accepted", endingOffsets=_at(150, 3, 3), failOnDataLoss="false", **QUICK),
    Case("assigned", {"assign": '{"plain": [0, 2]}'}),
    Case("two topics", {"subscribe": "plain,empty"}),
    Case("a pattern", {"subscribePattern": "codec-.*"}),
    Case("a pattern of Java's", {"subscribePattern": r"codec-(?<name>\p{Lower}+)\d?"}),
    *(Case(codec, {"subscribe": f"codec-{codec}"}) for codec in ("gzip", "snappy", "lz4", "zstd")),
    Case("an empty topic", {"subscribe": "empty"}),
    Case("large records", {"subscribe": "large"}),
    Case("appended times", {"subscribe": "appended"}),
    Case("deleted records", {"subscribe": "deleted"}),
    Case("uncommitted", {"subscribe": "transactions"}),
    Case("committed", {"subscribe": "transactions", "kafka.isolation.level": "read_committed"}),
)
"""Both give the same rows."""

REFUSED = (
    _plain("after the end", startingOffsets=_at(8, 8, 8), endingOffsets=_at(3, 3, 3)),
    _plain("past the end", startingOffsets=_at(800, 0, 0)),
    _plain("past the end, loss accepted", startingOffsets=_at(800, 0, 0), failOnDataLoss="false"),
    _plain("until past the end", endingOffsets=_at(150, 3, 3), **QUICK),
    _plain("times the wrong way", startingTimestamp=str(EARLY + 99), endingTimestamp=str(EARLY + 3)),
    _plain("some partitions", startingOffsets='{"plain": {"0": 3}}'),
    _plain("a partition too many", startingOffsets='{"plain": {"0": 3, "1": 3, "2": 3, "3": 3}}'),
    _plain("no record so late", startingTimestamp=str(EARLY + 10**6)),
    _plain("a batch from the latest", startingOffsets="latest"),
    _plain("a partition from the latest", startingOffsets=_at(-2, 7, -1)),
    _plain("a batch to the earliest", endingOffsets="earliest"),
    _plain("no offsets", startingOffsets='{"plain":'),
    _plain("an impossible offset", startingOffsets=_at(-5, 0, 0)),
    _plain("neither true nor false", failOnDataLoss="maybe"),
    _plain("no tasks", minPartitions="0"),
    _plain("two ways to choose", assign='{"plain": [0]}'),
    _plain("a strategy that is none", startingOffsetsByTimestampStrategy="soon", startingTimestamp="9"),
    _plain("a consumer's own start", **{"kafka.auto.offset.reset": "latest"}),
    _plain("an isolation that is none", **{"kafka.isolation.level": "junk"}),
    Case("no way to choose", {}),
    Case("no such topic", {"subscribe": "nope"}),
)
"""Both raise."""

STREAMS = (
    _plain("everything", startingOffsets="earliest"),
    _plain("from the latest"),
    _plain("admitted by lag", startingOffsets=_at(90, 40, 0), maxOffsetsPerTrigger="85"),
    _plain("from offsets", startingOffsets=_at(90, -2, -1)),
    _plain("from a time", startingTimestamp=str(EARLY + 150)),
    _plain("split", startingOffsets="earliest", minPartitions="7"),
    Case(
        "committed",
        {
            "subscribe": "transactions",
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
        },
    ),
)
"""Both give the same rows in micro-batches of the same size.

(Where shares of maxOffsetsPerTrigger are no whole numbers, Spark's connector takes a few less than it may.)
"""
