"""WriteTxnMarkers, the last stable offset, and what a reader of committed records gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.harness import Node, batch
from tests.broker.replication import Replicas
from tests.broker.transactions import ask_to_end, end, ended, write

from barnabas.broker.requests.txn_markers import TxnMarker
from barnabas.errors import ErrorCode
from barnabas.log.segments.transactions import AbortedTransaction, TransactionIndex
from barnabas.model import Now
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, read_records
from barnabas.wire.schemas.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.schemas.transactions import DescribeProducersRequest, TopicRequest

FIXTURES = Path(__file__).parent.parent / "fixtures"


def test_a_marker_is_apache_kafkas_byte_for_byte() -> None:
    compared = 0
    for path in sorted((FIXTURES / "kafka-4.3.1" / "data" / "txn-0").glob("*.log")):
        data = path.read_bytes()
        for position, header in batches(data):
            if not header.is_control:
                continue
            theirs = bytearray(data[position : position + header.size])
            (record,) = read_records(data, position, header)
            assert record.key is not None and record.value is not None
            marker = TxnMarker(
                header.producer_id,
                header.producer_epoch,
                int.from_bytes(record.value[2:], "big"),
                record.key[3] == 1,
            )
            ours = marker.batch(Now(0.0, record.timestamp))
            ours[:8], ours[12:16] = theirs[:8], theirs[12:16]  # what the log gives it: offset, leader epoch
            assert ours == theirs
            compared += 1
    assert compared > 3


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_is_answered_when_every_replica_in_sync_holds_it(version: int) -> None:
    cluster = Replicas()
    write(cluster.leader, "a")
    cluster.settle()
    answer = ask_to_end(cluster.leader, version=version)
    cluster.leader.turn()
    assert not answer.here, "only the leader holds it"
    assert cluster[1].last_stable_offset == 0
    cluster.settle()
    assert ended(answer) == {(7, "t", 0): ErrorCode.NONE}
    assert [cluster[id_].last_stable_offset for id_ in (1, 2, 3)] == [2, 2, 2]


def test_a_follower_that_becomes_the_leader_knows_what_is_open_and_what_was_aborted() -> None:
    cluster = Replicas()
    write(cluster.leader, "a", producer=7)
    write(cluster.leader, "b", producer=8)
    ask_to_end(cluster.leader, producer=8, commit=False)
    cluster.settle()
    cluster.crash(1)
    cluster.fence(1)
    cluster.settle()
    leader = cluster.leader
    assert leader.id != 1
    data = leader.fetch(isolation=1).fetched
    assert (data.high_watermark, data.last_stable_offset, bytes(data.records)) == (3, 0, b"")
    ask_to_end(leader, producer=7)
    cluster.settle()
    data = leader.fetch(isolation=1).fetched
    assert data.last_stable_offset == 4
    assert [(gone.producer_id, gone.first_offset) for gone in data.aborted_transactions] == [(8, 1)]


def test_a_marker_too_few_replicas_could_hold_is_not_written(node: Node) -> None:
    node.create("two", replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    assert end(node, ("two", 0)) is ErrorCode.NOT_ENOUGH_REPLICAS
    partition = node.broker.partition("two", 0)
    assert partition is not None and partition.log.log_end_offset == 0


def test_markers_for_several_partitions_and_producers_come_out_one_by_one(node: Node) -> None:
    node.create("p", 3)
    node.change("p", 1, leader=2)
    write(node, "a", topic="p", index=0)
    answer = ask_to_end(node, ("p", 0), ("p", 1), ("p", 2), ("nowhere", 0))
    node.turn()
    assert ended(answer) == {
        (7, "p", 0): ErrorCode.NONE,
        (7, "p", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        (7, "p", 2): ErrorCode.NONE,
        (7, "nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_marker_of_an_older_coordinator_or_an_older_epoch_is_refused(node: Node) -> None:
    write(node, "a", epoch=3)
    assert end(node, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(node, epoch=3, coordinator=5) is ErrorCode.NONE
    assert end(node, epoch=3, coordinator=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(node, epoch=3, coordinator=5) is ErrorCode.NONE, "a marker may come twice"


def test_a_marker_of_transaction_version_2_has_a_higher_epoch_than_the_records(node: Node) -> None:
    write(node, "a", epoch=3)
    assert end(node, epoch=3, txn_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(node, epoch=4, txn_version=2) is ErrorCode.NONE
    assert end(node, epoch=4, txn_version=2) is ErrorCode.NONE, "sent again: nothing is open"
    write(node, "b", epoch=4)
    assert end(node, epoch=4, txn_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH, (
        "a marker of the transaction before does not end this one"
    )


def test_a_reader_of_committed_records_wakes_when_the_transaction_ends(node: Node) -> None:
    write(node, "a")
    node.append(batch("outside"))
    assert node.fetch(isolation=0).fetched.high_watermark == 2
    parked = node.fetch(isolation=1, max_wait_ms=1000)
    assert not parked.here
    end(node)
    assert parked.fetched.last_stable_offset == 3
    assert [header.base_offset for _, header in batches(bytes(parked.fetched.records))] == [0, 1, 2]


def test_a_reader_hears_only_of_aborted_transactions_near_what_it_gets(node: Node) -> None:
    for number in range(40):
        write(node, "x" * 500, producer=number)
        end(node, producer=number, commit=False)
    partition = node.broker.partition("t", 0)
    assert partition is not None and len(partition.log.active.index) > 2
    few = node.fetch(isolation=1, partition_max_bytes=1500).fetched
    last = [header.last_offset for _, header in batches(bytes(few.records))][-1]
    found = [gone.first_offset for gone in few.aborted_transactions]
    assert list(range(0, last, 2)) == [offset for offset in found if offset <= last]
    assert len(found) < 20
    everything = node.fetch(isolation=1).fetched
    assert len(everything.aborted_transactions) == 40
    assert node.fetch(isolation=0).fetched.aborted_transactions is None


def test_the_latest_offset_of_a_reader_of_committed_records_is_the_last_stable_one(node: Node) -> None:
    node.append(batch("before"))
    write(node, "a")

    def latest(isolation: int) -> int:
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name="t", partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        return int(node.ask(request, 7).message.topics[0].partitions[0].offset)

    assert (latest(0), latest(1)) == (2, 1)
    end(node)
    assert (latest(0), latest(1)) == (3, 3)


def test_records_that_are_deleted_take_the_last_stable_offset_with_them(node: Node) -> None:
    write(node, "a")
    node.append(batch("b"))
    partition = node.broker.partition("t", 0)
    assert partition is not None
    partition.delete_records(2)
    node.turn()
    assert partition.last_stable_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_open_and_aborted_transactions_survive_a_restart(clean: bool) -> None:
    disk = MemoryDisk(1)
    node = Node(disk)
    topic = node.create("t").topic_id
    write(node, "a", producer=8)
    end(node, producer=8, commit=False)
    write(node, "b")
    if clean:
        node.logs.close(node.now)
    else:
        disk.crash()
    again = Node(disk, image=node.image)
    assert again.topic_id("t") == topic
    data = again.fetch(isolation=1).fetched
    if not clean:  # the high watermark comes again from what is in the log
        again.turn()
        data = again.fetch(isolation=1).fetched
    assert (data.high_watermark, data.last_stable_offset) == (3, 2)
    assert [gone.producer_id for gone in data.aborted_transactions] == [8]


def test_the_rows_of_a_long_transaction_index_are_found_from_any_offset() -> None:
    table = TransactionIndex("/x")
    for number in range(100):
        table.append(AbortedTransaction(number, 10 * number, 10 * number + 5, 10 * number + 6))
    for offset in (0, 5, 6, 503, 995, 996):
        found: list[AbortedTransaction] = []
        table.collect(offset, 520, found)
        rows = [row for row in table.rows if row.last_offset >= offset and row.first_offset < 520]
        assert found == rows


def test_the_producers_of_a_partition_are_described(node: Node) -> None:
    node.append(batch("a", producer_id=3, producer_epoch=2, base_sequence=0))
    write(node, "b", "c", producer=7, epoch=1)
    node.create("elsewhere", leader=2, replicas=(2,))
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name="t", partition_indexes=[0, 9]),
            TopicRequest(name="elsewhere", partition_indexes=[0]),
        ]
    )
    answer = node.ask(request, 0).message
    (here, unknown), (other,) = answer.topics[0].partitions, answer.topics[1].partitions
    assert [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset)
        for one in here.active_producers
    ] == [(3, 2, 0, -1), (7, 1, 1, 1)]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert other.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
