"""kill -9 while acks=all traffic runs: everything acknowledged is there, and once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pytest
from tests.compat.conftest import NodeProcess

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


@pytest.mark.parametrize("producers", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_and_nothing_is_twice(one_node: NodeProcess, producers: int) -> None:
    node, chance = one_node, random.Random(7)
    node.barnabas("topics", "create", "kill", "--partitions", "4", "--bootstrap-server", node.bootstrap)
    with Traffic(node.bootstrap, "kill", producers) as traffic:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.2, 1.2))
            node.kill()
            node.start()
        time.sleep(1)
    assert not traffic.failed
    assert len(traffic.acknowledged) == traffic.sent
    found = read_everything(node.bootstrap, "kill")
    missing = traffic.acknowledged - set(found)
    twice = {value: times for value, times in found.items() if times > 1}
    summary = f"{KILLS} kills, {len(traffic.acknowledged)} acknowledged: "
    print(summary + f"{len(missing)} missing, {len(twice)} twice")
    assert not missing
    assert not twice
