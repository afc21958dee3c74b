"""The connection as a machine: every rule of a connection, no socket anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.connection import Connection
from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.schemas.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from barnabas.wire.schemas.fetch import FetchRequest
from barnabas.wire.schemas.own import BootstrapQuorumRequest
from barnabas.wire.schemas.produce import ProduceRequest
from barnabas.wire.schemas.quorum import DescribeQuorumRequest


def answered(connection: Connection, sent: Any, message: Any, version: int) -> Any:
    parts: list[Any] = []
    write_response(parts, sent.correlation_id, message.KEY, version, message)
    [answer] = connection.receive(b"".join(bytes(part) for part in parts))
    return answer


def header_of(sent: Any) -> Any:
    frame = b"".join(bytes(part) for part in sent.parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return read_request_header(frame, 4)[0]


def served(**ranges: tuple[int, int]) -> ApiVersionsResponse:
    keys = {"produce": 0, "fetch": 1, "metadata": 3, "versions": 18}
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=keys[n], min_version=a, max_version=b) for n, (a, b) in ranges.items()]
    )


def connected(**ranges: tuple[int, int]) -> Connection:
    connection = Connection("me")
    sent = connection.negotiate()
    assert sent is not None
    highest = ApiVersionsRequest.VERSIONS[1]
    assert connection.negotiate(answered(connection, sent, served(**ranges), highest)) is None
    return connection


def test_the_first_request_is_api_versions_in_our_highest_version() -> None:
    connection = Connection("me")
    sent = connection.negotiate()
    assert header_of(sent) == (18, ApiVersionsRequest.VERSIONS[1], 0, "me")


def test_an_old_broker_answers_in_version_0_and_is_asked_again_within_its_range() -> None:
    """KIP-511: UNSUPPORTED_VERSION comes in version 0, with the broker's own range."""
    connection = Connection()
    sent = connection.negotiate()
    refusal = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]
    )
    again = connection.negotiate(answered(connection, sent, refusal, 0))
    assert header_of(again).version == 2
    assert connection.negotiate(answered(connection, again, served(metadata=(0, 5)), 2)) is None
    assert connection.versions == {3: (0, 5)}


def test_a_node_that_waits_for_a_cluster_is_named_with_the_command_that_begins_one() -> None:
    connection = Connection(address="10.0.0.1:9093")
    connection.versions = {ApiVersionsRequest.KEY: (0, 4), BootstrapQuorumRequest.KEY: (0, 0)}
    with pytest.raises(KafkaError, match=r"the node at 10\.0\.0\.1:9093 waits for a cluster") as refused:
        connection.version_of(DescribeQuorumRequest)
    assert refused.value.next_step is not None
    assert "`barnabas quorum bootstrap -C 10.0.0.1:9093`" in refused.value.next_step
    assert connection.version_of(BootstrapQuorumRequest) == 0


def test_a_broker_that_refuses_twice_is_given_up() -> None:
    connection = Connection()
    sent = connection.negotiate()
    refusal = ApiVersionsResponse(error_code=35)
    again = connection.negotiate(answered(connection, sent, refusal, 0))
    assert header_of(again).version == 0
    with pytest.raises(KafkaError):
        connection.negotiate(answered(connection, again, refusal, 0))


def test_the_highest_common_version_is_spoken() -> None:
    connection = connected(metadata=(0, 9), fetch=(4, 99))
    assert connection.version_of(MetadataRequest) == 9
    assert connection.version_of(FetchRequest) == FetchRequest.VERSIONS[1]
    assert header_of(connection.send(MetadataRequest())).version == 9


def test_without_a_common_version_the_error_names_both_ranges() -> None:
    connection = connected(produce=(0, 2))
    with pytest.raises(KafkaError, match=r"no version of Produce.*3 to 13.*0 to 2") as caught:
        connection.send(ProduceRequest(acks=1))
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert caught.value.next_step
    with pytest.raises(KafkaError, match="does not serve it"):
        connection.send(DescribeQuorumRequest())
    assert not connection.serves(DescribeQuorumRequest)


def test_answers_are_matched_in_the_order_of_the_requests() -> None:
    connection = connected(metadata=(0, 12))
    first, second = connection.send(MetadataRequest()), connection.send(MetadataRequest())
    parts: list[Any] = []
    for sent, name in ((first, "one"), (second, "two")):
        write_response(parts, sent.correlation_id, 3, 12, MetadataResponse(cluster_id=name))
    answers = []
    for byte in b"".join(bytes(part) for part in parts):  # one byte at a time
        answers += connection.receive(bytes([byte]))
    assert [(a.correlation_id, a.message.cluster_id) for a in answers] == [
        (first.correlation_id, "one"),
        (second.correlation_id, "two"),
    ]
    assert connection.statistics().waiting == 0


def test_an_answer_with_another_correlation_id_is_refused() -> None:
    connection = connected(metadata=(0, 12))
    sent = connection.send(MetadataRequest())
    with pytest.raises(WireError, match="correlation id"):
        answered(connection, sent._replace(correlation_id=77), MetadataResponse(), 12)


def test_an_answer_nobody_asked_for_is_refused() -> None:
    connection = connected(metadata=(0, 12))
    with pytest.raises(WireError, match="nobody asked"):
        connection.receive_frame(b"\0\0\0\1")


def test_a_silent_request_waits_for_no_answer() -> None:
    connection = connected(produce=(3, 13))
    connection.send(ProduceRequest(acks=0), silent=True)
    assert connection.statistics().waiting == 0


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\0\0\0\3", b"HTTP", b"\x15\x03\x01\x00"])
def test_a_length_that_cannot_be_is_refused_before_reading_on(prefix: bytes) -> None:
    with pytest.raises(WireError, match="does not speak Kafka"):
        Connection(max_frame=1 << 20).frame_size(prefix)


def test_the_repr_shows_what_waits() -> None:
    connection = connected(metadata=(0, 12))
    connection.send(MetadataRequest())
    assert repr(connection) == "<Connection 'me' 1 apis requests=2 waiting=1>"
