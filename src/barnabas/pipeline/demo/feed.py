"""The data set, sent at its pace by a Kafka client that is not ours (confluent-kafka, librdkafka).

Idempotent with acks=all: what it reports as delivered is in the log once, also when a leader dies under it
and it has to send again to another node.  What it could not deliver is counted, and the demo fails.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.pipeline.jobs.flights import FlightMessage
from barnabas.pipeline.offsets import Offsets, Positions

__all__ = ["PARTITIONS", "Feed", "create_topic", "send_end"]

PARTITIONS = 4
REPLICAS = 3
TICK = 0.02
_RECONNECT = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
_SURE = {"enable.idempotence": True, "acks": "all", "log_level": 0}
UNDER_WAY = 5000
"""Messages that wait for their acknowledgement, at most: partitions are not further apart (a twelfth of them is in
the smallest, so 60,000 flights, two months)."""


def create_topic(bootstrap: str, topic: str, *, timeout: float = 30.0) -> None:
    """Make the topic, with the same client.  Raises BarnabasError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **_RECONNECT})
    wanted = NewTopic(topic, PARTITIONS, REPLICAS, config={"min.insync.replicas": str(REPLICAS - 1)})
    made = admin.create_topics([wanted], request_timeout=timeout)
    try:
        made[topic].result(timeout)
    except KafkaException as error:
        raise BarnabasError(f"cannot create the topic {topic}: {error}") from error


def send_end(
    bootstrap: str, topic: str, end: FlightMessage, *, timeout: float = 60.0
) -> tuple[TopicPartition, int]:
    """Send what follows the last flight; returns where it is and the offset after it.  Raises BarnabasError."""
    from confluent_kafka import Producer

    answers: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, **_SURE, **_RECONNECT})
    producer.produce(
        topic, end.value, end.key, on_delivery=lambda error, message: answers.append((error, message))
    )
    producer.flush(timeout)
    if not answers or answers[0][0] is not None:
        raise BarnabasError(
            f"the last message was not acknowledged: {answers[0][0] if answers else 'no answer'}"
        )
    message = answers[0][1]
    return TopicPartition(topic, message.partition()), message.offset() + 1


class Feed(threading.Thread):
    """Sends all events, evenly over `seconds`.  Numbers may be read at any time from another thread."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        events: Callable[[], Iterator[FlightMessage]],
        rows: int,
        seconds: float,
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self.bootstrap, self.topic, self.rows, self.seconds = bootstrap, topic, rows, seconds
        self.sent = 0
        self.delivered = 0
        self.longest_silence = 0.0
        """Seconds that a partition was without an acknowledgement, at most."""
        self.failures: list[str] = []
        self.ends: Offsets = {}
        self.problem: BaseException | None = None
        self._events = events
        self._cancelled = threading.Event()
        self._heard: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"<Feed sent={self.sent} delivered={self.delivered} failed={len(self.failures)}>"

    @property
    def done(self) -> bool:
        """Whether everything is delivered (or given up)."""
        return not self.is_alive() and self.ident is not None

    def cancel(self) -> None:
        """Stop sending; what is on its way is left alone."""
        self._cancelled.set()

    def ends_with(self, where: TopicPartition, offset: int) -> Positions:
        """One after the last delivered offset of each partition, with a message more in one of them."""
        return Positions({**self.ends, where: offset}, {})

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.problem = error

    def _run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "queue.buffering.max.messages": UNDER_WAY,
                "linger.ms": 20,
                "compression.type": "lz4",
                "message.timeout.ms": 120_000,
                **_SURE,
                **_RECONNECT,
            }
        )
        began = time.monotonic()
        for number, event in enumerate(self._events()):
            while number >= self._due(began) and not self._cancelled.is_set():
                producer.poll(TICK)
            while not self._cancelled.is_set():
                try:
                    producer.produce(self.topic, event.value, event.key, on_delivery=self._delivered)
                    break
                except BufferError:
                    producer.poll(TICK)
            if self._cancelled.is_set():
                producer.purge()
                return
            self.sent = number + 1
            if not number % 512:
                producer.poll(0)
        while producer.flush(0.2) and not self._cancelled.is_set():
            pass

    def _due(self, began: float) -> float:
        """How many rows should have been sent by now."""
        return self.rows * (time.monotonic() - began) / self.seconds if self.seconds > 0 else float("inf")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.delivered += 1
        now, number = time.monotonic(), message.partition()
        self.longest_silence = max(self.longest_silence, now - self._heard.get(number, now))
        self._heard[number] = now
        where = TopicPartition(self.topic, number)
        self.ends[where] = max(self.ends.get(where, 0), message.offset() + 1)
