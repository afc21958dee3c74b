"""Looking for brokers that lead what share groups need and do not serve share groups: those of Barnabas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from barnabas.cli.doctor.findings import Findings
from barnabas.model import SHARE_STATE_TOPIC, NodeId
from barnabas.wire.schemas.cluster import MetadataResponsePartition

__all__ = ["CHECK", "Kinds", "examine_share_state", "held", "listed"]

CHECK = "share groups"
_SILENT = "share consumers whose state is there read nothing, without an error"


class Kinds(NamedTuple):
    """The brokers whose kind is known."""

    ours: Collection[NodeId]
    kafkas: Collection[NodeId]


def examine_share_state(
    level: int, state: Sequence[MetadataResponsePartition] | None, kinds: Kinds, found: Findings
) -> None:
    """Say which brokers of Barnabas lead the state of share groups, or would.

    `level` is that of share.version, `state` has the partitions of `__share_group_state`, if it exists.
    """
    if not level or not kinds.ours:
        return
    if state is None:
        if kinds.kafkas:
            found.ok(
                CHECK,
                f"there is none yet; brokers of Apache Kafka serve them: {SHARE_STATE_TOPIC} has to stay there",
            )
        return
    does, brokers = held(state, kinds.ours)
    if not brokers:
        found.ok(CHECK, f"all of {SHARE_STATE_TOPIC} lies with brokers that serve share groups")
        return
    said = f"a broker of Barnabas {does} partitions of {SHARE_STATE_TOPIC} ({listed(brokers)}): {_SILENT}"
    if not kinds.kafkas:
        found.warn(
            CHECK,
            f"{said}; no broker is left that serves share groups",
            f"read with consumer groups, then `barnabas topics delete {SHARE_STATE_TOPIC}`",
        )
        return
    found.warn(
        CHECK,
        f"{said}; their partitions of __consumer_offsets have to lie with Apache Kafka, too",
        f"barnabas topics reassign {SHARE_STATE_TOPIC} --brokers {listed(kinds.kafkas, ',')} --execute --wait",
    )


def held(
    partitions: Sequence[MetadataResponsePartition], ours: Collection[NodeId]
) -> tuple[str, set[NodeId]]:
    """Return which brokers of Barnabas lead any of these partitions, or would; in front a verb that says which."""
    lead = {one.leader_id for one in partitions}.intersection(ours)
    hold = {node for one in partitions for node in one.replica_nodes}.intersection(ours)
    return ("leads", lead) if lead else ("would lead, if another broker died,", hold)


def listed(items: Iterable[Any], between: str = ", ") -> str:
    """Return the items in order, as a sentence or a flag takes them."""
    return between.join(map(str, sorted(items)))
