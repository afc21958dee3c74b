"""The settings of one topic's logs, in the form that logs use."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.settings.setting import MAX_LONG

__all__ = ["NO_FLUSH", "CompactionConfig", "LogConfig"]

NO_FLUSH = MAX_LONG
"""Value of flush.messages and flush.ms that means: acknowledge from the page cache."""


class CompactionConfig(NamedTuple):
    """The settings of one topic that matter to compaction only."""

    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int


class LogConfig:
    """The settings of one topic's logs.  Milliseconds, bytes and counts as plain ints; -1: no limit.

    `LogConfig(retention_ms=...)` starts from our defaults, as `Config.log_config()` starts from a node's.
    """

    __slots__ = (
        "cleanup_policy",
        "compaction",
        "compression_type",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "follower_throttled",
        "index_interval_bytes",
        "leader_throttled",
        "max_decompressed_bytes",
        "max_message_bytes",
        "min_insync_replicas",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "timestamp_type",
        "unclean_leader_election",
    )

    def __init__(
        self,
        *,
        segment_bytes: int = 1 << 30,
        segment_ms: int = 604_800_000,
        segment_jitter_ms: int = 0,
        retention_ms: int = 604_800_000,
        retention_bytes: int = -1,
        max_message_bytes: int = 1_048_588,
        max_decompressed_bytes: int = 104_857_600,
        flush_messages: int = 1,
        flush_ms: int = NO_FLUSH,
        index_interval_bytes: int = 4096,
        segment_index_bytes: int = 10 << 20,
        cleanup_policy: frozenset[str] = frozenset({"delete"}),
        compression_type: str = "producer",
        timestamp_type: str = "CreateTime",
        timestamp_before_max_ms: int = MAX_LONG,
        timestamp_after_max_ms: int = 3_600_000,
        min_insync_replicas: int = 1,
        unclean_leader_election: bool = False,
        file_delete_delay_ms: int = 60_000,
        delete_retention_ms: int = 86_400_000,
        min_cleanable_dirty_ratio: float = 0.5,
        min_compaction_lag_ms: int = 0,
        max_compaction_lag_ms: int = MAX_LONG,
        leader_throttled: tuple[str, ...] = (),
        follower_throttled: tuple[str, ...] = (),
    ) -> None:
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.segment_jitter_ms = segment_jitter_ms
        self.retention_ms = retention_ms
        self.retention_bytes = retention_bytes
        self.max_message_bytes = max_message_bytes
        self.max_decompressed_bytes = max_decompressed_bytes
        self.flush_messages = flush_messages
        self.flush_ms = flush_ms
        self.index_interval_bytes = index_interval_bytes
        self.segment_index_bytes = segment_index_bytes
        self.cleanup_policy = cleanup_policy
        self.compression_type = compression_type
        self.timestamp_type = timestamp_type
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.min_insync_replicas = min_insync_replicas
        self.unclean_leader_election = unclean_leader_election
        self.file_delete_delay_ms = file_delete_delay_ms
        self.compaction = CompactionConfig(
            delete_retention_ms, min_cleanable_dirty_ratio, min_compaction_lag_ms, max_compaction_lag_ms
        )
        self.leader_throttled = leader_throttled
        self.follower_throttled = follower_throttled

    @property
    def compact(self) -> bool:
        """Whether old values of a key are removed."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are removed."""
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's clock stamps the records."""
        return self.timestamp_type == "LogAppendTime"

    @property
    def sync_before_ack(self) -> bool:
        """Whether a record is on disk before it is acknowledged or shown to anybody."""
        return self.flush_messages < NO_FLUSH

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogConfig):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable, and nobody's key

    def __repr__(self) -> str:
        plain = LogConfig()
        changed = [n for n in self.__slots__ if getattr(self, n) != getattr(plain, n)]
        return "<LogConfig" + "".join(f" {name}={getattr(self, name)!r}" for name in changed) + ">"
