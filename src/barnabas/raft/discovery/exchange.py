"""Exchanging addresses: whom a node asks, when, and what it takes from the answer.

A node that knows no leader, or whose leader does not answer, asks every address it has heard of (the bootstrap
servers, the voters' places, everybody in its address book), tells them its own book, and takes theirs.  So nodes
that all came back at new addresses find each other as long as they all reach one node, whichever: it passes
on what it learned.  A node with a leader asks one of the others from time to time, so that books stay fresh.
A node that starts also asks every address until it has heard from each, whether it has a leader or not: a
leader that moved needs nobody, and those who look for it ask at the node that all of them reach.

The request is one of our own.  It travels on a connection of its own, to an address and not to a node: behind
a name or a load balancer another node may answer every time.  A server that does not know the request (Apache
Kafka) is never sent it, and is left alone for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, Endpoint, Now
from barnabas.raft.core import LONGEST_JUMP, Core
from barnabas.raft.discovery.book import MOST_CONTACTS, Contact
from barnabas.raft.effects import SaveBook, Send
from barnabas.raft.identity import origin
from barnabas.raft.messages import ExchangeRequest, ExchangeResponse, Response
from barnabas.raft.roles import Follower, Leader

__all__ = ["Exchange"]

SOON_S = 0.25
"""Seconds between two questions to one address, while there is no leader."""
LONGEST_REST_S = 1.0
UNSUPPORTED_REST_S = 30.0
"""Seconds for which an address is left alone where nobody knows the request."""
MOST_ASKED = 16
"""Addresses asked at once."""


NOTHING_FOUND = "look why nobody answers there: `barnabas quorum describe --detail` shows who is a voter"


@dataclass(slots=True)
class _Asked:
    """One address: the request under way there, and how long it is left alone."""

    correlation: int = 0
    deadline: float = inf
    ended: float = -inf
    failures: int = 0
    worked: bool = False
    """It has answered since this node started."""
    supported: bool = True

    def rest_until(self, longest: float) -> float:
        """When it may be asked again, if pauses grow up to `longest` seconds."""
        if not self.supported:
            return self.ended + UNSUPPORTED_REST_S
        return self.ended + min(longest, SOON_S * 2.0 ** min(self.failures, 8))


class Exchange:
    """The state of the exchange of one node.  `book` is `core.peers.book`."""

    __slots__ = ("_asked", "_due", "_outdated", "_round", "_waiting")

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], _Asked] = {}
        self._waiting: dict[int, tuple[str, int]] = {}
        self._due = inf
        self._round = inf
        """When a node with a leader asks one of the others again."""
        self._outdated = False
        """It was said that none of the configured addresses answers."""

    def __repr__(self) -> str:
        return f"<Exchange asked={len(self._asked)} waiting={len(self._waiting)}>"

    # ------------------------------------------------------------ when

    def begin(self, core: Core, now: Now) -> None:
        """The node starts: it enters itself."""
        if core.config.exchange_interval == inf:
            return
        if core.endpoints and core.config.can_vote:
            core.peers.book.enter(core.endpoints, core.epoch, now.wall_ms)
        self._due = self._round = now.mono

    def deadline(self) -> float:
        """When to look again."""
        return min([self._due, self._round, *(one.deadline for one in self._asked.values())])

    def drive(self, core: Core, now: Now) -> None:
        """Ask whoever is to be asked now, and write down what is new."""
        if core.config.exchange_interval == inf:
            return
        book = core.peers.book
        if book.is_changed:
            book.is_changed = False
            core.do(SaveBook(tuple(book)))
        for place, one in list(self._asked.items()):
            if one.deadline <= now.mono:
                self._ended(core, place, one, now, worked=False)
        lost = _is_lost(core)
        if lost and self._due > now.mono + SOON_S:  # since just now: an election may be all it takes
            self._due = now.mono + core.random.uniform(SOON_S / 2, SOON_S)
        if min(self._due, self._round) > now.mono:
            return
        if core.first_look is not None:
            self._due = self._round = now.mono + SOON_S
        elif lost:
            ready = self._ready(core, now, LONGEST_REST_S)
            first = core.random.integer(0, len(ready) - 1) if ready else 0
            self._ask_all(core, [*ready[first:], *ready[:first]], now)
            self._due = self._round = now.mono + core.random.uniform(SOON_S / 2, SOON_S)
        else:
            self._tell(core, now)

    def _tell(self, core: Core, now: Now) -> None:
        """There is a leader: ask those that were never heard, and one of all from time to time."""
        interval = core.config.exchange_interval
        ready = self._ready(core, now, interval / 2)
        self._ask_all(core, [e for e in ready if not self._has_worked(e)], now)
        self._due = inf  # an answer that fails to come sets it
        if self._round <= now.mono:
            self._warn_of_bootstrap(core)
            ready = self._ready(core, now, interval / 2)
            if ready:
                self._ask(core, ready[core.random.integer(0, len(ready) - 1)], now)
            self._round = now.mono + core.random.uniform(interval / 2, interval)

    def _warn_of_bootstrap(self, core: Core) -> None:
        """Say that the quorum was found and no configured address answered: somebody should change them.

        A sole voter found nobody: the nodes at those addresses may not be there yet.
        """
        asked = [self._asked.get((server.host, server.port)) for server in core.config.bootstrap]
        unanswered = bool(asked) and all(one is not None and one.failures for one in asked)
        if self._outdated or core.is_sole_voter or not unanswered:
            return
        self._outdated = True
        servers = ",".join(f"{e.host}:{e.port}" for e in self._found(core))
        then = f"set controller.quorum.bootstrap.servers={servers}" if servers else NOTHING_FOUND
        core.emit("raft.bootstrap.outdated", next=then)

    def _found(self, core: Core) -> list[Endpoint]:
        """Return where controllers answer; where none did, voters that are not configured."""
        named = [at for voter in core.voters if (at := voter.endpoint(core.config.listener)) is not None]
        worked = [at for at in named if self._has_worked(at)]
        worked = worked or [at for at in _addresses(core) if self._has_worked(at)]
        configured = {(at.host, at.port) for at in core.config.bootstrap}
        return worked or [
            at for at in named if (at.host, at.port) not in configured and at not in core.endpoints
        ]

    def _ready(self, core: Core, now: Now, longest: float) -> list[Endpoint]:
        """The addresses that may be asked now."""
        found = []
        for endpoint in _addresses(core):
            one = self._asked.get((endpoint.host, endpoint.port))
            if one is None or (one.deadline == inf and one.rest_until(longest) <= now.mono):
                found.append(endpoint)
        return found

    def _has_worked(self, endpoint: Endpoint) -> bool:
        one = self._asked.get((endpoint.host, endpoint.port))
        return one is not None and one.worked

    def _ask_all(self, core: Core, endpoints: list[Endpoint], now: Now) -> None:
        for endpoint in endpoints[: max(0, MOST_ASKED - len(self._waiting))]:
            self._ask(core, endpoint, now)

    def _ask(self, core: Core, endpoint: Endpoint, now: Now) -> None:
        place = endpoint.host, endpoint.port
        if len(self._asked) >= 4 * MOST_CONTACTS:
            self._forget(now)
        one = self._asked.setdefault(place, _Asked())
        one.correlation = core.peers.number()
        one.deadline = now.mono + core.config.request_timeout
        self._waiting[one.correlation] = place
        request = ExchangeRequest(core.key, known(core), core.config.cluster_id)
        core.send_aside(Send(one.correlation, NO_NODE, endpoint, request))

    def _forget(self, now: Now) -> None:
        for place in [p for p, one in self._asked.items() if one.deadline == inf]:
            del self._asked[place]

    def _ended(self, core: Core, place: tuple[str, int], one: _Asked, now: Now, *, worked: bool) -> None:
        self._waiting.pop(one.correlation, None)
        one.deadline, one.ended = inf, now.mono
        one.failures = 0 if worked else one.failures + 1
        one.worked |= worked
        if not one.worked:
            self._due = min(self._due, one.rest_until(core.config.exchange_interval / 2))

    # ------------------------------------------------------------ what comes back

    def expects(self, correlation: int) -> bool:
        """Whether that was a request of this exchange."""
        return correlation in self._waiting

    def failed(self, core: Core, correlation: int, now: Now, *, unsupported: bool) -> None:
        """Nobody is there, or somebody who does not know the request."""
        place = self._waiting[correlation]
        one = self._asked[place]
        one.supported = not unsupported
        self._ended(core, place, one, now, worked=unsupported)

    def answered(self, core: Core, correlation: int, response: Response, now: Now) -> None:
        """Take what is newer, unless a node of another quorum answered."""
        place = self._waiting[correlation]
        worked = isinstance(response, ExchangeResponse) and response.error is ErrorCode.NONE
        worked = worked and not origin.is_stranger(core, response)
        self._asked[place].supported = True
        self._ended(core, place, self._asked[place], now, worked=worked)
        if worked and isinstance(response, ExchangeResponse) and self._take(core, response.contacts):
            self._due = now.mono  # there are new places to ask

    def requested(self, core: Core, token: object, request: ExchangeRequest, now: Now) -> None:
        """Somebody tells what it knows, and gets what this node knows.

        Only a node that names this cluster, and no other quorum of it, is listened to and told anything.
        """
        if request.cluster_id is None or request.cluster_id != core.config.cluster_id:
            core.reply(token, ExchangeResponse(ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        if origin.is_stranger(core, request):
            origin.notice(core, request.replica.id, "it exchanges addresses and is of another quorum")
            core.reply(token, ExchangeResponse(ErrorCode.INCONSISTENT_VOTER_SET))
            return
        if self._take(core, request.contacts) and _is_lost(core):
            self._due = min(self._due, now.mono)
        core.reply(token, ExchangeResponse(ErrorCode.NONE, known(core)))

    def _take(self, core: Core, contacts: tuple[Contact, ...]) -> bool:
        book, voters, news = core.peers.book, core.voters.keys, False
        for contact in contacts[:MOST_CONTACTS]:
            if contact.epoch - core.epoch <= LONGEST_JUMP and book.take(contact, voters):
                news = True
                core.peers.moved(contact.key.id)
                core.emit(
                    "raft.endpoint", node=contact.key.id, endpoints=", ".join(map(str, contact.endpoints))
                )
        return news


def known(core: Core) -> tuple[Contact, ...]:
    """What this node tells others: its book, and the voters of its log that are not in it."""
    book = core.peers.book
    epoch = core.log_view.last_epoch
    voters = [
        Contact(voter.key, voter.endpoints, epoch)
        for voter in core.voters
        if voter.endpoints and voter.key != core.key and book.of(voter.key) is None
    ]
    return (*book, *voters)[:MOST_CONTACTS]


def _is_lost(core: Core) -> bool:
    """Whether this node needs others to find the quorum: no leader is known, or it does not answer."""
    role = core.role
    if isinstance(role, Leader) or core.is_sole_voter:
        return False
    if isinstance(role, Follower):
        return core.peers.failing(role.leader_id)
    return True


def _addresses(core: Core) -> list[Endpoint]:
    """Every place that could know more, each once, without this node's own."""
    listener, own = core.config.listener, {(e.host, e.port) for e in core.endpoints}
    found = {(e.host, e.port): e for e in core.config.bootstrap}
    for key in core.voters.keys:
        for endpoint in core.addresses_of(key):
            found.setdefault((endpoint.host, endpoint.port), endpoint)
    for _, contact in core.peers.book.others():
        endpoint = contact.endpoint(listener)
        found.setdefault((endpoint.host, endpoint.port), endpoint)
    return [endpoint for place, endpoint in found.items() if place not in own]
