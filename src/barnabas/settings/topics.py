"""Every setting of a topic; most fall back on the node setting that their row names."""

from __future__ import annotations

from barnabas.settings.setting import MAX_LONG, SETTINGS, Kind, Setting, Value

__all__ = ["KEPT_ONLY", "TOPIC_SETTINGS", "in_topic_unit", "node_names"]

TOPIC_SETTINGS: dict[str, Setting] = {}


def _t(name: str, node_name: str, *, default: Value = None, doc: str = "") -> None:
    """A topic setting with the type, bounds and meaning of the node setting it falls back on.

    `default` where the node setting has none of its own; `doc` where its sentence would not fit.
    """
    row = SETTINGS[node_name]._replace(name=name, node_name=node_name, group="Topics")
    if default is not None:
        row = row._replace(kafka=default, ours=default)
    TOPIC_SETTINGS[name] = row._replace(doc=doc) if doc else row


def _own(
    name: str, kind: Kind, default: Value, doc: str, *, low: float | None = None, may_repeat: bool = False
) -> None:
    """A topic setting that the node has none for."""
    high = MAX_LONG if low is not None else None
    TOPIC_SETTINGS[name] = Setting(
        name, kind, default, default, doc, low=low, high=high, group="Topics", may_repeat=may_repeat
    )


_t("cleanup.policy", "log.cleanup.policy")
_t("compression.gzip.level", "compression.gzip.level")
_t("compression.lz4.level", "compression.lz4.level")
_t("compression.type", "compression.type")
_t("compression.zstd.level", "compression.zstd.level")
_t("delete.retention.ms", "log.cleaner.delete.retention.ms")
_t("file.delete.delay.ms", "log.segment.delete.delay.ms")
_t("flush.messages", "log.flush.interval.messages")
_t("flush.ms", "log.flush.interval.ms", default=MAX_LONG, doc="Longest time a record stays unsynced.")
_own(
    "follower.replication.throttled.replicas",
    "list",
    (),
    "replicas that their broker fetches at `follower.replication.throttled.rate`: `partition:broker,...` or `*`",
    may_repeat=True,
)
_t("index.interval.bytes", "log.index.interval.bytes")
_own(
    "leader.replication.throttled.replicas",
    "list",
    (),
    "replicas whose leader sends at `leader.replication.throttled.rate`: `partition:broker,...` or `*`",
    may_repeat=True,
)
_own("local.retention.bytes", "long", -2, "kept with the topic; has no effect without remote storage", low=-2)
_own("local.retention.ms", "long", -2, "kept with the topic; has no effect without remote storage", low=-2)
_t("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
_t("max.decompressed.message.bytes", "max.decompressed.message.bytes")
_t("max.message.bytes", "message.max.bytes")
_t("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms")
_t("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms")
_t("message.timestamp.type", "log.message.timestamp.type")
_t("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio")
_t("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms")
_t("min.insync.replicas", "min.insync.replicas")
_own("preallocate", "boolean", False, "kept with the topic; a file always grows as it is written")
_own("remote.log.copy.disable", "boolean", False, "kept with the topic; there is no remote storage")
_own("remote.log.delete.on.disable", "boolean", False, "kept with the topic; there is no remote storage")
_t("retention.bytes", "log.retention.bytes")
_t(
    "retention.ms",
    "log.retention.ms",
    default=604800000,
    doc="Age after which a segment is deleted; -1 never.",
)
_t("segment.bytes", "log.segment.bytes")
_t("segment.index.bytes", "log.index.size.max.bytes")
_t("segment.jitter.ms", "log.roll.jitter.ms", default=0)
_t("segment.ms", "log.roll.ms", default=604800000, doc="Age at which a new segment file is begun.")
_t("unclean.leader.election.enable", "unclean.leader.election.enable")

_CHAINS = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
}
_MS_IN = {".minutes": 60_000, ".hours": 3_600_000}


def node_names(topic_setting: str) -> tuple[str, ...]:
    """Return the node settings that a topic setting falls back on, the strongest first."""
    row = TOPIC_SETTINGS[topic_setting]
    return _CHAINS.get(topic_setting, (row.node_name,) if row.node_name else ())


def in_topic_unit(node_name: str, value: Value) -> Value:
    """Return the value of a node setting in the unit of the topic settings that fall back on it: milliseconds
    where the node's are minutes or hours.  A negative one means "never" in any unit."""
    factor = _MS_IN.get(node_name[node_name.rfind(".") :])
    return value * factor if factor and isinstance(value, int) and value > 0 else value


KEPT_ONLY = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "local.retention.bytes",
        "local.retention.ms",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    }
)
"""Topic settings that are checked, kept and shown as Kafka does, and that no log looks at."""
