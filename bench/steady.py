"""A steady idempotent producer (librdkafka, default settings, acks=all): when was it without an answer?

Then the whole topic is read back: was anything that was acknowledged lost, is anything there twice?
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

__all__ = ["Steady", "Verdict"]

RATE = 500


class Verdict(NamedTuple):
    """What became of the messages."""

    sent: int
    acknowledged: int
    failed: int
    lost: int
    twice: int


class Steady:
    """`with Steady(bootstrap, topic, partitions) as load: ...; load.gap(since); load.verdict()`."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, rate: int = RATE, **settings: int
    ) -> None:
        self.bootstrap, self.topic, self.partitions, self.rate = bootstrap, topic, partitions, rate
        self.times: list[list[float]] = [[] for _ in range(partitions)]
        self.acknowledged: set[int] = set()
        self.sent = self.failed = 0
        usual = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "log_level": 0}
        self._producer = Producer(usual | {name.replace("_", "."): v for name, v in settings.items()})
        self._over = threading.Event()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Steady:
        self._sender.start()
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._sender.join(150)
        self._listener.join(10)

    def _send(self) -> None:
        producer, begun = self._producer, time.monotonic()
        while not self._over.is_set():
            due = begun + self.sent / self.rate
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            self.woke(due)
            value, partition = b"%012d" % self.sent, self.sent % self.partitions
            producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self.sent += 1
        producer.flush(120)

    def woke(self, due: float) -> None:
        """The next message is sent now, and was due then (monotonic s)."""

    def _listen(self) -> None:
        """Wait for answers in librdkafka; a poll of less than a millisecond would not wait at all."""
        while self._sender.is_alive():
            self._producer.poll(0.1)

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.failed += 1
            return
        self.times[message.partition()].append(time.monotonic())
        self.acknowledged.add(int(message.value()))

    def answered_since(self, moment: float, seconds: float = 1.0) -> bool:
        """Whether every partition has had answers for a while after the moment."""
        return all(times and times[-1] > moment + seconds for times in self.times)

    def flowing(self, seconds: float = 1.0, within: float = 90.0) -> None:
        """Wait until every partition has had answers for so long from now on."""
        begun = time.monotonic()
        while not self.answered_since(begun, seconds):
            if time.monotonic() - begun > within:
                raise SystemExit(f"error: no answers for {within:.0f} s")
            time.sleep(0.05)

    def gap(self, since: float) -> float:
        """The longest time that a partition was without an answer, from `since` on."""
        found = 0.0
        for times in self.times:
            late = [t for t in list(times) if t > since - 1.0]
            found = max([found, *(b - a for a, b in itertools.pairwise(late) if b > since)])
        return found

    def verdict(self) -> Verdict:
        """Read everything back.  After the end of the load."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "steady",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(self.topic, p, OFFSET_BEGINNING) for p in range(self.partitions)])
        seen: Counter[int] = Counter()
        ended: set[int] = set()
        deadline = time.monotonic() + 120
        while len(ended) < self.partitions and time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                if message.error() is None:
                    seen[int(message.value() or b"-1")] += 1
                else:
                    ended.add(int(message.partition() or 0))
        consumer.close()
        twice = sum(times - 1 for times in seen.values())
        lost = len(self.acknowledged - set(seen))
        return Verdict(self.sent, len(self.acknowledged), self.failed, lost, twice)
