"""DescribeQuorum (key 55): answered by every controller, and by brokers with the active controller's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.context import RequestContext

if TYPE_CHECKING:
    from barnabas.wire.schemas.quorum import DescribeQuorumRequest, DescribeQuorumResponse

__all__ = ["QuorumApi"]


class QuorumApi:
    """Says what this node sees of the quorum.  A controller that does not lead says who does."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def describe(self, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        """DescribeQuorum (key 55; KIP-595, KIP-836)."""
        from barnabas.server.api.describe_quorum import describe_quorum  # a start does not need it

        return describe_quorum(self._quorum.describe(), request)
