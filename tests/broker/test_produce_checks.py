"""Produce refuses what Apache Kafka refuses, for the same reason; the first check that fails decides.

The rows are those of the order of checks on Kafka's produce path.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.broker.harness import WALL, Node, batch
from tests.broker.hostile_batches import with_crc

from barnabas.broker.ports import Operation
from barnabas.errors import ErrorCode, KafkaError
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, batches, check_crc, read_batch_header, read_records, write_batch
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

HOUR = 3_600_000


def patched(fmt: str, position: int, value: int, **header: Any) -> bytearray:
    buf = batch("a", "b", **header)
    struct.pack_into(fmt, buf, position, value)
    return with_crc(buf)


class Only:
    """An authorizer that allows nothing but what it is told."""

    def __init__(self, *operations: Operation) -> None:
        self.operations = operations

    generation = 0

    def authorize(
        self, context: Any, operation: Operation, resource: Any, name: str, *, asked: bool = True
    ) -> bool:
        return operation in self.operations

    def authorize_any(self, context: Any, operation: Operation, resource: Any) -> bool:
        return operation in self.operations


def stored(node: Node, topic: str = "t", index: int = 0) -> bytes:
    partition = node.broker.partition(topic, index)
    assert partition is not None
    return partition.read(partition.log_start_offset, 1 << 30).read()


# ---- rows 1 to 4: the request and the topic --------------------------------------------------------------


def test_row_1_a_transactional_batch_without_an_id_is_refused_for_the_whole_request(node: Node) -> None:
    node.create("u")
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        topic_data=[
            TopicProduceData(name="u", partition_data=[PartitionProduceData(index=0, records=batch("a"))]),
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(
                        index=0,
                        records=batch(
                            "a", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0
                        ),
                    )
                ],
            ),
        ],
    )
    answer = node.ask(request, 11)
    codes = [topic.partition_responses[0].error_code for topic in answer.message.responses]
    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    node.turn()
    assert stored(node, "u") == b""


def test_row_2_an_unknown_topic_id_is_refused_from_version_13_on(node: Node) -> None:
    assert node.produce(batch("a"), version=13, topic_id=node.chance.uuid()).error == (
        ErrorCode.UNKNOWN_TOPIC_ID
    )
    answer = node.produce(batch("a"), version=13)
    node.turn()
    assert answer.error == ErrorCode.NONE
    assert answer.message.responses[0].topic_id == node.topic_id("t")


def test_row_3_a_topic_that_the_principal_may_not_write_is_refused(disk: MemoryDisk) -> None:
    node = Node(disk, authorizer=Only(Operation.READ))
    node.create("t")
    assert node.produce(batch("a")).error == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("topic", "index"), [("nowhere", 0), ("t", 1)])
def test_row_4_a_topic_or_partition_that_is_not_in_the_metadata_is_unknown(
    node: Node, topic: str, index: int
) -> None:
    assert node.produce(batch("a"), topic, index=index).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- row 5: the shape ------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [None, b"", b"\0" * 11, bytes(batch("a"))[:60]])
def test_row_5_no_batch_is_an_invalid_record(node: Node, records: bytes | None) -> None:
    assert node.produce(records).error == ErrorCode.INVALID_RECORD


def test_row_5_two_batches_for_a_partition_are_an_invalid_record(node: Node) -> None:
    assert node.produce(batch("a") + batch("b")).error == ErrorCode.INVALID_RECORD
    node.turn()
    assert stored(node) == b""


def test_row_5_a_batch_that_claims_more_than_there_is_is_an_invalid_record(node: Node) -> None:
    assert node.produce(batch("abcdefgh")[:-1]).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [20, 13, 0, -1, -(1 << 31)])
def test_row_5_a_batch_shorter_than_a_header_is_corrupt(node: Node, length: int) -> None:
    buf = batch("a")
    struct.pack_into(">i", buf, 8, length)
    assert node.produce(buf).error == ErrorCode.CORRUPT_MESSAGE


def test_row_5_bytes_that_are_no_batch_are_corrupt(node: Node) -> None:
    assert node.produce(b"\0" * 60).error == ErrorCode.CORRUPT_MESSAGE


def test_row_5_what_is_too_short_for_a_batch_and_hangs_behind_one_does_not_count(node: Node) -> None:
    assert node.append(batch("a") + b"junk").error_code == ErrorCode.NONE
    assert stored(node)[61:] == bytes(batch("a"))[61:]


@pytest.mark.parametrize(
    ("magic", "error"),
    [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)],
)
def test_row_5_an_old_magic_is_an_invalid_record_and_an_unknown_one_corrupt(
    node: Node, magic: int, error: ErrorCode
) -> None:
    buf = batch("a")
    buf[16] = magic
    assert node.produce(buf).error == error


def test_row_5_zstd_needs_version_7(node: Node) -> None:
    packed = batch("a" * 100, codec=Codec.ZSTD)
    assert node.produce(packed, version=6).error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert node.append(packed, version=7).error_code == ErrorCode.NONE


def test_row_5_a_codec_that_nobody_knows_is_refused(node: Node) -> None:
    assert node.produce(patched(">h", 21, 5)).error == ErrorCode.UNKNOWN_SERVER_ERROR


# ---- rows 6 to 11: acks, internal topics, the leader -----------------------------------------------------


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_row_6_other_acks_are_refused_with_offset_minus_one(node: Node, acks: int) -> None:
    answer = node.produce(batch("a"), acks=acks)
    assert answer.error == ErrorCode.INVALID_REQUIRED_ACKS
    assert answer.produced.base_offset == -1


def test_row_6_comes_after_row_5(node: Node) -> None:
    assert node.produce(b"", acks=7).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_row_9_only_the_admin_client_may_write_to_an_internal_topic(node: Node, topic: str) -> None:
    node.create(topic, cleanup_policy="delete")
    assert node.produce(batch("a"), topic).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert node.append(batch("a"), topic, client_id="__admin_client").error_code == ErrorCode.NONE


def test_row_10_a_partition_that_another_node_leads_is_refused_and_the_leader_named(node: Node) -> None:
    node.change("t", replicas=(1, 2), isr=(1, 2), leader=2)
    answer = node.produce(batch("a"), version=10)
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.produced.current_leader.leader_id, answer.produced.current_leader.leader_epoch) == (2, 1)
    endpoint = answer.message.node_endpoints[0]
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (2, "host2", 9092, "rack2")


def test_row_10_a_partition_that_is_not_hosted_here_names_its_leader_too(node: Node) -> None:
    node.create("far", replicas=(2,), leader=2)
    answer = node.produce(batch("a"), "far", version=10)
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.produced.current_leader.leader_id == 2


def test_row_10_below_version_10_no_leader_is_named(node: Node) -> None:
    node.change("t", replicas=(1, 2), leader=2)
    answer = node.produce(batch("a"), version=9)
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.message.node_endpoints == []


def test_row_11_too_few_in_sync_replicas_refuse_acks_all_and_nothing_is_written(node: Node) -> None:
    node.create("two", replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    assert node.produce(batch("a"), "two").error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.append(batch("b"), "two", acks=1).base_offset == 0


def test_row_11_what_was_sent_behind_a_refused_batch_is_refused_alike_when_it_comes_too_late(
    node: Node,
) -> None:
    """The producer numbers its batches, and the second arrives when enough are in sync again."""
    node.create("two", replicas=(1, 2), isr=(1,), min_insync_replicas="2")

    def send(sequence: int) -> ErrorCode:
        data = batch("a", producer_id=7, producer_epoch=0, base_sequence=sequence)
        return ErrorCode(node.produce(data, "two").error)

    assert send(0) == ErrorCode.NOT_ENOUGH_REPLICAS
    node.change("two", isr=(1, 2))
    assert send(1) == ErrorCode.NOT_ENOUGH_REPLICAS
    partition = node.broker.partition("two", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 0
    node.produce(batch("a", producer_id=7, producer_epoch=0, base_sequence=0), "two")
    node.produce(batch("a", producer_id=7, producer_epoch=0, base_sequence=1), "two")
    assert partition.log.log_end_offset == 2


def test_row_11_min_insync_replicas_never_asks_for_more_than_there_are(node: Node) -> None:
    node.create("one", min_insync_replicas="3")
    assert node.append(batch("a"), "one").error_code == ErrorCode.NONE


# ---- rows 12 and 13: the header --------------------------------------------------------------------------


def test_row_12_a_base_offset_other_than_zero_is_an_invalid_record(node: Node) -> None:
    buf = batch("a")
    struct.pack_into(">q", buf, 0, 5)
    assert node.produce(buf).error == ErrorCode.INVALID_RECORD


def test_row_12_the_limit_counts_the_whole_batch(node: Node) -> None:
    buf = batch("x" * 100)
    node.create("exact", max_message_bytes=str(len(buf)))
    node.create("small", max_message_bytes=str(len(buf) - 1))
    assert node.append(buf[:], "exact").error_code == ErrorCode.NONE
    assert node.produce(buf[:], "small").error == ErrorCode.MESSAGE_TOO_LARGE


def test_row_12_any_flipped_bit_behind_the_crc_is_corrupt(node: Node) -> None:
    for position in (21, 30, 60, 61, 65):
        buf = batch("abcdef")
        buf[position] ^= 0x40 if position != 21 else 0x80
        assert node.produce(buf).error in (ErrorCode.CORRUPT_MESSAGE,), position
    node.turn()
    assert stored(node) == b""


@pytest.mark.parametrize(("delta", "count"), [(1, 3), (0, 2), (-1, 0), (1, 0), (1, -1)])
def test_row_13_the_count_must_fit_the_last_offset_delta(node: Node, delta: int, count: int) -> None:
    buf = batch("a", "b")
    struct.pack_into(">i", buf, 23, delta)
    struct.pack_into(">i", buf, 57, count)
    assert node.produce(with_crc(buf)).error == ErrorCode.INVALID_RECORD


def test_row_13_a_control_batch_of_a_producer_is_refused(node: Node) -> None:
    assert node.produce(batch("a", control=True)).error == ErrorCode.INVALID_RECORD


def test_row_13_a_producer_needs_a_sequence(node: Node) -> None:
    bad = batch("a", producer_id=9, producer_epoch=0, base_sequence=-1)
    assert node.produce(bad).error == ErrorCode.INVALID_RECORD


# ---- rows 14 and 15: the records -------------------------------------------------------------------------


def test_row_14_a_compacted_topic_wants_keys_and_says_which_records_lack_them(node: Node) -> None:
    node.create("c", cleanup_policy="compact")
    mixed = write_batch(
        [Record(0, WALL, b"k", b"v"), Record(1, WALL, None, b"v"), Record(2, WALL, None, b"")]
    )
    answer = node.produce(mixed, "c", version=8)
    assert answer.error == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.produced.record_errors] == [1, 2]
    assert answer.produced.error_message
    assert node.append(batch("v", key=b"k"), "c").error_code == ErrorCode.NONE


def test_row_14_a_timestamp_too_far_ahead_is_refused_and_named(node: Node) -> None:
    late = write_batch([Record(0, WALL, None, b"a"), Record(1, WALL + HOUR + 1, None, b"b")])
    answer = node.produce(late)
    assert answer.error == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.produced.record_errors] == [1]
    assert node.append(batch("a", at=WALL + HOUR)).error_code == ErrorCode.NONE


def test_row_14_a_timestamp_too_old_is_refused_where_there_is_a_limit(node: Node) -> None:
    node.create("young", message_timestamp_before_max_ms="1000")
    assert node.produce(batch("a", at=WALL - 1001), "young").error == ErrorCode.INVALID_TIMESTAMP
    assert node.append(batch("a", at=WALL - 1000), "young").error_code == ErrorCode.NONE
    assert node.append(batch("a", at=1)).error_code == ErrorCode.NONE


def test_row_14_a_record_without_a_timestamp_passes_every_limit(node: Node) -> None:
    node.create("young", message_timestamp_before_max_ms="1000")
    assert node.append(batch("a", at=-1), "young").error_code == ErrorCode.NONE


def test_row_14_the_time_of_the_append_is_not_for_a_producer_to_set(node: Node) -> None:
    node.create("lat", message_timestamp_type="LogAppendTime")
    assert node.produce(batch("a", append_time=WALL), "lat").error == ErrorCode.INVALID_TIMESTAMP
    assert node.produce(batch("a", at=-1, append_time=-1)).error == ErrorCode.INVALID_TIMESTAMP


def test_row_14_a_claimed_append_time_becomes_a_create_time(node: Node) -> None:
    assert node.append(batch("a", append_time=WALL + 5)).error_code == ErrorCode.NONE
    header = read_batch_header(stored(node))
    assert (header.timestamp_type, header.max_timestamp) == (0, WALL + 5)
    assert check_crc(stored(node), 0, header)


def test_row_14_a_count_that_the_records_belie_is_refused(node: Node) -> None:
    lying = batch("a", "b")
    struct.pack_into(">i", lying, 23, 2)
    struct.pack_into(">i", lying, 57, 3)
    assert node.produce(with_crc(lying)).error == ErrorCode.INVALID_RECORD


def test_row_14_the_newest_timestamp_in_the_header_is_set_right(node: Node) -> None:
    node.append(patched(">q", 35, WALL + 17))
    header = read_batch_header(stored(node))
    assert header.max_timestamp == WALL
    assert check_crc(stored(node), 0, header)


def test_row_15_another_codec_means_the_batch_is_written_anew(node: Node) -> None:
    node.create("z", compression_type="lz4")
    assert (
        node.append(batch("a" * 500, "b", producer_id=3, producer_epoch=0, base_sequence=0), "z").base_offset
        == 0
    )
    buf = stored(node, "z")
    header = read_batch_header(buf)
    assert (header.codec, header.producer_id, header.base_sequence) == (Codec.LZ4, 3, 0)
    assert [record.value for record in read_records(buf, 0, header)] == [b"a" * 500, b"b"]


def test_row_15_the_same_codec_keeps_the_bytes(node: Node) -> None:
    node.create("z", compression_type="gzip")
    packed = batch("a" * 500, codec=Codec.GZIP)
    node.append(packed[:], "z")
    assert stored(node, "z")[21:] == packed[21:]


def test_row_15_too_large_once_unpacked_is_too_large(node: Node) -> None:
    packed = batch("a" * 5000, codec=Codec.GZIP)
    node.create("plain", compression_type="uncompressed", max_message_bytes=str(len(packed) + 10))
    assert node.append(packed, "plain").error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_row_15_a_batch_larger_than_a_segment_is_refused(node: Node) -> None:
    node.create("tiny", segment_bytes="1048576", max_message_bytes="4000000")
    assert node.append(batch(b"x" * 1_100_000), "tiny").error_code == ErrorCode.RECORD_LIST_TOO_LARGE


# ---- rows 16 and 17: the sequence ------------------------------------------------------------------------


def numbered(sequence: int, *values: str, epoch: int = 0, producer: int = 7) -> bytearray:
    return batch(*(values or ("v",)), producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def test_row_16_a_duplicate_is_answered_with_its_first_offset_and_not_written_again(node: Node) -> None:
    assert node.append(numbered(0, "a", "b")).base_offset == 0
    assert node.append(numbered(2, "c")).base_offset == 2
    again = node.append(numbered(0, "a", "b"))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert again.log_append_time_ms == WALL, "the time of the batch that is there, as Apache Kafka says"
    assert [header.base_offset for _, header in batches(stored(node))] == [0, 2]


def test_row_16_a_duplicate_of_what_is_not_safe_yet_waits_for_it(node: Node) -> None:
    first = node.produce(numbered(0, "a"))
    node.write()
    again = node.produce(numbered(0, "a"))
    node.write()
    assert not first.here
    assert not again.here
    node.sync()
    assert (first.produced.base_offset, again.produced.base_offset) == (0, 0)


def test_row_16_only_the_last_five_batches_are_remembered(node: Node) -> None:
    for sequence in range(6):
        node.append(numbered(sequence))
    assert node.append(numbered(1)).base_offset == 1
    assert node.append(numbered(0)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_row_16_a_gap_is_out_of_order(node: Node) -> None:
    node.append(numbered(0))
    assert node.append(numbered(2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert node.append(numbered(1)).error_code == ErrorCode.NONE


def test_row_16_any_sequence_is_taken_from_a_producer_that_is_not_known(node: Node) -> None:
    assert node.append(numbered(4711)).error_code == ErrorCode.NONE


def test_row_16_an_old_epoch_is_fenced(node: Node) -> None:
    node.append(numbered(0, epoch=1))
    assert node.append(numbered(1, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_row_16_a_new_epoch_starts_at_zero(node: Node) -> None:
    node.append(numbered(0))
    assert node.append(numbered(1, epoch=1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert node.append(numbered(0, epoch=1)).error_code == ErrorCode.NONE


def test_row_16_sequences_wrap(node: Node) -> None:
    node.append(numbered(2147483647))
    assert node.append(numbered(0)).error_code == ErrorCode.NONE


# ---- the answer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_gets_its_offsets(node: Node, version: int) -> None:
    assert node.append(batch("a", "b"), version=version).base_offset == 0
    second = node.append(batch("c"), version=version)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)
    if version >= 5:
        assert second.log_start_offset == 0


def test_log_append_time_is_stamped_and_answered(node: Node) -> None:
    node.create("lat", message_timestamp_type="LogAppendTime")
    node.wall += 77
    answer = node.append(batch("a", "b", at=5), "lat")
    assert answer.log_append_time_ms == WALL + 77
    buf = stored(node, "lat")
    header = read_batch_header(buf)
    assert check_crc(buf, 0, header)
    assert [record.timestamp for record in read_records(buf, 0, header)] == [WALL + 77] * 2


def test_acks_0_gets_no_answer_and_is_written(node: Node) -> None:
    answer = node.produce(batch("a"), acks=0)
    assert answer.waiting is None
    node.turn()
    assert not answer.here
    assert len(stored(node)) > 0


def test_acks_0_with_an_error_ends_the_connection(node: Node) -> None:
    with pytest.raises(KafkaError) as caught:
        node.produce(batch("a"), "nowhere", acks=0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_of_one_request_succeed_and_fail_on_their_own(node: Node) -> None:
    node.create("p", 3)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="p",
                partition_data=[
                    PartitionProduceData(index=0, records=batch("a")),
                    PartitionProduceData(index=1, records=b"junk"),
                    PartitionProduceData(index=2, records=batch("c")),
                ],
            ),
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch("d"))]),
        ],
    )
    answer = node.ask(request, 9)
    assert not answer.here
    node.turn()
    codes = [
        [(data.index, data.error_code) for data in topic.partition_responses]
        for topic in answer.message.responses
    ]
    assert codes == [[(0, 0), (1, ErrorCode.INVALID_RECORD), (2, 0)], [(0, 0)]]


def test_a_full_waiting_room_turns_producers_away_before_anything_is_written(disk: MemoryDisk) -> None:
    node = Node(disk, barnabas_max_waiters="2")
    node.create("t")
    parked = [node.produce(batch("a")) for _ in range(2)]
    node.write()
    turned = node.produce(batch("b"))
    assert turned.error == ErrorCode.REQUEST_TIMED_OUT
    node.sync()
    assert [answer.error for answer in parked] == [ErrorCode.NONE] * 2
    assert len(list(batches(stored(node)))) == 2
