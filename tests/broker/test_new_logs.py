"""Logs of new partitions that threads make: what is made, and what happens meanwhile."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.test_reconcile import MANY, created, deleted

from barnabas.broker.new_logs import LOGS_PER_JOB, MakeLogs
from barnabas.errors import ErrorCode, StorageError
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk


class Watched(MemoryDisk):
    """A disk that knows which directories were made, and is full or broken when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []
        self.error: StorageError | None = None

    def make_directories(self, path: str) -> None:
        if self.error is not None:
            raise self.error
        self.made.append(path)
        super().make_directories(path)


@pytest.fixture
def disk() -> Watched:
    return Watched()


@pytest.fixture
def node(disk: Watched) -> Node:
    node = Node(disk)
    node.broker.reconciler.new_logs.aside = True
    disk.made.clear()
    return node


def carry_out(node: Node) -> None:
    """The steps that can be taken now; what threads are to do is held back."""
    while node.broker.reconciler.ready:
        node.broker.reconciler.step(node.now)
    node.write()


def there(node: Node, index: int = 0) -> bool:
    return node.broker.partition("t", index) is not None


def test_the_loop_makes_no_directory_and_a_partition_is_there_when_a_thread_has_made_its(
    node: Node, disk: Watched
) -> None:
    node.broker.note(created(node, "t"))
    carry_out(node)
    (job,) = node.held
    assert isinstance(job, MakeLogs) and len(job.logs) == LOGS_PER_JOB < MANY
    assert node.broker.reconciler and not node.broker.reconciler.ready
    assert node.broker.reconciler.awaits("t") and not disk.made and not there(node)
    node.turn()
    assert len(disk.made) == MANY and all(there(node, index) for index in range(MANY))
    assert not node.broker.reconciler and not node.broker.reconciler.awaits("t")
    assert node.append(batch("a"), index=7, acks=1).error_code == ErrorCode.NONE


def test_who_asks_for_a_partition_gets_it_with_the_next_ones(node: Node) -> None:
    node.broker.note(created(node, "t", 3 * LOGS_PER_JOB))
    carry_out(node)
    last = 3 * LOGS_PER_JOB - 1
    assert node.produce(batch("a"), index=last).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for _ in range(2):
        job = node.held.pop(0)
        job.run()
        node.broker.synced(job, None, node.now)
        carry_out(node)
    assert there(node, last) and not there(node, last - 1)


def test_a_topic_that_is_deleted_while_its_logs_are_made_leaves_nothing(node: Node, disk: Watched) -> None:
    node.broker.note(created(node, "t", 3))
    carry_out(node)
    node.broker.note(deleted(node, "t"))
    node.turn()
    assert not list(node.broker.partitions())
    assert all(node.logs.get(TopicPartition("t", index)) is None for index in range(3))
    assert not [name for name in disk.list("/data") if name.startswith("t-") and "-delete" not in name]


def test_the_next_topic_of_its_name_gets_logs_of_its_own(node: Node) -> None:
    node.broker.note(created(node, "t", 3))
    carry_out(node)
    node.broker.note(deleted(node, "t"))
    node.broker.note(created(node, "t", 3))
    carry_out(node)
    node.turn()
    for index in range(3):
        log = node.logs.get(TopicPartition("t", index))
        assert there(node, index) and log is not None and log.topic_id == node.topic_id("t")


def test_a_replica_that_moves_away_while_its_log_is_made_leaves_nothing(node: Node) -> None:
    node.broker.note(created(node, "t", 1))
    carry_out(node)
    node.change("t", replicas=(2, 3), isr=(2,), leader=2)
    node.turn()
    assert not there(node) and node.logs.get(TopicPartition("t", 0)) is None


def test_a_log_for_which_there_is_no_room_is_made_when_there_is(node: Node, disk: Watched) -> None:
    node.broker.note(created(node, "t", 1))
    disk.error = StorageError("no space left on device", full=True)
    node.turn()
    assert not there(node) and node.outside.no_room and not node.outside.failed
    disk.error = None
    node.mono += 1.5
    node.broker.reconciler.note_unhosted()
    node.turn()
    assert there(node)


def test_a_disk_that_fails_while_a_log_is_made_is_offline(node: Node, disk: Watched) -> None:
    node.broker.note(created(node, "t", 1))
    disk.error = StorageError("Input/output error")
    node.turn()
    assert not there(node) and [path for path, _ in node.outside.failed] == ["/data"]
    assert not node.broker.reconciler


def test_logs_that_are_being_made_count_where_the_next_one_goes() -> None:
    node = Node(MemoryDisk(), ("/a", "/b"))
    node.broker.reconciler.new_logs.aside = True
    node.broker.note(created(node, "t", 8))
    carry_out(node)
    node.turn()
    assert [len(directory.logs) for directory in node.logs.directories] == [4, 4]
