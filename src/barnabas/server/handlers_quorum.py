"""What the controllers decide or are asked: each request goes to the quorum's driver as it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.server.context import RequestContext
from barnabas.wire.message import Message

if TYPE_CHECKING:
    from barnabas.server.services import Services

__all__ = ["describe", "submit"]


def submit(node: Services, context: RequestContext, request: Message) -> asyncio.Future[Message]:
    """A request for the active controller; answered when what it changes is committed."""
    return node.quorum.submit(request, context, context.version)


def describe(node: Services, context: RequestContext, request: Message) -> Message:
    """DescribeQuorum (key 55; KIP-836)."""
    return node.quorum.describe(request)
