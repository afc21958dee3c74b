"""Requests that the controllers decide or answer.

On a controllers' listener this node serves every request itself, or refuses it with NOT_CONTROLLER (or
NOT_LEADER_OR_FOLLOWER): a client of the controllers finds the active one itself.  On a broker's listener this
node forwards what only the active controller can decide.
"""

from __future__ import annotations

import asyncio

from barnabas.server.api.item_errors import spelled_out
from barnabas.server.kraft.describe import describe_quorum
from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.context import RequestContext
from barnabas.server.replication.fast_fencing import Deaths
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest
from barnabas.wire.schemas.quorum import DescribeQuorumRequest

__all__ = ["QuorumApi"]


class QuorumApi:
    """The way of a request to the active controller, and of a controller's to this one.

    `deaths` hears which brokers report; None where nobody is fenced early.
    """

    __slots__ = ("_deaths", "_quorum")

    def __init__(self, quorum: Quorum, deaths: Deaths | None) -> None:
        self._quorum = quorum
        self._deaths = deaths

    def submit(self, context: RequestContext, request: Message) -> asyncio.Future[Message]:
        """A request for the active controller; answered when what it changes is committed."""
        if context.__class__ is not RequestContext:  # from an envelope: whoever wrapped it looks further
            return self._quorum.ask(request, context)
        if self._deaths is not None and isinstance(request, BrokerHeartbeatRequest):
            self._deaths.heard(context.client, request.broker_id)
        broker = context.client.kind == "B"
        quorum = self._quorum
        return spelled_out(
            request, quorum.forward(request, context) if broker else quorum.ask(request, context)
        )

    def describe(
        self, context: RequestContext, request: DescribeQuorumRequest
    ) -> Message | asyncio.Future[Message]:
        """DescribeQuorum (key 55; KIP-836).  A controller that does not lead says who does."""
        if context.client.kind == "B" and not self._quorum.is_active_controller:
            return self._quorum.forward(request, context)
        return describe_quorum(self._quorum.describe(), request)

    def peer(self, context: RequestContext, request: Message) -> asyncio.Future[Message]:
        """Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, UpdateRaftVoter (KIP-595, KIP-853)."""
        return self._quorum.handle(request, context)
