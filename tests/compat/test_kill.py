"""kill -9 while clients write, commit offsets, make and delete topics: what was acknowledged is there, once."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import NodeProcess, kafka_class

from barnabas.client.admin.admin import Admin

pytestmark = pytest.mark.compat

KILLS = 20


class Traffic:
    """Idempotent librdkafka producers that write numbered records and remember what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, producers: int) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.acknowledged: set[bytes] = set()
        self.failed: dict[bytes, str] = {}
        self.sent = 0
        self.running = True
        self.threads = [threading.Thread(target=self._run, args=(index,)) for index in range(producers)]

    def __enter__(self) -> Traffic:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.running = False
        for thread in self.threads:
            thread.join()

    def _delivered(self, error: object, message: object) -> None:
        value = message.value()  # type: ignore[attr-defined]
        if error:
            self.failed[value] = str(error)
        else:
            self.acknowledged.add(value)

    def _run(self, index: int) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "delivery.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        number = 0
        while self.running:
            number += 1
            self.sent += 1
            producer.produce(self.topic, f"{index}-{number}".encode(), on_delivery=self._delivered)
            producer.poll(0)
            time.sleep(0.002)
        assert producer.flush(120) == 0


def read_everything(bootstrap: str, topic: str) -> Counter[bytes]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "checker", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
    found: Counter[bytes] = Counter()
    ended = 0
    while ended < len(partitions):
        for message in consumer.consume(1000, timeout=5):
            if message.error():
                ended += 1
            else:
                found[message.value()] += 1
    consumer.close()
    return found


def kill_and_start(node: NodeProcess, chance: random.Random, *, times: int = KILLS) -> None:
    for _ in range(times):
        time.sleep(chance.uniform(0.2, 1.2))
        node.kill()
        node.start()
    time.sleep(1)


@pytest.mark.parametrize("producers", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_and_nothing_is_twice(
    one_node: NodeProcess, producers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    node = one_node
    node.barnabas("topics", "create", "kill", "--partitions", "4", "--bootstrap-server", node.bootstrap)
    with Traffic(node.bootstrap, "kill", producers) as traffic:
        kill_and_start(node, random.Random(7))
    assert not traffic.failed
    assert len(traffic.acknowledged) == traffic.sent
    found = read_everything(node.bootstrap, "kill")
    missing = traffic.acknowledged - set(found)
    twice = {value: times for value, times in found.items() if times > 1}
    with capsys.disabled():
        print(
            f"\n{producers} producers, {KILLS} kills, {len(traffic.acknowledged)} acknowledged: "
            f"{len(missing)} missing, {len(twice)} twice"
        )
    assert not missing
    assert not twice


def test_apache_kafkas_producer_loses_nothing_and_writes_nothing_twice(
    apache: Path, one_node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node, messages, seconds = one_node, 40_000, 40
    node.barnabas("topics", "create", "java", "--partitions", "4", "--bootstrap-server", node.bootstrap)
    settings = node.folder / "producer.properties"
    settings.write_text("enable.idempotence=true\nretries=2147483647\nlinger.ms=2\n")
    printed: list[str] = []

    def produce() -> None:
        printed.append(
            kafka_class(
                "org.apache.kafka.tools.VerifiableProducer",
                *("--bootstrap-server", node.bootstrap, "--topic", "java", "--acks", "-1"),
                *("--max-messages", str(messages), "--throughput", str(messages // seconds)),
                *("--command-config", str(settings)),
                timeout=200,
            )
        )

    producing = threading.Thread(target=produce)
    producing.start()
    kill_and_start(node, random.Random(10))
    producing.join()
    lines = [json.loads(line) for line in printed[0].splitlines() if line.startswith("{")]
    acknowledged = {line["value"].encode() for line in lines if line["name"] == "producer_send_success"}
    assert len(acknowledged) == messages
    found = read_everything(node.bootstrap, "java")
    missing = acknowledged - set(found)
    twice = [value for value, times in found.items() if times > 1]
    with capsys.disabled():
        print(
            f"\nApache Kafka's producer, {KILLS} kills, {len(acknowledged)} acknowledged: "
            f"{len(missing)} missing, {len(twice)} twice"
        )
    assert not missing
    assert not twice


class Committer(threading.Thread):
    """One group that commits growing offsets; in each life of the node it finds what it knew, or newer."""

    def __init__(self, node: NodeProcess, topic: str, index: int) -> None:
        super().__init__()
        self.settings = {
            "bootstrap.servers": node.bootstrap,
            "group.id": f"committer-{index}",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self.node, self.topic = node, topic
        self.acknowledged = self.attempted = self.checks = 0
        self.running = True
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._commit_and_check()
        except BaseException as error:  # told by the test, which waits for this thread
            self.error = error

    def _commit_and_check(self) -> None:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(self.settings)
        life = self.node.lives
        while self.running:
            if life != self.node.lives:
                life = self.node.lives
                self.check(consumer)
            self.attempted += 1
            try:
                consumer.commit(offsets=[TopicPartition(self.topic, 0, self.attempted)], asynchronous=False)
                self.acknowledged = self.attempted
            except KafkaException:
                self.check(consumer)
            time.sleep(0.002)
        self.check(consumer)
        consumer.close()

    def check(self, consumer: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        life, deadline = self.node.lives, time.monotonic() + 30
        while True:
            try:
                (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=5)
                break
            except KafkaException:
                if life != self.node.lives:  # killed meanwhile: the time of one life counts
                    life, deadline = self.node.lives, time.monotonic() + 30
                assert time.monotonic() < deadline
        self.checks += 1
        offset = max(found.offset, 0)  # a group that never committed has -1001
        assert self.acknowledged <= offset <= self.attempted


def test_a_committed_offset_is_there_after_a_kill(
    one_node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node = one_node
    node.barnabas("topics", "create", "offsets", "--partitions", "1", "--bootstrap-server", node.bootstrap)
    committers = [Committer(node, "offsets", index) for index in range(5)]
    for committer in committers:
        committer.start()
    try:
        kill_and_start(node, random.Random(8))
    finally:
        for committer in committers:
            committer.running = False
        for committer in committers:
            committer.join()
    assert [committer.error for committer in committers] == [None] * 5
    total = sum(committer.acknowledged for committer in committers)
    with capsys.disabled():
        print(
            f"\n5 groups, {KILLS} kills, {total} commits, "
            f"{sum(committer.checks for committer in committers)} checks: none went back"
        )
    assert total > KILLS


class TopicMaker(threading.Thread):
    """Makes topics and deletes every other one; remembers only what was acknowledged."""

    def __init__(self, bootstrap: str, index: int) -> None:
        super().__init__()
        self.bootstrap, self.index = bootstrap, index
        self.there: set[str] = set()
        self.gone: set[str] = set()
        self.running = True

    def run(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        number = 0
        while self.running:
            time.sleep(0.2)  # tens of topics, not thousands: each start opens them all
            number += 1
            name = f"made-{self.index}-{number}"
            futures = admin.create_topics([NewTopic(name, 2, 1)], request_timeout=5)
            if not self._done(futures[name], "TOPIC_ALREADY_EXISTS"):
                continue
            self.there.add(name)
            if number % 2:
                self.there.discard(name)  # from here on it may be there or not
                if self._done(admin.delete_topics([name], request_timeout=5)[name], "UNKNOWN_TOPIC_OR_PART"):
                    self.gone.add(name)

    @staticmethod
    def _done(future: Any, already: str) -> bool:
        """Whether the answer says so; a retry after a lost answer finds it done already."""
        from confluent_kafka import KafkaException

        try:
            future.result(timeout=20)
        except KafkaException as error:
            return bool(error.args[0].name() == already)
        return True


def test_topics_made_and_deleted_stay_so_after_a_kill(
    one_node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node = one_node
    makers = [TopicMaker(node.bootstrap, index) for index in range(3)]
    for maker in makers:
        maker.start()
    try:
        kill_and_start(node, random.Random(9))
    finally:
        for maker in makers:
            maker.running = False
        for maker in makers:
            maker.join()
    there = set().union(*(maker.there for maker in makers))
    gone = set().union(*(maker.gone for maker in makers))
    assert len(there) > 5
    assert len(gone) > 5
    node.kill()
    node.start()
    with Admin(node.bootstrap) as admin:
        listed = {topic.name: len(topic.partitions) for topic in admin.topics()}
    with capsys.disabled():
        print(
            f"\n{KILLS} kills, {len(there)} topics made: {len(there - set(listed))} missing; "
            f"{len(gone)} deleted: {len(gone & set(listed))} back"
        )
    assert there <= set(listed)
    assert not gone & set(listed)
    assert {listed[name] for name in there} == {2}
    kept = {path.name for path in node.data.iterdir()}
    assert {f"{name}-{index}" for name in there for index in (0, 1)} <= kept
    assert not {f"{name}-{index}" for name in gone for index in (0, 1)} & kept
