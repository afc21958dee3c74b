"""Real clients log in with tokens that an issuer signed (OAUTHBEARER): let in, and told what is wrong."""

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
from kafka.net.sasl.oauth import AbstractTokenProvider
from tests.compat.conftest import kafka_class, run_kafka_class
from tests.issuer import Issuer, token
from tests.server.test_bearer_logins import MODULE, taking

from barnabas.testing.cluster import Cluster, free_ports

pytestmark = pytest.mark.compat

RECORDS = 1000
VALUES = [b"%d" % number for number in range(RECORDS)]
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class Node:
    """A node whose listener LOGIN takes tokens of `issuer`."""

    def __init__(self, issuer: Issuer, folder: Path) -> None:
        self.port, self.issuer, self.folder = free_ports(), issuer, folder
        self.login = f"127.0.0.1:{self.port}"
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://{self.login},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                **taking(f"{issuer.url}/keys"),
            }
        )

    def properties(self, name: str, url: str) -> str:
        """A file for Java's clients, which fetch their tokens from `url`."""
        file = self.folder / f"{name}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.login.callback.handler.class={HANDLER}\n"
            f"sasl.oauthbearer.token.endpoint.url={url}\n"
            f'sasl.jaas.config={MODULE} required clientId="ada" clientSecret="ada-secret" scope="kafka";\n'
        )
        return str(file)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Issuer("RS256") as issuer:
        running = Node(issuer, tmp_path_factory.mktemp("bearers"))
        with running.cluster:
            yield running


def java(node: Node, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Java's clients fetch from no URL that its owner has not listed."""
    monkeypatch.setenv("KAFKA_OPTS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")


@pytest.mark.parametrize("kid", ["RS256"])
def test_java_sends_and_reads_a_thousand_records(
    apache: Path, node: Node, monkeypatch: pytest.MonkeyPatch, kid: str
) -> None:
    url = f"{node.issuer.url}/token"
    java(node, monkeypatch, url)
    config = node.properties("java", url)
    lines = "".join(f"line {number}\n" for number in range(RECORDS))
    at = ("--bootstrap-server", node.login, "--topic", "java", "--command-config", config)
    kafka_class("org.apache.kafka.tools.ConsoleProducer", *at, stdin=lines)
    read = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    out = kafka_class("org.apache.kafka.tools.consumer.ConsoleConsumer", *at, *read)
    assert out.splitlines() == lines.splitlines()


def test_java_says_that_its_token_is_not_taken(
    apache: Path, node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token.jwt"
    file.write_text(token("RS256", aud="somebody", scope="kafka"))
    java(node, monkeypatch, file.as_uri())
    monkeypatch.setenv(
        "KAFKA_OPTS",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()} "
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={file}",
    )
    config = node.properties("java-refused", file.as_uri())
    tool = "org.apache.kafka.tools.TopicCommand"
    code, said = run_kafka_class(tool, "--bootstrap-server", node.login, "--list", "--command-config", config)
    assert code != 0 and "SaslAuthenticationException" in said and "invalid_token" in said
    assert "the token is for 'somebody'" in node.cluster.log()


def test_librdkafka_sends_and_reads_a_thousand_records(node: Node) -> None:
    def bring(_: str) -> tuple[str, float]:
        return token("RS256"), time.time() + 300

    options: dict[str, Any] = {
        "bootstrap.servers": node.login,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": bring,
    }
    failed: list[Any] = []
    producer = ConfluentProducer(options)
    for value in VALUES:
        producer.produce("librdkafka", value, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(30) == 0 and not failed
    consumer = ConfluentConsumer({**options, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    found: list[bytes] = []
    until = time.monotonic() + 30
    while len(found) < RECORDS and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    assert found == VALUES

    def bring_wrong(_: str) -> tuple[str, float]:
        return token("RS256", iss="https://evil.example.org/"), time.time() + 300

    errors: list[str] = []
    wrong = {**options, "oauth_cb": bring_wrong, "error_cb": lambda error: errors.append(str(error))}
    refused = ConfluentProducer(wrong)
    until = time.monotonic() + 20
    while not any("_AUTHENTICATION" in error for error in errors) and time.monotonic() < until:
        refused.poll(0.1)
    assert any("_AUTHENTICATION" in error and "invalid_token" in error for error in errors), errors


class Tokens(AbstractTokenProvider):
    """For kafka-python."""

    def token(self) -> str:
        return token("RS256")


def test_kafka_python_sends_and_reads_a_thousand_records(node: Node) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": node.login,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    producer = KafkaProducer(**options)
    sent = [producer.send("kafka-python", value) for value in VALUES]
    producer.flush()
    assert all(one.get(10) for one in sent)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", **options, auto_offset_reset="earliest", consumer_timeout_ms=5000
    )
    found = [message.value for message, _ in zip(consumer, range(RECORDS), strict=False)]
    consumer.close()
    assert found == VALUES


def test_aiokafka_sends_and_reads_a_thousand_records(node: Node) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.abc import AbstractTokenProvider as Provider

    class Bringing(Provider):  # type: ignore[misc]
        async def token(self) -> str:
            return token("RS256")

    options: dict[str, Any] = {
        "bootstrap_servers": node.login,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Bringing(),
    }

    async def talk() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            for value in VALUES:
                await producer.send("aiokafka", value)
        found: list[bytes] = []
        async with aiokafka.AIOKafkaConsumer("aiokafka", **options, auto_offset_reset="earliest") as consumer:
            while len(found) < RECORDS:
                for messages in (await consumer.getmany(timeout_ms=5000)).values():
                    found += [message.value for message in messages]
        return found

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == VALUES
