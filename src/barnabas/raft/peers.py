"""One request at a time to every node: which are in flight, which timed out, which nodes back off.

A link is ready, or awaits a response, or backs off after a failure.  A response that is not awaited any more
(too late, or from before a change of leader) is ignored.  So a node never has two Fetches whose records could
be written twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from barnabas.model import Endpoint, NodeId
from barnabas.raft.messages import Request

__all__ = ["Link", "Links"]

REST_MAX = 0.5
"""Seconds a link rests at most."""


@dataclass(slots=True)
class Link:
    """The state of the connection to one node."""

    correlation: int = -1
    request: Request | None = None
    endpoint: Endpoint | None = None
    deadline: float = inf
    rest_until: float = 0.0
    failures: int = 0


class Links:
    """All links of a node, by node id (negative: bootstrap servers) and lane.

    A wish about membership travels in its own lane: the leader may let it wait for seconds, and a replica
    that wants to be let in must go on fetching meanwhile.
    """

    __slots__ = ("_backoff", "_links", "_next", "_places", "_timeout", "_waiting")

    def __init__(self, timeout: float, backoff: float) -> None:
        self._timeout = timeout
        self._backoff = backoff
        self._links: dict[tuple[NodeId, int], Link] = {}
        self._waiting: dict[int, tuple[NodeId, int]] = {}
        self._places: dict[NodeId, int] = {}
        self._next = 0

    def ready(self, node_id: NodeId, now: float, lane: int = 0) -> bool:
        """Whether a request may go there now."""
        link = self._links.get((node_id, lane))
        return link is None or (link.request is None and link.rest_until <= now)

    def place(self, node_id: NodeId) -> int:
        """How many places it was not found at.  Not forgotten with the rest: it is about the network."""
        return self._places.get(node_id, 0)

    def elsewhere(self, node_id: NodeId) -> None:
        """It was not where we looked: next time look somewhere else."""
        self._places[node_id] = self.place(node_id) + 1

    def asking(self, node_id: NodeId) -> bool:
        """Whether a request to it is not answered yet."""
        link = self._links.get((node_id, 0))
        return link is not None and link.request is not None

    def failures(self, node_id: NodeId) -> int:
        """How often in a row it failed."""
        link = self._links.get((node_id, 0))
        return 0 if link is None else link.failures

    def failing(self, node_id: NodeId) -> bool:
        """Whether the last thing we tried there failed."""
        return self.failures(node_id) > 0

    def begin(
        self, node_id: NodeId, request: Request, now: float, lane: int = 0, timeout: float | None = None
    ) -> int:
        """A request goes out; returns its correlation."""
        link = self._links.setdefault((node_id, lane), Link())
        self._next += 1
        link.correlation, link.request = self._next, request
        link.deadline = now + (self._timeout if timeout is None else timeout)
        self._waiting[self._next] = node_id, lane
        return self._next

    def goes_to(self, correlation: int, endpoint: Endpoint | None) -> None:
        """Where this request is sent."""
        self._links[self._waiting[correlation]].endpoint = endpoint

    def address(self, correlation: int) -> Endpoint | None:
        """Where it was sent; None when nobody waits for its answer any more."""
        place = self._waiting.get(correlation)
        return None if place is None else self._links[place].endpoint

    def expects(self, correlation: int) -> bool:
        """Whether somebody still waits for the answer to this."""
        return correlation in self._waiting

    def take(self, correlation: int) -> tuple[NodeId, Request] | None:
        """The request that this ends; None when nobody waits for it any more.  The link is ready again."""
        place = self._waiting.pop(correlation, None)
        if place is None:
            return None
        link = self._links[place]
        request = link.request
        assert request is not None
        link.request, link.deadline = None, inf
        return place[0], request

    def fine(self, node_id: NodeId) -> None:
        """It answered, or others vouch for it: try it as if it had never failed."""
        link = self._links.get((node_id, 0))
        if link is not None:
            link.failures, link.rest_until = 0, 0.0

    def rest(self, node_id: NodeId, now: float, seconds: float | None = None) -> None:
        """Let the link rest after a failure: so long, or the backoff, doubled with every failure in a row."""
        link = self._links.setdefault((node_id, 0), Link())
        if seconds is None:
            seconds = min(REST_MAX, self._backoff * 2.0 ** min(link.failures, 10))
        link.rest_until = now + seconds
        link.failures += 1

    def expired(self, now: float) -> list[int]:
        """Correlations of requests that waited too long, in the order they were sent."""
        return sorted(link.correlation for link in self._links.values() if link.deadline <= now)

    def pending(self, *kinds: type[Request]) -> bool:
        """Whether a request of one of these kinds is under way, anywhere."""
        return any(isinstance(link.request, kinds) for link in self._links.values())

    def waiting_on(self, node_id: NodeId) -> list[int]:
        """The correlations under way to that node."""
        return [
            link.correlation
            for (to, _), link in self._links.items()
            if to == node_id and link.request is not None
        ]

    def wake(self, now: float) -> None:
        """End the rests that are over."""
        for link in self._links.values():
            if link.rest_until <= now:
                link.rest_until = 0.0

    def next_deadline(self) -> float:
        """When a request times out or a rest ends."""
        earliest = inf
        for link in self._links.values():
            if link.deadline < earliest:
                earliest = link.deadline
            if 0.0 < link.rest_until < earliest:
                earliest = link.rest_until
        return earliest

    def reset(self) -> None:
        """Forget everything: the leader or the epoch is another."""
        self._links.clear()
        self._waiting.clear()
