"""Real clients log in at a node; Apache Kafka's own tools make its users; a running one answers the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer
from tests.compat.conftest import kafka_class
from tests.compat.secured import SecuredKafka
from tests.server.test_logins import PLAIN

from barnabas.client.blocking import BlockingConnection
from barnabas.testing.cluster import Cluster, free_ports
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

pytestmark = pytest.mark.compat

RECORDS = 1000
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]


class Node:
    """A node with an open listener and LOGIN."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_ports(), folder
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.login.plain.sasl.jaas.config": f"{PLAIN} required;",
            }
        )
        self.login = f"127.0.0.1:{self.port}"

    def tool(self, name: str, *arguments: str, stdin: str | None = None) -> str:
        return kafka_class(name, "--bootstrap-server", self.cluster.bootstrap, *arguments, stdin=stdin)

    def properties(self, mechanism: str, password: str = "ada-secret") -> str:
        """A file for Java's clients."""
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        file = self.folder / f"{mechanism}-{password}.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
            f'username="ada" password="{password}";\n'
        )
        return str(file)


@pytest.fixture(scope="module")
def node(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Its user ada is made by Apache Kafka's tool, as are all that these tests look at."""
    running = Node(tmp_path_factory.mktemp("logins"))
    with running.cluster:
        add = ("kafka.admin.ConfigCommand", "--alter", "--entity-type", "users", "--entity-name", "ada")
        for mechanism in MECHANISMS[:2]:
            running.tool(*add, "--add-config", f"{mechanism}=[iterations=8192,password=ada-secret]")
        yield running


def test_apache_kafkas_tool_shows_and_deletes_users(node: Node) -> None:
    words = ("kafka.admin.ConfigCommand", "--entity-type", "users", "--entity-name")
    shown = node.tool(*words, "ada", "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in shown and "SCRAM-SHA-512=iterations=8192" in shown
    node.tool(*words, "tom", "--alter", "--add-config", "SCRAM-SHA-256=[password=toms-secret]")
    assert "SCRAM-SHA-256=iterations=4096" in node.tool(*words, "tom", "--describe")
    node.tool(*words, "tom", "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in node.tool(*words, "tom", "--describe")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_sends_and_reads_a_thousand_records(node: Node, mechanism: str) -> None:
    config, topic = node.properties(mechanism), f"java-{mechanism}"
    lines = "".join(f"line {number}\n" for number in range(RECORDS))
    to_login = ("--bootstrap-server", node.login, "--topic", topic)
    kafka_class("org.apache.kafka.tools.ConsoleProducer", *to_login, "--command-config", config, stdin=lines)
    read = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    out = kafka_class(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *to_login, "--command-config", config, *read
    )
    assert out.splitlines() == lines.splitlines()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_sends_and_reads_a_thousand_records(node: Node, mechanism: str) -> None:
    options: dict[str, Any] = {
        "bootstrap.servers": node.login,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": "ada",
        "sasl.password": "ada-secret",
    }
    topic, failed, read = f"librdkafka-{mechanism}", [], 0
    producer = ConfluentProducer(options)
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(30) == 0 and not failed
    consumer = ConfluentConsumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    until = time.monotonic() + 30
    while read < RECORDS and time.monotonic() < until:
        message = consumer.poll(1.0)
        read += message is not None and message.error() is None
    consumer.close()
    assert read == RECORDS

    errors: list[str] = []
    wrong = {**options, "sasl.password": "wrong", "error_cb": lambda error: errors.append(str(error))}
    refused = ConfluentProducer(wrong)
    until = time.monotonic() + 20
    while not errors and time.monotonic() < until:
        refused.poll(0.1)
    assert "_AUTHENTICATION" in errors[0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_sends_and_reads_a_thousand_records(node: Node, mechanism: str) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": node.login,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ada",
        "sasl_plain_password": "ada-secret",
    }
    topic = f"kafka-python-{mechanism}"
    producer = KafkaProducer(**options)
    sent = [producer.send(topic, b"%d" % number) for number in range(RECORDS)]
    producer.flush()
    assert all(one.get(10) for one in sent)
    producer.close()
    consumer = KafkaConsumer(topic, **options, auto_offset_reset="earliest", consumer_timeout_ms=5000)
    assert len([message for message, _ in zip(consumer, range(RECORDS), strict=False)]) == RECORDS
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_sends_and_reads_a_thousand_records(node: Node, mechanism: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    options: dict[str, Any] = {
        "bootstrap_servers": node.login,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ada",
        "sasl_plain_password": "ada-secret",
    }
    topic = f"aiokafka-{mechanism}"

    async def talk() -> int:
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            for number in range(RECORDS):
                await producer.send(topic, b"%d" % number)
        read = 0
        async with aiokafka.AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest") as consumer:
            while read < RECORDS:
                read += sum(map(len, (await consumer.getmany(timeout_ms=5000)).values()))
        return read

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == RECORDS


def test_users_are_changed_and_described_as_at_an_apache_kafka(node: Node, tmp_path: Path) -> None:
    def up(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"s" * 32
        )

    def gone(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
        return ScramCredentialDeletion(name=name, mechanism=mechanism)

    def change(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> Any:
        return AlterUserScramCredentialsRequest(
            upsertions=[c for c in changes if isinstance(c, ScramCredentialUpsertion)],
            deletions=[c for c in changes if isinstance(c, ScramCredentialDeletion)],
        )

    def asked(*names: str) -> Any:
        return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])

    talk = [
        change(up("x"), up("y", 2), up("")),
        change(up("x", 0), up("z", 3), up("few", 1, 4095), up("many", 1, 16385)),
        change(up("two", 1), up("two", 2)),
        change(up("both"), gone("both")),
        change(gone("none"), gone("x", 2), gone("", 1), gone("y", 9)),
        asked("x", "y", "nobody", "x"),
        asked("x", ""),
        change(gone("x"), up("y", 1, 5000)),
        asked("x", "y"),
        change(),
    ]
    kafka = SecuredKafka(tmp_path)
    try:
        kafka.start()
        host, _, port = node.cluster.bootstrap.partition(":")
        with (
            BlockingConnection(host, int(port)) as ours,
            BlockingConnection("127.0.0.1", kafka.ports["PLAIN"]) as theirs,
        ):
            for request in talk:
                assert _sorted(ours.request(request)) == _sorted(theirs.request(request)), request
    finally:
        kafka.stop()


def _sorted(answer: Any) -> Any:
    """Without what may differ: the order of users."""
    rows = [
        (row.user, row.error_code, row.error_message or None, repr(getattr(row, "credential_infos", [])))
        for row in answer.results
    ]
    return sorted(rows, key=repr)
