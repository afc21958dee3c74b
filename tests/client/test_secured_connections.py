"""Both shells against brokers that are secured, wrong, or hostile: what a user reads, and that nothing hangs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import http.server
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.client.fake_broker import CLOSE, FakeBroker

from barnabas.aio import Consumer as AioConsumer
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.endpoints import read_endpoints
from barnabas.client.aio.connection import AsyncConnection
from barnabas.client.connection import Response
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Security
from barnabas.errors import BarnabasError, ConfigError
from barnabas.security.scram import salted_password, server_signature
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.cluster import DescribeClusterRequest, DescribeClusterResponse, MetadataRequest
from barnabas.wire.schemas.own import ExchangeEndpointsRequest, ExchangeEndpointsResponse
from barnabas.wire.schemas.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

SECRET = "geheim-0815"


class SecuredBroker(FakeBroker):
    """One that speaks TLS with this certificate, and lets every PLAIN login in."""

    def __init__(self, context: ssl.SSLContext | None = None, *, lifetime_ms: int = 0, **topics: int) -> None:
        self.context = context
        super().__init__(**topics)
        for kind in (SaslHandshakeRequest, SaslAuthenticateRequest):
            self.api_versions[kind.KEY] = kind.VERSIONS
        self.on(SaslHandshakeRequest, lambda request: SaslHandshakeResponse(mechanisms=["PLAIN"]))
        self.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))

    def _serve(self, sock: socket.socket) -> None:
        if self.context is not None:
            try:
                sock = self.context.wrap_socket(sock, server_side=True)
            except OSError:
                sock.close()
                return
        super()._serve(sock)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def server_context(certificate: Path, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def tls(authority: Authority, **more: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority.ca)} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def sasl(mechanism: str = "SCRAM-SHA-256", protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "ada",
        "sasl.password": SECRET,
    }


def blocking(address: str, security: dict[str, str]) -> None:
    with Admin(address, security=security, timeout=5.0) as admin:
        admin.topics()


def on_asyncio(address: str, security: dict[str, str]) -> None:
    async def main() -> None:
        async with AioConsumer(
            address, "t", security=security, timeout=5.0, start="earliest", idle=0.1
        ) as consumer:
            async for _ in consumer:
                pass

    asyncio.run(main())


SHELLS = pytest.mark.parametrize("ask", [blocking, on_asyncio], ids=["blocking", "asyncio"])
Ask = Callable[[str, dict[str, str]], None]


def refusal(ask: Ask, address: str, security: dict[str, str]) -> str:
    """The one line that a user reads, and its next step."""
    began = time.monotonic()
    with pytest.raises(BarnabasError) as raised:
        ask(address, security)
    assert time.monotonic() - began < 4
    error = raised.value
    assert error.next_step and "\n" not in f"{error}" and SECRET not in f"{error!r} {error} {error.next_step}"
    return f"{error}"


@SHELLS
def test_tls_carries_records_both_ways(ask: Ask, authority: Authority) -> None:
    with SecuredBroker(server_context(authority.issue("broker")), t=2) as broker:
        with Producer(broker.address, security=tls(authority), compression="lz4") as producer:
            for number in range(2000):
                producer.send("t", b"%d" % number * 50)
        ask(broker.address, tls(authority))
        with Consumer(broker.address, "t", security=tls(authority), start="earliest", idle=0.3) as consumer:
            assert sum(1 for _ in consumer) == 2000


@SHELLS
@pytest.mark.parametrize(
    ("issued", "why"),
    [
        ({"expired": True}, "has expired"),
        ({"hosts": ("elsewhere.example",)}, "host name does not match"),
    ],
)
def test_a_wrong_certificate_is_named(
    ask: Ask, authority: Authority, issued: dict[str, Any], why: str
) -> None:
    with SecuredBroker(server_context(authority.issue("wrong", **issued)), t=1) as broker:
        assert why in refusal(ask, broker.address, tls(authority))


def test_the_host_name_is_not_looked_at_where_that_was_asked(authority: Authority) -> None:
    with SecuredBroker(server_context(authority.issue("away", hosts=("elsewhere.example",))), t=1) as broker:
        blocking(broker.address, tls(authority, ssl_endpoint_identification_algorithm=""))


@SHELLS
def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    ask: Ask, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "another")
    with SecuredBroker(server_context(other.issue("broker")), t=1) as broker:
        assert "not trusted" in refusal(ask, broker.address, tls(authority))
        assert "not trusted" in refusal(ask, broker.address, {"security.protocol": "SSL"})


@SHELLS
def test_plain_and_tls_that_meet_on_the_wrong_port_are_told_apart(ask: Ask, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        threading.Thread(target=ends_at_once, args=(plain,), daemon=True).start()
        said = refusal(ask, f"127.0.0.1:{plain.getsockname()[1]}", tls(authority))
        assert "the listener is a plain one, or it lets in nobody more" in said
    with socket.create_server(("127.0.0.1", 0)) as alerting:
        threading.Thread(target=alerts, args=(alerting,), daemon=True).start()
        assert "answers in TLS" in refusal(ask, f"127.0.0.1:{alerting.getsockname()[1]}", {})


def ends_at_once(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            with listener.accept()[0] as sock:
                sock.recv(4096)


def alerts(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            with listener.accept()[0] as sock:
                sock.recv(4096)
                sock.sendall(b"\x15\x03\x03\x00\x02\x02\x0a")


@SHELLS
@pytest.mark.parametrize("form", ["pem", "p12", "encrypted", "inline"])
def test_a_client_shows_its_certificate(ask: Ask, authority: Authority, form: str) -> None:
    context = server_context(authority.issue("broker"), authority.ca)
    client = authority.issue(f"client-{form}", password=SECRET if form == "encrypted" else "")
    shown = {"ssl.keystore.location": str(client)}
    if form == "p12":
        shown = {
            "ssl.keystore.location": str(client.with_suffix(".p12")),
            "ssl.keystore.password": "changeit",
        }
    elif form == "encrypted":
        shown["ssl.key.password"] = SECRET
    elif form == "inline":
        key, begin, chain = client.read_text().partition("-----BEGIN CERTIFICATE")
        shown = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": begin + chain}
    with SecuredBroker(context, t=1) as broker:
        ask(broker.address, tls(authority) | shown)


@SHELLS
def test_a_broker_that_wants_a_certificate_says_so(ask: Ask, authority: Authority) -> None:
    with SecuredBroker(server_context(authority.issue("broker"), authority.ca), t=1) as broker:
        with pytest.raises(BarnabasError) as raised:
            ask(broker.address, tls(authority))
        assert "ssl.keystore.location" in (raised.value.next_step or "")


def test_stores_that_cannot_be_read_are_named_with_what_helps(authority: Authority, tmp_path: Path) -> None:
    jks = tmp_path / "trust.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    locked = authority.issue("locked", password=SECRET)
    mixed = tmp_path / "mixed.pem"
    keys = [authority.issue(name).read_text().partition("-----BEGIN CERTIFICATE") for name in ("one", "two")]
    mixed.write_text(keys[0][0] + keys[1][1] + keys[1][2])
    p12 = locked.with_suffix(".p12")
    cases = [
        ({"ssl.truststore.location": str(jks)}, "JKS"),
        ({"ssl.truststore.location": str(tmp_path / "none.pem")}, "No such file"),
        ({"ssl.truststore.location": str(p12), "ssl.truststore.password": SECRET}, "wrong password"),
        ({"ssl.truststore.location": str(mixed), "ssl.truststore.type": "PKCS12"}, "PKCS12"),
        ({"ssl.keystore.location": str(locked)}, "encrypted"),
        ({"ssl.keystore.location": str(locked), "ssl.key.password": "wrong"}, "key cannot be read"),
        ({"ssl.keystore.location": str(authority.ca)}, "no certificate with its key"),
        ({"ssl.keystore.location": str(mixed)}, "does not belong"),
    ]
    with FakeBroker(t=1) as broker:
        for given, why in cases:
            with pytest.raises(ConfigError, match=why) as raised:
                blocking(broker.address, {"security.protocol": "SSL"} | given)
            assert SECRET not in f"{raised.value}" and raised.value.next_step
            assert "keytool" in raised.value.next_step or why != "JKS"


# -- SASL ------------------------------------------------------------------------------------------


@SHELLS
def test_a_login_comes_before_everything_else(ask: Ask) -> None:
    with SecuredBroker(t=1) as broker:
        ask(broker.address, sasl("PLAIN"))
        kinds = [type(request) for request in broker.seen]
        assert (
            kinds.index(SaslHandshakeRequest)
            < kinds.index(SaslAuthenticateRequest)
            < kinds.index(MetadataRequest)
        )
        assert broker.asked(SaslAuthenticateRequest)[0].auth_bytes == b"\0ada\0" + SECRET.encode()


@SHELLS
def test_a_wrong_password_is_said_at_once_and_tried_once(ask: Ask) -> None:
    with SecuredBroker(t=1) as broker:
        refused = SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: bad")
        broker.on(SaslAuthenticateRequest, lambda _: refused)
        assert "Authentication failed: bad" in refusal(ask, broker.address, sasl("PLAIN"))
        assert len(broker.asked(SaslAuthenticateRequest)) == 1


def test_a_record_of_a_producer_that_is_not_let_in_fails_soon() -> None:
    with SecuredBroker(t=1) as broker:
        broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(error_code=58))
        with (
            pytest.raises(AuthenticationFailed),
            Producer(broker.address, security=sasl("PLAIN")) as producer,
        ):
            producer.send("t", b"x").result(5.0)


@SHELLS
@pytest.mark.parametrize("where", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_a_broker_that_closes_in_the_middle_of_a_login_is_an_error(ask: Ask, where: type) -> None:
    with SecuredBroker(t=1) as broker:
        broker.on(where, lambda _: CLOSE)
        assert "closed" in refusal(ask, broker.address, sasl("PLAIN"))


@SHELLS
@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"iterations": 1 << 31}, "iterations"),
        ({"nonce": "another"}, "nonce"),
        ({"signature": b"wrong"}, "signature"),
        ({"silent": True}, "no SCRAM"),
    ],
)
def test_a_hostile_scram_server_is_refused(ask: Ask, lie: dict[str, Any], why: str) -> None:
    with SecuredBroker(t=1) as broker:
        broker.on(SaslAuthenticateRequest, ScramServer(**lie))
        assert why in refusal(ask, broker.address, sasl())
        assert not broker.asked(MetadataRequest)


class ScramServer:
    """The other side of SCRAM-SHA-256, which may lie."""

    def __init__(
        self, iterations: int = 4096, nonce: str = "", signature: bytes = b"", silent: bool = False
    ) -> None:
        self.iterations, self.nonce, self.signature, self.silent = iterations, nonce, signature, silent
        self.said = b""

    def __call__(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        message = bytes(request.auth_bytes)
        if message.startswith(b"n,,"):
            bare = message[3:]
            nonce = self.nonce or bare.partition(b"r=")[2].decode() + "more"
            answer = f"r={nonce},s={base64.b64encode(b'salt').decode()},i={self.iterations}".encode()
            self.said = bare + b"," + answer
            return SaslAuthenticateResponse(auth_bytes=answer)
        if self.silent:
            return SaslAuthenticateResponse()
        salted = salted_password("SCRAM-SHA-256", SECRET.encode(), b"salt", self.iterations)
        whole = self.said + b"," + message.partition(b",p=")[0]
        signature = self.signature or server_signature("SCRAM-SHA-256", salted, whole)
        return SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(signature))


@SHELLS
def test_an_honest_scram_server_is_believed(ask: Ask) -> None:
    with SecuredBroker(t=1) as broker:
        broker.on(SaslAuthenticateRequest, ScramServer())
        ask(broker.address, sasl())


@SHELLS
def test_a_session_is_renewed_on_its_connection_before_it_is_over(ask: Ask) -> None:
    """The broker gives 1 ms each time, so that every request finds its session at an end."""
    with SecuredBroker(t=1, lifetime_ms=1) as broker:
        ask(broker.address, sasl("PLAIN"))
        if ask is blocking:
            with Admin(broker.address, security=sasl("PLAIN")) as admin:
                for _ in range(100):
                    admin.topics()
        begun, ended = (len(broker.asked(kind)) for kind in (SaslHandshakeRequest, SaslAuthenticateRequest))
        assert ended > len(broker._open)
        assert begun in (ended, ended + 1)  # the last one may be under way when the connection is closed


@pytest.mark.parametrize("after", ["at once", "when it is asked"])
def test_a_login_that_is_cut_short_ends_and_nobody_complains(
    after: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(address: str) -> None:
        host, port = address.split(":")
        security = Security.parse(sasl("PLAIN"))
        connection = await AsyncConnection.connect(host, int(port), security=security)
        asked, closed = threading.Event(), threading.Event()

        def never_answers(_: Message) -> object:
            asked.set()
            closed.wait(5)
            return CLOSE

        broker.on(SaslHandshakeRequest, never_answers)
        await asyncio.sleep(0.002)  # the session is over
        caller = asyncio.create_task(connection.request(MetadataRequest()))
        await asyncio.sleep(0)
        caller.cancel()
        if after == "when it is asked":
            await asyncio.to_thread(asked.wait)
        await connection.close()
        closed.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 5)

    with SecuredBroker(t=1, lifetime_ms=1) as broker:
        asyncio.run(main(broker.address))
        gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_question_with_a_callback_renews_the_session_too() -> None:
    async def main(address: str) -> list[object]:
        host, port = address.split(":")
        security = Security.parse(sasl("PLAIN"))
        answers: list[object] = []
        async with await AsyncConnection.connect(host, int(port), security=security) as connection:
            for count in (2, 4, 6):
                await asyncio.sleep(0.002)  # the session is over
                for _ in range(2):
                    connection.ask(MetadataRequest(), answers.append)
                while len(answers) < count:  # noqa: ASYNC110  (a callback of no task)
                    await asyncio.sleep(0.001)
        return answers

    with SecuredBroker(t=1, lifetime_ms=1) as broker:
        answers = asyncio.run(main(broker.address))
        assert all(isinstance(answer, Response) for answer in answers)
        assert len(broker.asked(SaslHandshakeRequest)) == 4

        async def refused() -> object:
            host, port = broker.address.split(":")
            async with await AsyncConnection.connect(
                host, int(port), security=Security.parse(sasl("PLAIN"))
            ) as connection:
                broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(error_code=58))
                await asyncio.sleep(0.002)
                answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                connection.ask(MetadataRequest(), answer.set_result)
                return await answer

        assert isinstance(asyncio.run(refused()), AuthenticationFailed)


def test_a_controller_that_wants_a_login_is_asked_where_the_others_are() -> None:
    with SecuredBroker(t=1) as broker:
        for kind in (DescribeClusterRequest, ExchangeEndpointsRequest):
            broker.api_versions[kind.KEY] = kind.VERSIONS
        broker.on(DescribeClusterRequest, lambda _: DescribeClusterResponse(cluster_id="c"))
        broker.on(ExchangeEndpointsRequest, lambda _: ExchangeEndpointsResponse())
        host, port = broker.address.split(":")
        assert read_endpoints(host, int(port), security=sasl("PLAIN")) == []
        assert len(broker.asked(SaslAuthenticateRequest)) == 1


# -- tokens ----------------------------------------------------------------------------------------


@pytest.fixture
def endpoint() -> Iterator[http.server.ThreadingHTTPServer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server: Any = self.server
            server.asked.append(
                (self.headers["Authorization"], self.rfile.read(int(self.headers["Content-Length"])))
            )
            status, content = server.answer
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://169.254.169.254/")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.answer = [], (200, json.dumps({"access_token": "a.b.c", "expires_in": 60}).encode())
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def bearer(endpoint: Any, **more: str) -> dict[str, str]:
    prefix = "sasl.oauthbearer"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        f"{prefix}.token.endpoint.url": f"http://127.0.0.1:{endpoint.server_address[1]}/token",
        f"{prefix}.client.credentials.client.id": "spark",
        f"{prefix}.client.credentials.client.secret": SECRET,
        f"{prefix}.scope": "kafka",
    } | more


@SHELLS
def test_a_token_is_fetched_once_and_shown(ask: Ask, endpoint: Any) -> None:
    with SecuredBroker(t=1) as broker:
        broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
        for _ in range(2):
            ask(broker.address, bearer(endpoint))
        shown = {request.auth_bytes for request in broker.asked(SaslAuthenticateRequest)}
        assert shown == {b"n,,\x01auth=Bearer a.b.c\x01\x01"}
    [(credentials, form)] = endpoint.asked
    assert base64.b64decode(credentials.removeprefix("Basic ")).decode() == f"spark:{SECRET}"
    assert form == b"grant_type=client_credentials&scope=kafka"


@SHELLS
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, b"{}"), "HTTP 401"),
        ((302, b""), "HTTP 302"),
        ((200, b"<html>"), "no token"),
        ((200, b'{"access_token": "a\\u0001b"}'), "no token"),
        ((200, b'{"access_token": "a", "expires_in": -1}'), "no token"),
        ((200, b"[" * 100_000), "no token"),
        ((200, b" " * (2 << 20)), "no token"),
    ],
)
def test_a_token_endpoint_that_lies_is_not_believed(
    ask: Ask, endpoint: Any, answer: tuple[int, bytes], why: str
) -> None:
    endpoint.answer = answer
    with SecuredBroker(t=1) as broker:
        broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
        assert why in refusal(ask, broker.address, bearer(endpoint))


@SHELLS
def test_a_token_endpoint_that_is_down_or_not_safe_is_named(ask: Ask, endpoint: Any) -> None:
    url = "sasl.oauthbearer.token.endpoint.url"
    with SecuredBroker(t=1) as broker:
        assert "cannot be asked" in refusal(
            ask, broker.address, bearer(endpoint) | {url: "http://127.0.0.1:1/t"}
        )
        for unsafe in ("http://login.example/t", "file:///etc/passwd", "http://169.254.169.254/t"):
            assert "is not https" in refusal(ask, broker.address, bearer(endpoint) | {url: unsafe})
