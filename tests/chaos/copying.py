"""Members of a KIP-848 group that copy a topic in transactions, through everything, and whether the copy is exact.

Each copier (librdkafka) reads its share of the topic, writes every record into the same partition of the copy, and
commits its positions in the same transaction.  It aborts some transactions, and sometimes begins anew: a producer
that fences the one before it, and a member that left its group or just fell silent.  At the end each partition of
the copy, read as committed, is the original: every record once, in order.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

__all__ = ["COPY", "Copier", "Copying", "differences"]

COPY = "copied"
GROUP = "chaos-copy"
PATIENCE_S = 180.0
CALL_S, CALLS_S = 10, 20.0
"""How long a call of the producer may take, and all its repetitions."""
STUCK_S = 45.0
"""After this a life is left alone.  librdkafka may wait for ever in send_offsets_to_transaction(), whatever its
time, when the group's coordinator dies: it waits for a change of a connection that it gave up (its issue 5511)."""
SILENT_S = 30.0
"""After this a member that fell silent is closed.  By itself librdkafka leaves max.poll.interval.ms after the last
poll; but where the coordinator is away then (its disk stood still for 80 s) it joins again, keeps its partitions,
heartbeats for ever, and spins in rd_kafka_cgrp_serve() when it is freed."""
_NEVER_FREED: list[Copying] = []
"""Their consumers are left to the end of the process: nobody waits for librdkafka to free them."""
_QUICK = {"log_level": 0, "reconnect.backoff.max.ms": 1000}
_ABORTED, _RENEWED = 0.15, 0.05
"""Shares of the transactions that are aborted on purpose, and after which a copier begins anew."""


class BeginAnewError(Exception):
    """The producer is of no more use, for a reason that is none of the cluster's."""


class Life(threading.Thread):
    """One consumer and one producer of a copier: they copy until they are told to end, or begin anew."""

    def __init__(self, number: int, rng: random.Random, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"copier-{number}", daemon=True)
        self.number, self.bootstrap, self.topic = number, bootstrap, topic
        self.copied = self.aborted = 0
        self.failure = ""
        self.over = threading.Event()
        self.moved_at = time.monotonic()
        """When it last came a step further."""
        self.consumer = self._consumer()
        self._rng = rng

    def run(self) -> None:
        producer = self._producer()
        try:
            self._retrying(lambda: producer.init_transactions(CALL_S))
            while not self.over.is_set():
                copied = self._copy(self.consumer, producer)
                self.moved_at = time.monotonic()
                if copied and self._rng.random() < _RENEWED:
                    return
        except BeginAnewError:
            pass
        except KafkaException as error:
            self.failure = "" if _known(error) else str(error)

    def _consumer(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "max.poll.interval.ms": 8_000,
                "isolation.level": "read_committed",
                **_QUICK,
            }
        )
        consumer.subscribe([self.topic])
        return consumer

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"copier-{self.number}",
                "transaction.timeout.ms": 20_000,
                **_QUICK,
            }
        )

    def _copy(self, consumer: Consumer, producer: Producer) -> bool:
        """One transaction; false where there was nothing to copy.  Raises KafkaException: begin anew."""
        messages = [message for message in consumer.consume(200, 0.3) if message.error() is None]
        if not messages:
            return False
        first: dict[int, int] = {}
        after: dict[int, int] = {}
        producer.begin_transaction()
        for message in messages:
            first.setdefault(message.partition(), message.offset())
            after[message.partition()] = message.offset() + 1
            producer.produce(COPY, message.value(), message.key(), message.partition())
            producer.poll(0)
        if self._rng.random() < _ABORTED:
            self._abort(producer)
            for partition, offset in first.items():
                consumer.seek(TopicPartition(self.topic, partition, offset))
            return True
        try:
            positions = [TopicPartition(self.topic, partition, offset) for partition, offset in after.items()]
            who = consumer.consumer_group_metadata()
            self._retrying(lambda: producer.send_offsets_to_transaction(positions, who, CALL_S))
            self._retrying(lambda: producer.commit_transaction(CALL_S))
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._abort(producer)
            raise
        self.copied += len(messages)
        return True

    def _abort(self, producer: Producer) -> None:
        try:
            self._retrying(lambda: producer.abort_transaction(CALL_S))
        except KafkaException as error:
            if error.args[0].code() == KafkaError.INVALID_TXN_STATE:
                # librdkafka ends what no partition is in when AddPartitionsToTxn has to wait for the markers of
                # the last transaction; Apache Kafka gives the same answer to that
                raise BeginAnewError from error
            raise
        self.aborted += 1

    def _retrying(self, call: Callable[[], object]) -> None:
        """What may pass is tried again until it has passed."""
        deadline = time.monotonic() + CALLS_S
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise


class Copier(threading.Thread):
    """One member, with one transactional id: one life after the other."""

    def __init__(self, number: int, seed: int, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"lives of copier {number}", daemon=True)
        self.number, self.bootstrap, self.topic = number, bootstrap, topic
        self.lives: list[Life] = []
        self.stuck = 0
        self._rng = random.Random(f"copier {seed} {number}")
        self._over = threading.Event()

    @property
    def aborted(self) -> int:
        return sum(life.aborted for life in self.lives)

    @property
    def failure(self) -> str:
        """What ended a life that should not have ended; "" while all is well."""
        return "; ".join(life.failure for life in self.lives if life.failure)

    def end(self) -> None:
        self._over.set()
        self.join(120)

    def run(self) -> None:
        left: list[tuple[float, Life]] = []
        while not self._over.is_set():
            life = Life(self.number, self._rng, self.bootstrap, self.topic)
            self.lives.append(life)
            life.start()
            while life.is_alive() and not self._over.is_set() and not _stuck(life):
                life.join(0.2)
                if left and time.monotonic() > left[0][0] + SILENT_S:
                    left.pop(0)[1].consumer.close()
            life.over.set()
            if not _stuck(life):
                life.join(CALLS_S)
            if life.is_alive():
                self.stuck += 1  # nobody waits for it; the next life fences it
            elif self._over.is_set() or self._rng.random() < 0.5:
                life.consumer.close()
            else:
                left.append((time.monotonic(), life))  # a member that works no more, until its time is over
        for _, life in left:
            life.consumer.close()


def _stuck(life: Life) -> bool:
    return time.monotonic() - life.moved_at > STUCK_S


def _known(error: KafkaException) -> bool:
    """Whether a copier just begins anew: its transaction can only be aborted, or it was fenced."""
    reason = error.args[0]
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return bool(
        reason.txn_requires_abort() or reason.retriable() or reason.code() in (*fenced, KafkaError._STATE)
    )


class Copying:
    """The copiers of a topic, and what their copy is at the end."""

    def __init__(self, count: int, seed: int, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.copiers = [Copier(number, seed, bootstrap, topic) for number in range(1, count + 1)]
        _NEVER_FREED.append(self)

    def start(self) -> None:
        for copier in self.copiers:
            copier.start()

    def end(self) -> str:
        """Wait until all is copied (nobody writes any more), and end; what was wrong with that, else ""."""
        asking = Consumer({"bootstrap.servers": self.bootstrap, "group.id": GROUP, **_QUICK})
        deadline, missing = time.monotonic() + PATIENCE_S, "the end of the topic is not known"
        while missing and time.monotonic() < deadline:
            try:
                missing = self._missing(asking)
            except KafkaException as error:
                missing = str(error)
            time.sleep(0.5 if missing else 0)
        asking.close()
        for copier in self.copiers:
            copier.end()
        stuck = [copier.name for copier in self.copiers if copier.is_alive()]
        ended = [f"{copier.name}: {copier.failure}" for copier in self.copiers if copier.failure]
        said = [f"not all was copied: {missing}"] if missing else []
        return "; ".join([*said, *(f"{name} does not end" for name in stuck), *ended])

    def _missing(self, asking: Consumer) -> str:
        places = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        for place in asking.committed(places, 30):
            _, end = asking.get_watermark_offsets(TopicPartition(self.topic, place.partition), 30)
            if end > 0 and place.offset < end:
                return f"{place.topic}-{place.partition} up to {place.offset} of {end}"
        return ""

    def read(self) -> dict[int, list[Any]]:
        """The values of each partition of the copy, as a reader of committed records gets them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "chaos-copied",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **_QUICK,
            }
        )
        consumer.assign([TopicPartition(COPY, p, OFFSET_BEGINNING) for p in range(self.partitions)])
        found: dict[int, list[Any]] = {partition: [] for partition in range(self.partitions)}
        open_, deadline = set(found), time.monotonic() + PATIENCE_S
        while open_:
            if time.monotonic() > deadline:
                raise TimeoutError(f"partitions {sorted(open_)} of the copy could not be read to their end")
            for message in consumer.consume(5000, 1.0):
                if message.error() is None:
                    found[message.partition()].append(message.value())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_.discard(message.partition())
        consumer.close()
        return found


def differences(original: Mapping[int, list[Any]], copy: Mapping[int, list[Any]]) -> list[str]:
    """How the copy differs from the original, partition by partition; [] when it is exact."""
    said = []
    for partition, values in sorted(original.items()):
        copied = copy.get(partition, [])
        if copied == values:
            continue
        lost, twice = len(set(values) - set(copied)), len(copied) - len(set(copied))
        strange = len(set(copied) - set(values))
        said.append(
            f"partition {partition} of the copy: {len(copied)} records of {len(values)}; lost {lost}, "
            f"twice {twice}, never written {strange}{'' if lost or twice or strange else ', in another order'}"
        )
    return said
