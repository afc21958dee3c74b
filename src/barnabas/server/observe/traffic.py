"""How much is produced: counted as it is asked for, before anything is checked."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from barnabas.server.observe.metrics import Metrics
from barnabas.wire.records import HEADER_SIZE

__all__ = ["Traffic"]

_COUNT = Struct(">i")
_COUNT_AT = HEADER_SIZE - 4
"""The last field of a batch header is the number of its records."""


class Traffic:
    """Kafka's BrokerTopicMetrics of a whole node."""

    __slots__ = ("bytes_in", "messages_in")

    def __init__(self, metrics: Metrics) -> None:
        base = "kafka.server:type=BrokerTopicMetrics,name="
        self.bytes_in = metrics.counter(base + "BytesInPerSec", "Bytes of record batches received")
        self.messages_in = metrics.counter(
            base + "MessagesInPerSec", "Records received, as their batches say"
        )

    def batches(self, found: Iterable[memoryview]) -> None:
        """Count batches, as their headers say."""
        size = messages = 0
        for records in found:
            if len(records) >= HEADER_SIZE:
                size += len(records)
                (count,) = _COUNT.unpack_from(records, _COUNT_AT)
                if count > 0:
                    messages += count
        self.bytes_in.value += size
        self.messages_in.value += messages

    def __repr__(self) -> str:
        return f"<Traffic {self.messages_in.value} records, {self.bytes_in.value} bytes>"
