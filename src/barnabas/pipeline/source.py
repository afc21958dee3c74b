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
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
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

from barnabas.errors import ErrorCode, KafkaError
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.options import EARLIEST, LATEST, SourceOptions
from barnabas.pipeline.plan import (
    ClusterView,
    DataLossError,
    Found,
    Range,
    admit,
    ask,
    check_loss,
    discover,
    resolve,
    split,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BarnabasSource", "BatchReader", "StreamReader"]

log = logging.getLogger("barnabas.pipeline")

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)
HEADERS = ", headers array<struct<key: string, value: binary>>"


class BarnabasSource(DataSource):
    """`spark.read.format("barnabas")` and `spark.readStream.format("barnabas")`."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> str:
        headers = {name.lower(): value for name, value in self.options.items()}.get("includeheaders", "false")
        return SCHEMA + (HEADERS if headers.strip().lower() == "true" else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self.checked(streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self.checked(streaming=True))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.pipeline.sink.options import SinkOptions
        from barnabas.pipeline.sink.writer import stream_writer

        return stream_writer(SinkOptions.parse(self.options), schema, overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.pipeline.sink.options import SinkOptions
        from barnabas.pipeline.sink.writer import batch_writer

        return batch_writer(SinkOptions.parse(self.options), schema, overwrite)

    def checked(self, *, streaming: bool) -> SourceOptions:
        """The options, read and checked."""
        return SourceOptions.parse(self.options, streaming=streaming)


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The part of one task."""

    range: Range


def read_range(options: SourceOptions, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task.  Runs in a worker; imports what it needs there."""
    from barnabas.client.fetching import RawBatch
    from barnabas.pipeline.records import ArrowDecoder, arrow_batches
    from barnabas.pipeline.view import fetch

    if not isinstance(part, RangePartition):
        return  # Spark plans one empty part when there is nothing to read
    wanted: Range | None = part.range
    while wanted is not None:
        decoder = ArrowDecoder(
            wanted.where.topic,
            wanted.where.partition,
            start=wanted.start,
            end=wanted.end,
            include_headers=options.include_headers,
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
    first = ask(ClientView(options), (wanted.where,), {wanted.where: EARLIEST})[wanted.where]
    return wanted._replace(start=first) if wanted.start < first < wanted.end else None


def client_view(options: SourceOptions) -> ClusterView:
    from barnabas.pipeline.view import ClientView

    return ClientView(options)


def patient_view(options: SourceOptions) -> ClusterView:
    """The view of a stream: it waits for a cluster that does not answer yet."""
    from barnabas.pipeline.view import ClientView

    return ClientView(options, patient=True)


ViewOf: TypeAlias = Callable[[SourceOptions], ClusterView]


class BatchReader(DataSourceReader):
    """Reads once, from one bound to the other."""

    def __init__(self, options: SourceOptions, view: ViewOf = client_view) -> None:
        self.options = options
        self.view = view

    def partitions(self) -> list[InputPartition]:
        view = self.view(self.options)
        found = discover(view, self.options)
        start = resolve(view, found, self.options.start, after_the_last=self.options.start_after_the_last)
        end = resolve(view, found, self.options.end)
        earliest = ask(view, found.partitions, dict.fromkeys(found.partitions, EARLIEST))
        latest = ask(view, found.partitions, dict.fromkeys(found.partitions, LATEST))
        begin, lost = check_loss(Positions(start, found.ids), earliest, latest, found.ids)
        past = sorted(where for where in end if end[where] > latest[where])
        lost += [f"{where} ends at offset {latest[where]}, before {end[where]}" for where in past]
        if lost and self.options.fail_on_data_loss:
            raise DataLossError("; ".join(lost))
        for what in lost:
            log.warning("data loss: %s", what)
        end = {where: min(offset, latest[where]) for where, offset in end.items()}
        return [RangePartition(part) for part in split(begin, end, self.options, found.ids)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self.options, partition)


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

    # -- what Spark asks of a stream, in its order -------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self._ends(missing_ok=True)[0]

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.min_offsets is not None:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:
        view = self.view(self.options)
        found = discover(view, self.options)
        options = self.options
        offsets = resolve(view, found, options.start, after_the_last=options.start_after_the_last)
        return Positions(offsets, found.ids).tree()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        stand = Positions.read(start)
        latest, found = self._ends(missing_ok=True)
        self.newest = latest
        ends, ids = self._not_past_the_target(latest, stand)
        begin = self._begin(stand, ends, found._replace(ids=ids))
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

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        stand, goal = Positions.read(start), Positions.read(end)
        view = self.view(self.options)
        there, earliest = set(goal.offsets), {}
        try:
            earliest = ask(view, tuple(sorted(there)), dict.fromkeys(there, EARLIEST))
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._report([str(error)])
            there = set(discover(view, self.options, missing_ok=True).partitions) & there
            earliest = ask(view, tuple(sorted(there)), dict.fromkeys(there, EARLIEST))
        ends = {where: goal.offsets[where] for where in there}
        begin, lost = check_loss(stand, earliest, ends, goal.ids)
        self._report(lost)
        return [RangePartition(part) for part in split(begin, ends, self.options, goal.ids)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self.options, partition)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.newest.tree() if self.newest else None

    # -- steps of the above ------------------------------------------------------------------------

    def _ends(self, *, missing_ok: bool) -> tuple[Positions, Found]:
        view = self.view(self.options)
        found = discover(view, self.options, missing_ok=missing_ok)
        ends = ask(view, found.partitions, dict.fromkeys(found.partitions, LATEST))
        return Positions(ends, found.ids), found

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

    def _begin(self, stand: Positions, ends: Offsets, found: Found) -> Offsets:
        view = self.view(self.options)
        where = tuple(sorted(ends))
        earliest = ask(view, where, dict.fromkeys(where, EARLIEST))
        begin, lost = check_loss(stand, earliest, ends, found.ids)
        self._report(lost)
        return begin

    def _report(self, lost: list[str]) -> None:
        if lost and self.options.fail_on_data_loss:
            raise DataLossError("; ".join(lost))
        for what in lost:
            log.warning("data loss: %s", what)

    def _waited_long_enough(self) -> bool:
        if self.last_batch is None:
            return True  # (the first micro-batch waits for nothing, as in Spark's connector)
        return self.clock() - self.last_batch >= self.options.max_delay
