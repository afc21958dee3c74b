"""What a user may say about a source, under the names that Spark's own Kafka connector has.

A job written for `format("kafka")` moves to `format("barnabas")` with its options.  An option that is
misspelt, contradicts another or would silently do nothing is an error that says so: a pipeline that reads
from the wrong place is worse than one that does not start.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from barnabas.client.security.options import PLAINTEXT, Security
from barnabas.errors import ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.java_patterns import python_pattern
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.option_words import CLIENT_SETTINGS, INT64, OF_KEYS, SECURITY, OptionWords
from barnabas.pipeline.values.options import SOURCE_NAMES, ValueOptions

__all__ = ["COLUMNS", "EARLIEST", "LATEST", "NAMES", "Bound", "SourceOptions", "columns_of", "values_of"]

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns of Spark's own connector, in its order, with their types as Spark writes them.

Headers only where they are asked for.
"""

log = logging.getLogger("barnabas.pipeline")

EARLIEST = -2
"""Offset that stands for the first record there is."""
LATEST = -1
"""Offset that stands for the end of the log."""

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading starts or ends: at an end of the log, at given offsets, or at a point in time (ms)."""

    everywhere: int | None = None
    offsets: Offsets | None = None
    timestamp: int | None = None
    timestamps: Offsets | None = None

    @property
    def by_time(self) -> bool:
        return self.timestamp is not None or self.timestamps is not None


NAMES: dict[str, str] = {
    "kafka.bootstrap.servers": "host:port of some brokers, separated by commas",
    "subscribe": "topics, separated by commas",
    "subscribePattern": "regular expression that whole topic names match",
    "assign": 'partitions, {"topic": [0, 1]}',
    "startingOffsets": 'earliest, latest or {"topic": {"0": 5}} (default: latest in a stream, else earliest)',
    "startingTimestamp": "milliseconds since 1970: from the first record at or after it",
    "startingOffsetsByTimestamp": 'the same per partition, {"topic": {"0": 1700000000000}}',
    "startingOffsetsByTimestampStrategy": "error or latest: what to do when no record is that late",
    "endingOffsets": "latest (default) or per partition; batch only",
    "endingTimestamp": "milliseconds since 1970: up to the first record at or after it; batch only",
    "endingOffsetsByTimestamp": "the same per partition; batch only",
    "failOnDataLoss": "true (default): stop when records that were not read yet are gone",
    "maxOffsetsPerTrigger": "at most so many offsets per micro-batch, shared out by lag",
    "minOffsetsPerTrigger": "no micro-batch before so many offsets are there (or maxTriggerDelay is over)",
    "maxTriggerDelay": "longest wait for minOffsetsPerTrigger, 15m by default",
    "minPartitions": "split large ranges so that there are at least so many tasks",
    "maxRecordsPerPartition": "split ranges longer than this",
    "columns": "only these columns, separated by commas; others are not even decoded",
    "includeHeaders": "add the column headers: array<struct<key: string, value: binary>>",
    "groupIdPrefix": "prefix of the client id under which brokers see the tasks",
    "kafka.group.id": "a stream commits its offsets to this group after each micro-batch, so that its lag shows",
    "kafka.client.rack": "where the tasks run: they read at a replica in this rack (KIP-392)",
    "kafka.client.id": "client id under which brokers see the tasks",
    "kafka.isolation.level": "read_uncommitted (default) or read_committed",
    "kafkaConsumer.pollTimeoutMs": "how long a task waits for its records, 120000 by default",
    "kafka.request.timeout.ms": "how long a question may take with its repetitions, 60000 by default",
    "kafka.max.partition.fetch.bytes": "bytes asked for in one fetch, 16777216 by default",
    "fetchOffset.numRetries": "has no effect: questions are repeated until kafka.request.timeout.ms",
    "fetchOffset.retryIntervalMs": "has no effect: the pauses between repetitions grow by themselves",
    **SOURCE_NAMES,
    **SECURITY,
}
"""Every option, with its meaning."""

# Settings of a consumer that a reader of exact ranges has no use for: said once, then left out.
_NO_EFFECT = frozenset(
    {
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "kafka.session.timeout.ms",
        "kafka.heartbeat.interval.ms",
        "kafka.max.poll.records",
        "kafka.max.poll.interval.ms",
        "kafka.fetch.min.bytes",
        "kafka.fetch.max.wait.ms",
        "kafka.fetch.max.bytes",
        "kafka.check.crcs",
        "kafka.allow.auto.create.topics",
        "kafka.group.instance.id",
        "kafka.group.protocol",
        "kafka.group.remote.assignor",
        "kafka.partition.assignment.strategy",
        "kafka.exclude.internal.topics",
        *CLIENT_SETTINGS,
    }
)
_REFUSED = {
    "kafka.auto.offset.reset": "say startingOffsets and failOnDataLoss instead",
    "kafka.enable.auto.commit": "positions are kept in Spark's checkpoint",
    **dict.fromkeys(
        ("kafka.key.deserializer", *OF_KEYS), "keys come as binary; cast or parse them in the query"
    ),
    "kafka.value.deserializer": "values come as binary, or as structs with valueFormat",
    "kafka.interceptor.classes": "there is no consumer that they could hook into",
}
_CHOICE = ("subscribe", "subscribePattern", "assign")
_YEAR_MS = 31_556_952_000
_SECONDS_NOW = 2_000_000_000
"""About; ten times as many milliseconds are in 1970, 100,000 times as many in the year 8307."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one source, checked.  Times in seconds, sizes in bytes."""

    bootstrap: str
    start: Bound
    end: Bound
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    fail_on_data_loss: bool = True
    start_after_the_last: Literal["error", "latest"] = "error"
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay: float = 900.0
    min_partitions: int | None = None
    max_records: int | None = None
    columns: tuple[str, ...] = tuple(COLUMNS)[:-1]
    group: str | None = None
    rack: str = ""
    isolation: Isolation = "read_uncommitted"
    client_id: str = "barnabas-spark"
    timeout: float = 60.0
    read_timeout: float = 120.0
    fetch_bytes: int = 16 << 20
    security: Security = PLAINTEXT
    values: ValueOptions | None = None
    without_effect: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Check what was given to `.option()`; names in any case.  ConfigError names the nearest."""
        words = _Words(given)
        choice = words.exactly_one_of(_CHOICE)
        start, end = words.bound("starting"), words.bound("ending")
        if streaming and end != Bound():
            raise ConfigError(
                "a stream has no end", next_step="leave out the ending... option, or use spark.read"
            )
        if not streaming and (start.everywhere == LATEST or LATEST in (start.offsets or {}).values()):
            raise ConfigError("a batch that starts at the latest offset reads nothing: startingOffsets")
        if end.everywhere == EARLIEST:
            raise ConfigError("a batch that ends at the earliest offset reads nothing: endingOffsets")
        default_start = Bound(everywhere=LATEST if streaming else EARLIEST)
        delay = words.text("maxTriggerDelay", "15m")
        return cls(
            bootstrap=words.required("kafka.bootstrap.servers"),
            topics=_names(words.text("subscribe", "")) if choice == "subscribe" else (),
            pattern=_pattern(words.text(choice, "")) if choice == "subscribePattern" else None,
            assigned=_assignment(words.text("assign", "")) if choice == "assign" else (),
            start=default_start if start == Bound() else start,
            end=Bound(everywhere=LATEST) if end == Bound() else end,
            start_after_the_last=words.one_of("startingOffsetsByTimestampStrategy", "error", "latest"),
            fail_on_data_loss=words.boolean("failOnDataLoss", True),
            max_offsets=words.whole("maxOffsetsPerTrigger", most=INT64),
            min_offsets=words.whole("minOffsetsPerTrigger", most=INT64),
            max_delay=_duration("maxTriggerDelay", delay),
            min_partitions=words.whole("minPartitions"),
            max_records=words.whole("maxRecordsPerPartition", most=INT64),
            columns=_columns(words),
            group=words.text("kafka.group.id", "") or None,
            rack=words.text("kafka.client.rack", ""),
            isolation=words.one_of("kafka.isolation.level", "read_uncommitted", "read_committed"),
            client_id=words.client_id(),
            timeout=(words.whole("kafka.request.timeout.ms") or 60_000) / 1000,
            read_timeout=(words.whole("kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
            fetch_bytes=words.whole("kafka.max.partition.fetch.bytes") or 16 << 20,
            security=words.security(),
            values=_values(words),
            without_effect=words.without_effect,
        )._agreeing()

    def _agreeing(self) -> SourceOptions:
        least, most = self.min_offsets, self.max_offsets
        if least is not None and most is not None and least > most:
            raise ConfigError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
        letters = self.values.dead_letters if self.values is not None else ""
        if letters and (
            letters in self.topics
            or letters in {where.topic for where in self.assigned}
            or (self.pattern is not None and re.fullmatch(python_pattern(self.pattern), letters))
        ):
            raise ConfigError(
                f"badRecords=topic:{letters} is a topic that is read", next_step="name another topic"
            )
        if self.without_effect:
            log.warning("options without effect on this source: %s", ", ".join(self.without_effect))
        return self


class _Words(OptionWords):
    """The options of a source."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given, NAMES, _NO_EFFECT, _REFUSED)

    def client_id(self) -> str:
        for name in ("kafka.client.id", "kafka.group.id", "groupIdPrefix"):
            if value := self.text(name, ""):
                return value
        return "barnabas-spark"

    def bound(self, side: str) -> Bound:
        """The first of side+Timestamp, side+OffsetsByTimestamp, side+Offsets that was given (as in Spark)."""
        name = f"{side}Timestamp"
        if self.text(name, ""):
            time = self.whole(name, least=0, most=INT64, of=" of milliseconds since 1970,")
            assert time is not None
            _say_what_time_it_is(name, time)
            return Bound(timestamp=time)
        name = f"{side}OffsetsByTimestamp"
        if text := self.text(name, ""):
            return Bound(timestamps=_times(name, text))
        text = self.text(f"{side}Offsets", "")
        if not text:
            return Bound()
        if text.lower() in ("earliest", "latest"):
            return Bound(everywhere=EARLIEST if text.lower() == "earliest" else LATEST)
        offsets = Positions.read(text).offsets
        worst = min(offsets.values(), default=0)
        if worst < EARLIEST:
            raise ConfigError(f"{side}Offsets: {worst} is no offset (-2 is the earliest, -1 the latest)")
        if side == "ending" and EARLIEST in offsets.values():
            raise ConfigError("endingOffsets: a partition cannot end at the earliest offset (-2)")
        return Bound(offsets=offsets)


def _times(name: str, text: str) -> Offsets:
    """Return the time of each partition.  (ListOffsets takes a time below 0 for the end, the beginning, ...)"""
    advice = 'write milliseconds since 1970: {"topic": {"0": 1700000000000}}'
    try:
        times = Positions.read(text).offsets
    except ConfigError as error:
        raise ConfigError(f"{name}={text[:200]}: these are no times", next_step=advice) from error
    if (least := min(times.values(), default=0)) < 0:
        raise ConfigError(f"{name}: {least} is no time", next_step=advice)
    for time in times.values():
        _say_what_time_it_is(name, time)
    return times


def _say_what_time_it_is(name: str, time: int) -> None:
    """Warn of milliseconds that are probably seconds, or microseconds: they mean the first record, or the end."""
    if time and not _SECONDS_NOW * 10 < time < _SECONDS_NOW * 100_000:
        year = 1970 + time // _YEAR_MS
        log.warning(
            "%s=%d is in the year %d: it is in milliseconds, which have 13 digits now", name, time, year
        )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _pattern(text: str) -> str:
    python_pattern(text)
    return text


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that these options ask for.  Raises ConfigError."""
    return _columns(_Words(given))


def _columns(words: _Words) -> tuple[str, ...]:
    """Those that were named, in the order of the schema; all of them where none was."""
    text, include_headers = words.text("columns", ""), words.boolean("includeHeaders", False)
    names = {name.lower(): name for name in COLUMNS}
    wanted: set[str] = set()
    for word in _names(text):
        if word.lower() not in names:
            raise ConfigError(f"columns={text[:200]}: there is no column {word}, but {', '.join(COLUMNS)}")
        wanted.add(names[word.lower()])
    if text and not wanted:
        raise ConfigError("columns names no column", next_step=f"name some of {', '.join(COLUMNS)}")
    if include_headers and wanted and "headers" not in wanted:
        raise ConfigError(
            "includeHeaders=true, and columns leaves headers out", next_step="say one or the other"
        )
    if not wanted:
        wanted = set(COLUMNS) if include_headers else set(COLUMNS) - {"headers"}
    return tuple(name for name in COLUMNS if name in wanted)


def values_of(given: Mapping[str, str]) -> ValueOptions | None:
    """What these options say about values; None: they stay bytes.  Raises ConfigError."""
    return _values(_Words(given))


def _values(words: _Words) -> ValueOptions | None:
    values = ValueOptions.of_source(words)
    if values is None:
        return None
    if "value" not in _columns(words):
        raise ConfigError(f"valueFormat={values.format}, and columns leaves value out")
    if values.column.lower() in {name.lower() for name in COLUMNS}:
        raise ConfigError(
            f"columnNameOfCorruptRecord={values.column}: there is a column of that name already"
        )
    return values


def _assignment(text: str) -> tuple[TopicPartition, ...]:
    try:
        lists = dict(json.loads(text).items())
        found = {TopicPartition(topic, number) for topic, numbers in lists.items() for number in numbers}
        if not all(isinstance(numbers, list) for numbers in lists.values()) or not all(
            type(where.partition) is int and where.partition >= 0 for where in found
        ):
            raise ValueError("it has something that is no number of a partition")
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(f'assign={text[:200]}: write it as {{"topic": [0, 1]}}') from error
    if not found:
        raise ConfigError("assign names no partition")
    return tuple(sorted(found))


def _duration(name: str, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|)", text.strip().lower())
    if not match:
        raise ConfigError(
            f"{name}={text}: write a time as 500ms, 10s, 15m or 1h; a bare number is milliseconds"
        )
    return float(match[1]) * _UNITS[match[2] or "ms"]
