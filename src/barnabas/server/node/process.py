"""A node, put together and taken apart.

Start, top to bottom; whatever fails undoes what was done before it, and is one error with a next step:
  1. The sockets are bound, so that a taken port costs nothing else.  Nobody can connect yet.
  2. The directories are formatted (only without a configuration), locked, and recovered.
  3. The quorum's driver opens its log, the controller listener takes connections, a leader is found; the
     metadata is there.  (As long as no majority of controllers runs, this waits.)
  4. The broker opens what the metadata says it hosts; consumer groups load.
  5. The broker registers and is unfenced; the client listeners take connections: whoever can connect finds
     a node that leads what it hosts.
  6. The HTTP port answers.

Stop, bottom to top:
  1. Not ready any more.  The controllers are told, so that leaders move elsewhere first; where there are
     other brokers this node goes on serving until they have moved, and a moment longer (it tells who leads now).
  2. No new connections; no more reading from those that are open.
  3. Syncs in flight come back, and what they make durable is acknowledged; then everybody who still waits
     is answered.
  4. Answers drain to their clients; connections end.
  5. The quorum's driver stops; logs are synced and closed; each directory gets its marker of a clean stop.
All this within `barnabas.shutdown.timeout.ms`; then the node ends as it is, and recovers at its next start.
A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.config import Config
from barnabas.errors import BarnabasError, KafkaError, StorageError
from barnabas.model import Endpoint
from barnabas.server.loop.runtime import Runtime
from barnabas.server.loop.system import (
    SystemClock,
    SystemRandomness,
)
from barnabas.server.net.admission.connections import Connections
from barnabas.server.net.bind import bind
from barnabas.server.net.listener import SWEEP_S, Guard, Listener
from barnabas.server.net.network import Network
from barnabas.server.net.platform import Platform
from barnabas.server.net.secure.settings import bearers_of, dialling, rules_of
from barnabas.server.node.exposure import watch_exposure
from barnabas.server.node.storage_setup import StorageSetup, set_up_storage
from barnabas.server.observe import events
from barnabas.server.replication.applier import Applier
from barnabas.server.replication.broker_connections import PeerListener
from barnabas.settings.table_access import ANONYMOUS

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.ports import Clock, Disk, Randomness
    from barnabas.server.kraft.driver import Quorum
    from barnabas.server.net.http import HttpServer
    from barnabas.server.net.secure.logins import Logins
    from barnabas.server.node.broker_part import BrokerPart
    from barnabas.server.node.serving import Serving
    from barnabas.server.replication.fast_fencing import FastFencing
    from barnabas.server.rights.authorizer import NodeAuthorizer

__all__ = ["ServerNode"]

LINGER_S = 0.3
"""Seconds for which a node goes on telling clients who leads now, after it has handed everything over."""


class ServerNode:
    """`async with ServerNode(config) as node: node.address` runs a node inside your event loop.

    `format_new`: format directories that are new (default: only where the configuration names no roles).
    """

    def __init__(
        self,
        config: Config,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Randomness | None = None,
        platform: Platform | None = None,
        format_new: bool | None = None,
    ) -> None:
        self.config = config
        self._disk = disk
        self._clock = clock or SystemClock()
        self._random = random or SystemRandomness()
        self._platform = platform or Platform()
        self._format_new = config.zero_config if format_new is None else format_new
        self._undo: list[tuple[str, Callable[[], Any]]] = []
        self.runtime: Runtime | None = None
        self.network: Network | None = None
        self.storage: StorageSetup | None = None
        self.quorum: Quorum | None = None
        """Once it is open."""
        self.part: BrokerPart | None = None
        """Once the broker is registered."""
        self.authorizer: NodeAuthorizer | None = None
        """Once the quorum is there, if ACLs decide who may do what."""
        self.connections: Connections | None = None
        self.listeners: list[Listener] = []
        self.failure: BaseException | None = None
        self.failed = asyncio.Event()
        self.ready = False
        self._applier: Applier | None = None
        self._http: HttpServer | None = None
        self._logins: Logins | None = None
        """Where a listener asks for it."""
        self._stopped = False

    @property
    def broker(self) -> Broker | None:
        """The broker of this node, once it is registered."""
        return None if self.part is None else self.part.broker

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first client listener, as another program on this machine dials it."""
        endpoint = next(listener.endpoint for listener in self.listeners if listener.kind == "B")
        return ("127.0.0.1" if endpoint.host in ("", "0.0.0.0", "::") else endpoint.host), endpoint.port

    @property
    def http_port(self) -> int | None:
        """Port of /metrics and /health, None where they are not served."""
        return None if self._http is None else self._http.port

    @property
    def http_address(self) -> str | None:
        """`HOST:PORT` of /metrics and /health, None where they are not served."""
        return None if self._http is None else self._http.address

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every listener with the port it really has."""
        return tuple(listener.endpoint for listener in self.listeners)

    async def __aenter__(self) -> ServerNode:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- starting --

    async def start(self) -> None:
        """Start, as the module says.  Raises BarnabasError, with everything undone."""
        try:
            await self._start()
        except BaseException:
            await self._undo_all()
            raise

    async def _start(self) -> None:
        config, platform = self.config, self._platform
        loop = asyncio.get_running_loop()
        runtime = self.runtime = platform.runtime(config, loop, self._clock, self._random, self.fail)
        events.emit(events.NODE_STARTING, node=config.node_id, roles=",".join(sorted(config.roles)))
        for why, names in config.unused.items():
            events.emit(events.SETTING_UNUSED, settings=",".join(names), why=why)
        network = self.network = Network(runtime, platform, self._unreadable)
        connections = self.connections = Connections(config, runtime.metrics)
        self._bind_listeners(network, connections)
        watch_exposure(config, self.listeners, runtime.metrics)
        disk = self._disk
        if disk is None:
            from barnabas.log.files.disk import OsDisk

            disk = OsDisk()
        controller = next((x.endpoint for x in self.listeners if x.kind == "C"), None)
        home = self.storage = await set_up_storage(
            config,
            disk,
            self._clock,
            self._random,
            controller=controller,
            format_new=self._format_new,
            run=platform.run_aside,
        )
        self._undo.append(("the directories", home.abandon))
        applier = self._applier = Applier(runtime, platform.slice_steps)
        fencing, serving = await self._start_quorum(network, home, disk, applier)
        if "broker" in config.roles:
            await self._start_broker(network, home, disk, applier, serving)
        if self._http is not None:
            await self._http.start()
            self._undo.append(("HTTP", self._http.stop))
        runtime.tasks.start(self._sweep(network, connections), "sweep")
        if fencing is not None:
            runtime.tasks.start(fencing.watch(), "deaths")
        runtime.step.start()
        self.ready = applier.serving = True
        events.emit(
            events.NODE_STARTED,
            node=config.node_id,
            cluster=home.cluster_id,
            listeners=",".join(str(listener.endpoint) for listener in self.listeners),
            acknowledges="after sync" if config.log_config().sync_before_ack else "from page cache",
        )

    def _bind_listeners(self, network: Network, connections: Connections) -> None:
        config = self.config
        advertised = {endpoint.listener for endpoint in config.advertised_listeners}
        for kind, endpoints in (("C", config.controller_listeners), ("B", config.listeners)):
            for endpoint in endpoints:
                given = endpoint.listener in advertised
                listener = Listener(network, connections, endpoint, kind, advertised=given)
                if (config.protocol_of(listener.name) or "").endswith("SSL"):
                    from barnabas.server.net.tls.door import TlsDoor

                    listener.tls = TlsDoor(network, connections, listener.name, listener.too_often)
                self.listeners.append(listener)
                self._undo.append((f"listener {listener.name}", listener.stop_accepting))
        if (where := config.optional_str("barnabas.http.listener")) is not None:
            from barnabas.server.net.http import HttpServer, http_endpoint

            bound = bind(http_endpoint(where))
            self._http = HttpServer(bound, network.runtime.metrics, self.not_ready)
            self._undo.extend(("HTTP", one.close) for one in bound)

    def _advertised(self, kind: str) -> tuple[Endpoint, ...]:
        """What other nodes and clients are told about the listeners of a kind."""
        told = {endpoint.listener: endpoint for endpoint in self.config.advertised_listeners}
        found: list[Endpoint] = []
        for listener in self.listeners:
            if listener.kind == kind:
                own = told.get(listener.name, listener.endpoint)
                if own.host in ("", "0.0.0.0", "::"):
                    own = own._replace(host="localhost")
                found.append(own if own.port else own._replace(port=listener.endpoint.port))
        return tuple(found)

    async def _start_quorum(
        self, network: Network, home: StorageSetup, disk: Disk, applier: Applier
    ) -> tuple[FastFencing | None, Serving]:
        from barnabas.server.kraft.driver import Quorum
        from barnabas.server.kraft.proposals import STEPS
        from barnabas.server.kraft.settings import QuorumSettings
        from barnabas.server.node.quorum_gauges import register_quorum_gauges
        from barnabas.server.node.serving import Serving

        config, runtime = self.config, network.runtime
        settings = QuorumSettings.of(
            config,
            cluster_id=home.cluster_id,
            directory_id=home.directory_id,
            endpoints=self._advertised("C"),
        )
        quorum = self.quorum = await Quorum.open(
            settings,
            config,
            disk=disk,
            clock=self._clock,
            random=self._random,
            on_fatal=self.fail,
            on_step=lambda seconds: runtime.step.late.note("the quorum", seconds),
            clean=home.metadata.was_clean,
            steps=min(STEPS, self._platform.slice_steps),
        )
        self._undo.append(("the quorum", quorum.stop))
        register_quorum_gauges(runtime.metrics, quorum)
        fencing = None
        if "controller" in config.roles and config.bool("barnabas.fast.fencing"):
            from barnabas.server.replication.fast_fencing import FastFencing

            fencing = FastFencing(runtime, quorum)
            quorum.on_leader(fencing.look)
        authorizer = self._authorizer(quorum)
        self._have_clients_log_in(runtime, quorum)
        serving = Serving(network, quorum, applier, fencing, authorizer, self._logins)
        controllers = [listener for listener in self.listeners if listener.kind == "C"]
        if controllers:
            requests = serving.to_controllers()
            for listener in controllers:
                lost = None if fencing is None else fencing.lost
                await listener.start(requests.take, lost, self._guard_of(listener.name))
        await quorum.start()
        if authorizer is not None:
            await authorizer.load()
        self.authorizer = authorizer
        return fencing, serving

    def _authorizer(self, quorum: Quorum) -> NodeAuthorizer | None:
        """What decides who may do what; None: everybody may do everything."""
        config = self.config
        if not config.optional_str("authorizer.class.name"):
            return None
        from barnabas.server.rights.authorizer import NodeAuthorizer

        assert self.connections is not None
        authorizer = NodeAuthorizer(config, quorum.image, self._clock)
        self.connections.vouches = authorizer.vouches
        quorum.on_change(authorizer.changed)
        if ANONYMOUS in authorizer.rules.super_users:
            events.emit(events.ACCESS_ANONYMOUS, next="give your listeners a login: docs/acls.md")
        return authorizer

    async def _start_broker(
        self, network: Network, home: StorageSetup, disk: Disk, applier: Applier, serving: Serving
    ) -> None:
        from barnabas.server.node.broker_part import BrokerPart
        from barnabas.server.node.gauges import register_gauges
        from barnabas.server.node.quota_gauges import register_quotas
        from barnabas.server.node.telemetry_gauges import register_telemetry
        from barnabas.server.node.traffic_gauges import register_traffic_gauges

        assert self.quorum is not None and self.connections is not None
        part = BrokerPart(
            network,
            self.quorum,
            applier,
            home,
            disk,
            advertised=self._advertised("B"),
            peers=self._inter_broker_listener(),
            reconfigured=self.connections.reconfigure,
            on_fatal=self.fail,
            authorizer=self.authorizer,
        )
        self._undo.append(("the heartbeats", part.lifecycle.abandon))
        await part.register()
        self.part = part
        self._undo.append(("the fetchers", part.fetchers.stop))
        self._undo.append(("the probes", part.probes.stop))
        self._undo.append(("the questions about transactions", part.verifier.stop))
        self._undo.append(("the markers", part.marker_sender.stop))
        await part.open()
        register_gauges(network, self.quorum.image, part.broker, part.groups, part.transactions, home.logs)
        register_traffic_gauges(network.runtime.metrics, part.broker, part.groups)
        register_quotas(network.runtime.metrics, network.throttle.quotas, network.runtime.clock)
        register_telemetry(network.runtime.metrics, part.telemetry, network.runtime.clock)
        requests = serving.to_clients(
            part.broker,
            part.groups,
            part.transactions,
            part.telemetry,
            part.answers,
            part.suspicion,
            part.probes.ask,
        )
        await part.lifecycle.unfence()
        for listener in self.listeners:
            if listener.kind == "B":
                await listener.start(requests.take, guard=self._guard_of(listener.name))
        network.step.soon()

    def _have_clients_log_in(self, runtime: Runtime, quorum: Quorum) -> None:
        """Where listeners ask for it: loaded only then."""
        rules = {listener.name: rules_of(self.config, listener.name) for listener in self.listeners}
        if any(rules.values()):
            from barnabas.server.net.secure.logins import Logins

            assert self.connections is not None
            bearers = {listener.name: bearers_of(self.config, listener.name) for listener in self.listeners}
            self._logins = Logins(runtime, quorum.image, rules, bearers, self.connections)
            quorum.on_change(self._logins.metadata_changed)
            self._undo.append(("the logins", self._logins.stop))

    def _guard_of(self, listener: str) -> Guard | None:
        return None if self._logins is None else self._logins.guard_of(listener)

    def _inter_broker_listener(self) -> PeerListener:
        """The listener by which brokers reach each other."""
        name = self.config.between_brokers
        return PeerListener(name, dialling(self.config, name, "sasl.mechanism.inter.broker.protocol"))

    def _unreadable(self, error: StorageError) -> None:
        if self.part is not None:
            self.part.unreadable(error)

    async def _sweep(self, network: Network, connections: Connections) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            connections.sweep(network.memory.short)
            for listener in self.listeners:
                if listener.tls is not None:
                    listener.tls.look()
            network.memory.relieve()
            network.controller_memory.relieve()

    # -- running --

    def not_ready(self) -> str | None:
        """Why this node is not ready to serve, or None."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        if not self.ready:
            return "starting or stopping"
        if self.quorum is None or self.quorum.leader_id < 0:
            return "the quorum has no leader"
        if self.storage is not None and (offline := self.storage.logs.missing()):
            return f"log directories are offline: {', '.join(offline)}"
        known = self.broker.space.known if self.broker is not None else {}
        full = [f"{path} ({space})" for path, space in known.items() if space.full]
        return f"records are refused for want of room in {', '.join(full)}" if full else None

    def fail(self, error: Exception) -> None:
        """Something without which this node cannot go on has failed; whoever runs it stops it."""
        if self.failure is None:
            self.failure = error
            self.ready = False
            events.emit(events.NODE_FAILED, error=error)
            self.failed.set()

    # -- stopping --

    async def stop(self) -> None:
        """Stop, as the module says.  Within the deadline cleanly, else as it is."""
        if self._stopped:
            return
        self._stopped = True
        self.ready = False
        events.emit(events.NODE_STOPPING, node=self.config.node_id)
        seconds = self.config.int("barnabas.shutdown.timeout.ms") / 1000
        try:
            async with asyncio.timeout(seconds):
                assert self.runtime is not None and self.quorum is not None
                assert self.storage is not None and self.connections is not None
                await self._stop_serving(self.runtime, self.quorum, self.connections)
                await self.quorum.stop()
                for connection in list(self.connections.opened.values()):
                    connection.abort()
                self._undo = [item for item in self._undo if item[0] not in ("the quorum", "the directories")]
                if self.failure is None or not isinstance(self.failure, StorageError):
                    epoch = self.part.lifecycle.epoch if self.part is not None else -1
                    clean = self.part is None or self.part.stops_clean
                    self.storage.close(self._clock, epoch, self._platform.run_syncs, clean=clean)
                else:
                    self.storage.abandon()
        except TimeoutError:
            events.emit(events.NODE_STOP_LATE, seconds=seconds)
            self.failure = self.failure or StorageError(f"the stop took longer than {seconds:g} s")
        except BarnabasError as error:
            self.fail(error)
        finally:
            await self._undo_all()
        events.emit(events.NODE_STOPPED, node=self.config.node_id)

    async def _stop_serving(self, runtime: Runtime, quorum: Quorum, connections: Connections) -> None:
        part = self.part
        if part is not None and self.failure is None and len(quorum.image.alive_brokers()) > 1:
            with suppress(KafkaError):  # others take over while this node still serves
                await part.lifecycle.leave()
                await asyncio.sleep(LINGER_S)
        if part is not None:
            part.stop_following()
        if self._applier is not None:
            self._applier.stop()
        for listener in self.listeners:
            if listener.kind == "B":
                listener.stop_accepting()
        opened = [c for c in connections.opened.values() if c.listener.kind == "B"]
        for connection in opened:
            connection.stop_reading()
        if part is not None:
            if self.failure is None:
                with suppress(KafkaError):
                    await part.lifecycle.leave()
            part.fetchers.stop()
            part.marker_sender.stop()
            part.broker.maintenance.stop()
            await self._settle(runtime)
            now = self._clock.now()
            part.groups.stop(now)
            for sync in part.broker.stop(now):
                runtime.step.sync(sync)
            await self._settle(runtime)
        while any(connection.busy for connection in opened):  # noqa: ASYNC110 - bounded by stop's deadline
            await asyncio.sleep(0.001)
        for connection in opened:
            connection.abort()
        await runtime.tasks.stop()
        runtime.step.stop()

    async def _settle(self, runtime: Runtime) -> None:
        """Until the step has ended and no sync is in flight."""
        runtime.step.soon()
        while runtime.step.busy:  # noqa: ASYNC110 - bounded by stop's deadline
            await asyncio.sleep(0.001)

    async def _undo_all(self) -> None:
        while self._undo:
            what, undo = self._undo.pop()
            try:
                result = undo()
                if asyncio.iscoroutine(result):
                    await result
            except Exception as error:
                events.emit(events.TASK_FAILED, task=f"stop {what}", error=error)
        if self.runtime is not None:
            await self.runtime.tasks.stop()
            self.runtime.step.stop()

    def __repr__(self) -> str:
        state = "ready" if self.ready else "stopped" if self._stopped else "starting"
        return f"<ServerNode {self.config.node_id} {state} {' '.join(map(str, self.endpoints))}>"
