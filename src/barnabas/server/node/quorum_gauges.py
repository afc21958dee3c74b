"""Gauges of the quorum, on every node that takes part in it, under Kafka's names (KIP-595, KIP-853).

`number-of-observers` and `uncommitted-voter-change` tell something on the leader only, as with Kafka, and so do
the names that KIP-856 proposed and Kafka did not take (`number-of-possible-voters`, `pending-add-voter`,
`pending-remove-voter`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model import NO_NODE
from barnabas.server.node.image_gauges import image_gauges

if TYPE_CHECKING:
    from barnabas.controller.image import ImageDelta
    from barnabas.server.kraft.driver import Quorum
    from barnabas.server.observe.metrics import Metrics

__all__ = ["register_quorum_gauges"]

_RAFT = "kafka.server:type=raft-metrics,name="
_CONTROLLER = "kafka.controller:type=KafkaController,name="
STATES = ("unattached", "prospective", "candidate", "follower", "leader", "resigned")
"""Values of current-state, which a gauge can only tell as numbers."""


def register_quorum_gauges(metrics: Metrics, quorum: Quorum) -> None:
    """Give `metrics` what the quorum's driver can be asked."""

    def raft(read: str) -> Callable[[], float]:
        return lambda: float(getattr(quorum.statistics().raft, read))

    def leader() -> float:
        known = quorum.statistics().raft.leader_id
        return float(NO_NODE if known is None else known)

    def state() -> float:
        role = quorum.statistics().raft.role
        return float(STATES.index(role)) if role in STATES else -1.0

    def waits(kind: str) -> Callable[[], float]:
        return lambda: float(any(line.startswith(f"{kind} ") for line in quorum.describe().waiting))

    def possible() -> float:
        return float(len(quorum.describe().could_vote(quorum.image.controllers)))

    read: tuple[tuple[str, str, Callable[[], float]], ...] = (
        (f"{_RAFT}current-state", f"Role: {', '.join(f'{i} {s}' for i, s in enumerate(STATES))}", state),
        (f"{_RAFT}current-leader", "Id of the quorum's leader, -1 unknown", leader),
        (f"{_RAFT}current-epoch", "Epoch of the quorum", raft("epoch")),
        (f"{_RAFT}high-watermark", "Committed end of the metadata log", raft("high_watermark")),
        (f"{_RAFT}log-end-offset", "End of the metadata log", raft("end_offset")),
        (f"{_RAFT}log-end-epoch", "Epoch of the last record of the metadata log", raft("last_epoch")),
        (f"{_RAFT}number-of-voters", "Voters of the set in force", raft("voters")),
        (f"{_RAFT}number-of-observers", "Observers that fetch from this leader", raft("observers")),
        (f"{_RAFT}uncommitted-voter-change", "1 while a change of the voters is not committed",
         raft("pending_change")),
        (f"{_RAFT}number-of-possible-voters", "Registered controllers that follow this leader and do not vote",
         possible),
        (f"{_RAFT}pending-add-voter", "1 while a voter is to be added", waits("add")),
        (f"{_RAFT}pending-remove-voter", "1 while a voter is to be removed", waits("remove")),
        ("barnabas:type=Quorum,name=Strangers", "Messages and leaders of another quorum with this cluster's id",
         raft("strangers")),
        (f"{_CONTROLLER}ActiveControllerCount", "1 on the active controller",
         lambda: float(quorum.is_active_controller)),
        (f"{_CONTROLLER}LastAppliedRecordOffset", "Metadata applied", lambda: quorum.image.offset),
        (f"{_CONTROLLER}FencedBrokerCount", "Brokers that are fenced",
         lambda: sum(broker.fenced for broker in quorum.image.brokers.values())),
        (f"{_CONTROLLER}ActiveBrokerCount", "Brokers that are not fenced",
         lambda: sum(not broker.fenced for broker in quorum.image.brokers.values())),
    )  # fmt: skip
    for name, meaning, reader in read:
        metrics.gauge(name, meaning, reader)
    metrics.collect(lambda: image_gauges(quorum))
    unclean = metrics.counter(
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        "Partitions whose leader was elected out of sync: records may be lost",
    )

    def count(delta: ImageDelta) -> None:
        unclean.value += _unclean_elections(delta)

    quorum.on_change(count)


def _unclean_elections(delta: ImageDelta) -> int:
    """Partitions that have begun to recover with this commit: an unclean election is what makes them."""
    found = 0
    for topic_id, touched in delta.partitions.items():
        topic = delta.image.topics.get(topic_id)
        for index, before in touched.items():
            after = topic.partitions.get(index) if topic is not None else None
            found += before is not None and after is not None and after.recovering and not before.recovering
    return found
