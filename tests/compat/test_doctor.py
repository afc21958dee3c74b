"""`barnabas doctor` examines an Apache Kafka: nothing is wrong where nothing is, and each mistake is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.compat.secured import SecuredKafka

from barnabas.cli.main import main

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def kafka(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    secured = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        yield secured.start()
    finally:
        secured.stop()


def examined(
    kafka: SecuredKafka, listener: str, client: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """The exit code, and the rows that failed."""
    file = kafka.folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in client.items()))
    code = main(["doctor", kafka.address(listener), "--command-config", str(file), "--json"])
    said = json.loads(capsys.readouterr().out)
    return code, {row["check"]: row["said"] for row in said["checks"] if row["state"] == "failed"}


def tls(kafka: SecuredKafka) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(kafka.authority.ca)}


def mutual(kafka: SecuredKafka) -> dict[str, str]:
    own = str(kafka.client)
    return tls(kafka) | {"ssl.certificate.location": own, "ssl.key.location": own}


Client = Callable[[SecuredKafka], dict[str, str]]
HEALTHY: dict[str, tuple[str, Client]] = {
    "plain": ("PLAIN", lambda kafka: {"security.protocol": "PLAINTEXT"}),
    "TLS": ("TLS", tls),
    "a certificate": ("MUTUAL", mutual),
    "SCRAM-SHA-256": ("LOGIN", lambda kafka: kafka.login("SCRAM-SHA-256")),
    "SCRAM-SHA-512": ("LOGIN", lambda kafka: kafka.login("SCRAM-SHA-512")),
    "PLAIN": ("LOGIN", lambda kafka: kafka.login("PLAIN")),
    "OAUTHBEARER": ("LOGIN", lambda kafka: kafka.login("OAUTHBEARER")),
    "no TLS": ("SHORT", lambda kafka: kafka.login("SCRAM-SHA-512", listener="SHORT")),
}


@pytest.mark.parametrize("what", HEALTHY)
def test_where_nothing_is_wrong_nothing_fails(
    kafka: SecuredKafka, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listener, client = HEALTHY[what]
    assert examined(kafka, listener, client(kafka), capsys) == (0, {})


def distrusting(kafka: SecuredKafka) -> dict[str, str]:
    other = Authority(kafka.folder / "others", "another authority")
    return tls(kafka) | {"ssl.ca.location": str(other.ca)}


def of_others(kafka: SecuredKafka) -> dict[str, str]:
    own = str(Authority(kafka.folder / "others", "another authority").issue("client"))
    return mutual(kafka) | {"ssl.certificate.location": own, "ssl.key.location": own}


MISTAKES: dict[str, tuple[str, Client, str]] = {
    "plain at a TLS port": ("TLS", lambda kafka: {"security.protocol": "PLAINTEXT"}, "protocol"),
    "TLS at a plain port": ("PLAIN", tls, "protocol"),
    "another authority": ("TLS", distrusting, "authority"),
    "no certificate": ("MUTUAL", tls, "client certificate"),
    "a certificate of another authority": ("MUTUAL", of_others, "client certificate"),
    "a wrong password": ("LOGIN", lambda kafka: kafka.login("SCRAM-SHA-512", "wrong"), "login"),
    "a wrong password by PLAIN": ("LOGIN", lambda kafka: kafka.login("PLAIN", "wrong"), "login"),
    "another mechanism": (
        "SHORT",
        lambda kafka: kafka.login("PLAIN", listener="SHORT"),
        "mechanisms",
    ),
    "no login": ("LOGIN", tls, "login"),
    "a login where none is": ("TLS", lambda kafka: kafka.login("SCRAM-SHA-512"), "mechanisms"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_named_by_one_row(
    kafka: SecuredKafka, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listener, client, check = MISTAKES[mistake]
    code, failed = examined(kafka, listener, client(kafka), capsys)
    assert code == 1 and list(failed) == [check], failed
