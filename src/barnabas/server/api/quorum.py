"""Requests that the controllers decide or answer.

On a controllers' listener this node serves every request itself, or refuses it with NOT_CONTROLLER (or
NOT_LEADER_OR_FOLLOWER): a client of the controllers finds the active one itself.  On a broker's listener this
node forwards what only the active controller can decide.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest, EnvelopeRequest

if TYPE_CHECKING:
    from barnabas.server.loop.runtime import Services

__all__ = ["describe", "envelope", "peer", "submit"]


def submit(node: Services, context: RequestContext, request: Message) -> asyncio.Future[Message]:
    """A request for the active controller; answered when what it changes is committed."""
    if context.__class__ is not RequestContext:  # from an envelope: whoever wrapped it looks further
        return node.quorum.ask(request, context)
    if node.deaths is not None and isinstance(request, BrokerHeartbeatRequest):
        node.deaths.heard(context.connection, request.broker_id)
    from barnabas.server.api.item_errors import spelled_out

    broker = context.connection.listener.kind == "B"
    quorum = node.quorum
    return spelled_out(request, quorum.forward(request, context) if broker else quorum.ask(request, context))


def describe(node: Services, context: RequestContext, request: Message) -> Message | asyncio.Future[Message]:
    """DescribeQuorum (key 55; KIP-836).  A controller that does not lead says who does."""
    if context.connection.listener.kind == "B" and not node.quorum.is_active_controller:
        return node.quorum.forward(request, context)
    return node.quorum.describe(request)


def peer(node: Services, context: RequestContext, request: Message) -> asyncio.Future[Message]:
    """Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, UpdateRaftVoter (KIP-595, KIP-853)."""
    return node.quorum.handle(request, context)


def envelope(
    node: Services, context: RequestContext, request: EnvelopeRequest
) -> Message | asyncio.Future[Message]:
    """Envelope (key 58; KIP-590)."""
    from barnabas.server.api.envelope import serve_envelope  # not needed by a node alone

    return serve_envelope(node, context, request)
