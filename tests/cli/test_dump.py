"""`barnabas log dump` prints what Apache Kafka's DumpLogSegments prints, of Kafka's own files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.broker.hostile_batches import lying

from barnabas.cli.main import main
from barnabas.wire.records import Record, write_batch

HERE = Path(__file__).parents[1] / "fixtures" / "dump"
KAFKA = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1"
Z = "00000000000000000000"

CASES = {
    "plain": [f"plain-0/{Z}.log"],
    "plain-data": ["--print-data-log", f"plain-0/{Z}.log"],
    "plain-deep": ["--deep-iteration", f"plain-0/{Z}.log,plain-0/{Z}.timeindex"],
    "plain-skip": ["--print-data-log", "--skip-record-metadata", f"plain-0/{Z}.log"],
    "packed-data": ["--print-data-log", f"packed-0/{Z}.log"],
    "txn-data": ["--print-data-log", f"txn-0/{Z}.log"],
    "small": [
        f"plain-0/{Z}.index",
        f"plain-0/{Z}.timeindex",
        f"txn-0/{Z}.txnindex",
        "txn-0/00000000000000000006.snapshot",
        "packed-0/00000000000000000012.snapshot",
    ],
    "offsets": ["--offsets-decoder", f"__consumer_offsets-42/{Z}.log,__consumer_offsets-0/{Z}.log"],
    "transactions": ["--transaction-log-decoder", f"__transaction_state-45/{Z}.log"],
    "torn": [f"torn-0/{Z}.log"],
    "broken": ["--print-data-log", f"broken-0/{Z}.log"],
    "gap": ["--deep-iteration", f"gap-0/{Z}.log"],
    "badindex": [f"badindex-0/{Z}.index", f"badindex-0/{Z}.timeindex"],
    "unknown": ["plain-0/leader-epoch-checkpoint"],
}


@pytest.mark.parametrize("name", CASES)
def test_the_output_equals_kafkas(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert main(["log", "dump", *CASES[name]]) == 0
    out, err = capsys.readouterr()
    assert out == (HERE / f"{name}.out").read_text(encoding="utf-8")
    said = HERE / f"{name}.err"
    assert err == (said.read_text().replace("@HERE@", str(HERE)) if said.exists() else "")


def test_a_metadata_snapshot_equals_kafkas(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "00000000000000000058-0000000001.checkpoint"
    monkeypatch.chdir(HERE)
    assert main(["log", "dump", "--cluster-metadata-decoder", f"metadata/{name}"]) == 0
    assert capsys.readouterr().out == (HERE / "snapshot.out").read_text()


def test_a_metadata_log_equals_kafkas(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert main(["log", "dump", "--cluster-metadata-decoder", f"metadata/{Z}.log"]) == 0
    assert capsys.readouterr().out == (HERE / "metadata.out").read_text()


def test_only_the_first_bytes_are_read_when_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    assert main(["log", "dump", "--max-bytes", "10", f"packed-0/{Z}.log"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["Dumping", "Log", "baseOffset:"]


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", f"nowhere/{Z}.log"]) == 4
    assert "error: there is no file nowhere/" in capsys.readouterr().err


def test_a_log_with_a_name_of_its_own_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.log").write_bytes(b"")
    assert main(["log", "dump", str(tmp_path / "mine.log")]) == 1
    assert "has not the name of a log segment" in capsys.readouterr().err


# -- verify --------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("plain-0", "packed-0"):
        shutil.copytree(HERE / name, tmp_path / name)
    return tmp_path


def test_good_partitions_verify(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(data)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "PARTITION  SEGMENTS  BATCHES  RECORDS  BYTES  PROBLEM",
        "packed-0          1        4       12    467        -",
        "plain-0           1        3        7    304        -",
    ]


def test_a_torn_end_is_no_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "plain-0" / f"{Z}.log"
    os.truncate(path, 290)
    assert main(["log", "verify", str(path.parent)]) == 0
    assert "68 bytes at the end are no batch (a crash's torn end" in capsys.readouterr().out


def test_a_wrong_crc_before_good_batches_is_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "packed-0" / f"{Z}.log"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    assert main(["log", "verify", str(data), "--json"]) == 6
    assert "CRC of the batch at offset 3 is wrong" in capsys.readouterr().out


def test_a_torn_end_of_an_older_segment_is_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "packed-0" / f"{Z}.log"
    raw = path.read_bytes()
    path.write_bytes(raw[:200])
    (data / "packed-0" / "00000000000000000006.log").write_bytes(raw[239:])
    assert main(["log", "verify", str(data)]) == 6


def test_a_batch_whose_records_cannot_be_read_hides_none_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lies = bytearray(lying(b"1", b"2", at=1))
    good = write_batch([Record(2, 1, b"k", b"behind")])
    file = tmp_path / f"{Z}.log"
    file.write_bytes(lies + good)
    assert main(["log", "dump", "--print-data-log", str(file)]) == 0
    out, _ = capsys.readouterr()
    assert "records cannot be read: broken record in the batch at offset 0: " in out
    assert "payload: behind" in out
