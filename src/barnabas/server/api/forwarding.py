"""The way of a client's request to the active controller, and of its refusal.

On a controllers' listener this node decides itself, or refuses with NOT_CONTROLLER (or
NOT_LEADER_OR_FOLLOWER): a client of the controllers finds the active one itself.  On a broker's listener this
node forwards what only the active controller can decide (KIP-590).
"""

from __future__ import annotations

import asyncio

from barnabas.server.api.item_errors import spelled_out
from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Decider, Handler, Row
from barnabas.server.replication.applier import Applier
from barnabas.wire.codec.message import Message

__all__ = ["ToController", "handler_for"]


def handler_for(row: Row, kind: str, decide: Handler, quorum: Quorum, applier: Applier) -> Handler:
    """What a request goes to at a listener of that kind: its decider, or what looks for the active controller."""
    if row.decider is Decider.BROKER or (row.decider is Decider.QUORUM and not row.forward):
        return decide
    return ToController(row, kind, decide, quorum, applier).serve


class ToController:
    """A row that the active controller decides, at one kind of listener."""

    __slots__ = ("_applier", "_decide", "_lane", "_quorum", "_row")

    def __init__(self, row: Row, kind: str, decide: Handler, quorum: Quorum, applier: Applier) -> None:
        self._row = row
        self._decide = decide
        self._quorum = quorum
        self._applier = applier
        self._lane = row.forward if kind == "B" else ""

    def serve(self, context: RequestContext, request: Message) -> Message | asyncio.Future[Message]:
        """Have it decided here or elsewhere; a refusal as a whole becomes one of each item."""
        row, quorum = self._row, self._quorum
        answer: Message | asyncio.Future[Message]
        if not self._lane or (quorum.is_active_controller and len(quorum.voters) == 1):
            answer = self._decide(context, request)
        else:
            answer = quorum.channel.forward(context, request, self._lane, self._decide)
        if isinstance(answer, Message):
            return answer
        answer = spelled_out(row.refused, request, answer)
        return self._applier.after(answer) if row.applied else answer

    def __repr__(self) -> str:
        return f"<ToController {self._row.key}>"
