"""A node's part in the quorum: drives raft/ over disk and network, and the controller over raft/.

Whatever happens, the same loop runs (`steps`): collect, step, persist, send, apply (`raft.driver`).  Around it:

* requests to the controller are decided on the leading image, proposed, and answered once committed
  (`proposals`);
* committed batches go through `controller.replay` into the image that the rest of the node reads, then to
  everybody who asked to hear of changes (`committed`), and only then do the answers leave;
* other controllers are asked through `peers`, and ask us through `steps.handle`; `codec` says what is meant;
* syncs run in one thread of their own, the loop never waits for a disk.

A voter, a controller that is none yet, and a broker (which follows for good) run the same code.  A failed
write or sync is final: the node stops, with what to do next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.config import Config
from barnabas.controller.controller import Controller
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.controller.versions import LATEST
from barnabas.errors import BarnabasError, ErrorCode, KafkaError, StorageError
from barnabas.model import NO_NODE, Endpoint, Epoch, NodeId, Offset, Uuid
from barnabas.ports import Clock, Disk, Randomness
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
from barnabas.raft.identity.origin import is_stranger
from barnabas.raft.messages import ChangeResponse, Received, Request, Response, Shutdown, Started
from barnabas.raft.node import RaftNode
from barnabas.raft.value import altered
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft import quorum_events
from barnabas.server.kraft.committed import CommittedImage
from barnabas.server.kraft.maintenance import Maintenance
from barnabas.server.kraft.proposals import STEPS, Proposals, Submission
from barnabas.server.kraft.quorum_events import Leaderless, names_of, tell
from barnabas.server.kraft.records import bootstrap_records
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.registration import Registration, warn_of_other_disk
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.kraft.steps import QuorumSteps
from barnabas.server.kraft.storage import MetadataStore, QuorumStatistics, QuorumThread
from barnabas.server.observe import events
from barnabas.server.observe.history import History
from barnabas.wire.codec.message import Message

if TYPE_CHECKING:
    from barnabas.server.kraft.calls import Caller
    from barnabas.server.kraft.controller_channel import ControllerChannel
    from barnabas.server.kraft.peers import Peers

__all__ = ["Quorum"]


class Quorum:
    """One node's part in the quorum.  `await Quorum.open(...)`, `await start()`, `submit` requests, `stop()`."""

    def __init__(
        self,
        settings: QuorumSettings,
        config: Config,
        thread: QuorumThread,
        store: MetadataStore,
        random: Randomness,
        *,
        on_fatal: Callable[[BarnabasError], None],
        on_step: Callable[[float], None],
        steps: int = STEPS,
    ) -> None:
        self.settings = settings
        self.config = config
        self.failed: BarnabasError | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = thread
        self._store = store
        self._clock = store.clock
        self._random = random
        self._on_fatal = on_fatal
        self._leader_callbacks: list[Callable[[], None]] = []
        self.registration: Registration | None = None
        if settings.raft.can_vote:
            self.registration = Registration(settings.key.id, settings.endpoints, settings.protocol, random)
        self.committed = CommittedImage(store.image)
        self._requests = Proposals(steps, self.is_stranger)
        self._closed = False
        self.leaderless = Leaderless(self._loop, self._clock, self.describe)
        self._peers: Peers | None = None
        self._channel: ControllerChannel | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        now = self._clock.now()
        store.reserve.size, self._requests.reserve = settings.reserve_bytes, store.reserve
        self.history = History(self._clock, lambda: self.image, lambda: store.log_view.end_offset)
        raft = altered(settings.raft, historian=self.history.lines, unfit=self._requests.unfit)
        who = settings.key, settings.endpoints, raft
        node = RaftNode(*who, store.log_view, store.saved, random, now, store.found.contacts)
        self._driver = Driver(node, store, self)
        self.steps = QuorumSteps(
            self._loop,
            self._clock,
            self._driver,
            self._requests,
            store.log_view,
            on_step=on_step,
            fail=self._fail,
        )
        store.attach(
            self,
            self.steps.receive,
            self._fail,
            metadata_version=lambda: self._leading_image.feature(METADATA_VERSION) or LATEST,
            on_image=self._image_replaced,
        )
        self._maintenance = Maintenance(
            self._loop, settings, store, node, self.committed, self._requests, self.steps, self, self._fail
        )

    @classmethod
    async def open(
        cls,
        settings: QuorumSettings,
        config: Config,
        *,
        disk: Disk,
        clock: Clock,
        random: Randomness,
        on_fatal: Callable[[BarnabasError], None],
        on_step: Callable[[float], None],
        clean: bool = False,
        steps: int = STEPS,
    ) -> Quorum:
        """Recover what is in the metadata directory; from then on `steps.handle` and `describe` answer.

        `on_step` hears the seconds that each step took; `clean`: the last stop was clean (it left a marker).
        Raises StorageError (the metadata cannot be trusted) or ConfigError (nobody to ask).
        """
        thread = QuorumThread(asyncio.get_running_loop())
        directory = config.metadata_log_dir
        recover = partial(
            open_store,
            disk,
            clock,
            directory,
            metadata_log_config(settings.segment_bytes, settings.segment_ms),
            cluster_id=settings.cluster_id,
            static_voters=settings.static_voters,
            clean=clean,
            can_vote=settings.raft.can_vote,
        )
        try:
            store = await thread.call(recover)
        except BaseException:
            thread.close()
            raise
        quorum = cls(settings, config, thread, store, random, on_fatal=on_fatal, on_step=on_step, steps=steps)
        quorum_events.tell_opened(store, settings.static_voters)
        try:
            settings.check_role(store.log_view.voters)
            settings.check_reachable(store.log_view.voters, directory)
        except BaseException:
            await quorum.stop()
            raise
        return quorum

    def __repr__(self) -> str:
        return f"<Quorum {self._driver.node!r} applied={self.image.offset}>"

    # What the rest of the node reads.

    @property
    def image(self) -> MetadataImage:
        """Everything committed.  It changes in place, between two loop steps."""
        return self.committed.image

    @property
    def is_active_controller(self) -> bool:
        """Whether requests to the controller are decided here."""
        return self._requests.controller is not None

    @property
    def leader_id(self) -> NodeId:
        """The leader of the quorum, -1 while unknown."""
        leader = self._driver.node.leader_id
        return NO_NODE if leader is None else leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listens, None while it is unknown."""
        known, listener = self._driver.node.leader_endpoints, self.settings.raft.listener
        return next((endpoint for endpoint in known if endpoint.listener == listener), None)

    @property
    def origin(self) -> Uuid:
        """Which quorum this node is of (`raft.identity.origin`); zero: not known."""
        return self._driver.node.core.origin

    def is_stranger(self, request: Message | None) -> bool:
        """Whether a node of another quorum sent it."""
        return is_stranger(self._driver.node.core, request)

    @property
    def epoch(self) -> Epoch:
        """The quorum's epoch."""
        return self._driver.node.epoch

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 1 when voters can change at run time."""
        return self._driver.node.kraft_version

    @property
    def voters(self) -> VoterSet:
        """The voters, the newest set, committed or not."""
        return self._driver.node.voters

    @property
    def high_watermark(self) -> Offset:
        """Everything below it is committed."""
        return self._requests.high_watermark

    def on_change(self, callback: Callable[[ImageDelta], None]) -> None:
        """Call `callback` after each commit that changed something a reader can see.

        It runs on the loop, before the requests that caused the change are answered.
        """
        self.committed.on_change(callback)

    def on_leader(self, callback: Callable[[], None]) -> None:
        """Call `callback` soon after another node, or this one, has begun to lead."""
        self._leader_callbacks.append(callback)

    def describe(self) -> Description:
        """The quorum as this node sees it; only a leader knows the replicas."""
        return self._driver.node.describe(self._clock.now())

    def check(self, request: Request) -> ChangeResponse:
        """What would become of a change of the voters; nothing is changed."""
        return self._driver.node.check(request, self._clock.now())

    def statistics(self) -> QuorumStatistics:
        """A reading for metrics."""
        return QuorumStatistics(
            self._driver.node.statistics(),
            self._store.statistics(),
            self.image.offset,
            len(self._requests),
            self._maintenance.keeper.taken,
        )

    async def start(self) -> None:
        """Take part: elect or find a leader, register; returns once the image is there and knows us.

        That may take as long as there is no majority of voters.
        """
        try:
            self.steps.receive(Started())
            self._maintenance.look()
            if not self._ready.done() and self.leader_id == NO_NODE:
                bootstrap = ",".join(f"{e.host}:{e.port}" for e in self.settings.raft.bootstrap)
                events.emit(quorum_events.WAITS, voters=names_of(self.voters), bootstrap=bootstrap)
            await self._ready
        except BaseException:
            await self.stop()
            raise

    async def stop(self, patience: float = 2.0) -> None:
        """Leave the quorum cleanly (within `patience` seconds), make everything durable, close the files.

        Proposals that wait fail with NOT_CONTROLLER.  Safe to call again, and after a failure.
        """
        if self._closed:
            return
        self._closed = True
        self.steps.close()
        self._maintenance.close()
        if self.registration is not None:
            self.registration.stop()
        if self._channel is not None:
            await self._channel.close()
        if self.failed is None:
            self.steps.receive(Shutdown(patience))
            with contextlib.suppress(TimeoutError):  # it stops all the same; its peers' timers notice
                await asyncio.wait_for(asyncio.shield(self._stopped), patience)
        self._cancel_timers()
        if self._peers is not None:
            await self._peers.close()
        self._requests.refuse_all(KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is stopping"))
        await self._thread.drain()
        if self.failed is None:
            await self._thread.call(self._store.close)
        else:
            self._store.log.abandon()
        self._thread.close()

    # Proposals to the controller.

    def submit(
        self, request: Message, version: int | None = None, sender: str = ""
    ) -> asyncio.Future[Message]:
        """Decide a request, and answer it once what it changes is committed.

        The future raises KafkaError: NOT_CONTROLLER when this node is not, or no longer, the active
        controller (what was asked may then happen or not), else what the request was refused with.
        `version` is the request's, for the shape of its answer; without one the newest.  `sender` is the principal
        of who asks.
        """
        if version is None:
            version = request.VERSIONS[1]
        future: asyncio.Future[Message] = self._loop.create_future()
        if self._closed or self.failed is not None:
            future.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is stopping"))
            return future
        self._requests.add(Submission(request, version, future, sender))
        self.steps.pump()
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

    def change(self, request: Request, by: str = "this node") -> asyncio.Future[Response]:
        """A change of the quorum that this node itself asks for, or `by` through it; the core's answer."""
        future: asyncio.Future[Response] = self._loop.create_future()
        self.steps.receive(Received(self.history.asked(future, by), request))
        return future

    @property
    def _leading_image(self) -> MetadataImage:
        controller = self._requests.controller
        return self.image if controller is None else controller.image

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a job in the disk thread, then `done(error)` on the loop (`storage.DiskThread`)."""
        self._thread.run(job, partial(self.steps.guarded, done))

    def _fail(self, error: BaseException) -> None:
        """The end: retry nothing, tell every waiting caller, stop the node."""
        if self.failed is not None:
            return
        directory = self.config.metadata_log_dir
        events.emit(quorum_events.FAILED, error=error, directory=directory)
        if not isinstance(error, BarnabasError):
            error = StorageError(f"the metadata cannot go on: {error!r}", directory=directory)
        error.fatal = True
        self.failed = error
        self.steps.halt()
        self._maintenance.close()
        self._cancel_timers()
        self._requests.refuse_all(
            KafkaError(ErrorCode.NOT_CONTROLLER, f"this controller has failed: {error.message}")
        )
        if self._ready.done():
            self._on_fatal(error)
        else:
            self._ready.set_exception(error)

    def _cancel_timers(self) -> None:
        self.leaderless.close()
        self.steps.cancel_timer()
        self._maintenance.cancel_timer()

    # What raft asks of us (`raft.driver.Outputs`).

    def send(self, effect: Send) -> None:
        """Ask another node."""
        if self._peers is None:
            from barnabas.server.kraft.peers import Peers  # not needed by a node alone

            own, raft = self.settings, self.settings.raft
            to = own.key.id, raft.listener, raft.request_timeout
            self._peers = Peers(*to, self._random, self.steps.receive, self._fail, own.security)
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
        match effect:
            case Committed():
                self._commit(effect.high_watermark)
            case Accepted():
                now = self._clock.now()
                self._maintenance.last_append = now.mono
                self._requests.accepted(effect, now)
            case Refused():
                assert isinstance(effect.token, Submission)
                effect.token.refuse(KafkaError(ErrorCode.NOT_CONTROLLER, effect.message))
            case LeaderChanged():
                self._leader_changed(effect)
            case VotersChanged():
                events.emit(quorum_events.VOTERS, voters=names_of(effect.voters), offset=effect.offset)
                if self.registration is not None:
                    warn_of_other_disk(self.settings.key, effect.voters)
            case KraftVersionChanged():
                events.emit(quorum_events.STEP, what="kraft.version", version=effect.version)
            case Event():
                tell(effect)
                self.leaderless.hear(effect)
            case Stopped() if not self._stopped.done():
                self._store.stopping = True
                self._stopped.set_result(None)

    def _commit(self, high_watermark: Offset) -> None:
        """Replay what is committed by now, tell the listeners, then answer the waiting requests."""
        self._requests.high_watermark = high_watermark
        batches = self._store.committed(high_watermark)
        self._maintenance.keeper.committed(sum(batch.size for batch in batches))
        self._look_at(self.committed.apply(batches))
        self._requests.committed(high_watermark)
        self._progress()

    def _look_at(self, delta: ImageDelta) -> None:
        if self.registration is not None and self.settings.key.id in delta.controllers:
            if self.registration.look(self.image):
                self.registration.begin(self.request, lambda: self.image)

    def _progress(self) -> None:
        """More is committed, or a leader is known: callers that wait for that may continue."""
        self.committed.wake()
        node = self._driver.node
        if self._ready.done() or node.leader_id is None or not node.high_watermark:
            return
        if self.registration is None or self.registration.done(self.image):
            self._ready.set_result(None)

    def _image_replaced(self, image: MetadataImage) -> None:
        """A snapshot of the leader replaced the log: the image jumps."""
        self._store.image = self.image
        self._look_at(self.committed.replace(image))

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
        controller = Controller(
            self.config, self._random, self.committed.replay, now, lambda: self.voters.ids
        )
        self._requests.controller = controller
        events.emit(quorum_events.ACTIVE, epoch=effect.epoch, offset=self.image.offset)
        directory = self.config.metadata_log_dir
        bootstrap = [] if self.image.features else bootstrap_records(self._store.disk, directory)
        if first := controller.first_records(bootstrap):
            self.steps.append_own(first)
        if self.registration is not None and not self.registration.done(self.image):
            self._requests.add(Submission(self.registration.request()))
            self.steps.pump()
        self._maintenance.look()

    def _tell_leader(self) -> None:
        for callback in self._leader_callbacks:
            callback()
