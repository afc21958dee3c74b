"""This broker's life with the controller: register, report, be unfenced, leave (KIP-631).

It speaks by requests only, whoever carries them: a combined node hands them to its own quorum, a broker
will send them over the network.  The states are Kafka's: STARTING until it has replayed its own
registration, RECOVERY until it asked to be unfenced, RUNNING, PENDING_CONTROLLED_SHUTDOWN until the
controller lets it go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.config import Config
from barnabas.controller.feature_levels import METADATA_VERSION, NEWER_RELEASE, supported
from barnabas.controller.image import BrokerEndpoint, ImageDelta
from barnabas.controller.versions import DIRECTORIES
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, BrokerEpoch, DirectoryId, NodeId, Offset, Uuid
from barnabas.ports import Randomness
from barnabas.server.observe import events
from barnabas.server.replication.clock_check import ClockCheck
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatRequestIncomplete,
    BrokerHeartbeatRequestLeaderless,
    BrokerHeartbeatRequestRefused,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    BrokerRegistrationResponse,
)

__all__ = ["BrokerLifecycle", "Disks", "LifecycleSettings", "LifecycleState"]

REGISTERED = events.register("broker.registered", logging.INFO, "the controller knows this broker")
UNFENCED = events.register("broker.unfenced", logging.INFO, "this broker may lead partitions")
FENCED = events.register("broker.fenced", logging.WARNING, "the controller fenced this broker")
SILENT = events.register(
    "broker.heartbeat-failed", logging.WARNING, "the controller did not accept a heartbeat"
)
OUT = events.register(
    "broker.out",
    logging.WARNING,
    "the cluster does not know this run of the broker any more, which stays out: it was unregistered",
)
STANDS_DOWN = events.register(
    "broker.stands-down",
    logging.WARNING,
    "records that this broker leads cannot be read, and others have them: it gives up its leads",
)
LEFT = events.register("broker.left", logging.INFO, "the controller lets this broker stop")

_RETRY_S = 0.05
_QUICK_REPORT_S = 0.01
_UNHEARD_S = 3.0
"""Seconds without any controller after which a broker that wants to stop does so unasked."""


class LifecycleState(IntEnum):
    """The stages of a broker's life (numbers of Kafka's BrokerState metric)."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class LifecycleSettings(NamedTuple):
    """The identity of this broker, and the seconds between its reports.

    `previous_epoch` is the broker epoch of the life before, if nothing of it is lost as far as this broker can
    tell (else -1); `unclean_stop`: that life did not stop in order.  `incarnation` is this life, or one that had
    no answer (`server.replication.previous_epoch`); zero: a new one.
    """

    broker_id: NodeId
    cluster_id: str
    listeners: tuple[BrokerEndpoint, ...]
    directories: tuple[DirectoryId, ...]
    rack: str | None = None
    previous_epoch: BrokerEpoch = -1
    unclean_stop: bool = False
    incarnation: Uuid = ZERO_UUID
    heartbeat_interval: float = 2.0
    registration_timeout: float = 60.0

    @classmethod
    def of(
        cls,
        config: Config,
        *,
        cluster_id: str,
        listeners: Sequence[BrokerEndpoint],
        directories: Sequence[DirectoryId],
        previous_epoch: BrokerEpoch = -1,
        unclean_stop: bool = False,
        incarnation: Uuid = ZERO_UUID,
    ) -> LifecycleSettings:
        """From a node's configuration; `listeners` as they are advertised."""
        return cls(
            broker_id=config.node_id,
            cluster_id=cluster_id,
            listeners=tuple(listeners),
            directories=tuple(directories),
            rack=config.optional_str("broker.rack") or None,
            previous_epoch=previous_epoch,
            unclean_stop=unclean_stop,
            incarnation=incarnation,
            heartbeat_interval=config.int("broker.heartbeat.interval.ms") / 1000,
            registration_timeout=config.int("initial.broker.registration.timeout.ms") / 1000,
        )


class Disks(NamedTuple):
    """The faults of a broker's disks, as it reports them in extensions that Apache Kafka passes over.

    `unfit`: directories whose partitions others should lead, as they are full or slow.  `incomplete`: replicas
    that lack records.  `leaderless`: where the logs of partitions without a leader end.  `refused`: leaders whose
    log is shorter than what was committed.
    """

    unfit: list[DirectoryId] = []
    incomplete: list[BrokerHeartbeatRequestIncomplete] = []
    leaderless: list[BrokerHeartbeatRequestLeaderless] = []
    refused: list[BrokerHeartbeatRequestRefused] = []


class BrokerLifecycle:
    """One registration of this broker, and its reports until it leaves or the controller knows it no more.

    A broker that somebody unregistered stays out, as with Apache Kafka: only another start registers again.

    `submit` carries a request to the active controller; `metadata_offset` is how far this broker has
    replayed the metadata log.
    """

    def __init__(
        self,
        submit: Callable[[Message], Awaitable[Message]],
        settings: LifecycleSettings,
        *,
        metadata_offset: Callable[[], Offset],
        random: Randomness,
        cordoned: Callable[[], list[DirectoryId] | None] = lambda: None,
        disks: Callable[[], Disks] = Disks,
        given_away: Callable[[Offset], None] = lambda offset: None,
        clock: ClockCheck | None = None,
        on_registered: Callable[[BrokerEpoch], None] = lambda epoch: None,
        on_fatal: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """`cordoned` is asked before each report: the directories that take no new replicas, None where nobody
        would know; so is `disks`.  `given_away` is told of the metadata offset at which others lead what lies in
        unfit directories.  `clock` compares the clocks; `on_registered` is told of each
        registration, before this broker can be unfenced under it; `on_fatal` of the error that ended the reports:
        a broker without them only looks alive.
        """
        self.settings = settings
        self.epoch: BrokerEpoch = -1
        self.state = LifecycleState.NOT_RUNNING
        self.fenced = True
        self._submit = submit
        self._metadata_offset = metadata_offset
        self._incarnation = random.uuid() if settings.incarnation == ZERO_UUID else settings.incarnation
        self._offline: set[DirectoryId] = set()
        self.reported: set[DirectoryId] = set()
        """Directories of which the controller has heard that they failed."""
        self._reporter: asyncio.Task[None] | None = None
        self._on_fatal = on_fatal
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._may_stop = False
        self._failures = 0
        self._outdated = False
        self._out = False
        self._standing_down = False
        self._understood = False
        """Whether the controller that answered last is one of ours, and reads what `disks` says."""
        self._cordoned = cordoned
        self._disks = disks
        self._given_away = given_away
        self._clock = clock
        self._on_registered = on_registered

    def __repr__(self) -> str:
        return f"<BrokerLifecycle {self.settings.broker_id} epoch={self.epoch} {self.state.name}>"

    async def register(self) -> BrokerEpoch:
        """Register, trying again while another incarnation is alive or no controller is active.

        Returns the broker epoch.  Raises KafkaError (refused for good), BarnabasError when it takes longer
        than initial.broker.registration.timeout.ms.
        """
        self.state = LifecycleState.STARTING
        last: KafkaError | None = None
        try:
            async with asyncio.timeout(self.settings.registration_timeout):
                while True:
                    try:
                        self.epoch = await self._register_once()
                        break
                    except KafkaError as error:
                        if error.code != ErrorCode.DUPLICATE_BROKER_REGISTRATION and not error.code.retriable:
                            raise
                        last = error
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError as error:
            raise BarnabasError(
                f"the controller did not register this broker within {self.settings.registration_timeout:g} s"
                + (f": {last}" if last else ""),
                next_step="check whether a controller is active, and whether another broker has this node.id",
                fatal=True,
            ) from error
        events.emit(REGISTERED, broker=self.settings.broker_id, epoch=self.epoch)
        return self.epoch

    async def _register_once(self) -> BrokerEpoch:
        settings = self.settings
        answer = await self._submit(
            BrokerRegistrationRequest(
                broker_id=settings.broker_id,
                cluster_id=settings.cluster_id,
                incarnation_id=self._incarnation,
                listeners=[
                    BrokerRegistrationRequestListener(
                        name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol
                    )
                    for e in settings.listeners
                ],
                features=[
                    BrokerRegistrationRequestFeature(
                        name=name, min_supported_version=low, max_supported_version=high
                    )
                    for name, (low, high) in supported().items()
                ],
                rack=settings.rack,
                log_dirs=[d for d in settings.directories if d not in self._offline],
                previous_broker_epoch=settings.previous_epoch,
            )
        )
        assert isinstance(answer, BrokerRegistrationResponse)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "the active controller does not register this broker, which does not know a level of the cluster",
                next_step=f"`barnabas features describe` shows the levels; {NEWER_RELEASE}",
            )
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        self._on_registered(answer.broker_epoch)
        return answer.broker_epoch

    async def unfence(self) -> None:
        """Ask to be unfenced and wait until it is so; from then on heartbeats go out by themselves.

        Call it once the listeners are open and the logs are loaded.  Raises BarnabasError when this broker is
        unregistered before.
        """
        self.state = LifecycleState.RECOVERY
        self._reporter = asyncio.get_running_loop().create_task(self._report(), name="broker-heartbeats")
        self._reporter.add_done_callback(self._reports_ended)
        while self.fenced:
            if self._reporter.done():
                self._reporter.result()
            if self._out:
                why = f"broker {self.settings.broker_id} was unregistered while it started"
                raise BarnabasError(why, next_step="start it again, if it is wanted", fatal=True)
            self._changed.clear()
            await self._changed.wait()

    def _reports_ended(self, reporter: asyncio.Task[None]) -> None:
        self._changed.set()
        error = None if reporter.cancelled() else reporter.exception()
        if isinstance(error, Exception):
            events.emit(events.TASK_FAILED, task=reporter.get_name(), error=error)
            self._on_fatal(error)

    async def leave(self, patience: float = 30.0) -> None:
        """Controlled shutdown: hand leaderships over, then stop reporting.

        Gives up after `patience` seconds, and sooner when no controller is there to be asked.
        """
        if self._reporter is None:
            return
        self.state = LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        self._wake.set()
        loop = asyncio.get_running_loop()
        heard = loop.time()
        try:
            async with asyncio.timeout(patience):
                while not self._may_stop and not self._reporter.done():
                    self._changed.clear()
                    await self._changed.wait()
                    if not self._failures:
                        heard = loop.time()
                    elif loop.time() - heard > _UNHEARD_S:
                        raise TimeoutError
            events.emit(LEFT, broker=self.settings.broker_id)
        except TimeoutError:
            events.emit(SILENT, reason="the controller did not let this broker go in time")
        self.abandon()

    def abandon(self) -> None:
        """Stop reporting at once; the controller fences this broker when its session runs out."""
        self.state = LifecycleState.SHUTTING_DOWN
        if self._reporter is not None:
            self._reporter.cancel()
            self._reporter = None

    def report_soon(self) -> None:
        """Report at once: somebody waits for what this broker has replayed (another one that stops cleanly)."""
        self._wake.set()

    def metadata_changed(self, delta: ImageDelta) -> None:
        """Register again where metadata.version rose to what names directories, and our registration has none.

        It goes out before the next report, as the same life, so that nothing else changes (KIP-858).
        """
        image = delta.image
        if self.settings.broker_id not in image.brokers:
            self._outdated = False  # unregistered before it went out: nothing registers it again
        if METADATA_VERSION not in delta.features or image.feature(METADATA_VERSION) < DIRECTORIES:
            return
        broker = image.brokers.get(self.settings.broker_id)
        if broker is not None and not broker.directories:
            self._outdated = True
            self._wake.set()

    def stand_down(self) -> None:
        """Say now which replicas are incomplete, so that others lead them.

        A controller of Apache Kafka does not understand it: with the next report this broker asks it to be
        fenced, and to be unfenced with the one after.  Until then others were elected for all that it leads.
        """
        self._standing_down = True
        self._wake.set()

    def directory_failed(self, directory_id: DirectoryId) -> None:
        """Tell the controller with the next heartbeat, at once, that a disk is gone."""
        self._offline.add(directory_id)
        self._wake.set()

    async def _report(self) -> None:
        while not self._may_stop:
            self._wake.clear()
            offline = sorted(self._offline)
            if self._outdated:
                await self._refresh_registration()
            disks = self._disks()
            self._standing_down = self._standing_down and bool(disks.incomplete)
            standing_down = (
                self._standing_down and not self._understood and self.state is LifecycleState.RUNNING
            )
            if standing_down:
                events.emit(STANDS_DOWN, replicas=len(disks.incomplete))
            if self._clock is not None:
                self._clock.asked()
            try:
                answer = await self._submit(
                    BrokerHeartbeatRequest(
                        broker_id=self.settings.broker_id,
                        broker_epoch=self.epoch,
                        current_metadata_offset=self._metadata_offset(),
                        want_fence=standing_down,
                        want_shut_down=self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN,
                        offline_log_dirs=offline,
                        cordoned_log_dirs=self._cordoned(),
                        unfit_log_dirs=disks.unfit,
                        incomplete=disks.incomplete,
                        leaderless=disks.leaderless,
                        refused=disks.refused,
                        unclean_stop=self.settings.unclean_stop,
                    )
                )
                assert isinstance(answer, BrokerHeartbeatResponse)
                if answer.error_code:
                    raise KafkaError(ErrorCode(answer.error_code))
            except KafkaError as error:
                if not self._failures:
                    events.emit(SILENT, error=error)
                self._failures += 1
                if error.code == ErrorCode.STALE_BROKER_EPOCH:
                    self._known_no_more()
                    return
            else:
                self._failures = 0
                if self._clock is not None:
                    self._clock.answered(answer.now_ms)
                self.reported.update(offline)
                self._standing_down = self._standing_down and not standing_down
                self._heard(answer)
            self._changed.set()
            if self._may_stop:
                return
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _pause(self) -> float:
        """Seconds until the next report."""
        usual = self.settings.heartbeat_interval
        if self._failures:
            return min(usual, _RETRY_S * 2.0 ** min(self._failures, 10))
        quick = self.fenced or self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        return _QUICK_REPORT_S if quick else usual

    def _known_no_more(self) -> None:
        """Stay out: the epoch of a registration is over for good, and who ended it did so on purpose."""
        self._out = self.fenced = True
        next_step = (
            f"stop it, or restart it to register again; barnabas brokers describe {self.settings.broker_id}"
        )
        events.emit(OUT, broker=self.settings.broker_id, epoch=self.epoch, next=next_step)
        self._changed.set()

    async def _refresh_registration(self) -> None:
        try:
            self.epoch = await self._register_once()
            self._outdated = False
        except KafkaError as error:  # the report that follows goes out all the same
            events.emit(SILENT, error=error)

    def _heard(self, answer: BrokerHeartbeatResponse) -> None:
        if self.fenced and not answer.is_fenced:
            self.state = LifecycleState.RUNNING if self.state is LifecycleState.RECOVERY else self.state
            events.emit(UNFENCED, broker=self.settings.broker_id, epoch=self.epoch)
        elif not self.fenced and answer.is_fenced and not answer.should_shut_down:
            events.emit(FENCED, broker=self.settings.broker_id, epoch=self.epoch)
        self._understood = answer.now_ms > 0
        self.fenced = answer.is_fenced
        self._may_stop = answer.should_shut_down
        if answer.given_away >= 0:
            self._given_away(answer.given_away)
