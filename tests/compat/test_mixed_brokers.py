"""A broker of Apache Kafka in one cluster with ours, and partitions that both replicate: kill either with -9."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.chaos.traffic import Records, Writer, read_everything
from tests.compat.conftest import kafka_class
from tests.server.quorum_processes import CLUSTER, Members, eventually, free_ports

from barnabas.sim.cluster.checker import check

pytestmark = pytest.mark.compat
TOPIC = "mixed"
OURS, THEIRS = (1, 2), 4


class KafkaBroker:
    """A broker of Apache Kafka whose controllers are ours."""

    def __init__(self, apache: Path, folder: Path, controllers: str) -> None:
        self.apache, self.folder = apache, folder
        (self.port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        self.properties = folder / "server.properties"
        self.properties.write_text(
            f"process.roles=broker\nnode.id={THEIRS}\ncontroller.quorum.bootstrap.servers={controllers}\n"
            f"listeners=PLAINTEXT://{self.address}\nadvertised.listeners=PLAINTEXT://{self.address}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={folder}/logs\n"
        )
        kafka_class("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.properties))

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.apache / "broker-class.sh", self.properties],
                stdout=log,
                stderr=log,
                env={**os.environ, "KAFKA_HEAP": "512m"},
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)


class Mixed:
    """Three nodes of ours and one Kafka broker; partition 0 is led by ours, partition 1 by Kafka's."""

    def __init__(self, nodes: Members, kafka: KafkaBroker) -> None:
        self.nodes, self.kafka = nodes, kafka
        self.bootstrap = ",".join(
            [*(f"127.0.0.1:{member.port}" for member in nodes.all.values()), kafka.address]
        )
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def partitions(self) -> Any:
        try:
            return self.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        except KafkaException as error:
            raise ConnectionError(str(error)) from error

    def leader(self, index: int) -> int:
        return int(self.partitions()[index].leader)

    def full(self) -> None:
        def look() -> bool:
            found = self.partitions().values()
            return bool(found) and all(len(p.isrs) == 3 for p in found)

        eventually(look, 90, "all three in sync")


@contextmanager
def cluster(apache: Path, folder: Path) -> Iterator[Mixed]:
    with Members.formed(folder / "ours", 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        servers = ",".join(f"127.0.0.1:{member.controller}" for member in nodes.all.values())
        kafka = KafkaBroker(apache, folder / "kafka", servers)
        try:
            kafka.start()
            mixed = Mixed(nodes, kafka)
            eventually(lambda: len(mixed.admin.list_topics(timeout=10).brokers) == 4, 90, "Kafka's broker")
            wanted = NewTopic(
                TOPIC,
                2,
                replica_assignment=[[1, 2, THEIRS], [THEIRS, 1, 2]],
                config={"min.insync.replicas": "2"},
            )
            mixed.admin.create_topics([wanted])[TOPIC].result(30)
            mixed.full()
            yield mixed
        finally:
            kafka.kill()


def test_partitions_of_both_kinds_of_brokers_survive_the_death_of_either(
    apache: Path, tmp_path: Path
) -> None:
    records = Records()
    with cluster(apache, tmp_path) as mixed:
        writer = Writer(records, 1, mixed.bootstrap, TOPIC, 2, 300.0)
        writer.start()

        def flowing(seconds: float) -> None:
            begun = time.monotonic()
            eventually(
                lambda: all(times[-1] > begun + seconds for times in list(records.acknowledged.values())),
                60,
                "both partitions are written to",
            )

        eventually(lambda: len(records.acknowledged) == 2)
        flowing(1.0)
        for index, ours in ((0, True), (1, False), (0, True)):
            leader = mixed.leader(index)
            assert ours is (leader in OURS), f"partition {index} is led by {leader}"
            victim: Any = mixed.nodes[leader] if ours else mixed.kafka
            killed = time.monotonic()
            victim.kill()
            eventually(lambda: mixed.leader(index) not in (-1, leader), 30)  # noqa: B023
            flowing(2.0)
            gap = records.gap(killed, time.monotonic())
            print(f"{'ours' if ours else 'an Apache Kafka broker'} killed: longest gap {gap:.2f} s")
            assert ours or gap > 4.0, "an Apache Kafka broker keeps its session"
            victim.start()
            mixed.full()
        writer.end()
        found = read_everything(records, mixed.bootstrap, TOPIC, 2)
    assert not writer.failures
    assert sum(map(len, found.values())) == writer.sent
    verdict = check(records.history)
    assert verdict.ok, verdict.anomalies[:5]
