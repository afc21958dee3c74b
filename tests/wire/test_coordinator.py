"""Keys and values of the coordinators' topics, and the frame of a metadata record."""

from __future__ import annotations

import pytest
from tests.wire.samples import MESSAGES, filled

from barnabas.errors import WireError
from barnabas.model import SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.wire.coordinator import read_key, read_value, write_key, write_value
from barnabas.wire.metadata import NoOpRecord, TopicRecord, read_record, read_record_version, write_record
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from barnabas.wire.schemas.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from barnabas.wire.schemas.transaction_records import TransactionLogKey, TransactionLogValue

KEYS = [cls for cls in MESSAGES if cls.__name__.endswith("Key")]


def topic_of(name: str) -> dict[str, str]:
    if name.startswith("Transaction"):
        return {"topic": TRANSACTIONS_TOPIC}
    return {"topic": SHARE_STATE_TOPIC} if name.startswith(("ShareSnapshot", "ShareUpdate")) else {}


@pytest.mark.parametrize("cls", KEYS, ids=[cls.__name__ for cls in KEYS])
def test_a_key_reads_back_as_written(cls: type) -> None:
    key = filled(cls, 0)
    assert read_key(write_key(key), **topic_of(cls.__name__)) == key


def test_keys_begin_with_their_type_and_values_with_their_version() -> None:
    assert write_key(OffsetCommitKey(group="g", topic="t", partition=3)) == b"\0\1\0\1g\0\1t\0\0\0\3"
    assert write_key(GroupMetadataKey(group="g")) == b"\0\2\0\1g"
    assert write_key(TransactionLogKey(transactional_id="x")) == b"\0\0\0\1x"
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)
    for version in (1, 2, 3):
        if version == 1:
            value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9, expire_timestamp=10)
        written = write_value(value, version)
        assert written[:2] == bytes([0, version])
        assert read_value(OffsetCommitValue, written) == value
        value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)


def test_a_type_that_we_do_not_know_is_passed_over_and_a_version_is_an_error() -> None:
    assert read_key(b"\0\x63\0\1g") is None
    with pytest.raises(WireError):
        read_value(TransactionLogValue, b"\0\x63abc")
    for broken in (b"", b"\0"):
        with pytest.raises(WireError):
            read_key(broken)
        with pytest.raises(WireError):
            read_value(TransactionLogValue, broken)


def test_a_subscription_is_prefixed_with_its_version_too() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=None)
    assert write_value(subscription, 0) == b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


def test_a_metadata_record_has_its_type_and_version_in_front() -> None:
    assert write_record(NoOpRecord()) == b"\1\x14\0\0"
    assert read_record_version(b"\1\x14\0\0") == (NoOpRecord(), 0)
    assert read_record(write_record(TopicRecord(name="t"))) == TopicRecord(name="t")


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0\x14\0\0", b"\2\x14\0\0", b"\1\x14\1\0", b"\1\x14\0\0\0", b"\1\x7f\0\0", b"\1\x14\0", b"\1"],
)
def test_what_is_no_metadata_record_is_a_wire_error(raw: bytes) -> None:
    with pytest.raises(WireError):
        read_record(raw)
