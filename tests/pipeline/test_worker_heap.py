"""Spark's workers do not look through our modules after every task."""

from __future__ import annotations

import gc
import importlib
import itertools
import sys
import zipfile
import zipimport
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from barnabas.pipeline import worker_heap
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.source import BarnabasSource, BatchReader

from .fake_cluster import FakeCluster


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_heap, "_uses", itertools.count(1))
    monkeypatch.setattr(worker_heap.sys, "platform", "elsewhere")
    before = gc.get_freeze_count()
    yield
    if gc.get_freeze_count() != before:
        gc.unfreeze()


def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_heap.TaskContext, "get", object)


def in_a_plan(monkeypatch: pytest.MonkeyPatch, daemon: str = "pyspark.daemon") -> None:
    program = ["python", "-m", daemon, "pyspark.sql.worker.plan_data_source_read"]
    monkeypatch.setattr(sys, "orig_argv", program)


def set_aside(use: Callable[[], object]) -> bool:
    """Whether what is there before a use is looked through for garbage no more after it."""
    mine: list[object] = []
    use()
    return not any(each is mine for each in gc.get_objects())


def test_outside_of_sparks_workers_nothing_is_set_aside() -> None:
    assert not set_aside(worker_heap.settle)


@pytest.mark.parametrize("where", [in_a_task, in_a_plan])
def test_the_first_two_uses_set_aside_what_they_find_and_no_later_one(
    monkeypatch: pytest.MonkeyPatch, where: Callable[[pytest.MonkeyPatch], None]
) -> None:
    where(monkeypatch)
    assert [set_aside(worker_heap.settle) for _ in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("daemon", ["pyspark.daemon", "barnabas.pipeline.worker_daemon"])
def test_whoever_makes_a_source_or_plans_a_batch_has_set_its_modules_aside(
    monkeypatch: pytest.MonkeyPatch, daemon: str
) -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    words = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"}
    reader = BatchReader(SourceOptions.parse(words, streaming=False), lambda _: cluster)
    in_a_plan(monkeypatch, daemon)
    assert set_aside(BarnabasSource(words).schema) and set_aside(reader.partitions)


@pytest.mark.parametrize(("name", "kept"), [("pyspark.zip", True), ("mine.zip", False)])
def test_only_sparks_own_archives_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kept: bool
) -> None:
    in_a_task(monkeypatch)
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("early.py", "")
    finder = zipimport.zipimporter(str(tmp_path / name))
    monkeypatch.setattr(sys, "path_importer_cache", {finder.archive: finder})
    worker_heap.settle()
    with zipfile.ZipFile(tmp_path / name, "a") as archive:
        archive.writestr("late.py", "")
    importlib.invalidate_caches()
    assert finder.find_spec("early") is not None
    assert (finder.find_spec("late") is None) == kept
