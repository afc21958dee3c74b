"""Fetch: how far one may read, how much one gets, and when one waits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import Node, batch

from barnabas.broker.requests.fetch import Fetches
from barnabas.errors import ErrorCode
from barnabas.log.segments.scan import FileSlice
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.plane.fetch_asked import Asked, Terms
from barnabas.wire.plane.fetch_told import FetchAnswer
from barnabas.wire.records import batches
from barnabas.wire.schemas.fetch import FetchRequest


def offsets(records: Any) -> list[int]:
    return [header.base_offset for _, header in batches(bytes(records))]


def fill(node: Node, count: int, topic: str = "t", size: int = 100, index: int = 0) -> int:
    """Append so many batches of one record; returns the size of one."""
    buf = batch("x" * size)
    for _ in range(count):
        node.append(buf[:], topic, index=index)
    return len(buf)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_was_produced(node: Node, version: int) -> None:
    fill(node, 3)
    data = node.fetch(version=version).fetched
    assert (data.error_code, data.high_watermark) == (0, 3)
    assert offsets(data.records) == [0, 1, 2]


def test_records_leave_as_slices_of_files(node: Node) -> None:
    fill(node, 1)
    terms = Terms(12, -1, -1, 0, 1, 1 << 20, 0, 0, "")
    asked = Asked(1, -1, [(b"t", 0, -1, 0, -1, -1, 1000)], [])
    answer = Fetches(node.broker, node.context(), terms).serve(asked, node.now)
    assert isinstance(answer, FetchAnswer)
    assert isinstance(answer.topics[b"t"][0][7], FileSlice)


def test_reading_starts_with_the_batch_that_holds_the_offset(node: Node) -> None:
    node.append(batch("a", "b", "c"))
    node.append(batch("d"))
    assert offsets(node.fetch({("t", 0): 2}).fetched.records) == [0, 3]
    assert offsets(node.fetch({("t", 0): 3}).fetched.records) == [3]


@pytest.mark.parametrize(("offset", "error"), [(-1, 1), (0, 0), (3, 0), (4, 1), (1 << 60, 1)])
def test_offsets_outside_the_log_are_out_of_range(node: Node, offset: int, error: int) -> None:
    fill(node, 3)
    data = node.fetch({("t", 0): offset}).fetched
    assert data.error_code == error
    if error:
        assert (data.high_watermark, data.log_start_offset) == (-1, -1)


def test_an_offset_above_the_high_watermark_but_in_the_log_waits(node: Node) -> None:
    node.produce(batch("a", "b"))
    node.write()
    parked = node.fetch({("t", 0): 1}, max_wait_ms=100)
    assert not parked.here
    node.after(0.11)
    assert parked.fetched.error_code == ErrorCode.NONE


# ---- sizes -----------------------------------------------------------------------------------------------


def test_only_whole_batches_within_the_partition_limit(node: Node) -> None:
    size = fill(node, 5)
    assert offsets(node.fetch(partition_max_bytes=3 * size).fetched.records) == [0, 1, 2]
    assert offsets(node.fetch(partition_max_bytes=3 * size - 1).fetched.records) == [0, 1]


def test_the_first_batch_is_given_however_large(node: Node) -> None:
    fill(node, 2, size=5000)
    assert offsets(node.fetch(partition_max_bytes=10, max_bytes=10).fetched.records) == [0]
    assert offsets(node.fetch(partition_max_bytes=0, max_bytes=0).fetched.records) == [0]


def test_only_the_first_partition_with_data_may_pass_the_limits(node: Node) -> None:
    node.create("u")
    node.create("v")
    size = fill(node, 1, "u", size=5000)
    fill(node, 1, "v", size=5000)
    data = node.fetch(
        {("t", 0): 0, ("u", 0): 0, ("v", 0): 0}, max_bytes=size + 10, partition_max_bytes=10
    ).partitions
    assert [len(data[topic, 0].records) for topic in "tuv"] == [0, size, 0]
    assert data["v", 0].high_watermark == 1


def test_the_answer_stays_within_max_bytes(node: Node) -> None:
    node.create("u")
    size = fill(node, 4)
    fill(node, 4, "u")
    data = node.fetch({("t", 0): 0, ("u", 0): 0}, max_bytes=5 * size).partitions
    assert [offsets(data[topic, 0].records) for topic in "tu"] == [[0, 1, 2, 3], [0]]


# ---- waiting ---------------------------------------------------------------------------------------------


def test_without_a_wait_the_answer_comes_at_once(node: Node) -> None:
    assert len(node.fetch(max_wait_ms=0).fetched.records) == 0


def test_a_fetch_of_nothing_does_not_wait(node: Node) -> None:
    assert node.fetch({}, max_wait_ms=1000).message.responses == []


def test_a_parked_fetch_wakes_when_enough_is_there(node: Node) -> None:
    size = fill(node, 0) or len(batch("x" * 100))
    parked = node.fetch(max_wait_ms=500, min_bytes=2 * size)
    fill(node, 1)
    assert not parked.here
    fill(node, 1)
    assert offsets(parked.fetched.records) == [0, 1]


def test_what_a_waiting_fetch_reads_again_is_counted_once(node: Node) -> None:
    size = len(batch("one"))
    parked = node.fetch(max_wait_ms=500, min_bytes=3 * size)
    for value in ("one", "two", "six"):
        assert not parked.here
        node.append(batch(value))
    assert offsets(parked.fetched.records) == [0, 1, 2]
    partition = node.broker.partition("t", 0)
    assert partition is not None
    assert partition.leading.traffic.bytes_out == 3 * size


def test_a_parked_fetch_ends_with_what_there_is(node: Node) -> None:
    parked = node.fetch(max_wait_ms=500, min_bytes=1_000_000)
    fill(node, 1)
    node.after(0.49)
    assert not parked.here
    node.after(0.02)
    assert offsets(parked.fetched.records) == [0]


def test_enough_bytes_do_not_wait(node: Node) -> None:
    size = fill(node, 2)
    assert node.fetch(max_wait_ms=500, min_bytes=2 * size).here
    assert not node.fetch(max_wait_ms=500, min_bytes=2 * size + 1).here


def test_an_error_in_one_partition_does_not_wait(node: Node) -> None:
    node.create("u")
    answer = node.fetch({("t", 0): 0, ("u", 0): 99}, max_wait_ms=500)
    assert answer.partitions["u", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.partitions["t", 0].error_code == ErrorCode.NONE


def test_a_waiter_is_registered_once_per_partition_and_gone_when_done(node: Node) -> None:
    node.create("u")
    parked = node.fetch({("t", 0): 0, ("u", 0): 0}, max_wait_ms=60_000, min_bytes=100_000)
    lists = [node.broker.partition(topic, 0).watchers for topic in "tu"]  # type: ignore[union-attr]
    for _ in range(20):
        fill(node, 1, size=10)
        fill(node, 1, "u", size=10)
        assert [len(waiters) for waiters in lists] == [1, 1]
    assert len(node.broker.purgatory) == 1
    fill(node, 1, size=200_000)
    assert parked.here
    assert [len(waiters) for waiters in lists] == [0, 0]
    assert len(node.broker.purgatory) == 0


def test_a_full_waiting_room_answers_at_once(disk: MemoryDisk) -> None:
    node = Node(disk, barnabas_max_waiters="1")
    node.create("t")
    first, second = node.fetch(max_wait_ms=500), node.fetch(max_wait_ms=500)
    assert not first.here
    assert second.fetched.error_code == ErrorCode.NONE


# ---- epochs ----------------------------------------------------------------------------------------------


def test_the_leader_epoch_of_the_client_must_be_ours(node: Node) -> None:
    node.change("t", leader=1, leader_epoch=5)
    assert node.fetch(epoch=4).fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert node.fetch(epoch=6).fetched.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert node.fetch(epoch=5).fetched.error_code == ErrorCode.NONE
    assert node.fetch(epoch=-1).fetched.error_code == ErrorCode.NONE


def test_a_fenced_client_is_told_the_leader(node: Node) -> None:
    node.change("t", leader=1, leader_epoch=5)
    answer = node.fetch(epoch=4, version=16)
    leader = answer.fetched.current_leader
    assert (leader.leader_id, leader.leader_epoch) == (1, 5)
    assert [(e.node_id, e.host) for e in answer.message.node_endpoints] == [(1, "host1")]


def test_a_log_that_left_ours_is_told_where(node: Node) -> None:
    fill(node, 3)
    node.change("t", leader=1, leader_epoch=4)
    fill(node, 2)
    diverged = node.fetch({("t", 0): 4}, last_fetched_epoch=2, max_wait_ms=500)
    data = diverged.fetched
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 3)
    assert len(data.records) == 0
    beyond = node.fetch({("t", 0): 4}, last_fetched_epoch=0).fetched
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (0, 3)
    same = node.fetch({("t", 0): 3}, last_fetched_epoch=0).fetched
    assert same.diverging_epoch.epoch == -1
    assert offsets(same.records) == [3, 4]
    unknown = node.fetch({("t", 0): 4}, last_fetched_epoch=9).fetched
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# ---- topics and ids --------------------------------------------------------------------------------------


def test_an_unknown_topic_is_unknown_by_name_and_by_id(node: Node) -> None:
    assert node.fetch({("nowhere", 0): 0}).fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.fetch({("t", 9): 0}).fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    gone = node.topic_id("t")
    node.delete("t")
    node.create("t")
    from barnabas.wire.schemas.fetch import FetchPartition, FetchTopic

    request = FetchRequest(topics=[FetchTopic(topic_id=gone, partitions=[FetchPartition()])])
    assert node.ask(request, 13).fetched.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_that_another_node_leads_is_refused(node: Node) -> None:
    node.create("far", replicas=(2,), leader=2)
    answer = node.fetch({("far", 0): 0}, version=16)
    assert answer.fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.fetched.current_leader.leader_id == 2
    assert answer.message.node_endpoints[0].host == "host2"


# ---- isolation -------------------------------------------------------------------------------------------


def transactional(node: Node, producer: int, *values: str, sequence: int = 0) -> None:
    """Append as a transaction coordinator's client would; the node itself refuses transactions so far."""
    partition = node.broker.partition("t", 0)
    assert partition is not None
    from barnabas.wire.records import read_batch_header

    buf = batch(*values, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)
    partition.append(buf, read_batch_header(buf), node.now)
    node.turn()


def end(node: Node, producer: int, commit: bool) -> None:
    from barnabas.wire.control import ControlType, EndTxnMarker, write_control
    from barnabas.wire.records import Record, read_batch_header, write_batch

    partition = node.broker.partition("t", 0)
    assert partition is not None
    key, value = write_control(
        ControlType.COMMIT if commit else ControlType.ABORT, EndTxnMarker(coordinator_epoch=0)
    )
    buf = write_batch(
        [Record(0, node.wall, key, value)],
        producer_id=producer,
        producer_epoch=0,
        control=True,
        transactional=True,
    )
    partition.append(buf, read_batch_header(buf), node.now)
    node.turn()


def test_read_committed_stops_before_an_open_transaction(node: Node) -> None:
    fill(node, 2)
    transactional(node, 5, "open")
    fill(node, 1)
    committed = node.fetch(isolation=1).fetched
    assert offsets(committed.records) == [0, 1]
    assert (committed.high_watermark, committed.last_stable_offset) == (4, 2)
    assert committed.aborted_transactions == []
    everything = node.fetch(isolation=0).fetched
    assert offsets(everything.records) == [0, 1, 2, 3]
    assert everything.aborted_transactions is None


def test_read_committed_waits_for_the_end_of_the_transaction(node: Node) -> None:
    transactional(node, 5, "open")
    parked = node.fetch(isolation=1, max_wait_ms=60_000)
    fill(node, 1)
    assert not parked.here
    end(node, 5, commit=True)
    assert offsets(parked.fetched.records) == [0, 1, 2]
    assert parked.fetched.aborted_transactions == []


def test_aborted_transactions_are_named(node: Node) -> None:
    transactional(node, 5, "a")
    transactional(node, 6, "b")
    end(node, 5, commit=False)
    end(node, 6, commit=True)
    data = node.fetch(isolation=1).fetched
    assert [(gone.producer_id, gone.first_offset) for gone in data.aborted_transactions or []] == [(5, 0)]
    later = node.fetch({("t", 0): 3}, isolation=1).fetched
    assert later.aborted_transactions == []
