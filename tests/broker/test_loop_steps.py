"""The turn: written, synced where that is asked, advanced, answered, woken; in this order and no other."""

from __future__ import annotations

import gc

import pytest
from tests.broker.harness import PAGE_CACHE, Alone, Answer, Node, batch

from barnabas.broker.purgatory import Waiting
from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.broker.requests.append_internal import append_internal
from barnabas.broker.requests.fetch import FetchWaiting
from barnabas.broker.requests.produce import Produces
from barnabas.errors import ErrorCode, StorageError
from barnabas.model import Now, TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.frame import RequestHeader
from barnabas.wire.plane.objects import produced_by
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_nothing_is_acknowledged_or_visible_before_it_is_durable(node: Node) -> None:
    produced = node.produce(batch("a"))
    parked = node.fetch(max_wait_ms=500)
    assert not produced.here
    node.write()
    partition = node.broker.partition("t", 0)
    assert partition is not None
    assert partition.log.written_end_offset == 1
    assert partition.high_watermark == 0
    assert not produced.here
    assert not parked.here
    looked = node.fetch()
    assert (looked.fetched.high_watermark, len(looked.fetched.records)) == (0, 0)
    node.sync()
    assert produced.error == ErrorCode.NONE
    assert parked.fetched.high_watermark == 1
    assert len(parked.fetched.records) > 0


def test_acks_1_waits_for_the_sync_of_this_node_too(node: Node) -> None:
    produced = node.produce(batch("a"), acks=1)
    node.write()
    assert not produced.here
    node.sync()
    assert produced.error == ErrorCode.NONE


def test_from_the_page_cache_acks_and_fetches_follow_the_write_of_the_same_turn(disk: MemoryDisk) -> None:
    node = Node(disk, log_flush_interval_messages=PAGE_CACHE)
    node.create("t")
    node.append(batch("first"))
    produced = node.produce(batch("a"))
    parked = node.fetch({TopicPartition("t", 0): 1}, max_wait_ms=500)
    assert not produced.here
    assert not parked.here
    node.write()
    assert produced.error == ErrorCode.NONE
    assert len(parked.fetched.records) > 0
    assert node.held == []


def test_one_sync_at_a_time_and_the_next_takes_all_that_came_meanwhile(node: Node) -> None:
    first = node.produce(batch("a"))
    node.write()
    assert len(node.held) == 1
    later = [node.produce(batch(str(number))) for number in range(3)]
    node.write()
    node.write()
    assert len(node.held) == 1
    sync = node.held.pop()
    sync.run()
    node.broker.synced(sync, None, node.now)
    node.write()
    assert first.error == ErrorCode.NONE
    assert not any(answer.here for answer in later)
    assert len(node.held) == 1
    sync = node.held.pop()
    sync.run()
    node.broker.synced(sync, None, node.now)
    node.write()
    assert [answer.produced.base_offset for answer in later] == [1, 2, 3]
    assert node.held == []


def test_an_idle_turn_does_nothing(node: Node) -> None:
    assert node.broker.touched == []
    assert node.broker.end_loop_step(node.now) == []


def test_a_deadline_that_passes_is_a_timeout_and_the_record_is_there_all_the_same(node: Node) -> None:
    produced = node.produce(batch("a"), timeout_ms=100)
    node.write()
    node.after(0.2)
    assert produced.error == ErrorCode.REQUEST_TIMED_OUT
    assert len(node.broker.purgatory) == 0
    assert len(node.broker.partition("t", 0).acknowledgements) == 0  # type: ignore[union-attr]
    node.sync()
    assert produced.count == 1
    assert len(node.fetch().fetched.records) > 0


def test_a_deadline_answers_for_what_is_safe_and_what_is_not(node: Node) -> None:
    node.create("two", replicas=(1, 2))
    alone = node.produce(batch("a"))
    both = node.produce(batch("b"), "two", timeout_ms=300)
    node.turn()
    assert alone.error == ErrorCode.NONE
    assert not both.here
    assert (node.broker.next_deadline() or 0) == pytest.approx(1000.3, abs=0.01)
    node.after(0.31)
    assert both.error == ErrorCode.REQUEST_TIMED_OUT


def test_a_failed_sync_answers_a_storage_error_and_the_directory_stays_offline(node: Node) -> None:
    produced = node.produce(batch("a"))
    parked = node.fetch(max_wait_ms=500)
    node.write()
    node.sync(StorageError("the disk says no"))
    assert produced.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert parked.fetched.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [path for path, _ in node.outside.failed] == ["/data"]
    assert node.produce(batch("b")).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.fetch().fetched.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.turn()
    assert node.held == []
    assert node.broker.statistics().offline == 1


def test_a_failed_directory_takes_all_its_partitions_and_no_other(disk: MemoryDisk) -> None:
    node = Node(disk, ("/one", "/two"))
    node.create("p", 4)
    where = {
        index: node.broker.partition("p", index).directory.path  # type: ignore[union-attr]
        for index in range(4)
    }
    assert sorted(where.values()) == ["/one", "/one", "/two", "/two"]
    waiting = {index: node.produce(batch("a"), "p", index=index) for index in range(4)}
    node.write()
    generation = node.broker.generation
    for sync in node.held:
        failed = sync.partition.directory.path == "/one"  # type: ignore[union-attr]
        if not failed:
            sync.run()
        node.broker.synced(sync, StorageError("gone") if failed else None, node.now)
    node.held.clear()
    node.write()
    for index, answer in waiting.items():
        expected = ErrorCode.KAFKA_STORAGE_ERROR if where[index] == "/one" else ErrorCode.NONE
        assert answer.error == expected
    assert node.broker.generation > generation
    assert len(node.outside.failed) == 1


def test_a_failed_write_answers_a_storage_error(node: Node, disk: MemoryDisk) -> None:
    produced = node.produce(batch("a" * 100))
    disk.fail("append", "/t-0/")
    node.write()
    assert produced.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(node.outside.failed) == 1


def test_fetch_below_version_6_hears_of_a_storage_error_as_of_a_lost_leader(node: Node) -> None:
    node.produce(batch("a"))
    node.write()
    node.sync(StorageError("gone"))
    assert node.fetch(version=5).fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.fetch(version=6).fetched.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_lost_leadership_sends_producers_and_fetches_away(node: Node) -> None:
    produced = node.produce(batch("a"))
    parked = node.fetch(max_wait_ms=500)
    node.write()
    node.change("t", replicas=(1, 2), isr=(1, 2), leader=2)
    node.write()
    assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert parked.fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(node.broker.purgatory) == 0


def test_a_deleted_topic_sends_them_away_too(node: Node) -> None:
    produced = node.produce(batch("a"))
    parked = node.fetch(max_wait_ms=500)
    node.write()
    node.delete("t")
    node.write()
    assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert parked.fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.sync()
    assert node.produce(batch("b")).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_closed_connection_leaves_nothing_behind(node: Node) -> None:
    early = node.produce(batch("b"))
    assert early.waiting is not None
    early.waiting.cancel()
    produced = node.produce(batch("a"))
    parked = node.fetch({("t", 0): 1}, max_wait_ms=500)
    node.write()
    for answer in (produced, parked):
        assert answer.waiting is not None
        answer.waiting.cancel()
    assert len(node.broker.purgatory) == 0
    assert len(node.broker.partition("t", 0).watchers) == 0  # type: ignore[union-attr]
    assert len(node.broker.partition("t", 0).acknowledgements) == 0  # type: ignore[union-attr]
    node.sync()
    assert not produced.here
    assert not parked.here


def test_stopping_answers_everybody(node: Node) -> None:
    node.create("two", replicas=(1, 2))
    produced = node.produce(batch("a"), "two")
    parked = node.fetch({("t", 0): 0}, max_wait_ms=60_000)
    node.turn()
    for sync in node.broker.stop(node.now):
        sync.run()
    assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert parked.fetched.error_code == ErrorCode.NONE
    assert len(node.broker.purgatory) == 0


def test_what_was_acknowledged_survives_a_crash(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("t")
    node.append(batch("kept"))
    node.produce(batch("lost"))
    node.write()
    disk.crash()
    again = Node(disk, image=node.image)
    again.turn()
    answer = again.fetch()
    assert answer.fetched.error_code == ErrorCode.NONE
    assert b"kept" in bytes(answer.fetched.records)


def test_a_waiting_producer_holds_nothing_of_its_request(node: Node) -> None:
    buffer = batch("a")
    for acks in (-1, 1):
        request = ProduceRequest(
            acks=acks,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=0, records=memoryview(buffer)),
                        PartitionProduceData(index=9, records=memoryview(buffer)),
                    ],
                )
            ],
        )
        terms, found = produced_by(RequestHeader(0, 9, 1, "test"), request)
        waiting = Alone(node.broker.purgatory, terms, node.now, Answer(9))
        Produces(node.broker, node.context(), terms).serve(found, waiting, node.now)
        del request, found
        node.write()
        buffer += b"more"  # a BufferError while anybody looks at it
        del buffer[-4:]
        buffer[0:8] = bytes(8)
        assert waiting.open == 1


def test_a_follower_that_only_polls_wakes_nobody(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(disk)
    node.create("t", replicas=(1, 2))
    node.fetch(max_wait_ms=60_000)
    woken: list[Now] = []
    monkeypatch.setattr(FetchWaiting, "wake", lambda self, now: woken.append(now))
    for _ in range(5):
        node.fetch(replica=2)
        node.turn()
    assert len(woken) == 0
    node.append(batch("a"), acks=1)
    assert not woken, "the follower does not hold it yet"
    node.fetch({("t", 0): 1}, replica=2)
    node.turn()
    assert woken


def test_a_new_epoch_of_the_same_leader_wakes_those_who_believe_in_the_old_one(node: Node) -> None:
    parked = node.fetch(max_wait_ms=60_000, epoch=0)
    node.change("t", leader=1, leader_epoch=4)
    node.write()
    assert parked.fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_finished_requests_leave_no_work_for_the_garbage_collector(node: Node) -> None:
    def live() -> None:
        for _ in range(5):
            node.produce(batch("a"))
            node.produce(batch("b"))  # this one's client hangs up
            node.fetch({("t", 0): 0}, max_wait_ms=500, min_bytes=1 << 20)
            append_internal(
                node.broker,
                node.broker.partition("t", 0),  # type: ignore[arg-type]
                batch("c"),
                node.now,
                lambda error: None,
            )
            for waiting in (node.produce(batch("d")).waiting,):
                assert waiting is not None
                waiting.cancel()
            node.turn()
            node.after(1)

    live()
    gc.collect()
    gc.disable()
    try:
        live()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        circles = [thing for thing in gc.garbage if isinstance(thing, Waiting | Acknowledgement)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert circles == []


def test_deleted_files_are_removed_in_a_thread_one_thing_at_a_time(node: Node) -> None:
    """To unlink a segment of a gigabyte takes a third of a second."""
    for name in ("a", "b"):
        node.create(name, file_delete_delay_ms="0")
        node.delete(name)
    for _ in range(3):
        node.mono += 1.0
        node.broker.maintain(node.now)
    names = node.disk.list("/data")
    assert sum(name.endswith("-delete") for name in names) == 2, "not on the loop"
    node.write()
    assert len(node.held) == 1
    assert node.broker.end_loop_step(node.now) == []
    node.sync()
    assert not [name for name in node.disk.list("/data") if name.endswith("-delete")]
    assert node.broker.maintenance.doing is None


def test_a_removal_that_fails_takes_its_directory_offline(node: Node, disk: MemoryDisk) -> None:
    node.create("a", file_delete_delay_ms="0")
    node.delete("a")
    for _ in range(3):
        node.mono += 1.0
        node.broker.maintain(node.now)
    disk.fail("remove", "-delete")
    node.turn()
    assert [path for path, _ in node.outside.failed] == ["/data"]


def test_a_removal_leaves_the_rest_when_the_node_stops(node: Node) -> None:
    node.create("a", file_delete_delay_ms="0")
    node.delete("a")
    for _ in range(3):
        node.mono += 1.0
        node.broker.maintain(node.now)
    node.write()
    node.held += node.broker.stop(node.now)
    node.sync()
    assert [name for name in node.disk.list("/data") if name.endswith("-delete")]
