"""What a topic's settings mean for the batches of one partition."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.replicas.quota import is_throttled
from barnabas.config import LogConfig
from barnabas.model import NodeId

__all__ = ["PartitionSettings"]

_PLAIN_UNPACKED = 64 * 1024
"""A topic whose batches may unpack to less has each looked at closely."""
_CODECS = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class PartitionSettings(NamedTuple):
    """Made anew whenever a setting changes."""

    log_append_time: bool
    target_codec: int
    """The codec of every batch; -1: the producer's."""
    plain_size: int
    """Largest batch that may be appended without a change; -1: none."""
    compact: bool
    """Whether every record needs a key."""
    before_max_ms: int
    after_max_ms: int
    """How far a record's time may be from ours."""
    leader_throttled: bool
    follower_throttled: bool

    @staticmethod
    def of(config: LogConfig, index: int, node: NodeId) -> PartitionSettings:
        """Those of the replica that lies on `node`."""
        codec = _CODECS.get(config.compression_type, -1)
        plain = not config.log_append_time and codec < 0 and config.max_decompressed_bytes >= _PLAIN_UNPACKED
        return PartitionSettings(
            config.log_append_time,
            codec,
            min(config.max_message_bytes, config.segment_bytes) if plain else -1,
            config.compact,
            config.timestamp_before_max_ms,
            config.timestamp_after_max_ms,
            is_throttled(config.leader_throttled, index, node),
            is_throttled(config.follower_throttled, index, node),
        )
