"""One request at a time to every node: what is under way, what timed out, who must rest.

A link is ready, or awaits a response, or rests after a failure.  A response that is not awaited any
more (too late, or from before a change of leader) is not expected and says nothing: so a node never has
two Fetches whose records could be written twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from barnabas.model import NodeId
from barnabas.raft.messages import Request

__all__ = ["Link", "Links"]

REST_MAX = 0.5
"""Seconds a link rests at most."""


@dataclass(slots=True)
class Link:
    """The state of the connection to one node."""

    correlation: int = -1
    request: Request | None = None
    deadline: float = inf
    rest_until: float = 0.0
    failures: int = 0


class Links:
    """All links of a node, by node id (negative: bootstrap servers)."""

    __slots__ = ("_backoff", "_links", "_next", "_timeout", "_waiting")  # fmt: skip

    def __init__(self, timeout: float, backoff: float) -> None:
        self._timeout = timeout
        self._backoff = backoff
        self._links: dict[NodeId, Link] = {}
        self._waiting: dict[int, NodeId] = {}
        self._next = 0

    def ready(self, node_id: NodeId, now: float) -> bool:
        """Whether a request may go there now."""
        link = self._links.get(node_id)
        return link is None or (link.request is None and link.rest_until <= now)

    def failing(self, node_id: NodeId) -> bool:
        """Whether the last thing we tried there failed."""
        link = self._links.get(node_id)
        return link is not None and link.failures > 0

    def begin(self, node_id: NodeId, request: Request, now: float, timeout: float | None = None) -> int:
        """A request goes out; returns its correlation."""
        link = self._links.setdefault(node_id, Link())
        self._next += 1
        link.correlation, link.request = self._next, request
        link.deadline = now + (self._timeout if timeout is None else timeout)
        self._waiting[self._next] = node_id
        return self._next

    def expects(self, correlation: int) -> bool:
        return correlation in self._waiting

    def take(self, correlation: int) -> tuple[NodeId, Request] | None:
        """The request that this ends; None when nobody waits for it any more.  The link is ready again."""
        node_id = self._waiting.pop(correlation, None)
        if node_id is None:
            return None
        link = self._links[node_id]
        request = link.request
        assert request is not None
        link.request, link.deadline = None, inf
        return node_id, request

    def fine(self, node_id: NodeId) -> None:
        """It answered, or others vouch for it: try it as if it had never failed."""
        link = self._links.get(node_id)
        if link is not None:
            link.failures, link.rest_until = 0, 0.0

    def rest(self, node_id: NodeId, now: float) -> None:
        """Let the link rest after a failure: the backoff, doubled with every failure in a row."""
        link = self._links.setdefault(node_id, Link())
        link.rest_until = now + min(REST_MAX, self._backoff * 2.0**link.failures)
        link.failures += 1

    def expired(self, now: float) -> list[int]:
        """Correlations of requests that waited too long, in the order they were sent."""
        return sorted(link.correlation for link in self._links.values() if link.deadline <= now)

    def pending(self, kind: type[Request]) -> bool:
        """Whether a request of this kind is under way, anywhere."""
        return any(isinstance(link.request, kind) for link in self._links.values())

    def waiting_on(self, node_id: NodeId) -> int | None:
        """The correlation under way to that node."""
        link = self._links.get(node_id)
        return link.correlation if link is not None and link.request is not None else None

    def wake(self, now: float) -> None:
        """End the rests that are over."""
        for link in self._links.values():
            if link.rest_until <= now:
                link.rest_until = 0.0

    def next_deadline(self) -> float:
        """When a request times out or a rest ends."""
        deadlines = [link.deadline for link in self._links.values()]
        deadlines += [link.rest_until for link in self._links.values() if link.rest_until > 0.0]
        return min(deadlines, default=inf)

    def reset(self) -> None:
        """Forget everything: the leader or the epoch is another."""
        self._links.clear()
        self._waiting.clear()
