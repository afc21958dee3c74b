"""A disk that fills up: producing stops before it is full, everything else goes on, and it resumes by itself."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from tests.broker.harness import Answer, Node, batch
from tests.broker.replication import Replicas

from barnabas.broker.ports import DirectorySpace
from barnabas.broker.requests.append import takes
from barnabas.broker.requests.append_internal import append_internal
from barnabas.broker.requests.produced import Destination
from barnabas.errors import ErrorCode, StorageError
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.plane.produce_asked import ProduceRows

MIB = 1 << 20
GROUPS = "__consumer_offsets"


class Volume(MemoryDisk):
    """A disk whose free room the test says, whatever is written."""

    free = 1 << 40

    def free_bytes(self, path: str) -> int:
        return self.free

    def total_bytes(self, path: str) -> int:
        return 100 * MIB


@pytest.fixture
def disk() -> Volume:
    return Volume()


@pytest.fixture
def node(disk: Volume) -> Iterator[Node]:
    """10 MiB of its 100 are kept."""
    node = Node(disk, barnabas_disk_reserve_percent="10")
    node.create("t")
    yield node


def left(node: Node, disk: Volume, free: int) -> None:
    """So much is free now, and the node has looked."""
    disk.free = free
    node.mono += 1.5
    node.broker.maintain(node.now)
    node.turn()


def test_producing_stops_at_the_reserve_and_resumes_half_as_much_above_it(node: Node, disk: Volume) -> None:
    for free, error in (
        (10 * MIB, ErrorCode.NONE),
        (10 * MIB - 1, ErrorCode.KAFKA_STORAGE_ERROR),
        (14 * MIB, ErrorCode.KAFKA_STORAGE_ERROR),
        (15 * MIB, ErrorCode.NONE),
        (10 * MIB, ErrorCode.NONE),
    ):
        left(node, disk, free)
        answer = node.produce(batch("a"))
        node.turn()
        assert answer.error == error, free
        if error:
            assert "when there is room" in (answer.produced.error_message or "")
            assert error.retriable
    assert node.outside.rooms == [("/data", True), ("/data", False)]
    assert node.outside.failed == []


def test_what_is_there_is_read_retained_and_deleted_while_the_disk_is_full(node: Node, disk: Volume) -> None:
    node.append(batch("a"))
    node.create("gone")
    left(node, disk, 0)
    assert len(node.fetch().fetched.records) > 0
    node.delete("gone")
    node.mono += 61
    node.turn()
    left(node, disk, 0)
    left(node, disk, 0)
    assert [name for name in disk.list("/data") if name.startswith("gone")] == []


def test_plain_batches_are_not_taken_without_a_closer_look_while_there_is_no_room(
    node: Node, disk: Volume
) -> None:
    """Nor those of one read that are appended together."""
    partition = node.broker.partition("t", 0)
    assert partition is not None
    destination = Destination(12, b"t", 0)
    destination.partition = partition
    one, three = (
        cast(ProduceRows, SimpleNamespace(newest=node.now.wall_ms, size=100, records=1, rows=[None] * count))
        for count in (1, 3)
    )
    for free, is_taken in ((10 * MIB, True), (10 * MIB - 1, False), (15 * MIB, True)):
        left(node, disk, free)
        assert takes(destination, True, one) == is_taken
        assert takes(destination, False, three) == is_taken


def test_groups_may_commit_down_to_half_of_the_reserve(node: Node, disk: Volume) -> None:
    partition = node.create(GROUPS)
    done: list[ErrorCode] = []
    for free, expected in ((9 * MIB, ErrorCode.NONE), (5 * MIB - 1, ErrorCode.KAFKA_STORAGE_ERROR)):
        left(node, disk, free)
        assert partition.no_room == bool(expected)
        try:
            append_internal(node.broker, partition, batch("offset"), node.now, done.append)
        except Exception as error:
            done.append(error.code)  # type: ignore[attr-defined]
        node.turn()
        assert done.pop() == expected


def test_a_batch_that_is_there_already_is_acknowledged_again_on_a_full_disk(node: Node, disk: Volume) -> None:
    """The first answer may have been lost: this is no new record."""
    first = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    node.append(bytearray(first))
    left(node, disk, 0)
    again = node.produce(bytearray(first))
    node.turn()
    assert again.error == ErrorCode.NONE and again.produced.base_offset == 0


def test_a_write_without_room_is_refused_and_tried_again_later(node: Node, disk: Volume) -> None:
    """Others fill the volume, or a quota is reached: the free bytes do not tell."""
    node.append(batch("kept"))
    answers = [node.produce(batch("x" * 100)), node.produce(batch("y" * 100))]
    disk.full_after(150)
    node.turn()
    assert [answer.error for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert node.outside.failed == [] and node.outside.rooms == [("/data", True)]
    disk.heal()
    left(node, disk, 1 << 40)
    answer = node.produce(batch("z"))
    node.turn()
    assert answer.error == ErrorCode.KAFKA_STORAGE_ERROR  # too soon
    node.mono += 10
    left(node, disk, 1 << 40)
    answer = node.produce(batch("z"))
    node.turn()
    assert (answer.error, answer.produced.base_offset) == (ErrorCode.NONE, 1)


def test_a_refusal_that_is_explained_by_what_is_free_ends_with_it(node: Node, disk: Volume) -> None:
    disk.full_after(0)
    node.produce(batch("x"))
    node.turn()
    left(node, disk, 0)
    disk.heal()
    left(node, disk, 1 << 40)
    answer = node.produce(batch("z"))
    node.turn()
    assert answer.error == ErrorCode.NONE


def test_what_was_sent_behind_a_batch_without_room_is_refused_for_the_same_reason(
    node: Node, disk: Volume
) -> None:
    """An answer that speaks of a gap would make the producer begin anew, and send twice."""

    def send(sequence: int) -> Answer:
        answer = node.produce(batch("a", producer_id=7, producer_epoch=0, base_sequence=sequence))
        node.turn()
        return answer

    assert send(0).error == ErrorCode.NONE
    disk.full_after(0)
    assert [send(sequence).error for sequence in (1, 2, 1, 3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 4
    left(node, disk, 0)
    disk.heal()
    left(node, disk, 1 << 40)
    assert [send(sequence).error for sequence in (2, 3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert [send(sequence).produced.base_offset for sequence in (1, 2, 3)] == [1, 2, 3]


def test_what_was_sent_behind_a_batch_that_came_below_the_reserve_is_refused_for_the_same_reason(
    node: Node, disk: Volume
) -> None:
    def send(sequence: int) -> Answer:
        answer = node.produce(batch("a", producer_id=7, producer_epoch=0, base_sequence=sequence))
        node.turn()
        return answer

    assert send(0).error == ErrorCode.NONE
    left(node, disk, MIB)
    assert send(3).error == ErrorCode.KAFKA_STORAGE_ERROR, "those before it have no room either"
    assert [send(sequence).error for sequence in (1, 2)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    left(node, disk, 1 << 40)
    assert send(2).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert [send(sequence).produced.base_offset for sequence in (1, 2)] == [1, 2]


def test_a_follower_below_the_reserve_asks_no_leader_for_more() -> None:
    replicas = Replicas()
    node = replicas.nodes[3]
    (directory,) = node.broker.logs.directories
    node.broker.space._became(directory, DirectorySpace(0, 1 << 40, 1 << 30, full=True, exhausted=True))
    assert node.broker.followers.by_leader[1].next_request(node.now) is None
    replicas.put(leader=2)
    replicas.turn()
    asked = node.broker.followers.by_leader[2].next_request(node.now)
    assert asked is None
    node.broker.space._became(directory, DirectorySpace(1 << 40, 1 << 40, 1 << 30))
    assert node.broker.followers.by_leader[2].next_request(node.now) is not None


def test_a_batch_refused_at_the_beginning_of_a_segment_is_refused_alone(node: Node, disk: Volume) -> None:
    node.configure("t", segment_bytes="1048576")
    first = node.produce(batch("x" * 900_000))  # (written at once)
    disk.full_after(10_000)
    second = node.produce(batch("y" * 900_000))
    node.turn()
    assert first.error == ErrorCode.NONE
    assert second.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.broker.partition("t", 0).log.log_end_offset == 1  # type: ignore[union-attr]


def test_a_topic_made_on_a_full_disk_is_hosted_as_soon_as_there_is_room(node: Node, disk: Volume) -> None:
    disk.full_after(0)
    node.create("late")
    assert node.broker.partition("late", 0) is None and node.outside.no_room
    assert node.broker.missing("late", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    disk.heal()
    left(node, disk, 1 << 40)
    assert node.append(batch("a"), "late").error_code == 0


def test_a_sync_without_room_for_the_epochs_is_repeated_and_nothing_is_acknowledged_before(
    node: Node, disk: Volume
) -> None:
    node.change("t", leader_epoch=5)
    answer = node.produce(batch("a"))
    node.write()
    disk.full_after(0)
    node.sync()
    assert not answer.here and node.outside.failed == []
    left(node, disk, 1 << 40)
    assert not answer.here
    disk.heal()
    left(node, disk, 1 << 40)
    assert answer.error == ErrorCode.NONE


def test_the_other_directories_go_on(disk: Volume) -> None:
    class TwoVolumes(Volume):
        def free_bytes(self, path: str) -> int:
            return 0 if path == "/one" else 1 << 40

    disk = TwoVolumes()
    node = Node(disk, ("/one", "/two"), barnabas_disk_reserve_percent="10")
    node.create("t", partitions=2)
    left(node, disk, 0)
    errors: dict[str, ErrorCode] = {}
    for index in range(2):
        partition = node.broker.partition("t", index)
        assert partition is not None and partition.directory is not None
        answer = node.produce(batch("a"), index=index)
        node.turn()
        errors[partition.directory.path] = answer.error
    assert errors == {"/one": ErrorCode.KAFKA_STORAGE_ERROR, "/two": ErrorCode.NONE}
    new = node.create("new", partitions=4)
    assert new.directory is not None and new.directory.path == "/two"
    assert len(node.logs.directories[1].logs) == 5


def test_a_directory_that_vanishes_is_noticed_though_nothing_is_written(node: Node, disk: Volume) -> None:
    def gone(path: str) -> int:
        raise StorageError(f"cannot look at {path}: No such file or directory")

    disk.free_bytes = gone  # type: ignore[method-assign]
    left(node, disk, 0)
    assert [path for path, _ in node.outside.failed] == ["/data"]


def test_settings_of_the_reserve_are_taken_at_once(node: Node, disk: Volume) -> None:
    left(node, disk, 5 * MIB)
    assert node.outside.rooms == [("/data", True)]
    changed = node.config.with_changes({"barnabas.disk.reserve.bytes": "0"})
    node.broker.reconfigure(changed)
    node.broker.maintain(node.now)
    assert node.outside.rooms[-1] == ("/data", False)


def settled(replicas: Replicas, answer: Answer) -> ErrorCode:
    replicas.settle()
    return answer.error


def test_a_follower_without_room_rests_and_comes_back() -> None:
    replicas = Replicas()
    assert settled(replicas, replicas.produce("a")) == ErrorCode.NONE
    replicas.disks[3].full_after(0)
    waiting = replicas.produce("b")
    replicas.settle()
    assert replicas.nodes[3].outside.rooms == [("/data", True)]
    assert replicas.nodes[3].outside.failed == []
    for _ in range(20):
        replicas.after(1.0)
        for node in replicas.nodes.values():
            node.broker.maintain(node.now)
        replicas.settle()
    assert waiting.error == ErrorCode.NONE and replicas.state.isr == (1, 2)
    replicas.disks[3].heal()
    for _ in range(15):
        replicas.after(1.0)
        for node in replicas.nodes.values():
            node.broker.maintain(node.now)
        replicas.settle()
    assert replicas.values(3) == ["a", "b"] and set(replicas.state.isr) == {1, 2, 3}


def test_what_retention_found_no_room_for_is_refused_and_never_acknowledged_for_another(
    node: Node, disk: Volume
) -> None:
    """It writes what was appended in this turn, so that the log may begin behind it."""
    node.configure("t", segment_bytes="1048576", retention_bytes="1")
    for value in "ab":
        node.append(batch(value * 900_000))
    node.broker.maintain(node.now)
    lost = node.produce(batch("lost"))
    disk.full_after(0)
    node.mono += 301
    for _ in range(3):
        node.broker.maintain(node.now)
    node.turn()
    assert lost.here and lost.error == ErrorCode.KAFKA_STORAGE_ERROR
