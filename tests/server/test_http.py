"""/metrics and /health over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.patience import PATIENCE_S

from barnabas.errors import ConfigError
from barnabas.model import Endpoint
from barnabas.server.net import http
from barnabas.server.net.bind import bind
from barnabas.server.net.http import HttpServer
from barnabas.server.observe.exposition import exposition
from barnabas.server.observe.metrics import Metrics


def served(work: Callable[[int], Awaitable[None]], metrics: Metrics, reason: str | None = None) -> None:
    async def whole() -> None:
        server = HttpServer(bind(Endpoint("HTTP", "127.0.0.1", 0)), metrics, lambda: reason)
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
        line, body = await get(port, request_line + b"\r\nHost: localhost\r\n\r\n")
        assert line.split()[1] == status
        if status == b"503":
            assert body == b"the quorum has no leader\n"
        if request_line.startswith(b"HEAD"):
            assert body == b""

    served(work, Metrics(), "the quorum has no leader")


ROUTES = ("/metrics", "/health/live", "/health/ready")


def like(route: str) -> list[str]:
    """What a server that cleans paths would take for that route."""
    first, _, rest = route[1:].partition("/")
    return [
        f"/{route}",
        f"{route}/",
        f"{route}//",
        f"/x/..{route}",
        f"/.{route}",
        f"{route}/.",
        f"{route}/../{route}",
        f"{route};x=1",
        f"/;{route}",
        f"{route}%20",
        f"{route}%00",
        f"{route}#x",
        f"/%{ord(first[0]):x}{first[1:]}{'/' + rest if rest else ''}",
        f"/%2e%2e{route}",
        route.upper(),
        route.title(),
        route[1:],
        route.replace("/", "\\"),
        f"http://localhost{route}",
        f"//localhost{route}",
        "*",
        f"{route}\xe9",
    ]


@pytest.mark.parametrize("route", ROUTES)
def test_a_path_is_that_of_a_route_byte_by_byte_or_it_is_none(route: str) -> None:
    async def work(port: int) -> None:
        for target in like(route):
            request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("latin-1")
            line, _ = await get(port, request)
            assert line.split()[1] in (b"404", b"400"), target
        assert (await get(port, f"GET {route} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()))[0][
            9:12
        ] == b"200"

    served(work, Metrics())


@pytest.mark.parametrize(
    "method",
    ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "GETS", "PRI", "PROPFIND"],
)
def test_nothing_but_reading_is_served(method: str) -> None:
    async def work(port: int) -> None:
        for route in ROUTES:
            line, _ = await get(port, f"{method} {route} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert line.split()[1] == b"405", route
        override = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: GET\r\n\r\n"
        assert (await get(port, override))[0].split()[1] == b"405"

    served(work, Metrics())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", b"200"),
        ("LocalHost:9644", b"200"),
        ("127.0.0.1", b"200"),
        ("127.0.0.1:9644", b"200"),
        ("[::1]:9644", b"200"),
        ("[::1]", b"200"),
        ("evil.example.org", b"421"),
        ("evil.example.org:9644", b"421"),
        ("localhost.evil.example.org", b"421"),
        ("127.0.0.1.evil.example.org", b"421"),
        ("127.0.0.1@evil.example.org", b"421"),
        ("localhost:x", b"421"),
        ("", b"421"),
    ],
)
def test_a_page_in_somebodys_browser_reads_nothing_of_this_machine(host: str, status: bytes) -> None:
    async def work(port: int) -> None:
        for route in ROUTES:
            request = f"GET {route} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            assert (await get(port, request))[0].split()[1] == status

    served(work, Metrics())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health/live HTTP/1.0\r\n\r\n", b"421"),
        (b"GET /health/live HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"x" * 20_000, b"431"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + b"X: x\r\n" * 5000, b"431"),
        (b"GET /health/live\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", b"200"),
    ],
)
def test_heads_that_are_none_are_answered_so(head: bytes, status: bytes) -> None:
    async def work(port: int) -> None:
        try:
            assert (await get(port, head))[0].split()[1] == status
        except ConnectionResetError:
            assert status == b"431", "what it sent was not read to the end"

    served(work, Metrics())


def test_who_sends_slowly_or_comes_with_too_many_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_AT_ONCE", 3)

    async def work(port: int) -> None:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in slow:
            writer.write(b"GET /hea")
        with pytest.raises((ConnectionError, IndexError)):
            while True:  # until all three are counted
                await get(port, LIVE)
        monkeypatch.setattr(http, "LONGEST_S", 0.0)
        for reader, writer in slow:
            writer.write(b"lth/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.read()).endswith(b"live\n"), "these came in time"
            writer.close()
        assert await get(port, LIVE[:20]) == (b"", b"")

    served(work, Metrics())


LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("where", "host", "port"),
    [
        (":9644", "127.0.0.1", 9644),
        ("9644", "127.0.0.1", 9644),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::1]:9", "::1", 9),
    ],
)
def test_nobody_else_is_let_in_unless_an_address_is_named(where: str, host: str, port: int) -> None:
    assert http.http_endpoint(where)[1:] == (host, port)


@pytest.mark.parametrize("where", ["127.0.0.1", "localhost:http", "127.0.0.1:70000", "", ":"])
def test_a_listener_that_is_none_is_refused(where: str) -> None:
    with pytest.raises(ConfigError, match="is no host:port"):
        http.http_endpoint(where)


def test_where_other_machines_are_let_in_they_use_the_names_they_know() -> None:
    async def whole() -> None:
        server = HttpServer(bind(Endpoint("HTTP", "0.0.0.0", 0)), Metrics(), lambda: None)
        await server.start()
        line, _ = await get(server.port, LIVE.replace(b"localhost", b"node1.example.org"))
        assert line.split()[1] == b"200"
        await server.stop()

    asyncio.run(whole())


def test_bytes_that_are_no_http_end_the_connection_only() -> None:
    async def work(port: int) -> None:
        await get(port, b"\x00\x00\x00\x10garbage\r\n\r\n")
        assert (await get(port, b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"))[1] == b"ready\n"

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
