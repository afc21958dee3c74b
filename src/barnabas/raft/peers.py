"""One request at a time to every node: which are in flight, which timed out, which nodes back off.

A peer is ready, or owes a response, or is left alone for a while after a failure.  A response that is not
awaited any more (too late, or from before a change of leader) is ignored.  So a node never has two Fetches
whose records could be written twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from barnabas.model import Endpoint, NodeId, ReplicaKey
from barnabas.raft.discovery.book import AddressBook
from barnabas.raft.messages import Request

__all__ = ["Peer", "Peers"]

LONGEST_BACK_OFF_S = 0.5
"""Seconds for which a peer is left alone after failures, at most."""


@dataclass(slots=True)
class Peer:
    """What we know of one node that we send to: the request in flight, and its failures."""

    correlation: int = -1
    request: Request | None = None
    endpoint: Endpoint | None = None
    deadline: float = inf
    back_off_until: float = 0.0
    failures: int = 0


class Peers:
    """All peers of a node, by node id (negative: bootstrap servers) and lane.

    A request about membership travels in its own lane: the leader may let it wait for seconds, and a replica
    that wants to be let in must go on fetching meanwhile.
    """

    __slots__ = (
        "_backoff",
        "_errors",
        "_next",
        "_peers",
        "_places",
        "_timeout",
        "_waiting",
        "book",
        "differing",
    )

    def __init__(self, timeout: float, backoff: float, book: AddressBook) -> None:
        self.book = book
        self._timeout = timeout
        self._backoff = backoff
        self._peers: dict[tuple[NodeId, int], Peer] = {}
        self._waiting: dict[int, tuple[NodeId, int]] = {}
        self._places: dict[NodeId, int] = {}
        self._errors: dict[NodeId, str] = {}
        self._next = 0
        self.differing: dict[NodeId, tuple[ReplicaKey, ReplicaKey]] = {}
        """Who asked for a vote and has other voters: itself, and how it names this node; by its id."""

    def ready(self, node_id: NodeId, now: float, lane: int = 0) -> bool:
        """Whether a request may go there now."""
        peer = self._peers.get((node_id, lane))
        return peer is None or (peer.request is None and peer.back_off_until <= now)

    def number(self) -> int:
        """The correlation of a request that is nobody's turn: it goes to an address, not to a node."""
        self._next += 1
        return self._next

    def moved(self, node_id: NodeId) -> None:
        """It listens somewhere else now: try there next, and at once."""
        self._places.pop(node_id, None)
        self.fine(node_id)

    def place(self, node_id: NodeId) -> int:
        """How many endpoints were tried in vain.  `reset` keeps this: it is about the network."""
        return self._places.get(node_id, 0)

    def try_next_endpoint(self, node_id: NodeId) -> None:
        """It did not answer there: use another endpoint next time."""
        self._places[node_id] = self.place(node_id) + 1

    def failed(self, node_id: NodeId, reason: str) -> None:
        """Remember why it gave no answer of use.  `reset` keeps this, too: an operator may ask for it."""
        self._errors[node_id] = reason

    def heard_from(self, node_id: NodeId) -> None:
        """It asked us, or answered: there is no error to show any more."""
        self._errors.pop(node_id, None)
        self.differing.pop(node_id, None)

    def asks_only(self, leader_id: NodeId) -> None:
        """Forget why the others gave no answer: a follower asks its leader only, and would never hear of them."""
        self._errors = {node_id: why for node_id, why in self._errors.items() if node_id == leader_id}
        self.differing.clear()

    def errors(self) -> tuple[tuple[NodeId, str], ...]:
        """Why each node that does not answer does not, by id."""
        return tuple(sorted((id_, why) for id_, why in self._errors.items() if id_ >= 0))

    def error_of(self, node_id: NodeId) -> str | None:
        """Return why this node, or bootstrap server, gave no answer of use; None: nothing is known against it."""
        return self._errors.get(node_id)

    def asking(self, node_id: NodeId) -> bool:
        """Whether a request to it is not answered yet."""
        peer = self._peers.get((node_id, 0))
        return peer is not None and peer.request is not None

    def failures(self, node_id: NodeId) -> int:
        """How often in a row it failed."""
        peer = self._peers.get((node_id, 0))
        return 0 if peer is None else peer.failures

    def failing(self, node_id: NodeId) -> bool:
        """Whether the last thing we tried there failed."""
        return self.failures(node_id) > 0

    def begin(
        self, node_id: NodeId, request: Request, now: float, lane: int = 0, timeout: float | None = None
    ) -> int:
        """A request goes out; returns its correlation."""
        peer = self._peers.setdefault((node_id, lane), Peer())
        self._next += 1
        peer.correlation, peer.request = self._next, request
        peer.deadline = now + (self._timeout if timeout is None else timeout)
        self._waiting[self._next] = node_id, lane
        return self._next

    def goes_to(self, correlation: int, endpoint: Endpoint | None) -> None:
        """Where this request is sent."""
        self._peers[self._waiting[correlation]].endpoint = endpoint

    def address(self, correlation: int) -> Endpoint | None:
        """Where it was sent; None when nobody waits for its answer any more."""
        place = self._waiting.get(correlation)
        return None if place is None else self._peers[place].endpoint

    def expects(self, correlation: int) -> bool:
        """Whether somebody still waits for the answer to this."""
        return correlation in self._waiting

    def take(self, correlation: int) -> tuple[NodeId, Request] | None:
        """The request that this ends; None when nobody waits for it any more.  The peer is ready again."""
        place = self._waiting.pop(correlation, None)
        if place is None:
            return None
        peer = self._peers[place]
        request = peer.request
        assert request is not None
        peer.request, peer.deadline = None, inf
        return place[0], request

    def fine(self, node_id: NodeId) -> None:
        """It answered, or others know it to be alive: forget its failures."""
        peer = self._peers.get((node_id, 0))
        if peer is not None:
            peer.failures, peer.back_off_until = 0, 0.0

    def back_off(self, node_id: NodeId, now: float, seconds: float | None = None) -> None:
        """Leave it alone after a failure: so long, or the backoff, doubled with every failure in a row."""
        peer = self._peers.setdefault((node_id, 0), Peer())
        if seconds is None:
            seconds = min(LONGEST_BACK_OFF_S, self._backoff * 2.0 ** min(peer.failures, 10))
        peer.back_off_until = now + seconds
        peer.failures += 1

    def expired(self, now: float) -> list[int]:
        """Correlations of requests that waited too long, in the order they were sent."""
        return sorted(peer.correlation for peer in self._peers.values() if peer.deadline <= now)

    def pending(self, *kinds: type[Request]) -> bool:
        """Whether a request of one of these kinds is under way, anywhere."""
        return any(isinstance(peer.request, kinds) for peer in self._peers.values())

    def waiting_on(self, node_id: NodeId) -> list[int]:
        """The correlations under way to that node."""
        return [
            peer.correlation
            for (to, _), peer in self._peers.items()
            if to == node_id and peer.request is not None
        ]

    def wake(self, now: float) -> None:
        """End the back-offs that are over."""
        for peer in self._peers.values():
            if peer.back_off_until <= now:
                peer.back_off_until = 0.0

    def next_deadline(self) -> float:
        """When a request times out or a back-off ends."""
        earliest = inf
        for peer in self._peers.values():
            if peer.deadline < earliest:
                earliest = peer.deadline
            if 0.0 < peer.back_off_until < earliest:
                earliest = peer.back_off_until
        return earliest

    def reset(self) -> None:
        """Forget everything: the leader or the epoch is another."""
        self._peers.clear()
        self._waiting.clear()
