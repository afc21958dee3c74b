"""A node whose listener takes tokens: who is let in, what the log says of others, keys that change, sessions."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.frames import frame
from tests.issuer import AUDIENCE, ISSUER, Issuer, by_hand, claims, jwks, public_pem, token
from tests.server.test_logins import answer_of

from barnabas.client.blocking import BlockingConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Security, Tls
from barnabas.config import Config
from barnabas.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.security.jwt import TokenRules, UnknownKey, token_bearer
from barnabas.server.net.secure.jwks import JwksEndpoint, JwksSource, fetched
from barnabas.server.net.secure.settings import bearers_of, dialling
from barnabas.testing.cluster import Cluster, free_ports
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KEYS = "sasl.oauthbearer.jwks.endpoint.url"


def taking(issuer: str) -> dict[str, str]:
    """What a listener with tokens is told."""
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        KEYS: issuer,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "barnabas.oauthbearer.allowed.urls": issuer,
    }


def bearing(text: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token": text,
    }


class Node:
    """LOGIN takes tokens of an issuer; SHORT asks it over https, and its sessions last a second."""

    def __init__(self, issuer: Issuer, secured: Issuer, ca: Path) -> None:
        self.issuer, self.secured = issuer, secured
        self.port, self.short = free_ports(), free_ports()
        own = "listener.name.short.oauthbearer."
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{self.port},"
                f"SHORT://127.0.0.1:{self.short},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,"
                "SHORT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                **taking(f"{issuer.url}/keys"),
                f"{own}{KEYS}": f"{secured.url}/keys",
                f"{own}sasl.jaas.config": f'{MODULE} required ssl.truststore.location="{ca}";',
                f"{own}connections.max.reauth.ms": "1000",
                "connection.failed.authentication.delay.ms": "5",
            }
        )

    def connect(self, text: str, port: int = 0) -> BlockingConnection:
        return BlockingConnection("127.0.0.1", port or self.port, security=Security.parse(bearing(text)))

    def said(self, message: bytes, host: str = "127.0.0.1") -> tuple[SaslAuthenticateResponse, socket.socket]:
        """The answer to the client's first message, from a client with that address."""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(host, 0))
        line.sendall(frame(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1))
        assert answer_of(line, SaslHandshakeResponse, 1).error_code == 0
        line.sendall(frame(SaslAuthenticateRequest(auth_bytes=message), 2))
        return answer_of(line, SaslAuthenticateResponse, 2), line

    def refusal(self, text: str, host: str) -> str:
        """What the log says of a login with this token."""
        before = len(self.cluster.log())
        answer, line = self.said(f"n,,\x01auth=Bearer {text}\x01\x01".encode(), host)
        with line:
            assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
            line.sendall(frame(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2))
            answer = answer_of(line, SaslAuthenticateResponse, 2)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == '{"status":"invalid_token"}'
            assert line.recv(1) == b""
        said = [line for line in self.cluster.log()[before:].splitlines() if "has not logged in" in line]
        assert len(said) == 1, said
        return said[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    authority = Authority(tmp_path_factory.mktemp("issuer"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("issuer"))
    with Issuer("RS256", "ES256") as issuer:
        secured = Issuer("RS256")
        secured.over_tls(context)
        with secured:
            running = Node(issuer, secured, authority.ca)
            with running.cluster:
                yield running


def test_whoever_brings_a_token_is_served(node: Node) -> None:
    for kid in ("RS256", "ES256"):
        security = bearing(token(kid))
        with Producer(f"127.0.0.1:{node.port}", security=security) as producer:
            for number in range(100):
                producer.send(f"t-{kid}", b"%d" % number)
        reading = Consumer(
            f"127.0.0.1:{node.port}", f"t-{kid}", start="earliest", idle=0.5, security=security
        )
        with reading as consumer:
            assert sorted(int(message.value or b"") for message in consumer) == list(range(100))


def test_keys_are_fetched_over_https_from_whom_the_listener_trusts(node: Node) -> None:
    with node.connect(token("RS256"), node.short) as connection:
        assert connection.request(MetadataRequest(topics=[])).brokers


def test_whoever_brings_none_reads_nothing_of_the_reason_and_the_log_has_it(node: Node) -> None:
    now = time.time()
    for number, (text, why) in enumerate(
        (
            (token("RS256", iss="https://evil.example.org/"), "issued by"),
            (token("RS256", aud="somebody"), "is for 'somebody'"),
            (token("RS256", exp=int(now) - 60), "ended"),
            (token("RS256-stranger"), "does not publish"),
            (token("RS256")[:-40] + "A" * 40, "not its issuer's"),
            (by_hand({"alg": "none", "kid": "RS256"}, claims(now)), "not signed"),
            (by_hand({"alg": "none", "kid": "RS256"}, claims(now)) + "AA", "signed by"),
            (by_hand({"alg": "HS256", "kid": "RS256"}, claims(now), public_pem("RS256")), "signed by"),
            ("a" * 30_000, "compact form"),
            (f"{'a' * 10_000}.{'a' * 10_000}.{'a' * 10_000}", "cannot be read"),
        )
    ):
        said = node.refusal(text, f"127.0.1.{number + 1}")
        assert why in said
        assert not any(part[:24] in said for part in text.split(".") if part), "no token is in the log"


def test_a_client_hears_that_its_token_is_not_taken(node: Node) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        node.connect(token("RS256", aud="somebody"))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "invalid_token" in str(refused.value) and "somebody" not in str(refused.value)


def test_a_refusal_is_in_the_log_though_its_client_goes_on_otherwise(node: Node) -> None:
    before = len(node.cluster.log())
    old = token("RS256", exp=int(time.time()) - 60)
    answer, line = node.said(f"n,,\x01auth=Bearer {old}\x01\x01".encode(), "127.0.2.1")
    with line:
        assert answer.auth_bytes == b'{"status":"invalid_token"}'
        line.sendall(frame(MetadataRequest(topics=None), 9))
        assert line.recv(1) == b"", "it is not served"
    assert "ended" in node.cluster.log()[before:]


def test_messages_that_are_none_end_the_login_and_nothing_else(node: Node) -> None:
    for message in (b"", b"\x01", b"n,,\x01\x01", b"\xff" * 60_000, b"n,,\x01auth=Bearer " + b"a" * 60_000):
        answer, line = node.said(message)
        with line:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert line.recv(1) == b""
    with node.connect(token("RS256")) as connection:
        assert connection.request(MetadataRequest(topics=[])).brokers


def test_a_session_ends_with_its_token(node: Node) -> None:
    with node.connect(token("RS256", exp=int(time.time()) + 2)) as lazy:
        assert lazy.request(MetadataRequest(topics=[])).brokers
        lazy._renew_at = float("inf")
        time.sleep(2.2)  # a token ends by the clock
        with pytest.raises(ConnectionFailed):
            lazy.request(MetadataRequest(topics=[]))
    with node.connect(token("RS256"), node.short) as patient:  # our client logs in again by itself
        begun = time.monotonic()
        while time.monotonic() - begun < 1.6:
            assert patient.request(MetadataRequest(topics=[])).brokers
            time.sleep(0.05)


def asked(settings: dict[str, str | None]) -> Any:
    """What a node makes of its settings for the listener LOGIN."""
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": "data",
        "listeners": "LOGIN://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        **taking("https://issuer.example.org/keys"),
        **settings,
    }
    config = Config.load({name: text for name, text in given.items() if text is not None})
    return bearers_of(config, "LOGIN")


def test_a_listener_has_rules_of_its_own() -> None:
    found = asked(
        {
            "sasl.oauthbearer.clock.skew.seconds": "5",
            "listener.name.login.sasl.oauthbearer.clock.skew.seconds": "6",
            "listener.name.login.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "7",
            "listener.name.login.sasl.oauthbearer.sub.claim.name": "upn",
            "listener.name.other.sasl.oauthbearer.sub.claim.name": "email",
            "sasl.oauthbearer.expected.audience": "a,b",
            "listener.name.login.oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common."
            "security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        }
    )
    assert found.rules == (ISSUER, ("a", "b"), 7, "scope", "upn")


@pytest.mark.parametrize(
    "missing",
    [KEYS, "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"],
)
def test_cve_2026_33557_without_keys_issuer_and_audience_no_node_starts(missing: str) -> None:
    with pytest.raises(ConfigError, match="would take tokens of anybody") as refused:
        asked({missing: None})
    assert missing in str(refused.value.next_step)
    with pytest.raises(ConfigError):
        asked({missing: ""})


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://issuer.example.org/keys",
        "http://127.0.0.1/keys",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/keys",
        "https:///keys",
        "https://user:secret@issuer.example.org/keys",
        "ftp://issuer.example.org/keys",
        "jar:file:///a!/b",
        "/etc/passwd",
    ],
)
def test_cve_2025_27817_keys_come_from_nowhere_but_https(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        asked({KEYS: url, "barnabas.oauthbearer.allowed.urls": "https://elsewhere.example.org/"})
    assert "secret" not in f"{refused.value} {refused.value.next_step}"


def test_cve_2025_27817_what_is_listed_is_taken_and_nothing_like_it(tmp_path: Path) -> None:
    url = (tmp_path / "keys.json").as_uri()
    assert asked({KEYS: url, "barnabas.oauthbearer.allowed.urls": url}).source.url == url
    with pytest.raises(ConfigError):
        asked({KEYS: f"{url}/../other", "barnabas.oauthbearer.allowed.urls": url})


def test_no_class_is_loaded() -> None:
    name = "listener.name.login.oauthbearer.sasl.server.callback.handler.class"
    with pytest.raises(ConfigError, match="we load none"):
        asked({name: "com.example.Handler"})
    with pytest.raises(ConfigError):
        asked({"sasl.oauthbearer.jwt.validator.class": "com.example.Validator"})


def test_nodes_do_not_log_in_with_tokens() -> None:
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "LOGIN://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    }
    with pytest.raises(ConfigError, match="nodes do not log in") as refused:
        dialling(Config.load(given), "LOGIN", "sasl.mechanism.inter.broker.protocol")
    assert "PLAIN" in str(refused.value.next_step)


def test_a_node_that_would_take_tokens_of_anybody_does_not_start() -> None:
    port = free_ports()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    with pytest.raises(BarnabasError, match=re.escape(KEYS)), Cluster(settings):
        pass


def test_an_endpoint_is_not_followed_elsewhere_and_its_answer_is_short(node: Node, tmp_path: Path) -> None:
    def source(url: str) -> JwksSource:
        return asked({KEYS: url, "barnabas.oauthbearer.allowed.urls": url}).source

    assert json.loads(fetched(source(f"{node.issuer.url}/keys")))["keys"]
    for path, why in (("redirect", "HTTP 302"), ("large", "more than"), ("none", "HTTP 503")):
        with pytest.raises(ConfigError, match=why):
            fetched(source(f"{node.issuer.url}/{path}"))
    with pytest.raises(ConfigError, match="certificate"):
        fetched(source(f"{node.secured.url}/keys"))
    file = tmp_path / "keys.json"
    for content in (b"{}", b" " * ((1 << 20) + 1)):
        file.write_bytes(content)
        if len(content) == 2:
            assert fetched(source(file.as_uri())) == content
        else:
            with pytest.raises(ConfigError, match="more than"):
                fetched(source(file.as_uri()))
    file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        fetched(source(file.as_uri()))


class Endpoint:
    """Keys that a test changes, and its clock."""

    def __init__(self) -> None:
        self.kids, self.asked, self.works, self.now = ["ES256"], 0, True, 100.0
        source = JwksSource("https://issuer.example.org/keys", Tls(), 3600.0, 3600.0, 3600.0)
        self.endpoint = JwksEndpoint(source, self.fetch, lambda: self.now)

    def fetch(self, _: JwksSource) -> bytes:
        self.asked += 1
        if not self.works:
            raise ConfigError("it is down")
        return jwks(*self.kids)

    def user(self, kid: str) -> str:
        rules = TokenRules(ISSUER, (AUDIENCE,))
        return token_bearer(token(kid), self.endpoint.keys, rules, time.time()).user


def with_endpoint(story: Callable[[Endpoint], Awaitable[None]]) -> None:
    async def whole() -> None:
        endpoint = Endpoint()
        running = asyncio.create_task(endpoint.endpoint.run())
        await asyncio.sleep(0)
        first = endpoint.endpoint.renewal()
        assert first is not None, "the first fetch is under way"
        await first
        await story(endpoint)
        running.cancel()

    asyncio.run(whole())


def test_a_new_key_is_fetched_for_the_first_token_that_has_it_and_no_more_than_once_a_minute() -> None:
    async def story(issuer: Endpoint) -> None:
        issuer.kids.append("ES384")
        with pytest.raises(UnknownKey):
            issuer.user("ES384")
        assert issuer.endpoint.renewal() is None and issuer.asked == 1, "it was asked just now"
        issuer.now += 61
        many = [issuer.endpoint.renewal() for _ in range(100)]
        await asyncio.gather(*(one for one in many if one is not None))
        assert issuer.asked == 2, "all wait for the same answer"
        assert issuer.user("ES384") == issuer.user("ES256") == "ada"
        assert issuer.endpoint.renewal() is None

    with_endpoint(story)


def test_keys_go_on_counting_while_the_endpoint_is_down_and_end_when_it_says_so() -> None:
    async def story(issuer: Endpoint) -> None:
        issuer.works = False
        for _ in range(3):
            issuer.now += 61
            renewal = issuer.endpoint.renewal()
            assert renewal is not None
            await renewal
            assert issuer.user("ES256") == "ada"
        assert issuer.asked == 4
        issuer.works, issuer.kids = True, ["ES384"]
        issuer.now += 61
        renewal = issuer.endpoint.renewal()
        assert renewal is not None
        await renewal
        with pytest.raises(UnknownKey):
            issuer.user("ES256")

    with_endpoint(story)
