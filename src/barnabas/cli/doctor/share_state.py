"""Looking for brokers that lead what share groups need and do not serve share groups: those of Barnabas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from barnabas.cli.doctor.findings import Findings
from barnabas.model import SHARE_STATE_TOPIC, NodeId
from barnabas.wire.schemas.cluster import MetadataResponsePartition

__all__ = ["Kinds", "examine_share_state"]

_CHECK = "share groups"
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
                _CHECK,
                f"there is none yet; brokers of Apache Kafka serve them: {SHARE_STATE_TOPIC} has to stay there",
            )
        return
    lead = {one.leader_id for one in state} & set(kinds.ours)
    hold = {node for one in state for node in one.replica_nodes} & set(kinds.ours)
    if not hold:
        found.ok(_CHECK, f"all of {SHARE_STATE_TOPIC} lies with brokers that serve share groups")
        return
    does = "leads" if lead else "would lead, if another broker died,"
    said = (
        f"a broker of Barnabas {does} partitions of {SHARE_STATE_TOPIC} ({_listed(lead or hold)}): {_SILENT}"
    )
    if not kinds.kafkas:
        found.warn(
            _CHECK,
            f"{said}; no broker is left that serves share groups",
            f"read with consumer groups, then `barnabas topics delete {SHARE_STATE_TOPIC}`",
        )
        return
    found.warn(
        _CHECK,
        f"{said}; the same holds for what they read, and for their partitions of __consumer_offsets",
        f"barnabas topics reassign {SHARE_STATE_TOPIC} --brokers {_listed(kinds.kafkas, ',')} --execute --wait",
    )


def _listed(nodes: Collection[NodeId], between: str = ", ") -> str:
    return between.join(map(str, sorted(nodes)))
