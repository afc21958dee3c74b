"""Clients that go on while a cluster's nodes are replaced: transactions, also open ones, groups of both protocols.

What they know outlives them (`Ledger`, `Book`), so that the next direction goes on where this one ended.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.client.transactional import TransactionalProducer

__all__ = ["EACH", "PROTOCOLS", "Book", "Group", "Held", "Ledger", "Till", "read_committed"]

PROTOCOLS = ("classic", "consumer")
EACH = 10
"""Records of a transaction."""
ABORTS_ONE_IN = 3
NEW_PRODUCER_AFTER = 20
"""Transactions after which another producer takes over the transactional id."""
PAUSE_S = 0.1
PATIENCE_S = 120.0
LONGEST_OPEN_MS = 900_000
_DROPPED = b"-1"
_QUICK = {"log_level": 0, "reconnect.backoff.max.ms": 1000}


@dataclass
class Ledger:
    """What the transactions committed, and when."""

    next: int = 0
    committed: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    """The commit of these failed in a way that leaves it open."""
    times: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def gap(self, since: float, until: float) -> float:
        """Return the longest time between two commits, in seconds."""
        within = [since, *(t for t in self.times if since <= t <= until), until]
        return max(b - a for a, b in itertools.pairwise(within))


class Till(threading.Thread):
    """One transactional id: committed transactions and aborted ones, by one producer after another."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, ledger: Ledger) -> None:
        super().__init__(name="till", daemon=True)
        self._address, self._topic, self._partitions = bootstrap, topic, partitions
        self.ledger = ledger
        self._over = threading.Event()

    def end(self) -> None:
        """End after the transaction that is open."""
        self._over.set()
        self.join(2 * PATIENCE_S)
        if self.is_alive():
            self.ledger.failures.append("the till hangs")

    def run(self) -> None:
        """Open producers until the end; one that cannot go on is followed by another."""
        while not self._over.is_set():
            try:
                self._go_on()
            except (KafkaException, TimeoutError) as error:
                self.ledger.failures.append(f"till: {error}")

    def _go_on(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "transactional.id": "till", **_QUICK})
        _insist(lambda: producer.init_transactions(30))
        for number in range(NEW_PRODUCER_AFTER):
            if self._over.wait(PAUSE_S):
                return
            self._transact(producer, commit=number % ABORTS_ONE_IN != 0)

    def _transact(self, producer: Producer, *, commit: bool) -> None:
        ledger = self.ledger
        values = range(ledger.next, ledger.next + EACH) if commit else ()
        ledger.next += len(values)
        producer.begin_transaction()
        for number, value in enumerate(values or [int(_DROPPED)] * EACH):
            producer.produce(self._topic, b"%d" % value, partition=number % self._partitions)
        if not commit:
            producer.flush(PATIENCE_S)  # else what waits is dropped here, and nothing of it is there to abort
            _insist(lambda: producer.abort_transaction(30))
            return
        try:
            _insist(lambda: producer.commit_transaction(30))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                ledger.unknown.update(values)
                raise
            _insist(lambda: producer.abort_transaction(30))
            return
        except TimeoutError:
            ledger.unknown.update(values)
            raise
        ledger.committed.update(values)
        ledger.times.append(time.monotonic())


def _insist(call: Callable[[], Any]) -> None:
    """Repeat what librdkafka says may be repeated.  Raises KafkaException, and TimeoutError after `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() > deadline:
                raise TimeoutError(str(error)) from error


@dataclass
class Book:
    """What a group read, and up to where its commits were acknowledged."""

    seen: Counter[int] = field(default_factory=Counter)
    committed: dict[int, int] = field(default_factory=dict)
    back: list[str] = field(default_factory=list)
    """Records that came again though a commit beyond them had been acknowledged."""
    trouble: str = ""
    """The last error that the member heard."""


class Group(threading.Thread):
    """One member of a group that reads committed records and commits its positions."""

    def __init__(self, bootstrap: str, topic: str, protocol: str, book: Book) -> None:
        super().__init__(name=f"group-{protocol}", daemon=True)
        self._address, self._topic, self._protocol = bootstrap, topic, protocol
        self.book = book
        self._over = threading.Event()

    def end(self) -> None:
        """Leave the group."""
        self._over.set()
        self.join(PATIENCE_S)

    def run(self) -> None:
        """Read and commit until the end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": f"books-{self._protocol}",
                "group.protocol": self._protocol,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **_QUICK,
            }
        )
        consumer.subscribe([self._topic])
        try:
            while not self._over.is_set():
                self._note(consumer.consume(500, 0.3))
                self._commit(consumer)
        except Exception as error:
            self.book.trouble = f"reads no more: {error!r}"
            raise
        finally:
            consumer.close()

    def _note(self, messages: Iterable[Any]) -> None:
        book = self.book
        for message in messages:
            if message.error() is not None:
                book.trouble = str(message.error())
                continue
            if message.offset() < book.committed.get(message.partition(), 0):
                book.back.append(f"{self._protocol}: {message.partition()}@{message.offset()}")
            else:
                book.seen[int(message.value())] += 1

    def _commit(self, consumer: Consumer) -> None:
        with suppress(KafkaException):  # nothing to commit, or no coordinator now: with the next one
            for place in consumer.commit(asynchronous=False) or ():
                if place.error is None and place.offset > self.book.committed.get(place.partition, 0):
                    self.book.committed[place.partition] = place.offset


class Held:
    """Transactions that are open all the while: of librdkafka and ours, committed at the end, and one aborted."""

    def __init__(self, bootstrap: str, topic: str, direction: str, first: int) -> None:
        self._topic = topic
        self.values = list(range(first, first + 2 * EACH))
        """Of those that are committed."""
        self._kept, self._dropped = (
            Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "transactional.id": f"held-{what}-{direction}",
                    "transaction.timeout.ms": LONGEST_OPEN_MS,
                    **_QUICK,
                }
            )
            for what in ("kept", "dropped")
        )
        self._ours = TransactionalProducer(
            bootstrap,
            f"held-ours-{direction}",
            transaction_timeout=LONGEST_OPEN_MS / 1000,
            request_timeout=PATIENCE_S,
        )
        for producer in (self._kept, self._dropped):
            _insist(lambda producer=producer: producer.init_transactions(30))  # type: ignore[misc]
            producer.begin_transaction()
        self._ours.begin()
        self._write(0)

    def end(self) -> None:
        """Write once more in each, then end them."""
        self._write(EACH // 2)
        _insist(lambda: self._kept.commit_transaction(30))
        _insist(lambda: self._dropped.abort_transaction(30))
        self._ours.commit()
        self._ours.close()

    def _write(self, since: int) -> None:
        for number in range(since, since + EACH // 2):
            self._kept.produce(self._topic, b"%d" % self.values[number], partition=0)
            self._dropped.produce(self._topic, _DROPPED, partition=0)
            self._ours.send(self._topic, b"%d" % self.values[EACH + number], partition=0)
        self._kept.flush(PATIENCE_S)
        self._dropped.flush(PATIENCE_S)
        self._ours.flush()


def read_committed(bootstrap: str, topic: str, partitions: int) -> Counter[int]:
    """Return how often each value stands in a topic, for readers of what is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "last-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **_QUICK,
        }
    )
    found: Counter[int] = Counter()
    try:
        for index in range(partitions):
            consumer.assign([TopicPartition(topic, index, 0)])
            deadline = time.monotonic() + PATIENCE_S
            while True:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    found[int(message.value() or _DROPPED)] += 1
                elif message is not None and message.error().name() == "_PARTITION_EOF":
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}-{index} was not read to its end")
    finally:
        consumer.close()
    return found
