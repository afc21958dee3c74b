"""What a user may say about the sink, under the names that Spark's own Kafka connector has where it has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.client.security.options import PLAINTEXT, Security
from barnabas.errors import ConfigError
from barnabas.pipeline.option_words import CLIENT_SETTINGS, INT64, OF_KEYS, SECURITY, OptionWords
from barnabas.pipeline.values.options import SINK_NAMES, ValueOptions

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "NAMES", "REQUIRED", "SinkOptions"]

log = logging.getLogger("barnabas.pipeline")

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
AUTO, REQUIRED, OFF = "auto", "required", "off"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

NAMES: dict[str, str] = {
    "kafka.bootstrap.servers": "host:port of some brokers, separated by commas",
    "topic": "where all rows go; without it the column topic says it",
    "delivery": "exactly-once (default) or at-least-once, which is cheaper and may write rows twice",
    "checkpointLocation": "of the query: a sink belongs to it (exactly-once needs it)",
    "sinkId": "who the sink is, in place of the checkpoint's id, where the driver cannot read the checkpoint",
    "twoPhaseCommit": "auto (default): prepared transactions without a timeout where the brokers allow it "
    "(KIP-939); required: else fail; off",
    "failOnDataLoss": "true (default): fail when decided transactions were aborted by their timeout",
    "offsetMap": "a topic that gets, in the same transactions, which offset of the column offset became which",
    "kafka.transaction.timeout.ms": "how long a prepared transaction waits without twoPhaseCommit, 900000",
    "kafka.compression.type": "none (default), gzip, snappy, lz4 or zstd",
    "kafka.linger.ms": "how long a batch of records waits for company, 5 by default",
    "kafka.batch.size": "bytes of a batch before compression, 131072 by default",
    "kafka.buffer.memory": "bytes that a task holds back at most, 67108864 by default",
    "kafka.delivery.timeout.ms": "how long a record may take, 120000 by default",
    "kafka.request.timeout.ms": "how long a request may take, 30000 by default",
    "kafka.client.id": "client id under which brokers see the tasks",
    **SINK_NAMES,
    **SECURITY,
}
"""Every option, with its meaning."""

_NO_EFFECT = frozenset(
    {
        "includeHeaders",
        "path",
        "queryName",
        "kafka.acks",
        "kafka.retries",
        "kafka.enable.idempotence",
        "kafka.max.in.flight.requests.per.connection",
        "kafka.max.block.ms",
        "kafka.max.request.size",
        "kafka.metadata.max.idle.ms",
        "kafka.partitioner.class",
        "kafka.partitioner.ignore.keys",
        "kafka.compression.gzip.level",
        "kafka.compression.lz4.level",
        "kafka.compression.zstd.level",
        *CLIENT_SETTINGS,
    }
)
_SPARKS_OWN = ("path", "queryName", "includeHeaders")
"""Spark hands these to every sink."""
_REFUSED = {
    **{
        name: f'it is a column of the rows, as in Spark\'s own sink: .selectExpr("*", "{example} AS {name}")'
        for name, example in (("partition", "7"), ("key", "'k'"), ("timestamp", "now()"))
    },
    "headers": "it is a column of the rows, as in Spark's own sink; read with includeHeaders=true it is there",
    "kafka.transactional.id": "each worker has one of its own, which begins with barnabas-sink-",
    **dict.fromkeys(
        ("kafka.key.serializer", *OF_KEYS), "keys are binary or strings: write them so in the query"
    ),
    "kafka.value.serializer": "values are binary or strings, or structs with valueFormat",
    "badRecords": "a row that cannot be written fails the query: filter it out before",
    "kafka.interceptor.classes": "there is no Java producer that they could hook into",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink, checked.  Times in seconds, sizes in bytes.

    `two_phases`: "auto", "required", or None for never.
    """

    bootstrap: str
    topic: str | None
    delivery: str
    checkpoint: str | None
    sink_id: str | None
    two_phases: str | None
    fail_on_data_loss: bool
    transaction_timeout: float
    compression: str | None
    linger: float
    batch_size: int
    buffer: int
    delivery_timeout: float
    request_timeout: float
    client_id: str
    offset_map: str | None = None
    security: Security = PLAINTEXT
    values: ValueOptions | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Check what was given to `.option()`; names in any case.  ConfigError names the nearest."""
        words = OptionWords(given, NAMES, _NO_EFFECT, _REFUSED)
        if strange := [name for name in words.without_effect if name not in _SPARKS_OWN]:
            log.warning("options without effect on this sink: %s", ", ".join(strange))
        two_phases = _one_of(words, "twoPhaseCommit", (AUTO, REQUIRED, OFF))
        codec = _one_of(words, "kafka.compression.type", _CODECS)
        offset_map = words.text("offsetMap", "") or None
        if offset_map is not None and words.text("delivery", EXACTLY_ONCE).lower() == AT_LEAST_ONCE:
            raise ConfigError(
                "offsetMap needs transactions: delivery=at-least-once has none",
                next_step="leave one of the two out",
            )
        return cls(
            bootstrap=words.required("kafka.bootstrap.servers"),
            topic=words.text("topic", "") or None,
            delivery=words.one_of("delivery", EXACTLY_ONCE, AT_LEAST_ONCE),
            checkpoint=words.text("checkpointLocation", "") or None,
            sink_id=words.text("sinkId", "") or None,
            two_phases=None if two_phases == OFF else two_phases,
            fail_on_data_loss=words.boolean("failOnDataLoss", True),
            transaction_timeout=(words.whole("kafka.transaction.timeout.ms") or 900_000) / 1000,
            compression=None if codec == "none" else codec,
            linger=(5 if (linger := words.whole("kafka.linger.ms", least=0)) is None else linger) / 1000,
            batch_size=words.whole("kafka.batch.size") or 128 << 10,
            buffer=words.whole("kafka.buffer.memory", most=INT64) or 64 << 20,
            delivery_timeout=(words.whole("kafka.delivery.timeout.ms") or 120_000) / 1000,
            request_timeout=(words.whole("kafka.request.timeout.ms") or 30_000) / 1000,
            client_id=words.text("kafka.client.id", "barnabas-spark-sink"),
            offset_map=offset_map,
            security=words.security(),
            values=ValueOptions.of_sink(words),
        )

    def producer_options(self) -> dict[str, Any]:
        """For `Producer` and `TransactionalProducer`."""
        return {
            "compression": self.compression,
            "linger": self.linger,
            "batch_size": self.batch_size,
            "buffer": self.buffer,
            "client_id": self.client_id,
            "security": self.security,
            "request_timeout": self.request_timeout,
            "delivery_timeout": self.delivery_timeout,
        }


def _one_of(words: OptionWords, name: str, values: tuple[str, ...]) -> str:
    value = words.text(name, values[0]).lower()
    if value not in values:
        raise ConfigError(f"{name}={value}: it is {', '.join(values[:-1])} or {values[-1]}")
    return value
