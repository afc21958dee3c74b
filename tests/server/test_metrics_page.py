"""The page of metrics, the dashboard and the alerts name what a node really answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.promql_labels import MismatchError, labels_of
from tools.metrics_page import families, page, scraped

from barnabas.server.observe.exposition import Names, exposition
from barnabas.server.observe.metrics import Metrics

DOCS = Path(__file__).parents[2] / "docs"
NAME = re.compile(r"\b(?:kafka|barnabas|process)_\w+")
SUFFIXES = re.compile(r"_(bucket|count|sum)$")


@pytest.fixture(scope="module")
def scrape() -> str:
    return scraped()


def test_the_page_is_what_a_node_answers(scrape: str) -> None:
    assert (DOCS / "metrics.md").read_text() == page(families(scrape)), "python -m tools.metrics_page"


def test_what_topics_take_and_give_and_how_far_groups_are_is_counted(scrape: str) -> None:
    for line in (
        'kafka_server_BrokerTopicMetrics_MessagesInPerSec_total{topic="orders"} 1.0',
        'kafka_consumergroup_current_offset{consumergroup="billing",partition="0",topic="orders"} 1.0',
        'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} 0.0',
    ):
        assert line in scrape, line
    given = re.search(r'BytesOutPerSec_total{topic="orders"} (\S+)', scrape)
    assert given is not None and 60 < float(given[1]) < 200
    assert "process_resident_memory_bytes" in scrape


def test_a_scrape_is_prometheus_text_and_leaves_out_what_is_empty(scrape: str) -> None:
    found = {family.name: family for family in text_string_to_metric_families(scrape)}
    asked = {s.labels["request"] for s in found["kafka_network_RequestMetrics_RequestsPerSec"].samples}
    assert "Produce" in asked and "DeleteAcls" not in asked and len(asked) < 25


@pytest.mark.parametrize("file", ["dashboard.json", "alerts.yml"])
def test_dashboard_and_alerts_use_names_that_are_there(file: str, scrape: str) -> None:
    text = (DOCS / "monitoring" / file).read_text()
    there = families(scrape).keys() | NOT_AT_REST
    used = {SUFFIXES.sub("", name) for name in NAME.findall(text)} - {"barnabas"}
    assert len(used) > 10 and used <= there


def expressions() -> list[str]:
    """All of the dashboard and of the alert rules."""
    board = json.loads((DOCS / "monitoring" / "dashboard.json").read_text())
    rules = (DOCS / "monitoring" / "alerts.yml").read_text()
    return [t["expr"] for p in board["panels"] for t in p["targets"]] + re.findall(r'expr: "(.*)"', rules)


def test_no_expression_is_empty_because_the_labels_of_its_two_sides_differ(scrape: str) -> None:
    targets = frozenset({"job", "instance"})
    labels = {"up": targets} | {
        sample.name: targets | sample.labels.keys()
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
    }
    labels |= {name: targets | {"request"} for name in NOT_AT_REST}
    assert len(expressions()) > 40
    for expression in expressions():
        labels_of(expression, labels)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('max(a{job=~"x"}) - a', "differ"),
        ("sum by (job) (a) / sum by (job, instance) (a)", "differ"),
        ("max(a) - on (job) group_right () a", "has no"),
        ("a - on (job) sum by (job) (a)", "several series"),
        ("rate(b[5m]) > a", "differ"),
    ],
)
def test_an_expression_whose_sides_never_meet_is_found(wrong: str, why: str) -> None:
    metrics = {"a": frozenset({"job", "instance"}), "b": frozenset({"job", "topic"})}
    with pytest.raises(MismatchError, match=why):
        labels_of(wrong, metrics)
    assert labels_of("max(a) - on () group_right () a", metrics) == {"job", "instance"}
    assert labels_of("sum by (topic) (rate(b[5m])) * 100 > 5 % 2", metrics) == {"topic"}


def test_prometheus_takes_the_alert_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here (Debian's package prometheus has it)")
    rules = DOCS / "monitoring" / "alerts.yml"
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_prometheus_takes_what_a_node_answers(scrape: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here (Debian's package prometheus has it)")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=scrape, capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    assert done.returncode in (0, 3) and not said, done.stderr  # 3: advice about names, which are Kafka's


NOT_AT_REST = {
    "kafka_network_RequestMetrics_ErrorsPerSec_total",
}
"""Series that a node has only when something is wrong."""


def test_the_dashboard_is_read_by_grafana_and_its_panels_do_not_overlap() -> None:
    board = json.loads((DOCS / "monitoring" / "dashboard.json").read_text())
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]}
    assert len(places) == len(board["panels"]) == len({p["id"] for p in board["panels"]})
    assert all(target["expr"] for p in board["panels"] for target in p["targets"])


def test_names_as_of_the_jmx_exporter_are_in_lower_case_and_without_persec() -> None:
    metrics = Metrics()
    metrics.counter("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=Big").value += 3
    metrics.histogram("kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Fetch").observe(0.003)
    text = exposition(metrics, Names.JMX).decode()
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="Big"} 3.0' in text
    assert 'kafka_network_requestmetrics_totaltime_seconds_bucket{le="0.005",request="Fetch"} 1.0' in text


def test_a_scrape_of_a_large_node_costs_the_event_loop_little() -> None:
    metrics = Metrics()
    for number in range(90):
        metrics.counter(f"kafka.network:type=RequestMetrics,name=RequestsPerSec,request=r{number}")
        metrics.histogram(f"kafka.network:type=RequestMetrics,name=TotalTimeMs,request=r{number}")
    for number in range(15):
        metrics.counter(f"kafka.network:type=RequestMetrics,name=RequestsPerSec,request=r{number}").value += 1
        metrics.histogram(f"kafka.network:type=RequestMetrics,name=TotalTimeMs,request=r{number}").observe(
            0.1
        )
    for number in range(1000):
        tags = f"topic=t,partition={number}"
        metrics.gauge(f"kafka.log:type=Log,name=LogEndOffset,{tags}", "End", lambda: 7.0)
    exposition(metrics)
    began = time.process_time()
    for _ in range(10):
        exposition(metrics)
    assert (time.process_time() - began) / 10 < 0.03
