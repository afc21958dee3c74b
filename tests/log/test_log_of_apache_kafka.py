"""A directory that Apache Kafka 4.3.1 wrote, against what its own DumpLogSegments prints for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.log_building import NOW, Chance

from barnabas.config import LogConfig
from barnabas.errors import StorageError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.log.files.snapshot import SnapshotId, list_snapshots, read_snapshot
from barnabas.log.log import Log
from barnabas.log.producers.snapshot import decode_producers, encode_producers
from barnabas.log.segments.index import OffsetIndex, TimeIndex
from barnabas.log.segments.transactions import TransactionIndex
from barnabas.model import TopicPartition, Uuid
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, check_crc, read_batch_header

KAFKA = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
CONFIG = LogConfig(index_interval_bytes=512, segment_ms=1200, retention_ms=-1)
PARTITIONS = ["plain-0", "txn-0"]
FOREVER = 1 << 62


def dump() -> dict[str, list[str]]:
    """What DumpLogSegments printed, by file."""
    found: dict[str, list[str]] = {}
    for line in (KAFKA / "dump-data.txt").read_text().splitlines():
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        else:
            lines.append(line)
    return found


def planted(*left_out: str) -> MemoryDisk:
    disk = MemoryDisk(wall_ms=NOW.wall_ms)
    for path in sorted((KAFKA / "data").rglob("*")):
        if path.is_file() and not path.name.endswith(left_out):
            disk.put(f"/kafka/{path.relative_to(KAFKA / 'data')}", path.read_bytes())
    return disk


def opened(disk: MemoryDisk) -> LogDirectories:
    return LogDirectories.open(
        disk,
        ["/kafka"],
        cluster_id=CLUSTER,
        node_id=1,
        config_for=lambda topic: CONFIG,
        randomness=Chance(),
        now=NOW,
        expiration_ms=FOREVER,
    )


def log_of(directories: LogDirectories, name: str) -> Log:
    topic, _, partition = name.rpartition("-")
    log = directories.get(TopicPartition(topic, int(partition)))
    assert log is not None
    return log


def printed_batches(name: str) -> Iterator[dict[str, str]]:
    for file, lines in sorted(dump().items()):
        if file.startswith(name) and file.endswith(".log"):
            for line in lines:
                if line.startswith("baseOffset"):
                    yield dict(re.findall(r"(\w+): (\S+)", line))


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("clean", [True, False])
def test_every_batch_is_what_kafka_says_it_is(name: str, clean: bool) -> None:
    log = log_of(opened(planted(*(() if clean else (".kafka_cleanshutdown",)))), name)
    ours = list(log.batches())
    theirs = list(printed_batches(name))
    assert len(ours) == len(theirs) > 40
    for header, printed in zip(ours, theirs, strict=True):
        assert header.base_offset == int(printed["baseOffset"])
        assert header.last_offset == int(printed["lastOffset"])
        assert header.count == int(printed["count"])
        assert header.producer_id == int(printed["producerId"])
        assert header.base_sequence == int(printed["baseSequence"])
        assert header.max_timestamp == int(printed["CreateTime"])
        assert header.size == int(printed["size"])
        assert header.crc == int(printed["crc"])
        assert header.is_control == (printed["isControl"] == "true")
    assert log.recovery.clean == clean and log.recovery.cut_at == -1


def test_the_start_sees_whose_directory_it_is_and_that_kafka_stopped_cleanly() -> None:
    disk = planted()
    directories = opened(disk)
    (directory,) = directories.directories
    assert directory.was_clean and directory.broker_epoch == 13
    assert str(directory.directory_id) == "KpCquuCSRv-kXKdCSNLrYg"
    assert str(log_of(directories, "plain-0").topic_id) == "DeDpRJw7QhWJlTVtzMZEqA"
    assert not disk.exists("/kafka/.kafka_cleanshutdown")
    found = read_meta_properties(disk, "/kafka")
    assert found == (CLUSTER, 1, Uuid.parse("KpCquuCSRv-kXKdCSNLrYg"))
    assert {str(key): directory.logs[key].high_watermark for key in directory.logs} == {
        "plain-0": 600,
        "txn-0": 110,
    }


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_tables_say_what_kafka_prints(name: str) -> None:
    disk = planted()
    for file, lines in dump().items():
        if not file.startswith(name):
            continue
        rows = [tuple(map(int, re.findall(r": (-?\d+)", line))) for line in lines]
        base = int(Path(file).name[:20])
        if file.endswith(".index"):
            index = OffsetIndex(f"/kafka/{file}")
            index.load(disk, 1 << 30)
            ours = [(base + o, p) for o, p in zip(index.offsets, index.positions, strict=True)]
            assert ours == (rows if ours else []), file
        elif file.endswith(".timeindex"):
            times = TimeIndex(f"/kafka/{file}")
            times.load(disk)
            assert [(t, base + o) for t, o in zip(times.timestamps, times.offsets, strict=True)] == rows, file
        elif file.endswith(".txnindex"):
            aborted = TransactionIndex(f"/kafka/{file}")
            aborted.load(disk)
            assert [(0, *row) for row in aborted.rows] == rows, file


@pytest.mark.parametrize("name", PARTITIONS)
def test_tables_made_anew_from_kafkas_log_are_kafkas_byte_for_byte(name: str) -> None:
    disk = planted(
        "index", ".snapshot", ".kafka_cleanshutdown", "epoch-checkpoint", "recovery-point-offset-checkpoint"
    )
    opened(disk).close(NOW)
    compared = 0
    for path in (KAFKA / "data" / name).iterdir():
        if path.name.endswith(("index", "epoch-checkpoint")):
            assert disk.read(f"/kafka/{name}/{path.name}") == path.read_bytes(), path.name
            compared += 1
    assert compared >= 11


@pytest.mark.parametrize("name", PARTITIONS)
def test_producers_replayed_from_the_log_are_those_of_kafkas_snapshot(name: str) -> None:
    newest = max((KAFKA / "data" / name).glob("*.snapshot"))
    theirs = decode_producers(newest.read_bytes())
    assert encode_producers(theirs) == newest.read_bytes()
    replayed = log_of(opened(planted(".snapshot", ".kafka_cleanshutdown")), name)
    loaded = log_of(opened(planted()), name)
    last = {row.producer_id: row for row in replayed.producers.rows()}  # as Kafka reads what we write
    assert sorted(last.values()) == sorted(loaded.producers.rows()) == sorted(theirs)


def test_open_and_aborted_transactions_are_seen() -> None:
    log = log_of(opened(planted()), "txn-0")
    assert log.last_stable_offset == 104
    assert log.aborted_transactions(0, 110) == [(6, 0, 25, 26), (6, 52, 77, 78)]
    assert log.aborted_transactions(26, 52) == []


def test_every_offset_and_every_time_is_found() -> None:
    log = log_of(opened(planted()), "plain-0")
    times: dict[int, int] = {}
    for line in (line for file, lines in dump().items() if file.startswith("plain-0") for line in lines):
        if found := re.match(r"\| offset: (\d+) CreateTime: (\d+)", line):
            times[int(found[1])] = int(found[2])
    assert len(times) == 600
    for offset in times:
        header = read_batch_header(log.read(offset, 1, 600).read())
        assert header.base_offset <= offset <= header.last_offset
    for timestamp in range(min(times.values()) - 1, max(times.values()) + 2, 977):
        first = next((offset for offset in times if times[offset] >= timestamp), None)
        found_at = log.offset_for_timestamp(timestamp, 600)
        assert (found_at.offset if found_at else None) == first
    latest = log.max_timestamp_offset(600)
    assert latest is not None and times[latest.offset] == max(times.values())


def test_the_directory_of_another_node_or_cluster_is_refused() -> None:
    for cluster, node, words in ((CLUSTER, 2, "node 1"), ("other", 1, "cluster 5L6g3nShT")):
        with pytest.raises(StorageError, match=words) as refused:
            LogDirectories.open(
                planted(),
                ["/kafka"],
                cluster_id=cluster,
                node_id=node,
                config_for=lambda topic: CONFIG,
                randomness=Chance(),
                now=NOW,
            )
        assert refused.value.next_step


def test_appending_goes_on_where_kafka_stopped() -> None:
    disk = planted()
    log = log_of(opened(disk), "plain-0")
    header = next(log.batches())
    data = bytearray(log.read(0, 1, 600).read())
    assert log.append_as_leader(memoryview(data), header, 1, NOW) == (600, 606)
    log.sync()
    assert log.epochs.entries() == [(0, 0), (1, 600)]
    assert read_batch_header(log.read(603, 1, 999).read()).base_offset == 600


def test_kafkas_metadata_snapshots_are_listed_and_whole() -> None:
    disk = MemoryDisk()
    for path in (KAFKA / "metadata").glob("0*.checkpoint"):
        disk.put(f"/m/{path.name}", path.read_bytes())
    found = list_snapshots(disk, "/m")
    assert found[-1] == SnapshotId(58, 1) and len(found) == 3
    for snapshot in found:
        data = read_snapshot(disk, "/m", snapshot)
        assert all(check_crc(data, position, header) for position, header in batches(data))
