"""A replica moves to another directory of its node: while it is led, written to, deleted, across restarts."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.wired import Wired

from barnabas.broker.replicas.dir_moves import CopyJob
from barnabas.broker.replicas.partition import Partition
from barnabas.errors import ErrorCode, StorageError
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, read_records

T = TopicPartition("t", 0)
PATHS = ("/one", "/two")


def two() -> Node:
    """A node with two directories; partition 0 of `t` lies in the first."""
    node = Node(MemoryDisk(), PATHS)
    node.create("t")
    answer(node)
    assert lies(node) == "/one"
    return node


def partition(node: Node) -> Partition:
    found = node.broker.partition("t", 0)
    assert found is not None
    return found


def lies(node: Node) -> str:
    directory = partition(node).directory
    assert directory is not None and partition(node).log.path.startswith(directory.path + "/")
    return directory.path


def answer(node: Node, code: ErrorCode = ErrorCode.NONE) -> int:
    """The controller answers what it was told; how many replicas that were."""
    told, node.outside.assigned = node.outside.assigned, []
    if told:
        state = node.image.topics_by_name["t"].partitions[0]
        node.image.topics_by_name["t"].partitions[0] = state._replace(directories=(told[-1][2],))
        node.broker.assignments.answered({(topic, index): code for topic, index, _ in told}, node.now)
    return len(told)


def settle(node: Node, *, answering: bool = True, rounds: int = 20) -> None:
    """Let everything happen that is to happen by itself."""
    for _ in range(rounds):
        node.turn()
        if answering:
            answer(node)


def values(node: Node) -> list[str]:
    log = partition(node).log
    raw = memoryview(log.read(log.log_start_offset, 1 << 30, log.log_end_offset).read())
    return [
        record.value.decode()
        for position, header in batches(raw)
        for record in read_records(raw, position, header)
        if record.value is not None
    ]


def test_a_replica_moves_with_all_it_holds_and_goes_on() -> None:
    node = two()
    for value in "abc":
        node.append(batch(value, producer_id=5, producer_epoch=0, base_sequence="abc".index(value)))
    assert node.broker.moves.alter(T, "/two", node.now) == ErrorCode.NONE
    settle(node)
    assert lies(node) == "/two" and values(node) == ["a", "b", "c"]
    node.append(batch("d", producer_id=5, producer_epoch=0, base_sequence=3))
    assert values(node) == ["a", "b", "c", "d"]
    assert node.broker.moves.statistics()[:2] == (0, 1)
    assert not node.logs.is_moving(partition(node).log)
    assert node.broker.moves.alter(T, "/one", node.now) == ErrorCode.NONE
    settle(node)
    assert lies(node) == "/one" and values(node) == ["a", "b", "c", "d"]


def test_the_controller_knows_before_the_replica_is_there() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node, answering=False)
    assert lies(node) == "/one"
    assert [directory for *_, directory in node.outside.assigned] == [node.logs.directories[1].directory_id]
    answer(node, ErrorCode.NOT_CONTROLLER)
    settle(node, answering=False)
    assert lies(node) == "/one" and not node.outside.assigned
    node.after(1)
    settle(node)
    assert lies(node) == "/two"


def test_what_is_written_while_it_moves_is_there_afterwards() -> None:
    """Every turn appends, also the one in which the copy takes over; nothing is missing or twice."""
    node = two()
    written = []
    for number in range(60):
        if number == 10:
            node.broker.moves.alter(T, "/two", node.now)
        written.append(str(number))
        produced = node.produce(batch(str(number)))
        node.write()
        if node.held and number % 3 != 2:
            one = node.held.pop(0)
            one.run()
            node.broker.synced(one, None, node.now)
            node.write()
        if number % 5 == 4:
            node.sync()
            assert produced.error == ErrorCode.NONE
        answer(node)
    settle(node)
    assert lies(node) == "/two" and values(node) == written


def test_a_producer_is_not_acknowledged_by_the_copy_before_it_is_as_durable() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node)
    produced = node.produce(batch("b"))
    node.write()
    assert not produced.here
    node.sync()
    assert produced.error == ErrorCode.NONE
    node.disk.crash()
    again = Node(node.disk, PATHS, image=node.image)
    assert lies(again) == "/two" and values(again) == ["a", "b"]


def test_in_page_cache_mode_what_was_durable_stays_durable() -> None:
    node = Node(MemoryDisk(), PATHS, log_flush_interval_messages=str((1 << 63) - 1))
    node.create("t")
    answer(node)
    node.append(batch("a"))
    partition(node).log.sync()
    node.broker.moves.alter(T, "/two", node.now)
    settle(node)
    assert lies(node) == "/two"
    node.disk.crash()
    again = Node(node.disk, PATHS, image=node.image)
    assert values(again) == ["a"]


def test_a_move_goes_on_after_a_crash_and_the_controller_hears_where_the_replica_is() -> None:
    node = two()
    for value in "abcdef":
        node.append(batch(value))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node, answering=False)
    answer(node)  # the controller has it; the power goes before the turn in which the copy takes over
    one = node.logs.directories[0].directory_id
    node.disk.crash()
    again = Node(node.disk, PATHS, image=node.image)
    assert lies(again) == "/one" and values(again) == list("abcdef")
    assert again.outside.assigned[0][2] == one
    settle(again)
    assert lies(again) == "/two" and values(again) == list("abcdef")


def test_a_copy_alone_takes_over_when_the_controller_says_it_lies_there() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node, answering=False)
    answer(node)
    node.logs.directories[0].give_away(T, node.now)
    node.disk.crash()
    again = Node(node.disk, PATHS, image=node.image)
    assert lies(again) == "/two" and values(again) == ["a"]
    again.append(batch("b"))
    assert values(again) == ["a", "b"]


def test_a_copy_whose_log_lies_on_a_lost_disk_waits_for_it() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node, answering=False)
    node.logs.close(node.now)
    node.disk.fail("read", "/one/meta.properties")
    again = Node.__new__(Node)
    with pytest.raises(StorageError):
        again.__init__(node.disk, PATHS, image=node.image)  # type: ignore[misc]  # it formats what it cannot read
    node.disk.locks.clear()
    node.disk.heal()
    node.disk.fail("read", "/one/t-0")
    again = Node(node.disk, PATHS, image=node.image)
    assert again.broker.partition("t", 0) is None and again.logs.future(T) is not None
    node.disk.heal()
    again.logs.abandon()
    back = Node(node.disk, PATHS, image=node.image)
    settle(back)
    assert lies(back) == "/two" and values(back) == ["a"]


def test_another_destination_or_none_gives_the_copy_up() -> None:
    node = Node(MemoryDisk(), (*PATHS, "/three"))
    node.create("t")
    answer(node)
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node, answering=False)
    assert node.broker.moves.alter(T, "/one", node.now) == ErrorCode.NONE
    assert node.logs.future(T) is None
    settle(node)
    assert lies(node) == "/one"
    node.broker.moves.alter(T, "/two", node.now)
    node.broker.moves.alter(T, "/three", node.now)
    settle(node)
    assert lies(node) == "/three" and values(node) == ["a"]


def test_what_cannot_be_moved_is_answered_as_kafka_does() -> None:
    node = two()
    moves = node.broker.moves
    assert moves.alter(T, "/nowhere", node.now) == ErrorCode.LOG_DIR_NOT_FOUND
    assert moves.alter(TopicPartition("none", 0), "/two", node.now) == ErrorCode.REPLICA_NOT_AVAILABLE
    assert moves.alter(T, "/one", node.now) == ErrorCode.NONE and not moves
    node.logs.fail(node.logs.directories[1], StorageError("gone"))
    assert moves.alter(T, "/two", node.now) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_that_comes_later_lies_where_it_was_asked_to() -> None:
    """kafka-reassign-partitions asks the brokers first and the controller then."""
    node = two()
    assert (
        node.broker.moves.alter(TopicPartition("new", 3), "/one", node.now) == ErrorCode.REPLICA_NOT_AVAILABLE
    )
    node.create("new", partitions=5)
    placed = node.broker.partition("new", 3)
    assert placed is not None and placed.directory is not None and placed.directory.path == "/one"


def test_a_deleted_topic_takes_its_copy_along() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    node.write()
    node.delete("t")
    settle(node)
    assert not node.broker.moves and node.logs.future(T) is None
    for _ in range(70):
        node.mono += 1
        node.broker.maintain(node.now)
        node.turn()
    assert [name for path in PATHS for name in node.disk.list(path) if name.startswith("t-0")] == []


def test_the_destination_that_fails_leaves_the_replica_where_it_is() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    node.disk.fail("append", "/two/t-0.")
    settle(node)
    assert [path for path, _ in node.outside.failed] == ["/two"]
    assert lies(node) == "/one" and node.append(batch("b")).error_code == 0
    assert not node.broker.moves


@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("failing", [0, 1])
def test_the_controller_hears_where_a_replica_stays_when_a_disk_fails(failing: int, accepted: bool) -> None:
    """Else it would take the replica for lost with its destination, or for alive without its own disk."""
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    while not node.outside.assigned:
        settle(node, answering=False, rounds=1)
    if accepted:
        answer(node)
    node.logs.fail(node.logs.directories[failing], StorageError("gone"))
    node.broker.notice_failures(node.now)
    settle(node)
    assert lies(node) == "/one" and not node.broker.moves
    (where,) = node.image.topics_by_name["t"].partitions[0].directories
    assert where == node.logs.directories[0].directory_id


def test_a_full_destination_waits_for_room() -> None:
    node = two()
    node.append(batch("a" * 500))
    node.broker.moves.alter(T, "/two", node.now)
    node.disk.full_after(100)
    settle(node)
    assert lies(node) == "/one" and node.outside.failed == []
    node.disk.heal()
    node.after(2)
    settle(node)
    assert lies(node) == "/two"


def test_copying_keeps_to_its_rate() -> None:
    node = two()
    for _ in range(4):
        node.append(batch("x" * 900_000))
    rate = {"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"}
    node.broker.reconfigure(node.config.with_changes(rate))
    node.broker.moves.alter(T, "/two", node.now)
    settle(node)
    assert node.broker.moves.bytes == pytest.approx(900_000, rel=0.05)
    due = node.broker.next_deadline()
    assert due is not None and due - node.mono == pytest.approx(0.9, rel=0.05)
    for _ in range(8):
        node.after(0.5)
        settle(node)
    assert lies(node) == "/two"


def test_one_thing_at_a_time_is_copied() -> None:
    node = two()
    node.create("u", partitions=4)
    for index in range(4):
        node.append(batch("a"), "u", index=index)
        node.broker.moves.alter(TopicPartition("u", index), "/two", node.now)
        node.broker.moves.alter(TopicPartition("u", index), "/one", node.now)
        node.broker.moves.alter(TopicPartition("u", index), "/two", node.now)
    node.broker.moves.alter(T, "/two", node.now)
    for _ in range(3):
        node.write()
        assert sum(isinstance(work, CopyJob) for work in node.held) <= 1
    settle(node, rounds=60)


def test_a_replica_moves_while_a_cluster_works_and_its_leader_dies() -> None:
    """The real controller is told; the leader is another node, or this one; nothing acknowledged is lost."""
    wired = Wired(1, 2, 3, directories=2)
    wired.create([1, 2, 3])
    wired.settle()
    expected: list[str] = []
    for mover, dies in ((2, 1), (1, 3), (3, 2)):
        node = wired.nodes[mover]
        found = wired.partition(mover)
        assert found is not None and found.directory is not None
        target = next(path for path in wired.paths if path != found.directory.path)
        assert node.broker.moves.alter(T, target, node.now) == ErrorCode.NONE
        wired.produce(f"before {mover}")
        wired.settle()
        expected.append(f"before {mover}")
        wired.crash(dies)
        wired.settle()
        wired.start(dies)
        wired.settle()
        moved = wired.partition(mover)
        assert moved is not None and moved.directory is not None and moved.directory.path == target
        assert wired.state().directory_of(mover) == moved.directory.directory_id
        assert wired.values(mover) == expected
    assert set(wired.state().isr) == {1, 2, 3}


def test_a_log_that_begins_in_the_middle_of_a_batch_moves_with_the_whole_batch() -> None:
    node = two()
    node.append(batch("a", "b", "c"))
    partition(node).delete_records(1)
    node.broker.moves.alter(T, "/two", node.now)
    settle(node)
    assert lies(node) == "/two" and partition(node).log.log_start_offset == 1
    assert values(node) == ["a", "b", "c"]


def test_a_copy_that_rests_while_records_are_deleted_up_to_the_middle_of_a_batch_catches_up() -> None:
    node = two()
    node.append(batch("a"))
    node.broker.moves.alter(T, "/two", node.now)
    while not node.outside.assigned:
        settle(node, answering=False, rounds=1)
    (move,) = node.broker.moves.under_way.values()
    move.rest_until = node.mono + 5  # its disk was full
    node.append(batch("x", "y", "z"))
    partition(node).delete_records(2)
    answer(node)
    node.mono += 6
    settle(node)
    assert lies(node) == "/two" and partition(node).log.log_start_offset == 2
    assert values(node) == ["x", "y", "z"]
