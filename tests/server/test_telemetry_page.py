"""What clients pushed, and used of their quotas, as Prometheus' own reader finds it at /metrics."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.quotas.client_quotas import ClientQuotas
from barnabas.broker.telemetry.instances import Sender
from barnabas.broker.telemetry.otlp import Point, Push, read_push
from barnabas.broker.telemetry.telemetry import Telemetry
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.server.api.telemetry import TelemetryApi
from barnabas.server.loop.system import SystemClock, SystemRandomness
from barnabas.server.net.context import Client, RequestContext
from barnabas.server.node.quota_gauges import register_quotas
from barnabas.server.node.telemetry_gauges import register_telemetry
from barnabas.server.observe.exposition import exposition
from barnabas.server.observe.metrics import Metrics
from barnabas.wire.frame import RequestHeader
from barnabas.wire.schemas.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

PUSHES = json.loads((Path(__file__).parents[1] / "broker" / "telemetry_pushes.json").read_text())
Samples = list[tuple[str, dict[str, str], float]]


def page(metrics: Metrics) -> Samples:
    """The samples of a scrape; Prometheus' reader raises where the text is not its own."""
    text = exposition(metrics).decode()
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(set(lines)) == len(lines), "a series is there twice"
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(set(types)) == len(types), "a name has two types"
    return [
        (sample.name, dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def served(telemetry: Telemetry) -> TelemetryApi:
    """What serves requests for this telemetry; none comes in these tests."""
    nothing: Any = None
    api = TelemetryApi(nothing, nothing)
    api.telemetry = telemetry
    return api


def test_a_scrape_shows_what_a_client_pushed_and_who_it_is() -> None:
    clock, metrics = SystemClock(), Metrics()
    telemetry = Telemetry(Config.load({}), SystemRandomness())
    telemetry.follow({(16, "all"): {"metrics": "*"}})
    register_telemetry(metrics, served(telemetry), clock)
    sender = Sender(1, 'a "client"\n', "librdkafka", "2.16.0", "10.0.0.7", 4711)
    told = telemetry.ask(sender, GetTelemetrySubscriptionsRequest(), clock.now())
    push = PUSHES["librdkafka 2.16.0 consumer"]
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        compression_type=push["codec"],
        metrics=base64.b64decode(push["metrics"]),
    )
    assert telemetry.push(sender, request, clock.now()).error_code == 0
    samples = page(metrics)
    who = {"client_instance_id": str(told.client_instance_id), "client_id": 'a "client"\n'}
    base = "client_org_apache_kafka_consumer_"
    assert (f"{base}connection_creation_total", who, 2.0) in samples
    assert (f"{base}node_request_latency_max", {**who, "node_id": "1"}, 507.0) in samples
    ((_, about, one),) = [sample for sample in samples if sample[0] == "client_instance_info"]
    assert one == 1.0
    assert about["group_id"] == "g"
    assert about["client_software_version"] == "2.16.0"
    counts = {name: value for name, labels, value in samples if not labels}
    assert counts["kafka_server_client_metrics_instance_count"] == 1
    assert counts["kafka_server_client_metrics_plugin_export_count"] == 1


def test_what_is_used_of_quotas_is_shown_whatever_users_are_called() -> None:
    clock, metrics = SystemClock(), Metrics()
    quotas = ClientQuotas(11, 1)
    quotas.follow({frozenset({("user", None)}): {"producer_byte_rate": 10.0, "request_percentage": 1e6}})
    user = 'a,b="c"\n\\'
    now = clock.now().mono
    quotas.record("producer_byte_rate", user, "any", 1000, now)
    quotas.record("request_percentage", user, "any", 5, now)
    register_quotas(metrics, quotas, clock)
    shown = {
        name: value for name, labels, value in page(metrics) if labels == {"user": user, "client_id": ""}
    }
    assert shown["kafka_server_Produce_byte_rate"] > 10
    assert shown["kafka_server_Produce_throttled_total"] == 1
    assert shown["kafka_server_Produce_throttle_time_seconds_total"] > 10
    assert shown["kafka_server_Request_throttled_total"] == 0
    assert shown["kafka_server_Request_request_time"] > 0


def test_names_and_labels_of_a_hostile_client_leave_the_page_whole() -> None:
    clock, metrics = SystemClock(), Metrics()
    telemetry = Telemetry(Config.load({}), SystemRandomness())
    metrics.counter("kafka.server:type=Own,name=Counter").value = 7
    names = [
        "x",
        "x_total",
        "x_created",
        "x_sum",
        "info",
        "",
        "1",
        "__name__",
        "é",
        "a.b",
        "a_b",
        "le",
        "quantile",
    ]
    points = [
        Point(
            read_name(name), ((label, 'v"\\\n'),), float("-inf") if counter else float("nan"), counter, False
        )
        for name in names
        for counter in (True, False)
        for label in ("__name__", "1", "client_id", "client_instance_id", "le")
    ]
    telemetry.pushed.take(Uuid(b"h" * 16), {"client_id": "}\n# TYPE"}, Push((), points, 0), 60, clock.now())
    register_telemetry(metrics, served(telemetry), clock)
    samples = page(metrics)
    assert ("kafka_server_Own_Counter_total", {}, 7.0) in samples
    assert len([sample for sample in samples if sample[0].startswith("client_")]) > 20


def read_name(name: str) -> str:
    """The name of a metric as it is kept."""
    body = name.encode()
    point = b"\x31" + bytes(8)
    number = b"\x0a" + bytes([len(point)]) + point
    metric = b"\x0a" + bytes([len(body)]) + body + b"\x2a" + bytes([len(number)]) + number
    scope = b"\x12" + bytes([len(metric)]) + metric
    resource = b"\x12" + bytes([len(scope)]) + scope
    found = read_push(b"\x0a" + bytes([len(resource)]) + resource).points
    return found[0].name if found else "empty"


def test_a_push_that_cannot_be_read_gets_a_line_that_says_whose_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telemetry = Telemetry(Config.load({}), SystemRandomness())
    telemetry.follow({(16, "all"): {"metrics": "*"}})
    nothing: Any = None
    api = TelemetryApi(SimpleNamespace(clock=SystemClock()), nothing)  # type: ignore[arg-type]
    api.telemetry = telemetry
    client = Client(7, "PLAINTEXT", "B", False, lambda: None)
    client.software, client.host = "librdkafka 2.16.0", "10.0.0.7"
    context = RequestContext(client, RequestHeader(72, 0, 1, "etl"), 1, 0.0)
    told = api.subscriptions(context, GetTelemetrySubscriptionsRequest())
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=b"\xff" * 9
    )
    with caplog.at_level(logging.WARNING, "barnabas"):
        assert api.push(context, request).error_code == ErrorCode.INVALID_RECORD
        assert api.push(context, request).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "telemetry.refused"]
    assert line.fields["client_id"] == "etl"  # type: ignore[attr-defined]
    assert line.fields["software"] == "librdkafka 2.16.0"  # type: ignore[attr-defined]
