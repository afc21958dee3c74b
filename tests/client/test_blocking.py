"""The blocking shell: what is said when nobody answers, and requests sent ahead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.client.fake_broker import CLOSE, FakeBroker
from tests.patience import PATIENCE_S

from barnabas.client.blocking import BlockingConnection, ConnectionFailed, RequestTimedOut
from barnabas.errors import WireError
from barnabas.wire.schemas.cluster import MetadataRequest


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(t=1) as broker:
        yield broker


def test_a_request_gets_its_answer(broker: FakeBroker) -> None:
    with BlockingConnection("127.0.0.1", broker.port) as connection:
        assert connection.request(MetadataRequest(topics=None)).cluster_id == "fake"
        assert not connection.closed
    assert connection.closed


def test_answers_may_be_collected_in_any_order(broker: FakeBroker) -> None:
    with BlockingConnection("127.0.0.1", broker.port) as connection:
        first = connection.post(MetadataRequest(topics=[]))
        second = connection.post(MetadataRequest(topics=None))
        assert [t.name for t in connection.collect(second).topics] == ["t"]
        assert connection.collect(first).topics == []


def test_a_forgotten_answer_is_dropped_when_it_comes(broker: FakeBroker) -> None:
    with BlockingConnection("127.0.0.1", broker.port) as connection:
        connection.forget(connection.post(MetadataRequest(topics=[])))
        assert [t.name for t in connection.request(MetadataRequest(topics=None)).topics] == ["t"]
        assert "waiting=0" in repr(connection)


def test_a_refused_connection_names_the_address_and_leaves_the_advice_to_who_knows_the_options() -> None:
    """The command line and Spark's options call the address by different names."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: Connection refused") as caught:
        BlockingConnection("127.0.0.1", port)
    assert caught.value.address == f"127.0.0.1:{port}"
    assert caught.value.next_step is None


def test_a_broker_that_says_nothing_is_given_up_in_time() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(RequestTimedOut, match="did not answer"),
    ):
        BlockingConnection("127.0.0.1", silent.getsockname()[1], connect_timeout=0.05)


def test_a_late_answer_closes_the_connection(broker: FakeBroker) -> None:
    """What comes after the deadline must not be taken for the answer to the next request."""
    release = threading.Event()
    broker.on(MetadataRequest, lambda _: release.wait(PATIENCE_S) and None)
    connection = BlockingConnection("127.0.0.1", broker.port)
    with pytest.raises(RequestTimedOut):
        connection.request(MetadataRequest(topics=[]), timeout=0.05)
    release.set()
    assert connection.closed
    with pytest.raises(ConnectionFailed, match="is closed"):
        connection.request(MetadataRequest(topics=[]))


def test_a_broker_that_hangs_up_is_an_error_with_a_hint(broker: FakeBroker) -> None:
    broker.on(MetadataRequest, lambda _: CLOSE)
    connection = BlockingConnection("127.0.0.1", broker.port)
    with pytest.raises(ConnectionFailed, match="broker closed the connection") as caught:
        connection.request(MetadataRequest(topics=[]))
    assert "log" in str(caught.value.next_step)


def test_a_port_that_speaks_http_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            sock, _ = server.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(WireError, match="does not speak Kafka"):
            BlockingConnection("127.0.0.1", server.getsockname()[1])
