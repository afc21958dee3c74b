"""`barnabas telemetry` and `barnabas configs list`, word for word, against a real node."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell import Shell

from barnabas.client.blocking import BlockingConnection
from barnabas.model import Uuid
from barnabas.testing import Cluster
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

PUSHES = json.loads((Path(__file__).parents[1] / "broker" / "telemetry_pushes.json").read_text())
WHO = Uuid(b"etl." * 4)


@pytest.fixture(scope="module")
def page() -> str:
    """An address that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(scope="module")
def kafka(page: str) -> Iterator[Cluster]:
    """A node for this module alone: its settings and its clients are listed."""
    with Cluster({"barnabas.http.listener": page}) as cluster:
        yield cluster


def push(kafka: Cluster) -> None:
    """What librdkafka's consumer pushed once, from a client called etl."""
    host, _, port = kafka.bootstrap.rpartition(":")
    with BlockingConnection(host, int(port), client_id="etl") as connection:
        told = connection.request(GetTelemetrySubscriptionsRequest(client_instance_id=WHO))
        one = PUSHES["librdkafka 2.16.0 consumer"]
        request = PushTelemetryRequest(
            client_instance_id=WHO,
            subscription_id=told.subscription_id,
            compression_type=one["codec"],
            metrics=base64.b64decode(one["metrics"]),
        )
        assert connection.request(request).error_code == 0


def told_of_telemetry(kafka: Cluster) -> bool:
    """Whether a client that connects now hears of the two APIs."""
    host, _, port = kafka.bootstrap.rpartition(":")
    with BlockingConnection(host, int(port), client_id="etl") as connection:
        answer = connection.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        assert len(answer.api_keys) > 40
        return {71, 72} <= {key.api_key for key in answer.api_keys}


def test_clients_are_asked_for_metrics_and_what_they_push_is_shown(
    shell: Shell, kafka: Cluster, page: str
) -> None:
    assert shell("telemetry list") == 0
    assert shell.out.startswith("No client is asked for metrics")
    assert not told_of_telemetry(kafka), "librdkafka prints a line when it asks in vain"
    assert shell("configs set client-metrics all metrics=a.,b. interval.ms=60000 match=client_id=e.*") == 0
    assert shell("telemetry list") == 0
    assert shell.out.splitlines() == [
        "NAME  METRICS  INTERVAL  MATCH",
        "all   a.,b.       60000  client_id=e.*",
    ]
    assert shell(f"telemetry clients -m {page}") == 0
    assert shell.out == f"No client pushed metrics to {page} lately.\n"
    assert told_of_telemetry(kafka)
    kafka.restart(1)
    assert told_of_telemetry(kafka)
    push(kafka)
    [client] = shell.document(f"telemetry clients -m {page}")["clients"]
    assert (client["client"], client["instance"], client["series"]) == ("etl", str(WHO), 15)
    assert client["software"].startswith("barnabas ")
    for name in ("etl", str(WHO)):
        assert shell(f"telemetry show {name} -m {page}") == 0
        lines = [line.split() for line in shell.out.splitlines()]
        assert ["org_apache_kafka_consumer_connection_creation_total", "2"] in lines
        assert ["org_apache_kafka_consumer_node_request_latency_max", "node_id=1", "507"] in lines
    assert shell(f"telemetry show nobody -m {page}") != 0
    assert "barnabas telemetry clients" in shell.err


def test_a_page_that_is_not_there_is_an_error_with_a_next_step(shell: Shell) -> None:
    assert shell("telemetry clients -m 127.0.0.1:1") != 0
    assert "barnabas.http.listener" in shell.err


def test_what_has_settings_is_listed(shell: Shell) -> None:
    assert shell("configs set group cli-set consumer.session.timeout.ms=50000") == 0
    assert shell("configs list group") == 0
    assert shell.out.splitlines() == ["KIND   NAME", "group  cli-set"]
    assert {"kind": "broker", "name": "1"} in shell.document("configs list")["resources"]
    assert shell("configs show group cli-set") == 0
    assert shell.out.splitlines()[1].split() == ["consumer.session.timeout.ms", "50000", "group"]
    assert shell("configs set group cli-set consumer.session.timeout.ms=1") != 0
    assert "out of range: 45000 to 60000" in shell.err
