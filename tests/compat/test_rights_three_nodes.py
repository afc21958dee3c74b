"""What is taken back counts within a second at every node of three, for librdkafka's producers at work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.cli.drill.node import StageNode
from barnabas.cli.drill.stage import Stage

pytestmark = pytest.mark.compat

NODES = (1, 2, 3)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ADMIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"} | {
    "sasl.username": "admin",
    "sasl.password": "a-secret",
}


def with_logins(node: StageNode) -> None:
    node.listen_apart(ADMIN)
    node.settings |= {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} required user_admin="a-secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(lambda kind, text: None) as stage:
        folder = Path(stage.directory)
        stage.security = ADMIN
        stage.form(*NODES, roles="broker,controller", prepare=with_logins)
        (folder / "admin").write_text("".join(f"{name}={value}\n" for name, value in ADMIN.items()))
        (folder / "password").write_text("correct horse\n")
        stage.until("all serve", lambda: set(NODES) <= stage.unfenced())
        stage.type("topics create orders --partitions 3 --replication-factor 3 --command-config admin")
        stage.until("all replicas are in sync", stage.whole)
        yield stage


def new_user(stage: Stage, name: str) -> list[Producer]:
    """A user who may write, and for each partition, so for each node, a producer that has written."""
    stage.type(f"users add {name} --password-file password --iterations 4096 --command-config admin")
    stage.type(
        f"acls add --allow-principal User:{name} --operation Write --topic orders --command-config admin"
    )
    described = json.loads(stage.type("topics describe orders --json --command-config admin"))
    leaders = {row["partition"]: row["leader"] for row in described["topic"]["partitions"]}
    assert set(leaders.values()) == set(NODES)
    options = {
        "bootstrap.servers": stage.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": name,
        "sasl.password": "correct horse",
        "message.timeout.ms": 700,
        "linger.ms": 0,
    }
    producers = [Producer(options) for _ in leaders]
    for partition, producer in enumerate(producers):
        stage.until("it may write", lambda p=partition, at=producer: send(at, p) == "")
    return producers


def send(producer: Producer, partition: int) -> str:
    """The name of the error with which a record was refused, "" if it was acknowledged."""
    ends: list[str] = []
    producer.produce(
        "orders", b"x", partition=partition, callback=lambda e, _: ends.append(e.name() if e else "")
    )
    producer.flush(5)
    return ends[0]


def refused_after(producers: list[Producer], begun: float, error: str) -> list[float]:
    """Seconds after which each was refused; while a record waits for its answer none is sent elsewhere."""
    after: dict[int, float] = {}
    while len(after) < len(producers):
        assert time.monotonic() < begun + 10, after
        for partition, producer in enumerate(producers):
            if partition not in after and send(producer, partition) == error:
                after[partition] = time.monotonic() - begun
    return list(after.values())


def test_a_right_that_is_taken_back_is_refused_by_all(stage: Stage) -> None:
    producers = new_user(stage, "alice")
    stage.type(
        "acls remove --allow-principal User:alice --operation Write --topic orders --command-config admin"
    )
    after = refused_after(producers, time.monotonic(), "TOPIC_AUTHORIZATION_FAILED")
    assert max(after) < 1.0, after


def test_a_user_who_is_removed_is_out_at_all(stage: Stage) -> None:
    producers = new_user(stage, "bob")
    stage.type("users remove bob --command-config admin")
    begun = time.monotonic()
    assert all(send(producer, partition) for partition, producer in enumerate(producers))
    assert time.monotonic() - begun < 4.0, "no record is acknowledged; librdkafka gives up after its own time"
