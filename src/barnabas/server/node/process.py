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
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.config import SETTINGS, Config
from barnabas.controller.decisions.features import METADATA_VERSION
from barnabas.controller.image import RESOURCE_BROKER, BrokerEndpoint
from barnabas.controller.versions import CORDONED
from barnabas.errors import BarnabasError, ConfigError, KafkaError, StorageError
from barnabas.log.segments.open_files import SEALED
from barnabas.model import BrokerEpoch, DirectoryId, Endpoint, NodeId, Offset
from barnabas.server.api.table import served_on
from barnabas.server.loop.collector import Collector
from barnabas.server.loop.loop_step import Turn
from barnabas.server.loop.runtime import Services
from barnabas.server.loop.system import (
    SystemClock,
    SystemRandomness,
    most_descriptors,
    raise_descriptor_limit,
)
from barnabas.server.loop.tasks import Tasks
from barnabas.server.net.listener import SWEEP_S, Connections, Listener, bind
from barnabas.server.net.requests import Requests
from barnabas.server.node.storage_setup import Home, open_home
from barnabas.server.observe import events

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.controller.image import ImageDelta
    from barnabas.ports import Clock, Disk, Randomness
    from barnabas.server.net.http import HttpServer
    from barnabas.server.net.platform import Machine
    from barnabas.server.replication.lifecycle import BrokerLifecycle
    from barnabas.server.replication.previous_epoch import LastLife
    from barnabas.server.replication.replica_fetcher import Fetchers

__all__ = ["Node", "loop_factory", "run"]

LINGER = 0.3
"""Seconds for which a node goes on telling clients who leads now, after it has handed everything over."""
PLAINTEXT = 0
"""Security protocol of every listener of this release."""


class Node:
    """`async with Node(config) as node: node.address` runs a node inside your event loop.

    `format_new`: format directories that are new (default: only where the configuration names no roles).
    """

    def __init__(
        self,
        config: Config,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Randomness | None = None,
        machine: Machine | None = None,
        format_new: bool | None = None,
    ) -> None:
        self.config = config
        self._disk = disk
        self._clock = clock or SystemClock()
        self._random = random or SystemRandomness()
        self._machine = machine
        self._format_new = config.zero_config if format_new is None else format_new
        self._undo: list[tuple[str, Callable[[], Any]]] = []
        self.services: Services
        self.home: Home
        self.connections: Connections
        self.listeners: list[Listener] = []
        self.failure: BaseException | None = None
        self.failed = asyncio.Event()
        self.ready = False
        self._lifecycle: BrokerLifecycle | None = None
        self._fetchers: Fetchers | None = None
        self._last_life: LastLife
        self._http: HttpServer | None = None
        self._stopped = False
        self._hosting = True
        """Whether the broker follows the metadata: until it serves nobody any more."""

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
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every listener with the port it really has."""
        return tuple(listener.endpoint for listener in self.listeners)

    async def __aenter__(self) -> Node:
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
        config = self.config
        loop = asyncio.get_running_loop()
        node = self.services = Services(config, loop, self._clock, self._random, self._machine)
        node.tasks = Tasks(loop, self.fail)
        events.emit(events.NODE_STARTING, node=config.node_id, roles=",".join(sorted(config.roles)))
        node.turn = Turn(node)
        node.turn.on_fatal = self.fail
        self.connections = Connections(node)
        self._bind_listeners(node)
        disk = self._disk
        if disk is None:
            from barnabas.log.storage.disk import OsDisk

            disk = OsDisk()
        controller = next((x.endpoint for x in self.listeners if x.kind == "C"), None)
        self.home = await open_home(
            config,
            disk,
            self._clock,
            self._random,
            controller=controller,
            format_new=self._format_new,
            run=node.machine.run_aside,
        )
        self._undo.append(("the directories", self.home.abandon))
        await self._start_quorum(node, disk)
        if "broker" in config.roles:
            await self._start_broker(node, disk)
        await self._start_http(node)
        node.tasks.start(self._sweep(), "sweep")
        if node.deaths is not None:
            node.tasks.start(node.deaths.watch(), "deaths")
        node.turn.start()
        self.ready = node.applier.serving = True
        events.emit(
            events.NODE_STARTED,
            node=config.node_id,
            cluster=self.home.cluster_id,
            listeners=",".join(str(listener.endpoint) for listener in self.listeners),
            acknowledges="after sync" if config.log_config().sync_before_ack else "from page cache",
        )

    def _bind_listeners(self, node: Services) -> None:
        config = self.config
        advertised = {endpoint.listener for endpoint in config.advertised_listeners}
        for kind, endpoints in (("C", config.controller_listeners), ("B", config.listeners)):
            if not endpoints:
                continue
            requests = Requests(node, served_on(kind))
            for endpoint in endpoints:
                listener = Listener(
                    node,
                    self.connections,
                    requests,
                    endpoint,
                    kind,
                    advertised=endpoint.listener in advertised,
                )
                self.listeners.append(listener)
                self._undo.append((f"listener {listener.name}", listener.stop_accepting))
        if (where := config.optional_str("barnabas.http.listener")) is not None:
            from barnabas.server.net.http import HttpServer

            host, _, port = where.rpartition(":")
            bound = bind(Endpoint("HTTP", host, int(port)), 16)
            self._http = HttpServer(bound, node.metrics, self.not_ready)
            self._undo.append(("HTTP", bound.close))

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

    async def _start_quorum(self, node: Services, disk: Disk) -> None:
        from barnabas.server.api.metadata import TopicAnswers
        from barnabas.server.kraft.driver import Quorum
        from barnabas.server.kraft.proposals import STEPS
        from barnabas.server.kraft.settings import QuorumSettings
        from barnabas.server.node.quorum_gauges import register_quorum_gauges

        settings = QuorumSettings.of(
            self.config,
            cluster_id=self.home.cluster_id,
            directory_id=self.home.directory_id,
            endpoints=self._advertised("C"),
        )
        quorum = Quorum(
            settings,
            self.config,
            disk=disk,
            clock=self._clock,
            random=self._random,
            directory=self.config.metadata_log_dir,
            on_fatal=self.fail,
            clean=self.home.metadata.was_clean,
            steps=min(STEPS, node.machine.slice_steps),
        )
        node.quorum = quorum
        quorum.on_step = lambda seconds: node.turn.note("the quorum", seconds)
        self._undo.append(("the quorum", quorum.stop))
        await quorum.open()
        register_quorum_gauges(node.metrics, quorum)
        for listener in self.listeners:
            if listener.kind == "C":
                await listener.start()
        if "controller" in self.config.roles and self.config.bool("barnabas.fast.fencing"):
            from barnabas.server.replication.fast_fencing import Deaths

            node.deaths = Deaths(node)
            quorum.on_leader = node.deaths.look
        await quorum.start()
        node.metadata = TopicAnswers(quorum.image)

    async def _start_broker(self, node: Services, disk: Disk) -> None:
        from barnabas.broker.groups.coordinator import Groups
        from barnabas.broker.replicas.broker import Broker
        from barnabas.server.node.gauges import register_gauges
        from barnabas.server.replication.host import NodeOutside
        from barnabas.server.replication.lifecycle import BrokerLifecycle, LifecycleSettings
        from barnabas.server.replication.previous_epoch import LastLife
        from barnabas.server.replication.probes import Probes
        from barnabas.server.replication.replica_fetcher import Fetchers

        if unknown := self.home.logs.cordon(self.config.list("cordoned.log.dirs")):
            raise ConfigError(
                f"cordoned.log.dirs names {', '.join(unknown)}, which is not among log.dirs",
                next_step="name directories as log.dirs has them, or * for all of them",
            )
        outside = NodeOutside(node, self.home.logs, self.config.metadata_log_dir, self.fail)
        broker = Broker(
            self.config,
            node.node_id,
            self.home.logs,
            node.quorum.image,
            outside=outside,
            random=self._random,
            authorizer=node.authorizer,
        )
        groups = Groups(self.config, self._random, broker)
        quorum = node.quorum
        self._last_life = LastLife(disk, self.home.logs.directories)
        settings = LifecycleSettings.of(
            self.config,
            cluster_id=self.home.cluster_id,
            listeners=[BrokerEndpoint(e.listener, e.host, e.port, PLAINTEXT) for e in self._advertised("B")],
            directories=[directory.directory_id for directory in self.home.logs.online()],
            previous_epoch=self._last_life.epoch(),
        )
        lifecycle = self._lifecycle = BrokerLifecycle(
            quorum.request, settings, metadata_offset=self._applied_offset, random=self._random
        )
        lifecycle.on_registered = self._remember
        lifecycle.cordoned = self._cordoned
        self._undo.append(("the heartbeats", lifecycle.abandon))
        outside.lifecycle = lifecycle
        await quorum.replayed(await lifecycle.register())
        node.broker, node.groups = broker, groups
        outside.fetchers = self._fetchers = Fetchers(node, self._inter_broker_listener())
        self._undo.append(("the fetchers", self._fetchers.stop))
        probes = Probes(node, self._inter_broker_listener())
        self._undo.append(("the probes", probes.stop))
        node.doubts.ask = probes.ask
        self._reconfigure(node)
        broker.begin(self._clock.now())
        node.quorum.on_change(self._metadata_changed)
        node.applier.soon()
        await node.applier.applied()
        if not self._all_is_synced():
            self._last_life.remember(lifecycle.epoch, synced=False)
        register_gauges(node, self.home.logs)
        await lifecycle.unfence()
        for listener in self.listeners:
            if listener.kind == "B":
                await listener.start()
        node.turn.soon()

    def _remember(self, epoch: BrokerEpoch) -> None:
        """This broker is registered under a new epoch, and not in sync anywhere yet."""
        self._last_life.remember(epoch, synced=self._all_is_synced())

    def _all_is_synced(self) -> bool:
        from barnabas.server.replication.previous_epoch import everything_is_synced

        return everything_is_synced(self.config, self.services.quorum.image, self.config.node_id)

    def _applied_offset(self) -> Offset:
        """Up to where this node is what the metadata say."""
        node = self.services
        broker: Broker | None = node.broker
        return node.quorum.image.offset if broker is None else broker.applied_offset

    def _cordoned(self) -> list[DirectoryId] | None:
        """The directories that take no new replicas; None where the controllers know no such thing."""
        if self.services.quorum.image.feature(METADATA_VERSION) < CORDONED:
            return None
        return sorted(one.directory_id for one in self.home.logs.directories if one.cordoned)

    def _inter_broker_listener(self) -> str:
        """The name of the listener by which brokers reach each other."""
        named = self.config.optional_str("inter.broker.listener.name")
        return named or next(listener.name for listener in self.listeners if listener.kind == "B")

    def _metadata_changed(self, delta: ImageDelta) -> None:
        """A commit was replayed: everything that depends on the metadata follows."""
        node, now = self.services, self._clock.now()
        node.metadata.changed(delta)
        node.doubts.changed(delta)
        if node.broker is not None and self._hosting:
            if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
                self._reconfigure(node)
            if delta.configs and self._lifecycle is not None and not self._all_is_synced():
                self._last_life.remember(self._lifecycle.epoch, synced=False)
            node.applier.changed(delta)
            if self._lifecycle is not None:
                self._lifecycle.metadata_changed(delta)
            if self._lifecycle is not None and _somebody_leaves(delta, node.node_id):
                node.applier.then(self._lifecycle.report_soon)
            for topic in delta.topics_deleted.values():
                node.groups.topic_deleted(topic.name, topic.id, now)

    def _reconfigure(self, node: Services) -> None:
        """Take over the settings that were changed at run time, for all brokers or for this one."""
        image = node.quorum.image
        changes = {**image.cluster_config(), **image.broker_config(node.node_id)}
        known = {name: v for name, v in changes.items() if name in SETTINGS}
        if known or node.config is not self.config:
            try:
                node.config = self.config.with_changes(known)
            except ConfigError as error:  # set by an older or newer controller
                events.emit(events.SETTING_REFUSED, error=error)
                return
            before = self._cordoned()
            node.broker.reconfigure(node.config)
            if self._lifecycle is not None and self._cordoned() != before:
                self._lifecycle.report_soon()
            self.connections.reconfigure(node.config)

    async def _start_http(self, node: Services) -> None:
        if self._http is not None:
            await self._http.start()
            self._undo.append(("HTTP", self._http.stop))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.connections.sweep(self.services.memory.short)
            self.services.memory.relieve()
            self.services.controller_memory.relieve()

    # -- running --

    def not_ready(self) -> str | None:
        """Why this node is not ready to serve, or None."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        if not self.ready:
            return "starting or stopping"
        if self.services.quorum.leader_id < 0:
            return "the quorum has no leader"
        if offline := self.home.logs.missing():
            return f"log directories are offline: {', '.join(offline)}"
        broker = self.services.broker
        known = broker.space.known if broker is not None else {}
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
                await self._stop_serving()
                await self.services.quorum.stop()
                for connection in list(self.connections.opened.values()):
                    connection.abort()
                self._undo = [item for item in self._undo if item[0] not in ("the quorum", "the directories")]
                if self.failure is None or not isinstance(self.failure, StorageError):
                    epoch = self._lifecycle.epoch if self._lifecycle is not None else -1
                    self.home.close(self._clock, epoch, self.services.machine.run_syncs)
                else:
                    self.home.abandon()
        except TimeoutError:
            events.emit(events.NODE_STOP_LATE, seconds=seconds)
            self.failure = self.failure or StorageError(f"the stop took longer than {seconds:g} s")
        except BarnabasError as error:
            self.fail(error)
        finally:
            await self._undo_all()
        events.emit(events.NODE_STOPPED, node=self.config.node_id)

    async def _stop_serving(self) -> None:
        node = self.services
        image = node.quorum.image
        if self._lifecycle is not None and self.failure is None and len(image.alive_brokers()) > 1:
            with suppress(KafkaError):  # others take over while this node still serves
                await self._lifecycle.leave()
                await asyncio.sleep(LINGER)
        self._hosting = False
        node.applier.stop()
        for listener in self.listeners:
            if listener.kind == "B":
                listener.stop_accepting()
        opened = [c for c in self.connections.opened.values() if c.listener.kind == "B"]
        for connection in opened:
            connection.stop_reading()
        if self._lifecycle is not None and self.failure is None:
            with suppress(KafkaError):
                await self._lifecycle.leave()
        if self._fetchers is not None:
            self._fetchers.stop()
        if node.broker is not None:
            node.broker.upkeep.stop()
            await self._settle(node)
            now = self._clock.now()
            node.groups.stop(now)
            for sync in node.broker.stop(now):
                node.turn.sync(sync)
            await self._settle(node)
        while any(connection.busy for connection in opened):  # noqa: ASYNC110 - bounded by stop's deadline
            await asyncio.sleep(0.001)
        for connection in opened:
            connection.abort()
        await node.tasks.stop()
        node.turn.stop()

    async def _settle(self, node: Services) -> None:
        """Until the turn has ended and no sync is in flight."""
        node.turn.soon()
        while node.turn.busy:  # noqa: ASYNC110 - bounded by stop's deadline
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
        if hasattr(self, "services"):
            await self.services.tasks.stop()
            self.services.turn.stop()

    def __repr__(self) -> str:
        state = "ready" if self.ready else "stopped" if self._stopped else "starting"
        return f"<Node {self.config.node_id} {state} {' '.join(map(str, self.endpoints))}>"


def _somebody_leaves(delta: ImageDelta, but: NodeId) -> bool:
    """Whether a broker on its way out was touched: it may go when all others have replayed what moved."""
    brokers = delta.image.brokers
    return any(
        id_ != but and (broker := brokers.get(id_)) is not None and broker.in_controlled_shutdown
        for id_ in delta.brokers
    )


def loop_factory(config: Config) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of `barnabas.loop`, or of BARNABAS_LOOP in the environment.  None: asyncio's own."""
    wanted = os.environ.get("BARNABAS_LOOP") or config.str("barnabas.loop")
    if wanted == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if wanted == "uvloop":
            raise BarnabasError(
                "uvloop is not installed", next_step="pip install uvloop, or set barnabas.loop=asyncio"
            ) from None
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def run(
    config: Config,
    *,
    format_new: bool | None = None,
    on_ready: Callable[[Node], object] | None = None,
) -> int:
    """Run a node until a signal.  Returns the exit code: 0 stopped cleanly, 1 failed while running.

    Raises BarnabasError, with the next step, when it cannot start.  `on_ready` is called once clients are
    served.  A second signal ends the process at once with 128 plus its number.
    """
    events.configure(config.str("barnabas.events.format"), config.str("barnabas.events.level"))
    raise_descriptor_limit()
    SEALED.allow(most_descriptors())
    with asyncio.Runner(loop_factory=loop_factory(config)) as runner:
        return runner.run(_run(config, format_new, on_ready))


async def _run(config: Config, format_new: bool | None, on_ready: Callable[[Node], object] | None) -> int:
    collector = Collector()
    collector.install()
    node = Node(config, format_new=format_new)
    told = asyncio.Event()

    def signalled(number: int) -> None:
        if told.is_set():
            os._exit(128 + number)
        told.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_loop_failed)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number)
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(told.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    starting.result()
    collector.settle()
    if on_ready is not None:
        on_ready(node)
    failing = asyncio.ensure_future(node.failed.wait())
    await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
    for waiting in (stopping, failing):
        waiting.cancel()
    await node.stop()
    return 0 if node.failure is None else 1


def _loop_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the event loop could not do for us; it tries again to accept connections after a second."""
    error = context.get("exception")
    if isinstance(error, OSError) and "accept" in context.get("message", ""):
        events.emit(events.ACCEPT_FAILED, error=error)
    else:
        loop.default_exception_handler(context)
