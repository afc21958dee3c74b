"""An exact range, and what a reader may see of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.fake_broker import CLOSE, FakeBroker
from tests.patience import PATIENCE_S

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import Consumer
from barnabas.client.fetching import RawBatch, Visible, fetch_range
from barnabas.client.offsets import list_offsets
from barnabas.client.producer import Producer
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.control import ControlType, write_control
from barnabas.wire.records import Record, batches, read_batch_header, read_records, write_batch
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.control_records import EndTxnMarker
from barnabas.wire.schemas.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.spans import hollow


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Topic t: 10 batches of 3 records."""
    with FakeBroker(t=1) as broker:
        with Producer(broker.address, linger=5) as producer:
            for batch in range(10):
                for n in range(3):
                    producer.send("t", b"%d" % (3 * batch + n))
                producer.flush(PATIENCE_S)
        yield broker


def offsets(found: list[RawBatch]) -> list[int]:
    return [
        record.offset
        for batch in found
        for record in read_records(batch.buffer, 0, batch.header)
        if batch.first <= record.offset < batch.end
    ]


@pytest.mark.parametrize(("start", "end"), [(0, 30), (0, 1), (4, 5), (1, 29), (3, 6), (29, 30)])
def test_exactly_the_range_comes(broker: FakeBroker, start: int, end: int) -> None:
    found = list(fetch_range(broker.address, "t", 0, start, end, max_bytes=200))
    assert offsets(found) == list(range(start, end))
    assert found[0].first == start
    assert found[-1].end == end


def test_an_empty_range_asks_nobody() -> None:
    assert list(fetch_range("127.0.0.1:1", "t", 0, 5, 5)) == []


def fetched_from(request: FetchRequest, node: int, seen: list[tuple[int, int]]) -> int:
    """Notes who was asked for which offset; returns the offset."""
    offset = request.topics[0].partitions[0].fetch_offset
    seen.append((node, offset))
    return offset


def test_a_reader_in_a_rack_reads_at_the_replica_that_the_leader_names_until_that_fails(
    broker: FakeBroker,
) -> None:
    """KIP-392: the leader answers with preferred_read_replica and no records."""
    seen: list[tuple[int, int]] = []
    with FakeBroker(node=2, cluster=broker.cluster, t=1) as near:
        near.topics, near.partitions, near.ends = broker.topics, broker.partitions, broker.ends

        def leads(request: FetchRequest) -> FetchResponse | None:
            fetched_from(request, 1, seen)
            if not request.rack_id:
                return None
            data = PartitionData(partition_index=0, preferred_read_replica=2, high_watermark=30)
            topic = FetchableTopicResponse(topic_id=broker.topics["t"], partitions=[data])
            return FetchResponse(responses=[topic])

        broker.on(FetchRequest, leads)
        near.on(FetchRequest, lambda request: CLOSE if fetched_from(request, 2, seen) >= 9 else None)
        found = fetch_range(broker.address, "t", 0, 0, 30, max_bytes=1, rack="r2")
        assert offsets(list(found)) == list(range(30))
    assert seen[:2] == [(1, 0), (2, 0)]
    assert [node for node, offset in seen if offset in (3, 6)] == [2, 2]
    assert all(node == 1 for node, offset in seen if offset > 9), "after the failure the leader is read"


def test_the_next_fetch_is_under_way_while_the_caller_works(broker: FakeBroker) -> None:
    next_asked = threading.Event()

    def note(request: FetchRequest) -> None:
        if request.topics[0].partitions[0].fetch_offset == 3:
            next_asked.set()

    broker.on(FetchRequest, note)  # and it is answered as usual
    reader = fetch_range(broker.address, "t", 0, 0, 30, max_bytes=1)
    next(reader)
    assert next_asked.wait(PATIENCE_S), "the caller still works on the first records"
    reader.close()


def test_nothing_is_asked_beyond_the_end(broker: FakeBroker) -> None:
    list(fetch_range(broker.address, "t", 0, 0, 3, max_bytes=1))
    assert len(broker.asked(FetchRequest)) == 1


def test_a_short_range_of_a_large_topic_asks_for_little(broker: FakeBroker) -> None:
    assert len(list(fetch_range(broker.address, "t", 0, 3, 6))) == 1
    [asked] = broker.asked(FetchRequest)
    assert asked.max_bytes == 64 << 10, "not the 16 MiB that a fetch may bring at most"


def test_a_shared_cluster_stays_usable_after_an_early_end(broker: FakeBroker) -> None:
    with Cluster(broker.address) as cluster:
        for _ in fetch_range(cluster, "t", 0, 0, 30, max_bytes=1):
            break
        assert offsets(list(fetch_range(cluster, "t", 0, 27, 30))) == [27, 28, 29]
        assert list_offsets(cluster, "t")[0].offset == 30


def test_a_wrong_crc_is_found(broker: FakeBroker) -> None:
    broker.partitions["t", 0][65] ^= 1
    with pytest.raises(CorruptRecordError, match="t-0: the batch at"):
        list(fetch_range(broker.address, "t", 0, 0, 30, timeout=0.3))
    assert len(list(fetch_range(broker.address, "t", 0, 0, 30, verify=False))) == 10


def test_offsets_that_are_gone_are_an_error_with_a_next_step(broker: FakeBroker) -> None:
    with pytest.raises(KafkaError, match="t-0 has no offset 99") as caught:
        list(fetch_range(broker.address, "t", 0, 99, 100))
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert caught.value.next_step


def test_a_topic_made_anew_is_noticed(broker: FakeBroker) -> None:
    with pytest.raises(KafkaError, match="is not the one it was") as caught:
        list(fetch_range(broker.address, "t", 0, 0, 3, topic_id=Uuid.of(9, 9)))
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert len(list(fetch_range(broker.address, "t", 0, 0, 3, topic_id=broker.topics["t"]))) == 1


def test_what_does_not_come_is_given_up_in_time(broker: FakeBroker) -> None:
    with pytest.raises(KafkaError, match=r"waited 1 s for offset 30") as caught:
        list(fetch_range(broker.address, "t", 0, 29, 31, timeout=1.0))
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT


def test_a_lost_connection_costs_nothing(broker: FakeBroker) -> None:
    lost = iter([None, CLOSE, None, CLOSE])
    broker.on(FetchRequest, lambda _: next(lost, None))
    assert offsets(list(fetch_range(broker.address, "t", 0, 0, 30, max_bytes=1))) == list(range(30))


def test_a_leader_that_moves_midway_is_followed(broker: FakeBroker) -> None:
    with FakeBroker(node=2, cluster=broker.cluster, t=1) as second:
        second.topics = broker.topics
        second.partitions, second.ends = broker.partitions, broker.ends
        reader = fetch_range(broker.address, "t", 0, 0, 30, max_bytes=1)
        found = [next(reader), next(reader)]
        for one in (broker, second):
            one.leaders["t", 0] = 2
        found += list(reader)
        assert offsets(found) == list(range(30))
        assert second.asked(FetchRequest)


def test_bytes_that_are_no_batch_are_an_error(broker: FakeBroker) -> None:
    def cut(request: Any) -> FetchResponse:
        raw = bytes(broker.partitions["t", 0][:70])
        data = PartitionData(partition_index=0, high_watermark=30, records=raw)
        topic = FetchableTopicResponse(topic="t", topic_id=broker.topics["t"], partitions=[data])
        return FetchResponse(responses=[topic])

    broker.on(FetchRequest, cut)
    with pytest.raises(CorruptRecordError, match="no whole record batch"):
        list(fetch_range(broker.address, "t", 0, 0, 30, timeout=0.3))


def serve_with_a_flipped_bit(broker: FakeBroker, byte: int, bit: int) -> None:
    """The bytes of the log from the batch of an offset on; a bit of the fifth one, at offset 12, is another."""
    log = broker.partitions["t", 0]
    at = [position for position, _ in batches(log)]
    damaged = bytearray(log)
    damaged[at[4] + byte] ^= bit

    def fetched(request: FetchRequest) -> FetchResponse:
        first = at[request.topics[0].partitions[0].fetch_offset // 3]
        data = PartitionData(partition_index=0, high_watermark=30, records=bytes(damaged[first:]))
        topic = FetchableTopicResponse(topic="t", topic_id=broker.topics["t"], partitions=[data])
        return FetchResponse(responses=[topic])

    broker.on(FetchRequest, fetched)


def test_bytes_behind_good_batches_that_are_no_batch_are_named_by_their_offset(broker: FakeBroker) -> None:
    serve_with_a_flipped_bit(broker, 16, 5)  # (the magic byte)
    reader = fetch_range(broker.address, "t", 0, 0, 30, timeout=0.3)
    found = [next(reader) for _ in range(4)]
    assert offsets(found) == list(range(12)), "what stands before it is read"
    with pytest.raises(CorruptRecordError, match=r"t-0: there is no batch at offset 12: .*magic 7") as caught:
        next(reader)
    assert "barnabas log verify" in (caught.value.next_step or "")


def test_a_leader_that_never_finds_its_batch_is_an_error(broker: FakeBroker) -> None:
    def damaged(request: FetchRequest) -> FetchResponse:
        data = PartitionData(partition_index=0, error_code=ErrorCode.CORRUPT_MESSAGE, high_watermark=30)
        topic = FetchableTopicResponse(topic="t", topic_id=broker.topics["t"], partitions=[data])
        return FetchResponse(responses=[topic])

    broker.on(FetchRequest, damaged)
    said = "t-0: the leader finds no batch at offset"
    with pytest.raises(CorruptRecordError, match=said):
        list(fetch_range(broker.address, "t", 0, 12, 30, timeout=0.3))
    with (
        pytest.raises(CorruptRecordError, match=said) as caught,
        Consumer(broker.address, "t", start="earliest", idle=PATIENCE_S, timeout=0.3) as consumer,
    ):
        list(consumer)
    assert "barnabas log verify" in (caught.value.next_step or "")


@pytest.mark.parametrize("reader", ["consumer", "range"])
def test_a_damaged_batch_is_asked_for_until_a_whole_copy_leads(broker: FakeBroker, reader: str) -> None:
    """A bit on one of three disks costs the reader nothing: first it meets the batch, then the leader does."""
    asked = 0

    def heals(request: FetchRequest) -> FetchResponse | None:
        nonlocal asked
        asked += 1
        if asked > 3:
            return None  # (the usual answer)
        raw = bytearray(broker.partitions["t", 0])
        raw[70] ^= 1
        bad = PartitionData(partition_index=0, high_watermark=30)
        bad.error_code, bad.records = (
            (ErrorCode.NONE, raw) if asked == 1 else (ErrorCode.CORRUPT_MESSAGE, b"")
        )
        topic = FetchableTopicResponse(topic="t", topic_id=broker.topics["t"], partitions=[bad])
        return FetchResponse(responses=[topic])

    broker.on(FetchRequest, heals)
    looked = len(broker.asked(MetadataRequest))
    if reader == "range":
        assert offsets(list(fetch_range(broker.address, "t", 0, 0, 30))) == list(range(30))
    else:
        with Consumer(broker.address, "t", start="earliest", idle=PATIENCE_S) as consumer:
            consumer.stop_at({TopicPartition("t", 0): 30})
            assert [message.offset for message in consumer] == list(range(30))
    assert len(broker.asked(MetadataRequest)) >= looked + 3, "another may lead by now"


@pytest.mark.parametrize(
    ("byte", "bit", "start", "said"),
    [
        (2, 1, 0, "t-0: a batch says that it has offsets .* and the log ends at 30"),
        (7, 1, 0, "t-0: a batch says that it has offsets 15 to 17, and the one before ends at 15"),
        (7, 4, 0, "t-0: a batch says that it has offsets 8 to 10, and the one before ends at 11"),
        (7, 4, 12, "t-0: a batch says that it has offsets 8 to 10, and 12 was asked for"),
    ],
)
def test_a_batch_that_lies_about_its_offset_leads_nobody_past_records(
    broker: FakeBroker, byte: int, bit: int, start: int, said: str
) -> None:
    """Its base offset is the one thing that no CRC covers."""
    serve_with_a_flipped_bit(broker, byte, bit)
    with pytest.raises(CorruptRecordError, match=said):
        list(fetch_range(broker.address, "t", 0, start, 30, timeout=0.3))
    with (
        pytest.raises(CorruptRecordError, match=said),
        Consumer(broker.address, "t", start="earliest", idle=PATIENCE_S, timeout=0.3) as consumer,
    ):
        consumer.seek("t", 0, start)
        list(consumer)


# -- what may be seen ----------------------------------------------------------------------------


def data_batch(offset: int, producer: int, *, transactional: bool = True) -> bytearray:
    return write_batch(
        [Record(offset, 0, None, b"x")],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def marker(offset: int, producer: int, kind: ControlType) -> bytearray:
    key, value = write_control(kind, EndTxnMarker(coordinator_epoch=0))
    return write_batch(
        [Record(offset, 0, key, value)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        control=True,
        transactional=True,
    )


def seen(raw: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    visible = Visible(aborted)
    view = memoryview(raw)
    return [h.base_offset for at, h in batches(raw) if visible.sees(view, at, h)]


def test_aborted_data_are_hidden_up_to_their_marker_and_no_further() -> None:
    raw = b"".join(
        [
            data_batch(0, 1),
            data_batch(1, 2),
            marker(2, 1, ControlType.ABORT),
            data_batch(3, 1),
            marker(4, 1, ControlType.COMMIT),
            marker(5, 2, ControlType.COMMIT),
            data_batch(6, 9, transactional=False),
        ]
    )
    assert seen(raw, [(1, 0)]) == [1, 3, 6]
    assert seen(raw, []) == [0, 1, 3, 6]


def test_a_producer_may_abort_twice() -> None:
    raw = b"".join(
        [
            data_batch(0, 1),
            marker(1, 1, ControlType.ABORT),
            data_batch(2, 1),
            marker(3, 1, ControlType.ABORT),
            data_batch(4, 1),
            marker(5, 1, ControlType.COMMIT),
        ]
    )
    assert seen(raw, [(1, 0), (1, 2)]) == [4]


def test_a_marker_that_compaction_left_empty_says_nothing() -> None:
    empty = marker(1, 1, ControlType.ABORT)
    raw = b"".join(
        [
            data_batch(0, 1),
            hollow(read_batch_header(empty)),
            marker(2, 1, ControlType.ABORT),
            data_batch(3, 1),
        ]
    )
    assert seen(raw, [(1, 0)]) == [3]


def test_a_fetch_that_begins_inside_an_aborted_transaction_hides_the_rest() -> None:
    raw = b"".join([data_batch(5, 1), marker(6, 1, ControlType.ABORT), data_batch(7, 1)])
    assert seen(raw, [(1, 2)]) == [7]


def test_read_committed_reaches_the_broker_and_its_list_the_reader(broker: FakeBroker) -> None:
    raw = bytes(data_batch(0, 1) + marker(1, 1, ControlType.ABORT) + data_batch(2, 2))

    def answer(request: FetchRequest) -> FetchResponse:
        assert request.isolation_level == 1
        data = PartitionData(
            partition_index=0,
            high_watermark=3,
            last_stable_offset=3,
            aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=0)],
            records=raw,
        )
        topic = FetchableTopicResponse(topic="t", topic_id=broker.topics["t"], partitions=[data])
        return FetchResponse(responses=[topic])

    broker.on(FetchRequest, answer)
    found = list(fetch_range(broker.address, "t", 0, 0, 3, isolation="read_committed"))
    assert [read_batch_header(b.buffer).base_offset for b in found] == [2]


def test_an_isolation_that_is_none_is_refused(broker: FakeBroker) -> None:
    with pytest.raises(ValueError, match="isolation"):
        list(fetch_range(broker.address, "t", 0, 0, 1, isolation="serializable"))
