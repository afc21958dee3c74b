"""Which log is compacted when, how fast, and what becomes of one that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import Node, batch

from barnabas.errors import ErrorCode, StorageError
from barnabas.log.files.checkpoint import read_offsets
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, read_records

COMPACT: dict[str, Any] = {"cleanup_policy": "compact", "internal_segment_bytes": "600"}


def fill(node: Node, topic: str, count: int = 40, keys: int = 3) -> None:
    for n in range(count):
        assert node.append(batch(f"value {n}", key=b"k%d" % (n % keys)), topic).error_code == 0


def rest(node: Node, seconds: float = 20.0, step: float = 1.0) -> None:
    """Let the node look after its logs."""
    for _ in range(int(seconds / step)):
        node.after(step)
        node.broker.maintain(node.now)
        node.turn()


def values(node: Node, topic: str) -> list[str]:
    partition = node.broker.partition(topic, 0)
    assert partition is not None
    found, offset = [], partition.log_start_offset
    while offset < partition.high_watermark:
        data = node.fetch({(topic, 0): offset}).fetched.records or b""
        if not data:
            break
        for position, header in batches(data):
            found += [(r.value or b"").decode() for r in read_records(data, position, header)]
            offset = header.last_offset + 1
    return found


def test_a_compacted_topic_is_compacted_by_itself_and_the_checkpoint_says_so(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    node.create("d", internal_segment_bytes="600")
    fill(node, "c")
    fill(node, "d")
    rest(node)
    left = values(node, "c")
    assert len(left) < 15
    assert left[-3:] == ["value 37", "value 38", "value 39"]
    assert len(values(node, "d")) == 40
    partition = node.broker.partition("c", 0)
    assert partition is not None
    rows = read_offsets(disk, "/data/cleaner-offset-checkpoint")
    assert rows == {TopicPartition("c", 0): partition.log.bases[-1]}
    assert [where for where, _ in node.outside.compactions] == [TopicPartition("c", 0)]


def test_one_log_at_a_time_and_the_dirtiest_first(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("a", **COMPACT)
    node.create("b", **COMPACT)
    fill(node, "a", 60, keys=60)
    rest(node)
    fill(node, "a", 70, keys=60)
    fill(node, "b")
    node.outside.compactions.clear()
    rest(node, 60)
    assert [where.topic for where, _ in node.outside.compactions] == ["b", "a"]


def test_without_enough_to_compact_nothing_is_done(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT, min_cleanable_dirty_ratio="1.0")
    fill(node, "c")
    rest(node, 60)
    assert node.outside.compactions == []
    assert node.broker.maintenance.cleaner.statistics(node.now).dirtiest == 1.0


@pytest.mark.parametrize("setting", [{"log_cleaner_enable": "false"}, {"log_cleaner_threads": "0"}])
def test_compaction_can_be_switched_off(disk: MemoryDisk, setting: dict[str, Any]) -> None:
    node = Node(disk, **setting)
    node.create("c", **COMPACT)
    fill(node, "c")
    rest(node, 60)
    assert len(values(node, "c")) == 40


def test_a_topic_may_become_compacted_while_it_is_used(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", internal_segment_bytes="600")
    fill(node, "c")
    rest(node)
    assert len(values(node, "c")) == 40
    node.configure("c", **COMPACT)
    rest(node, 40)
    assert len(values(node, "c")) < 15


def test_the_pace_is_bounded_by_bytes_per_second(disk: MemoryDisk) -> None:
    slow = Node(disk, log_cleaner_io_max_bytes_per_second="100")
    slow.create("c", **COMPACT)
    fill(slow, "c")
    rest(slow, 20)
    assert slow.outside.compactions == []
    assert slow.broker.maintenance.cleaner.running is not None
    deadline = slow.broker.next_deadline()
    assert deadline is not None
    assert deadline > slow.mono
    slow.broker.reconfigure(slow.config.with_changes({"log.cleaner.io.max.bytes.per.second": "1e9"}))
    rest(slow, 100)
    assert len(slow.outside.compactions) == 1


def test_after_a_piece_the_thread_rests_as_long_as_it_took(disk: MemoryDisk) -> None:
    node = Node(disk, barnabas_scrub_interval_ms="-1")
    node.create("c", **COMPACT)
    fill(node, "c")
    while not node.held:
        node.after(1.0)
        node.broker.maintain(node.now)
        node.write()
    node.mono += 0.008
    piece = node.held.pop()
    piece.run()
    node.broker.synced(piece, None, node.now)
    node.write()
    assert node.held == []
    assert node.broker.next_deadline() == pytest.approx(node.mono + 0.008)
    node.after(0.009)
    node.write()
    assert node.held == [piece]
    node.sync()


def test_a_log_that_cannot_be_compacted_is_set_aside_and_the_others_are_compacted(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("bad", **COMPACT)
    node.create("good", **COMPACT)
    fill(node, "bad", 60, keys=1)
    fill(node, "good")
    partition = node.broker.partition("bad", 0)
    assert partition is not None
    disk.corrupt(f"/data/bad-0/{partition.log.bases[1]:020d}.log", 75)
    rest(node, 120)
    assert [where.topic for where, _ in node.outside.compactions] == ["good"]
    assert [where.topic for where, _ in node.outside.uncompacted] == ["bad"]
    assert "CRC" in node.outside.uncompacted[0][1]
    assert node.broker.maintenance.cleaner.statistics(node.now).set_aside == 1
    assert node.append(batch("more", key=b"k"), "bad").error_code == 0


def test_a_disk_without_room_is_no_reason_to_give_up_the_directory(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    fill(node, "c")
    disk.full_after(0)
    rest(node, 30)
    assert len(node.outside.uncompacted) == 1
    assert node.outside.failed == []
    disk.heal()
    rest(node, 90)
    assert len(node.outside.compactions) == 1
    assert not [name for name in disk.list("/data/c-0") if name.endswith((".cleaned", ".swap"))]


def test_a_disk_that_fails_takes_its_directory_offline(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    fill(node, "c")
    disk.fail("sync", ".cleaned")
    rest(node, 30)
    assert [path for path, _ in node.outside.failed] == ["/data"]
    assert node.append(batch("more", key=b"k"), "c").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_may_be_deleted_in_the_middle_of_a_round(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    fill(node, "c")
    while not node.held:
        node.after(1.0)
        node.broker.maintain(node.now)
        node.write()
    node.delete("c")
    node.sync()
    rest(node, 100)
    assert node.outside.compactions == []
    assert node.outside.uncompacted == []
    assert node.outside.failed == []
    assert node.broker.maintenance.cleaner.running is None


def test_a_stopping_node_hands_out_no_more_pieces(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    fill(node, "c")
    while not node.held:
        node.after(1.0)
        node.broker.maintain(node.now)
        node.write()
    for work in [*node.held, *node.broker.stop(node.now)]:
        work.run()
    node.logs.close(node.now)
    assert not [name for name in disk.list("/data/c-0") if name.endswith((".cleaned", ".swap"))]


def test_a_piece_that_fails_unforeseen_ends_only_its_round(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    fill(node, "c")
    while not node.held:
        node.after(1.0)
        node.broker.maintain(node.now)
        node.write()
    cleaning = node.broker.maintenance.cleaner.running
    assert cleaning is not None

    def broken() -> object:
        raise RuntimeError("a codec went mad")
        yield

    cleaning._steps = broken()  # type: ignore[assignment]
    node.sync()
    assert "went mad" in node.outside.uncompacted[0][1]


def test_records_without_a_key_are_refused(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    answer = node.append(batch("nobody's"), "c")
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.record_errors[0].batch_index == 0


def test_compaction_goes_on_where_it_was_after_a_restart(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("c", **COMPACT)
    fill(node, "c")
    rest(node)
    node.broker.stop(node.now)
    node.logs.close(node.now)
    again = Node(disk, image=node.image)
    partition = again.broker.partition("c", 0)
    assert partition is not None
    assert partition.log.compacted_offset == partition.log.bases[-1]
    rest(again, 60)
    assert again.outside.compactions == []
    assert values(again, "c")[-3:] == ["value 37", "value 38", "value 39"]


def test_a_storage_error_of_a_thread_fails_the_directory_of_that_log_only() -> None:
    disk = MemoryDisk()
    node = Node(disk, ("/data", "/more"))
    node.create("c", **COMPACT)
    fill(node, "c")
    while not node.held:
        node.after(1.0)
        node.broker.maintain(node.now)
        node.write()
    node.sync(StorageError("the cable is loose"))
    assert len(node.outside.failed) == 1
    assert len(node.logs.online()) == 1
