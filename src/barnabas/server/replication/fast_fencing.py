"""Fast fencing: the active controller fences a broker that is certainly dead, before its session ends.

A session (`broker.session.timeout.ms`, 9 s) has to be long, because silence alone does not distinguish a dead
broker from a slow one.  A closed port does: as long as a process lives, however slow it is, even stopped or
waiting for a disk, its kernel accepts connections to its ports.  So the rule has three parts:

    reachable   this controller has connected to the address before, under the broker's present
                registration: what refuses now is what accepted connections then
    suspected   the connection that brought its heartbeats ended, or it missed a heartbeat by half an
                interval, or another controller led until now
    taken for dead, and fenced   if then every reachable address refuses connections, twice in a row, a moment
                apart, and no heartbeat came since

A broker that hangs, or a host that is gone or cut off, refuses nothing.  The controller fences it when it is
silent in two ways at once: no heartbeat came for an interval and a quarter (or since this controller took
over), and then it leaves a question unanswered for `_ANSWER_WITHIN_S` seconds, on every address that was
reached before.  A live broker on a busy machine answers at its next loop step.  Time in which this controller
itself did not run does not count.

A broker whose addresses only its clients can reach (behind mapped addresses, for example) is never reachable,
and so never fenced here; neither is an Apache Kafka broker.  They are fenced when their session ends, as in
Apache Kafka.  If something starts to refuse connections in the broker's name (a firewall that rejects), a
broker that is also silent is fenced early, and unfenced with its next heartbeat.
`barnabas.fast.fencing=false` turns all of this off.

A dying process closes its sockets one after the other, so a port may still accept connections when the first of
its connections has ended.  So the controller asks a suspected broker for a second, at growing intervals.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.controller.image import BrokerEndpoint, BrokerState, MetadataImage
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import BrokerEpoch, Epoch, NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import Client
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest

__all__ = ["FastFencing"]

DEAD = events.register(
    "controller.broker-dead", logging.WARNING, "a broker's ports are closed and it is silent: it is fenced"
)

SILENT = events.register(
    "controller.broker-silent", logging.WARNING, "a broker neither reports nor answers: it is fenced"
)

_LOOK_EVERY_S = 0.2
_LOOK_SELDOM_S = 1.0
_KNOCKS_APART_S = 0.02
_EXAMINE_FOR_S = 1.0
_CONNECT_WITHIN_S = 1.0
_LONGEST_PAUSE_S = 30.0
_ANSWER_WITHIN_S = 1.5
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
_WITH_TLS = (1, 3)
"""Security protocols of endpoints: SSL, SASL_SSL."""
_TICK_S = 0.1
"""A question is looked after so often.  A look that comes much later says that this controller stood still."""

Address = tuple[str, int]


class Answer(Enum):
    """The outcome of an attempt to connect."""

    TAKEN = "taken"
    REFUSED = "refused"
    NONE = "none"


class _Reach(NamedTuple):
    """The addresses of a registration that this controller has connected to, and the time of the next attempt."""

    epoch: BrokerEpoch
    reached: frozenset[Address]
    again_at: float
    pause: float


class Controller(Protocol):
    """This node's controller: whether it is the active one, and the way to have a broker fenced."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def is_active_controller(self) -> bool: ...
    @property
    def epoch(self) -> Epoch: ...
    def submit(self, request: Message) -> asyncio.Future[Message]: ...


class FastFencing:
    """The brokers that this node suspects and examines while it is the active controller; monotonic seconds."""

    __slots__ = (
        "_active_since",
        "_asked",
        "_clock",
        "_config",
        "_controller",
        "_examined",
        "_heard",
        "_lines",
        "_node_id",
        "_others",
        "_patience",
        "_reach",
        "_silence",
        "_tasks",
        "_wake",
    )

    def __init__(self, runtime: Runtime, controller: Controller) -> None:
        self._clock = runtime.clock
        self._config = runtime.config
        self._tasks = runtime.tasks
        self._node_id = runtime.node_id
        self._controller = controller
        interval = runtime.config.int("broker.heartbeat.interval.ms") / 1000
        self._patience = interval * 1.5
        self._silence = interval * 1.25
        self._asked: set[NodeId] = set()
        """The brokers that are asked at present whether they are alive."""
        self._heard: dict[NodeId, float] = {}
        self._lines: dict[int, NodeId] = {}
        self._others: set[NodeId] = set()
        """Brokers that are not Barnabas's: they keep their session."""
        self._examined: dict[NodeId, float] = {}
        self._reach: dict[NodeId, _Reach] = {}
        self._active_since = -1
        self._wake = asyncio.Event()

    def heard(self, client: Client, broker: NodeId) -> None:
        """A heartbeat came in over the connection of this client."""
        self._heard[broker] = self._clock.now().mono
        if broker not in self._reach:
            self._wake.set()  # it may die in the first second of its life: it has to be reached before
        if client.software.startswith("barnabas"):
            self._lines[client.id] = broker
            self._others.discard(broker)
        else:
            self._others.add(broker)

    def lost(self, connection_id: int) -> None:
        """A connection ended."""
        broker = self._lines.pop(connection_id, None)
        if broker is not None:
            self._suspect(broker)

    def look(self) -> None:
        """Look at once: this node may have become the active controller."""
        self._wake.set()

    async def watch(self) -> None:
        """Look for silent brokers as long as the node runs: often where another is registered, fenced or not."""
        controller = self._controller
        while True:
            known = [b for b in controller.image.brokers.values() if b.id != self._node_id]
            others = [b for b in known if not b.fenced]
            now = self._clock.now().mono
            if others and controller.is_active_controller:
                if self._active_since != controller.epoch:
                    self._active_since = controller.epoch
                    self._heard.clear()
                    for broker in others:
                        self._suspect(broker.id)
                        self._question(broker.id)
                for broker in others:
                    silent = now - self._heard.setdefault(broker.id, now)
                    if silent > self._patience:
                        self._suspect(broker.id)
                    if silent > self._silence:
                        self._question(broker.id)
            else:
                self._active_since = -1
            for broker in others:
                self._try_to_reach(broker, now)
            await self._pause(_LOOK_EVERY_S if known else _LOOK_SELDOM_S)

    async def _pause(self, seconds: float) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- can it be reached at all --

    def _try_to_reach(self, broker: BrokerState, now: float) -> None:
        """Connect once to each address of a registration; where nobody answers, again and again, seldom."""
        known = self._reach.get(broker.id)
        if known is None or known.epoch != broker.epoch:
            known = _Reach(broker.epoch, frozenset(), now, _LOOK_EVERY_S)
        missing = [address for address in _addresses(broker) if address not in known.reached]
        if missing and known.again_at <= now:
            pause = min(2 * known.pause, _LONGEST_PAUSE_S)
            known = known._replace(again_at=now + pause, pause=pause)
            self._tasks.start(self._reach_out(broker.id, broker.epoch, missing), f"reach {broker.id}")
        self._reach[broker.id] = known

    async def _reach_out(self, id_: NodeId, epoch: BrokerEpoch, addresses: Iterable[Address]) -> None:
        for address in addresses:
            if await _knock(address) is Answer.TAKEN:
                known = self._reach[id_]
                if known.epoch == epoch:
                    self._reach[id_] = known._replace(reached=known.reached | {address})

    # -- is it dead --

    def _suspect(self, id_: NodeId) -> None:
        """Examine it, unless that is under way."""
        if id_ not in self._examined and id_ not in self._others and self._living(id_) is not None:
            self._examined[id_] = self._clock.now().mono
            self._tasks.start(self._examine(id_), f"examine broker {id_}")

    def _living(self, id_: NodeId) -> BrokerState | None:
        """The broker, if it is for us to judge it: unfenced, another node's, and we are active."""
        controller = self._controller
        broker = controller.image.brokers.get(id_)
        if broker is None or broker.fenced or id_ == self._node_id or not controller.is_active_controller:
            return None
        return broker

    async def _examine(self, id_: NodeId) -> None:
        try:
            epoch = await self._gone(id_)
            if epoch is not None:
                events.emit(DEAD, broker=id_, epoch=epoch)
                await self._fence(id_, epoch, dead=True)
        finally:
            del self._examined[id_]

    async def _fence(self, id_: NodeId, epoch: BrokerEpoch, *, dead: bool) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=id_, broker_epoch=epoch, want_fence=True, want_shut_down=dead
        )
        with suppress(KafkaError):  # it came back meanwhile as another, or somebody else is active
            await self._controller.submit(request)

    async def _gone(self, id_: NodeId) -> BrokerEpoch | None:
        """The epoch of the registration that is certainly dead; None when it lives, or nobody can say."""
        since = self._examined[id_]
        clock = self._clock
        epoch: BrokerEpoch | None = None
        refusals, pause = 0, _KNOCKS_APART_S
        while clock.now().mono - since < _EXAMINE_FOR_S:
            broker = self._living(id_)
            if broker is None or epoch not in (None, broker.epoch) or self._heard.get(id_, since) > since:
                return None
            epoch = broker.epoch
            if refusals == 2:
                return epoch
            known = self._reach.get(id_)
            if known is None or known.epoch != epoch or not known.reached:
                return None
            answer = await _knock_at_all(sorted(known.reached))
            if answer is Answer.NONE:
                return None
            if answer is Answer.REFUSED:
                refusals, pause = refusals + 1, _KNOCKS_APART_S
            else:
                refusals, pause = 0, 2 * pause
            if refusals < 2:
                await asyncio.sleep(pause)
        return None

    # -- does it stand still --

    def _question(self, id_: NodeId) -> None:
        """Ask it whether it is there, unless that is under way."""
        if id_ not in self._asked and id_ not in self._others and self._living(id_) is not None:
            self._asked.add(id_)
            self._tasks.start(self._ask(id_), f"question to broker {id_}")

    async def _ask(self, id_: NodeId) -> None:
        try:
            since, broker, known = self._clock.now().mono, self._living(id_), self._reach.get(id_)
            if broker is None or known is None or known.epoch != broker.epoch or not known.reached:
                return
            reached = [one for one in broker.endpoints if (one.host, one.port) in known.reached]
            if await self._answers(reached) or self._heard.get(id_, since) > since:
                return
            still = self._living(id_)
            if still is not None and still.epoch == broker.epoch and id_ not in self._others:
                events.emit(SILENT, broker=id_, epoch=broker.epoch)
                await self._fence(id_, broker.epoch, dead=False)
        finally:
            self._asked.discard(id_)

    async def _answers(self, endpoints: Iterable[BrokerEndpoint]) -> bool:
        """Whether anything but silence comes from one of these."""
        asked = [asyncio.ensure_future(_greet(endpoint, self._config)) for endpoint in endpoints]
        clock, waited = self._clock, 0.0
        try:
            while waited < _ANSWER_WITHIN_S:
                before = clock.now().mono
                done, _ = await asyncio.wait(asked, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    return True
                waited += min(clock.now().mono - before, 2 * _TICK_S)
            return False
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def __repr__(self) -> str:
        return f"<FastFencing heard={len(self._heard)} examined={list(self._examined)}>"


def _addresses(broker: BrokerState) -> list[Address]:
    return [(endpoint.host, endpoint.port) for endpoint in broker.endpoints]


async def _knock_at_all(addresses: Iterable[Address]) -> Answer:
    """REFUSED when every address refuses."""
    for address in addresses:
        answer = await _knock(address)
        if answer is not Answer.REFUSED:
            return answer
    return Answer.REFUSED


async def _knock(address: Address) -> Answer:
    """Connect and hang up."""
    try:
        async with asyncio.timeout(_CONNECT_WITHIN_S):
            _, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return Answer.REFUSED
    except (OSError, TimeoutError):
        return Answer.NONE
    writer.close()
    return Answer.TAKEN


async def _greet(endpoint: BrokerEndpoint, config: Config) -> None:
    """Returns when the other side has said something, if only that it takes no connection."""
    address = endpoint.host, endpoint.port
    try:
        if endpoint.security_protocol in _WITH_TLS:
            await _shake_hands(address, config.at(endpoint.listener))
            return
        connection = await AsyncConnection.connect(*address, client_id="liveness", connect_timeout=60.0)
    except (BarnabasError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
            await asyncio.sleep(60.0)  # that was no answer of its
    else:
        connection.abort()


async def _shake_hands(address: Address, config: Config) -> None:
    """A whole handshake, so that it is no refusal in the other's log: who answers lives, whoever it is."""
    import ssl  # (where a listener speaks TLS it is there)

    from barnabas.client.security.certificates import show_certificate
    from barnabas.server.net.tls.settings import tls_of

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(BarnabasError):  # (our own certificate, where the listener asks for one)
        show_certificate(context, tls_of(config))
    _, writer = await asyncio.open_connection(*address, ssl=context)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
