"""Apache Kafka's tools for disks against three of our nodes with two directories each.

`kafka-log-dirs` shows what lies where, `kafka-reassign-partitions` moves replicas between the directories of a
broker and onto named directories of others, `kafka-replica-verification` finds all replicas equal.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import KAFKA, kafka_class
from tests.server.quorum_processes import Member, Members, eventually

from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.wire.schemas.cluster import MetadataRequest

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools."
LOG_DIRS = TOOLS + "LogDirsCommand"
REASSIGN = TOOLS + "reassign.ReassignPartitionsCommand"
VERIFY = TOOLS + "ReplicaVerificationTool"
RECORDS = 3000


def other(member: Member) -> str:
    return str(member.folder / "other")


@pytest.fixture(scope="module")
def nodes(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with Members.formed(tmp_path_factory.mktemp("disks"), 3) as nodes:
        for member in nodes.all.values():
            member.settings["log.dirs"] = f"{member.data},{other(member)}"
            member.write_properties()
            member.format("--ignore-formatted", "--no-initial-controllers")
        nodes.start()
        nodes.settled([1, 2, 3])
        eventually(lambda: len(nodes[1].ask(MetadataRequest(topics=[]), broker=True).brokers) == 3)
        with Admin(f"127.0.0.1:{nodes[1].port}", timeout=20) as admin:
            admin.create_topic("t", partitions=2, replication=3)
        with Producer(f"127.0.0.1:{nodes[1].port}") as producer:
            for number in range(RECORDS):
                producer.send("t", str(number).encode() * 20, partition=number % 2)
        yield nodes


def bootstrap(nodes: Members) -> str:
    return ",".join(f"127.0.0.1:{member.port}" for member in nodes.all.values())


def described(nodes: Members, topic: str) -> dict[int, dict[str, dict[str, Any]]]:
    """By broker and replica: the directory, and what is said of the replica there."""
    printed = kafka_class(
        LOG_DIRS, "--bootstrap-server", bootstrap(nodes), "--describe", "--topic-list", topic
    )
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for broker in json.loads(printed.splitlines()[-1])["brokers"]:
        rows = found[broker["broker"]] = {}
        for directory in broker["logDirs"]:
            assert directory["error"] is None
            for row in directory["partitions"]:
                assert not row["isFuture"]
                rows[row["partition"]] = {**row, "where": directory["logDir"]}
    return found


def test_what_lies_where_is_shown(nodes: Members) -> None:
    found = described(nodes, "t")
    assert set(found) == {1, 2, 3}
    for broker, rows in found.items():
        assert set(rows) == {"t-0", "t-1"}
        places = {row["where"] for row in rows.values()}
        assert places == {str(nodes[broker].data), other(nodes[broker])}  # the one with fewer gets the next
        assert all(row["size"] > 1000 and row["offsetLag"] == 0 for row in rows.values())


def test_replicas_move_between_the_directories_of_their_brokers(nodes: Members, tmp_path: Path) -> None:
    before = described(nodes, "t")
    targets = {}
    for broker, rows in before.items():
        both = {str(nodes[broker].data), other(nodes[broker])}
        (targets[broker],) = both - {rows["t-0"]["where"]}
    plan = tmp_path / "plan.json"
    one = {"topic": "t", "partition": 0, "replicas": [1, 2, 3], "log_dirs": [targets[b] for b in (1, 2, 3)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [one]}))
    named = ("--bootstrap-server", bootstrap(nodes), "--reassignment-json-file", str(plan))
    printed = kafka_class(
        REASSIGN,
        *named,
        "--execute",
        "--replica-alter-log-dirs-throttle",
        "50000000",
        "--throttle",
        "50000000",
    )
    assert "Successfully started" in printed, printed

    def done() -> str | None:
        said = kafka_class(REASSIGN, *named, "--verify")
        return said if said.count("completed successfully") == 3 else None

    eventually(done, 60, "the moves are done")
    after = described(nodes, "t")
    for broker, rows in after.items():
        assert rows["t-0"]["where"] == targets[broker]
        assert rows["t-0"]["size"] == before[broker]["t-0"]["size"]
        assert rows["t-1"]["where"] == before[broker]["t-1"]["where"]


def test_all_replicas_are_found_equal(nodes: Members) -> None:
    command = [
        *(KAFKA / "kafka-class.sh", VERIFY, "--broker-list", bootstrap(nodes)),
        *("--topics-include", "t", "--report-interval-ms", "1000"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
        assert tool.stdout is not None
        said: list[str] = []
        try:
            for line in tool.stdout:
                said.append(line)
                if re.search(r"max lag is \d+ for partition t-", line) and len(said) > 2:
                    break
        finally:
            tool.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                tool.wait(10)
    assert re.search(r"max lag is 0 for partition t-\d", said[-1]), "".join(said)
    assert not [line for line in said if "doesn't match" in line or "ERROR" in line], "".join(said)


def test_a_directory_that_fails_is_named_and_the_others_serve(nodes: Members) -> None:
    """Somebody unmounts a disk: what lay there is led and followed elsewhere, what lies here goes on."""
    victim = nodes[2]
    rows = described(nodes, "t")[2]
    lost = [name for name, row in rows.items() if row["where"] == other(victim)]
    moved = Path(other(victim)).rename(victim.folder / "unmounted")
    eventually(lambda: "log.directory-offline" in victim.text(), 20, "it is noticed")

    def left() -> bool:
        answer = nodes[1].ask(MetadataRequest(topics=None), broker=True)
        topic = next(topic for topic in answer.topics if topic.name == "t")
        return all(
            (2 not in row.isr_nodes) == (f"t-{row.partition_index}" in lost) and row.leader_id > 0
            for row in topic.partitions
        )

    eventually(left, 20, "only what lay there left the in-sync sets")
    printed = kafka_class(
        LOG_DIRS, "--bootstrap-server", bootstrap(nodes), "--describe", "--broker-list", "2"
    )
    (broker,) = json.loads(printed.splitlines()[-1])["brokers"]
    errors = {row["logDir"]: row["error"] for row in broker["logDirs"]}
    assert errors[str(victim.data)] is None and "KafkaStorageException" in errors[other(victim)]
    assert victim.alive
    moved.rename(other(victim))
    victim.kill()
    victim.start()

    def back() -> bool:
        answer = nodes[1].ask(MetadataRequest(topics=None), broker=True)
        topic = next(topic for topic in answer.topics if topic.name == "t")
        return all(set(row.isr_nodes) == {1, 2, 3} for row in topic.partitions)

    eventually(back, 60, "with the disk back every set is full")
