"""What each topic takes and gives, how in-sync sets change, how far groups are, what the process uses.

All is counted where it happens, as plain ints, and added up when somebody looks.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.model import TopicPartition
from barnabas.server.observe.metrics import Counter, Metric, Reading, sample_of

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.replicas.broker import Broker
    from barnabas.server.observe.metrics import Metrics

__all__ = ["MOST_POSITIONS", "MOST_TOPICS", "process_readings", "register_traffic_gauges"]

MOST_TOPICS = 500
MOST_POSITIONS = 2000
"""Topics, and positions of groups, that a scrape shows."""
_STARTED = time.time()
_PAGE = resource.getpagesize()


def register_traffic_gauges(metrics: Metrics, broker: Broker, groups: Groups) -> None:
    """Give the node's metrics those of its topics, its in-sync sets, its groups and its process."""
    base = "kafka.server:type=ReplicaManager,name="
    metrics.collect(lambda: _of_topics(broker))
    metrics.collect(lambda: _of_groups(broker, groups))
    metrics.collect(process_readings)

    def in_sync() -> Iterator[Metric]:
        yield _counted(f"{base}IsrShrinksPerSec", "Replicas that left an in-sync set", broker.in_sync.shrinks)
        yield _counted(
            f"{base}IsrExpandsPerSec", "Replicas that joined an in-sync set", broker.in_sync.expansions
        )

    metrics.collect(in_sync)


def _counted(mbean: str, meaning: str, value: int) -> Counter:
    """A counter under Kafka's name that somebody else counted."""
    counter = Counter(mbean, meaning)
    counter.value = value
    return counter


def _of_topics(broker: Broker) -> Iterator[Metric]:
    """Kafka's BrokerTopicMetrics of each topic of which this node has a partition."""
    sums: dict[str, list[int]] = {}
    everything = 0
    for partition in broker.partitions():
        everything += partition.leading.traffic.bytes_out
        found = sums.get(partition.topic)
        if found is None:
            if len(sums) == MOST_TOPICS:
                continue
            found = sums[partition.topic] = [0, 0, 0]
        found[0] += partition.leading.traffic.records_in
        found[1] += partition.leading.traffic.bytes_in
        found[2] += partition.leading.traffic.bytes_out
    base = "kafka.server:type=BrokerTopicMetrics,name="
    yield _counted(f"{base}BytesOutPerSec", "Bytes of records sent to clients", everything)
    for topic, (records, bytes_in, bytes_out) in sums.items():
        yield _counted(
            f"{base}MessagesInPerSec,topic={topic}", "Records received, as their batches say", records
        )
        yield _counted(f"{base}BytesInPerSec,topic={topic}", "Bytes of record batches received", bytes_in)
        yield _counted(f"{base}BytesOutPerSec,topic={topic}", "Bytes of records sent to clients", bytes_out)


def _of_groups(broker: Broker, groups: Groups) -> Iterator[Metric]:
    """Positions of the groups that this node coordinates, and their lag where it has the partition."""
    ends = {TopicPartition(p.topic, p.index): p.high_watermark for p in broker.partitions()}
    left = MOST_POSITIONS
    position, behind = "kafka_consumergroup_current_offset", "kafka_consumergroup_lag"
    for group, committed in groups.offsets.committed.items():
        for (topic, index), found in committed.items():
            if left == 0:
                return
            left -= 1
            labels = {"consumergroup": group, "topic": topic, "partition": str(index)}
            yield Reading(
                position,
                "Position of a group, at its coordinator",
                sample_of(position, labels, counter=False),
                found.offset,
                counter=False,
            )
            end = ends.get(TopicPartition(topic, index))
            if end is not None:
                yield Reading(
                    behind,
                    "Records that a group has not read, where its coordinator has the partition",
                    sample_of(behind, labels, counter=False),
                    max(0, end - found.offset),
                    counter=False,
                )


def process_readings() -> Iterator[Metric]:
    """The process, under the names that Prometheus' clients use; memory and descriptors on Linux alone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield _process("cpu_seconds", "CPU time", used.ru_utime + used.ru_stime, counter=True)
    yield _process("start_time_seconds", "When the node was started, in seconds since 1970", _STARTED)
    yield _process("max_fds", "Descriptors it may have", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as file:
            virtual, resident, *_ = file.read().split()
        yield _process("resident_memory_bytes", "Memory in use", int(resident) * _PAGE)
        yield _process("virtual_memory_bytes", "Addresses in use", int(virtual) * _PAGE)
        yield _process("open_fds", "Descriptors in use", len(os.listdir("/proc/self/fd")))


def _process(name: str, meaning: str, value: float, *, counter: bool = False) -> Reading:
    sample = f"process_{name}{'_total' if counter else ''}"
    return Reading(f"process_{name}", meaning, sample, value, counter=counter)
