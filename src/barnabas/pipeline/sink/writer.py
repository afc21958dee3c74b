"""The sink as Spark calls it.

A micro-batch: `streamWriter` in the planner's process, which pickles the writer for the tasks; `write` in each
task; `streamWriter` and `commit` (or `abort`) in a third process.  So nothing may happen when a writer is made.
The driver begins a micro-batch when the writer is pickled: in the planner's process, before any task, and nowhere
else.
"""

# ruff: noqa: N803 (the names of arguments are Spark's)

from __future__ import annotations

import logging
import pickle
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.client.cluster import Cluster
from barnabas.errors import BarnabasError, ConfigError
from barnabas.pipeline.plain_errors import plainly
from barnabas.pipeline.sink.batch import SinkDriver
from barnabas.pipeline.sink.decisions import Claim, Done
from barnabas.pipeline.sink.identity import sink_name
from barnabas.pipeline.sink.options import AT_LEAST_ONCE, SinkOptions
from barnabas.pipeline.sink.rows import Row, check_columns, rows_of
from barnabas.pipeline.sink.task import write_at_least_once, write_prepared
from barnabas.pipeline.worker_heap import settle

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchWriter", "StreamWriter", "batch_writer", "stream_writer"]

log = logging.getLogger("barnabas.pipeline")

_BATCH = "streaming.sql.batchId"

_drivers: dict[tuple[SinkOptions, str], SinkDriver] = {}
"""The sinks that this process drives: connections are kept from micro-batch to micro-batch."""


class NotBegunError(BarnabasError, pickle.PickleError):
    """A micro-batch cannot begin.  (Of errors while it pickles Spark keeps only those of pickle whole.)"""


@dataclass
class Written(WriterCommitMessage):
    """What a task hands to the driver; None where a task writes at least once."""

    done: Done | None


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> StreamWriter:
    """The sink of a query.  Raises ConfigError."""
    options = _checked(options, schema)
    if overwrite:
        raise ConfigError("a topic cannot be overwritten", next_step='use outputMode("append")')
    return StreamWriter(options, None if options.delivery == AT_LEAST_ONCE else sink_name(options))


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> BatchWriter:
    """The sink of `df.write`.  Raises ConfigError."""
    options = _checked(options, schema)
    if overwrite:
        raise ConfigError("a topic cannot be overwritten", next_step='use .mode("append")')
    return BatchWriter(options, None if options.delivery == AT_LEAST_ONCE else uuid.uuid4().hex)


def _checked(options: SinkOptions, schema: StructType) -> SinkOptions:
    """The options, for rows of this schema.  Raises ConfigError."""
    settle()
    values = options.values
    check_columns(schema, options.topic, mapped=options.offset_map is not None, structs=values is not None)
    if values is None:
        return options
    from barnabas.pipeline.values.encoding import check_struct

    type_ = schema["value"].dataType
    check_struct(values, type_)
    return replace(options, values=replace(values, type_json=type_.json()))


def _registered(options: SinkOptions) -> SinkOptions:
    """The options with the id of the values' schema in a registry, where there is one.  Raises NotBegunError."""
    if options.values is None or options.values.registry is None:
        return options
    from barnabas.pipeline.values.confluent import registered

    try:
        return replace(options, values=registered(options.values))
    except BarnabasError as error:
        raise NotBegunError(f"{error}", next_step=error.next_step) from error


def _records_of(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of a task as records."""
    if options.values is None:
        return rows_of(batches, options.topic)
    from barnabas.pipeline.values.encoding import encoded

    return rows_of(encoded(batches, options.values), options.topic)


def _driver(options: SinkOptions, name: str) -> SinkDriver:
    """The driver of a query's sink, which this process keeps."""
    if (options, name) not in _drivers:
        _drivers[options, name] = _new_driver(options, name)
    return _drivers[options, name]


def _new_driver(options: SinkOptions, name: str) -> SinkDriver:
    cluster = Cluster(
        options.bootstrap,
        client_id=options.client_id,
        timeout=options.request_timeout,
        security=options.security,
    )
    return SinkDriver(options.bootstrap, cluster, name, fail_on_data_loss=options.fail_on_data_loss)


@contextmanager
def _told_by_the_failure() -> Iterator[None]:
    """Aborting fails where writing did, and Spark would show this error in place of the first one.

    What stays open is aborted when the query begins again, or by its timeout.
    """
    try:
        yield
    except BarnabasError as error:
        log.warning("transactions that failed stay open: %s", error)


def _done(messages: list[WriterCommitMessage | None]) -> list[Done | None]:
    return [message.done if isinstance(message, Written) else None for message in messages]


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches.  `name` of the sink; None: at least once."""

    def __init__(self, options: SinkOptions, name: str | None) -> None:
        self.options = options
        self.name = name
        self.claim: Claim | None = None

    @plainly
    def __getstate__(self) -> dict[str, Any]:
        """Pickled for the tasks: the micro-batch begins."""
        self.options = _registered(self.options)
        if self.name is not None and self.claim is None:
            try:
                self.claim = _driver(self.options, self.name).begin()
            except BarnabasError as error:
                advice = error.next_step or "see whether a node listens there; the query goes on where it was"
                raise NotBegunError(f"{error}", next_step=advice) from error
        return self.__dict__

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        settle()
        rows = _records_of(self.options, iterator)
        if self.name is None:
            write_at_least_once(self.options, rows)
            return Written(None)
        assert self.claim is not None
        return Written(write_prepared(self.options, self.name, self.claim, self._batch(), rows))

    def _batch(self) -> int:
        context = TaskContext.get()
        said = None if context is None else context.getLocalProperty(_BATCH)
        if said is None:
            raise BarnabasError(
                f"Spark does not say which micro-batch this task belongs to ({_BATCH})",
                next_step="use pyspark 4.3, or delivery=at-least-once",
            )
        return int(said)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.name is not None:
            done = [one for one in _done(messages) if one is not None]
            _driver(self.options, self.name).commit(batchId, done)

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.name is not None:
            with _told_by_the_failure():
                _driver(self.options, self.name).abort(batchId, _done(messages))


class BatchWriter(DataSourceArrowWriter):
    """Writes once.  Nobody repeats a write that failed, so there is no decision: all or nothing unless the driver
    dies while it commits."""

    def __init__(self, options: SinkOptions, name: str | None) -> None:
        self.options = options
        self.name = name

    @plainly
    def __getstate__(self) -> dict[str, Any]:
        """Pickled for the tasks."""
        self.options = _registered(self.options)
        return self.__dict__

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        settle()
        rows = _records_of(self.options, iterator)
        if self.name is None:
            write_at_least_once(self.options, rows)
            return Written(None)
        return Written(write_prepared(self.options, self.name, None, 0, rows))

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._end(messages, commit=True)

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with _told_by_the_failure():
            self._end(messages, commit=False)

    def _end(self, messages: list[WriterCommitMessage | None], *, commit: bool) -> None:
        settle()
        if self.name is None:
            return
        driver = _new_driver(self.options, self.name)
        try:
            driver.end_all(_done(messages), commit=commit)
        finally:
            driver.close()
