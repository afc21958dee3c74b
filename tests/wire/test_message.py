"""How messages are declared, built, read and written."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest

from barnabas.errors import WireError
from barnabas.model import ZERO_UUID, Uuid
from barnabas.wire.codec.declaration import NEVER_FLEXIBLE
from barnabas.wire.codec.message import decode, encode, encode_parts, replace
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.metadata import BrokerEndpoint, RegisterBrokerRecord, TopicRecord
from barnabas.wire.schemas.cluster import ApiVersionsResponse, MetadataRequest, SupportedFeatureKey
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
)
from barnabas.wire.schemas.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.schemas.groups import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.sasl import SaslHandshakeRequest


class Slice:
    """Bytes in a file, so to speak."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads = 0

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        self.reads += 1
        return self.data


def produce(records: object) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)  # type: ignore[arg-type]
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def test_a_message_says_its_key_versions_and_name() -> None:
    assert (FetchRequest.KEY, FetchRequest.VERSIONS, FetchRequest.FLEXIBLE) == (1, (4, 18), 12)
    assert FetchRequest.NAME == "FetchRequest"
    assert SaslHandshakeRequest.FLEXIBLE == NEVER_FLEXIBLE


def test_a_message_is_built_with_its_defaults() -> None:
    request = FetchRequest()
    assert request.replica_id == -1
    assert request.max_bytes == 0x7FFFFFFF
    assert request.cluster_id is None
    assert request.topics == []
    assert request.replica_state == ReplicaState()
    assert FetchTopic().topic_id == ZERO_UUID
    assert FetchRequest().topics is not request.topics


def test_an_unknown_field_cannot_be_given_nor_set() -> None:
    with pytest.raises(TypeError):
        FetchRequest(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().nonsense = 1  # type: ignore[attr-defined]


def test_messages_are_compared_by_value_and_printed_by_what_is_set() -> None:
    one = FetchTopic(topic="a", partitions=[FetchPartition(partition=2)])
    assert one == FetchTopic(topic="a", partitions=[FetchPartition(partition=2)])
    assert one != FetchTopic(topic="a", partitions=[FetchPartition(partition=3)])
    assert one != "a"
    assert repr(one) == "FetchTopic(topic='a', partitions=[FetchPartition(partition=2)])"


def test_replace_makes_a_changed_copy() -> None:
    one = FetchPartition(partition=2, fetch_offset=7)
    assert replace(one, fetch_offset=8) == FetchPartition(partition=2, fetch_offset=8)
    assert one.fetch_offset == 7
    record = TopicRecord(name="t")
    record.unknown_tags = ((9, b"x"),)  # type: ignore[misc]
    assert replace(record, name="u").unknown_tags == ((9, b"x"),)


def test_a_version_that_there_is_not_is_a_wire_error() -> None:
    for version in (-1, 3, 19):
        with pytest.raises(WireError, match="has versions 4 to 18"):
            encode(FetchRequest(), version)
        with pytest.raises(WireError, match="has versions 4 to 18"):
            decode(FetchRequest, b"", version)


def test_a_field_that_the_version_cannot_carry_is_refused_unless_it_may_be_dropped() -> None:
    with pytest.raises(WireError, match=r"v4 cannot carry JoinGroupRequest\.group_instance_id"):
        encode(JoinGroupRequest(group_id="g", group_instance_id="i"), 4)
    assert encode(FetchRequest(rack_id="r"), 4) == encode(FetchRequest(), 4)  # ignorable
    with pytest.raises(WireError, match=r"cannot carry FetchPartition\.last_fetched_epoch"):
        encode(FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=3)])]), 11)


def test_values_that_do_not_fit_are_a_wire_error() -> None:
    for bad in (
        FetchRequest(max_wait_ms=1 << 31),
        FetchRequest(max_wait_ms=None),  # type: ignore[arg-type]
        FetchRequest(topics=None),  # type: ignore[arg-type]
        FetchRequest(topics=[FetchTopic(topic=None)]),  # type: ignore[arg-type]
        FetchRequest(topics=[FetchTopic(topic="\ud800")]),
        FetchRequest(topics=[FetchTopic(topic="x" * 0x8000)]),
    ):
        for version in (4, 12):
            with pytest.raises(WireError):
                encode(bad, version)
    encode(FetchRequest(topics=[FetchTopic(topic="x" * 0x7FFF)]), 12)


def test_null_is_refused_where_it_must_not_be() -> None:
    assert decode(MetadataRequest, b"\xff\xff\xff\xff", 1)[0].topics is None
    with pytest.raises(WireError, match="topics must not be null"):
        decode(MetadataRequest, b"\xff\xff\xff\xff", 0)
    with pytest.raises(WireError, match="has the length -2"):
        decode(MetadataRequest, b"\xff\xff\xff\xfe", 1)
    with pytest.raises(WireError, match="group_id must not be null"):
        decode(SyncGroupRequest, b"\0", 4)


def test_a_nullable_struct_has_a_mark_in_front() -> None:
    for assignment in (None, ConsumerGroupHeartbeatResponseAssignment()):
        written = encode(ConsumerGroupHeartbeatResponse(assignment=assignment), 0)
        assert decode(ConsumerGroupHeartbeatResponse, written, 0)[0].assignment == assignment


def test_an_array_that_claims_too_much_is_refused_before_anything_is_allocated() -> None:
    claims = (0x7FFFFFFF).to_bytes(4, "big")
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="claims 2147483647 elements"):
            decode(MetadataRequest, claims, 1)
        with pytest.raises(WireError, match="claims 4294967294 elements"):
            decode(MetadataRequest, uvarint(0xFFFFFFFF), 9)
        with pytest.raises(WireError, match="claims"):
            decode(JoinGroupRequest, encode(JoinGroupRequest(), 0)[:-4] + claims, 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_string_that_claims_too_much_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        decode(SaslHandshakeRequest, b"\x7f\xffPLAIN", 0)
    with pytest.raises(WireError, match="too long"):
        decode(SyncGroupRequest, uvarint(0x8002) + b"x" * 0x9000, 4)
    with pytest.raises(WireError, match="cut off or malformed"):
        decode(SaslHandshakeRequest, b"\0\2\xff\xff", 0)


def test_records_are_a_slice_of_the_input_and_bytes_are_a_copy() -> None:
    buffer = bytearray(encode(produce(b"0123456789"), 9))
    view = memoryview(buffer)
    records = decode(ProduceRequest, view, 9)[0].topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is buffer
    at = bytes(buffer).index(b"0123456789")
    buffer[at] = ord("X")
    assert records[:2] == b"X1"
    joined = bytearray(encode(JoinGroupRequest(protocols=[JoinGroupRequestProtocol(metadata=b"abc")]), 6))
    metadata = decode(JoinGroupRequest, memoryview(joined), 6)[0].protocols[0].metadata
    assert type(metadata) is bytes


def test_records_are_handed_on_as_they_are() -> None:
    for version in (3, 9):
        records = bytearray(b"records")
        parts: list[object] = []
        size = encode_parts(parts, produce(records), version)  # type: ignore[arg-type]
        assert any(part is records for part in parts)
        assert len(parts) == 3
        assert size == len(encode(produce(records), version))


def test_records_in_a_file_are_read_only_when_they_leave() -> None:
    lazy = Slice(b"from a file")
    parts: list[object] = []
    size = encode_parts(parts, produce(lazy), 9)  # type: ignore[arg-type]
    assert lazy in parts
    assert lazy.reads == 0
    assert encode(produce(lazy), 9) == encode(produce(b"from a file"), 9)
    assert size == len(encode(produce(b"from a file"), 9))


def test_a_message_may_stand_anywhere_in_a_buffer() -> None:
    written = encode(FetchRequest(topics=[FetchTopic(topic="t")]), 12)
    message, end = decode(FetchRequest, b"abc" + written, 12, 3)
    assert message.topics[0].topic == "t"
    assert end == 3 + len(written)


def test_tagged_fields_are_written_only_when_set_and_in_order_of_their_tags() -> None:
    plain = encode(ApiVersionsResponse(), 3)
    assert plain.endswith(b"\0")
    features = [SupportedFeatureKey(name="f", min_version=0, max_version=1)]
    written = encode(ApiVersionsResponse(supported_features=features, finalized_features_epoch=5), 3)
    assert written == plain[:-1] + b"\2" + b"\0\x08\2\2f\0\0\0\1\0" + b"\1\x08" + (5).to_bytes(8, "big")
    data = PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2), records=b"")
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    assert decode(FetchResponse, encode(message, 12), 12)[0] == message


def test_unknown_tagged_fields_of_a_request_are_skipped() -> None:
    written = encode(FetchRequest(), 12)
    extended = written[:-1] + b"\2" + b"\x20\3abc" + b"\x81\1\0"
    assert decode(FetchRequest, extended, 12) == (FetchRequest(), len(extended))


def test_unknown_tagged_fields_of_a_metadata_record_are_kept() -> None:
    endpoint = BrokerEndpoint(name="A", host="h", port=1)
    record = RegisterBrokerRecord(broker_id=1, end_points=[endpoint], log_dirs=[Uuid(b"\1" * 16)])
    endpoint.unknown_tags = ((5, b"in here"),)  # type: ignore[misc]
    record.unknown_tags = ((3, b"three"), (200, b""))  # type: ignore[misc]
    for version in (0, 4):
        carried = record if version == 4 else replace(record, log_dirs=[])
        written = encode(carried, version)
        read, _ = decode(RegisterBrokerRecord, written, version)
        assert read == carried
        assert read.unknown_tags == record.unknown_tags
        assert read.end_points[0].unknown_tags == endpoint.unknown_tags
        assert encode(read, version) == written


def test_a_tagged_field_that_is_longer_than_its_size_is_a_wire_error() -> None:
    written = encode(FetchRequest(cluster_id="abc"), 12)
    assert written.endswith(b"\1\0\4\4abc")
    with pytest.raises(WireError, match="ends elsewhere"):
        decode(FetchRequest, written[:-7] + b"\1\0\3\4abc", 12)
    with pytest.raises(WireError):
        decode(FetchRequest, written[:-7] + b"\1\0\x7f\4abc", 12)


def test_the_registry_loads_no_family_of_messages() -> None:
    program = (
        "import sys, barnabas.wire.registry, barnabas.wire.frame\n"
        "print(sorted(m for m in sys.modules if m.startswith('barnabas.wire.')))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    codec = ("declaration", "message", "primitives", "reader", "schema", "writer")
    known = ("apis", "codec", *(f"codec.{name}" for name in codec), "frame", "registry")
    assert out.strip() == str([f"barnabas.wire.{name}" for name in known])
