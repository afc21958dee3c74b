"""Apache Kafka's own tools on our node and files, and ours on files that Apache Kafka wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, kafka_class
from tests.compat.test_clients import Confluent

pytestmark = pytest.mark.compat

FIXTURE = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1" / "data"
RECORDS = 10_000
KAFKA_DUMP = Path(__file__).parents[2] / "tools" / "kafka" / "kafka-class.sh"


def test_console_producer_and_consumer_pass_every_line(apache: Path, node: NodeProcess) -> None:
    lines = [f"line {i}" for i in range(RECORDS)]
    kafka_class(
        "org.apache.kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        node.bootstrap,
        "--topic",
        "console",
        stdin="\n".join(lines) + "\n",
    )
    for how in (["--group", "subscribed"], ["--partition", "0"]):
        printed = kafka_class(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", node.bootstrap, "--topic", "console", *how),
            *("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000"),
        )
        assert printed.splitlines() == lines


def dumped(node: NodeProcess, files: Iterable[Path], *options: str) -> list[str]:
    """The lines that DumpLogSegments prints of the files; ours must be the same, byte for byte."""
    names = ",".join(map(str, sorted(files)))
    assert names
    theirs = kafka_class("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options)
    ours = node.barnabas("log", "dump", names, *options)
    assert ours.splitlines() == theirs.splitlines()
    return theirs.splitlines()


def files_of(folder: Path) -> list[Path]:
    kinds = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    return [path for path in folder.iterdir() if path.suffix in kinds]


def test_dump_log_segments_finds_our_files_in_order(apache: Path, node: NodeProcess, tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.write_text("".join(f"value {i}\n" for i in range(RECORDS)))
    node.barnabas("produce", "dumped", "--file", str(source), "--bootstrap-server", node.bootstrap)
    assert Confluent().consume(node.bootstrap, "dumped", "dumpers")
    assert node.stop() == 0
    data = node.data / "dumped-0"
    printed = dumped(node, files_of(data), "--print-data-log")
    payloads = [line.rpartition(" payload: ")[2] for line in printed if " payload: value " in line]
    assert payloads == [f"value {i}" for i in range(RECORDS)]
    assert not [line for line in printed if "isvalid: false" in line]
    indexes = [*data.glob("*.index"), *data.glob("*.timeindex")]
    checked = kafka_class(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--files", ",".join(map(str, indexes)), "--index-sanity-check"),
    )
    assert checked.count("passed sanity check") == len(indexes)
    metadata = dumped(node, files_of(node.data / "__cluster_metadata-0"), "--cluster-metadata-decoder")
    assert [line for line in metadata if '"type":"TOPIC_RECORD"' in line]
    assert [line for line in metadata if "KRaftVoters" in line]
    offsets = [path for path in node.data.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    commits = dumped(node, offsets, "--offsets-decoder")
    assert [line for line in commits if '"group":"dumpers","topic":"dumped","partition":0' in line]


def test_what_apache_kafka_wrote_is_dumped_as_apache_kafka_dumps_it(
    apache: Path, one_node: NodeProcess
) -> None:
    files = [path for folder in FIXTURE.iterdir() if folder.is_dir() for path in files_of(folder)]
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    assert len(dumped(one_node, files, "--print-data-log")) > 1000


def test_a_segment_cut_anywhere_is_dumped_up_to_the_cut(
    apache: Path, one_node: NodeProcess, tmp_path: Path
) -> None:
    segment = max(FIXTURE.rglob("*.log"), key=lambda path: path.stat().st_size)
    cut = tmp_path / segment.name
    cut.write_bytes(segment.read_bytes()[:-7])
    run = subprocess.run(
        [KAFKA_DUMP, "org.apache.kafka.tools.DumpLogSegments", "--files", cut],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = one_node.barnabas("log", "dump", str(cut))
    batches = [line for line in run.stdout.splitlines() if line.startswith("baseOffset")]
    assert [line for line in ours.splitlines() if line.startswith("baseOffset")] == batches
