"""What the quorum does now and then: keep its log short, fence silent brokers, show that it is alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.controller.image import MetadataImage
from barnabas.errors import StorageError
from barnabas.log.files.removal import Removal
from barnabas.raft.entries import SnapshotId
from barnabas.raft.messages import LogStartMoved, SnapshotTaken, Supervise
from barnabas.raft.node import RaftNode
from barnabas.raft.value import altered
from barnabas.server.kraft import quorum_events
from barnabas.server.kraft.committed import CommittedImage
from barnabas.server.kraft.proposals import Proposals
from barnabas.server.kraft.registration import registered
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.kraft.snapshots import SnapshotKeeper
from barnabas.server.kraft.steps import QuorumSteps
from barnabas.server.kraft.storage import DiskThread, MetadataStore
from barnabas.server.observe import events
from barnabas.wire.metadata import NoOpRecord

__all__ = ["Maintenance"]

_CLEAN_EVERY_S = 60.0
_LOOK_EVERY_S = 1.0
"""Seconds between two looks of a node that is not active."""


class Maintenance:
    """`look()` at once, and by itself from then on.  `fail` takes an error that ends the node."""

    __slots__ = (
        "_closed",
        "_committed",
        "_fail",
        "_last_clean",
        "_loop",
        "_node",
        "_requests",
        "_settings",
        "_steps",
        "_store",
        "_thread",
        "_timer",
        "keeper",
        "last_append",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: QuorumSettings,
        store: MetadataStore,
        node: RaftNode,
        committed: CommittedImage,
        requests: Proposals,
        steps: QuorumSteps,
        thread: DiskThread,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._store = store
        self._node = node
        self._committed = committed
        self._requests = requests
        self._steps = steps
        self._thread = thread
        self._fail = fail
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.keeper = SnapshotKeeper(settings, store)
        self.last_append = self._last_clean = store.clock.now().mono

    def look(self) -> None:
        """Keep the log short; while active, fence silent brokers and show that we are alive."""
        self.cancel_timer()
        if self._closed:
            return
        controller, settings = self._requests.controller, self._settings
        now = self._store.clock.now()
        delay = _LOOK_EVERY_S
        if controller is not None:
            if controller.is_due(now):
                self._requests.add_due()
                self._steps.pump()
            if self._idle_record_due(now.mono):
                self._steps.append_own([NoOpRecord()])
            delay = settings.session_timeout / 8
            if settings.idle_interval > 0 and not self._alone:
                delay = min(delay, settings.idle_interval)
            if settings.autopilot is not None:
                self._supervise(settings.autopilot)
                delay = min(delay, settings.autopilot.interval)
        self._store.keep_reserve()
        self._keep_snapshots(now.mono)
        self._timer = self._loop.call_later(delay, self._steps.guarded, self.look)

    def close(self) -> None:
        """The node stops, or has failed: do nothing any more."""
        self._closed = True

    def cancel_timer(self) -> None:
        """Do not look again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _supervise(self, order: Supervise) -> None:
        """Let the autopilot look, which is to know where the registered controllers listen."""
        self._steps.receive(altered(order, standbys=registered(self._committed.image)))

    @property
    def _alone(self) -> bool:
        """Whether nobody but this node reads the log (and nobody asked for idle records all the same)."""
        raft = self._node.statistics()
        return raft.voters == 1 and not raft.observers and not self._settings.idle_when_alone

    def _idle_record_due(self, mono: float) -> bool:
        interval = self._settings.idle_interval
        return interval > 0 and not self._alone and mono - self.last_append >= interval

    def _keep_snapshots(self, mono: float) -> None:
        keeper, replay, store = self.keeper, self._committed.replay, self._store
        if not replay.in_transaction and keeper.due(replay.image):
            snapshot = _end_of(replay.image)
            if self._node.check_snapshot(snapshot) is None:
                job = keeper.begin(replay.image)
                self._thread.run(job.run, lambda error: self._written(job.snapshot, job.size, error))
        if (
            mono - self._last_clean >= _CLEAN_EVERY_S and not self._steps.running
        ):  # (no fetch is half answered)
            self._last_clean = mono
            self.clean()
            if due := store.log.tick(store.clock.now()):
                directory = store.path.rpartition("/")[0]
                self._thread.run(Removal(store.disk, directory, due).run, self._removed)

    def _written(self, snapshot: SnapshotId, size: int, error: BaseException | None) -> None:
        if error is not None:
            if isinstance(error, StorageError) and error.full:  # the log holds all of it: try again later
                self.keeper.running = False
            else:
                self._fail(error)
            return
        self.keeper.finished()
        events.emit(quorum_events.SNAPSHOT, end=snapshot.end_offset, epoch=snapshot.epoch, bytes=size)
        self._steps.receive(SnapshotTaken(snapshot, size))

    def _removed(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)

    def clean(self) -> None:
        """Forget what the snapshots kept cover."""
        start = self.keeper.clean()
        if start is not None:
            events.emit(quorum_events.CLEANED, start=start)
            self._steps.receive(LogStartMoved(start))

    def __repr__(self) -> str:
        return f"<Maintenance {self.keeper!r}>"


def _end_of(image: MetadataImage) -> SnapshotId:
    return SnapshotId(image.offset + 1, image.epoch)
