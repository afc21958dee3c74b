"""The way to the other controllers: connections, dialled when needed, one request at a time on each.

What the core wants sent goes to a node at an address.  A host name is resolved again at every dial, so a
node that moved is found where its name leads now.  Each node gets up to three connections, because a
fetch may wait for half a second and a request to join for longer, and neither may hold up an election.

A request that the core has given up (its leader changed, say) is not waited for: its connection is
dropped and the next request dials anew.  A connection that broke under a request, or was refused, is told
to the core at once as `Disconnected`: a leader that was killed is missed within milliseconds, not after
the fetch timeout.  One that is merely silent is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import NamedTuple, TypeVar

from barnabas.client.aio import AsyncConnection
from barnabas.client.connection import ConnectionFailed, RequestTimedOut
from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import PLAINTEXT, Security
from barnabas.errors import BarnabasError, ErrorCode, KafkaError, NewerReleaseError
from barnabas.model import Endpoint, NodeId
from barnabas.ports import Randomness
from barnabas.raft.effects import Send
from barnabas.raft.messages import (
    AddVoterRequest,
    Answered,
    BeginQuorumEpochResponse,
    Disconnected,
    ExchangeRequest,
    Failed,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
)
from barnabas.server.kraft.codec.asking import request_out, response_in_steps
from barnabas.server.loop.dialling import dial
from barnabas.server.observe import events
from barnabas.wire.schemas.cluster import DescribeClusterRequest

__all__ = ["Peers", "PeersStatistics"]

STRANGER = events.register(
    "quorum.stranger", logging.WARNING, "another node is not of this cluster; this node ignores it"
)
REFUSED = events.register("quorum.peer-refused", logging.DEBUG, "another controller refused a request")

CONTROLLERS = 2
"""Endpoint type of DescribeCluster (KIP-919)."""
FETCHES, CHANGES, ELECTIONS = "fetch", "change", "election"
_LANES: dict[type[Request], str] = {
    FetchRequest: FETCHES,
    FetchSnapshotRequest: FETCHES,
    AddVoterRequest: CHANGES,
    RemoveVoterRequest: CHANGES,
    UpdateVoterRequest: CHANGES,
}
_LONGEST_PAUSE = 0.25
"""Seconds at most between two dials of the same node; they double from 10 ms, each times a random factor."""


RECORDS = 250
"""Records of an answer that are read in one loop step, about 6 us each."""
_T = TypeVar("_T")


class PeersStatistics(NamedTuple):
    """Counts since the start."""

    connections: int
    dials: int
    failures: int


class Peers:
    """All connections of this node to other controllers.

    `receive` takes what comes of each Send, `fail` the error of an answer after which the node must stop.
    """

    def __init__(
        self,
        node_id: NodeId,
        listener: str,
        request_timeout: float,
        random: Randomness,
        receive: Callable[[Message], None],
        fail: Callable[[BarnabasError], None],
        security: Security = PLAINTEXT,
    ) -> None:
        self.listener = listener
        self.client_id = f"raft-client-{node_id}"
        self.timeout = request_timeout
        self.random = random
        self.receive = receive
        self.fail = fail
        self.security = security
        self.dials = self.failures = 0
        self.strangers: dict[Endpoint, str] = {}
        """The cluster, "another" where it does not say, of each peer that refused this node for its own."""
        self._lines: dict[tuple[NodeId, str], PeerConnection] = {}
        self._aside: dict[int, PeerConnection] = {}
        """Lines for one exchange of addresses each, by correlation."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<Peers {len(self._lines)} lines dials={self.dials} failures={self.failures}>"

    def statistics(self) -> PeersStatistics:
        """Counts since the start."""
        return PeersStatistics(sum(line.is_open for line in self._lines.values()), self.dials, self.failures)

    def send(self, effect: Send) -> None:
        """Send a request; exactly one Answered or Failed comes of it (or nothing after `close`)."""
        if self._closed:
            return
        if effect.endpoint is None:
            self.receive(Failed(effect.correlation, f"node {effect.to} has no address"))
            return
        if isinstance(effect.request, ExchangeRequest):
            # Behind the same address another node may answer next time: each goes out on a line of its own.
            aside = self._aside[effect.correlation] = PeerConnection(self, once=True)
            aside.begin(effect, effect.endpoint)
            return
        lane = effect.to, _LANES.get(type(effect.request), ELECTIONS)
        line = self._lines.get(lane)
        if line is None:
            line = self._lines[lane] = PeerConnection(self)
        line.begin(effect, effect.endpoint)

    def over(self, correlation: int) -> None:
        """An exchange of addresses has ended: its line is of no more use."""
        line = self._aside.pop(correlation, None)
        if line is not None:
            line.hang_up()

    async def close(self) -> None:
        """Close every connection; what is under way is not answered any more."""
        self._closed = True
        for line in (*self._lines.values(), *self._aside.values()):
            line.drop()
        await asyncio.sleep(0)


class PeerConnection:
    """One connection to one node, for one kind of request."""

    __slots__ = ("_connection", "_endpoint", "_failures", "_once", "_peers", "_task")

    def __init__(self, peers: Peers, *, once: bool = False) -> None:
        """`once`: it ends with its first answer."""
        self._peers = peers
        self._once = once
        self._connection: AsyncConnection | None = None
        self._endpoint: Endpoint | None = None
        self._task: asyncio.Task[None] | None = None
        self._failures = 0

    def __repr__(self) -> str:
        return f"<PeerConnection {self._endpoint} {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        """Whether a request would go out without a dial."""
        return self._connection is not None and not self._connection.closed

    def begin(self, effect: Send, endpoint: Endpoint) -> None:
        """Send; the request before, should it still be unanswered, is given up."""
        if self._task is not None and not self._task.done():
            self.drop()
        self._task = asyncio.get_running_loop().create_task(self._exchange(effect, endpoint))

    def drop(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def _exchange(self, effect: Send, endpoint: Endpoint) -> None:
        if not self._once:
            await self._ask(effect, endpoint)
            return
        try:
            await self._ask(effect, endpoint)
        finally:
            self._peers.over(effect.correlation)

    async def _ask(self, effect: Send, endpoint: Endpoint) -> None:
        peers = self._peers
        try:
            connection = await self._connected(endpoint)
            request, version = request_out(effect.request, connection.version_of)
            answer = await connection.request(request, version)
            response = await _in_turns(response_in_steps(answer, peers.listener))
            self._failures = 0
        except NewerReleaseError as error:  # asked again, the leader would send the same
            self._task = None
            peers.fail(error)
        except BarnabasError as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
                error.message = await self._stranger(effect, endpoint)
            self._task = None
            self._failed(effect, endpoint, error)
        except Exception as error:  # a defect: it must not vanish with this task
            self._task = None
            events.emit(events.TASK_FAILED, task=f"ask controller {effect.to}", error=error)
            peers.receive(Failed(effect.correlation, repr(error)))
        else:
            self._task = None  # over: whoever hears the answer asks the next thing at once, on this line
            peers.receive(Answered(effect.correlation, response))

    async def _connected(self, endpoint: Endpoint) -> AsyncConnection:
        connection = self._connection
        if connection is not None and not connection.closed and self._endpoint == endpoint:
            return connection
        if connection is not None:
            connection.abort()
            self._connection = None
        peers = self._peers
        if self._failures:
            longest = min(_LONGEST_PAUSE, 0.01 * 2.0 ** min(self._failures, 10))
            await asyncio.sleep(peers.random.uniform(0.0, longest))
        peers.dials += 1
        self._endpoint = endpoint
        self._connection = await dial(
            endpoint.host,
            endpoint.port,
            client_id=peers.client_id,
            timeout=3 * peers.timeout,
            connect_timeout=peers.timeout,
            security=peers.security,
        )
        return self._connection

    async def _stranger(self, effect: Send, endpoint: Endpoint) -> str:
        """Return both sides' clusters, and say them once in an event.  The refusal itself names none."""
        strangers, connection = self._peers.strangers, self._connection
        ours = getattr(effect.request, "cluster_id", None)
        if endpoint not in strangers:
            theirs = ""
            with suppress(BarnabasError):
                assert connection is not None
                theirs = (
                    await connection.request(DescribeClusterRequest(endpoint_type=CONTROLLERS))
                ).cluster_id
            strangers[endpoint] = theirs or "another"
            events.emit(
                STRANGER,
                node=effect.to,
                address=f"{endpoint.host}:{endpoint.port}",
                cluster=strangers[endpoint],
                own=ours,
                next="check controller.quorum.bootstrap.servers; `barnabas storage info -c FILE` at "
                "either node shows what its disk is formatted for",
            )
        return f"it is of cluster {strangers[endpoint]}, this node is of cluster {ours}"

    def _failed(self, effect: Send, endpoint: Endpoint, error: BarnabasError) -> None:
        peers = self._peers
        peers.failures += 1
        if isinstance(error, ConnectionFailed):
            self._failures += 1
            if effect.to >= 0 and not isinstance(error, RequestTimedOut):
                peers.receive(Disconnected(effect.to, error.message))
            peers.receive(Failed(effect.correlation, error.message))
            return
        if isinstance(error, AuthenticationFailed):  # said where it is dialled
            self._failures += 1
            peers.receive(Failed(effect.correlation, error.message))
            return
        code = error.code if isinstance(error, KafkaError) else None
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # the core ends the node over this one
            peers.receive(Answered(effect.correlation, BeginQuorumEpochResponse(code, -1)))
            return
        events.emit(REFUSED, node=effect.to, request=type(effect.request).__name__, error=error)
        unsupported = code is ErrorCode.UNSUPPORTED_VERSION
        foreign = code is ErrorCode.INCONSISTENT_CLUSTER_ID
        peers.receive(Failed(effect.correlation, error.message, unsupported, foreign))


async def _in_turns(steps: Generator[None, None, _T]) -> _T:
    """What the steps come to, `RECORDS` of them in each loop step."""
    while True:
        try:
            for _ in range(RECORDS):
                next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        await asyncio.sleep(0)
