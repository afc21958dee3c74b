"""One run of a process on a simulated node: the real `RaftNode` under the real `Driver`, over the real
`MetadataStore` with its log, its snapshots and `quorum-state`, all of it on a `MemoryDisk`.

Only the loop, the network and the disk's time are the simulator's.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol, Self

from barnabas.controller.image import MetadataImage
from barnabas.controller.replay import Replay
from barnabas.errors import (
    BarnabasError,
    ConfigError,
    CorruptRecordError,
    ErrorCode,
    KafkaError,
    StorageError,
    WireError,
)
from barnabas.model import Endpoint, NodeId, ReplicaKey
from barnabas.raft.core import IllegalTransition
from barnabas.raft.driver import Driver
from barnabas.raft.effects import (
    Accepted,
    ApplyEffect,
    Committed,
    Event,
    InstallSnapshot,
    LeaderChanged,
    Refused,
    Reply,
    Send,
    Stopped,
    VotersChanged,
)
from barnabas.raft.entries import Batch, Opaque, SnapshotId
from barnabas.raft.messages import (
    Answered,
    Disconnected,
    Failed,
    FetchResponse,
    FetchSnapshotResponse,
    LogStartMoved,
    Message,
    ProbeRequest,
    ProbeResponse,
    Propose,
    ReadSnapshot,
    Received,
    Request,
    Response,
    SnapshotTaken,
    Tick,
)
from barnabas.raft.node import RaftNode
from barnabas.raft.roles import Cause, Leader
from barnabas.raft.value import altered
from barnabas.raft.voters import VersionRange, VoterSet
from barnabas.server.kraft.records import metadata_of
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.kraft.snapshots import SnapshotKeeper
from barnabas.server.kraft.storage import MetadataStore
from barnabas.server.kraft.transfer import read_log, take_batches
from barnabas.server.observe.history import History
from barnabas.sim.kernel.clock import NodeClock
from barnabas.sim.kernel.disk import Crashed, Loss, MemoryDisk
from barnabas.sim.kernel.rng import SeededRandomness
from barnabas.sim.quorum.observer import Observer
from barnabas.sim.quorum.setup import Setup

__all__ = ["DIRECTORY", "Process", "ProcessHost", "ProcessWorld"]

DIRECTORY = "data"


class ProcessWorld(Protocol):
    """The world, as far as a process needs it: time, luck, the network, and somebody who is told of it all."""

    seed: int
    time: float
    rng: random.Random
    setup: Setup
    rotting: bool

    def at(self, delay: float, action: Callable[[], None]) -> None: ...
    def when(self, time: float, action: Callable[[], None]) -> None: ...
    def tell(self, node: NodeId, text: str) -> None: ...
    def alarm(self, invariant: str, text: str) -> None: ...
    def trace(self, process: Process, message: Message) -> None: ...
    def loss(self) -> Loss: ...
    def request(self, process: Process, effect: Send) -> None: ...
    def respond(self, process: Process, token: object, response: Response, data: bytes) -> None: ...


class ProcessHost(Protocol):
    """The machine, as far as a process needs it."""

    id: NodeId
    key: ReplicaKey
    run_number: int
    disk: MemoryDisk
    clock: NodeClock
    endpoints: tuple[Endpoint, ...]
    versions: VersionRange
    static: bool
    clean: bool
    apart: bool
    damaged: bool
    rotten: bool
    without_role: bool
    latency: tuple[float, float]
    process: Process | None

    @property
    def world(self) -> ProcessWorld: ...
    @property
    def invariants(self) -> Observer[Self]: ...
    def act(self, run_number: int, action: Callable[[], None]) -> None: ...
    def off(self, loss: Loss, why: str, *, reset: bool = False) -> None: ...
    def closed(self) -> None: ...


class Store(MetadataStore):
    """The real store; the observers hear of what it appends, truncates and installs."""

    owner: Process

    def append(self, batch: Batch) -> None:
        super().append(batch)
        self.owner.owner.invariants.appended(self.owner.owner, batch)

    def truncate(self, end_offset: int) -> None:
        self.owner.owner.invariants.truncating(self.owner.owner, end_offset)
        super().truncate(end_offset)

    def install_snapshot(self, effect: InstallSnapshot) -> None:
        self.owner.owner.invariants.installing(self.owner.owner, effect.snapshot)
        super().install_snapshot(effect)


class Process:
    """One run: collect, step, persist, send, apply, as `server.kraft.driver` does it in a real node."""

    def __init__(self, owner: ProcessHost) -> None:
        world = owner.world
        self.owner = owner
        self.world = world
        self.run_number = owner.run_number
        store = open_store(
            owner.disk,
            owner.clock,
            DIRECTORY,
            metadata_log_config(world.setup.segment_bytes, 1 << 40),
            cluster_id=world.setup.cluster_id,
            static_voters=world.setup.static_voters if owner.static else VoterSet.EMPTY,
            clean=owner.clean,
            kind=Store,
            can_vote=not owner.without_role if world.rotting else None,
        )
        assert isinstance(store, Store)
        self.store = store
        store.owner = self
        store.attach(self, self.receive, self.fail, on_image=self._on_image)
        self.log_view = store.log_view
        self.replay = Replay(store.image)
        history = History(owner.clock, lambda: self.replay.image, lambda: self.log_view.end_offset)
        config = altered(
            world.setup.config_of(owner.versions), can_vote=not owner.without_role, historian=history.lines
        )
        settings = QuorumSettings(
            owner.key,
            world.setup.cluster_id,
            owner.endpoints,
            config,
            retention_bytes=world.setup.retention_bytes,
            retention_ms=-1,
            snapshot_bytes=world.setup.snapshot_bytes,
            snapshot_interval=0.0,
        )
        try:
            settings.check_role(store.log_view.voters)
        except ConfigError:
            store.log.abandon()
            raise
        self.keeper = SnapshotKeeper(settings, store)
        rng = SeededRandomness(f"{world.seed}/{owner.id}/{owner.run_number}")
        now = owner.clock.now()
        self.config = config
        self.node = RaftNode(
            owner.key, owner.endpoints, config, store.log_view, store.saved, rng, now, store.found.contacts
        )
        self.driver = Driver(self.node, store, self)
        self.voters_told = store.log_view.voters
        """The set in force, as of the effects carried out so far."""
        self.active_epoch = -1
        """The epoch this node serves the controller in; -1: none."""
        self.proposals: deque[tuple[str, int, int]] = deque()
        self.published = 0
        """The high watermark, as it was told on last."""
        self.applied = store.image.offset + 1
        """Everything below it is applied."""
        self.stopping = False
        self._turning = False
        self._was_leader = False
        self._mark: tuple[object, ...] = ()
        self._armed = inf
        self.disk_free = 0.0

    def __repr__(self) -> str:
        return f"<Process {self.node!r}>"

    # The loop.

    def receive(self, message: Message) -> None:
        """Collect, and take a turn unless one is under way."""
        self.driver.receive(message)
        if not self._turning:
            self.turn(message)

    def turn(self, message: Message) -> None:
        owner, world = self.owner, self.world
        if owner.process is not self:
            return
        self._turning = True
        try:
            self.driver.run(owner.clock.now())
        except Crashed as crash:
            owner.off(world.loss(), f"power cut at: {crash}", reset=world.rng.random() < 0.5)
            return
        except StorageError as error:
            self.fail(error)
        except (IllegalTransition, KafkaError) as error:
            if owner.apart and isinstance(error, KafkaError):
                owner.off("some", f"it refuses to begin a second quorum: {error}")
                return
            if not owner.rotten:
                world.alarm("Q6" if "truncating" in str(error) else "core", f"node {owner.id}: {error}")
            self.fail(StorageError(str(error)))
        finally:
            self._turning = False
        if owner.process is not self:
            return
        world.trace(self, message)
        leads = isinstance(self.node.role, Leader)
        if leads and not self._was_leader:
            owner.invariants.led(owner)
        self._was_leader = leads
        log_view = self.log_view
        mark = (
            log_view.end_offset,
            log_view.persisted,
            log_view.cut,
            log_view.log_start,
            *log_view.snapshots[-1:],
        )
        if mark != self._mark:  # whoever listens looks at the log
            self._mark = mark
            owner.invariants.stepped(owner)
        self._arm()

    def fail(self, error: BaseException) -> None:
        """A failed disk is final: the node stops.  The files are as the last sync left them."""
        owner = self.owner
        if owner.process is not self:
            return
        if isinstance(error, Crashed):
            owner.off(self.world.loss(), f"power cut at: {error}")
            return
        if not isinstance(error, StorageError):
            raise error
        if not owner.damaged and not owner.rotten:
            self.world.alarm("S1", f"node {owner.id} stops, though nothing touched its disk: {error}")
        owner.off("some", f"disk: {error}", reset=True)

    def _arm(self) -> None:
        deadline = self.driver.next_deadline()
        if deadline == inf:
            return
        when = self.owner.clock.world_time_of(deadline) + 1e-6
        if when < self._armed:
            self._armed = when
            self.world.when(when, lambda: self.owner.act(self.run_number, lambda: self._tick(when)))

    def _tick(self, when: float) -> None:
        if when == self._armed:
            self._armed = inf
            self.receive(Tick())

    def rearm(self) -> None:
        """The clock runs differently from now on."""
        self._armed = inf
        self._arm()

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """The disk's thread: one job after the other, each takes its time (`server.kraft.storage.DiskThread`)."""
        world, owner = self.world, self.owner
        self.disk_free = max(self.disk_free, world.time) + world.rng.uniform(*owner.latency)

        def work() -> None:
            failure: BaseException | None = None
            try:
                job()
            except (Crashed, BarnabasError) as error:
                failure = error
            try:
                done(failure)
            except Crashed as crash:
                self.fail(crash)
            if failure is None and owner.process is self:
                owner.invariants.synced(owner)

        world.when(self.disk_free, lambda: owner.act(self.run_number, work))

    # Outside.

    def send(self, effect: Send) -> None:
        """Out on the network; what comes back ends it."""
        self.world.request(self, effect)

    def reply(self, effect: Reply) -> None:
        """Answer, records and pieces of snapshots filled in from the disk."""
        response = effect.response
        self.owner.invariants.replying(self.owner, response)
        data = b""
        if isinstance(response, FetchResponse) and response.read is not None:
            data = read_log(self.store.log, response.read)
            response = altered(response, read=None)
        elif isinstance(response, FetchSnapshotResponse) and response.read is not None:
            self.give_piece(effect.token, response, response.read)
            return
        self.world.respond(self, effect.token, response, data)

    def give_piece(self, token: object, response: FetchSnapshotResponse, wanted: ReadSnapshot) -> None:
        """Answer with a piece of a snapshot, once the file was checked."""

        def give(data: bytes | None) -> None:
            if self.keeper.due(self.replay.image):
                self.snapshot()
            if data is None:
                gone = altered(response, read=None, error=ErrorCode.SNAPSHOT_NOT_FOUND)
                self.world.respond(self, token, gone, b"")
            else:
                found = altered(response, read=None, data=data, length=len(data))
                self.world.respond(self, token, found, b"")

        self.store.give_piece(wanted, give)

    def heard(self, correlation: int, response: Response, data: bytes) -> None:
        """A response arrives."""
        if data and isinstance(response, FetchResponse):
            try:
                response = altered(response, batches=take_batches(data))
            except (CorruptRecordError, WireError) as error:
                self.receive(Failed(correlation, error.message))
                return
        self.receive(Answered(correlation, response))

    def asked(self, token: object, request: Request) -> None:
        """A request arrives."""
        if isinstance(request, ProbeRequest):
            versions = self.config.versions
            self.world.respond(self, token, ProbeResponse(ErrorCode.NONE, versions), b"")
        else:
            self.receive(Received(token, request))

    def apply(self, effect: ApplyEffect) -> None:
        """Take note of what was decided."""
        world, owner = self.world, self.owner
        if isinstance(effect, Committed):
            self._commit(effect.high_watermark)
        elif isinstance(effect, Accepted):
            assert isinstance(effect.token, str)
            self.proposals.append((effect.token, effect.base_offset, effect.last_offset))
        elif isinstance(effect, Refused):
            assert isinstance(effect.token, str)
            owner.invariants.refused(owner, effect.token)
        elif isinstance(effect, LeaderChanged):
            own = effect.leader_id == owner.id
            self.active_epoch = effect.epoch if own else -1
            if not own:
                self.proposals.clear()
        elif isinstance(effect, VotersChanged):
            world.tell(owner.id, f"voters {effect.voters} @{effect.offset}")
            self.voters_told = effect.voters
        elif isinstance(effect, Event):
            world.tell(owner.id, str(effect))
            if effect.name == "raft.stranger":
                owner.invariants.estranged(owner, dict(effect.fields))
            elif effect.name == "raft.role" and dict(effect.fields)["cause"] == Cause.REMOVED.name.lower():
                owner.invariants.left(owner)
        elif isinstance(effect, Stopped):
            self.store.stopping = True
            run_number = owner.run_number
            world.at(0.0, lambda: owner.act(run_number, owner.closed))

    def propose(self, write: str, records: tuple[object, ...]) -> bool:
        """The active controller appends; whether this node is it."""
        if self.active_epoch != self.node.epoch:
            return False
        self.receive(Propose(write, self.active_epoch, (Opaque(records, len(records)),)))
        return True

    def _commit(self, high_watermark: int) -> None:
        owner, replay = self.owner, self.replay
        leads = self.node.is_leader
        owner.invariants.moved(owner, high_watermark, leads)
        for batch, timestamp_ms, size in self.store.committed(high_watermark):
            self.keeper.committed(size)
            records = metadata_of(batch)
            if records:
                replay.apply(records, offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=timestamp_ms)
            else:
                replay.skip_to(batch.last_offset, batch.epoch, timestamp_ms)
            owner.invariants.committed(owner, batch)
        replay.take_delta()
        owner.invariants.applied(owner)
        while self.proposals and self.proposals[0][2] < high_watermark:
            write, offset, _ = self.proposals.popleft()
            owner.invariants.acknowledged(owner, write, offset)
        if self.keeper.due(replay.image):
            self.snapshot()

    # Snapshots.

    def snapshot(self) -> None:
        """Make a snapshot of what is committed, unless one is being made."""
        keeper, image = self.keeper, self.replay.image
        at = SnapshotId(image.offset + 1, image.epoch)
        if keeper.running or self.node.check_snapshot(at) is not None:
            return
        job = keeper.begin(image)

        def written(error: BaseException | None) -> None:
            if error is not None:
                self.fail(error)
                return
            keeper.finished()
            self.world.tell(self.owner.id, f"snapshot {job.snapshot}")
            self.receive(SnapshotTaken(job.snapshot, job.size))
            self._clean()

        self.run(job.run, written)

    def _clean(self) -> None:
        if self.owner.process is not self:
            return
        try:
            start = self.keeper.clean()
        except StorageError as error:
            self.fail(error)
            return
        except Crashed as crash:
            self.owner.off(self.world.loss(), f"power cut at: {crash}")
            return
        if start is not None:
            self.world.tell(self.owner.id, f"the log begins at {start}")
            self.receive(LogStartMoved(start))

    def _on_image(self, image: MetadataImage) -> None:
        self.replay = Replay(image)
        self.owner.invariants.installed(self.owner)

    def disconnected(self, node_id: NodeId) -> None:
        """A connection to or from that node broke."""
        self.receive(Disconnected(node_id))
