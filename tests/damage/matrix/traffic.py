"""Counted traffic: records, transactions, a group's commits and topics, each noted when it was acknowledged."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.damage.matrix.readers import Reading, read, value_of

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Delivered, Producer
from barnabas.client.transactional import TransactionalProducer
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import TopicPartition

__all__ = ["Losses", "Traffic"]

TOPIC, PARTITIONS, PAID, GROUP = "events", 2, "paid", "readers"
RATE, SIZE = 60.0, 400
PAY_S, MAKE_S, COMMIT_S = 0.4, 1.5, 0.5
MOST_TOPICS = 6
DELIVERY_S = 90.0
PLACES = [*(TopicPartition(TOPIC, n) for n in range(PARTITIONS)), TopicPartition(PAID, 0)]


class Losses(NamedTuple):
    """Acknowledged things that are not there, by kind; records that came twice; and what was served damaged."""

    records: int
    transactions: int
    commits: int
    topics: int
    twice: int
    bad: int
    """Damaged batches that the last reader was served."""

    @property
    def lost(self) -> int:
        return self.records + self.transactions + self.commits + self.topics


class Traffic:
    """`traffic = Traffic(bootstrap, copies=3)`; it flows until `end()`, and `losses()` compares."""

    def __init__(self, bootstrap: str, copies: int) -> None:
        self._bootstrap, self._copies = bootstrap, copies
        with Admin(bootstrap, timeout=30) as admin:
            for topic, partitions in ((TOPIC, PARTITIONS), (PAID, 1)):
                try:
                    admin.create_topic(topic, partitions=partitions, replication=copies)
                except KafkaError as error:  # its answer was lost, and it was asked again
                    if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
        self.acknowledged: dict[bytes, tuple[str, int, int]] = {}
        """By value: topic, partition, offset."""
        self.paid: list[bytes] = []
        """Values of committed transactions."""
        self.committed: dict[TopicPartition, int] = {}
        self.made: list[str] = []
        self.errors: Counter[str] = Counter()
        self.reading = Reading(bootstrap, PLACES)
        self._patience = DELIVERY_S
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"matrix-{work.__name__}", daemon=True)
            for work in (self._send, self._pay, self._commit, self._make)
        ]
        for thread in (self.reading, *self._threads):
            thread.start()

    def flows(self) -> bool:
        """Return whether something of each kind was acknowledged, and everything was read once."""
        return bool(self.acknowledged and self.paid and self.committed and self.made and self.reading.rounds)

    @property
    def count(self) -> int:
        """Number of all that was acknowledged."""
        return len(self.acknowledged) + len(self.paid) + len(self.made)

    def end(self, *, patient: bool = True) -> None:
        """End it: what was sent by now is acknowledged or given up; without patience, given up at once."""
        self._patience = DELIVERY_S if patient else 0.0
        self._over.set()
        self.reading.end()
        for thread in self._threads:
            thread.join(DELIVERY_S + 10)

    # -- the four kinds --

    def _send(self) -> None:
        producer = Producer(self._bootstrap, delivery_timeout=DELIVERY_S, request_timeout=5.0)
        number, begun = 0, time.monotonic()
        while not self._over.wait(1 / RATE):
            if number > (time.monotonic() - begun) * RATE:
                continue
            value = value_of("sent", number, SIZE)
            try:
                producer.send(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._told(value))
            except BarnabasError as error:
                self.errors[f"send: {type(error).__name__}"] += 1
            number += 1
        with contextlib.suppress(BarnabasError):
            producer.close(self._patience)

    def _told(self, value: bytes) -> Callable[[Delivered | BarnabasError], None]:
        def told(outcome: Delivered | BarnabasError) -> None:
            if isinstance(outcome, BarnabasError):
                self.errors[f"send: {outcome.message[:60]}"] += 1
            else:
                self.acknowledged[value] = (outcome.topic, outcome.partition, outcome.offset)

        return told

    def _pay(self) -> None:
        number = 0
        while not self._over.is_set():
            with contextlib.suppress(BarnabasError, OSError), self._payer() as payer:
                while not self._over.wait(PAY_S):
                    values = [value_of("paid", number + n, 60) for n in range(3)]
                    number += 3
                    with payer.transaction():
                        for value in values:
                            payer.send(PAID, value, partition=0)
                    self.paid += values
            self._over.wait(0.2)

    def _payer(self) -> TransactionalProducer:
        return TransactionalProducer(self._bootstrap, "payer", request_timeout=5.0, delivery_timeout=20.0)

    def _commit(self) -> None:
        while not self._over.is_set():
            with (
                contextlib.suppress(BarnabasError, OSError),
                Consumer(
                    self._bootstrap, TOPIC, group=GROUP, start="earliest", auto_commit=False, timeout=5.0,
                    session_timeout=6.0,
                ) as consumer,
            ):  # fmt: skip
                while not self._over.is_set():
                    consumer.poll(COMMIT_S, 5000)
                    offsets = consumer.positions()
                    consumer.commit(offsets)
                    self.committed.update(offsets)
            self._over.wait(0.2)

    def _make(self) -> None:
        while not self._over.wait(MAKE_S) and len(self.made) < MOST_TOPICS:
            name = f"made-{time.monotonic_ns()}"
            with (
                contextlib.suppress(BarnabasError, OSError),
                Admin(self._bootstrap, timeout=10.0) as admin,
            ):
                admin.create_topic(name, partitions=1, replication=self._copies)
                self.made.append(name)

    # -- the proof --

    def losses(self) -> Losses:
        """Read everything once more, behind what cannot be read too, and compare.  Raises BarnabasError."""
        found = {
            place: read(self._bootstrap, place.topic, place.partition, past_errors=True) for place in PLACES
        }
        records = sum(
            found[TopicPartition(topic, partition)].good.get(offset) != value
            for value, (topic, partition, offset) in self.acknowledged.items()
            if offset >= 0
        )
        values = Counter(value for one in found.values() for value in one.good.values())
        records += sum(not values[value] for value, place in self.acknowledged.items() if place[2] < 0)
        with Admin(self._bootstrap, timeout=20.0) as admin:
            there = {topic.name for topic in admin.topics()}
        return Losses(
            records,
            sum(not values[value] for value in self.paid),
            self._commits_lost(),
            len(set(self.made) - there),
            sum(count > 1 for value, count in values.items() if value),
            sum(len(one.bad) for one in found.values()),
        )

    def _commits_lost(self) -> int:
        """Partitions whose committed offset is lower than one that was acknowledged."""
        with Consumer(self._bootstrap, TOPIC, group=GROUP, auto_commit=False, timeout=20.0) as consumer:
            deadline = time.monotonic() + 20
            while len(found := consumer.committed()) < PARTITIONS and time.monotonic() < deadline:
                consumer.poll(0.2, 1)
        return sum(found.get(place, -1) < offset for place, offset in self.committed.items())
