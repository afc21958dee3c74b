"""A client that logs in again (KIP-368): until that is over, the node takes its next step and nothing else."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from tests.frames import frame, read_frame
from tests.patience import PATIENCE_S

from barnabas.testing.cluster import Cluster, free_ports
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
HANDSHAKE = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)


DELAY_S = 1.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a listener with logins; at the next one sessions last for 300 ms."""
    login = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{login},SHORT://127.0.0.1:{login + 1},"
        "CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "listener.name.short.plain.connections.max.reauth.ms": "300",
        "connection.failed.authentication.delay.ms": f"{DELAY_S * 1000:.0f}",
    }
    for name in ("login", "short"):
        settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = "PLAIN"
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = f'{PLAIN} required user_bob="bobs-secret";'
    with Cluster(settings):
        yield login


def token(password: str) -> bytes:
    return frame(SaslAuthenticateRequest(auth_bytes=f"\0bob\0{password}".encode()), 2)


def producing() -> bytes:
    batch = bytes(write_batch([Record(0, 1_760_000_000_000, b"k", b"v", ())]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    return frame(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9, correlation_id=77)


def producer(port: int) -> socket.socket:
    """A connection of bob's that has produced so often that the node knows its frames."""
    line = socket.create_connection(("127.0.0.1", port), timeout=20)
    topic = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    for request in (HANDSHAKE, token("bobs-secret"), frame(topic, 9), frame(topic, 9), *[producing()] * 5):
        line.sendall(request)
        read_frame(line)
    return line


def answers(line: socket.socket) -> list[int]:
    """The correlation ids of what still comes before the node hangs up."""
    found = []
    try:
        while True:
            found.append(int.from_bytes(read_frame(line)[:4], "big"))
    except (EOFError, ConnectionResetError):
        return found


@pytest.mark.parametrize("together", [True, False])
def test_no_fast_path_serves_a_client_in_the_middle_of_a_login(port: int, together: bool) -> None:
    with producer(port) as line:
        line.sendall(HANDSHAKE + producing() if together else HANDSHAKE)
        if not together:
            read_frame(line)
            line.sendall(producing())
        assert 77 not in answers(line)


def test_no_fast_path_serves_a_client_whose_login_was_refused(port: int) -> None:
    with producer(port) as line:
        line.sendall(HANDSHAKE)
        read_frame(line)
        line.sendall(token("wrong") + producing())
        assert 77 not in answers(line)


def test_no_fast_path_goes_on_after_the_end_of_a_session(port: int) -> None:
    with producer(port + 1) as line:
        until = time.monotonic() + PATIENCE_S
        with pytest.raises((EOFError, OSError)):
            while time.monotonic() < until:
                line.sendall(producing())
                read_frame(line)


def test_no_fetch_is_served_after_the_end_of_a_session(port: int) -> None:
    position = FetchPartition(partition=0, partition_max_bytes=1000)
    asked = FetchRequest(topics=[FetchTopic(topic="t", partitions=[position])])
    with producer(port + 1) as line:
        until = time.monotonic() + PATIENCE_S
        with pytest.raises((EOFError, OSError)):
            while time.monotonic() < until:
                line.sendall(frame(asked, 11, correlation_id=78))
                read_frame(line)


def test_what_was_produced_before_is_answered_and_the_fast_path_comes_back(port: int) -> None:
    with producer(port) as line:
        line.sendall(producing() + HANDSHAKE)
        assert read_frame(line)[:4] == (77).to_bytes(4, "big")
        read_frame(line)
        for request in (token("bobs-secret"), *[producing()] * 5):
            line.sendall(request)
            read_frame(line)


@pytest.mark.parametrize(
    "words", [[HANDSHAKE, token("wrong")], [frame(SaslHandshakeRequest(mechanism="GSSAPI"), 1) + producing()]]
)
def test_who_is_refused_hears_of_it_after_a_while_whatever_it_sends_behind(
    port: int, words: list[bytes]
) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        for word in words[:-1]:
            line.sendall(word)
            read_frame(line)
        began = time.monotonic()
        line.sendall(words[-1])
        assert len(answers(line)) == 1, "the refusal, and nothing behind it"
        assert time.monotonic() - began >= DELAY_S
