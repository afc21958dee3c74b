"""Reasons for which nodes give no answer, for operators.  A node that answers again has none."""

from __future__ import annotations

from barnabas.model import Endpoint, NodeId, ReplicaKey
from barnabas.raft.core import Core
from barnabas.raft.messages import VoteRequest

__all__ = ["FIRST_SERVER", "another_disk", "heard_from", "no_answer", "server_errors"]


FIRST_SERVER: NodeId = -2
"""The id of the first bootstrap server in `Core.peers`; the next one's is one less."""


def server_errors(core: Core) -> tuple[tuple[Endpoint, str], ...]:
    """Return why each bootstrap server gave no answer of use."""
    found = [(at, core.peers.error_of(FIRST_SERVER - i)) for i, at in enumerate(core.config.bootstrap)]
    return tuple((at, why) for at, why in found if why is not None)


def heard_from(core: Core, replica: ReplicaKey) -> None:
    """Forget why a node gave no answer, now that it speaks; its voter may be another disk, and still dead."""
    if core.voters.get(replica.id) is None or core.voters.has(replica):
        core.peers.heard_from(replica.id)


def no_answer(core: Core, node_id: NodeId, where: Endpoint | None, reason: str) -> None:
    """Remember why a node gave no answer of use where it is known to be.

    A bootstrap server that was asked in its place may be any node: what comes from there says nothing of it.  One
    that was asked as such has an id of its own, which no node has.
    """
    voter = core.voters.get(node_id)
    known = core.addresses_of(voter.key) if voter is not None else []
    if node_id <= FIRST_SERVER or where not in core.config.bootstrap or where in known:
        core.peers.failed(node_id, reason)


def another_disk(core: Core, request: VoteRequest) -> None:
    """Remember that the voter sets of a candidate and this node differ, where both call the other by another disk.

    A node whose own disk is new is in no set of its own, and a candidate on a new disk asks nobody.
    """
    named, voter = request.voter, core.voters.get(request.candidate.id)
    if named is None or voter is None or not core.voters.has(core.key) or core.voters.has(request.candidate):
        return
    core.peers.differing[request.candidate.id] = request.candidate, named
