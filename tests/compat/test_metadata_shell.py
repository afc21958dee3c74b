"""Apache Kafka's MetadataShell and ours over the same files, ours among them: every directory and every file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.rich_metadata import rich_log
from tests.compat.conftest import NodeProcess
from tests.server.quorum_processes import eventually
from tools.peer import has_shell

from barnabas.client.admin.admin import Admin

pytestmark = pytest.mark.compat
TRIES = 10
QUESTIONS = (["tree", "/image"], ["find", "/image"], ["ls", "/image/*"], ["cat", "/image/features/*"])


@pytest.fixture(autouse=True)
def _shell_is_here(apache: Path) -> None:
    if not has_shell():
        pytest.skip("Apache Kafka's shell is not among its jars (KAFKA_VERSION=4.3.1 brings it)")


def kafka_shell(apache: Path, file: Path, *command: str) -> list[str]:
    """What Apache Kafka's shell prints; its log goes to standard error or is marked as such."""
    run = subprocess.run(
        [apache / "kafka-class.sh", "org.apache.kafka.shell.MetadataShell", "--snapshot", file, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = run.stdout.splitlines()
    return [line for line in lines if not (line.startswith("[") and "(org.apache.kafka" in line)]


def our_shell(file: Path, *command: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-m", "barnabas", "metadata", "shell", "-s", file, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout.splitlines()


def both_say_the_same(apache: Path, file: Path) -> str:
    """All questions to both about a copy of the file; returns the tree.

    Kafka's shell answers as soon as it has read a metadata.version, perhaps in the middle of the file: it is
    asked again until it has read all.  What ours says never changes, so an answer that is wrong stays wrong.
    """
    for question in QUESTIONS:
        ours = our_shell(file, *question)
        for _ in range(TRIES):
            theirs = kafka_shell(apache, file, *question)
            if ours == theirs:
                break
        assert ours == theirs, question
    return "\n".join(our_shell(file, *QUESTIONS[0]))


def test_the_shells_agree_about_a_log_and_a_snapshot_of_ours(apache: Path, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node", metadata_log_max_record_bytes_between_snapshots="1")
    try:
        node.start()
        with Admin(node.bootstrap) as admin:
            admin.create_topic("flights", partitions=3, replication=1, configs={"retention.ms": "86400000"})
            admin.create_topic("gone", partitions=1, replication=1)
            admin.delete_topic("gone")
        folder = node.data / "__cluster_metadata-0"
        eventually(lambda: not max(folder.glob("*.checkpoint")).name.startswith(f"{0:020}"))
        assert node.stop() == 0
    finally:
        node.discard()
    log = Path(shutil.copy(folder / f"{0:020}.log", tmp_path))
    tree = both_say_the_same(apache, log)
    assert "  byName:\n    flights:\n" in tree and "gone" not in tree and "TOPIC:flights:\n" in tree
    newest = max(folder.glob("*.checkpoint"))
    assert "cluster:\n  brokers:\n    1:\n" in both_say_the_same(apache, Path(shutil.copy(newest, tmp_path)))


def test_the_shells_agree_about_a_log_with_one_of_everything(apache: Path, tmp_path: Path) -> None:
    log = tmp_path / "rich.log"
    log.write_bytes(rich_log())
    assert "delegationToken:\n  t2:\n" in both_say_the_same(apache, log)


@pytest.mark.parametrize("timestamp", [1_763_647_132_920, 1_763_647_132_900, 1_763_647_140_000])
def test_the_shells_write_a_time_equally_short(apache: Path, tmp_path: Path, timestamp: int) -> None:
    log = tmp_path / "rich.log"
    log.write_bytes(rich_log(timestamp))
    question = ["cat", "/image/provenance"]
    ours = our_shell(log, *question)
    assert ours and ours in [kafka_shell(apache, log, *question) for _ in range(3)]


@pytest.mark.parametrize("name", ["00000000000000000045-0000000001.checkpoint", "snapshotted.log"])
def test_the_shells_agree_about_files_of_apache_kafka(apache: Path, tmp_path: Path, name: str) -> None:
    fixtures = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1" / "metadata"
    both_say_the_same(apache, Path(shutil.copy(fixtures / name, tmp_path)))
