"""The data source `barnabas`: what Spark calls, in the order in which it calls it.

    spark.readStream.format("barnabas").option("kafka.bootstrap.servers", "localhost:9092")
         .option("subscribe", "flights").load()

Columns and options are those of Spark's own Kafka connector.  A batch: `partitions` resolves both ends and
splits, tasks `read`.  A stream: `initialOffset` once, then per micro-batch `latestOffset(start, limit)`,
`partitions(start, end)`, `read` in tasks.  Planning is in `plan`; here is only what Spark's interface adds:
the limits that come from the trigger, Trigger.AvailableNow, and what data loss means to a task.

Offsets are taken once, by Spark's checkpoint: a micro-batch that was planned and not finished is read again
with exactly the same offsets, so that a sink which is exactly-once by batch or by offset stays so.
"""

# ruff: noqa: N802 (the names of the methods are Spark's)

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.client.connection import ConnectionFailed
from barnabas.errors import ErrorCode, KafkaError
from barnabas.pipeline.filters import EVERYTHING, wanted_by
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.options import COLUMNS, EARLIEST, LATEST, SourceOptions, columns_of, values_of
from barnabas.pipeline.own_columns import check_columns
from barnabas.pipeline.plain_errors import plainly
from barnabas.pipeline.plan import (
    ClusterView,
    DataLossError,
    Ends,
    Range,
    admit,
    check_loss,
    check_order,
    discover,
    ends_of,
    resolve,
    split,
    times_of,
)
from barnabas.pipeline.values.confluent import with_schema
from barnabas.pipeline.values.dead_letters import DeadLetters, check_topic
from barnabas.pipeline.values.shapes import check_type, check_unchanged, struct_ddl
from barnabas.pipeline.worker_heap import settle

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BarnabasSource", "BatchReader", "StreamReader"]

log = logging.getLogger("barnabas.pipeline")

_PUSHES_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program of Spark's that hands conditions to a batch reader, where its session allows that."""


class BarnabasSource(DataSource):
    """`spark.read.format("barnabas")` and `spark.readStream.format("barnabas")`."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    @plainly
    def schema(self) -> str:
        values = values_of(self.options)
        types = COLUMNS
        if values is not None:
            types = COLUMNS | {"value": struct_ddl(with_schema(values))}
        shown = [f"{name}: {types[name]}" for name in columns_of(self.options)]
        if values is not None and values.corrupt_column is not None:
            shown.append(f"`{values.corrupt_column.replace('`', '``')}`: binary")
        settle()
        return f"struct<{', '.join(shown)}>"  # (of a bare list Spark blames the first column for any mistake)

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        kind = FilteringReader if _PUSHES_FILTERS in sys.orig_argv else BatchReader
        return kind(self.checked(schema, streaming=False))

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self.checked(schema, streaming=True))

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.pipeline.sink.options import SinkOptions
        from barnabas.pipeline.sink.writer import stream_writer

        return stream_writer(SinkOptions.parse(self.options), schema, overwrite)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.pipeline.sink.options import SinkOptions
        from barnabas.pipeline.sink.writer import batch_writer

        return batch_writer(SinkOptions.parse(self.options), schema, overwrite)

    def checked(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        """Return the options, checked, with the struct that Spark has read out of valueSchema.

        Raises ConfigError, also where `.schema()` gave other columns than these options make.
        """
        settle()
        options = SourceOptions.parse(self.options, streaming=streaming)
        values = options.values
        check_columns(schema, options)
        if values is None:
            return options
        type_ = schema["value"].dataType
        read = with_schema(values)
        check_unchanged(read, type_, newest=not values.schema)
        check_type(type_, read.format)
        return replace(options, values=replace(read, type_json=type_.json()))


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The part of one task."""

    range: Range


def read_range(options: SourceOptions, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task.  Runs in a worker; imports what it needs there."""
    values = options.values
    if values is None:
        return _bytes_of(options, part, options.columns)
    from barnabas.pipeline.values.decoding import decoded, needed

    def letters() -> DeadLetters:
        return DeadLetters(options.bootstrap, values.dead_letters, options.client_id, options.security)

    rows = _bytes_of(options, part, needed(options.columns, values))
    return decoded(rows, values, options.columns, letters)


def _bytes_of(
    options: SourceOptions, part: InputPartition, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, with values as they are in the log."""
    from barnabas.client.fetching import RawBatch
    from barnabas.pipeline.records import ArrowDecoder, arrow_batches
    from barnabas.pipeline.view import fetch

    settle()
    if not isinstance(part, RangePartition):
        return  # Spark plans one empty part when there is nothing to read
    wanted: Range | None = part.range
    while wanted is not None:
        decoder = ArrowDecoder(
            wanted.where.topic,
            wanted.where.partition,
            start=wanted.start,
            end=wanted.end,
            columns=columns,
        )
        seen = wanted.start

        def batches(found: Iterator[RawBatch]) -> Iterator[tuple[memoryview, Any]]:
            nonlocal seen
            for batch in found:
                yield batch.buffer, batch.header
                seen = max(seen, batch.header.last_offset + 1)

        try:
            yield from arrow_batches(decoder, batches(fetch(options, wanted)))
            return
        except KafkaError as error:
            # What was decoded and not given out yet comes before the loss: give it out first.
            if (rows := decoder.take()) is not None:
                yield rows
            wanted = after_loss(options, wanted._replace(start=seen), error)


_LOSSES = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def after_loss(options: SourceOptions, wanted: Range, error: KafkaError) -> Range | None:
    """What is left to read of a range whose records went away while it was read; None for nothing.

    Raises DataLossError unless the user said failOnDataLoss=false, and any other error as it is.
    """
    from barnabas.pipeline.view import ClientView

    if error.code not in _LOSSES:
        raise error
    said = f"{wanted.where} from offset {wanted.start}: {error}"
    if options.fail_on_data_loss:
        raise DataLossError(said) from error
    log.warning("data loss: %s", said)
    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return None
    first = ClientView(options).offsets({wanted.where: EARLIEST})[0][wanted.where]
    return wanted._replace(start=first) if wanted.start < first < wanted.end else None


def client_view(options: SourceOptions) -> ClusterView:
    from barnabas.pipeline.view import ClientView

    return ClientView(options)


def patient_view(options: SourceOptions) -> ClusterView:
    """The view of a stream: it waits for a cluster that does not answer yet."""
    from barnabas.pipeline.view import ClientView

    return ClientView(options, patient=True)


def report(options: SourceOptions, lost: list[str]) -> None:
    """DataLossError for what was lost, in words; only said where the user accepts it."""
    if lost and options.fail_on_data_loss:
        raise DataLossError("; ".join(lost))
    for what in lost:
        log.warning("data loss: %s", what)


ViewOf: TypeAlias = Callable[[SourceOptions], ClusterView]


class BatchReader(DataSourceReader):
    """Reads once, from one bound to the other."""

    def __init__(self, options: SourceOptions, view: ViewOf = client_view) -> None:
        self.options = options
        self.view = view
        self.wanted = EVERYTHING

    @plainly
    def partitions(self) -> list[InputPartition]:
        view, options, wanted = self.view(self.options), self.options, self.wanted
        check_topic(options.values, view.topics)
        found = discover(view, options)
        every = found.partitions
        since = {} if wanted.since is None else dict.fromkeys(filter(wanted.has, every), wanted.since)
        earliest, latest, at_start, at_end, late = view.offsets(
            dict.fromkeys(every, EARLIEST),
            dict.fromkeys(every, LATEST),
            times_of(found, options.start),
            times_of(found, options.end),
            since,
        )
        ends = Ends(earliest, latest)
        start = resolve(found, options.start, ends, at_start, after_the_last=options.start_after_the_last)
        end = resolve(found, options.end, ends, at_end)
        check_order(start, end)
        begin, lost = check_loss(Positions(start, found.ids), earliest, latest, found.ids)
        past = sorted(where for where in end if end[where] > latest[where])
        lost += [f"{where} ends at offset {latest[where]}, before {end[where]}" for where in past]
        report(options, lost)
        end = {where: min(offset, latest[where]) for where, offset in end.items()}
        begin, end = wanted.narrowed(begin, end, late)
        settle()
        return [RangePartition(part) for part in split(begin, end, options, found.ids)]

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from read_range(self.options, partition)


class FilteringReader(BatchReader):
    """One that takes conditions.

    Spark refuses a reader that could, where spark.sql.python.filterPushdown.enabled does not allow it: so this is
    what it gets in the process where it hands conditions over, and nowhere else.
    """

    @plainly
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.wanted = wanted_by(filters)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on, a micro-batch at a time.  One object per query plans; copies of it read in tasks."""

    def __init__(
        self,
        options: SourceOptions,
        view: ViewOf = patient_view,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.view = view
        self.clock = clock
        self.until: Positions | None = None
        self.newest: Positions | None = None
        self.last_batch: float | None = None
        self.shown: Offsets = {}
        """What kafka.group.id has."""
        self.told: list[str] = []
        """The losses that were said last: Spark asks twice about each micro-batch."""

    # -- what Spark asks of a stream, in its order -------------------------------------------------

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self._ends()[0]

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.min_offsets is not None:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable()

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        view, start = self.view(self.options), self.options.start
        found = discover(view, self.options)
        every = found.partitions
        earliest, latest, at_start = view.offsets(
            dict.fromkeys(every, EARLIEST), dict.fromkeys(every, LATEST), times_of(found, start)
        )
        late = self.options.start_after_the_last
        offsets = resolve(found, start, Ends(earliest, latest), at_start, after_the_last=late)
        return Positions(offsets, found.ids).tree()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        stand = Positions.read(start)
        latest, earliest = self._ends()
        self.newest = latest
        ends, ids = self._not_past_the_target(latest, stand)
        begin, lost = check_loss(stand, earliest, ends, ids)
        self._report(lost)
        self._show({where: stand.offsets[where] for where in begin if where in stand.offsets})
        most = None if isinstance(limit, ReadAllAvailable) else self.options.max_offsets
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        least = (
            None
            if isinstance(limit, ReadAllAvailable) or self.until is not None
            else self.options.min_offsets
        )
        there = sum(ends[where] - begin[where] for where in begin)
        if least is not None and there < least and not self._waited_long_enough():
            return start
        if there or begin.keys() != stand.offsets.keys():
            self.last_batch = self.clock()
        return Positions(admit(begin, ends, most), ids).tree()

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        stand, goal = Positions.read(start), Positions.read(end)
        view = self.view(self.options)
        there = set(goal.offsets)
        gone: list[str] = []
        try:
            [earliest] = view.offsets(dict.fromkeys(there, EARLIEST))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            gone.append(str(error))
            there &= set(discover(view, self.options, missing_ok=True).partitions)
            [earliest] = view.offsets(dict.fromkeys(there, EARLIEST))
        ends = {where: goal.offsets[where] for where in there}
        begin, lost = check_loss(stand, earliest, ends, goal.ids)
        self._report([*gone, *lost])
        return [RangePartition(part) for part in split(begin, ends, self.options, goal.ids)]

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from read_range(self.options, partition)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.newest.tree() if self.newest else None

    def commit(self, end: dict[str, Any]) -> None:
        self._show(Positions.read(end).offsets)

    # -- steps of the above ------------------------------------------------------------------------

    def _report(self, lost: list[str]) -> None:
        """The same as `report`, without what was said the last time."""
        report(self.options, [what for what in lost if what not in self.told])
        self.told = lost

    def _ends(self) -> tuple[Positions, Offsets]:
        """Where the partitions that there are end, and where they begin."""
        view = self.view(self.options)
        if self.newest is None:
            check_topic(self.options.values, view.topics)
        found = discover(view, self.options, missing_ok=True)
        ends = ends_of(view, found.partitions)
        return Positions(ends.latest, found.ids), ends.earliest

    def _show(self, done: Offsets) -> None:
        """Commit to kafka.group.id what is done, if that is news.  It is shown there, never read: it may fail.

        Spark says `commit` only when it plans the next micro-batch; but it asks for the latest offset again and
        again, from where the last one ended.
        """
        if self.options.group is None or not done or done == self.shown:
            return
        try:
            self.view(self.options).commit(self.options.group, done)
        except (KafkaError, ConnectionFailed) as error:
            log.warning("offsets are not shown in group %s: %s", self.options.group, error)
        self.shown = done

    def _not_past_the_target(self, latest: Positions, stand: Positions) -> tuple[Offsets, dict[str, Any]]:
        """With AvailableNow nothing beyond the ends at its start is read, and no later partition."""
        if self.until is None:
            return latest.offsets, latest.ids
        target = self.until.offsets
        ends: Offsets = {}
        for where, end in latest.offsets.items():
            stood = stand.offsets.get(where)
            if where in target or stood is not None:
                ends[where] = min(end, max(target.get(where, 0), stood or 0))
        topics = {where.topic for where in ends}
        return ends, {topic: id_ for topic, id_ in latest.ids.items() if topic in topics}

    def _waited_long_enough(self) -> bool:
        if self.last_batch is None:
            return True  # (the first micro-batch waits for nothing, as in Spark's connector)
        return self.clock() - self.last_batch >= self.options.max_delay
