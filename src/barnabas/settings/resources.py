"""The settings of groups and of telemetry subscriptions, as of Apache Kafka 4.4.0.

Those of share and streams groups are checked, kept and shown as Kafka does; this release serves no such groups.
"""

from __future__ import annotations

from barnabas.settings.setting import MAX_INT, MAX_LONG, Kind, Setting, Value

__all__ = ["GROUP_SETTINGS", "INTERVAL_DEFAULT_MS", "METRICS_SETTINGS"]

GROUP_SETTINGS: dict[str, Setting] = {}
METRICS_SETTINGS: dict[str, Setting] = {}
INTERVAL_DEFAULT_MS = 300_000
_KEPT = "kept with the group; this release serves no such groups"


def _group(
    name: str,
    kind: Kind,
    default: Value,
    doc: str = _KEPT,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    falls_back: bool | str = True,
    internal: bool = False,
) -> None:
    """A setting of a group; `falls_back` on a node setting: behind `group.`, the same name or this one."""
    GROUP_SETTINGS[name] = Setting(
        name,
        kind,
        default,
        default,
        doc,
        low=low,
        high=high,
        choices=choices,
        group="Groups",
        node_name=f"group.{falls_back if isinstance(falls_back, str) else name}" if falls_back else "",
        may_repeat=kind == "list",
        internal=internal,
    )


_group("consumer.session.timeout.ms", "int", 45000, "How long a member may be silent.", low=1, high=MAX_INT)
_group(
    "consumer.heartbeat.interval.ms",
    "int",
    5000,
    "How often a member sends a heartbeat.",
    low=1,
    high=MAX_INT,
)
_group(
    "consumer.assignment.interval.ms", "int", 1000, "Least time between two assignments.", low=0, high=MAX_INT
)
_group("share.session.timeout.ms", "int", 45000, low=45000, high=60000)
_group("share.heartbeat.interval.ms", "int", 5000, low=5000, high=15000)
_group("share.record.lock.duration.ms", "int", 30000, low=15000, high=60000)
_group("share.delivery.count.limit", "int", 5, low=2, high=10)
_group("share.partition.max.record.locks", "int", 2000, low=100, high=4000)
_group("share.auto.offset.reset", "string", "latest", falls_back=False)
_group(
    "share.isolation.level",
    "string",
    "read_uncommitted",
    choices=("read_committed", "read_uncommitted"),
    falls_back=False,
)
_group("share.renew.acknowledge.enable", "boolean", True, falls_back=False)
_group("share.assignment.interval.ms", "int", 1000, low=0, high=15000)
_group("errors.deadletterqueue.copy.record.enable", "boolean", False, falls_back=False)
_group("errors.deadletterqueue.topic.name", "string", "", falls_back=False)
_group("streams.session.timeout.ms", "int", 45000, low=45000, high=60000)
_group("streams.heartbeat.interval.ms", "int", 5000, low=5000, high=15000)
_group("streams.num.standby.replicas", "int", 0, low=0, high=2)
_group("streams.initial.rebalance.delay.ms", "int", 3000, low=0, high=MAX_INT)
_group("streams.assignment.interval.ms", "int", 1000, low=0, high=15000)
_group("streams.assignor.name", "string", "sticky", falls_back="streams.assignors")
_group("streams.rack.aware.assignment.tags", "list", ())
for _family in ("consumer", "share", "streams"):
    _offload = "kept with the group; assignments are made in the broker's one thread"
    _group(f"{_family}.assignor.offload.enable", "boolean", True, _offload, internal=True)
_group("streams.acceptable.recovery.lag", "long", 10000, low=0, high=MAX_LONG, internal=True)
_group("streams.num.warmup.replicas", "int", 2, low=0, high=MAX_INT, internal=True)
_group("streams.task.offset.interval.ms", "int", 60000, low=1, high=MAX_INT, internal=True)


def _metrics(name: str, kind: Kind, default: Value, doc: str) -> None:
    METRICS_SETTINGS[name] = Setting(
        name, kind, default, default, doc, group="Telemetry", may_repeat=kind == "list"
    )


_metrics(
    "metrics", "list", (), "Prefixes of the names of metrics that clients send; `*` for all, empty for none."
)
_metrics("interval.ms", "int", INTERVAL_DEFAULT_MS, "How often they send them: 100 to 3600000.")
_metrics(
    "match",
    "list",
    (),
    "Which clients: `attribute=pattern` pairs that must all match; attributes are `client_instance_id`, "
    "`client_id`, `client_software_name`, `client_software_version`, `client_source_address`, "
    "`client_source_port`. Empty: every client.",
)
