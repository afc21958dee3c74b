"""Reading records: `for message in Consumer("127.0.0.1:9092", "topic", start="earliest"): ...`.

Alone, a consumer reads the partitions it is assigned (all of its topics unless told).  With `group` it
shares them with the other members and goes on where the group stopped.  Fetching runs one request ahead;
offsets of a group are committed every few seconds and at the end, after the records were handed out.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from barnabas.client.both.awaited import at_once, awaited
from barnabas.client.both.membership import Reader
from barnabas.client.cluster import Cluster
from barnabas.client.consuming.fetched import FetchLimits
from barnabas.client.consuming.reading import COMMIT_INTERVAL, ConsumerStatistics, Message, Reading
from barnabas.client.membership import Membership
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets_at, special_time
from barnabas.client.prefetch import Prefetcher
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.forks import forked_since
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["Consumer", "ConsumerStatistics", "Message"]

_TURN = 0.2  # seconds between looks at the group and the topics while nothing comes


class Consumer(Reading):
    """`for message in Consumer("127.0.0.1:9092", "topic", start="earliest"): print(message.value)`.

    start: "latest" or "earliest": where to begin without a committed offset, and where to go on when the
    offset is gone ("error": raise OFFSET_OUT_OF_RANGE instead).  group: share the topics with others.
    isolation: "read_committed" hides open and aborted transactions.  auto_commit: with a group, commit by
    itself.  idle: iteration ends after so many seconds without a record (None: never).  One thread.
    security: TLS and login, options by Kafka's names.

    group_protocol: "classic", or "consumer" (KIP-848: the coordinator makes the assignments, and only the
    partitions that move stop).  With "consumer": pattern, topics that match it (RE2, beside those named), and
    assignor, one of the broker's.  instance_id: a static member, which comes back as the same one.
    on_revoked is called before partitions go, on_lost when they are gone already, on_assigned before the first
    record of new ones; each with a list of partitions, in the thread that reads.
    max_poll_interval: seconds for which a member may work between two polls; after them it leaves its group, and
    joins again with the next poll.  rebalance_timeout: seconds for which a rebalance waits for it (None: as long).
    metadata_max_age: seconds after which new partitions of its topics are seen at the latest.

    fetch_wait: seconds (at most half of `timeout`) for which a broker waits for fetch_min_bytes.  fetch_max_bytes,
    partition_max_bytes: what it sends at most, in all and of one partition.  rack: where this consumer runs; a
    replica there is read, where the brokers name one (KIP-392).
    """

    def _connect(
        self,
        bootstrap: str | Iterable[str],
        view: Mapping[str, Any],
        limits: FetchLimits,
        interval: PollInterval,
    ) -> None:
        self._cluster = Cluster(bootstrap, **view)
        self._prefetcher = Prefetcher(self._cluster, isolation=self._level, limits=limits)
        self._member: Membership | None = None
        if self._machine is not None:
            stable = self.isolation == READ_COMMITTED
            own = Cluster(bootstrap, **view)
            self._member = Membership(own, self._machine, stable=stable, interval=interval)
        self._commit_due = monotonic() + COMMIT_INTERVAL

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=kind is None)

    # -- what to read ----------------------------------------------------------------------------

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """`consumer.assign([("topic", 0)])`: read exactly these partitions, without a group."""
        self._check_alone("cannot choose its partitions")
        self._forget(list(self._positions))
        self._prefetcher.forget()
        self._ends, self._growth = {}, None
        self._read([TopicPartition(*p) for p in partitions])

    def assignment(self) -> list[TopicPartition]:
        """`consumer.assignment()` -> the partitions read now."""
        return sorted(self._fetched_to)

    def seek(self, topic: str, partition: int, offset: Offset | str) -> None:
        """`consumer.seek("topic", 0, 42)`: go on from there; also "earliest" or "latest"."""
        self._look(topic)
        target = TopicPartition(topic, partition)
        self._check_assigned(target)
        self._go_to(target, self._offsets_at([target], offset)[target] if isinstance(offset, str) else offset)

    def offsets_at(self, when: int | str) -> dict[TopicPartition, Offset]:
        """`consumer.offsets_at("latest")` -> the offset in each assigned partition.

        `when` is "earliest", "latest" or a time in ms since 1970; a time after the last record is the end.
        """
        self._look(*self.topics)
        found = self._offsets_at(list(self._fetched_to), when)
        late = [target for target, offset in found.items() if offset < 0]
        return found | self._offsets_at(late, LATEST)

    def seek_to_time(self, timestamp: int) -> None:
        """`consumer.seek_to_time(1700000000000)`: to the first records not older (ms since 1970)."""
        for target, offset in self.offsets_at(timestamp).items():
            self.seek(*target, offset)

    def stop_at(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """`consumer.stop_at({TopicPartition("t", 0): 42})`: read these partitions up to before the offset.

        Iteration ends once every partition that is read has reached its end.  Not for members of a group.
        """
        self._check_alone("reads without an end")
        self._look(*self.topics)
        self._end_at(ends)

    def position(self, topic: str, partition: int) -> Offset:
        """`consumer.position("topic", 0)` -> the offset of the next record handed out."""
        self._look(topic)
        return self._positions[TopicPartition(topic, partition)]

    # -- reading ---------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0, max_messages: int = 500) -> list[Message]:
        """`consumer.poll(1.0)` -> up to `max_messages` records; [] when none came in `timeout` seconds."""
        deadline = monotonic() + timeout
        self._look()
        while not self._ready:
            left = deadline - monotonic()
            if left < 0:
                return []
            self._fill(min(left, _TURN))
            self._look()
        return [self._hand_out() for _ in range(min(max_messages, len(self._ready)))]

    def __iter__(self) -> Iterator[Message]:
        """All records from here on; ends only when `idle` or `stop_at` says so."""
        self._look()
        last = monotonic()  # (joining a group, or asking where to begin, is not idle)
        while True:
            self._look()
            if not self._ready:
                if self._finished:
                    return
                self._fill(_TURN if self.idle is None else min(_TURN, self.idle))
                if self._prefetcher.outdated(self._to_fetch()):
                    last = monotonic()
                if not self._ready and self.idle is not None and monotonic() - last >= self.idle:
                    return
                continue
            while self._ready:
                yield self._hand_out()
                if self._member is not None:
                    self._member.polled()
                    if self._member.must_join:
                        break
            last = monotonic()

    def _fill(self, timeout: float) -> None:
        wanted = self._to_fetch()
        if not wanted:
            time.sleep(timeout)
            return
        for target, error in self._took(self._prefetcher.poll(wanted, timeout)):
            self._check_gone(error)
            self.seek(*target, self.start)

    # -- the assignment --------------------------------------------------------------------------

    def _look(self, *asked: str) -> None:
        """Follow the group, or the growth of the topics, where needed; commit when it is time.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION if one of the topics `asked` about is not there.
        """
        self._check_open()
        member = self._member
        if self._rebalancing:  # a listener asks
            return
        if member is None:
            self._look_for_growth(*asked)
            return
        member.polled()
        if member.must_join:
            self._rebalancing = True
            try:
                at_once(member.rebalance(Reader(awaited(self._release), awaited(self._acquire))))
            finally:
                self._rebalancing = False
        elif self._auto_commit and monotonic() >= self._commit_due:
            self._commit_quietly()

    def _look_for_growth(self, *asked: str) -> None:
        """Read all partitions of the topics, also those that come later."""
        growth = self._growth
        if growth is None:
            return
        if not self._ends and growth.due(monotonic(), asked):
            try:
                there = self._cluster.find(self.topics)
                self._read(growth.new(there), EARLIEST if growth.begun else self.start)
                growth.looked(there, monotonic())
            except BarnabasError:  # the next look may succeed
                growth.later(monotonic())
                if not growth.begun:
                    raise
        growth.check(asked)

    def _release(self, partitions: Collection[TopicPartition] | None, *, lost: bool) -> None:
        """These partitions (None: all) are another member's from now on, or already."""
        mine = sorted(self._positions if partitions is None else partitions)
        if not mine:
            return
        if self._auto_commit and not lost:
            self._commit_quietly()
        tell = self._listener.on_lost if lost else self._listener.on_revoked
        if tell is not None:
            tell(mine)
        self._forget(mine)

    def _acquire(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, too, from where the group has committed."""
        self._read(list(partitions))
        if self._listener.on_assigned is not None:
            self._listener.on_assigned(sorted(partitions))

    def _read(self, targets: list[TopicPartition], start: str = "") -> None:
        points = at_once(self._member.committed(targets)) if self._member is not None and targets else {}
        missing = [target for target in targets if target not in points]
        where = EARLIEST if (start or self.start) == EARLIEST else LATEST
        self._begin(points | self._offsets_at(missing, where))

    def _offsets_at(self, targets: list[TopicPartition], when: int | str) -> dict[TopicPartition, Offset]:
        """The offset of each partition at a time, asked of the leaders; -1 where no record is that young."""
        if not targets:
            return {}
        question = dict.fromkeys(targets, special_time(when))
        [found] = list_offsets_at(self._cluster, [question], isolation=self.isolation)
        return {target: found[target].offset for target in targets}

    # -- committing ------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        """`consumer.commit()`: everything handed out so far counts as done for the group.

        Raises KafkaError (ILLEGAL_GENERATION and the like when the partitions are another member's now).
        """
        if self._member is None:
            raise BarnabasError(
                "only a member of a group can commit", next_step="give the consumer a `group`"
            )
        chosen = self._to_commit(offsets)
        at_once(self._member.commit(chosen))
        self._committed.update(chosen)
        self._commit_due = monotonic() + COMMIT_INTERVAL

    def committed(self) -> dict[TopicPartition, Offset]:
        """`consumer.committed()` -> what the group has committed of the assigned partitions."""
        if self._member is None:
            return {}
        self._look()
        return at_once(self._member.committed(self._fetched_to))

    def _commit_quietly(self) -> None:
        """Commit without raising: what cannot be committed now is read again by the next consumer."""
        self._commit_due = monotonic() + COMMIT_INTERVAL
        with contextlib.suppress(BarnabasError):
            self.commit()

    def close(self, *, commit: bool = True) -> None:
        """`consumer.close()`: commit what was handed out, leave the group, close connections."""
        if self._closed:
            return
        if forked_since(self._made):
            self._closed = True  # the membership and the connections are the parent's
            return
        if self._member is not None:
            self._rebalancing = True  # it leaves
            self._auto_commit = self._auto_commit and commit
            self._release(None, lost=self._member.member.lost)
            at_once(self._member.leave())
            at_once(self._member.cluster.close())
        self._closed = True
        self._prefetcher.forget()
        self._cluster.close()
