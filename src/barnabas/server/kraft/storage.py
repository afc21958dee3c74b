"""The quorum's disk: `__cluster_metadata-0` with its log, its snapshots and `quorum-state`.

The store appends and cuts on the loop and syncs in one thread of its own, in order; whoever drives it is told
when something is durable.  Any failed sync is final: the node stops, nothing is tried again.
`recovery.open_store` makes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

from barnabas.controller.image import MetadataImage
from barnabas.controller.snapshot import image_from
from barnabas.controller.versions import LATEST
from barnabas.errors import CorruptRecordError, StorageError
from barnabas.log.files import snapshot as snapshots
from barnabas.log.files.sync import SyncJob
from barnabas.log.log import Log
from barnabas.model import Offset
from barnabas.ports import Clock, Disk
from barnabas.raft.describe import RaftStatistics
from barnabas.raft.discovery.book import Contact
from barnabas.raft.effects import InstallSnapshot, SaveElection, WriteSnapshot
from barnabas.raft.entries import Batch, ElectionState, SnapshotId, SyncedEnd, VotersEntry
from barnabas.raft.log_view import LogView
from barnabas.raft.messages import (
    ElectionSaved,
    Message,
    Persisted,
    ReadSnapshot,
    SnapshotInstalled,
    SnapshotRejected,
    SyncTicket,
)
from barnabas.server.kraft.discovery.address_book import write_contacts
from barnabas.server.kraft.election_state import QUORUM_STATE, election_text
from barnabas.server.kraft.marks import NO_POINT, POINT_EVERY_S, RecoveryPoint, SyncedEndFile, write_point
from barnabas.server.kraft.records import SnapshotContent, encode_batch
from barnabas.server.kraft.reserve import Reserve
from barnabas.server.kraft.transfer import SnapshotDownload, check_snapshot, read_piece
from barnabas.wire.records import read_batch_header

__all__ = [
    "DiskThread",
    "Found",
    "MetadataStore",
    "QuorumStatistics",
    "QuorumThread",
    "SetAside",
    "StoreStatistics",
    "Uncommitted",
    "image_of",
]

_T = TypeVar("_T")


class DiskThread(Protocol):
    """One thread for everything that waits for the disk: jobs run one after the other."""

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `job` in the thread, then `done(error)` on the loop."""
        ...


class QuorumThread:
    """The real one: `run(job, done)`, until `close()`."""

    __slots__ = ("_loop", "_pool")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="quorum-disk")

    async def call(self, work: Callable[[], _T]) -> _T:
        """Do it in the thread, after the jobs before it.  Returns its result, raises its error."""
        return await self._loop.run_in_executor(self._pool, work)

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run a job, then `done(error)` on the loop."""
        future = self._loop.run_in_executor(self._pool, job)
        future.add_done_callback(lambda ended: done(ended.exception()))

    async def drain(self) -> None:
        """Returns when the jobs before have ended."""
        await self.call(_nothing)

    def close(self, *, wait: bool = False) -> None:
        """Take no more jobs."""
        self._pool.shutdown(wait=wait)

    def __repr__(self) -> str:
        return "<QuorumThread>"


def _nothing() -> None:
    pass


class Uncommitted(NamedTuple):
    """A batch that stands in the log and waits to be committed."""

    batch: Batch
    timestamp_ms: int
    size: int


class SetAside(NamedTuple):
    """Something that the disk has damaged, kept for inspection; the node is open without it."""

    what: str
    why: str


class Found(NamedTuple):
    """What a start found beside the log: what `endpoints.json` said, or why it is not used; what is damaged."""

    contacts: tuple[Contact, ...] = ()
    contacts_unread: str = ""
    set_aside: tuple[SetAside, ...] = ()


class StoreStatistics(NamedTuple):
    """A reading of the store, for metrics."""

    log_end_offset: Offset
    durable_end_offset: Offset
    log_size: int
    snapshots: int
    syncs: int


class QuorumStatistics(NamedTuple):
    """A reading of the quorum, for metrics."""

    raft: RaftStatistics
    store: StoreStatistics
    applied_offset: Offset
    waiting_requests: int
    snapshots_taken: int


def _latest_version() -> int:
    """The metadata.version in which records are written where nobody says another."""
    return LATEST


def _unheard(image: MetadataImage) -> None:
    """Nobody has to be told that a snapshot replaced the image."""


class MetadataStore:
    """Implements `raft.driver.Storage`.  Then `attach` it to whoever hears of syncs."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        log: Log,
        log_view: LogView,
        saved: ElectionState | None,
        image: MetadataImage,
        waiting: deque[Uncommitted],
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.log = log
        self.log_view = log_view
        self.saved = saved
        self.image = image
        """What the newest snapshot says; the driver replays into it from here on."""
        self.waiting = waiting
        self.point: RecoveryPoint = NO_POINT
        """What `recovery-point.json` says."""
        self.synced_end = SyncedEndFile(disk, log.path)
        self._committed: Offset = 0
        self._point_due = 0.0
        self.bad_snapshots: dict[SnapshotId, str] = {}
        """Finished snapshots that the disk has changed, and what is wrong with them."""
        self._download = SnapshotDownload(disk, log.path)
        self.found = Found()
        self._contacts: tuple[Contact, ...] | None = None
        self.stopping = False
        """The quorum has stopped: `close` will sync what is left."""
        self.syncs = 0
        self._election: SaveElection
        self._election_written: SaveElection | None = None
        self.reserve = Reserve(disk, log.path, 0)
        # Recovery from a lost majority appends to a store that no driver is attached to.
        self._metadata_version: Callable[[], int] = _latest_version
        self._on_image: Callable[[MetadataImage], None] = _unheard
        self._thread: DiskThread
        self._receive: Callable[[Message], None]
        self._fail: Callable[[BaseException], None]

    def __repr__(self) -> str:
        return f"<MetadataStore {self.log.path} {self.log_view!r} waiting={len(self.waiting)}>"

    def attach(
        self,
        thread: DiskThread,
        receive: Callable[[Message], None],
        fail: Callable[[BaseException], None],
        *,
        metadata_version: Callable[[], int] = _latest_version,
        on_image: Callable[[MetadataImage], None] = _unheard,
    ) -> None:
        """From now on: syncs run in `thread`, their ends go to `receive`, the first error to `fail`.

        Records are written in the versions of `metadata_version`; `on_image` is told when a downloaded snapshot
        replaced everything: its driver goes on from this image.
        """
        self._metadata_version = metadata_version
        self._on_image = on_image
        self._thread = thread
        self._receive = receive
        self._fail = fail

    @property
    def path(self) -> str:
        """The directory of the log."""
        return self.log.path

    # What raft.driver asks for.

    def append(self, batch: Batch) -> None:
        """Write the batch at the end of the log; not synced.  Raises StorageError."""
        self.reserve.spend(lambda: self._append(batch))

    def _append(self, batch: Batch) -> None:
        now = self.clock.now()
        timestamp = now.wall_ms
        if batch.raw is None:
            encoded = encode_batch(batch, timestamp_ms=timestamp, metadata_version=self._metadata_version())
            self.log.append_as_leader(encoded, read_batch_header(encoded), batch.epoch, now)
            size = len(encoded)
        else:
            raw = batch.raw
            assert isinstance(raw, bytes | bytearray | memoryview)
            timestamp = read_batch_header(raw).max_timestamp
            self.log.append_as_follower(raw, now)
            size = len(raw)
        self.log.write()
        self.waiting.append(Uncommitted(batch, timestamp, size))

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log; batches that waited after the cut are forgotten."""
        self.synced_end.cut(self.log_view.synced_end)
        self.log.truncate_to(end_offset, self.clock.now())
        while self.waiting and self.waiting[-1].batch.end_offset > end_offset:
            self.waiting.pop()

    def start_sync(self, ticket: SyncTicket) -> None:
        """Make what is written durable, in the thread; then say so."""
        if self.stopping:
            return
        job = self.log.begin_sync()
        self.syncs += 1
        if job is None:
            self._receive(Persisted(ticket.end_offset, ticket.cut))
            return
        self._thread.run(job.run, lambda error: self._synced(job, ticket, error))

    def _synced(self, job: SyncJob, ticket: SyncTicket, error: BaseException | None) -> None:
        if error is None and job.refused is not None and self.reserve.give_up(job.refused):
            self.log.finish_sync(job)
            self.start_sync(ticket)
            return
        if (error := error or job.refused) is not None:
            self._fail(error)
            return
        self.log.finish_sync(job)
        log_view = self.log_view
        if ticket.cut == log_view.cut and not self._writes(
            lambda: self.synced_end.synced(log_view.after_sync(ticket.end_offset))
        ):
            return
        self._receive(Persisted(ticket.end_offset, ticket.cut))
        self.keep_point()

    def _writes(self, write: Callable[[], None]) -> bool:
        """Write a row of the synced end, on the loop as all appends; whether the node goes on."""
        try:
            write()
        except StorageError as error:
            self._fail(error)
            return False
        return True

    def save_election(self, effect: SaveElection) -> None:
        """Replace `quorum-state`, in the thread; then say so.

        Where a newer state is wanted already, that one is written instead: it forbids all that the older
        one forbade, so both are durable with it.
        """
        self._election = effect

        def save() -> None:
            wanted = self._election
            if wanted is not self._election_written:
                content = election_text(wanted.state, wanted.kraft_version, self.log_view.voters)
                self.reserve.spend(lambda: self.disk.replace(f"{self.path}/{QUORUM_STATE}", content))
                self._election_written = wanted

        def saved(error: BaseException | None) -> None:
            voted = effect.state.epoch if effect.state.voted is not None else 0
            if error is not None:
                self._fail(error)
            elif self._writes(lambda: self.synced_end.voted(voted)):
                self._receive(ElectionSaved(effect.serial))

        self._thread.run(save, saved)

    def save_book(self, contacts: tuple[Contact, ...]) -> None:
        """Replace `endpoints.json`, in the thread; of several wishes only the newest is written."""
        is_asked, self._contacts = self._contacts is not None, contacts
        if is_asked or self.stopping:
            return

        def write() -> None:
            newest, self._contacts = self._contacts, None
            assert newest is not None
            write_contacts(self.disk, self.path, self.image.cluster_id, newest)

        def written(error: BaseException | None) -> None:
            if error is not None and not (isinstance(error, StorageError) and error.full):
                self._fail(error)

        self._thread.run(write, written)

    def write_snapshot(self, effect: WriteSnapshot) -> None:
        """Write a piece of a snapshot that the leader sends; not synced."""
        self._download.write(effect)

    def install_snapshot(self, effect: InstallSnapshot) -> None:
        """Freeze what was downloaded, in the thread; then the log begins anew after it.

        What cannot be read is thrown away, and the core is told.
        """
        job = self._download.job(effect)

        def installed(error: BaseException | None) -> None:
            if isinstance(error, CorruptRecordError):
                self._receive(SnapshotRejected(effect.snapshot, error.message))
                return
            if error is not None:
                self._fail(error)
                return
            try:
                self._begin_behind(effect.snapshot, job.content)
                sets = [self.log_view.voter_sets.default]  # (no snapshot names fixed voters)
                sets += [one.voters for one in job.content.entries if isinstance(one, VotersEntry)]
                here = SyncedEnd(effect.snapshot.epoch, effect.snapshot.end_offset, len(sets[-1]))
                self.synced_end.synced(max(here, self.log_view.synced_end))
            except StorageError as failure:
                self._fail(failure)
                return
            self._receive(SnapshotInstalled(effect.snapshot, effect.size, job.content.entries))

        self._thread.run(job.run, installed)

    def _begin_behind(self, at: SnapshotId, content: SnapshotContent) -> None:
        self.waiting.clear()
        self.log.truncate_fully_and_start_at(at.end_offset, self.clock.now())
        self.log.sync()
        snapshots.delete_snapshots_below(self.disk, self.path, at.end_offset)
        self.image = image_of(content, snapshots.SnapshotId(*at), self.image.cluster_id)
        self._on_image(self.image)

    # What the driver asks for.

    def give_piece(self, wanted: ReadSnapshot, give: Callable[[bytes | None], None]) -> None:
        """Read a piece of a snapshot for another node; `give(None)` where there is none to give.

        Before the first piece the whole file is checked, in the thread: a bad one is never given again,
        and a new one is due.
        """
        at = wanted.snapshot
        if wanted.position > 0 or at in self.bad_snapshots:
            give(self._piece(wanted))
            return
        found = ""

        def check() -> None:
            nonlocal found
            found = check_snapshot(self.disk, self.path, at)

        def checked(error: BaseException | None) -> None:
            if isinstance(error, StorageError):
                give(None)  # it was deleted meanwhile: there is a newer one
            elif error is not None:
                self._fail(error)
            else:
                if found:
                    self.bad_snapshots[at] = found
                give(self._piece(wanted))

        self._thread.run(check, checked)

    def _piece(self, wanted: ReadSnapshot) -> bytes | None:
        if wanted.snapshot in self.bad_snapshots:
            return None
        try:
            return read_piece(self.disk, self.path, wanted)
        except StorageError:
            return None

    def keep_reserve(self) -> None:
        """See that there is a reserve, in the thread."""
        if self.reserve.is_due(self.clock.now().mono) and not self.stopping:
            self._thread.run(self.reserve.make, self.reserve.made)

    def keep_point(self) -> None:
        """Raise the recovery point, in the thread, when it is due and there is more to vouch for."""
        mono = self.clock.now().mono
        if mono < self._point_due or self.stopping:
            return
        point = self._next_point()
        if point is None:
            return
        self._point_due = mono + POINT_EVERY_S

        def written(error: BaseException | None) -> None:
            if error is None:
                self.point = point
            elif not (isinstance(error, StorageError) and error.full):  # without room the old one still holds
                self._fail(error)

        self._thread.run(lambda: write_point(self.disk, self.path, point), written)

    def _next_point(self) -> RecoveryPoint | None:
        offset = min(self.log.durable_end_offset, self._committed)
        if offset <= self.point.offset or offset <= self.log_view.log_start:
            return None
        return RecoveryPoint(offset, self.log_view.epoch_at(offset - 1))

    def committed(self, high_watermark: Offset) -> list[Uncommitted]:
        """Take the batches that are below the high watermark by now, in order."""
        self.log.high_watermark = self._committed = high_watermark
        ready: list[Uncommitted] = []
        while self.waiting and self.waiting[0].batch.end_offset <= high_watermark:
            ready.append(self.waiting.popleft())
        return ready

    def close(self) -> None:
        """Write and sync what is left, close the files.  The thread must be idle."""
        self.log.close(self.clock.now())
        self.synced_end.close()
        point = self._next_point()
        if point is not None:
            write_point(self.disk, self.path, point)
            self.point = point

    def statistics(self) -> StoreStatistics:
        """A reading for metrics."""
        return StoreStatistics(
            self.log.log_end_offset,
            self.log.durable_end_offset,
            self.log.size,
            len(self.log_view.snapshots),
            self.syncs,
        )


def image_of(content: SnapshotContent, at: snapshots.SnapshotId, cluster_id: str) -> MetadataImage:
    """The image that a snapshot holds."""
    return image_from(
        content.records,
        cluster_id=cluster_id,
        end_offset=at.end_offset,
        epoch=at.epoch,
        timestamp_ms=content.last_contained_ms,
    )
