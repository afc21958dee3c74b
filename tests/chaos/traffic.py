"""Clients that go on through everything, and the history of what they did and saw.

librdkafka: producers (idempotent, acks=all, otherwise default) and a reader of all partitions.  Java: Apache
Kafka's VerifiableProducer and VerifiableConsumer, where Java and Kafka's jars are.  A record's value says who
sent it and as which: producer * BLOCK + number.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from tools.peer import KAFKA_LIBS

from barnabas.sim.cluster.history import History

__all__ = ["Java", "Reader", "Records", "Writer", "java_is_here", "read_everything"]

BLOCK = 10**9
KAFKA = Path(__file__).parents[2] / "tools" / "kafka" / "kafka-class.sh"
_QUICK = {"log_level": 0, "reconnect.backoff.max.ms": 1000}
_KEYS = 60
"""Java's producer has so many keys: enough for each partition to get some of them."""


def value_of(text: str | bytes | None) -> int:
    """What a record's value says; Java's producer writes "9.17" for its record 17."""
    producer, _, number = (text.decode() if isinstance(text, bytes) else text or "-1").partition(".")
    return int(producer) * BLOCK + int(number) if number else int(producer)


def java_is_here() -> bool:
    """Whether Apache Kafka's own clients can run."""
    return (KAFKA_LIBS / ".complete").exists()


class Records:
    """The history, written by many threads; and when each partition was last written to, and by whom at all."""

    def __init__(self) -> None:
        self.history = History()
        self.lock = threading.Lock()
        self.acknowledged: dict[str, list[float]] = defaultdict(list)
        self.writers: dict[str, set[int]] = defaultdict(set)

    def note_written(self, partition: str, writer: int, now: float) -> None:
        """A record of this producer was acknowledged (the lock is held)."""
        self.acknowledged[partition].append(now)
        self.writers[partition].add(writer)

    def known_everywhere(self, writers: set[int], partitions: int) -> bool:
        """Whether each of these producers wrote to so many partitions.

        Until then a producer's first batches may be lost for good.  They wait for a leader that is cut off, the
        next batch goes to the new leader, which knows nothing of the producer and takes any sequence number, as
        Apache Kafka does; the first ones then come out of order until the producer gives them up.
        """
        with self.lock:
            return sum(writers <= known for known in self.writers.values()) >= partitions

    def gap(self, since: float, until: float) -> float:
        """The longest time that a partition was without an acknowledgement."""
        longest = 0.0
        with self.lock:
            for times in self.acknowledged.values():
                within = [t for t in reversed(list(_tail(times, since - 5.0))) if t <= until]
                pairs = itertools.pairwise([*within, until])
                longest = max([longest, *(b - a for a, b in pairs if b > since)])
        return longest


def _tail(times: list[float], since: float) -> Iterator[float]:
    for moment in reversed(times):
        yield moment
        if moment < since:
            return


class Writer(threading.Thread):
    """An idempotent librdkafka producer that writes to all partitions of a topic in turn."""

    def __init__(
        self, records: Records, number: int, bootstrap: str, topic: str, partitions: int, rate: float
    ):
        super().__init__(name=f"writer-{number}", daemon=True)
        self.records, self.number, self.topic, self.partitions, self.rate = (
            records,
            number,
            topic,
            partitions,
            rate,
        )
        self.failures: list[str] = []
        self.sent = 0
        self._over = threading.Event()
        with records.lock:
            self._process = records.history.process(f"librdkafka producer {number}")
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", **_QUICK}
        )

    def end(self) -> None:
        self._over.set()
        self.join(120)

    def run(self) -> None:
        try:
            self._write()
        except Exception as error:
            self.failures.append(f"producer {self.number} wrote no more: {error!r}")

    def _write(self) -> None:
        begun = time.monotonic()
        while not self._over.is_set():
            while (wait := begun + self.sent / self.rate - time.monotonic()) > 0:
                self._producer.poll(min(wait, 0.02))
            self._send()
            self._producer.poll(0)
        self._producer.flush(100)

    def _send(self) -> None:
        value, index = self.number * BLOCK + self.sent, self.sent % self.partitions
        partition = f"{self.topic}-{index}"
        self.sent += 1
        with self.records.lock:
            send = self.records.history.send(self._process, partition, value, time.monotonic())

        def delivered(error: object, message: Any) -> None:
            now = time.monotonic()
            with self.records.lock:
                if error is None:
                    self.records.history.acknowledged(send, _offset_of(message), now)
                    self.records.note_written(partition, self.number, now)
                else:
                    self.failures.append(str(error))
                    self.records.history.given_up(send, now)

        key = b"%d-%d" % (self.number, index)
        while True:
            try:
                self._producer.produce(self.topic, b"%d" % value, key, index, on_delivery=delivered)
                return
            except BufferError:
                self._producer.poll(0.05)


def _offset_of(message: Any) -> int:
    """Where a record is; -1 where librdkafka does not know.

    An answer got lost, and it took the acknowledgement of a later record for that of this one, too.
    """
    offset: int | None = message.offset()
    return -1 if offset is None else offset


class Reader(threading.Thread):
    """A librdkafka consumer that follows all partitions from their beginning."""

    def __init__(self, records: Records, bootstrap: str, topic: str, partitions: int):
        super().__init__(name="reader", daemon=True)
        self.records, self.topic = records, topic
        self.read = 0
        self._over = threading.Event()
        self._next = dict.fromkeys(range(partitions), 0)
        with records.lock:
            self._process = records.history.process("librdkafka consumer")
        self._consumer = _consumer(bootstrap)
        self._consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])

    def end(self) -> None:
        self._over.set()
        self.join(30)
        self._consumer.close()

    def run(self) -> None:
        while not self._over.is_set():
            begun = time.monotonic()
            self.read += note_polls(
                self.records, self._process, self._consumer.consume(500, 0.2), self._next, begun
            )


def note_polls(
    records: Records,
    process: int,
    messages: list[Any],
    positions: dict[int, int],
    begun: float,
    *,
    final: bool = False,
) -> int:
    """Write down what a consumer got, partition by partition; how many records."""
    by_partition: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for message in messages:
        if message.error() is None:
            place = (message.topic(), message.partition())
            by_partition.setdefault(place, []).append((message.offset(), value_of(message.value())))
    now = time.monotonic()
    with records.lock:
        for (topic, index), rows in by_partition.items():
            name = f"{topic}-{index}"
            records.history.poll(process, name, positions[index], begun, now, rows, final=final)
            positions[index] = rows[-1][0] + 1
    return sum(map(len, by_partition.values()))


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **_QUICK,
        }
    )


def read_everything(records: Records, bootstrap: str, topic: str, partitions: int) -> dict[str, list[int]]:
    """Read the topic from its beginning to its end, as the last reader; the values of each partition."""
    consumer = _consumer(bootstrap)
    with records.lock:
        process = records.history.process("the last reader")
    found: dict[str, list[int]] = {}
    try:
        for index in range(partitions):
            place = TopicPartition(topic, index, OFFSET_BEGINNING)
            start, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            positions = {index: start}
            values = found[f"{topic}-{index}"] = []
            deadline = time.monotonic() + 120
            while positions[index] < end and time.monotonic() < deadline:
                begun = time.monotonic()
                messages = consumer.consume(5000, 1.0)
                note_polls(records, process, messages, positions, begun, final=True)
                values += [value_of(m.value()) for m in messages if m.error() is None]
            with records.lock:
                records.history.finished(f"{topic}-{index}", start, positions[index])
            if positions[index] < end:
                raise TimeoutError(f"{topic}-{index} could be read up to {positions[index]} of {end} only")
    finally:
        consumer.close()
    return found


class Java:
    """Apache Kafka's verifiable producer and consumer, each a process that tells what it did."""

    def __init__(
        self, records: Records, number: int, bootstrap: str, topic: str, rate: int, folder: Path
    ) -> None:
        self.records, self.number, self.topic = records, number, topic
        self.acknowledged: dict[int, tuple[str, int, float]] = {}
        """By value: partition, offset, when."""
        self.failures: list[str] = []
        self.read = 0
        settings = folder / "java.properties"
        settings.write_text(
            "enable.idempotence=true\nretries=2147483647\nlinger.ms=2\nreconnect.backoff.max.ms=1000\n"
        )
        with records.lock:
            self._consuming = records.history.process("Java consumer")
        common = ("--bootstrap-server", bootstrap, "--topic", topic)
        self._producer = self._start(
            folder / "java-producer.log",
            "org.apache.kafka.tools.VerifiableProducer",
            *common,
            *("--acks", "-1", "--throughput", str(rate), "--value-prefix", str(number)),
            *("--repeating-keys", str(_KEYS)),
            *("--command-config", str(settings)),
        )
        self._consumer = self._start(
            folder / "java-consumer.log",
            "org.apache.kafka.tools.VerifiableConsumer",
            *common,
            *("--group-id", "chaos-java", "--reset-policy", "earliest", "--verbose"),
        )
        self._threads = [
            threading.Thread(target=self._listen, args=(self._producer, self._produced), daemon=True),
            threading.Thread(target=self._listen, args=(self._consumer, self._consumed), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _start(self, log: Path, *words: str) -> subprocess.Popen[str]:
        with log.open("ab") as errors:
            return subprocess.Popen(
                [str(KAFKA), *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, "KAFKA_HEAP": "256m"},
            )

    def _listen(self, process: subprocess.Popen[str], hear: Any) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                hear(json.loads(line))

    def _produced(self, said: dict[str, Any]) -> None:
        now = time.monotonic()
        if said["name"] == "producer_send_success":
            partition = f"{said['topic']}-{said['partition']}"
            with self.records.lock:
                self.acknowledged[value_of(said["value"])] = (partition, said["offset"], now)
                self.records.note_written(partition, self.number, now)
        elif said["name"] == "producer_send_error":
            self.failures.append(str(said.get("message")))

    def _consumed(self, said: dict[str, Any]) -> None:
        now = time.monotonic()
        with self.records.lock:
            if said["name"] == "partitions_assigned":
                for place in said["partitions"]:
                    self.records.history.assigned(self._consuming, f"{place['topic']}-{place['partition']}")
            elif said["name"] == "record_data":
                name = f"{said['topic']}-{said['partition']}"
                row = (said["offset"], value_of(said["value"]))
                self.records.history.poll(self._consuming, name, -1, now, now, [row])
                self.read += 1

    def end(self) -> None:
        """Stop both; the producer first, which waits for its answers."""
        for process, thread in zip((self._producer, self._consumer), self._threads, strict=True):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            thread.join(10)

    def close(self) -> None:
        for process in (self._producer, self._consumer):
            if process.poll() is None:
                process.kill()
                process.wait()

    def write_down(self, found: dict[str, list[int]]) -> int:
        """Its sends, in their order: what was acknowledged, and what is in the log without being so.

        (It does not say which partition a record was for before it is acknowledged.)  How many it got answers
        for.
        """
        history = self.records.history
        process = history.process(f"Java producer {self.number}")
        mine = {
            value: partition
            for partition, values in found.items()
            for value in values
            if value // BLOCK == self.number
        }
        for value in sorted({*mine, *self.acknowledged}):
            partition, offset, at = self.acknowledged.get(value, (mine.get(value, ""), -1, 0.0))
            send = history.send(process, partition, value, 0.0)
            if value in self.acknowledged:
                history.acknowledged(send, offset, at)
        return len(self.acknowledged)
