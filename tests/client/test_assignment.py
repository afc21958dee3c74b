"""The range assignor, and the messages members of a group hand each other."""

from __future__ import annotations

import pytest

from barnabas.client.assignment import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.errors import WireError
from barnabas.model import TopicPartition as P


def test_the_first_members_get_one_more_when_it_does_not_divide() -> None:
    shares = assign_range({"b": ["t"], "a": ["t"]}, {"t": 3})
    assert shares == {"a": [P("t", 0), P("t", 1)], "b": [P("t", 2)]}


def test_every_topic_is_shared_out_for_itself() -> None:
    shares = assign_range({"a": ["t", "u"], "b": ["u"]}, {"t": 2, "u": 2})
    assert shares == {"a": [P("t", 0), P("t", 1), P("u", 0)], "b": [P("u", 1)]}


def test_more_members_than_partitions_leave_some_without() -> None:
    assert assign_range({"a": ["t"], "b": ["t"]}, {"t": 1}) == {"a": [P("t", 0)], "b": []}


def test_a_topic_that_is_not_there_gives_nothing() -> None:
    assert assign_range({"a": ["t", "gone"]}, {"t": 1}) == {"a": [P("t", 0)]}


def test_every_partition_is_somebodys_and_nobody_elses() -> None:
    shares = assign_range({f"m{n}": ["t", "u"] for n in range(5)}, {"t": 13, "u": 4})
    given = [p for share in shares.values() for p in share]
    assert sorted(given) == sorted([P("t", n) for n in range(13)] + [P("u", n) for n in range(4)])


def test_what_is_written_is_read_back() -> None:
    assert decode_subscription(encode_subscription(["t", "ü"])) == ["t", "ü"]
    assert decode_assignment(encode_assignment([P("t", 1), P("u", 0), P("t", 0)])) == [
        P("t", 1),
        P("t", 0),
        P("u", 0),
    ]
    assert decode_assignment(b"") == []


def test_a_subscription_of_another_client_is_read() -> None:
    """Version 3 as the Java client writes it: user data, owned partitions, generation, rack behind the topics."""
    raw = b"\0\3" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\xff\xff\xff\xff" + b"\xff\xff"
    assert decode_subscription(raw) == ["t"]
    newer = b"\0\x09" + raw[2:] + b"what we do not know"
    assert decode_subscription(newer) == ["t"]


def test_kafka_python_reads_our_messages() -> None:
    protocol = pytest.importorskip("kafka.coordinator.protocol")
    mine = getattr(protocol, "ConsumerProtocolMemberMetadata_v0", None)
    if mine is None:
        pytest.skip("this version of kafka-python keeps its messages elsewhere")
    assert mine.decode(encode_subscription(["t"])).topics == ["t"]


def test_bytes_that_are_no_message_are_refused() -> None:
    for raw in (b"", b"\0", b"\0\0\xff"):
        with pytest.raises(WireError):
            decode_subscription(raw)
