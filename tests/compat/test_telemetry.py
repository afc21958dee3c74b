"""Real clients push their metrics, and Kafka's tools ask them to and set settings of groups (KIP-714, KIP-848)."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.compat.conftest import NodeProcess, free_port, kafka_class, run_kafka_class
from tests.patience import PATIENCE_S
from tools.peer import CONFIGS

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools."
METRICS = TOOLS + "ClientMetricsCommand"
Pushed = dict[str, dict[str, float]]


class Node(NodeProcess):
    """A node whose metrics can be scraped."""

    def __init__(self, folder: Path) -> None:
        self.page = free_port()
        super().__init__(folder, **{"barnabas.http.listener": f"127.0.0.1:{self.page}"})

    def pushed(self) -> Pushed:
        """The series of each client id that pushed, by the name of the series."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/metrics") as answer:
            text = answer.read().decode()
        found: Pushed = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("client_org_apache_kafka_"):
                    name = sample.name.removeprefix("client_org_apache_kafka_")
                    found.setdefault(sample.labels["client_id"], {})[name] = sample.value
        return found

    def tool(self, name: str, *arguments: str, stdin: str | None = None) -> str:
        return kafka_class(name, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    running = Node(tmp_path_factory.mktemp("telemetry") / "node")
    running.start()
    running.barnabas("topics", "create", "t", "--partitions", "1", "-b", running.bootstrap)
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture(scope="module")
def asked(node: Node) -> Node:
    """A node that asks every client for everything, each second."""
    settings = ("metrics=*", "interval.ms=1000")
    node.barnabas("configs", "set", "client-metrics", "everything", *settings, "-b", node.bootstrap)
    return node


def until(found: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline
        meanwhile()


def test_librdkafka_pushes_its_metrics(asked: Node) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    servers = {"bootstrap.servers": asked.bootstrap, "enable.metrics.push": True}
    producer = confluent.Producer({**servers, "client.id": "rd-producer"})
    consumer = confluent.Consumer({**servers, "client.id": "rd-consumer", "group.id": "rd"})
    consumer.subscribe(["t"])

    def work() -> None:
        producer.produce("t", b"x")
        producer.poll(0.1)
        consumer.poll(0.1)

    until(lambda: {"rd-producer", "rd-consumer"} <= asked.pushed().keys(), work)
    consumer.close()
    pushed = asked.pushed()
    assert pushed["rd-producer"]["producer_connection_creation_total"] >= 1
    assert "consumer_coordinator_assigned_partitions" in pushed["rd-consumer"]


@pytest.mark.usefixtures("apache")
def test_kafkas_producer_and_consumer_push_their_metrics(asked: Node) -> None:
    def produce() -> None:  # one that ends before it was told what to push says nothing
        arguments = ("--topic", "t", "--command-property", "client.id=j-p")
        asked.tool(TOOLS + "ConsoleProducer", *arguments, stdin="a\nb\n")

    until(lambda: "j-p" in asked.pushed(), produce)
    assert asked.pushed()["j-p"]["producer_connection_creation_total"] >= 1
    consumer = ("--topic", "t", "--from-beginning", "--timeout-ms", "6000", "--group", "j")
    asked.tool(TOOLS + "consumer.ConsoleConsumer", *consumer, "--command-property", "client.id=j-c")
    pushed = asked.pushed()
    assert pushed["j-c"]["consumer_connection_creation_total"] >= 1
    assert pushed["j-c"]["consumer_fetch_manager_fetch_latency_max"] >= 0


@pytest.mark.usefixtures("apache")
def test_kafkas_tool_makes_shows_lists_and_deletes_subscriptions(node: Node) -> None:
    how = ("--metrics", "org.apache.kafka.consumer.", "--interval", "30000", "--match", "client_id=none")
    node.tool(METRICS, "--alter", "--name", "tooled", *how)
    shown = node.tool(METRICS, "--describe", "--name", "tooled")
    assert "interval.ms=30000" in shown
    assert "match=client_id=none" in shown
    assert "metrics=org.apache.kafka.consumer." in shown
    assert "tooled" in node.tool(METRICS, "--list").split()
    by_configs = node.tool(
        CONFIGS, "--entity-type", "client-metrics", "--entity-name", "tooled", "--describe"
    )
    assert "interval.ms=30000" in by_configs
    node.tool(METRICS, "--delete", "--name", "tooled")
    assert "tooled" not in node.tool(METRICS, "--list").split()
    refused = ("--alter", "--name", "tooled", "--metrics", "a", "--interval", "99")
    code, said = run_kafka_class(METRICS, "--bootstrap-server", node.bootstrap, *refused)
    assert code != 0
    assert "out of range: 100 to 3600000" in said


@pytest.mark.usefixtures("apache")
def test_kafkas_tool_sets_settings_of_a_group(node: Node) -> None:
    group = ("--entity-type", "groups", "--entity-name", "set")
    setting = "consumer.session.timeout.ms=50000"
    node.tool(CONFIGS, *group, "--alter", "--add-config", setting)
    assert f"{setting} " in node.tool(CONFIGS, *group, "--describe")
    everything = node.tool(CONFIGS, *group, "--describe", "--all")
    assert "consumer.heartbeat.interval.ms=5000" in everything
    assert "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000" in everything
    assert "group set are:" in node.tool(CONFIGS, "--entity-type", "groups", "--describe")
    code, said = run_kafka_class(
        CONFIGS,
        "--bootstrap-server",
        node.bootstrap,
        *group,
        "--alter",
        "--add-config",
        "consumer.session.timeout.ms=1",
    )
    assert (code != 0, "InvalidConfigurationException" in said) == (True, True), said
    node.tool(CONFIGS, *group, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert not re.search(r"consumer.session.timeout.ms", node.tool(CONFIGS, *group, "--describe"))
