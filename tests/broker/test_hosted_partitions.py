"""What is hosted follows the metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.broker.harness import PAGE_CACHE, Node, batch

from barnabas.broker.requests.append_internal import append_internal
from barnabas.controller.image import ImageDelta
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.files.disk import OsDisk
from barnabas.model import DIRECTORY_UNASSIGNED, TopicPartition, Uuid
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches


def test_every_change_bumps_the_generation(node: Node) -> None:
    seen = {node.broker.generation}
    for change in (
        lambda: node.create("u"),
        lambda: node.change("u", leader=1, leader_epoch=3),
        lambda: node.configure("u", retention_ms="5000"),
        lambda: node.delete("u"),
        lambda: node.broker.reconfigure(node.config),
    ):
        change()
        assert node.broker.generation not in seen
        seen.add(node.broker.generation)


def test_how_long_producers_are_remembered_can_be_changed_while_a_broker_runs(node: Node) -> None:
    node.broker.reconfigure(node.config.with_changes({"producer.id.expiration.ms": "60000"}))
    node.create("later")
    assert {log.producers.expiration_ms for log in node.broker.logs.all_logs()} == {60_000}


def test_a_topic_created_again_is_another_topic(node: Node) -> None:
    node.append(batch("old"))
    old = node.topic_id("t")
    node.delete("t")
    node.create("t")
    assert node.topic_id("t") != old
    assert node.append(batch("new")).base_offset == 0
    assert b"old" not in bytes(node.fetch().fetched.records)


def test_settings_of_a_topic_hold_from_the_next_request_on(node: Node) -> None:
    node.append(batch("x" * 200))
    node.configure("t", max_message_bytes="100")
    assert node.produce(batch("x" * 200)).error == ErrorCode.MESSAGE_TOO_LARGE


def test_a_topic_can_change_to_the_page_cache_and_back(node: Node) -> None:
    node.append(batch("first"))
    node.configure("t", flush_messages=PAGE_CACHE)
    node.turn()
    fast = node.produce(batch("a"))
    node.write()
    assert fast.error == ErrorCode.NONE
    assert node.held == []
    node.configure("t", flush_messages="1")
    slow = node.produce(batch("b"))
    node.write()
    assert not slow.here
    node.sync()
    assert slow.error == ErrorCode.NONE


def test_leadership_is_told_after_it_changed(node: Node) -> None:
    told: list[tuple[str, bool, int, bool]] = []
    node.broker.on_leadership(
        lambda partition, leads, epoch: told.append((partition.topic, leads, epoch, partition.is_leader))
    )
    node.create("u", replicas=(1, 2))
    node.change("u", isr=(1,))
    node.change("u", leader=2)
    node.change("u", leader=1)
    node.delete("u")
    assert told == [
        ("u", True, 0, True),
        ("u", False, 1, False),
        ("u", True, 2, True),
        ("u", False, 2, False),
    ]


def test_a_partition_that_moves_away_is_removed(node: Node) -> None:
    node.change("t", replicas=(2,), isr=(2,), leader=2)
    assert node.broker.partition("t", 0) is None
    assert node.logs.get(TopicPartition("t", 0)) is None
    assert node.produce(batch("a")).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_new_replicas_are_spread_over_the_directories_and_assigned(disk: MemoryDisk) -> None:
    node = Node(disk, ("/one", "/two"))
    node.create("p", 4)
    assert len(node.outside.assigned) == 4
    assert len({directory for _, _, directory in node.outside.assigned}) == 2


def test_a_registered_directory_is_obeyed(disk: MemoryDisk) -> None:
    node = Node(disk, ("/one", "/two"))
    second = node.logs.directories[1]
    for name in ("a", "b", "c"):
        node.create(name)
    state = node.image.topics_by_name["a"].partitions[0]
    topic = node.image.topics_by_name["a"]
    topic.partitions[1] = state._replace(index=1, directories=(second.directory_id,))
    delta = ImageDelta(node.image)
    delta.partitions[topic.id] = {1: None}
    node.broker.apply(delta, node.now)
    assert node.broker.partition("a", 1).directory is second  # type: ignore[union-attr]


def test_a_restart_finds_every_record_again(tmp_path: Path) -> None:
    paths = (str(tmp_path / "data"),)
    node = Node(OsDisk(), paths)
    node.create("t", segment_bytes="1048576")
    for _ in range(5):
        node.append(batch("x" * 400_000))
    node.logs.close(node.now)
    again = Node(OsDisk(), paths, image=node.image)
    again.turn()
    partition = again.broker.partition("t", 0)
    assert partition is not None
    assert (partition.high_watermark, partition.leader_epoch) == (5, 0)
    records = again.fetch({("t", 0): 4}).fetched.records
    assert [header.base_offset for _, header in batches(bytes(records))] == [4]
    assert again.append(batch("y")).base_offset == 5


def test_a_log_that_the_metadata_does_not_know_is_set_aside(tmp_path: Path) -> None:
    paths = (str(tmp_path / "data"),)
    node = Node(OsDisk(), paths)
    node.create("t")
    node.create("kept")
    node.append(batch("a"), "kept")
    node.logs.close(node.now)
    topic = node.image.topics_by_name.pop("t")
    del node.image.topics[topic.id]
    again = Node(OsDisk(), paths, image=node.image)
    assert again.broker.partition("t", 0) is None
    assert [name for name in OsDisk().list(paths[0]) if name.endswith("-stray")]
    assert again.broker.partition("kept", 0).log.log_end_offset == 1  # type: ignore[union-attr]


def test_a_log_of_an_earlier_topic_of_the_same_name_is_set_aside(tmp_path: Path) -> None:
    paths = (str(tmp_path / "data"),)
    node = Node(OsDisk(), paths)
    node.create("t")
    node.append(batch("old"))
    node.logs.close(node.now)
    topic = node.image.topics_by_name["t"]
    del node.image.topics[topic.id]
    topic.id = node.chance.uuid()
    node.image.topics[topic.id] = topic
    again = Node(OsDisk(), paths, image=node.image)
    again.turn()
    assert again.broker.partition("t", 0).log.log_end_offset == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "garble",
    [
        lambda said: b"",
        lambda said: b"sion: 0" + said[7:],
        lambda said: said[:11] + b"\xff" + said[12:],
        lambda said: said[:-3] + bytes((said[-3] ^ 1,)) + said[-2:],
    ],
    ids=["lost", "version", "key", "a bit of the id"],
)
def test_a_log_whose_topic_id_the_disk_damaged_is_still_that_of_its_directorys_name(
    garble: Callable[[bytes], bytes], disk: MemoryDisk
) -> None:
    node = Node(disk)
    node.create("t")
    node.append(batch("a"))
    node.turn()
    path = "/data/t-0/partition.metadata"
    said = disk.read(path)
    disk.put(path, garble(said))
    node.logs.abandon()
    again = Node(disk, image=node.image)
    again.turn()
    assert again.broker.partition("t", 0).log.log_end_offset == 1  # type: ignore[union-attr]
    assert disk.read(path) == said
    assert again.outside.adoptions == ["/data/t-0"] and not again.outside.aside


def test_a_log_of_an_unknown_topic_is_fetched_again_where_nobody_counts_on_it(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("t", replicas=(1, 2), isr=(1,))
    node.append(batch("of an earlier topic, perhaps"))
    node.turn()
    disk.put("/data/t-0/partition.metadata", b"")
    node.logs.abandon()
    partitions = node.image.topics_by_name["t"].partitions
    partitions[0] = partitions[0]._replace(leader=2, isr=(2,))
    again = Node(disk, image=node.image)
    assert again.broker.partition("t", 0).log.log_end_offset == 0  # type: ignore[union-attr]


def test_a_replica_whose_directory_is_offline_answers_a_storage_error(disk: MemoryDisk) -> None:
    node = Node(disk, ("/one", "/two"))
    node.create("t")
    node.logs.fail(node.logs.directories[1], StorageError("gone"))
    grow(node, node.logs.directories[1].directory_id)
    assert node.produce(batch("a"), index=1).error == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_whose_disk_was_replaced_begins_anew_on_another(disk: MemoryDisk) -> None:
    """All directories are there and it is in none: nobody will ever find the one where it lay."""
    node = Node(disk, ("/one", "/two"))
    node.create("t")
    grow(node, node.chance.uuid())
    answer = node.produce(batch("a"), index=1)
    node.turn()
    assert answer.error == ErrorCode.NONE
    partition = node.broker.partition("t", 1)
    assert partition is not None and partition.directory is not None
    node.broker.assignments.answered({(node.topic_id("t"), 0): ErrorCode.NONE}, node.now)
    assert partition.directory.directory_id in {directory for _, _, directory in node.outside.assigned}


def grow(node: Node, directory: Uuid) -> None:
    """Partition 1 of `t`, registered in that directory."""
    topic = node.image.topics_by_name["t"]
    topic.partitions[1] = topic.partitions[0]._replace(index=1, directories=(directory,))
    delta = ImageDelta(node.image)
    delta.partitions[topic.id] = {1: None}
    node.broker.apply(delta, node.now)


def test_retention_and_checkpoints_run_on_their_own_clock(node: Node, disk: MemoryDisk) -> None:
    node.configure("t", retention_bytes="1048576", segment_bytes="1048576")
    node.create("u")
    for _ in range(5):
        node.append(batch("x" * 600_000))
    node.broker.maintain(node.now)
    partition = node.broker.partition("t", 0)
    assert partition is not None
    assert partition.log_start_offset == 0
    for _ in range(310):
        node.mono += 1
        node.broker.maintain(node.now)
        node.turn()
    assert partition.log_start_offset > 0
    assert b"t 0 5" in disk.read("/data/replication-offset-checkpoint")
    assert b"t 0 5" in disk.read("/data/recovery-point-offset-checkpoint")


def test_flush_ms_bounds_what_the_page_cache_holds_alone(node: Node) -> None:
    node.append(batch("first"))
    node.configure("t", flush_messages=PAGE_CACHE, flush_ms="3000")
    node.turn()
    for _ in range(4):
        node.append(batch("a"))
        node.mono += 1
        node.broker.maintain(node.now)
    node.write()
    assert len(node.held) == 1
    node.sync()
    assert node.broker.partition("t", 0).log.durable_end_offset == 5  # type: ignore[union-attr]


def test_a_setting_that_only_a_newer_controller_knows_does_not_keep_the_topic_from_serving(
    node: Node, disk: MemoryDisk
) -> None:
    node.create("kafkas", remote_storage_enable="true", retention_ms="77")
    partition = node.broker.partition("kafkas", 0)
    assert partition is not None and partition.config.retention_ms == 77
    assert [topic for topic, _ in node.outside.refused] == ["kafkas"]
    node.configure("kafkas", from_next_year="1", retention_ms="78")
    assert partition.config.retention_ms == 78


def test_many_partitions_are_made_and_deleted_without_waiting_for_the_disk_at_each(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The syncs that make them durable are those of the first records, in threads."""
    node = Node(disk)
    waits: list[str] = []
    for name in ("sync_directory", "replace"):
        inner = getattr(disk, name)
        monkeypatch.setattr(disk, name, lambda path, *more, f=inner: (waits.append(path), f(path, *more))[1])
    node.held.clear()
    delta_turn = node.turn
    monkeypatch.setattr(node, "turn", lambda: None)
    node.create("many", partitions=40)
    assert waits == []
    delta_turn()
    assert waits == []
    node.produce(batch("a"), "many", index=7)
    delta_turn()
    assert "/data/many-7" in waits and waits.count("/data") == 1
    assert not [path for path in waits if "many-8" in path]
    waits.clear()
    node.delete("many")
    assert waits == []
    for _ in range(2):
        node.mono += 1
        node.broker.maintain(node.now)
    delta_turn()
    assert waits == ["/data"]


def test_a_log_whose_owner_was_not_written_down_in_time_gets_its_topic_again(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("t")
    disk.put("/data/t-0/partition.metadata", b"")
    node.logs.abandon()
    again = Node(disk, image=node.image)
    partition = again.broker.partition("t", 0)
    assert partition is not None and partition.log.topic_id == again.topic_id("t")
    again.turn()
    assert disk.read("/data/t-0/partition.metadata").endswith(str(again.topic_id("t")).encode())


# ---- the node's own appends ------------------------------------------------------------------------------


def test_a_coordinator_hears_when_its_batch_is_safe(node: Node) -> None:
    partition = node.create("__consumer_offsets", cleanup_policy="compact")
    heard: list[ErrorCode] = []
    last = append_internal(node.broker, partition, batch("v", "w", key=b"k"), node.now, heard.append)
    assert last == 1
    node.write()
    assert heard == []
    node.sync()
    assert heard == [ErrorCode.NONE]


def test_a_coordinator_hears_of_a_lost_leadership_and_of_a_timeout(node: Node) -> None:
    partition = node.create("__consumer_offsets", replicas=(1, 2))
    heard: list[ErrorCode] = []
    append_internal(node.broker, partition, batch("v", key=b"k"), node.now, heard.append, timeout_s=1)
    node.turn()
    node.after(1.1)
    assert heard == [ErrorCode.REQUEST_TIMED_OUT]
    append_internal(node.broker, partition, batch("v", key=b"k"), node.now, heard.append)
    node.turn()
    node.change("__consumer_offsets", leader=2)
    assert heard[1:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(KafkaError) as caught:
        append_internal(node.broker, partition, batch("v", key=b"k"), node.now, heard.append)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unassigned_directories_are_what_new_topics_have(node: Node) -> None:
    assert node.image.topics_by_name["t"].partitions[0].directories == (DIRECTORY_UNASSIGNED,)


def test_of_directories_that_lie_in_each_other_the_one_that_holds_the_file_fails() -> None:
    node = Node(MemoryDisk(), ("/data", "/data/second"))
    error = StorageError("cannot read /data/second/t-0/00000000000000000000.log: Input/output error")
    node.broker.unreadable(error, node.now)
    assert [path for path, _ in node.outside.failed] == ["/data/second"]
