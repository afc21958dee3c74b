"""/metrics and /health over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.patience import PATIENCE_S

from barnabas.model import Endpoint
from barnabas.server.net.bind import bind
from barnabas.server.net.http import HttpServer
from barnabas.server.observe.exposition import exposition
from barnabas.server.observe.metrics import Metrics


def served(work: Callable[[int], Awaitable[None]], metrics: Metrics, reason: str | None = None) -> None:
    async def whole() -> None:
        server = HttpServer(bind(Endpoint("HTTP", "127.0.0.1", 0), 16), metrics, lambda: reason)
        await server.start()
        try:
            await work(server.port)
        finally:
            await server.stop()

    asyncio.run(whole())


async def get(port: int, request: bytes) -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(PATIENCE_S):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0], body


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /health/live HTTP/1.1", b"200"),
        (b"HEAD /health/live HTTP/1.1", b"200"),
        (b"GET /health/ready?x=1 HTTP/1.1", b"503"),
        (b"GET / HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
    ],
)
def test_pages_say_how_the_node_is(request_line: bytes, status: bytes) -> None:
    async def work(port: int) -> None:
        line, body = await get(port, request_line + b"\r\nHost: x\r\n\r\n")
        assert line.split()[1] == status
        if status == b"503":
            assert body == b"the quorum has no leader\n"
        if request_line.startswith(b"HEAD"):
            assert body == b""

    served(work, Metrics(), "the quorum has no leader")


def test_bytes_that_are_no_http_end_the_connection_only() -> None:
    async def work(port: int) -> None:
        await get(port, b"\x00\x00\x00\x10garbage\r\n\r\n")
        assert (await get(port, b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n"))[1] == b"ready\n"

    served(work, Metrics())


def test_metrics_have_kafkas_names_in_prometheus_form() -> None:
    metrics = Metrics()
    metrics.counter("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t").value += 3
    metrics.counter("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=u").value += 4
    metrics.gauge("kafka.server:type=ReplicaManager,name=LeaderCount", "Led", lambda: 7)
    metrics.histogram("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", "Sync").observe(0.003)
    text = exposition(metrics).decode()
    assert 'kafka_server_BrokerTopicMetrics_MessagesInPerSec_total{topic="t"} 3.0' in text
    assert 'kafka_server_BrokerTopicMetrics_MessagesInPerSec_total{topic="u"} 4.0' in text
    assert "kafka_server_ReplicaManager_LeaderCount 7.0" in text
    assert 'kafka_log_LogFlushStats_LogFlushRateAndTime_seconds_bucket{le="0.005"} 1.0' in text
    assert 'kafka_log_LogFlushStats_LogFlushRateAndTime_seconds_bucket{le="0.001"} 0.0' in text
    assert "kafka_log_LogFlushStats_LogFlushRateAndTime_seconds_sum 0.003" in text
