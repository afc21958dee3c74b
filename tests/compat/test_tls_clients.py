"""Real clients at a node's listeners with TLS, with and without certificates of their own: let in, and refused."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.compat.conftest import NodeProcess, free_port, kafka_class, run_kafka_class

from barnabas import Consumer, Producer

pytestmark = pytest.mark.compat

RECORDS = 1000
VALUES = [b"%d" % number for number in range(RECORDS)]


class SecuredNode:
    """A node with three listeners: PLAINTEXT, TLS, and MUTUAL, which asks for certificates."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "certificates")
        self.certificate = self.authority.issue("node")
        self.client = self.authority.issue("client")
        self.ports = {"TLS": free_port(), "MUTUAL": free_port()}
        self.node = NodeProcess(folder / "node")
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        first = f"PLAINTEXT://127.0.0.1:{self.node.port},CONTROLLER://127.0.0.1:{self.node.controller_port}"
        for name, value in {
            "listeners": ",".join([first, *listeners]),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
            "ssl.keystore.location": str(self.certificate),
            "ssl.truststore.location": str(self.authority.ca),
            "listener.name.mutual.ssl.client.auth": "required",
        }.items():
            self.node.set(name, value)

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def refusals(self) -> str:
        return "\n".join(line for line in self.node.log.read_text().splitlines() if "tls.refused" in line)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    made = SecuredNode(tmp_path_factory.mktemp("secured"))
    try:
        made.node.start()
        yield made
        made.node.stop()
    finally:
        made.node.discard()


LISTENERS = pytest.mark.parametrize("listener", ["TLS", "MUTUAL"])


def options(secured: SecuredNode, listener: str) -> dict[str, str]:
    found = {"security.protocol": "SSL", "ssl.ca.location": str(secured.authority.ca)}
    if listener == "MUTUAL":
        found |= {
            "ssl.certificate.location": str(secured.client),
            "ssl.key.location": str(secured.client),
        }
    return found


def context(secured: SecuredNode, listener: str) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(secured.authority.ca))
    if listener == "MUTUAL":
        made.load_cert_chain(secured.client)
    return made


@LISTENERS
def test_librdkafka_sends_and_reads_a_thousand_records(secured: SecuredNode, listener: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition
    from confluent_kafka import Consumer as LibrdConsumer
    from confluent_kafka import Producer as LibrdProducer

    settings = options(secured, listener) | {"bootstrap.servers": secured.address(listener)}
    topic = f"librdkafka-{listener}"
    producer = LibrdProducer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = LibrdConsumer(settings | {"group.id": topic})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(found) < RECORDS and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(1000, timeout=1)]
    consumer.close()
    assert found == VALUES


@LISTENERS
def test_kafka_python_sends_and_reads_a_thousand_records(secured: SecuredNode, listener: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings: dict[str, Any] = {
        "bootstrap_servers": secured.address(listener),
        "security_protocol": "SSL",
        "ssl_context": context(secured, listener),
    }
    topic = f"kafka-python-{listener}"
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


@LISTENERS
def test_aiokafka_sends_and_reads_a_thousand_records(secured: SecuredNode, listener: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = f"aiokafka-{listener}"

    async def both_ways() -> list[bytes]:
        settings: dict[str, Any] = {
            "bootstrap_servers": secured.address(listener),
            "security_protocol": "SSL",
            "ssl_context": context(secured, listener),
        }
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


@LISTENERS
def test_our_client_sends_and_reads_a_thousand_records(secured: SecuredNode, listener: str) -> None:
    security, topic = options(secured, listener), f"barnabas-{listener}"
    address = secured.address(listener)
    with Producer(address, security=security, compression="zstd") as producer:
        for value in VALUES:
            producer.send(topic, value)
    with Consumer(address, topic, security=security, start="earliest", idle=2.0) as consumer:
        assert [message.value for message in consumer] == VALUES


@LISTENERS
def test_java_sends_and_reads_a_thousand_records(
    secured: SecuredNode, listener: str, apache: Path, tmp_path: Path
) -> None:
    topic, config = f"java-{listener}", java_options(secured, listener, tmp_path)
    where = ("--bootstrap-server", secured.address(listener), "--topic", topic)
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    kafka_class("org.apache.kafka.tools.ConsoleProducer", *where, "--command-config", config, stdin=lines)
    until = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    read = kafka_class(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *until, "--command-config", config
    )
    assert read.split() == [value.decode() for value in VALUES]


def java_options(secured: SecuredNode, listener: str, folder: Path) -> str:
    found = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.authority.ca),
    }
    if listener == "MUTUAL":
        found |= {
            "ssl.keystore.location": str(secured.client.with_suffix(".p12")),
            "ssl.keystore.password": "changeit",
            "ssl.keystore.type": "PKCS12",
        }
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in found.items()))
    return str(path)


def test_java_without_a_certificate_or_without_trust_is_told_so(
    secured: SecuredNode, apache: Path, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "strangers", "another authority")
    config = java_options(secured, "TLS", tmp_path)
    topics = "org.apache.kafka.tools.TopicCommand"
    code, said = run_kafka_class(
        topics, "--list", "--bootstrap-server", secured.address("MUTUAL"), "--command-config", config
    )
    assert code and "SslAuthenticationException" in said
    assert "shows no certificate" in secured.refusals()
    Path(config).write_text(Path(config).read_text().replace(str(secured.authority.ca), str(stranger.ca)))
    code, said = run_kafka_class(
        topics, "--list", "--bootstrap-server", secured.address("TLS"), "--command-config", config
    )
    assert code and "SslAuthenticationException" in said
    assert "does not trust this node" in secured.refusals() or "does not take this node" in secured.refusals()


def test_librdkafka_without_trust_says_so(secured: SecuredNode, tmp_path: Path) -> None:
    from confluent_kafka import Producer as LibrdProducer

    stranger = Authority(tmp_path / "strangers", "another authority")
    errors: list[str] = []
    producer = LibrdProducer(
        {
            "bootstrap.servers": secured.address("TLS"),
            "security.protocol": "SSL",
            "ssl.ca.location": str(stranger.ca),
            "error_cb": lambda error: errors.append(str(error)),
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert any("certificate verify failed" in error for error in errors), errors
