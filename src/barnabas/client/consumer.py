"""Reading records: `for message in Consumer("127.0.0.1:9092", "topic", start="earliest"): ...`.

Alone, a consumer reads the partitions it is assigned (all of its topics unless told).  With `group` it
shares them with the other members and goes on where the group stopped.  Fetching runs one request ahead;
offsets of a group are committed every few seconds and at the end, after the records were handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Literal

from barnabas.client.both.awaited import at_once
from barnabas.client.both.consumer import TURN_S, Consuming
from barnabas.client.cluster import Cluster
from barnabas.client.consuming.fetched import Fetched, FetchLimits
from barnabas.client.consuming.reading import ConsumerStatistics, Message
from barnabas.client.membership import Membership
from barnabas.client.offsets import READ_COMMITTED
from barnabas.client.prefetch import Prefetcher
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.model import Offset, TopicPartition

__all__ = ["Consumer", "ConsumerStatistics", "Message"]


class Consumer(Consuming):
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

    AWAITED: ClassVar[Literal[False]] = False
    """See `either_way`."""

    def _connect(
        self,
        bootstrap: str | Iterable[str],
        view: Mapping[str, Any],
        limits: FetchLimits,
        interval: PollInterval,
    ) -> None:
        cluster = Cluster(bootstrap, **view)
        self._cluster = cluster.awaited
        self._prefetcher = Prefetcher(cluster, isolation=self._level, limits=limits)
        self._member = None
        if self._machine is not None:
            stable = self.isolation == READ_COMMITTED
            own = Cluster(bootstrap, **view)
            self._member = Membership(own, self._machine, stable=stable, interval=interval)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=kind is None)

    async def _fetch(self, wanted: dict[TopicPartition, Offset], seconds: float) -> list[Fetched]:
        return self._prefetcher.poll(wanted, seconds)

    async def _drop_fetches(self) -> None:
        self._prefetcher.forget()

    def assignment(self) -> list[TopicPartition]:
        """`consumer.assignment()` -> the partitions read now."""
        return sorted(self._fetched_to)

    def poll(self, timeout: float = 1.0, max_messages: int = 500) -> list[Message]:
        """`consumer.poll(1.0)` -> up to `max_messages` records; [] when none came in `timeout` seconds."""
        if not self._nothing_due() or not self._ready:
            at_once(self._gather(timeout))
        return self._hand_out_up_to(max_messages)

    def __iter__(self) -> Iterator[Message]:
        """All records from here on; ends only when `idle` or `stop_at` says so."""
        at_once(self._look())
        last = monotonic()  # (joining a group, or asking where to begin, is not idle)
        while True:
            at_once(self._look())
            if not self._ready:
                if self._finished:
                    return
                at_once(self._fill(TURN_S if self.idle is None else min(TURN_S, self.idle)))
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
