"""Following: what this node fetches from another broker, and what it does with the answers.

A `Follower` is all that this node fetches from one leader, as a function of messages and time:

    request = follower.next_request(now)        # None: nothing to ask, or syncs are awaited
    follower.received(request, answer, now)     # appends; written and synced at the end of the loop step
    follower.failed(now)                        # the connection ended: start over

While nothing happens but that records come, `next_rows` and `received_rows` do the same without messages: the
request differs from the last one in the session's epoch and the positions that moved.

The next fetch leaves when our own log has acknowledged everything that the last one brought.  With the
default this means synced, so a fetch from an offset guarantees that everything below survives a power cut
here.  (Partitions of one leader wait for each other's syncs; they share them.)

The fetch itself finds where logs diverge (KIP-320, KIP-595). It names the epoch of our last record; the
leader answers where that epoch ended in its log, and we truncate to where the two histories agree (KIP-101,
KIP-279). The high watermark never truncates anything, and nothing below it is truncated at the word of a leader
whose log is too short (`refusals`).

With a fetch session (KIP-227) the cost depends only on changes: a request names only partitions whose position
moved.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.replicas.following.followed import Followed, FollowerStatistics, Key, where_to_begin
from barnabas.broker.sessions import next_epoch
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, StorageError
from barnabas.model import NodeId, Now, Offset, Uuid
from barnabas.ports import Buffer
from barnabas.wire.plane.fetch_asked import AskedRow
from barnabas.wire.plane.fetch_told import HeardRow
from barnabas.wire.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.schemas.offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partitions import HostedPartitions
    from barnabas.broker.replicas.partition import Partition

__all__ = ["Follower"]

_FIRST_PAUSE_S = 0.02
"""Seconds that a partition rests after its first error: the leader may not know yet that it leads."""
_LATEST, _EARLIEST = -1, -2
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
_PARTITIONS_PER_FETCH = 200
"""Partitions that one fetch names: more of them would hold the leader's loop, and ours.  Others follow at once."""
_SESSION_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class Follower:
    """What this node fetches from one leader.  `now.mono` counts its pauses, in seconds."""

    __slots__ = (
        "_asked_as",
        "_broker",
        "_forget",
        "_lost",
        "_most",
        "_news",
        "_resting",
        "_session",
        "_sessionless",
        "_told",
        "_unsafe",
        "bytes",
        "errors",
        "fetches",
        "leader",
        "partitions",
        "session_epoch",
        "truncations",
    )

    def __init__(self, broker: HostedPartitions, leader: NodeId) -> None:
        self._broker = broker
        self.leader = leader
        self.partitions: dict[Key, Followed] = {}
        self._news: dict[Key, Followed] = {}
        self._told: dict[Key, Followed] = {}
        self._forget: dict[Key, None] = {}
        self._resting: dict[Key, float] = {}
        self._lost: dict[Key, int] = {}
        self._unsafe: dict[Followed, None] = {}
        self._session = 0
        self.session_epoch = 0
        """What the next fetch of the session carries; 0: it begins one."""
        self._sessionless = False
        """Whether the leader keeps no session for us: every fetch has to name everything."""
        self._asked_as = -1
        """The broker epoch that the last request made of objects named."""
        self._most = 0
        """The bytes of a partition that it asked for at most."""
        self.fetches = self.bytes = self.truncations = self.errors = 0

    # ---- which partitions --------------------------------------------------------------------------------

    def add(self, partition: Partition) -> Followed:
        """Follow it from now on in its present leader epoch."""
        followed = Followed(self, partition)
        self._drop(followed.key)
        self.partitions[followed.key] = self._news[followed.key] = followed
        if partition.log.acknowledged_end_offset < partition.log.log_end_offset:
            self._unsafe[followed] = None  # what an earlier leader sent is on its way to the disk
            partition.touch()
        self._broker.host.fetch_from(self.leader)
        return followed

    def remove(self, followed: Followed) -> None:
        """Follow it no longer."""
        if self.partitions.get(followed.key) is followed:
            self._drop(followed.key)
            self._broker.host.fetch_from(self.leader)

    def _drop(self, key: Key) -> None:
        followed = self.partitions.pop(key, None)
        if followed is not None:
            self._unsafe.pop(followed, None)
        self._resting.pop(key, None)
        self._lost.pop(key, None)
        self._leave_out(key)

    def _leave_out(self, key: Key) -> None:
        self._news.pop(key, None)
        if self._told.pop(key, None) is not None:
            self._forget[key] = None

    @property
    def has_news(self) -> bool:
        """Whether something changed that the fetch under way does not say yet."""
        return bool(self._news or self._forget)

    def moved(self, followed: Followed) -> None:
        """Its position moved: the next fetch tells the leader."""
        key = followed.key
        if self.partitions.get(key) is followed and key not in self._resting and key not in self._lost:
            self._news[key] = followed

    def pause(self, followed: Followed, paused: bool) -> None:
        """Its disk has no room, or has room again."""
        if self.partitions.get(followed.key) is not followed:
            return
        self._leave_out(followed.key)
        if paused:
            self._resting[followed.key] = inf
        else:
            self._resting.pop(followed.key, None)
            self.moved(followed)
        self._broker.host.fetch_from(self.leader)

    def safe(self, followed: Followed) -> None:
        """Everything it appended is acknowledged by our log."""
        if self._unsafe.pop(followed, True) is None and not self._unsafe:
            self._broker.host.fetch_from(self.leader)

    # ---- asking ------------------------------------------------------------------------------------------

    def next_request(self, now: Now) -> FetchRequest | ListOffsetsRequest | None:
        """What to ask the leader next; None while nothing is followed, everything rests, or syncs run."""
        if self._unsafe:
            return None
        for key in [key for key, until in self._resting.items() if until <= now.mono]:
            del self._resting[key]
            self._news[key] = self.partitions[key]
        if self._broker.follower_quota.limited:
            self._hold_throttled(now)
        if self._lost:
            lost = [(self.partitions[key], timestamp) for key, timestamp in self._lost.items()]
            return where_to_begin(self._broker.node_id, lost)
        if self.session_epoch == 0:
            self._news = {k: f for k, f in self.partitions.items() if k not in self._resting}
            self._told = {}
            self._forget.clear()
        asked, self._news = self._news, {}
        if len(asked) > _PARTITIONS_PER_FETCH and not self._sessionless:
            rows = list(asked.items())
            asked, self._news = dict(rows[:_PARTITIONS_PER_FETCH]), dict(rows[_PARTITIONS_PER_FETCH:])
        self._told.update(asked)
        if not self._told:
            if self.session_epoch:
                self.session_epoch = 0
            return None
        request = self._fetch(asked)
        self._forget = {}
        self.fetches += 1
        return request

    def next_rows(self) -> list[AskedRow] | None:
        """The positions that moved, where the next fetch says nothing else; None: see `next_request`."""
        asked, broker = self._news, self._broker
        if self._unsafe or self._resting or self._lost or self._forget or not self.session_epoch:
            return None
        if len(asked) > _PARTITIONS_PER_FETCH or not (asked or self._told):
            return None
        if broker.epoch != self._asked_as or broker.follower_quota.limited:
            return None
        self._news = {}
        self._told.update(asked)
        self.fetches += 1
        most = self._most
        rows: list[AskedRow] = []
        for (topic_id, index), followed in asked.items():
            partition, log = followed.partition, followed.partition.log
            epoch, end = partition.leader_epoch, log.log_end_offset
            followed.sent = (epoch, end)
            last = log.epochs.latest
            rows.append((topic_id, index, epoch, end, last, log.log_start_offset, most))
        return rows

    def _hold_throttled(self, now: Now) -> None:
        """Throttled partitions that are not in sync wait until the rate allows more (KIP-73)."""
        quota = self._broker.follower_quota
        asked = self._news if self.session_epoch else self.partitions
        for key, followed in list(asked.items()):
            partition = followed.partition
            if key in self._resting or not partition.settings.follower_throttled or not quota.exceeded(now):
                continue
            if not 0 <= followed.high_watermark <= partition.log.log_end_offset:
                self._leave_out(key)
                self._resting[key] = min(quota.free_at(now), now.mono + 1.0) + 0.001

    def next_time(self) -> float:
        """When `next_request` may have something without anything else happening (mono s; inf: never)."""
        return inf if self._unsafe else min(self._resting.values(), default=inf)

    def _fetch(self, asked: dict[Key, Followed]) -> FetchRequest:
        broker = self._broker
        self._asked_as, self._most = broker.epoch, broker.config.int("replica.fetch.max.bytes")
        topics: dict[Uuid, list[FetchPartition]] = {}
        for (topic_id, _), followed in asked.items():
            topics.setdefault(topic_id, []).append(self._position(followed))
        forgotten: dict[Uuid, list[int]] = {}
        for topic_id, index in self._forget:
            if (topic_id, index) not in self._told:
                forgotten.setdefault(topic_id, []).append(index)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=broker.node_id, replica_epoch=broker.epoch),
            max_wait_ms=0 if self._news else broker.config.int("replica.fetch.wait.max.ms"),
            min_bytes=broker.config.int("replica.fetch.min.bytes"),
            max_bytes=broker.config.int("replica.fetch.response.max.bytes"),
            session_id=self._session,
            session_epoch=self.session_epoch,
            topics=[FetchTopic(topic_id=t, partitions=rows) for t, rows in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic_id=t, partitions=p) for t, p in forgotten.items()],
        )

    def _position(self, followed: Followed) -> FetchPartition:
        partition, log = followed.partition, followed.partition.log
        followed.sent = (partition.leader_epoch, log.log_end_offset)
        return FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.latest_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self._most,
        )

    # ---- being answered ----------------------------------------------------------------------------------

    def failed(self, now: Now) -> None:
        """The connection ended, or no answer came: the next fetch names everything anew."""
        self.session_epoch = 0
        for followed in self.partitions.values():
            followed.sent = None

    def received(
        self,
        request: FetchRequest | ListOffsetsRequest,
        answer: FetchResponse | ListOffsetsResponse,
        now: Now,
    ) -> None:
        """The leader answered.  What it appends is written and synced at the end of the loop step."""
        if isinstance(answer, ListOffsetsResponse):
            self._begin_at(answer, now)
            return
        assert isinstance(request, FetchRequest)
        if answer.error_code:
            self.errors += 1
            self.failed(now)
            if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session = 0
            elif answer.error_code not in _SESSION_LOST:
                for one in self.partitions.values():
                    self._rest(one, now)
            return
        self._session = answer.session_id
        self._sessionless = not answer.session_id
        self.session_epoch = next_epoch(request.session_epoch) if answer.session_id else 0
        for topic in answer.responses:
            for data in topic.partitions:
                followed = self.partitions.get((topic.topic_id, data.partition_index))
                if followed is not None and self._is_current(followed):
                    self._guarded(followed, data, now)

    def received_rows(self, rows: list[HeardRow], now: Now) -> None:
        """The leader answered a fetch of `next_rows`, and all is well."""
        self.session_epoch = next_epoch(self.session_epoch)
        for topic_id, index, high_watermark, log_start, records in rows:
            followed = self.partitions.get((topic_id, index))  # type: ignore[arg-type]  # bytes are equal to it
            if followed is not None and self._is_current(followed):
                try:
                    self._take_records(followed, high_watermark, log_start, records, now)
                except (StorageError, CorruptRecordError) as error:
                    self._not_appended(followed, error, now)

    def _is_current(self, followed: Followed) -> bool:
        """Whether nothing changed since we asked.  Otherwise the answer is ignored."""
        partition = followed.partition
        here = (partition.leader_epoch, partition.log.log_end_offset)
        return followed.sent == here and partition.followed is followed and not partition.offline

    def _guarded(self, followed: Followed, data: PartitionData, now: Now) -> None:
        try:
            self._take(followed, data, now)
        except (StorageError, CorruptRecordError) as error:
            self._not_appended(followed, error, now)

    def _not_appended(self, followed: Followed, error: StorageError | CorruptRecordError, now: Now) -> None:
        """What the leader told of a partition could not be put into our log."""
        partition = followed.partition
        if isinstance(error, CorruptRecordError):
            self.errors += 1
            self._rest(followed, now)
            self._broker.host.not_replicated(partition.topic, partition.index, error)
            return
        self._broker.storage_failed(partition, error, now)
        if error.full:
            self._unsafe[followed] = None  # a part of it may have found room
            partition.touch()
            if not partition.no_room:
                self._rest(followed, now)

    def _take_records(
        self, followed: Followed, high_watermark: Offset, log_start: Offset, records: Buffer, now: Now
    ) -> None:
        followed.high_watermark = high_watermark
        if len(records):
            self._append(followed, records, log_start, now)
        followed.failures = 0
        followed.start = log_start
        followed.partition.touch()

    def _take(self, followed: Followed, data: PartitionData, now: Now) -> None:
        error = data.error_code
        if error == ErrorCode.NONE:
            if data.diverging_epoch.end_offset >= 0:
                followed.failures = 0
                self._cut_back(followed, data.diverging_epoch.epoch, data.diverging_epoch.end_offset, now)
                return
            records = data.records or b""
            assert isinstance(records, bytes | bytearray | memoryview)
            self._take_records(followed, data.high_watermark, data.log_start_offset, records, now)
            return
        self.errors += 1
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leave_out(followed.key)
            self._lost[followed.key] = _LATEST
        elif error == ErrorCode.FENCED_LEADER_EPOCH:
            self._leave_out(followed.key)
            self._resting[followed.key] = inf  # until the metadata names another epoch
        else:
            self._rest(followed, now)

    def _rest(self, followed: Followed, now: Now) -> None:
        """Leave it out for a while: a little after the first error, replica.fetch.backoff.ms in the end."""
        longest = self._broker.config.int("replica.fetch.backoff.ms") / 1000.0
        pause = min(longest, _FIRST_PAUSE_S * 2.0 ** min(followed.failures, 16))
        if followed.partition.no_room:
            pause = inf  # until there is room
        followed.failures += 1
        self._leave_out(followed.key)
        self._resting[followed.key] = now.mono + pause

    def _append(self, followed: Followed, records: Buffer, log_start: Offset, now: Now) -> None:
        """Put what came after our end; `log_start`: the leader's.  Raises CorruptRecordError, StorageError."""
        partition, log = followed.partition, followed.partition.log
        if log.log_end_offset <= max(log.log_start_offset, log_start):
            base = int.from_bytes(memoryview(records)[:8], "big")
            if base < log.log_end_offset:
                # Records were deleted up to the middle of a batch, which can only be had whole.  All that we
                # have lies before, and need not be what the leader had there.
                log.truncate_fully_and_start_at(base, now)
        appended = log.append_as_follower(records, now, leader_epoch=partition.leader_epoch)
        if appended is not None:
            self.bytes += len(records)
            if partition.settings.follower_throttled:
                self._broker.follower_quota.record(len(records), now)
            self._unsafe[followed] = None
            self.moved(followed)
        else:
            self._rest(followed, now)  # of an epoch that we do not know yet, or so its header says

    def _cut_back(self, followed: Followed, epoch: int, end: Offset, now: Now) -> None:
        """The leader's log of our last epoch ended at `end`: keep what both have, forget the rest."""
        log = followed.partition.log
        _, here = log.end_offset_for_epoch(epoch)
        target = min(end if here < 0 else here, end, log.log_end_offset)
        if self._broker.refusals.refuses(followed.partition, target, now):
            self._rest(followed, now)
            return
        before = log.log_end_offset
        log.truncate_to(target, now)
        log.epochs.truncate_from_end(target)  # an epoch that never had a record goes too
        self._was_cut(followed, before)

    def _was_cut(self, followed: Followed, before: Offset) -> None:
        partition = followed.partition
        self.truncations += 1
        partition.high_watermark = partition.log.high_watermark
        self.moved(followed)
        self._broker.truncated(partition, before)
        if partition.log.acknowledged_end_offset < partition.log.log_end_offset:
            self._unsafe[followed] = None
        partition.touch()

    def _begin_at(self, answer: ListOffsetsResponse, now: Now) -> None:
        """Our end is not in the leader's log: truncate to its end, or start anew at its start."""
        found = {(t.name, row.partition_index): row for t in answer.topics for row in t.partitions}
        for key in list(self._lost):
            followed = self.partitions[key]
            partition, log = followed.partition, followed.partition.log
            row = found.get((partition.topic, partition.index))
            if row is None or not self._is_current(followed):
                continue
            timestamp = self._lost.pop(key)
            if row.error_code:
                self._rest(followed, now)
                continue
            before = log.log_end_offset
            try:
                if timestamp == _LATEST and self._broker.refusals.refuses(partition, row.offset, now):
                    self._rest(followed, now)
                elif timestamp == _LATEST and row.offset < before:
                    log.truncate_to(row.offset, now)
                    self._was_cut(followed, before)
                elif timestamp == _LATEST:
                    self._lost[key] = _EARLIEST
                elif row.offset > before:
                    log.truncate_fully_and_start_at(row.offset, now)
                    self._was_cut(followed, before)
                else:
                    self._rest(followed, now)
            except StorageError as error:
                self._broker.storage_failed(partition, error, now)
                if error.full and not partition.no_room:
                    self._rest(followed, now)
            except KafkaError as error:
                self._broker.storage_failed(partition, StorageError(str(error)), now)

    # ---- views -------------------------------------------------------------------------------------------

    def statistics(self) -> FollowerStatistics:
        return FollowerStatistics(
            self.leader,
            len(self.partitions),
            len(self._resting) + len(self._lost),
            self.fetches,
            self.bytes,
            self.truncations,
            self.errors,
        )

    def __repr__(self) -> str:
        return (
            f"<Follower of {self.leader} partitions={len(self.partitions)} session={self._session}"
            f":{self.session_epoch} unsafe={len(self._unsafe)}>"
        )
