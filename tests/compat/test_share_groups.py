"""Share groups beside both kinds: read by Kafka's share consumer, and moved by the advice of `doctor`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import KAFKA, kafka_class
from tests.compat.kafka_node import KafkaNode
from tests.compat.moving.nodes import typed
from tests.server.quorum_processes import Member, eventually, free_ports
from tools.peer import CONFIGS

from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.model import SHARE_STATE_TOPIC, TopicPartition

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

KAFKAS, OURS = 1, 2
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}
GROUP, TOPIC = "shares", "orders"


@pytest.fixture
def bootstrap(apache: Path, tmp_path: Path) -> Iterator[str]:
    """A cluster of one broker of each kind; Kafka's carries all there is."""
    free = free_ports(4)
    known = [free[1], free[3]]
    kafka = KafkaNode(apache, tmp_path / "n1", KAFKAS, (free[0], free[1]), known, **SETTINGS)
    ours = Member(tmp_path / "n2", OURS, (free[2], free[3]), known, "broker,controller", **SETTINGS)
    try:
        kafka.format("--standalone")
        kafka.start()
        address = f"127.0.0.1:{kafka.port}"
        with Admin(address, timeout=30) as admin:
            eventually(lambda: admin.describe_cluster().brokers, 90, "Apache Kafka serves")
            admin.create_topic(TOPIC, partitions=1, replication=1)
        kafka_class(
            *(CONFIGS, "--bootstrap-server", address, "--alter"),
            *(
                "--entity-type",
                "groups",
                "--entity-name",
                GROUP,
                "--add-config",
                "share.auto.offset.reset=earliest",
            ),
        )
        write(address, 0)
        assert Reading(address).end() == [0]
        ours.format("--no-initial-controllers")
        ours.start()
        with Admin(address, timeout=10) as admin:
            eventually(lambda: len(admin.describe_cluster().brokers) == 2, 60, "ours serves")
        yield address
    finally:
        kafka.close()
        ours.close()


class Reading:
    """Kafka's share consumer, which runs until it has read a record; what it read is in `end()`."""

    def __init__(self, bootstrap: str) -> None:
        tool = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
        words = ("--topic", TOPIC, "--group", GROUP, "--max-messages", "1", "--timeout-ms", "90000")
        self._process = subprocess.Popen(
            [KAFKA / "kafka-class.sh", tool, "--bootstrap-server", bootstrap, *words],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self) -> list[int]:
        said, _ = self._process.communicate(timeout=120)
        return [int(line) for line in said.split() if line.isdigit()]

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def write(bootstrap: str, value: int) -> None:
    with Producer(bootstrap) as producer:
        producer.send(TOPIC, b"%d" % value)


def moved(bootstrap: str, topic: str) -> None:
    """Give partition 0 of a topic to the broker of ours."""
    typed(f"topics reassign {topic} --partition 0 --replicas {OURS} --execute --wait", bootstrap)
    with Admin(bootstrap, timeout=10) as admin:
        where = TopicPartition(topic, 0)
        eventually(lambda: admin.describe_topic(topic).partitions[where.partition].leader == OURS, 60)


@pytest.mark.parametrize("topic", [SHARE_STATE_TOPIC, TOPIC])
def test_doctor_names_what_a_share_group_cannot_read_and_its_command_helps(
    bootstrap: str, topic: str
) -> None:
    moved(bootstrap, topic)
    reading = Reading(bootstrap)
    write(bootstrap, 1)

    def said() -> str | None:
        text = typed(f"doctor {bootstrap}", bootstrap)
        return text if f"reassign {topic} " in text else None

    text = eventually(said, 60, f"doctor names {topic}")
    typed(re.findall("barnabas (topics reassign .*)", text)[0], bootstrap)
    if "started again" in text:  # Kafka's share consumer does not go on by itself
        reading.kill()
        reading = Reading(bootstrap)
    assert reading.end() == [1]
