"""What is read from the cores when somebody looks: gauges under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from barnabas.server.observe.metrics import Gauge, Metric, Metrics, Reading, sample_of

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.transactions.coordinator import Transactions
    from barnabas.controller.image import MetadataImage
    from barnabas.log.directories.log_directories import LogDirectories
    from barnabas.ports import Clock
    from barnabas.server.loop.runtime import Runtime
    from barnabas.server.net.network import Network

__all__ = ["register_gauges"]

MOST_PARTITIONS = 2000
"""Partitions that get gauges of their own; a scrape must not grow without limit."""
LATE_TRANSACTION_S = 300
"""How long after transaction.max.timeout.ms a transaction counts as late, as in Apache Kafka."""


def register_gauges(
    network: Network,
    image: MetadataImage,
    broker: Broker,
    groups: Groups,
    transactions: Transactions,
    logs: LogDirectories,
) -> None:
    """Give the node's metrics the gauges of a broker."""
    runtime, memory = network.runtime, network.memory
    metrics, clock = runtime.metrics, runtime.clock
    read: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
         "Partitions led here with a transaction that its coordinator should have ended long ago",
         lambda: _late_transactions(broker, runtime)),
        ("kafka.server:type=broker-metadata-metrics,name=last-applied-record-offset", "Metadata applied",
         lambda: image.offset),
        ("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", "Log directories offline",
         lambda: len(logs.missing())),
        ("kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups", "Consumer groups coordinated",
         lambda: groups.statistics().groups),
        ("kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets", "Positions of these groups",
         lambda: groups.statistics().offsets),
        ("barnabas:type=Groups,name=Unreadable", "Records of groups that could not be read and were left out",
         lambda: groups.statistics().unreadable),
        ("barnabas:type=Memory,name=Used", "Bytes held for clients", lambda: memory.used),
        ("barnabas:type=Memory,name=Peak", "Most bytes ever held for clients", lambda: memory.peak),
        ("barnabas:type=Memory,name=Limit", "Bytes that may be held for clients", lambda: memory.limit),
        ("barnabas:type=Memory,name=Pauses", "Times that reading paused for want of memory",
         lambda: memory.pauses),
        ("barnabas:type=Broker,name=SyncsInFlight", "Syncs in flight", lambda: runtime.step.syncer.in_flight),
    )  # fmt: skip
    for name, meaning, reader in read:
        metrics.gauge(name, meaning, reader)
    _register_transactions(metrics, transactions)
    metrics.collect(lambda: _of_broker(broker))
    metrics.collect(lambda: _of_cleaner(broker, clock))
    metrics.collect(lambda: _of_partitions(broker))
    metrics.collect(lambda: _of_directories(broker, logs))


def _late_transactions(broker: Broker, runtime: Runtime) -> int:
    """How many partitions have a transaction that is open for longer than any may be, and some (KIP-664)."""
    now = runtime.clock.now()
    most_s = runtime.config.int("transaction.max.timeout.ms") / 1000 + LATE_TRANSACTION_S
    led = (partition for partition in broker.partitions() if partition.is_leader and not partition.offline)
    return sum(partition.log.producers.has_late_transaction(now, most_s) for partition in led)


def _register_transactions(metrics: Metrics, transactions: Transactions) -> None:
    read: tuple[tuple[str, str, Callable[[], float]], ...] = (
        ("kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize",
         "Ends of transactions whose last record is written again", lambda: transactions.statistics().unwritten),
        ("barnabas:type=Transactions,name=Markers", "Partitions that have no marker of an ended transaction yet",
         lambda: transactions.markers.statistics().partitions),
        ("barnabas:type=Transactions,name=Ids", "Transactional ids coordinated",
         lambda: transactions.statistics().ids),
        ("barnabas:type=Transactions,name=Open", "Transactions that are open",
         lambda: transactions.statistics().ongoing),
        ("barnabas:type=Transactions,name=Ending", "Transactions whose end is decided and not complete",
         lambda: transactions.statistics().ending),
        ("barnabas:type=Transactions,name=TimedOut", "Transactions aborted because their time was over",
         lambda: transactions.timed_out),
        ("barnabas:type=Transactions,name=Unreadable", "Records of transactions that were left out",
         lambda: transactions.log.unreadable),
    )  # fmt: skip
    for name, meaning, reader in read:
        metrics.gauge(name, meaning, reader)


def _of_broker(broker: Broker) -> Iterator[Metric]:
    """Partitions and sessions of this broker, from one walk over them."""
    now = broker.statistics()
    read: tuple[tuple[str, str, float], ...] = (
        ("kafka.server:type=ReplicaManager,name=PartitionCount", "Partitions hosted", now.partitions),
        ("kafka.server:type=ReplicaManager,name=LeaderCount", "Partitions led", now.leading),
        ("kafka.server:type=ReplicaManager,name=OfflineReplicaCount", "Replicas offline", now.offline),
        (
            "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount",
            "Partitions that refuse acks=all",
            now.under_min_isr,
        ),
        (
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
            "Fetch sessions",
            now.sessions[0],
        ),
        ("barnabas:type=Broker,name=Waiters", "Requests that wait", now.waiting),
    )
    for name, meaning, value in read:
        yield Gauge(name, meaning, partial(float, value))


def _of_cleaner(broker: Broker, clock: Clock) -> Iterator[Metric]:
    """What compaction has to do and did, from one look at it."""
    now = broker.maintenance.cleaner.statistics(clock.now())
    read: tuple[tuple[str, str, float], ...] = (
        (
            "LogCleanerManager,name=max-dirty-percent",
            "Largest uncompacted part of a log, in percent",
            100 * now.dirtiest,
        ),
        (
            "LogCleanerManager,name=uncleanable-partitions-count",
            "Logs that cannot be compacted",
            now.set_aside,
        ),
        (
            "LogCleanerManager,name=time-since-last-run-ms",
            "Milliseconds since a log was compacted",
            1000 * now.idle_seconds,
        ),
        (
            "LogCleaner,name=max-clean-time-secs",
            "Seconds that the last round of compaction took",
            now.last_seconds,
        ),
        (
            "LogCleaner,name=max-buffer-utilization-percent",
            "Memory for keys that it used, in percent",
            100 * now.last_utilization,
        ),
        (
            "LogCleaner,name=cleaner-recopy-percent",
            "Bytes that it wrote of those it read, in percent",
            100 * now.written_bytes / now.read_bytes if now.read_bytes else 0,
        ),
        (
            "LogCleaner,name=max-compaction-delay-secs",
            "Seconds for which a record waits beyond its time",
            now.overdue_seconds,
        ),
    )
    for name, meaning, value in read:
        yield Gauge(f"kafka.log:type={name}", meaning, partial(float, value))
    scrubber = broker.maintenance.scrubber
    yield Gauge(
        "barnabas:type=Scrubber,name=ReadBytes",
        "Bytes of segments read to find rot",
        partial(float, scrubber.read_bytes),
    )
    yield Gauge(
        "barnabas:type=Scrubber,name=Rounds",
        "Times that every segment was read",
        partial(float, scrubber.rounds),
    )
    yield Gauge(
        "barnabas:type=Replicas,name=Incomplete",
        "Replicas that lack records",
        partial(float, len(broker.lacking)),
    )


def _of_directories(broker: Broker, logs: LogDirectories) -> Iterator[Metric]:
    """Whether each log directory is there, and the room on its volume."""
    missing = logs.missing()
    for path in dict.fromkeys((*(directory.path for directory in logs.directories), *missing)):
        tag = f",logDirectory={path.replace(',', '_')}"
        gone = partial(float, path in missing)
        yield Gauge(f"kafka.log:type=LogManager,name=LogDirectoryOffline{tag}", "1: offline", gone)
        if (space := broker.space.known.get(path)) is not None and path not in missing:
            for name, meaning, value in (
                ("FreeBytes", "Bytes free on the volume of a log directory", space.free),
                ("ReserveBytes", "Bytes of it that are kept free", space.reserve),
                ("Full", "1: records are refused there for want of room", space.full),
            ):
                yield Gauge(f"barnabas:type=Disk,name={name}{tag}", meaning, partial(float, value))


_OF_LOG = (
    ("kafka_log_Log_LogEndOffset", "Offset of the next record"),
    ("kafka_log_Log_LogStartOffset", "Offset of the first record"),
    ("kafka_log_Log_Size", "Bytes of the log"),
    ("kafka_cluster_Partition_LastStableOffsetLag", "Offsets that readers of committed records wait for"),
)


@lru_cache(maxsize=2 * MOST_PARTITIONS)
def _samples(topic: str, index: int) -> tuple[str, ...]:
    """The lines of a partition without their values: to make them anew would be most of a scrape."""
    labels = {"topic": topic, "partition": str(index)}
    return tuple(sample_of(name, labels, counter=False) for name, _ in _OF_LOG)


def _of_partitions(broker: Broker) -> Iterator[Metric]:
    """The end, the start and the size of each partition's log; where it is led, how far transactions hold back."""
    for partition in islice(broker.partitions(), MOST_PARTITIONS):
        log = partition.log
        values = [log.log_end_offset, log.log_start_offset, log.size]
        if partition.is_leader:
            values.append(partition.high_watermark - partition.last_stable_offset)
        samples = _samples(partition.topic, partition.index)
        for (name, meaning), sample, value in zip(_OF_LOG, samples, values, strict=False):
            yield Reading(name, meaning, sample, value, counter=False)
