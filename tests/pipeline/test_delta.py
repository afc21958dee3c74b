"""An archive is a Delta table: it has the files of whole micro-batches, each once, however often it is told."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from barnabas.errors import BarnabasError  # noqa: E402 (only where it is installed)
from barnabas.pipeline.archives.delta import DeltaLog, _statistics  # noqa: E402
from barnabas.pipeline.archives.directory import ArchiveDirectory, ArchivedTopic  # noqa: E402

NOON = dt.datetime(2026, 11, 25, 12, tzinfo=dt.UTC)


@pytest.fixture
def place(tmp_path: Path) -> ArchiveDirectory:
    found = ArchiveDirectory(str(tmp_path / "archive"))
    found.claim("cluster", [ArchivedTopic("a.b-c_1", "id", 2)])
    return found


def batch(
    place: ArchiveDirectory, number: int, *offsets: range, listed: bool = True, ended: bool = True
) -> None:
    """A micro-batch of Spark's with a file for each range, in partition 0, 1, ..."""
    import pyarrow.parquet as pq

    lines = ["v1"]
    for partition, some in enumerate(offsets):
        folder = Path(place.records, "topic=a.b-c_1", f"partition={partition}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{number:05}-{partition}.c000.snappy.parquet"
        table = {
            "value": pa.array([b"v%d" % n for n in some], pa.binary()),
            "offset": pa.array(list(some), pa.int64()),
            "timestamp": pa.array([NOON + dt.timedelta(seconds=n) for n in some], pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(table), path)
        lines.append(json.dumps({"path": f"file://{path}", "size": 1, "isDir": False, "action": "add"}))
    for directory, wanted, text in (
        (Path(place.records, "_spark_metadata"), listed, "\n".join(lines)),
        (Path(place.checkpoint, "commits"), ended, ""),
    ):
        directory.mkdir(parents=True, exist_ok=True)
        if wanted:
            (directory / str(number)).write_text(text)


def rows(place: ArchiveDirectory, **more: object) -> list[tuple[str, int, int]]:
    found = deltalake.DeltaTable(place.records).to_pyarrow_table(**more).to_pylist()
    return sorted((row["topic"], row["partition"], row["offset"]) for row in found)


def test_the_table_has_the_rows_of_whole_micro_batches_once(place: ArchiveDirectory) -> None:
    assert DeltaLog(place).add_new() == 0, "nothing is archived yet"
    batch(place, 0, range(3), range(2))
    log = DeltaLog(place)
    assert (log.add_new(), log.add_new(), DeltaLog(place).add_new()) == (2, 0, 0)
    batch(place, 1, range(3, 5))
    batch(place, 2, range(100, 200), listed=False, ended=False)  # it was cut off
    assert (log.add_new(), log.add_new(), DeltaLog(place).add_new()) == (1, 0, 0)
    name = "a.b-c_1"
    assert rows(place) == [*((name, 0, n) for n in range(5)), *((name, 1, n) for n in range(2))]
    assert rows(place, filters=[("offset", ">=", 3)]) == [(name, 0, 3), (name, 0, 4)]
    table = deltalake.DeltaTable(place.records)
    assert [entry["barnabas.batch"] for entry in table.history()] == ["1", "0"]
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert sorted((one["num_records"], one["min.offset"], one["max.offset"]) for one in actions) == [
        (2, 0, 1),
        (2, 3, 4),
        (3, 0, 2),
    ]


@pytest.mark.parametrize("lost", ["before the commit", "after the commit"])
def test_a_run_that_was_cut_off_adds_the_rest_the_next_time(
    place: ArchiveDirectory, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    batch(place, 0, range(3))
    DeltaLog(place).add_new()
    batch(place, 1, range(3, 5))
    commit: Callable[..., None] = DeltaLog._commit

    def dies(*given: object) -> None:
        if lost == "after the commit":
            commit(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "_commit", dies)
        with pytest.raises(KeyboardInterrupt):
            DeltaLog(place).add_new()
    DeltaLog(place).add_new()
    assert [offset for _, _, offset in rows(place)] == list(range(5))


def test_a_table_of_an_archive_that_was_moved_moves_along(place: ArchiveDirectory, tmp_path: Path) -> None:
    batch(place, 0, range(3))
    DeltaLog(place).add_new()
    Path(place.path).rename(tmp_path / "moved here")
    moved = ArchiveDirectory(str(tmp_path / "moved here"))
    assert DeltaLog(moved).add_new() == 0
    batch(moved, 1, range(3, 5))
    assert DeltaLog(moved).add_new() == 1
    assert len(rows(moved)) == 5


def test_a_table_that_somebody_else_has_changed_is_refused(place: ArchiveDirectory) -> None:
    batch(place, 0, range(3))
    batch(place, 1, range(3, 5))
    DeltaLog(place).add_new()
    deltalake.DeltaTable(place.records).optimize.compact()
    with pytest.raises(BarnabasError, match="which the archive has not") as caught:
        DeltaLog(place).add_new()
    assert caught.value.next_step


def test_without_deltalake_the_line_that_installs_it_is_said(
    place: ArchiveDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(BarnabasError, match="needs deltalake"):
        DeltaLog(place)


def test_a_log_that_cannot_be_written_leaves_the_table_as_it_was(place: ArchiveDirectory) -> None:
    batch(place, 0, range(3))
    DeltaLog(place).add_new()
    batch(place, 1, range(3, 5))
    log = Path(place.records, "_delta_log")
    kept = log.rename(log.with_name("_away"))
    log.write_text("no directory")
    with pytest.raises(BarnabasError):
        DeltaLog(place).add_new()
    log.unlink()
    kept.rename(log)
    assert len(rows(place)) == 3


@pytest.mark.parametrize(
    ("microseconds", "has_times"), [(1_700_000_000_000_000, True), (1_700_000_000_000_000_000, False)]
)
def test_a_file_with_times_after_the_year_9999_has_no_bounds_for_them(
    microseconds: int, has_times: bool, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    path = str(tmp_path / "a.parquet")
    times = pa.array([microseconds], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"offset": pa.array([1], pa.int64()), "timestamp": times}), path)
    found = json.loads(_statistics(path))
    assert found["maxValues"]["offset"] == 1
    assert ("timestamp" in found["minValues"]) == ("timestamp" in found["maxValues"]) == has_times
