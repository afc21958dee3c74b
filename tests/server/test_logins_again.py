"""A client that logs in again (KIP-368): until that is over, the node takes its next step and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.frames import frame, read_frame

from barnabas.testing.cluster import Cluster, free_ports
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
HANDSHAKE = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    login = free_ports()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:{login},CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_bob="bobs-secret";',
        "connection.failed.authentication.delay.ms": "1000",
    }
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


def test_what_was_produced_before_is_answered_and_the_fast_path_comes_back(port: int) -> None:
    with producer(port) as line:
        line.sendall(producing() + HANDSHAKE)
        assert read_frame(line)[:4] == (77).to_bytes(4, "big")
        read_frame(line)
        for request in (token("bobs-secret"), *[producing()] * 5):
            line.sendall(request)
            read_frame(line)
