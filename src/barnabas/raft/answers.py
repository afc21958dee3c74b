"""Why nodes give no answer, for operators: what is said of a node is about it, and goes when it speaks."""

from __future__ import annotations

from barnabas.model import Endpoint, NodeId, ReplicaKey
from barnabas.raft.core import Core

__all__ = ["heard_from", "no_answer"]


def heard_from(core: Core, replica: ReplicaKey) -> None:
    """Forget why a node gave no answer, now that it speaks; its voter may be another disk, and still dead."""
    if core.voters.get(replica.id) is None or core.voters.has(replica):
        core.peers.heard_from(replica.id)


def no_answer(core: Core, node_id: NodeId, where: Endpoint | None, reason: str) -> None:
    """Remember why a node gave no answer of use where it is known to be.

    A bootstrap server that was asked in its place may be any node: what comes from there says nothing of it.
    """
    voter = core.voters.get(node_id)
    known = core.addresses_of(voter.key) if voter is not None else []
    if where not in core.config.bootstrap or where in known:
        core.peers.failed(node_id, reason)
