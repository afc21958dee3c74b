"""Sending records: `with Producer("127.0.0.1:9092") as p: p.send("topic", b"value", key=b"k")`.

`send` puts the record into a batch and returns at once; a thread of the producer's own sends full or
lingering batches to the leaders and repeats what may be repeated.  Producers are idempotent by default:
a batch that is repeated after a lost answer is in the log once, in the order of sending.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import TracebackType
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.producing.batching import AccumulatorStatistics, Batch
from barnabas.client.producing.outbox import Delivered, Sending, call_back, outcome
from barnabas.client.producing.outgoing import Headers, outgoing
from barnabas.client.producing.sending import Sender
from barnabas.client.waits.background import died, told_at_exit
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.forks import check_process, forked_since
from barnabas.errors import BarnabasError, ErrorCode, KafkaError

__all__ = ["Delivered", "Delivery", "Fate", "Producer"]

EXIT_PATIENCE = 30.0
"""Seconds for which a program that ends without `close` waits for its records."""


class Fate(Enum):
    """What a producer knows of a record."""

    STORED = "stored"
    """Acknowledged (acks=0: sent)."""
    NOT_STORED = "not stored"
    """Not sent, or surely refused each time."""
    UNKNOWN = "unknown"
    """Sent without an answer that says which."""


class Delivery:
    """`producer.send(...).result()` -> Delivered: the fate of one record."""

    __slots__ = ("_batch", "_index", "_producer")

    def __init__(self, producer: Producer, batch: Batch, index: int) -> None:
        self._producer = producer
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        return f"<Delivery {self._batch!r}[{self._index}]>"

    def done(self) -> bool:
        """`delivery.done()`: whether it is acknowledged or has failed."""
        return self._batch.part_of(self._index)[0].done

    def fate(self) -> Fate:
        """`delivery.fate()`: what is known by now; final when `done()`, or once the producer is closed."""
        batch = self._batch.part_of(self._index)[0]
        if batch.done and batch.error is None:
            return Fate.STORED
        return Fate.UNKNOWN if batch.open_attempts else Fate.NOT_STORED

    def result(self, timeout: float | None = None) -> Delivered:
        """`delivery.result()` -> where the record is; waits for the acknowledgement.

        Raises the BarnabasError with which it failed, or KafkaError REQUEST_TIMED_OUT after `timeout`
        seconds (the record may still arrive).
        """
        self._producer._wait_for(self.done, timeout)
        batch, index = self._batch.part_of(self._index)
        if batch.error is not None:
            self._producer._heard(batch, index)
        return outcome(batch, index)


class Producer(Sending):
    """`with Producer("127.0.0.1:9092") as p: p.send("topic", b"value", key=b"k"); p.flush()`.

    acks: "all" (default; after it the record is durable on all in-sync replicas), 1 (on the leader) or 0
    (no answer at all).  compression: None, "gzip", "snappy", "lz4" or "zstd".  linger: seconds a batch
    waits for company.  batch_size: bytes of a batch before compression.  buffer: bytes held back at most;
    `send` waits when there are more.  delivery_timeout: seconds after which a record is given up.
    stop_at_error: after the first record that is refused or given up, send nothing more; `send`, `flush` and
    `close` then raise its error.  security: TLS and login, options by Kafka's names.
    transactions: what `TransactionalProducer` works with.  metadata_max_age: seconds after which new partitions
    of a topic are seen at the latest.
    Safe to use from several threads.  A program that ends without `close` sends what waits, for at most 30 s, and
    says on its standard error what is not acknowledged then.
    """

    def _connect(self, bootstrap: str | Iterable[str], view: Mapping[str, Any]) -> None:
        self._changed = threading.Condition()
        self._lookup = Cluster(bootstrap, **view)
        self._lookup_lock = threading.Lock()
        self._sender = Sender(Cluster(bootstrap, **view), self._outbox.dispatch, self._transactions)
        self._thread: threading.Thread | None = None

    def _forget(self, topic: str) -> None:
        self._sender.cluster.forget(topic)

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def statistics(self) -> AccumulatorStatistics:
        """`producer.statistics().records`: records not acknowledged yet."""
        with self._changed:
            return self._outbox.accumulator.statistics()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        on_delivery: Callable[[Delivered | BarnabasError], None] | None = None,
    ) -> Delivery:
        """`producer.send("topic", b"value", key=b"k")` -> Delivery; `.result()` waits for the answer.

        Strings are sent as UTF-8.  `partition` None: by the key as Kafka's clients do, or, without a key,
        where it makes the largest batches.  `timestamp` in ms since 1970 (now).  `on_delivery` is called in
        the producer's thread with where the record is or with the error.

        Raises TypeError or ValueError for what no record can hold, KafkaError when the topic is not there and
        cannot be made, ConnectionFailed.
        """
        check_process(self._made)
        record = outgoing(topic, value, key, partition, headers, timestamp)
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(
                f"on_delivery is called with the outcome, and {on_delivery!r:.60} cannot be called"
            )
        usable = self._partitions_of(topic, record.partition)
        outbox = self._outbox
        with self._changed:
            self._check_usable()
            if not outbox.has_room(record.size):
                self._wait_for_room(record.size)
            wall_ms = time.time_ns() // 1_000_000
            batch, index, wake = outbox.add(topic, record, usable, monotonic(), wall_ms)
            if on_delivery is not None:
                batch.callbacks.append((index, on_delivery))
            if wake:
                self._changed.notify_all()
        return Delivery(self, batch, index)

    def flush(self, timeout: float | None = None) -> None:
        """`producer.flush()`: send everything now and wait until it is acknowledged.

        Raises the first error of a record since the last flush that no `result` or `on_delivery` has told, or
        KafkaError REQUEST_TIMED_OUT.
        """
        check_process(self._made)
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
        try:
            self._wait_for(lambda: not self._outbox.accumulator.records, timeout)
        finally:
            with self._changed:
                self._flushing -= 1
        with self._changed:
            failure = self._outbox.failures.take() or self._outbox.stopped_by
        if failure is not None:
            raise failure

    def close(self, timeout: float | None = None) -> None:
        """`producer.close()`: flush, then end the thread and the connections."""
        try:
            if not self._outbox.closed and not forked_since(self._made):
                self.flush(timeout)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """`producer.abandon()`: end at once; what is not acknowledged may or may not arrive."""
        if forked_since(self._made):
            return  # the records, the thread and the connections are the parent's
        _open.discard(self)
        with self._changed:
            self._outbox.closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._sender.cluster.close()
            self._thread.join(5.0)
        self._sender.cluster.close()
        self._lookup.close()

    def _drop(self, error: BarnabasError) -> None:
        """Give up what has not left, and wait until the fate of what has left is known."""
        with self._changed:
            given_up = self._outbox.accumulator.give_up(error)
            self._changed.notify_all()
        for batch in given_up:
            call_back(batch)
        self._wait_for(lambda: not self._outbox.accumulator.records, None)
        with self._changed:
            self._outbox.failures.take()

    def _heard(self, batch: Batch, index: int) -> None:
        with self._changed:
            self._outbox.failures.heard(batch, index)

    def _close_at_exit(self) -> None:
        """The program ends without `close`: what waits is sent; what is not acknowledged then is told."""
        if forked_since(self._made):
            return
        try:
            self.close(EXIT_PATIENCE)
        except BaseException as error:
            left = self._outbox.accumulator.records
            what = f"{left} records were not acknowledged" if left else "records were lost"
            told_at_exit(f"{what} when the program ended: {error}\nnext: close() the producer, or use `with`")

    # -- choosing a partition --------------------------------------------------------------------

    def _partitions_of(self, topic: str, partition: int | None) -> tuple[int, list[int]]:
        """How many partitions the topic has, and which of them have a leader."""
        partitions = self._outbox.partitions
        known = partitions.of(topic, monotonic(), partition)
        if known is not None:
            return known
        with self._lookup_lock:
            info = self._lookup.topic(topic, refresh=topic in partitions, create=True)
            return partitions.take(info, monotonic())

    # -- waiting ---------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        """Called with the lock held; starts the thread at the first record."""
        self._outbox.check_usable()
        if self._thread is None:
            _open.add(self)
            self._thread = threading.Thread(target=self._run, name="barnabas-producer", daemon=True)
            self._thread.start()

    def _wait_for_room(self, size: int) -> None:
        outbox = self._outbox
        if not self._changed.wait_for(lambda: outbox.has_room(size) or outbox.ended, outbox.delivery_timeout):
            raise outbox.no_room()
        self._check_usable()

    def _wait_for(self, condition: Callable[[], bool], timeout: float | None) -> None:
        check_process(self._made)
        with self._changed:
            if not self._changed.wait_for(lambda: condition() or self._outbox.ended, timeout):
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not acknowledged within {timeout:g} s")
            if not condition():
                if self._outbox.stopped_by is not None:
                    raise self._outbox.stopped_by
                raise BarnabasError("the producer was closed before the record was acknowledged")

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._send_batches()
        except BaseException as error:  # whatever it was, nobody waits for a thread that has ended
            with self._changed:
                given_up = self._outbox.stop(died("the producer's thread", error))
                self._changed.notify_all()
            for batch in given_up:
                call_back(batch)

    def _send_batches(self) -> None:
        while True:
            with self._changed:
                batches = self._next_batches()
                if batches is None:
                    return
            answers = self._sender.transmit(batches)
            with self._changed:
                finished = self._outbox.settle(answers, monotonic())
                self._changed.notify_all()
            for batch in finished:
                call_back(batch)

    def _next_batches(self) -> list[Batch] | None:
        """Wait for batches to send; None when the producer is closed.  Called with the lock held."""
        while not self._outbox.ended:
            ready, look_again = self._outbox.accumulator.take_ready(monotonic(), flushing=self._flushing > 0)
            if ready:
                return ready
            self._changed.wait(None if look_again is None else max(look_again - monotonic(), 0.0))
        return None


_open: weakref.WeakSet[Producer] = weakref.WeakSet()
"""Those whose thread runs."""


@atexit.register
def _close_all() -> None:
    for producer in list(_open):
        producer._close_at_exit()
