"""Records that are sent while a drill changes the cluster, and the proof: each acknowledged one is there, once.

Two kinds of traffic, for a change of the quorum stops the second kind first: records to a topic, and topics that
are made (metadata, which the quorum itself has to commit).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.producer import Producer

__all__ = ["RATE", "Proof", "Traffic"]

TOPIC = "drill"
EVERY_S = 0.01
RATE = 100.0
"""Records a second, unless one says otherwise."""
TOPIC_EVERY_S = 0.5
DELIVERY_S = 60.0
READ_S = 20.0


class Proof(NamedTuple):
    """What was acknowledged and what is there."""

    acknowledged: int
    lost: int
    twice: int
    gap: float
    """Longest time without an acknowledgement of a record, in seconds."""
    topics: int
    """Topics that were acknowledged as made."""
    topics_lost: int
    metadata_gap: float
    """Longest time without a topic made, in seconds."""

    @property
    def holds(self) -> bool:
        return self.acknowledged > 0 and not (self.lost or self.twice or self.topics_lost)

    def lines(self) -> list[str]:
        """In words."""
        return [
            f"{self.acknowledged} records acknowledged, {self.lost} lost, {self.twice} twice; "
            f"longest wait for one {self.gap:.2f} s",
            f"{self.topics} topics made meanwhile, {self.topics_lost} lost; longest wait for one "
            f"{self.metadata_gap:.2f} s",
        ]


class Traffic:
    """`traffic = Traffic(bootstrap, replication=1)`; it flows until `prove()`."""

    def __init__(
        self,
        bootstrap: str,
        replication: int,
        partitions: int = 3,
        security: dict[str, str] | None = None,
        rate: float = RATE,
    ) -> None:
        """`rate`: records a second."""
        from barnabas.client.admin.admin import Admin

        self._bootstrap = bootstrap
        self._security = security
        self._copies = min(replication, 2)
        """Of the topics that are made: one broker may be away meanwhile."""
        self._partitions = partitions
        self._rate = rate
        with Admin(bootstrap, security=security) as admin:
            admin.create_topic(TOPIC, partitions=partitions, replication=replication)
        self._producer = self._new_producer()
        self._acknowledged: list[bytes] = []
        self._made: list[str] = []
        self._last = self._last_made = time.monotonic()
        self._gap = self._metadata_gap = 0.0
        self._over = threading.Event()
        self._making = threading.Lock()
        self._threads = [
            threading.Thread(target=work, name=f"drill-{name}", daemon=True)
            for name, work in (("records", self._send), ("topics", self._make))
        ]
        for thread in self._threads:
            thread.start()

    def __repr__(self) -> str:
        return f"<Traffic {len(self._acknowledged)} records, {len(self._made)} topics>"

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return len(self._acknowledged)

    @property
    def made(self) -> int:
        """Topics made so far."""
        return len(self._made)

    def change(self, bootstrap: str, security: dict[str, str] | None) -> None:
        """The clients go to other addresses, or log in from now on; what they have sent is acknowledged first."""
        self._security = security
        self._bootstrap = bootstrap
        before, self._producer = self._producer, self._new_producer()
        before.close()

    def _new_producer(self) -> Producer:
        from barnabas.client.producer import Producer

        return Producer(
            self._bootstrap, client_id="drill", delivery_timeout=DELIVERY_S, security=self._security
        )

    def _send(self) -> None:
        number, due, looked = 0, 0.0, time.monotonic()
        while not self._over.wait(EVERY_S):
            now = time.monotonic()
            due += min(now - looked, 1.0) * self._rate  # (what was missed in a long wait is not made up for)
            looked = now
            while number < due and not self._over.is_set():
                self._send_one(b"%d" % number, number % self._partitions)
                number += 1

    def _send_one(self, value: bytes, partition: int) -> None:
        with contextlib.suppress(BarnabasError):  # it is not acknowledged, so it does not count
            self._producer.send(TOPIC, value, partition=partition, on_delivery=partial(self._told, value))

    def _told(self, value: bytes, told: object) -> None:
        now = time.monotonic()
        if isinstance(told, BarnabasError):
            return
        self._gap = max(self._gap, now - self._last)
        self._last = now
        self._acknowledged.append(value)

    def _make(self) -> None:
        from barnabas.client.admin.admin import Admin

        number = 0
        while not self._over.is_set():
            bootstrap = self._bootstrap
            with Admin(
                bootstrap, client_id="drill-topics", timeout=DELIVERY_S, security=self._security
            ) as admin:
                while bootstrap == self._bootstrap and not self._over.wait(TOPIC_EVERY_S):
                    self._make_topic(admin, f"made-{number}")
                    number += 1

    def _make_topic(self, admin: Admin, name: str) -> None:
        with self._making:
            try:
                admin.create_topic(name, partitions=1, replication=self._copies)
            except BarnabasError:  # it may be there all the same: then it is not counted as made
                return
            now = time.monotonic()
            self._metadata_gap = max(self._metadata_gap, now - self._last_made)
            self._last_made = now
            self._made.append(name)

    @contextlib.contextmanager
    def no_new_topics(self) -> Iterator[None]:
        """No topic is made meanwhile, so that nothing but what is looked at places replicas; records flow on."""
        with self._making:
            yield
            self._last_made = time.monotonic()

    def stop(self) -> None:
        """No more of it, without a proof."""
        self._over.set()

    def prove(self) -> Proof:
        """End the traffic, read everything from the first offset, and compare."""
        from barnabas.client.admin.admin import Admin

        self._over.set()
        self._producer.close()
        for thread in self._threads:
            thread.join(DELIVERY_S)
        found = self._read()
        with Admin(self._bootstrap, security=self._security) as admin:
            there = {topic.name for topic in admin.topics()}
        return Proof(
            len(self._acknowledged),
            sum(value not in found for value in self._acknowledged),
            sum(count > 1 for count in found.values()),
            self._gap,
            len(self._made),
            len(set(self._made) - there),
            self._metadata_gap,
        )

    def _read(self) -> Counter[bytes]:
        from barnabas.client.consumer import Consumer

        found: Counter[bytes] = Counter()
        with Consumer(
            self._bootstrap, TOPIC, start="earliest", client_id="drill-proof", security=self._security
        ) as consumer:
            ends = consumer.offsets_at("latest")
            deadline = time.monotonic() + READ_S
            while time.monotonic() < deadline:
                found.update(message.value for message in consumer.poll(0.2) if message.value is not None)
                if all(consumer.position(tp.topic, tp.partition) >= end for tp, end in ends.items()):
                    break
        return found
