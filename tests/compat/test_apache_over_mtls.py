"""Apache Kafka and our nodes in one quorum and one cluster, each known to the others by its certificate."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat.conftest import KAFKA, kafka_class

from barnabas import Admin, Consumer, Producer
from barnabas.cli.drill.node import StageNode
from barnabas.cli.drill.stage import Stage
from barnabas.testing.cluster import free_ports

pytestmark = pytest.mark.compat
RECORDS = 1000
TLS = {
    "listener.security.protocol.map": "CLIENTS:SSL,NODES:SSL,CONTROLLER:SSL",
    "inter.broker.listener.name": "NODES",
    "ssl.client.auth": "required",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "offsets.topic.num.partitions": "1",
    "security.protocol": "SSL",  # for tools that take the node's file
}


def with_certificates(stage: Stage, id_: int, ports: tuple[int, int, int]) -> dict[str, str]:
    """A certificate for a node of either kind, and the settings that use it."""
    stage.type(f"certs issue ca node{id_} --host localhost,127.0.0.1")
    names = ("CLIENTS", "NODES", "CONTROLLER")
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True))
    return TLS | {
        "listeners": listeners,
        "ssl.keystore.location": f"{stage.directory}/ca/node{id_}.pem",
        "ssl.truststore.location": f"{stage.directory}/ca/ca.pem",
    }


def ours(stage: Stage, node: StageNode) -> None:
    port = free_ports(2)
    node.port, node.security = port, stage.security
    node.settings |= with_certificates(stage, node.id, (port, port + 1, node.controller_port))


class KafkaNode:
    """A combined node of Apache Kafka."""

    def __init__(self, stage: Stage, id_: int, controllers: str, *flags: str) -> None:
        ports = free_ports(3)
        self.id, self.address, self.controller = id_, f"127.0.0.1:{ports}", f"127.0.0.1:{ports + 2}"
        self.folder = Path(stage.directory) / f"kafka{id_}"
        self.folder.mkdir()
        self.properties = self.folder / "server.properties"
        settings = with_certificates(stage, id_, (ports, ports + 1, ports + 2)) | {
            "process.roles": "broker,controller",
            "node.id": str(id_),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controllers or self.controller,
            "log.dirs": f"{self.folder}/logs",
            "offsets.topic.replication.factor": "1",
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        kafka_class(
            "kafka.tools.StorageTool", "format", "-t", stage.cluster_id, "-c", str(self.properties), *flags
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def directory_id(self) -> str:
        lines = (self.folder / "logs" / "meta.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]

    @contextmanager
    def running(self) -> Iterator[KafkaNode]:
        with (self.folder / "server.log").open("ab") as log:
            environment = {**os.environ, "KAFKA_HEAP": "512m"}
            command = [KAFKA / "broker-class.sh", self.properties]
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        try:
            yield self
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)


@pytest.fixture
def stage() -> Iterator[Stage]:
    pytest.importorskip("cryptography")
    with Stage(lambda kind, text: None) as stage:
        stage.type("certs init ca")
        stage.type("certs issue ca app")
        app = f"{stage.directory}/ca/app.pem"
        stage.security = {
            "security.protocol": "SSL",
            "ssl.ca.location": f"{stage.directory}/ca/ca.pem",
            "ssl.certificate.location": app,
            "ssl.key.location": app,
        }
        (Path(stage.directory) / "app.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in stage.security.items())
        )
        yield stage


def a_topic_is_on_both(stage: Stage, bootstrap: str, ids: set[int]) -> None:
    """What is written to leaders of both kinds is on the disks of both, and read from both."""
    with Admin(bootstrap, security=stage.security) as admin:
        stage.until("brokers", lambda: ids <= {b.id for b in admin.describe_cluster().brokers}, 60)
        admin.create_topic("both", partitions=8, replication=len(ids))
    with Producer(bootstrap, security=stage.security, acks="all") as producer:
        for number in range(RECORDS):
            producer.send("both", b"%d" % number, partition=number % 8)
    stage.until("both replicas are in sync", stage.whole, 60)
    with Consumer(bootstrap, "both", start="earliest", idle=2.0, security=stage.security) as consumer:
        assert sorted(int(m.value) for m in consumer if m.value is not None) == list(range(RECORDS))


def test_a_node_of_apache_kafka_joins_our_quorum_and_our_brokers(apache: Path, stage: Stage) -> None:
    stage.form(1, 2, 3, roles="broker,controller", prepare=lambda node: ours(stage, node))
    controllers = ",".join(f"127.0.0.1:{node.controller_port}" for node in stage.nodes.values())
    with KafkaNode(stage, 4, controllers, "--no-initial-controllers").running() as kafka:
        stage.until("it follows", lambda: 4 in {o.id for o in stage.quorum().observers}, 60)
        said = kafka_class(
            *("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-controller"),
            *(
                f"127.0.0.1:{stage.nodes[1].controller_port}",
                "--command-config",
                str(kafka.properties),
                "add-controller",
            ),
        )
        assert f"Added controller 4 with directory id {kafka.directory_id}" in said
        stage.voters_are(1, 2, 3, 4)
        a_topic_is_on_both(stage, stage.bootstrap, {1, 2, 3, 4})
        before = stage.leader()
        stage.kill(before)
        stage.leader(but=(before,))
        stage.start(before)
        stage.until("all replicas are in sync", stage.whole, 60)
        stage.type(
            f"quorum --command-config app.properties remove-controller -i 4 -d {kafka.directory_id}", again=20
        )
        stage.voters_are(1, 2, 3)


def test_our_node_joins_the_quorum_and_the_brokers_of_apache_kafka(apache: Path, stage: Stage) -> None:
    stage.cluster_id = stage.type("storage random-uuid").strip()
    kafka = KafkaNode(stage, 1, "", "--standalone")
    with kafka.running():
        node = stage.node(2, "broker,controller")
        ours(stage, node)
        node.settings["controller.quorum.bootstrap.servers"] = kafka.controller
        stage.format(2, "--no-initial-controllers")
        stage.start(2)
        stage.until("it follows", lambda: 2 in {o.id for o in stage.quorum().observers}, 60)
        stage.type(
            f"quorum --command-config {node.file} add-controller", shows="Added controller 2", again=20
        )
        stage.voters_are(1, 2)
        a_topic_is_on_both(stage, stage.bootstrap, {1, 2})
