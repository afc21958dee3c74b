"""Spark's workers do not look through our modules after every task."""

from __future__ import annotations

import gc
import importlib
import itertools
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from barnabas.pipeline import worker_heap


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_heap, "_tasks", itertools.count(1))
    monkeypatch.setattr(worker_heap.sys, "platform", "elsewhere")
    before = gc.get_freeze_count()
    yield
    if gc.get_freeze_count() != before:
        gc.unfreeze()


def in_a_task(monkeypatch: pytest.MonkeyPatch, *, yes: bool) -> None:
    monkeypatch.setattr(worker_heap.TaskContext, "get", lambda: object() if yes else None)


def test_outside_of_a_task_nothing_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_task(monkeypatch, yes=False)
    before = gc.get_freeze_count()
    worker_heap.settle()
    assert gc.get_freeze_count() == before


def test_the_first_two_tasks_set_aside_what_they_find_and_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_a_task(monkeypatch, yes=True)
    counts = []
    for _ in range(4):
        kept = [[] for _ in range(1000)]
        worker_heap.settle()
        counts.append((gc.get_freeze_count(), kept))
    assert counts[0][0] > 1000 and counts[1][0] >= counts[0][0] + 1000
    assert counts[3][0] <= counts[1][0]


@pytest.mark.parametrize(("name", "kept"), [("pyspark.zip", True), ("mine.zip", False)])
def test_only_sparks_own_archives_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kept: bool
) -> None:
    in_a_task(monkeypatch, yes=True)
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
