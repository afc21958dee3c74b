"""Directories: locks, identity, checkpoints, clean and unclean stops, creation and deletion, going offline."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest
from tests.log.log_building import NOW, Chance, append, batch, fill, later, small, tick, values_of

from barnabas.config import LogConfig
from barnabas.errors import StorageError
from barnabas.log.directories.jobs import Opening
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.checkpoint import read_offsets, write_offsets
from barnabas.log.files.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from barnabas.model import Now, TopicPartition, Uuid
from barnabas.sim.kernel.disk import Crashed, MemoryDisk

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
A, B = TopicPartition("a", 0), TopicPartition("b", 3)
TOPIC = Uuid.of(3, 4)


def formatted(*paths: str, seed: int = 0) -> MemoryDisk:
    disk = MemoryDisk(seed, wall_ms=NOW.wall_ms)
    for place, path in enumerate(paths):
        disk.make_directories(path)
        write_meta_properties(disk, path, MetaProperties(CLUSTER, 1, Uuid.of(50, place)), NOW)
    disk.sync_directory("/")
    return disk


def opened(disk: MemoryDisk, *paths: str, config: LogConfig | None = None, now: Now = NOW) -> LogDirectories:
    return LogDirectories.open(
        disk,
        paths or ("/d0",),
        cluster_id=CLUSTER,
        node_id=1,
        config_for=lambda topic: config or small(),
        randomness=Chance(),
        now=now,
    )


def opening(disk: MemoryDisk) -> Generator[Sequence[Opening], None, LogDirectories]:
    """The same, but the caller opens the logs."""
    return LogDirectories.open_in_steps(
        disk,
        ("/d0",),
        cluster_id=CLUSTER,
        node_id=1,
        config_for=lambda topic: small(),
        randomness=Chance(),
        now=NOW,
    )


def test_logs_checkpoints_and_the_marker_survive_a_clean_stop() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    values = fill(log, 20)
    log.high_watermark = 15
    log.increment_log_start(3)
    logs.close(NOW, broker_epoch=99)
    disk.crash()
    again = opened(disk)
    assert again.directories[0].was_clean and again.directories[0].broker_epoch == 99
    found = again.get(A)
    assert found is not None and found.topic_id == TOPIC and found.recovery.clean
    assert (found.log_start_offset, found.high_watermark, found.log_end_offset) == (3, 15, 20)
    assert values_of(found) == values[3:]


def test_after_a_crash_the_checkpoints_say_where_to_begin() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, 40)
    log.high_watermark = 40
    logs.directories[0].checkpoint_high_watermarks(durable=True)
    logs.checkpoint_recovery_points()
    values = [*values_of(log), *fill(log, 10, start=40)]
    disk.crash()
    again = opened(disk).get(A)
    assert again is not None and not again.recovery.clean
    assert again.recovery.segments < len(again.segments)
    assert again.high_watermark == 40 and values_of(again) == values


def test_a_truncation_below_the_checkpoint_is_recovered_from_there() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, 40)
    logs.checkpoint_recovery_points()
    log.truncate_to(9, NOW)
    assert read_offsets(disk, "/d0/recovery-point-offset-checkpoint") == {A: 9}
    fill(log, 30, start=100, sync=False)
    disk.crash("some")
    again = opened(disk).get(A)
    assert again is not None
    assert again.recovery.segments >= len(again.segments) - 2


def test_a_new_partition_goes_where_the_fewest_logs_are() -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    for i in range(6):
        logs.create(TopicPartition("t", i), TOPIC, NOW)
    assert [len(directory.logs) for directory in logs.directories] == [3, 3]
    chosen = logs.create(A, TOPIC, NOW, directory_id=logs.directories[1].directory_id)
    assert chosen.path == "/d1/a-0" and logs.directory_of(A) is logs.directories[1]


def test_a_deleted_partition_is_renamed_at_once_and_removed_later() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    fill(logs.create(A, TOPIC, NOW), 3)
    assert logs.delete(A, NOW) and not logs.delete(A, NOW)
    assert logs.get(A) is None
    assert f"a-0.{TOPIC.hex()}-delete" in disk.list("/d0")
    again = logs.create(A, Uuid.of(9, 9), NOW)
    assert again.log_end_offset == 0
    tick(logs, later(59_999))
    assert f"a-0.{TOPIC.hex()}-delete" in disk.list("/d0")
    tick(logs, later(60_000))
    assert [name for name in disk.list("/d0") if name.startswith("a-0")] == ["a-0"]


def test_a_deletion_that_a_crash_interrupted_is_finished() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    fill(logs.create(A, TOPIC, NOW), 3)
    logs.delete(A, NOW)
    logs.settle()
    disk.crash()
    again = opened(disk)
    tick(again, NOW)
    assert not [name for name in disk.list("/d0") if name.startswith("a-0")]


def test_a_partition_deleted_while_it_is_being_synced_is_no_error() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    append(log, batch(b"x"))
    log.write()
    job = log.begin_sync()
    assert job is not None
    logs.delete(A, NOW)
    job.run()
    log.finish_sync(job)
    assert logs.online()


def test_a_stray_is_set_aside_and_left_alone() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    logs.create(A, TOPIC, NOW)
    assert logs.stray(A) == f"/d0/a-0.{TOPIC.hex()}-stray"
    logs.close(NOW)
    again = opened(disk)
    assert again.get(A) is None and again.directories[0].strays == [f"a-0.{TOPIC.hex()}-stray"]


def test_a_failed_sync_takes_the_directory_offline_for_good() -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    log, other = logs.create(A, TOPIC, NOW), logs.create(B, TOPIC, NOW)
    append(log, batch(b"x"))
    log.write()
    disk.fail("sync", "/d0/a-0")
    job = log.begin_sync()
    assert job is not None
    with pytest.raises(StorageError) as failed:
        job.run()
    directory = logs.fail(log, failed.value)
    assert directory is logs.directories[0] and directory.offline is failed.value
    assert failed.value.directory == "/d0"
    disk.heal()
    for refused in (log.begin_sync, lambda: log.read(0, 1, 1), lambda: append(log, batch(b"y"))):
        with pytest.raises(StorageError, match="sync"):
            refused()
    assert log.durable_end_offset == 0
    assert logs.get(A) is None and logs.get(B) is other
    assert logs.create(TopicPartition("c", 0), TOPIC, NOW).path == "/d1/c-0"
    logs.close(NOW)
    assert not disk.exists("/d0/.kafka_cleanshutdown") and disk.exists("/d1/.kafka_cleanshutdown")


def test_a_full_disk_refuses_the_write_and_the_log_goes_on_when_there_is_room() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    values = fill(log, 5)
    disk.full_after(10)
    append(log, batch(b"too much"))
    with pytest.raises(StorageError, match="No space left") as refused:
        log.write()
    assert refused.value.full and log.failed is None
    assert log.written_end_offset == log.log_end_offset == log.durable_end_offset == 5
    assert logs.online()
    disk.heal()
    values += fill(log, 3, start=5)
    disk.crash()
    again = opened(disk).get(A)
    assert again is not None and values_of(again) == values


def test_no_checkpoint_is_written_in_a_directory_that_is_offline() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    logs.create(A, TOPIC, NOW)
    logs.directories[0].fail(StorageError("broken"))
    before = disk.steps
    logs.checkpoint_high_watermarks()
    logs.checkpoint_recovery_points()
    tick(logs, later(10**9))
    logs.close(NOW)
    assert disk.steps == before


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    logs.create(A, TOPIC, NOW)
    disk.fail("append", "replication-offset-checkpoint")
    logs.checkpoint_high_watermarks()
    assert logs.online() == []
    with pytest.raises(StorageError):
        logs.create(B, TOPIC, NOW)


def test_a_missing_directory_id_is_made_up_and_written_before_anything_else() -> None:
    disk = formatted("/d0")
    disk.put("/d0/meta.properties", f"#\nversion=1\nnode.id=1\ncluster.id={CLUSTER}\n".encode())
    logs = opened(disk)
    made = logs.directories[0].directory_id
    disk.crash()
    found = read_meta_properties(disk, "/d0")
    assert found is not None and found.directory_id == made == Uuid.of(77, 1)
    assert opened(disk).directories[0].directory_id == made


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "not formatted"),
        (b"version=1\nnode.id=2\ncluster.id=" + CLUSTER.encode(), "belongs to node 2"),
        (b"version=1\nnode.id=1\ncluster.id=other", "belongs to cluster other"),
        (b"version=7\nnode.id=1\ncluster.id=x", "version 7"),
        (b"version=1\ncluster.id=x", "node.id is missing"),
        (b"version=1\nnode.id=one\ncluster.id=x", "senseless"),
        (b"\xff\xfe", "senseless"),
    ],
)
def test_a_directory_that_is_not_ours_is_refused_by_name(content: bytes | None, words: str) -> None:
    disk = formatted("/d0")
    disk.remove("/d0/meta.properties")
    if content is not None:
        disk.put("/d0/meta.properties", content)
    with pytest.raises(StorageError, match=words) as refused:
        opened(disk)
    assert "/d0" in str(refused.value) and refused.value.next_step
    assert not disk.locks


def test_a_missing_directory_is_named_and_the_others_serve() -> None:
    logs = opened(formatted("/d0"), "/d0", "/nowhere")
    assert [directory.path for directory in logs.online()] == ["/d0"]
    assert "/nowhere is missing" in str(logs.missing()["/nowhere"]) and logs.missing()["/nowhere"].next_step
    with pytest.raises(StorageError, match="/nowhere is missing"):
        opened(formatted("/d0"), "/nowhere")


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ("read", "/d1/meta.properties"),
        ("read", "/d1/b-3"),
        ("open", "/d1/.lock"),
        ("remove", "/d1/.kafka_cleanshutdown"),
    ],
)
def test_a_damaged_directory_is_left_out_and_the_others_serve(operation: str, part: str) -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    one, other = (directory.directory_id for directory in logs.directories)
    values = fill(logs.create(A, TOPIC, NOW, directory_id=one), 3)
    fill(logs.create(B, TOPIC, NOW, directory_id=other), 3)
    logs.close(NOW)
    if operation == "open":
        disk.remove(part)
    disk.fail(operation, part)
    again = opened(disk, "/d0", "/d1")
    assert [directory.path for directory in again.online()] == ["/d0"]
    assert list(again.missing()) == ["/d1"]
    found = again.get(A)
    assert found is not None and values_of(found) == values
    assert again.get(B) is None


def test_a_directory_of_another_node_stops_the_start_even_among_others() -> None:
    disk = formatted("/d0", "/d1")
    write_meta_properties(disk, "/d1", MetaProperties(CLUSTER, 2, Uuid.of(50, 9)), NOW)
    with pytest.raises(StorageError, match="belongs to node 2"):
        opened(disk, "/d0", "/d1")
    assert not disk.locks


def test_a_checkpoint_in_a_thread_is_void_once_the_loop_lowered_it() -> None:
    """A point that a truncation lowered is never raised again by a write that began before it."""
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, 40)
    logs.checkpoint_recovery_points()
    fill(log, 5, start=40)
    (job,) = logs.recovery_points()
    log.truncate_to(9, NOW)
    job.run()
    assert read_offsets(disk, "/d0/recovery-point-offset-checkpoint") == {A: 9}
    fill(log, 4, start=9)
    (job,) = logs.recovery_points()
    job.run()
    assert read_offsets(disk, "/d0/recovery-point-offset-checkpoint") == {A: log.log_end_offset}
    assert logs.recovery_points() == []


def test_the_loop_neither_unlinks_nor_waits_for_the_disk_when_a_topic_goes() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    fill(logs.create(A, TOPIC, NOW), 3)
    logs.delete(A, NOW)
    steps: list[str] = []
    disk.on_step = lambda operation, path: steps.append(operation)
    (removal,) = logs.tick(NOW)
    assert steps == []
    removal.run()
    assert steps == ["sync"]
    assert disk.durable_names("/d0")[-1] != "a-0"


def test_two_nodes_do_not_share_a_directory() -> None:
    disk = formatted("/d0")
    opened(disk)
    with pytest.raises(StorageError, match="locked"):
        opened(disk)


def test_copies_of_a_directory_or_of_a_partition_are_refused() -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    logs.create(A, TOPIC, NOW, directory_id=logs.directories[0].directory_id)
    logs.close(NOW)
    disk.make_directories("/d1/a-0")
    with pytest.raises(StorageError, match="a-0 lies in /d0 and in /d1"):
        opened(disk, "/d0", "/d1")
    disk.remove_tree("/d1/a-0")
    disk.put("/d1/meta.properties", disk.read("/d0/meta.properties"))
    with pytest.raises(StorageError, match="same directory id"):
        opened(disk, "/d0", "/d1")


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"],
)
def test_a_corrupt_checkpoint_costs_a_recovery_and_no_record(name: str) -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    values = fill(logs.create(A, TOPIC, NOW), 20)
    logs.close(NOW)
    disk.put(f"/d0/{name}", b"0\n1\na zero 12\n")
    again = opened(disk).get(A)
    assert again is not None and values_of(again) == values


def test_the_metadata_log_and_foreign_directories_are_left_alone() -> None:
    disk = formatted("/d0")
    for name in ("__cluster_metadata-0", "lost+found", "notes"):
        disk.make_directories(f"/d0/{name}")
    assert list(opened(disk).all_logs()) == []


def test_whatever_step_the_power_fails_at_a_partition_is_there_or_not_but_never_half() -> None:
    def life(disk: MemoryDisk, done: list[str]) -> None:
        logs = opened(disk)
        log = logs.create(A, TOPIC, NOW)
        done.append("created")
        fill(log, 2)
        done.append("filled")
        logs.checkpoint_recovery_points()
        logs.close(NOW)
        logs = opened(disk)
        logs.delete(A, NOW)
        logs.settle()
        done.append("deleted")
        tick(logs, later(60_000))
        logs.close(NOW)

    disk = formatted("/d0")
    life(disk, [])
    for step in range(disk.steps):
        for loss in ("all", "some"):
            disk = formatted("/d0", seed=step)
            done: list[str] = []
            disk.crash_at(step)
            try:
                life(disk, done)
            except Crashed:
                disk.crash(loss)
            else:
                continue
            log = opened(disk).get(A)
            if "deleted" in done:
                assert log is None
            elif "filled" in done:
                assert log is None or (log.topic_id, log.log_end_offset) == (TOPIC, 2)
            elif log is not None:
                assert log.topic_id in (None, TOPIC)  # None: nothing in it was acknowledged


@pytest.mark.parametrize("how", ["deleted", "stray", "deleted before a restart"])
def test_a_partition_made_anew_inherits_no_checkpoint_of_the_earlier_one(how: str) -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, 40)
    log.high_watermark = 40
    log.increment_log_start(35)
    logs.checkpoint_recovery_points()
    logs.checkpoint_high_watermarks()
    if how == "stray":
        logs.stray(A)
    else:
        logs.delete(A, NOW)
    logs.settle()
    if how == "deleted before a restart":
        disk.crash()
        logs = opened(disk)
    again = logs.create(A, Uuid.of(9, 9), NOW)
    values = fill(again, 20)
    disk.crash()
    found = opened(disk).get(A)
    assert found is not None and values_of(found) == values
    assert found.log_start_offset == 0


@pytest.mark.parametrize("cleaned", [True, False])
def test_a_gap_that_compaction_left_is_no_end_of_the_log(cleaned: bool) -> None:
    """The topic's own settings are not known yet when its log is opened."""
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    values = fill(log, 30)
    bases = list(log.bases)
    *_, last = log.segments[0].headers()
    logs.abandon()
    path = f"/d0/a-0/{bases[0]:020d}.log"
    disk.put(path, disk.read(path)[: last[0]])
    if cleaned:
        write_offsets(disk, "/d0/cleaner-offset-checkpoint", {A: bases[1]})
    disk.crash("all")
    found = opened(disk).get(A)
    assert found is not None
    kept = values[: bases[1] - 1]
    assert values_of(found) == (kept + values[bases[1] :] if cleaned else kept)


def test_a_log_is_found_where_it_serves_and_not_where_an_earlier_one_died() -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    dead, alive = logs.directories
    logs.create(A, TOPIC, NOW, directory_id=dead.directory_id)
    dead.fail(StorageError("gone"))
    again = logs.create(A, Uuid.of(9, 9), NOW)
    assert logs.directory_of(A) is alive and logs.get(A) is again


def test_a_log_that_was_cut_below_its_start_keeps_what_came_afterwards() -> None:
    """After an unclean election the leader may end before this log began: its start on disk must not stay."""
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, 20)
    log.high_watermark = 20
    log.increment_log_start(18)
    logs.checkpoint_recovery_points()
    log.truncate_to(5, NOW)
    values = [*values_of(log), *fill(log, 3, start=5)]
    assert log.durable_end_offset == log.log_end_offset
    disk.crash()
    again = opened(disk).get(A)
    assert again is not None and again.log_end_offset == log.log_end_offset
    assert values_of(again) == values


def test_rows_of_an_earlier_log_are_void_in_a_file_that_could_not_be_read() -> None:
    disk = formatted("/d0")
    disk.put("/d0/log-start-offset-checkpoint", b"nonsense")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, 20)
    log.high_watermark = 20
    log.increment_log_start(18)
    (job,) = logs.recovery_points()
    logs.delete(A, NOW)
    values = fill(logs.create(A, Uuid.of(3, 5), NOW), 3)
    job.run()
    disk.crash()
    again = opened(disk).get(A)
    assert again is not None and values_of(again) == values
