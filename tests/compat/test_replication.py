"""A topic on three nodes that are killed and stopped in order, under librdkafka's idempotent producer.

BARNABAS_ROUNDS says how often the repeated ones repeat (default 3; the acceptance figure is 10).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.server.quorum_processes import Member, Members, eventually

from barnabas.client.admin.admin import Admin
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = pytest.mark.compat
ROUNDS = int(os.environ.get("BARNABAS_ROUNDS", "3"))
RATE = 500


class Topic:
    """What a client sees of partition 0 of topic `t`."""

    def __init__(self, nodes: Members) -> None:
        self.nodes = nodes
        self.bootstrap = ",".join(f"127.0.0.1:{member.port}" for member in nodes.all.values())
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def state(self) -> tuple[int, list[int]]:
        """(leader, in-sync replicas)"""
        partition = self._metadata().topics["t"].partitions[0]
        return partition.leader, sorted(partition.isrs)

    def _metadata(self) -> Any:
        try:
            return self._admin.list_topics("t", timeout=10)
        except KafkaException as error:
            raise ConnectionError(str(error)) from error

    def leader(self) -> Member:
        return self.nodes[int(eventually(lambda: self.state()[0] if self.state()[0] > 0 else None))]

    def lead(self, member: Member) -> None:
        """Have that node lead, by making it the first replica."""
        replicas = [member.id, *(id_ for id_ in self.nodes.all if id_ != member.id)]
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topic = ReassignableTopic(name="t", partitions=[partition])
        member.ask(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000), broker=True)
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
        eventually(lambda: member.ask(request, broker=True) and self.state()[0] == member.id, 20, "it leads")

    def full(self, within: float = 40.0) -> None:
        eventually(lambda: self.state()[1] == [1, 2, 3], within, "all three in sync")

    def read(self) -> Counter[int]:
        """How often each value is in the log."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        seen: Counter[int] = Counter()
        try:
            place = TopicPartition("t", 0, 0)
            end = consumer.get_watermark_offsets(place, timeout=20)[1]
            consumer.assign([place])
            deadline = time.monotonic() + 60
            while sum(seen.values()) < end and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    seen[int(message.value() or b"")] += 1
        finally:
            consumer.close()
        return seen


class Load:
    """500 messages a second, acks=all, idempotent; when each was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, int] = {}
        self.times: list[float] = []
        self.errors: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "log_level": 0}
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Send no more, and wait for the answers."""
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        begun, number = time.monotonic(), 0
        while not self._ended.is_set():
            self._producer.produce("t", str(number).encode(), partition=0, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
        self._producer.flush(60)

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        self.acknowledged[int(message.value())] = message.offset()
        self.times.append(time.monotonic())

    def longest_gap(self, since: float) -> float:
        times = [t for t in self.times if t >= since - 1.0]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    def flowing(self, count: int = 200) -> None:
        have = len(self.times)
        eventually(lambda: len(self.times) > have + count, 60, "messages are acknowledged")


@contextlib.contextmanager
def cluster(folder: Path, **settings: str) -> Iterator[Topic]:
    with Members.formed(folder, 3, **settings) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        for member in nodes.all.values():
            member.serving()
        topic = Topic(nodes)
        with Admin(f"127.0.0.1:{nodes[1].port}", timeout=20) as admin:
            eventually(lambda: len(nodes[1].ask(MetadataRequest(topics=[]), broker=True).brokers) == 3)
            admin.create_topic("t", partitions=1, replication=3)
        topic.full()
        yield topic


def nothing_lost_nothing_twice(topic: Topic, load: Load) -> None:
    seen = topic.read()
    assert not load.errors
    assert not set(load.acknowledged) - set(seen), "lost"
    assert not [value for value, times in seen.items() if times > 1], "twice"


def test_a_killed_leader_costs_no_record_and_little_time(tmp_path: Path) -> None:
    gaps: list[float] = []
    of_controllers: list[float] = []
    with cluster(tmp_path) as topic, Load(topic.bootstrap) as load:
        for _ in range(ROUNDS):
            load.flowing()
            victim = topic.leader()
            controller = topic.nodes.leader() is victim
            killed = time.monotonic()
            victim.kill()
            load.flowing(600)
            (of_controllers if controller else gaps).append(load.longest_gap(killed))
            victim.start()
            topic.full()
        load.end()
        nothing_lost_nothing_twice(topic, load)
    for what, figures, most in (("leader", gaps, 1.5), ("leader and controller", of_controllers, 2.5)):
        print(f"longest gap in s, {what}: {[round(gap, 2) for gap in figures]}")
        assert not figures or statistics.median(figures) < most


def test_a_leader_that_stops_in_order_hands_over(tmp_path: Path) -> None:
    with cluster(tmp_path) as topic, Load(topic.bootstrap) as load:
        load.flowing()
        victim = topic.leader()
        begun = time.monotonic()
        victim.kill(signal.SIGTERM)
        load.flowing(600)
        gap = load.longest_gap(begun)
        victim.start()
        topic.full()
        load.end()
        nothing_lost_nothing_twice(topic, load)
    print(f"longest gap in s: {gap:.2f}")
    assert gap < 2.0


def test_a_paused_follower_is_neither_fenced_nor_lost(tmp_path: Path) -> None:
    """SIGSTOP for 300 ms and for 4 s: its kernel still takes connections, so it is slow, not dead."""
    with cluster(tmp_path) as topic, Load(topic.bootstrap) as load:
        load.flowing()
        leader = topic.leader()
        follower = next(m for m in topic.nodes.all.values() if m is not leader)
        for seconds in (0.3, 4.0):
            follower.signal(signal.SIGSTOP)
            time.sleep(seconds)
            follower.signal(signal.SIGCONT)
            load.flowing()
            topic.full()
        load.end()
        nothing_lost_nothing_twice(topic, load)
        for member in topic.nodes.all.values():
            assert "controller.broker-dead" not in member.text()


def test_a_broker_whose_disk_stalls_for_five_seconds_is_back_in_sync_by_itself(tmp_path: Path) -> None:
    with cluster(tmp_path) as topic, Load(topic.bootstrap) as load:
        leader = topic.leader()
        follower = next(m for m in topic.nodes.all.values() if m is not leader)
        stall = follower.folder / "stall"
        follower.kill(signal.SIGTERM)
        follower.command = [sys.executable, "-m", "tests.chaos.node", str(follower.properties), str(stall)]
        follower.start()
        topic.full()
        for victim in ("follower", "leader"):
            if victim == "leader":
                topic.lead(follower)
            load.flowing()
            stall.write_text(str(time.time() + 5.0))
            time.sleep(5.0)
            load.flowing()
            topic.full()
        load.end()
        nothing_lost_nothing_twice(topic, load)
        assert "node.failed" not in follower.text()
