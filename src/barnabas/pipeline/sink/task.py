"""A task's steps: write its rows in a transaction of this worker, and leave it prepared.

A transactional id belongs to one worker process, for a worker that is left over from an earlier attempt can then
fence nobody but itself.  Within a micro-batch a worker takes another id for each task, since to begin again with
an id aborts what it has prepared; from one micro-batch to the next the ids are used again.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator

from barnabas.client.producer import Producer
from barnabas.client.transactional import TransactionalProducer
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError, WireError
from barnabas.pipeline.sink.batch import prefix_of
from barnabas.pipeline.sink.decisions import Claim, Done, is_written
from barnabas.pipeline.sink.offset_map import SentOffsets
from barnabas.pipeline.sink.options import REQUIRED, SinkOptions
from barnabas.pipeline.sink.rows import Row

__all__ = ["write_at_least_once", "write_prepared"]

log = logging.getLogger("barnabas.pipeline")

_KEPT = 4
"""Producers of a worker that keep their connections for the next micro-batch; more tasks make others."""


class _Worker:
    """What this process keeps from task to task: its name, and its producers by sink."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(6)
        self.used: dict[str, tuple[int, int]] = {}
        """By sink: its newest micro-batch here, and how many ids are used in it."""
        self.producers: dict[str, TransactionalProducer] = {}
        self.one_phase: set[str] = set()
        """Addresses of clusters that allow no prepared transaction without a timeout."""

    def next_id(self, name: str, batch: int) -> str:
        """A transactional id under which nothing is prepared in this micro-batch, or in a newer one."""
        newest, used = self.used.get(name, (batch, 0))
        if batch > newest:
            newest, used = batch, 0
        self.used[name] = (newest, used + 1)
        return f"{prefix_of(name)}{self.name}-{used}"

    def forget(self, producer: TransactionalProducer) -> None:
        """End its connections; what it has prepared stays so."""
        self.producers = {id_: kept for id_, kept in self.producers.items() if kept is not producer}
        producer.abandon()


_workers: dict[int, _Worker] = {}
"""By process: Spark forks its workers."""


def _this_worker() -> _Worker:
    process = os.getpid()
    if process not in _workers:
        _workers[process] = _Worker()
    return _workers[process]


def write_prepared(
    options: SinkOptions, name: str, claim: Claim | None, batch: int, rows: Iterator[Row]
) -> Done:
    """Write the rows of one task of the sink `name`; nothing of them counts before its driver decides.

    `claim` is what the driver began with; None: a write that nobody decides about.
    """
    driver = None if claim is None else claim.driver
    if claim is not None and is_written(claim, batch):
        for _ in rows:
            pass  # Spark expects that its rows are taken
        return Done(driver, batch, None, 0, skipped=True)
    first = next(rows, None)
    if first is None:
        return Done(driver, batch, None, 0)
    producer = _begun(options, name, batch)
    try:
        sent = None if options.offset_map is None else SentOffsets()
        count = _send(producer, [first], sent)
        count += _send(producer, rows, sent)
        if sent is not None and options.offset_map is not None:
            producer.flush(options.delivery_timeout)
            for key, value in sent.records():
                producer.send(options.offset_map, value, key, partition=0)
        prepared = producer.prepare(options.delivery_timeout)
    except BaseException:
        _give_up(producer)
        raise
    worker = _this_worker()
    if claim is None or len(worker.producers) > _KEPT:
        worker.forget(producer)  # (a write that nobody decides about never comes back)
    kept = options.transaction_timeout if options.bootstrap in worker.one_phase else None
    return Done(driver, batch, prepared, count, kept_s=kept)


def write_at_least_once(options: SinkOptions, rows: Iterable[Row]) -> int:
    """Write the rows of one task at once; returns how many.  A task that runs again writes them again."""
    with Producer(options.bootstrap, **options.producer_options()) as producer:
        return _send(producer, rows)


def _send(producer: Producer, rows: Iterable[Row], sent: SentOffsets | None = None) -> int:
    count = 0
    for topic, value, key, partition, headers, timestamp, origin in rows:
        delivery = producer.send(topic, value, key, partition=partition, headers=headers, timestamp=timestamp)
        if sent is not None:
            sent.add(origin, delivery)
        count += 1
    return count


def _begun(options: SinkOptions, name: str, batch: int) -> TransactionalProducer:
    """A producer of this worker that has nothing prepared in this micro-batch, with a transaction open."""
    worker = _this_worker()
    id_ = worker.next_id(name, batch)
    if options.two_phases is not None and options.bootstrap not in worker.one_phase:
        try:
            return _opened(worker, options, id_, two_phases=True)
        except (KafkaError, WireError) as error:
            refused = not isinstance(error, KafkaError) or error.code in (
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                ErrorCode.UNSUPPORTED_VERSION,
            )
            if not refused:
                raise
            if options.two_phases == REQUIRED:
                raise ConfigError(
                    "the brokers allow no prepared transaction without a timeout, as twoPhaseCommit=required asks",
                    next_step="set transaction.two.phase.commit.enable=true (and, on Barnabas, "
                    "unstable.api.versions.enable=true) there, or leave the option out",
                ) from error
            worker.one_phase.add(options.bootstrap)  # (the driver says so: once, whatever workers there are)
    return _opened(worker, options, id_, two_phases=False)


def _opened(worker: _Worker, options: SinkOptions, id_: str, *, two_phases: bool) -> TransactionalProducer:
    producer = worker.producers.get(id_)
    if producer is None:
        producer = worker.producers[id_] = TransactionalProducer(
            options.bootstrap,
            id_,
            two_phases=two_phases,
            transaction_timeout=options.transaction_timeout,
            **options.producer_options(),
        )
    try:
        producer.begin()
    except BaseException as error:
        worker.forget(producer)
        if isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            asked = int(options.transaction_timeout * 1000)
            raise ConfigError(
                f"kafka.transaction.timeout.ms={asked} is more than the brokers allow",
                next_step="give less, or raise transaction.max.timeout.ms (900000 by default) there",
            ) from error
        raise
    return producer


def _give_up(producer: TransactionalProducer) -> None:
    """The task failed: its transaction is aborted now, or by its driver."""
    _quietly(producer.abort)
    _this_worker().forget(producer)


def _quietly(action: Callable[[], object]) -> None:
    try:
        action()
    except BarnabasError as error:
        log.warning("aborting the transaction of a failed task: %s", error)
