"""What jobs are made of, without Spark: checksums, indexes, plans, comparisons, reasons in one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.archives.directory import ArchiveDirectory, ArchivedTopic, NoArchiveError
from barnabas.pipeline.archives.file_log import DamagedArchiveError, listed_files
from barnabas.pipeline.archives.index import (
    ArchivedFile,
    FilesInOrder,
    grown_index,
    index_of,
    read_index,
    write_index,
)
from barnabas.pipeline.archives.source import ArchiveReader, admit_files
from barnabas.pipeline.jobs import restore
from barnabas.pipeline.jobs.audit import Side, compare
from barnabas.pipeline.jobs.checksums import Run, join_runs, run_of_row, runs_of
from barnabas.pipeline.jobs.held_directory import held_for
from barnabas.pipeline.jobs.late_flights import late_flights
from barnabas.pipeline.jobs.progress import Progress, plain_failure
from barnabas.pipeline.jobs.restored_topics import Times, changes_needed

pa = pytest.importorskip("pyarrow")

HERE = TopicPartition("t", 0)
HASHES = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=30)


def rows(hashes: list[int], first: int = 0, partition: int = 0) -> pa.RecordBatch:
    """Rows of one partition as a task of an audit sees them."""
    count = len(hashes)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * count,
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "hash": pa.array(hashes, pa.int64()),
        }
    )


def run(*batches: pa.RecordBatch) -> Run:
    """What one partition comes to, read in one task."""
    return join_runs(run_of_row(row) for batch in runs_of(batches) for row in batch.to_pylist())[HERE]


@given(HASHES, st.data())
def test_a_checksum_does_not_depend_on_where_tasks_and_batches_end(
    hashes: list[int], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(hashes)))
    whole = run(rows(hashes))
    assert run(rows(hashes[:cut]), rows(hashes[cut:], first=cut)) == whole
    parts = [one for one in (rows(hashes[cut:], first=cut), rows(hashes[:cut])) if one.num_rows]
    assert join_runs(run(part) for part in parts)[HERE] == whole


@given(HASHES, st.data())
def test_a_checksum_sees_a_record_that_is_missing_twice_changed_or_elsewhere(
    hashes: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(hashes) - 1))
    whole = run(rows(hashes))
    changed = [*hashes[:at], hashes[at] ^ 1, *hashes[at + 1 :]]
    assert run(rows(changed)).checksum != whole.checksum
    twice = run(rows([*hashes[:at], hashes[at], *hashes[at:]]))
    assert (twice.records, twice.checksum) != (whole.records, whole.checksum)
    if at and hashes[at] != hashes[at - 1]:
        swapped = [*hashes[: at - 1], hashes[at], hashes[at - 1], *hashes[at + 1 :]]
        assert run(rows(swapped)).checksum != whole.checksum


def test_the_checksum_of_a_partition_ignores_offsets() -> None:
    assert run(rows([5, 6], first=0)).checksum == run(rows([5], first=3), rows([6], first=9)).checksum


def test_rows_of_several_partitions_in_one_batch_are_told_apart() -> None:
    both = pa.Table.from_batches([rows([1, 2]), rows([3], partition=1)]).combine_chunks().to_batches()
    found = join_runs(run_of_row(row) for batch in runs_of(both) for row in batch.to_pylist())
    assert {where.partition: one.records for where, one in found.items()} == {0: 2, 1: 1}


def test_an_offset_that_was_read_twice_is_an_error() -> None:
    with pytest.raises(BarnabasError, match="t-0: offset 1 was read twice"):
        join_runs([Run(HERE, 0, 1, 2, 0), Run(HERE, 1, 2, 2, 0)])


def file(first: int, last: int, partition: int = 0) -> ArchivedFile:
    return ArchivedFile("t", partition, first, last, last - first + 1, f"{partition}-{first}")


def test_a_micro_batch_takes_whole_files_of_each_partition_in_turn() -> None:
    files = FilesInOrder([file(10, 19), file(0, 9), file(0, 9, partition=1)])
    other = TopicPartition("t", 1)
    assert admit_files(files, {}, 15) == {HERE: 10, other: 10}
    assert admit_files(files, {HERE: 10, other: 10}, 15) == {HERE: 20, other: 10}
    assert admit_files(files, {}, None) == {HERE: 20, other: 10}
    assert files.between(HERE, 10, 20) == [file(10, 19)]
    assert files.between(other, 10, 10) == files.between(TopicPartition("u", 0), 0, 99) == []


def write_file(directory: Path, offsets: list[int], name: str = "a.parquet") -> str:
    """A file of an archive, with offsets alone."""
    import pyarrow.parquet as pq

    folder = directory / "records" / "topic=t" / "partition=0"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"offset": pa.array(offsets, pa.int64())}), folder / name)
    return str(folder / name)


def test_an_index_has_the_files_by_offset_without_empty_ones(tmp_path: Path) -> None:
    later, earlier = write_file(tmp_path, [5, 7]), write_file(tmp_path, [1, 2], "b.parquet")
    found = index_of([later, write_file(tmp_path, [], "c.parquet"), earlier])
    assert [(one.where, one.first, one.last, one.records) for one in found] == [
        (HERE, 1, 2, 2),
        (HERE, 5, 7, 2),
    ]


def test_files_that_overlap_or_cannot_be_read_are_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedArchiveError, match="both have offset 2"):
        index_of([write_file(tmp_path, [1, 3]), write_file(tmp_path, [2], "b.parquet")])
    broken = write_file(tmp_path, [1])
    Path(broken).write_bytes(b"PAR1, but nothing else")
    with pytest.raises(DamagedArchiveError, match=r"a\.parquet cannot be read"):
        index_of([broken])


def test_a_value_that_was_damaged_on_its_disk_is_no_row(tmp_path: Path) -> None:
    """Spark writes a checksum for each page."""
    import pyarrow.parquet as pq

    path = tmp_path / "records" / "topic=t" / "partition=0" / "a.parquet"
    path.parent.mkdir(parents=True)
    columns = {
        "key": pa.array([None, None], pa.binary()),
        "value": pa.array([b"right and right", b"left and left"], pa.binary()),
        "offset": pa.array([0, 1], pa.int64()),
        "timestamp": pa.array([0, 0], pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0, 0], pa.int32()),
        "headers": pa.array([None, None], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))),
    }
    pq.write_table(
        pa.table(columns), path, write_page_checksum=True, compression="none", use_dictionary=False
    )
    [part] = ArchiveReader(FilesInOrder(index_of([str(path)]))).partitions()
    [batch] = ArchiveReader(FilesInOrder([])).read(part)
    assert batch.column("value").to_pylist() == [b"right and right", b"left and left"]
    content = path.read_bytes()
    assert content.count(b"left and left") >= 1
    path.write_bytes(content.replace(b"left and left", b"left and lost"))
    with pytest.raises(DamagedArchiveError, match=r"a\.parquet cannot be read: .*CRC checksum"):
        list(ArchiveReader(FilesInOrder([])).read(part))


def test_a_directory_is_the_archive_of_one_set_of_topics_of_one_cluster(tmp_path: Path) -> None:
    place, topic = ArchiveDirectory(str(tmp_path / "new")), ArchivedTopic("t", "id-1", 3)
    place.claim("cluster", [topic])
    place.claim("cluster", [topic])
    assert place.topics() == [topic]
    with pytest.raises(ConfigError, match="an archive of cluster cluster, not of other"):
        place.claim("other", [topic])
    with pytest.raises(ConfigError, match=r"is an archive of t\n"):
        place.claim("cluster", [topic, ArchivedTopic("u", "id-2", 1)])
    with pytest.raises(ConfigError, match="another topic t, which was deleted"):
        place.claim("cluster", [ArchivedTopic("t", "id-3", 3)])


def test_a_directory_with_something_else_is_neither_written_nor_read(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="holds something else"):
        ArchiveDirectory(str(tmp_path)).claim("cluster", [])
    with pytest.raises(NoArchiveError, match="is not an archive"):
        ArchiveDirectory(str(tmp_path)).topics()
    (tmp_path / "archive.json").write_text("{}")
    with pytest.raises(DamagedArchiveError):
        ArchiveDirectory(str(tmp_path)).topics()


def restored(archive: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin to restore an archive of one topic without records; no cluster is asked."""

    @contextlib.contextmanager
    def admin(*_: object, **__: object) -> Iterator[Any]:
        yield SimpleNamespace(cluster=SimpleNamespace(cluster_id=lambda: "there"))

    ArchiveDirectory(str(archive)).claim("here", [ArchivedTopic("t", "id", 1)])
    monkeypatch.setattr(restore, "Admin", admin)
    monkeypatch.setattr(restore, "prepare", lambda *_: {})
    nobody: Any = None
    restore.restore(nobody, str(archive), "127.0.0.1:1", Progress("r"), checkpoint=str(checkpoint))


@pytest.mark.parametrize("job", ["restore", "flights"])
def test_a_job_does_not_take_the_directory_of_another_one(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on from the other query's checkpoint, and leave out what that one has written."""
    other = tmp_path / "mirror"
    (other / "checkpoint").mkdir(parents=True)
    (other / "mirror.json").write_text("{}")
    with pytest.raises(ConfigError, match="mirror holds something else"):
        if job == "restore":
            restored(tmp_path / "archive", other, monkeypatch)
        else:
            nobody: Any = None
            late_flights(nobody, "127.0.0.1:1", "t", "late", str(other), Progress("f"))


def test_a_restore_whose_directory_cannot_be_written_names_the_flag_for_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="says how far the restore is, cannot be written") as caught:
        restored(tmp_path / "archive", tmp_path / "file" / "below", monkeypatch)
    assert "--checkpoint DIR" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    "topics",
    [
        *("[]", "5", '{"t": 5}', '{"t": {"id": "x"}}', '{"t": {"id": "x", "partitions": "many"}}'),
        *('{"t": {"id": "x", "partitions": 1, "configs": 5}}', "[" * 100_000),
    ],
    ids=lambda text: text[:40],
)
def test_a_manifest_that_is_damaged_anywhere_is_told_before_anything_is_done(
    topics: str, tmp_path: Path
) -> None:
    text = f'{{"format": 1, "cluster": "c", "topics": {topics}}}'
    (tmp_path / "archive.json").write_text(text)
    place = ArchiveDirectory(str(tmp_path))
    for asked in (place.topics, place.files, lambda: place.claim("c", [ArchivedTopic("t", "x", 1)])):
        with pytest.raises(DamagedArchiveError, match=r"archive\.json cannot be read") as caught:
            asked()
        assert caught.value.next_step
    assert (tmp_path / "archive.json").read_text() == text


def list_files(records: Path, name: str, *paths: str) -> None:
    """One log file of Spark's file sink."""
    (records / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "size": 1, "isDir": False, "action": "add"}) for path in paths]
    (records / "_spark_metadata" / name).write_text("\n".join(["v1", *lines]))


def test_files_are_looked_for_in_the_archive_itself_wherever_it_was_when_spark_listed_them(
    tmp_path: Path,
) -> None:
    below = [f"topic=t/partition=0/part-{number}.parquet" for number in range(4)]
    was = [f"file:///elsewhere/with%20space/records/{path}" for path in below]
    list_files(tmp_path, "8", was[0])
    list_files(tmp_path, "9.compact", was[0], was[1])
    list_files(tmp_path, "10", was[2])
    list_files(tmp_path, "11")
    assert listed_files(str(tmp_path)) == [str(tmp_path / path) for path in below[:3]]
    list_files(tmp_path, "13", was[3])
    with pytest.raises(DamagedArchiveError, match="lacks a micro-batch"):
        listed_files(str(tmp_path))
    list_files(tmp_path, "12", "x")
    with pytest.raises(DamagedArchiveError, match="x is no file of an archive"):
        listed_files(str(tmp_path))
    (tmp_path / "_spark_metadata" / "12").write_text("v9")
    with pytest.raises(DamagedArchiveError, match="its version is 'v9'"):
        listed_files(str(tmp_path))


def test_a_file_in_place_of_a_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("dear")
    for action in (
        ArchiveDirectory(str(letter)).topics,
        lambda: ArchiveDirectory(str(letter)).claim("c", []),
    ):
        with pytest.raises(ConfigError, match="is a file: an archive is a directory"):
            action()
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        ArchiveDirectory(str(letter / "below")).claim("c", [])


def test_an_archive_keeps_the_configs_of_its_topics_also_where_they_cannot_be_seen_later(
    tmp_path: Path,
) -> None:
    place, configs = ArchiveDirectory(str(tmp_path)), {"retention.ms": "5"}
    place.claim("c", [ArchivedTopic("t", "id", 1, configs)])
    place.claim("c", [ArchivedTopic("t", "id", 2)])
    assert place.topics() == [ArchivedTopic("t", "id", 2, configs)]


DAY = 86_400_000


def test_a_restored_topic_neither_deletes_nor_changes_what_it_gets() -> None:
    def changed(oldest: int | None, newest: int | None = 10 * DAY, **configs: str) -> dict[str, str]:
        said = {name.replace("_", "."): value for name, value in configs.items()}
        return {one.name: one.value for one in changes_needed(said, Times(oldest, newest), now=10 * DAY)}

    week = str(7 * DAY)
    assert changed(4 * DAY, retention_ms=week) == {}
    assert changed(2 * DAY, retention_ms=week) == {"retention.ms": "-1"}
    assert changed(None, retention_ms=week) == {"retention.ms": "-1"}, "nobody knows how old they are"
    assert changed(-1, retention_ms="-1", retention_bytes="-1") == {}
    assert changed(0, retention_ms=week, retention_bytes="1", cleanup_policy="compact") == {}
    assert changed(9 * DAY, retention_ms=week, retention_bytes="1000") == {"retention.bytes": "-1"}
    assert changed(9 * DAY, message_timestamp_type="LogAppendTime") == {
        "message.timestamp.type": "CreateTime"
    }
    assert list(changed(1, message_timestamp_before_max_ms="5")) == ["message.timestamp.before.max.ms"]
    hour = {"message_timestamp_after_max_ms": "3600000"}
    assert changed(9 * DAY, 10 * DAY + 3_600_000, **hour) == {}
    for newest in (11 * DAY, None):
        assert list(changed(9 * DAY, newest, **hour)) == ["message.timestamp.after.max.ms"]


def test_an_index_has_the_oldest_and_the_newest_time_of_each_file(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = write_file(tmp_path, [1, 2])
    times = pa.array([5_000_000, 7_000_999], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"offset": pa.array([1, 2], pa.int64()), "timestamp": times}), path)
    [found] = index_of([path])
    assert (found.oldest, found.newest) == (5_000, 7_000)


def test_a_list_of_files_that_lost_a_micro_batch_is_damage_not_an_empty_archive(tmp_path: Path) -> None:
    place = ArchiveDirectory(str(tmp_path))
    assert not place.check_list(), "no micro-batch has ended yet"
    commits, listed = tmp_path / "_checkpoint" / "commits", tmp_path / "records" / "_spark_metadata"
    for directory, name in ((commits, "0"), (commits, "9"), (listed, "9.compact"), (listed, ".9.crc")):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    assert place.check_list()
    (commits / "10").touch()
    with pytest.raises(DamagedArchiveError, match="up to 9, and 10 has ended"):
        place.check_list()
    (listed / "9.compact").unlink()
    with pytest.raises(DamagedArchiveError, match="the list of its files, is gone"):
        place.check_list()


def test_what_a_killed_run_left_is_deleted_and_what_is_listed_stays(tmp_path: Path) -> None:
    place = ArchiveDirectory(str(tmp_path))
    place.claim("cluster", [ArchivedTopic("t", "id-1", 1)])
    folder = tmp_path / "records" / "topic=t" / "partition=0"
    folder.mkdir(parents=True)
    for name in ("part-0.parquet", ".part-0.parquet.crc", "part-1.parquet", ".part-1.parquet.crc"):
        (folder / name).touch()
    list_files(tmp_path / "records", "0", "file:///elsewhere/topic=t/partition=0/part-0.parquet")
    place.remove_unlisted()
    assert sorted(path.name for path in folder.iterdir()) == [".part-0.parquet.crc", "part-0.parquet"]
    assert (tmp_path / "records" / "_spark_metadata" / "0").exists()


def test_a_file_that_no_micro_batch_wrote_stays(tmp_path: Path) -> None:
    place = ArchiveDirectory(str(tmp_path))
    place.claim("cluster", [ArchivedTopic("t", "id-1", 1)])
    folder = tmp_path / "records" / "topic=t" / "partition=0"
    folder.mkdir(parents=True)
    (tmp_path / "records" / "README.md").touch()
    (folder / "mine.csv").touch()
    place.remove_unlisted()
    assert (tmp_path / "records" / "README.md").exists() and (folder / "mine.csv").exists()


def test_a_micro_batch_that_began_says_that_the_one_before_has_ended(tmp_path: Path) -> None:
    """So a list that lost its end is noticed, too, where the notes of ended micro-batches lost theirs."""
    place = ArchiveDirectory(str(tmp_path))
    place.claim("cluster", [ArchivedTopic("t", "id-1", 1)])
    ended = tmp_path / "records" / "topic=t" / "partition=0" / "part-1.parquet"
    ended.parent.mkdir(parents=True)
    ended.touch()
    list_files(tmp_path / "records", "0", "file:///elsewhere/topic=t/partition=0/part-0.parquet")
    begun = tmp_path / "_checkpoint" / "offsets"
    begun.mkdir(parents=True)
    (begun / "1").touch()
    assert place.check_list()
    (begun / "2").touch()
    with pytest.raises(DamagedArchiveError, match="up to 0, and 1 has ended"):
        place.remove_unlisted()
    assert ended.exists()


def test_an_archive_goes_on_only_with_a_checkpoint_as_new_as_its_list(tmp_path: Path) -> None:
    """Spark takes a micro-batch whose number is listed for written, and leaves its records out."""
    place = ArchiveDirectory(str(tmp_path))
    place.claim("cluster", [ArchivedTopic("t", "id-1", 1)])
    place.check_checkpoint()
    for number in ("0", "1"):
        list_files(tmp_path / "records", number)
    with pytest.raises(DamagedArchiveError, match="_checkpoint is gone"):
        place.check_checkpoint()
    begun = tmp_path / "_checkpoint" / "offsets"
    begun.mkdir(parents=True)
    (begun / "0").touch()
    with pytest.raises(DamagedArchiveError, match=r"up to 1, and .*_checkpoint knows them up to 0"):
        place.check_checkpoint()
    assert place.files() == [], "reading needs no checkpoint"
    (begun / "1").touch()
    place.check_checkpoint()


def test_of_an_archive_whose_list_is_gone_no_file_is_deleted(tmp_path: Path) -> None:
    place = ArchiveDirectory(str(tmp_path))
    place.claim("cluster", [ArchivedTopic("t", "id-1", 1)])
    only = tmp_path / "records" / "topic=t" / "partition=0" / "part-0.parquet"
    only.parent.mkdir(parents=True)
    only.touch()
    with pytest.raises(DamagedArchiveError, match="has files, and no list of them"):
        place.remove_unlisted()
    assert only.exists()
    begun = tmp_path / "_checkpoint" / "offsets" / "0"
    begun.parent.mkdir(parents=True)
    begun.touch()
    place.remove_unlisted()
    assert not only.exists(), "the first micro-batch began and did not end: it is written again"


def test_two_runs_do_not_work_in_one_directory(tmp_path: Path) -> None:
    with (
        held_for("an archive", str(tmp_path)),
        pytest.raises(BarnabasError, match="another process runs an archive in"),
        held_for("an archive", str(tmp_path)),
    ):
        pass
    with held_for("an archive", str(tmp_path)):
        pass


def test_a_directory_is_held_by_a_link_to_it_too(tmp_path: Path) -> None:
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    with held_for("an archive", str(link)), pytest.raises(BarnabasError), held_for("an archive", str(place)):
        pass
    with (
        pytest.raises(BarnabasError, match="cannot be held for an archive"),
        held_for("an archive", f"{place}/no"),
    ):
        pass


def test_an_index_grows_with_its_archive_and_refuses_another_one(tmp_path: Path) -> None:
    path = str(tmp_path / "index.json")
    write_index(path, [file(0, 9)])
    grown_index(path, [file(0, 9), file(10, 19)])
    assert [one.last for one in read_index(path)] == [9, 19]
    with pytest.raises(ConfigError, match="belongs to another archive"):
        grown_index(path, [file(0, 8), file(10, 19)])


@pytest.mark.parametrize("content", [b"", b"{}}", b'{"a": 1}', b'[{"topic": "t"}]', b"\xff", b"[" * 100_000])
def test_an_index_that_is_damaged_is_told_with_what_helps(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "index.json").write_bytes(content)
    with pytest.raises(BarnabasError, match="is no index of an archive") as caught:
        read_index(str(tmp_path / "index.json"))
    assert "--checkpoint" in (caught.value.next_step or "")


def verdicts(*sides: dict[TopicPartition, Run | None], rename: dict[str, str] | None = None) -> list[str]:
    named = [(str(number), side) for number, side in enumerate(sides)]
    return [finding.verdict for finding in compare(named, rename or {})]


def test_an_audit_says_what_is_missing_more_or_other() -> None:
    one = Run(HERE, 0, 9, 10, 77)
    copy = Run(TopicPartition("copy", 0), 3, 14, 10, 77)
    assert verdicts({HERE: one}, {copy.where: copy}) == ["", "equal"]
    assert verdicts({HERE: one}, {HERE: Run(HERE, 0, 9, 10, 78)}) == ["", "other contents or order"]
    assert verdicts({HERE: one}, {HERE: Run(HERE, 0, 8, 9, 77)}) == ["", "1 missing"]
    assert verdicts({HERE: one}, {HERE: None}) == ["", "10 missing"]
    assert verdicts({HERE: None}, {HERE: one}) == ["", "10 more"]


def test_what_is_empty_on_both_sides_is_equal_and_what_is_not_there_is_not() -> None:
    other, more = TopicPartition("u", 0), TopicPartition("t", 1)
    assert verdicts({HERE: None}, {HERE: None}) == ["", "equal"]
    assert verdicts({HERE: None}, {HERE: None, more: None}) == ["", "equal", "equal"]
    assert verdicts({HERE: None, other: None}, {HERE: None}) == [
        "",
        "equal",
        "",
        "one side has no such topic",
    ]


def test_an_audit_of_several_topics_follows_their_new_names() -> None:
    first, second = Run(HERE, 0, 9, 10, 77), Run(TopicPartition("u", 0), 0, 4, 5, 3)
    moved = {TopicPartition("t2", 0): first, second.where: second}
    assert verdicts({HERE: first, second.where: second}, moved, rename={"t": "t2"}) == [
        "",
        "equal",
        "",
        "equal",
    ]


def test_a_side_is_a_directory_or_topics_of_a_cluster(tmp_path: Path) -> None:
    assert Side.parse(str(tmp_path)).bootstrap is None
    assert Side.parse("a:1,b:2/t,u") == Side("a:1,b:2/t,u", "a:1,b:2", ("t", "u"))
    for wrong in ("nowhere", "host/t", "host:1/", "host:1"):
        with pytest.raises(ConfigError, match="neither a directory nor topics"):
            Side.parse(wrong)


def test_a_failure_of_spark_is_said_in_one_line() -> None:
    said = (
        "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n"
        "barnabas.pipeline.plan.DataLossError: t-0 from offset 3: it is gone\n"
        "next: archive from where the log begins\n"
    )
    failure = plain_failure(RuntimeError(said), "run it again")
    assert (str(failure), failure.next_step) == (
        "t-0 from offset 3: it is gone",
        "archive from where the log begins",
    )
    option = said.replace("archive from where the log begins", "set failOnDataLoss to false to go on")
    advice = plain_failure(RuntimeError(option), "run it again").next_step or ""
    assert "--accept-loss" in advice and "failOnDataLoss" not in advice, "a job has flags, not options"
    option = said.replace("archive from where the log begins", 'name them: .option("columns", "key,value")')
    assert ".option" not in (plain_failure(RuntimeError(option), "run it again").next_step or "")
    full = plain_failure(
        RuntimeError("x\nCaused by: java.io.IOException: No space left on device"), "run it again"
    )
    assert (str(full), full.next_step) == ("the disk is full", "free some space, then run it again")
    below = RuntimeError("[TASK_WRITE_FAILED] Task failed while writing rows")
    below._cause = RuntimeError("java")  # type: ignore[attr-defined]  # as PySpark keeps it
    below._cause._stackTrace = "java\nCaused by: java.io.IOException: No space left on device"  # type: ignore[attr-defined]
    assert str(plain_failure(below, "run it again")) == "the disk is full"
    other = plain_failure(
        RuntimeError("first\nCaused by: java.lang.Error: a\nCaused by: b.C: last"), "run it again"
    )
    assert (str(other), other.next_step) == ("b.C: last", "run it again")
