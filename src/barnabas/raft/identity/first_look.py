"""The first look: a node that was formatted to vote alone asks whether a quorum exists already.

`storage format --standalone` makes a quorum of one node.  On a known node of a live cluster that would be a
second quorum with the same cluster id.  So the node asks every bootstrap server before it elects itself for the
first time: while its log is empty, its epoch is 0, and it is the only voter in its bootstrap snapshot.  The
question is an ordinary Fetch, which any node sends that looks for the leader.

A server that knows an epoch, or was itself formatted to vote alone, belongs to a quorum of this cluster id:
this node must not start another one, and stops.  A server does not count if it refuses, is silent, belongs to
another cluster, or still waits for a quorum itself.  When all servers were asked, or the time is up, the node
continues.
"""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE, ZERO_UUID, NodeId, Now
from barnabas.raft.core import Core, FirstLook
from barnabas.raft.effects import Send
from barnabas.raft.entries import BOOTSTRAP
from barnabas.raft.messages import FetchRequest, Request, Response

__all__ = ["begin", "drive", "heard", "settled"]

LONGEST = 2.0
"""Seconds that a look takes at most."""


def begin(core: Core, now: Now) -> None:
    """Look, if this node votes alone and has never led."""
    log_view = core.log_view
    new = core.epoch == 0 and log_view.end_offset == 0 and log_view.latest_snapshot == BOOTSTRAP
    if new and core.is_sole_voter and core.config.bootstrap:
        core.first_look = FirstLook(now.mono + min(LONGEST, core.config.request_timeout))


def drive(core: Core, request: FetchRequest, now: Now) -> bool:
    """Ask the servers that were not asked yet, with this request.  Returns whether the look goes on."""
    look = core.first_look
    if look is None:
        return False
    servers = core.config.bootstrap
    if len(look.settled) >= len(servers) or look.deadline <= now.mono:
        core.first_look = None
        return False
    for index, endpoint in enumerate(servers):
        node_id = -2 - index
        if node_id not in look.asked:
            look.asked[node_id] = None
            core.send(Send(core.peers.begin(node_id, request, now.mono), node_id, endpoint, request))
    return True


def settled(core: Core, node_id: NodeId) -> None:
    """That server knows of no quorum, or does not answer."""
    if core.first_look is not None:
        core.first_look.settled[node_id] = None


def heard(core: Core, who: NodeId, said: Request | Response) -> None:
    """A node of this cluster id sent us a message.  Raises KafkaError when it belongs to a quorum."""
    if core.first_look is None:
        return
    epoch, origin = getattr(said, "epoch", 0), getattr(said, "origin", ZERO_UUID)
    if epoch <= 0 and origin in (ZERO_UUID, core.origin):
        if who < NO_NODE:
            settled(core, who)
        return
    where = ""
    if who < NO_NODE:
        endpoint = core.config.bootstrap[-2 - who]
        where = f" at {endpoint.host}:{endpoint.port}"
    raise KafkaError(
        ErrorCode.INCONSISTENT_VOTER_SET,
        f"cluster {core.config.cluster_id} has a quorum already: a controller{where} knows its epoch {epoch}; "
        "this node was formatted with --standalone and would begin a second one",
        next_step="empty this node's directories, format them with --no-initial-controllers instead of "
        "--standalone, start the node, and add it with `barnabas quorum add-controller`",
    )
