"""The numbers 0, 1, 2 ... as the input of an application, into a topic or a file, and the count at its end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICK_SECONDS = 0.1
SETTLED_SECONDS = 180.0  # how long the last transactions may take to end, brokers being killed until then


@dataclass(frozen=True)
class Tally:
    """How often each of the numbers below `written` was found."""

    written: int
    lost: int
    twice: int
    strange: int = 0
    """Values that nobody wrote."""

    @property
    def whole(self) -> bool:
        return not (self.lost or self.twice or self.strange)

    def __str__(self) -> str:
        return f"{self.written} in, {self.lost} lost, {self.twice} twice, {self.strange} strange"


def tally(values: Iterable[bytes], written: int) -> Tally:
    """Count them; what is found more than once counts once as twice."""
    seen = bytearray(written)
    strange = 0
    for value in values:
        if value.isdigit() and int(value) < written:
            seen[int(value)] = min(2, seen[int(value)] + 1)
        else:
            strange += 1
    return Tally(written, seen.count(0), seen.count(2), strange)


def settled(counted: Callable[[], Tally], seconds: float = SETTLED_SECONDS) -> Tally:
    """Count until nothing is missing, or the time is over."""
    deadline = time.monotonic() + seconds
    while (found := counted()).lost and time.monotonic() < deadline:
        time.sleep(2.0)
    return found


def create(bootstrap: str, *topics: str, partitions: int, copies: int) -> None:
    """Create the topics and wait for them."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics(
        [NewTopic(name, num_partitions=partitions, replication_factor=copies) for name in topics],
        operation_timeout=30,
    )
    for answer in made.values():
        answer.result(60)


def committed(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes]]:
    """(partition, key, value) of every committed record of a topic, once no transaction is open in it."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    places = _without_open_transactions(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in places])
    found: list[tuple[int, bytes, bytes]] = []
    deadline = time.monotonic() + SETTLED_SECONDS
    ended: set[int] = set()
    try:
        while len(ended) < len(places):
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} could not be read to its end in {SETTLED_SECONDS:g} s")
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found.append((message.partition(), message.key() or b"", message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
    finally:
        consumer.close()
    return found


def _without_open_transactions(bootstrap: str, topic: str) -> list[int]:
    """The partitions of a topic, as soon as the last stable offset of each is its end."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        partitions = sorted(admin.list_topics(topic, timeout=60).topics[topic].partitions)
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        ends: list[dict[int, int]] = []
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            answers: dict[Any, Any] = admin.list_offsets(asked, isolation_level=level, request_timeout=30)
            with contextlib.suppress(Exception):  # a leader is away: asked again
                ends.append({place.partition: at.result(30).offset for place, at in answers.items()})
        if len(ends) == 2 and ends[0] == ends[1]:
            return partitions
        if time.monotonic() > deadline:
            raise AssertionError(f"a transaction hangs in {topic}: stable {ends[:1]}, end {ends[1:]}")
        time.sleep(1.0)


def group_has_read(bootstrap: str, group: str, topic: str) -> bool:
    """Whether the committed offsets of the group are the ends of all partitions that have records."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
        at = [max(0, place.offset) for place in consumer.committed(places, timeout=30)]
    except KafkaException:
        return False
    finally:
        consumer.close()
    return at == ends


class Numbers:
    """`with numbers.to_topic(...)`: a thread that writes them until `stop`, which returns how many there are."""

    def __init__(self, rate: int, write: Callable[[range], None], finish: Callable[[], None]) -> None:
        self._rate = rate
        self._write = write
        self._finish = finish
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._go, name="numbers")
        self.written = 0
        self._thread.start()

    def _go(self) -> None:
        began = time.monotonic()
        try:
            while not self._ended.wait(TICK_SECONDS):
                due = int((time.monotonic() - began) * self._rate)
                self._write(range(self.written, due))
                self.written = due
            self._finish()
        except BaseException as error:
            self._error = error

    def stop(self) -> int:
        """No more of them; returns when all that were written are safe.  Raises what the writer failed with."""
        self._ended.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self.written


@contextlib.contextmanager
def to_topic(bootstrap: str, topic: str, rate: int) -> Iterator[Numbers]:
    """Into a topic, each acknowledged by the in-sync replicas, by an idempotent producer."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # never given up
            "linger.ms": 20,
            "log_level": 0,
        }
    )
    refused: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            refused.append(f"{message.value()!r}: {error}")

    def write(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, str(number), on_delivery=delivered)
            producer.poll(0)

    def finish() -> None:
        left = producer.flush(SETTLED_SECONDS)
        if left or refused:
            raise AssertionError(f"{left} numbers not acknowledged, refused {refused[:3]}")

    writing = Numbers(rate, write, finish)
    try:
        yield writing
    finally:
        writing.stop()


@contextlib.contextmanager
def to_file(path: Path, rate: int) -> Iterator[Numbers]:
    """Into a file, a line each."""
    with path.open("a") as file:

        def write(numbers: range) -> None:
            file.write("".join(f"{number}\n" for number in numbers))
            file.flush()

        writing = Numbers(rate, write, lambda: None)
        try:
            yield writing
        finally:
            writing.stop()
