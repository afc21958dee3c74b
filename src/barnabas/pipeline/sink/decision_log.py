"""Where decisions are: a compacted topic with one record for each sink, written in transactions of its driver.

The transaction is the fence: a driver whose id another one has claimed cannot decide any more.  A reader waits
until everything that was there when it began is committed or aborted, so it misses no decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from barnabas.client.admin.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.client.fetching import fetch_range
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from barnabas.client.producing.transaction_machine import ProducerEpoch
from barnabas.client.transactional import TransactionalProducer
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Offset
from barnabas.pipeline.sink.decisions import Decision, from_bytes, to_bytes
from barnabas.wire.records import read_records

__all__ = ["TOPIC", "DecisionLog"]

TOPIC = "__barnabas_sink"
_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Small segments: what a driver reads when it starts is soon little."""
_LARGEST = 1 << 20
_PAUSE_S = 0.02
DRIVER_TIMEOUT_S = 20.0
"""Seconds after which the broker aborts a decision that a driver began and did not end."""


class DecisionLog:
    """The decisions of one sink, `name`.  It remembers how far it has read."""

    def __init__(self, bootstrap: str, cluster: Cluster, name: str, *, patience: float = 60.0) -> None:
        self._bootstrap = bootstrap
        self._cluster = cluster
        self._name = name.encode()
        self._patience = patience
        self._position: Offset | None = None
        self._last: Decision | None = None
        self._producer: TransactionalProducer | None = None

    def __repr__(self) -> str:
        return f"<DecisionLog {self._name!r} last={self._last}>"

    def close(self) -> None:
        """End the connections of its producer."""
        if self._producer is not None:
            self._producer.abandon()
            self._producer = None

    def last(self) -> Decision | None:
        """The last decision; None: there is none.  Raises BarnabasError, KafkaError."""
        self._make()
        for value in self._new():
            self._last = from_bytes(value)
        return self._last

    def claim(self, driver: str) -> ProducerEpoch:
        """Become the only one that decides for this sink; what another driver began is aborted."""
        return self._talk(driver, TransactionalProducer.claim)

    def write(self, claim: ProducerEpoch, decision: Decision) -> ProducerEpoch:
        """Decide; returns the claim for the next decision.

        Raises KafkaError PRODUCER_FENCED when another driver has claimed the sink since.
        """

        def talk(producer: TransactionalProducer) -> ProducerEpoch:
            producer.resume(claim)
            with producer.transaction():
                producer.send(TOPIC, to_bytes(decision), self._name, partition=0)
            return producer.producer_epoch()

        return self._talk(claim.transactional_id, talk)

    def _talk(self, driver: str, talk: Callable[[TransactionalProducer], ProducerEpoch]) -> ProducerEpoch:
        """With the producer of this process, which keeps its connections as long as nothing fails."""
        if self._producer is None:
            self._producer = TransactionalProducer(
                self._bootstrap,
                driver,
                transaction_timeout=DRIVER_TIMEOUT_S,
                client_id=self._cluster.client_id,
                security=self._cluster.security,
                linger=0.0,
            )
        try:
            return talk(self._producer)
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        if self._position is not None:
            return
        with Admin(self._bootstrap, security=self._cluster.security) as admin:
            try:
                admin.create_topic(TOPIC, partitions=1, replication=self._replicas(), configs=_SETTINGS)
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        self._position = list_offsets(self._cluster, TOPIC, "earliest", [0])[0].offset

    def _replicas(self) -> int:
        """As for other internal topics: three, or one for each broker there is."""
        self._cluster.refresh([])
        return min(3, len(self._cluster.brokers()))

    def _new(self) -> Iterator[bytes]:
        """The values of this sink's records since the last reading, oldest first."""
        assert self._position is not None
        end = self._stable_end()
        for batch in fetch_range(
            self._cluster, TOPIC, 0, self._position, end, isolation=READ_COMMITTED, timeout=self._patience
        ):
            for record in read_records(batch.buffer, 0, batch.header, _LARGEST):
                if record.offset >= self._position and record.key == self._name and record.value is not None:
                    yield record.value
            self._position = max(self._position, batch.header.last_offset + 1)
        self._position = max(self._position, end)

    def _stable_end(self) -> Offset:
        """The end, once nothing below it is open any more: other drivers' decisions take milliseconds."""
        deadline = time.monotonic() + self._patience
        end = list_offsets(self._cluster, TOPIC, "latest", [0], isolation=READ_UNCOMMITTED)[0].offset
        while True:
            stable = list_offsets(self._cluster, TOPIC, "latest", [0], isolation=READ_COMMITTED)[0].offset
            if stable >= end:
                return end
            if time.monotonic() > deadline:
                raise BarnabasError(
                    f"a transaction in {TOPIC} is open since offset {stable}: a driver began a decision and "
                    "did not end it",
                    next_step=f"see it with `barnabas transactions find-hanging --topic {TOPIC}`",
                )
            time.sleep(_PAUSE_S)
