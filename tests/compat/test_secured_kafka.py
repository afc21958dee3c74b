"""Our client at an Apache Kafka with TLS and SASL: let in, refused, and logged in again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.secured import SecuredKafka

from barnabas import Admin, Consumer, Producer, TransactionalProducer
from barnabas.aio import Consumer as AioConsumer
from barnabas.aio import Producer as AioProducer
from barnabas.errors import BarnabasError

pytestmark = pytest.mark.compat

RECORDS = 1000


@pytest.fixture(scope="module")
def kafka(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    secured = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        yield secured.start()
    finally:
        secured.stop()


def tls(kafka: SecuredKafka) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.truststore.location": str(kafka.authority.ca)}


def mutual(kafka: SecuredKafka) -> dict[str, str]:
    store = {
        "ssl.keystore.location": str(kafka.client.with_suffix(".p12")),
        "ssl.keystore.password": "changeit",
    }
    return tls(kafka) | store


WAYS = ["TLS", "MUTUAL", "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]


def way(kafka: SecuredKafka, name: str) -> tuple[str, dict[str, str]]:
    if name == "TLS":
        return kafka.address("TLS"), tls(kafka)
    if name == "MUTUAL":
        return kafka.address("MUTUAL"), mutual(kafka)
    return kafka.address("LOGIN"), kafka.login(name)


@pytest.mark.parametrize("name", WAYS)
def test_a_thousand_records_go_each_way_with_both_shells(kafka: SecuredKafka, name: str) -> None:
    address, security = way(kafka, name)
    topic = f"blocking-{name.lower()}"
    with Producer(address, security=security, compression="lz4") as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number)
    with Consumer(address, topic, security=security, start="earliest", group=topic, idle=2.0) as consumer:
        assert sorted(int(message.value or b"") for message in consumer) == list(range(RECORDS))
    found = asyncio.run(both_ways(address, security, f"asyncio-{name.lower()}"))
    assert sorted(found) == list(range(RECORDS))


async def both_ways(address: str, security: dict[str, str], topic: str) -> list[int]:
    async with AioProducer(address, security=security) as producer:
        for number in range(RECORDS):
            await producer.send(topic, b"%d" % number)
    async with AioConsumer(address, topic, security=security, start="earliest", idle=2.0) as consumer:
        return [int(message.value or b"") async for message in consumer]


def test_a_transaction_is_committed_over_sasl_ssl(kafka: SecuredKafka) -> None:
    address, security = way(kafka, "SCRAM-SHA-512")
    with TransactionalProducer(address, "secured-1", security=security) as producer, producer.transaction():
        producer.send("all-or-none", b"one")
    with Consumer(
        address, "all-or-none", security=security, start="earliest", isolation="read_committed", idle=2.0
    ) as consumer:
        assert [message.value for message in consumer] == [b"one"]


def said(address: str, security: dict[str, str]) -> str:
    with pytest.raises(BarnabasError) as raised, Admin(address, security=security, timeout=10.0) as admin:
        admin.topics()
    assert raised.value.next_step and "\n" not in f"{raised.value}"
    return f"{raised.value}"


def test_what_is_wrong_is_said_in_the_brokers_words_or_ours(kafka: SecuredKafka) -> None:
    login = kafka.address("LOGIN")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"):
        assert "Authentication failed" in said(login, kafka.login(mechanism, "wrong"))
    assert "invalid_token" in said(login, kafka.login("OAUTHBEARER") | {"sasl.oauthbearer.token": "a.b.c"})
    assert "it takes SCRAM-SHA-512" in said(kafka.address("SHORT"), kafka.login("PLAIN", listener="SHORT"))
    assert "plain one" in said(kafka.address("PLAIN"), tls(kafka))
    assert "not trusted" in said(kafka.address("TLS"), {"security.protocol": "SSL"})
    assert "certificate" in said(kafka.address("MUTUAL"), tls(kafka))
    assert said(kafka.address("TLS"), {})
    assert said(login, tls(kafka))


def test_a_session_of_two_seconds_is_renewed_on_both_shells(kafka: SecuredKafka) -> None:
    """Apache Kafka ends a connection that goes on after its session: nothing may fail here."""
    address, security = kafka.address("SHORT"), kafka.login("SCRAM-SHA-512", listener="SHORT")
    ends = time.monotonic() + 5
    with Admin(address, security=security) as admin:
        first = admin.cluster.any()
        while time.monotonic() < ends:
            admin.topics()
            time.sleep(0.05)
        assert admin.cluster.any() is first and not first.closed
    asyncio.run(talk_for(address, security, 5))


async def talk_for(address: str, security: dict[str, str], seconds: float) -> None:
    async with AioProducer(address, security=security) as producer:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await (await producer.send("renewed", b"x"))
            await asyncio.sleep(0.05)


def test_the_command_line_logs_in_with_a_command_config(kafka: SecuredKafka, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    options = kafka.login("SCRAM-SHA-512") | {"client.id": "somebody"}
    config.write_text("".join(f"{name}={value}\n" for name, value in options.items()))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        where = ("-b", kafka.address("LOGIN"), "--command-config", str(config))
        command = [sys.executable, "-m", "barnabas", *arguments, *where]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    created = run("topics", "create", "by-hand")
    assert created.returncode == 0, created.stderr
    assert "by-hand" in run("topics", "list").stdout
    config.write_text(config.read_text().replace("secret-512", "wrong"))
    refused = run("topics", "list")
    assert (
        refused.returncode == 1
        and "Authentication failed" in refused.stderr
        and "wrong" not in refused.stderr
    )
