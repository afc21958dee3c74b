"""Too many open files: that is no fault of a disk.  What needs one more is refused, and tried again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import PAGE_CACHE, Node, batch

from barnabas.broker.replicas.broker import SyncRequest
from barnabas.errors import ErrorCode, StorageError
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk, MemoryFile

WHERE = TopicPartition("t", 0)


class Crowded(MemoryDisk):
    """A disk of a process that may have no more descriptors, when the test says so."""

    crowded = False

    def _look(self, path: str) -> None:
        if self.crowded:
            raise StorageError(f"cannot open {path}: Too many open files", full=True, descriptors=True)

    def open(self, path: str, **more: Any) -> MemoryFile:
        self._look(path)
        return super().open(path, **more)

    def sync_directory(self, path: str) -> None:
        self._look(path)
        super().sync_directory(path)


@pytest.fixture
def disk() -> Crowded:
    return Crowded()


@pytest.fixture
def node(disk: Crowded) -> Node:
    node = Node(disk)
    node.create("t")
    return node


def is_well(node: Node) -> None:
    assert node.outside.failed == [] and node.outside.rooms == []
    assert all("Too many open files" in message for message in node.outside.short)


def test_a_segment_that_cannot_be_begun_refuses_its_batch_and_no_directory_goes(
    node: Node, disk: Crowded
) -> None:
    node.configure("t", segment_bytes="1048576", max_message_bytes="1000000")
    large = "x" * 600_000
    node.append(batch(large))
    disk.crowded = True
    assert node.append(batch(large)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.outside.short
    is_well(node)
    disk.crowded = False
    answer = node.append(batch(large))
    assert (answer.error_code, answer.base_offset) == (0, 1)
    log = node.logs.get(WHERE)
    assert log is not None and len(log.segments) == 2 and log.durable_end_offset == 2


def test_a_segment_that_cannot_be_opened_is_an_error_to_try_again_after(node: Node, disk: Crowded) -> None:
    node.append(batch("old"))
    log = node.logs.get(WHERE)
    assert log is not None
    log.roll(node.now)
    node.append(batch("new"))
    log.segments[0].close()
    disk.crowded = True
    assert node.fetch({WHERE: 0}).fetched.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.fetch({WHERE: 1}).fetched.error_code == ErrorCode.NONE
    disk.crowded = False
    assert node.fetch({WHERE: 0}).fetched.error_code == ErrorCode.NONE
    is_well(node)


def test_a_sync_that_cannot_open_what_it_is_to_sync_is_done_again(node: Node, disk: Crowded) -> None:
    answer = node.produce(batch("a"))
    node.write()
    disk.crowded = True
    node.sync()
    assert not answer.here
    is_well(node)
    disk.crowded = False
    node.mono += 1.5
    node.broker.maintain(node.now)
    node.turn()
    assert answer.error == ErrorCode.NONE
    disk.crash("all")
    assert disk.size("/data/t-0/00000000000000000000.log") > 0


def test_a_partition_that_cannot_be_made_is_made_later(node: Node, disk: Crowded) -> None:
    disk.crowded = True
    node.create("later")
    assert node.broker.partition("later", 0) is None
    is_well(node)
    disk.crowded = False
    node.mono += 1.5
    node.broker.maintain(node.now)
    node.turn()
    assert node.broker.partition("later", 0) is not None


def test_a_log_whose_file_is_to_be_closed_is_synced_by_a_thread(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for syncs here, so nothing else would make it durable."""
    OPEN_FILES.forget_all()
    monkeypatch.setattr(OPEN_FILES, "most", 4)
    partitions = [node.create(f"t{n}", flush_messages=PAGE_CACHE) for n in range(5)]
    for partition in partitions:
        node.append(batch("a"), partition.topic)
    OPEN_FILES.forget_all()
    for partition in partitions:
        partition.log.active.rest()
    for partition in partitions[:4]:
        node.produce(batch("b"), partition.topic)
        node.write()
    assert not node.held
    node.produce(batch("b"), "t4")
    node.write()
    assert [work.partition for work in node.held if isinstance(work, SyncRequest)] == partitions[:4]
    node.sync()
    assert [partition.log.durable_end_offset for partition in partitions] == [2, 2, 2, 2, 1]


def test_a_partition_without_records_waits_for_no_disk(node: Node) -> None:
    """Its leader's epoch is written down with its first record, also where acks do not wait for that."""
    node.held.clear()
    partition = node.create("t0", flush_messages=PAGE_CACHE)
    assert partition.log.epochs.dirty
    node.write()
    assert not node.held
    node.produce(batch("a"), "t0")
    node.write()
    assert [work.partition for work in node.held if isinstance(work, SyncRequest)] == [partition]
    node.sync()
    assert not partition.log.epochs.dirty and partition.log.durable_end_offset == 1
