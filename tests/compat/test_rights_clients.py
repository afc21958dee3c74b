"""Real clients that log in, without rights and with them: the client's own error, then a thousand records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from tests.compat.conftest import run_kafka_class
from tests.server.test_logins import PLAIN

from barnabas.cli.main import main
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing.cluster import Cluster, free_ports

pytestmark = pytest.mark.compat

RECORDS = 1000


class Node:
    """A node whose users are alice, who has no rights, and those on the listener without login, who have all."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_ports(), folder
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_alice="a-secret";',
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:ANONYMOUS",
            }
        )

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "a-secret",
        }

    def acls(self, *words: str) -> None:
        assert main(["acls", *words, "--bootstrap-server", self.cluster.bootstrap]) == 0

    def topic(self, name: str) -> None:
        assert main(["topics", "create", name, "--bootstrap-server", self.cluster.bootstrap]) == 0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    running = Node(tmp_path_factory.mktemp("rights"))
    with running.cluster:
        yield running


def produce(node: Node, topic: str, count: int, **more: Any) -> set[str]:
    """What became of so many records: names of librdkafka's errors, "" for success."""
    ends: list[str] = []
    producer = Producer({**node.options, "message.timeout.ms": 8000, **more})
    for number in range(count):
        producer.produce(
            topic, f"{number}", callback=lambda error, _: ends.append(error.name() if error else "")
        )
        producer.poll(0)
    producer.flush(20)
    assert len(ends) == count
    return set(ends)


def consume(node: Node, topic: str, group: str, count: int) -> tuple[int, set[int]]:
    """How many records came, and the codes of errors."""
    consumer = Consumer({**node.options, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read, errors = 0, set()
    deadline = time.monotonic() + 20
    while read < count and not errors and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if (error := message.error()) is None:
            read += 1
        else:
            errors.add(error.code())
    consumer.close()
    return read, errors


def test_librdkafka_hears_of_the_right_that_is_missing_and_goes_on_with_it(node: Node) -> None:
    node.topic("orders")
    assert produce(node, "orders", 1) == {"TOPIC_AUTHORIZATION_FAILED"}
    node.acls("add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    assert produce(node, "orders", RECORDS, **{"enable.idempotence": True}) == {""}
    assert consume(node, "orders", "billing", 1) == (0, {KafkaError.GROUP_AUTHORIZATION_FAILED})
    node.acls("add", "--allow-principal", "User:alice", "--operation", "Read", "--group", "billing")
    assert consume(node, "orders", "billing", 1) == (0, {KafkaError.TOPIC_AUTHORIZATION_FAILED})
    node.acls(
        "add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "billing"
    )
    assert consume(node, "orders", "billing", RECORDS) == (RECORDS, set())


def test_a_right_that_is_taken_back_counts_for_a_producer_at_work(node: Node) -> None:
    """Its connection, and what the node had learned of its requests, are those of before."""
    node.topic("payments")
    node.acls("add", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "payments")
    ends: list[str] = []
    producer = Producer({**node.options, "linger.ms": 0, "message.timeout.ms": 8000})

    def send() -> str:
        producer.produce(
            "payments", b"x", callback=lambda error, _: ends.append(error.name() if error else "")
        )
        producer.flush(10)
        return ends[-1]

    for _ in range(20):
        assert send() == ""
    node.acls("remove", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "payments")
    begun = time.monotonic()
    while send() != "TOPIC_AUTHORIZATION_FAILED":
        assert time.monotonic() < begun + 1.0


def test_a_transaction_needs_the_right_to_its_id(node: Node) -> None:
    producer = Producer({**node.options, "transactional.id": "hers"})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(10)
    assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    node.acls(
        "add", "--allow-principal", "User:alice", "--producer", "--topic", "t", "--transactional-id", "hers"
    )
    producer = Producer({**node.options, "transactional.id": "hers"})
    producer.init_transactions(20)


def test_java_hears_which_right_is_missing(apache: Path, node: Node) -> None:
    config = node.folder / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} required username="alice" password="a-secret";\n'
    )
    to_login = ("--bootstrap-server", f"127.0.0.1:{node.port}", "--command-config", str(config))
    code, said = run_kafka_class("org.apache.kafka.tools.AclCommand", *to_login, "--list")
    assert code != 0 and "ClusterAuthorizationException" in said
    code, said = run_kafka_class(
        "org.apache.kafka.tools.TopicCommand", *to_login, "--create", "--topic", "mine"
    )
    assert code != 0 and "TopicAuthorizationException" in said
    node.topic("secret")
    code, said = run_kafka_class("org.apache.kafka.tools.TopicCommand", *to_login, "--list")
    assert code == 0 and "secret" not in said
    code, said = run_kafka_class(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *to_login, "--topic", "secret", "--group", "nobody",
        "--from-beginning", "--timeout-ms", "8000",
    )  # fmt: skip
    assert "AuthorizationException" in said
