"""A node whose listener asks for a login: users, refusals, sessions that end, nodes among themselves."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.frames import frame, read_frame

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.users import remove_user, set_password, users_of
from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster as ClusterClient
from barnabas.client.connection import ConnectionFailed
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Security
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.testing.cluster import Cluster, free_ports
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.schemas.cluster import ApiVersionsRequest, MetadataRequest
from barnabas.wire.schemas.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def options(mechanism: str, user: str = "ada", password: str = "ada-secret") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def answer_of(line: socket.socket, kind: type[Message], version: int) -> Any:
    """The next answer."""
    body = memoryview(read_frame(line))
    return decode(kind, body, version, 5 if version >= 2 else 4)[0]


class Secured:
    """One node: an open listener for the test itself, LOGIN, and SHORT, whose sessions last two seconds."""

    def __init__(self) -> None:
        self.login, self.short = free_ports(), free_ports()
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{self.login},"
            f"SHORT://127.0.0.1:{self.short},CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,"
            "SHORT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_bob="bobs-secret";',
            "listener.name.short.connections.max.reauth.ms": "1000",
            "barnabas.login.timeout.ms": "1000",
            "connection.failed.authentication.delay.ms": "5",
        }
        self.cluster = Cluster(settings)

    def admin(self) -> ClusterClient:
        return ClusterClient(self.cluster.bootstrap, client_id="test")

    def connect(self, mechanism: str = "SCRAM-SHA-512", port: int = 0, **who: str) -> BlockingConnection:
        security = Security.parse(options(mechanism, **who))
        return BlockingConnection("127.0.0.1", port or self.login, security=security)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.login), timeout=20)


@pytest.fixture(scope="module")
def node() -> Iterator[Secured]:
    secured = Secured()
    with secured.cluster:
        admin = secured.admin()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            set_password(admin, "ada", "ada-secret", mechanism, 4096)
        admin.close()
        yield secured


@pytest.mark.parametrize(
    ("mechanism", "who"),
    [
        ("SCRAM-SHA-256", {}),
        ("SCRAM-SHA-512", {}),
        ("PLAIN", {}),
        ("PLAIN", {"user": "bob", "password": "bobs-secret"}),
    ],
)
def test_whoever_knows_the_password_is_served(node: Secured, mechanism: str, who: dict[str, str]) -> None:
    topic = f"t-{mechanism}-{who.get('user', 'ada')}"
    security = options(mechanism, **who)
    with Producer(f"127.0.0.1:{node.login}", security=security) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number)
    reading = Consumer(f"127.0.0.1:{node.login}", topic, start="earliest", idle=0.5, security=security)
    with reading as consumer:
        assert sorted(int(message.value or b"") for message in consumer) == list(range(100))


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("SCRAM-SHA-256", "ada", "wrong"),
        ("SCRAM-SHA-512", "eve", "ada-secret"),
        ("PLAIN", "ada", "wrong"),
        ("PLAIN", "eve", "ada-secret"),
        ("PLAIN", "bob", "wrong"),
    ],
)
def test_whoever_does_not_is_told_no_more_than_that(
    node: Secured, mechanism: str, user: str, password: str
) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        node.connect(mechanism, user=user, password=password)
    assert "invalid credentials" in str(refused.value) or "Invalid username or password" in str(refused.value)
    assert "eve" not in str(refused.value) and "no user" not in str(refused.value)


def test_without_a_login_nothing_is_served_and_the_client_says_why(node: Secured) -> None:
    with pytest.raises(BarnabasError), BlockingConnection("127.0.0.1", node.login) as connection:
        connection.request(MetadataRequest(topics=None))
    with node.raw() as line:
        line.sendall(frame(MetadataRequest(topics=None), 9))
        assert line.recv(1) == b"", "it hangs up"


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(node: Secured) -> None:
    with node.raw() as line:
        line.sendall(frame(SaslHandshakeRequest(mechanism="GSSAPI"), 1))
        answer = answer_of(line, SaslHandshakeResponse, 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
        assert line.recv(1) == b""


def test_a_listener_without_logins_says_so(node: Secured) -> None:
    host, _, port = node.cluster.bootstrap.partition(":")
    with BlockingConnection(host, int(port)) as connection:
        answer = connection.request(SaslHandshakeRequest(mechanism="PLAIN"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = connection.request(SaslAuthenticateRequest(auth_bytes=b""))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_tokens_without_headers_are_understood(node: Secured) -> None:
    """SaslHandshake v0, as clients before KIP-152 send it."""
    for password, served in (("ada-secret", True), ("wrong", False)):
        with node.raw() as line:
            line.sendall(frame(SaslHandshakeRequest(mechanism="PLAIN"), 0))
            assert answer_of(line, SaslHandshakeResponse, 0).error_code == 0
            token = f"\0ada\0{password}".encode()
            line.sendall(struct.pack(">i", len(token)) + token)
            if served:
                assert line.recv(4) == bytes(4)
                line.sendall(frame(MetadataRequest(topics=None), 9))
            assert bool(line.recv(1)) is served


def test_before_the_login_a_frame_is_small_and_time_is_short(node: Secured) -> None:
    with node.raw() as line:
        line.sendall(struct.pack(">i", 70_000) + b"\0\x24")
        assert line.recv(1) == b""
    with node.raw() as line:
        line.sendall(frame(ApiVersionsRequest(), 0))
        begun = time.monotonic()
        while line.recv(4096):
            pass
        assert time.monotonic() - begun < 15


def test_garbage_in_place_of_a_token_ends_the_login_and_nothing_else(node: Secured) -> None:
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        for token in (b"", b"\xff" * 100, b"n,,n=ada,r=" + b"x" * 30_000, b"\0" * 60_000):
            with node.raw() as line:
                line.sendall(frame(SaslHandshakeRequest(mechanism=mechanism), 1))
                answer_of(line, SaslHandshakeResponse, 1)
                line.sendall(frame(SaslAuthenticateRequest(auth_bytes=token), 2))
                answer = answer_of(line, SaslAuthenticateResponse, 2)
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert line.recv(1) == b""
    with node.connect() as connection:
        assert connection.request(MetadataRequest(topics=None)).brokers


def test_a_session_that_is_over_ends_unless_its_client_logs_in_again(node: Secured) -> None:
    with node.connect(port=node.short) as patient:  # our client logs in again by itself
        begun = time.monotonic()
        while time.monotonic() - begun < 1.6:
            assert patient.request(MetadataRequest(topics=[])).brokers
            time.sleep(0.05)  # a session lasts by the clock
    with node.connect(port=node.short) as lazy:
        lazy._renew_at = float("inf")
        time.sleep(1.2)
        with pytest.raises(ConnectionFailed):
            lazy.request(MetadataRequest(topics=[]))


def test_a_user_who_is_removed_or_gets_another_password_is_out_at_once(node: Secured) -> None:
    admin = node.admin()
    for change in ("removed", "changed"):
        set_password(admin, "tom", "toms-secret", iterations=4096)
        lines = [node.connect(m, user="tom", password="toms-secret") for m in ("SCRAM-SHA-512", "PLAIN")]
        other = node.connect()
        if change == "removed":
            remove_user(admin, "tom", "SCRAM-SHA-512")
        else:
            set_password(admin, "tom", "another-secret", iterations=4096)
        for line in lines:
            with pytest.raises(ConnectionFailed):
                line.request(MetadataRequest(topics=[]))
        assert other.request(MetadataRequest(topics=[])).brokers
        with pytest.raises(AuthenticationFailed):
            node.connect("PLAIN", user="tom", password="toms-secret")
    assert [one.user for one in users_of(admin)] == ["ada", "ada", "tom"]
    admin.close()


def test_nodes_log_in_at_each_other() -> None:
    login = 'required username="node" password="nodes-secret" user_node="nodes-secret";'
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN} {login}",
        "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} {login}",
    }
    security = options("PLAIN", "node", "nodes-secret")
    with Cluster(settings, nodes=3, security=security) as kafka:
        with Admin(kafka.bootstrap, security=security) as admin:
            admin.create_topic("replicated", partitions=3, replication=3)
        with Producer(kafka.bootstrap, security=security) as producer:
            for number in range(30):
                producer.send("replicated", b"%d" % number, partition=number % 3)
        reading = Consumer(kafka.bootstrap, "replicated", start="earliest", idle=0.5, security=security)
        with reading as consumer:
            assert len(list(consumer)) == 30
