"""Apache Kafka's own tools on our node and files, and ours on files that Apache Kafka wrote."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, kafka_class

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


def test_dump_log_segments_finds_our_files_in_order(apache: Path, node: NodeProcess, tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.write_text("".join(f"value {i}\n" for i in range(RECORDS)))
    node.barnabas("produce", "dumped", "--file", str(source), "--bootstrap-server", node.bootstrap)
    assert node.stop() == 0
    segments = sorted((node.data / "dumped-0").glob("*.log"))
    printed = kafka_class(
        "org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, segments)), "--print-data-log"
    )
    assert printed.count("| offset: ") == RECORDS
    assert re.findall(r"payload: (value \d+)", printed) == [f"value {i}" for i in range(RECORDS)]
    assert "isvalid: false" not in printed
    for index in [*(node.data / "dumped-0").glob("*.index"), *(node.data / "dumped-0").glob("*.timeindex")]:
        checked = kafka_class(
            "org.apache.kafka.tools.DumpLogSegments", "--files", str(index), "--index-sanity-check"
        )
        assert "passed sanity check" in checked, checked
    metadata = node.data / "__cluster_metadata-0" / "00000000000000000000.log"
    printed = kafka_class(
        "org.apache.kafka.tools.DumpLogSegments", "--files", str(metadata), "--cluster-metadata-decoder"
    )
    assert '"type":"TOPIC_RECORD"' in printed
    assert "KRaftVoters" in printed
    ours = node.barnabas("log", "dump", str(metadata), "--cluster-metadata-decoder")
    assert ours.splitlines() == printed.splitlines()


def test_what_apache_kafka_wrote_is_dumped_as_apache_kafka_dumps_it(
    apache: Path, one_node: NodeProcess
) -> None:
    segments = sorted(str(path) for path in FIXTURE.rglob("*.log"))
    assert segments
    for segment in segments:
        theirs = kafka_class("org.apache.kafka.tools.DumpLogSegments", "--files", segment, "--print-data-log")
        ours = one_node.barnabas("log", "dump", segment, "--print-data-log")
        assert ours.splitlines() == theirs.splitlines(), segment


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
