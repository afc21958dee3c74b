"""Requests that the active controller decides: they are submitted to it where this node is the one."""

from __future__ import annotations

import asyncio

from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.context import RequestContext
from barnabas.server.replication.fast_fencing import FastFencing
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest

__all__ = ["ControllerApi"]


class ControllerApi:
    """Submits to the quorum's controller.  `fencing` hears which brokers report; None: nobody is fenced early."""

    __slots__ = ("_fencing", "_quorum")

    def __init__(self, quorum: Quorum, fencing: FastFencing | None) -> None:
        self._quorum = quorum
        self._fencing = fencing

    def decide(self, context: RequestContext, request: Message) -> asyncio.Future[Message]:
        """Any request of which `controller.controller` knows who decides it; answered when it is committed."""
        return self._quorum.submit(request, context.version)

    def heartbeat(self, context: RequestContext, request: BrokerHeartbeatRequest) -> asyncio.Future[Message]:
        """BrokerHeartbeat (key 63; KIP-631): a broker reports."""
        if self._fencing is not None:
            self._fencing.heard(context.client, request.broker_id)
        return self._quorum.submit(request, context.version)
