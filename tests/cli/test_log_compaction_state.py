"""`barnabas log compaction`: what a data directory says of its compacted logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.log.files.checkpoint import CLEANER_OFFSETS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for topic, sizes in {"prices-0": {0: 100, 50: 200, 80: 700}, "fresh-1": {0: 40}}.items():
        folder = tmp_path / topic
        folder.mkdir()
        for base, size in sizes.items():
            (folder / f"{base:020d}.log").write_bytes(bytes(size))
            (folder / f"{base:020d}.log.deleted").write_bytes(bytes(9999))
    (tmp_path / CLEANER_OFFSETS).write_text("0\n3\nprices 0 80\nfresh 1 0\ngone 0 7\n")
    return tmp_path


def test_each_log_that_was_compacted_has_its_row(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "compaction", str(data), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    fresh, prices = document["compaction"]
    assert (fresh["topic"], fresh["compacted_bytes"], fresh["new_percent"]) == ("fresh", 0, 100.0)
    assert (prices["compacted_to"], prices["segments"]) == (80, 3)
    assert (prices["compacted_bytes"], prices["new_bytes"], prices["new_percent"]) == (300, 700, 70.0)


def test_the_table_has_the_same(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "compaction", str(data)]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["TOPIC", "PARTITION", "COMPACTED-TO"]
    assert row.split() == ["prices", "0", "80", "3", "300", "700", "70.0"]


def test_a_directory_in_which_nothing_was_compacted_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "compaction", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compaction"] == []


def test_no_directory_is_an_error_with_a_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "compaction", str(tmp_path / "nowhere")]) != 0
    assert "next:" in capsys.readouterr().err
