"""Topics read by a client that is not ours (confluent-kafka), as readers of committed records see them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.feed import PARTITIONS

__all__ = ["CommittedReader", "committed_values"]

AT_ONCE = 5000
WAIT = 0.2
PATIENCE = 60.0
"""Seconds without a record or an end, after which reading back is given up."""


def committed_values(bootstrap: str, topic: str) -> Iterator[bytes]:
    """The values of all committed records, from the beginning of every partition to its end now.

    Raises BarnabasError when the topic cannot be read to its end.
    """
    consumer = _reader(bootstrap, topic, {"enable.partition.eof": True})
    left, waited = set(range(PARTITIONS)), 0.0
    try:
        while left:
            messages = consumer.consume(AT_ONCE, WAIT)
            waited = 0.0 if messages else waited + WAIT
            if waited > PATIENCE:
                raise BarnabasError(
                    f"nothing came of {topic} for {PATIENCE:.0f} s; not at the end: {sorted(left)}"
                )
            for message in messages:
                if message.error() is None:
                    yield message.value() or b""
                elif message.error().code() == _end_code():
                    left.discard(message.partition())
                elif not message.error().retriable():
                    raise BarnabasError(f"cannot read {topic}: {message.error()}")
    finally:
        consumer.close()


class CommittedReader(threading.Thread):
    """Reads a topic while it is written; `seen` may be read at any time from another thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="committed-reader", daemon=True)
        self.seen = 0
        self._where = (bootstrap, topic)
        self._ended = threading.Event()

    def __repr__(self) -> str:
        return f"<CommittedReader seen={self.seen}>"

    def end(self) -> None:
        """Read no more."""
        self._ended.set()

    def run(self) -> None:
        consumer = _reader(*self._where)
        try:
            while not self._ended.is_set():
                self.seen += sum(message.error() is None for message in consumer.consume(AT_ONCE, WAIT))
        finally:
            consumer.close()


def _reader(bootstrap: str, topic: str, more: Mapping[str, Any] = {}) -> Any:
    """A consumer of all partitions from their beginnings, of no group."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",  # (the client asks for one; nothing is committed to it)
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            **more,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    return consumer


def _end_code() -> int:
    from confluent_kafka import KafkaError

    return int(KafkaError._PARTITION_EOF)
