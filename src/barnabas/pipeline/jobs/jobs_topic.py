"""The compacted topic `__barnabas_jobs`: the newest value of each key, and a few ways to change it."""

from __future__ import annotations

import time
from types import TracebackType

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.security.options import SecurityOptions
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import TopicPartition

__all__ = ["TOPIC", "JobsTopic"]

TOPIC = "__barnabas_jobs"
_CLIENT = "barnabas-job"
_WHERE = TopicPartition(TOPIC, 0)


class JobsTopic:
    """`JobsTopic("127.0.0.1:9092").latest()`.  One producer and one consumer, opened when they are needed first.

    `timeout` (seconds) bounds each call.
    """

    def __init__(self, bootstrap: str, security: SecurityOptions = None, timeout: float = 10.0) -> None:
        self.bootstrap = bootstrap
        self.security = security
        self.timeout = timeout
        self._values: dict[str, str] = {}
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    def __repr__(self) -> str:
        return f"<JobsTopic {self.bootstrap} keys={len(self._values)}>"

    def __enter__(self) -> JobsTopic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """`topic.close()`: end its connections.  What was sent is acknowledged already."""
        if self._producer is not None:
            self._producer.abandon()
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = None

    def make(self) -> None:
        """`topic.make()`: create it where it is not there.  Raises KafkaError, ConnectionFailed."""
        with Admin(self.bootstrap, timeout=self.timeout, security=self.security) as admin:
            try:
                admin.create_topic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

    def send(self, key: str, value: str | None) -> None:
        """`topic.send("copy", "{}")`: on every in-sync replica when this returns; None takes the key away."""
        if self._producer is None:
            self._producer = Producer(
                self.bootstrap, client_id=_CLIENT, delivery_timeout=self.timeout, security=self.security
            )
        self._producer.send(TOPIC, value, key, partition=_WHERE.partition).result()

    def latest(self) -> dict[str, str]:
        """`topic.latest()` -> the newest value of each key by now; reads on from where it was.

        Empty where the topic is not there.  Raises BarnabasError.
        """
        if self._consumer is None:
            self._consumer = Consumer(
                self.bootstrap,
                TOPIC,
                start="earliest",
                client_id=_CLIENT,
                timeout=self.timeout,
                security=self.security,
            )
        consumer = self._consumer
        try:
            end = consumer.offsets_at("latest")[_WHERE]
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return {}
            raise
        deadline = time.monotonic() + self.timeout
        while consumer.position(*_WHERE) < end:
            if time.monotonic() > deadline:
                raise BarnabasError(
                    f"{TOPIC} cannot be read up to its end, {end}",
                    next_step=f"`barnabas topics describe {TOPIC}` shows whether it has a leader",
                )
            for message in consumer.poll(1.0):
                self._take((message.key or b"").decode(errors="replace"), message.value)
        return self._values

    def _take(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value.decode(errors="replace")
