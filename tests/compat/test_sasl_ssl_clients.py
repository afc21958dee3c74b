"""Real clients log in over SASL_SSL at a node of `barnabas start --secure`: let in, and told what is wrong."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_start_secure import SecureNode, secure
from tests.compat.conftest import kafka_class, run_kafka_class

from barnabas.cli.main import main
from barnabas.config import parse_properties

pytestmark = pytest.mark.compat

RECORDS = 1000
VALUES = [b"%d" % number for number in range(RECORDS)]
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
ALL = pytest.mark.parametrize("mechanism", MECHANISMS)


class Door:
    """The node, and the password of `admin`."""

    def __init__(self, node: SecureNode) -> None:
        self.node, self.home = node, node.home
        self.ca = str(self.home / "certs" / "ca.pem")
        config = dict(parse_properties((self.home / "admin.properties").read_text()))
        self.password = config["sasl.jaas.config"].partition('password="')[2].partition('"')[0]

    def told_why(self, mechanism: str) -> bool:
        """Whether the node's log says why somebody was refused (a few times a minute it does)."""
        lines = self.node.log.read_text().splitlines()
        return any("login.refused" in x and f"mechanism={mechanism}" in x and "error=" in x for x in lines)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("secure")
    with secure(folder / "data", "--port", "0") as node:
        made = Door(node)
        (folder / "password").write_text(made.password)
        shown = ["--password-file", str(folder / "password"), "-b", node.address]
        shown += ["--command-config", str(made.home / "admin.properties"), "--mechanism", "SCRAM-SHA-256"]
        assert main(["users", "passwd", "admin", *shown]) == 0
        yield made


def librdkafka(door: Door, mechanism: str, password: str = "") -> dict[str, Any]:
    return {
        "bootstrap.servers": door.node.address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": mechanism,
        "sasl.username": "admin",
        "sasl.password": password or door.password,
        "ssl.ca.location": door.ca,
        "log_level": 0,
    }


@ALL
def test_librdkafka(door: Door, mechanism: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    settings, topic = librdkafka(door, mechanism), f"librdkafka-{mechanism}"
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(settings | {"group.id": topic})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(found) < RECORDS and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(1000, timeout=1)]
    consumer.close()
    assert found == VALUES


@ALL
def test_librdkafka_with_a_wrong_password(door: Door, mechanism: str) -> None:
    from confluent_kafka import Producer

    errors: list[str] = []
    settings = librdkafka(door, mechanism, "wrong")
    producer = Producer(settings | {"error_cb": lambda error: errors.append(str(error))})
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert any("uthentication" in error for error in errors), errors
    assert door.told_why(mechanism)


def others(door: Door, mechanism: str, password: str = "") -> dict[str, Any]:
    return {
        "bootstrap_servers": door.node.address,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "admin",
        "sasl_plain_password": password or door.password,
        "ssl_context": ssl.create_default_context(cafile=door.ca),
    }


@ALL
def test_kafka_python(door: Door, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings, topic = others(door, mechanism), f"kafka-python-{mechanism}"
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    found = []
    for message in consumer:
        found.append(message.value)
        if len(found) == RECORDS:
            break
    consumer.close()
    assert found == VALUES


@ALL
def test_kafka_python_with_a_wrong_password(
    door: Door, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries again until its time is over, and says in its log why."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaTimeoutError

    with pytest.raises(KafkaTimeoutError):
        KafkaProducer(**others(door, mechanism, "wrong"), bootstrap_timeout_ms=1000)
    assert "SaslAuthenticationFailedError" in caplog.text
    assert door.told_why(mechanism)


@ALL
def test_aiokafka_with_a_wrong_password(door: Door, mechanism: str) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    async def start() -> None:
        producer = AIOKafkaProducer(**others(door, mechanism, "wrong"))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaError):
        asyncio.run(start())
    assert door.told_why(mechanism)


@ALL
def test_aiokafka(door: Door, mechanism: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = f"aiokafka-{mechanism}"

    async def both_ways() -> list[bytes]:
        settings = others(door, mechanism)
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send(topic, value)
            await producer.flush()
        found: list[bytes] = []
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with consumer, asyncio.timeout(30):
            while len(found) < RECORDS:
                found.append((await consumer.getone()).value)
        return found

    assert asyncio.run(both_ways()) == VALUES


def java(door: Door, mechanism: str, path: Path, password: str = "") -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'username="admin" password="{password or door.password}"'
    path.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={door.ca}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required {login};\n"
    )
    return str(path)


@ALL
def test_java(door: Door, mechanism: str, apache: Path, tmp_path: Path) -> None:
    topic, config = f"java-{mechanism}", java(door, mechanism, tmp_path / "client.properties")
    where = ("--bootstrap-server", door.node.address, "--topic", topic, "--command-config", config)
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    kafka_class("org.apache.kafka.tools.ConsoleProducer", *where, stdin=lines)
    until = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    read = kafka_class("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *until)
    assert read.split() == [value.decode() for value in VALUES]


def test_java_with_the_file_that_start_secure_made(door: Door, apache: Path) -> None:
    topics = ("org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", door.node.address)
    kafka_class(*topics, "--command-config", str(door.home / "admin.properties"))


@ALL
def test_java_with_a_wrong_password(door: Door, mechanism: str, apache: Path, tmp_path: Path) -> None:
    topics = ("org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", door.node.address)
    config = java(door, mechanism, tmp_path / "client.properties", "wrong")
    code, said = run_kafka_class(*topics, "--command-config", config)
    assert code and "SaslAuthenticationException" in said
    assert door.told_why(mechanism)
