"""`barnabas log verify` on directories in which something is missing that must be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.log.log_building import NOW, Chance, fill, small

from barnabas.cli.main import main
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import MetaProperties, write_meta_properties
from barnabas.model import TopicPartition, Uuid


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A data directory with one log of several segments, closed in order."""
    root = str(tmp_path / "data")
    OsDisk().make_directories(root)
    write_meta_properties(OsDisk(), root, MetaProperties("cluster", 1, Uuid.of(5, 6)), NOW)
    logs = open_directories(root)
    log = logs.create(TopicPartition("t", 0), Uuid.of(3, 4), NOW)
    fill(log, 40)
    assert len(log.segments) > 3
    logs.close(NOW)
    return Path(root)


def open_directories(root: str) -> LogDirectories:
    return LogDirectories.open(
        OsDisk(),
        [root],
        cluster_id="cluster",
        node_id=1,
        config_for=lambda topic: small(),
        randomness=Chance(),
        now=NOW,
    )


def _no_files(path: Path, bases: list[int], which: int) -> None:
    for name in path.glob(f"{bases[which]:020d}.*index"):
        name.unlink()
    (path / f"{bases[which]:020d}.log").unlink()


def _change(file: Path, position: int, byte: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] = byte
    file.write_bytes(content)


EPOCH_BYTE = 15
"""The last byte of the leader epoch of a file's first batch, which no CRC covers."""
HARMS: dict[str, tuple[Callable[[Path, list[int]], object], str]] = {
    "first deleted": (lambda path, bases: _no_files(path, bases, 0), "up to"),
    "middle deleted": (lambda path, bases: _no_files(path, bases, 2), "the next begins at"),
    "only its log": (lambda path, bases: (path / f"{bases[2]:020d}.log").unlink(), "the next begins at"),
    "middle emptied": (
        lambda path, bases: (path / f"{bases[2]:020d}.log").write_bytes(b""),
        "ends at offset",
    ),
    "middle cut": (
        lambda path, bases: os.truncate(path / f"{bases[2]:020d}.log", 300),
        "the end are no batch",
    ),
    "an epoch changed": (
        lambda path, bases: _change(path / f"{bases[2]:020d}.log", EPOCH_BYTE, 99),
        "comes after epoch 99",
    ),
    "last emptied": (lambda path, bases: (path / f"{bases[-1]:020d}.log").write_bytes(b""), "was synced"),
    "last deleted": (lambda path, bases: _no_files(path, bases, -1), "was synced"),
    "all deleted": (lambda path, bases: [log.unlink() for log in path.glob("*.log")], "was synced"),
    "directory deleted": (lambda path, bases: shutil.rmtree(path), "its directory is missing"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_missing_is_damage(harm: str, several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(several)]) == 0
    path = several / "t-0"
    bases = sorted(int(log.name[:20]) for log in path.glob("*.log"))
    act, words = HARMS[harm]
    act(path, bases)
    assert main(["log", "verify", str(several)]) == 6
    assert words in capsys.readouterr().out
    if path.is_dir():
        assert main(["log", "verify", str(path)]) == 6


def test_what_retention_and_truncation_leave_is_no_damage(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = open_directories(str(several))
    log = logs.get(TopicPartition("t", 0))
    assert log is not None
    log.high_watermark = log.log_end_offset
    log.increment_log_start(log.bases[2] + 1)
    assert log.retain(NOW) and log.truncate_to(log.bases[-1] + 1, NOW)
    log.sync()
    logs.abandon()
    assert main(["log", "verify", str(several)]) == 0
