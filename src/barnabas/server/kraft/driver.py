"""A node's part in the quorum: drives raft/ over disk and network, and the controller over raft/.

Whatever happens, the same loop runs: collect, step, persist, send, apply (`raft.driver`).  Around it:

* requests to the controller are decided on the leading image, proposed, and answered once committed;
* committed batches go through `controller.replay` into the image that the rest of the node reads, then to
  everybody who asked to hear of changes, and only then do the answers leave;
* other controllers are asked through `quorum_peers`, and asked us through `handle`; both ways
  `quorum_wire` says what a message means;
* timers come from `next_deadline()`, syncs run in one thread of their own, the loop never waits for a disk.

A voter, a controller that is none yet, and a broker (which follows for good) run the same code.  A failed
write or sync is final: the node stops, with what to do next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING

from barnabas.config import Config
from barnabas.controller.controller import Controller
from barnabas.controller.decisions.features import METADATA_VERSION
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.controller.replay import Replay
from barnabas.controller.versions import LATEST
from barnabas.errors import BarnabasError, ErrorCode, KafkaError, StorageError
from barnabas.log.storage.removal import Removal
from barnabas.model import NO_NODE, Endpoint, Epoch, NodeId, Offset
from barnabas.ports import Clock, Disk, Randomness
from barnabas.raft import messages
from barnabas.raft.describe import Description
from barnabas.raft.driver import Driver
from barnabas.raft.effects import (
    Accepted,
    ApplyEffect,
    Committed,
    Event,
    KraftVersionChanged,
    LeaderChanged,
    Refused,
    Reply,
    Send,
    Stopped,
    VotersChanged,
)
from barnabas.raft.entries import Opaque, SnapshotId
from barnabas.raft.messages import (
    Propose,
    Received,
    Request,
    Response,
    Shutdown,
    Started,
    Tick,
)
from barnabas.raft.node import RaftNode
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft import quorum_events
from barnabas.server.kraft.proposals import STEPS, Requests, Submission
from barnabas.server.kraft.quorum_events import tell
from barnabas.server.kraft.records import BOOTSTRAP, metadata_of, read_snapshot
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.registration import Registration, warn_of_other_disk
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.kraft.snapshots import SnapshotKeeper
from barnabas.server.kraft.storage import MetadataStore, QuorumStatistics
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.metadata import NoOpRecord

if TYPE_CHECKING:
    from barnabas.server.kraft.calls import Caller
    from barnabas.server.kraft.controller_channel import ControllerChannel
    from barnabas.server.kraft.peers import Peers
    from barnabas.server.net.context import RequestContext

__all__ = ["Quorum", "QuorumStatistics"]

_CLEAN_EVERY = 60.0
_UPKEEP = 1.0
"""Seconds between two looks of a node that is not active."""


class Quorum:
    """One node's part in the quorum.  `await start()`, read `image`, `submit` requests, `stop()`."""

    def __init__(
        self,
        settings: QuorumSettings,
        config: Config,
        *,
        disk: Disk,
        clock: Clock,
        random: Randomness,
        directory: str,
        on_fatal: Callable[[BarnabasError], None],
        on_step: Callable[[float], None],
        clean: bool = False,
        steps: int = STEPS,
    ) -> None:
        """`on_step` hears the seconds that each step took; `clean`: the last stop was clean (it left a marker)."""
        self.settings = settings
        self.config = config
        self.directory = directory
        self.failed: BarnabasError | None = None
        self._clean_before = clean
        self._disk = disk
        self._clock = clock
        self._random = random
        self._on_fatal = on_fatal
        self._on_step = on_step
        self._leader_callbacks: list[Callable[[], None]] = []
        self.registration: Registration | None = None
        if settings.raft.can_vote:
            self.registration = Registration(settings.key.id, settings.endpoints, random)
        self._replay = Replay(MetadataImage(settings.cluster_id))
        self._requests = Requests(steps)
        self._callbacks: list[Callable[[ImageDelta], None]] = []
        self._last_append = 0.0
        self._last_clean = 0.0
        self._turning = False
        self._again = False
        self._resuming = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._upkeep_timer: asyncio.TimerHandle | None = None
        self._peers: Peers | None = None
        self._channel: ControllerChannel | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="quorum-disk")
        self._loop: asyncio.AbstractEventLoop
        self._store: MetadataStore
        self._order: Driver
        self._snapshots: SnapshotKeeper
        self._ready: asyncio.Future[None]
        self._catching_up: list[tuple[Offset, asyncio.Future[None]]] = []
        self._stopped: asyncio.Future[None]

    def __repr__(self) -> str:
        node = repr(self._order.node) if hasattr(self, "_order") else "not started"
        return f"<Quorum {node} applied={self.image.offset}>"

    # What the rest of the node reads.

    @property
    def image(self) -> MetadataImage:
        """Everything committed.  It changes in place, between two turns of the loop."""
        return self._replay.image

    @property
    def is_active_controller(self) -> bool:
        """Whether requests to the controller are decided here."""
        return self._requests.controller is not None

    @property
    def leader_id(self) -> NodeId:
        """The leader of the quorum, -1 while unknown."""
        leader = self._order.node.leader_id
        return NO_NODE if leader is None else leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listens, None while it is unknown."""
        for endpoint in self._order.node.leader_endpoints:
            if endpoint.listener == self.settings.raft.listener:
                return endpoint
        return None

    @property
    def epoch(self) -> Epoch:
        """The quorum's epoch."""
        return self._order.node.epoch

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 1 when voters can change at run time."""
        return self._order.node.kraft_version

    @property
    def voters(self) -> VoterSet:
        """The voters, the newest set, committed or not."""
        return self._order.node.voters

    @property
    def high_watermark(self) -> Offset:
        """Everything below it is committed."""
        return self._requests.high_watermark

    def on_change(self, callback: Callable[[ImageDelta], None]) -> None:
        """Call `callback` after each commit that changed something a reader can see.

        It runs on the loop, before the requests that caused the change are answered.
        """
        self._callbacks.append(callback)

    def on_leader(self, callback: Callable[[], None]) -> None:
        """Call `callback` soon after another node, or this one, has begun to lead."""
        self._leader_callbacks.append(callback)

    def describe(self) -> Description:
        """The quorum as this node sees it; only a leader knows the replicas."""
        return self._order.node.describe(self._clock.now())

    def statistics(self) -> QuorumStatistics:
        """A reading for metrics."""
        return QuorumStatistics(
            self._order.node.statistics(),
            self._store.statistics(),
            self.image.offset,
            len(self._requests),
            self._snapshots.taken,
        )

    # Start and stop.

    async def open(self) -> None:
        """Recover what is on disk; from then on `handle` and `describe` answer.

        Raises StorageError (the metadata cannot be trusted) or ConfigError (nobody to ask).
        """
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()
        self._stopped = self._loop.create_future()
        settings = self.settings
        try:
            store = await self._loop.run_in_executor(self._pool, self._open)
        except BaseException:
            self._pool.shutdown(wait=False)
            raise
        now = self._clock.now()
        self._store = store
        store.reserve.size, self._requests.reserve = settings.reserve_bytes, store.reserve
        store.attach(self, self._receive, self._fail)
        store.metadata_version = lambda: self._leading_image.feature(METADATA_VERSION) or LATEST
        store.on_image = self._image_replaced
        self._replay = Replay(store.image)
        self._last_append = self._last_clean = now.mono
        self._snapshots = SnapshotKeeper(settings, store)
        node = RaftNode(
            settings.key, settings.endpoints, settings.raft, store.log_view, store.saved, self._random, now
        )
        self._order = Driver(node, store, self)
        if cut := store.log.recovery.bytes_cut:
            events.emit(
                quorum_events.CUT, bytes=cut, at=store.log.recovery.cut_at, reason=store.log.recovery.reason
            )
        events.emit(
            quorum_events.RECOVERED,
            start=store.log.log_start_offset,
            end=store.log.log_end_offset,
            voters=_names(store.log_view.voters),
        )
        try:
            settings.check_reachable(store.log_view.voters, self.directory)
        except BaseException:
            await self.stop()
            raise

    async def start(self) -> None:
        """Take part: elect or find a leader, register; returns once the image is there and knows us.

        That may take as long as there is no majority of voters.  Raises what `open` raises.
        """
        if not hasattr(self, "_order"):
            await self.open()
        try:
            self._receive(Started())
            self._upkeep()
            if not self._ready.done() and self.leader_id == NO_NODE:
                bootstrap = ",".join(f"{e.host}:{e.port}" for e in self.settings.raft.bootstrap)
                events.emit(quorum_events.WAITS, voters=_names(self.voters), bootstrap=bootstrap)
            await self._ready
        except BaseException:
            await self.stop()
            raise

    def _open(self) -> MetadataStore:
        settings = self.settings
        return open_store(
            self._disk,
            self._clock,
            self.directory,
            metadata_log_config(settings.segment_bytes, settings.segment_ms),
            cluster_id=settings.cluster_id,
            static_voters=settings.static_voters,
            clean=self._clean_before,
        )

    async def stop(self, patience: float = 2.0) -> None:
        """Leave the quorum cleanly (within `patience` seconds), make everything durable, close the files.

        Requests that wait fail with NOT_CONTROLLER.  Safe to call again, and after a failure.
        """
        if self._closed or not hasattr(self, "_order"):
            self._pool.shutdown(wait=False)
            return
        self._closed = True
        if self.registration is not None:
            self.registration.stop()
        if self._channel is not None:
            await self._channel.close()
        if self.failed is None:
            self._receive(Shutdown(patience))
            with contextlib.suppress(TimeoutError):  # it stops all the same; its peers' timers notice
                await asyncio.wait_for(asyncio.shield(self._stopped), patience)
        self._cancel_timers()
        if self._peers is not None:
            await self._peers.close()
        self._requests.refuse_all(KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is stopping"))
        await self._loop.run_in_executor(self._pool, int)  # does nothing; lets the syncs before it end
        if self.failed is None:
            await self._loop.run_in_executor(self._pool, self._store.close)
        else:
            self._store.log.abandon()
        self._pool.shutdown(wait=False)

    # Requests to the controller.

    def submit(self, request: Message, version: int | None = None) -> asyncio.Future[Message]:
        """Decide a request, and answer it once what it changes is committed.

        The future raises KafkaError: NOT_CONTROLLER when this node is not, or no longer, the active
        controller (what was asked may then happen or not), else what the request was refused with.
        `version` is the request's, for the shape of its answer; without one the newest.
        """
        if version is None:
            version = request.VERSIONS[1]
        future: asyncio.Future[Message] = self._loop.create_future()
        if self._closed or self.failed is not None:
            future.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is stopping"))
            return future
        self._requests.add(Submission(request, version, future))
        self._pump()
        return future

    @property
    def channel(self) -> ControllerChannel:
        """The way to the active controller, from any node."""
        if self._channel is None:
            from barnabas.server.kraft.controller_channel import (
                ControllerChannel,  # not needed by a node alone
            )

            self._channel = ControllerChannel(self, self.config.int("request.timeout.ms") / 1000)
        return self._channel

    def request(self, request: Message) -> asyncio.Future[Message]:
        """A request of this node for the active controller, here or elsewhere; as `submit`."""
        if self.is_active_controller:
            return self.submit(request)
        return self.channel.submit(request)

    async def replayed(self, offset: Offset) -> None:
        """Wait until everything up to `offset` is in the image."""
        if self.image.offset < offset:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._catching_up.append((offset, waiter))
            await waiter

    # Requests of peers and operators to the quorum itself.

    def handle(self, context: RequestContext, request: Message) -> asyncio.Future[Message]:
        """A request for the quorum: of a peer (Vote, Fetch, ...) or an operator (AddRaftVoter, ...).

        Raises KafkaError for what is not about the metadata partition, and while this node stops.
        """
        from barnabas.server.kraft.calls import Caller

        if self.failed is not None or not hasattr(self, "_order"):
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this controller does not run")
        caller = Caller(self._loop.create_future(), request, context.version, self.settings.raft.listener)
        self._receive(Received(caller, caller.asked()))
        return caller.future

    def change(self, request: Request) -> asyncio.Future[Response]:
        """A wish about the quorum that comes from this node itself; the core's answer."""
        future: asyncio.Future[Response] = self._loop.create_future()
        self._receive(Received(future, request))
        return future

    def _append_own(self, records: list[MetadataRecord]) -> None:
        """Append records that nobody asked for."""
        self._requests.add_records(records)
        self._pump()

    def _decide_next(self) -> None:
        now = self._clock.now()
        decided = self._requests.decide_next(self._store.log_view.end_offset, self.epoch, now)
        if decided is not None:
            entry = Opaque(decided.payload, len(decided.payload))
            self._order.receive(Propose(decided, self.epoch, (entry,)))
            self._order.turn(now)

    @property
    def _leading_image(self) -> MetadataImage:
        controller = self._requests.controller
        return self.image if controller is None else controller.image

    # The loop around raft.driver.

    def _receive(self, message: messages.Message) -> None:
        if self.failed is None:
            self._order.receive(message)
            self._pump()

    def _pump(self) -> None:
        """Take turns until nothing is left to do; called from inside a turn it only asks for another."""
        if self._turning:
            self._again = True
            return
        self._turning = True
        self._requests.begin_turn()
        begun = self._clock.now().mono
        try:
            self._again = True
            while self._again and self.failed is None:
                self._again = False
                self._order.turn(self._clock.now())
                while self._requests.waiting and self.failed is None:
                    self._decide_next()
        except Exception as error:  # whatever it is, an image or a log half changed must not be served
            self._fail(error)
        finally:
            self._turning = False
        self._on_step(self._clock.now().mono - begun)
        if self._requests.resting and not self._resuming:
            self._resuming = True
            self._loop.call_soon(self._guarded, self._go_on)
        self._arm()

    def _go_on(self) -> None:
        """A decision about many partitions has its next turn."""
        self._resuming = self._requests.resting = False
        if not self._closed:
            self._pump()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.failed is not None or self._closed:
            return
        deadline = self._order.next_deadline()
        if deadline < inf:
            delay = max(0.0, deadline - self._clock.now().mono)
            self._timer = self._loop.call_later(delay, self._receive, Tick())

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a job in the disk thread, then `done(error)` on the loop (`quorum_store.DiskThread`)."""
        future = self._loop.run_in_executor(self._pool, job)
        future.add_done_callback(lambda ended: self._guarded(done, ended.exception()))

    def _guarded(self, step: Callable[..., None], *arguments: object) -> None:
        """A step that the loop calls: what goes wrong in it is the node's end, else nobody hears of it."""
        try:
            step(*arguments)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """The end: retry nothing, tell every waiting caller, stop the node."""
        if self.failed is not None:
            return
        events.emit(quorum_events.FAILED, error=error, directory=self.directory)
        if not isinstance(error, BarnabasError):
            error = StorageError(f"the metadata cannot go on: {error!r}", directory=self.directory)
        error.fatal = True
        self.failed = error
        self._cancel_timers()
        self._requests.refuse_all(
            KafkaError(ErrorCode.NOT_CONTROLLER, f"this controller has failed: {error.message}")
        )
        if self._ready.done():
            self._on_fatal(error)
        else:
            self._ready.set_exception(error)

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._upkeep_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._upkeep_timer = None

    # What raft asks of us (`raft.driver.Outputs`).

    def send(self, effect: Send) -> None:
        """Ask another node."""
        if self._peers is None:
            from barnabas.server.kraft.peers import Peers  # not needed by a node alone

            raft = self.settings.raft
            self._peers = Peers(
                self.settings.key.id, raft.listener, raft.request_timeout, self._random, self._receive
            )
        self._peers.send(effect)

    def reply(self, effect: Reply) -> None:
        """Answer the sender; records and pieces of snapshots are read now."""
        token: Caller | asyncio.Future[Response] = effect.token  # type: ignore[assignment]
        if not isinstance(token, asyncio.Future):
            token.answer(effect.response, self._store)
        elif not token.done():
            token.set_result(effect.response)

    def apply(self, effect: ApplyEffect) -> None:
        """Take note of what was decided."""
        if isinstance(effect, Committed):
            self._commit(effect.high_watermark)
        elif isinstance(effect, Accepted):
            now = self._clock.now()
            self._last_append = now.mono
            self._requests.accepted(effect, now)
        elif isinstance(effect, Refused):
            assert isinstance(effect.token, Submission)
            effect.token.refuse(KafkaError(ErrorCode.NOT_CONTROLLER, effect.message))
        elif isinstance(effect, LeaderChanged):
            self._leader_changed(effect)
        elif isinstance(effect, VotersChanged):
            events.emit(quorum_events.VOTERS, voters=_names(effect.voters), offset=effect.offset)
            if self.registration is not None:
                warn_of_other_disk(self.settings.key, effect.voters)
        elif isinstance(effect, KraftVersionChanged):
            events.emit(quorum_events.STEP, what="kraft.version", version=effect.version)
        elif isinstance(effect, Event):
            tell(effect)
        elif isinstance(effect, Stopped) and not self._stopped.done():
            self._store.stopping = True
            self._stopped.set_result(None)

    def _commit(self, high_watermark: Offset) -> None:
        """Replay what is committed by now, tell the listeners, then answer the waiting requests."""
        self._requests.high_watermark = high_watermark
        replay = self._replay
        for batch, timestamp_ms, size in self._store.committed(high_watermark):
            self._snapshots.committed(size)
            records = metadata_of(batch)
            if records:
                replay.apply(records, offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=timestamp_ms)
            else:
                replay.skip_to(batch.last_offset, batch.epoch, timestamp_ms)
        self._tell(replay.take_delta())
        self._requests.committed(high_watermark)
        self._progress()

    def _tell(self, delta: ImageDelta) -> None:
        if delta.empty:
            return
        for callback in self._callbacks:
            callback(delta)
        if self.registration is not None and self.settings.key.id in delta.controllers:
            self.registration.look(self.image)

    def _progress(self) -> None:
        """More is committed, or a leader is known: callers that wait for that may continue."""
        if self._catching_up:
            reached, waiting = self.image.offset, self._catching_up
            self._catching_up = [(offset, waiter) for offset, waiter in waiting if offset > reached]
            for offset, waiter in waiting:
                if offset <= reached and not waiter.done():
                    waiter.set_result(None)
        node = self._order.node
        if self._ready.done() or node.leader_id is None or not node.high_watermark:
            return
        if self.registration is None or self.registration.done(self.image):
            self._ready.set_result(None)

    def _image_replaced(self, image: MetadataImage) -> None:
        """A snapshot of the leader replaced the log: the image jumps."""
        from barnabas.server.kraft.difference import replace_image  # rarely needed

        committed = self.image
        delta = replace_image(committed, image)
        self._store.image = committed
        self._replay = Replay(committed)
        self._tell(delta)

    def _leader_changed(self, effect: LeaderChanged) -> None:
        self._loop.call_soon(self._tell_leader)
        if self._channel is not None:
            self._channel.leader_moved()
        if effect.leader_id != self.settings.key.id:
            error = KafkaError(ErrorCode.NOT_CONTROLLER, "this node is no longer the active controller")
            self._requests.refuse_all(error)
            leader = NO_NODE if effect.leader_id is None else effect.leader_id
            events.emit(quorum_events.LEADER, epoch=effect.epoch, leader=leader)
            if leader != NO_NODE and self.registration is not None and not self._closed:
                self.registration.begin(self.request, lambda: self.image)
            self._progress()
            return
        now = self._clock.now()
        controller = Controller(self.config, self._random, self._replay, now, lambda: self.voters.ids)
        self._requests.controller = controller
        events.emit(quorum_events.ACTIVE, epoch=effect.epoch, offset=self.image.offset)
        first = controller.first_records(self._bootstrap_records())
        if first:
            self._append_own(first)
        if self.registration is not None and not self.registration.done(self.image):
            self._requests.add(Submission(self.registration.request()))
            self._pump()
        self._upkeep()

    def _tell_leader(self) -> None:
        for callback in self._leader_callbacks:
            callback()

    def _bootstrap_records(self) -> list[MetadataRecord]:
        """What `storage format` left for the first active controller."""
        path = f"{self.directory}/{BOOTSTRAP}"
        if self.image.features or not self._disk.exists(path):
            return []
        return read_snapshot(self._disk.read(path)).records

    # Now and then.

    def _upkeep(self) -> None:
        """Keep the log short; while active, fence silent brokers and show that we are alive."""
        if self._upkeep_timer is not None:
            self._upkeep_timer.cancel()
        if self.failed is not None or self._closed:
            return
        controller, settings = self._requests.controller, self.settings
        now = self._clock.now()
        delay = _UPKEEP
        if controller is not None:
            if controller.is_due(now):
                self._requests.add_due()
                self._pump()
            if self._idle_record_due(now.mono):
                self._append_own([NoOpRecord()])
            delay = settings.session_timeout / 8
            if settings.idle_interval > 0 and not self._alone:
                delay = min(delay, settings.idle_interval)
        self._store.keep_reserve()
        self._keep_snapshots(now.mono)
        self._upkeep_timer = self._loop.call_later(delay, self._guarded, self._upkeep)

    @property
    def _alone(self) -> bool:
        """Whether nobody but this node reads the log (and nobody asked for idle records all the same)."""
        raft = self._order.node.statistics()
        return raft.voters == 1 and not raft.observers and not self.settings.idle_when_alone

    def _idle_record_due(self, mono: float) -> bool:
        interval = self.settings.idle_interval
        return interval > 0 and not self._alone and mono - self._last_append >= interval

    def _keep_snapshots(self, mono: float) -> None:
        keeper, image = self._snapshots, self.image
        if not self._replay.in_transaction and keeper.due(image):
            snapshot = SnapshotId(image.offset + 1, image.epoch)
            if self._order.node.check_snapshot(snapshot) is None:
                job = keeper.begin(image)
                self.run(job.run, lambda error: self._snapshot_written(job.snapshot, job.size, error))
        if mono - self._last_clean >= _CLEAN_EVERY and not self._turning:  # (no fetch is half answered)
            self._last_clean = mono
            self._cut_log()
            if due := self._store.log.tick(self._clock.now()):
                self.run(Removal(self._disk, self.directory, due).run, self._removed)

    def _snapshot_written(self, snapshot: SnapshotId, size: int, error: BaseException | None) -> None:
        if error is not None:
            if isinstance(error, StorageError) and error.full:  # the log holds all of it: try again later
                self._snapshots.running = False
            else:
                self._fail(error)
            return
        self._snapshots.finished()
        events.emit(quorum_events.SNAPSHOT, end=snapshot.end_offset, epoch=snapshot.epoch, bytes=size)
        self._receive(messages.SnapshotTaken(snapshot, size))

    def _removed(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)

    def _cut_log(self) -> None:
        start = self._snapshots.clean()
        if start is not None:
            events.emit(quorum_events.CLEANED, start=start)
            self._receive(messages.LogStartMoved(start))


def _names(voters: VoterSet) -> str:
    return ",".join(str(key.id) for key in voters.keys) or "none"
