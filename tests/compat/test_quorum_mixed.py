"""Apache Kafka in our quorum, our nodes in its quorum, and its command line at ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.compat.conftest import kafka_class
from tests.server.quorum_processes import (
    CLUSTER,
    Member,
    Members,
    barnabas,
    create_topic,
    describe_request,
    eventually,
    free_ports,
)
from tools.peer import CONFIGS, KAFKA_VERSION, has_shell

from barnabas.client.blocking import BlockingConnection
from barnabas.controller.versions import LATEST
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.wire.schemas.quorum import DescribeQuorumResponsePartitionData

pytestmark = pytest.mark.compat
SHELL = "org.apache.kafka.shell.MetadataShell"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"
HEAP = {"KAFKA_HEAP": "512m"}


@contextmanager
def script(folder: Path, name: str, base: Path, *arguments: str, **env: str) -> Iterator[Path]:
    """Nodes of Apache Kafka, started by one of tools/kafka's scripts; killed in the end."""
    environment = {**os.environ, **HEAP, **env}
    subprocess.run([folder / name, str(base), *arguments], check=True, env=environment, timeout=120)
    try:
        yield base
    finally:
        subprocess.run([folder / "stop.sh", str(base), "KILL"], check=False, timeout=120)


def row_at(port: int) -> DescribeQuorumResponsePartitionData:
    with BlockingConnection("127.0.0.1", port, timeout=5, connect_timeout=2) as line:
        row: DescribeQuorumResponsePartitionData = line.request(describe_request()).topics[0].partitions[0]
        return row


def leading(ports: list[int], *, but: int = -1) -> DescribeQuorumResponsePartitionData | None:
    """What the leader behind one of these controller ports says; None while there is none."""
    for port in ports:
        with suppress(BarnabasError, OSError):
            row = row_at(port)
            if not row.error_code and row.leader_id != but and row.high_watermark > 0:
                return row
    return None


def voters(row: DescribeQuorumResponsePartitionData) -> list[int]:
    return sorted(state.replica_id for state in row.current_voters)


def observed(row: DescribeQuorumResponsePartitionData | None, id_: int) -> bool:
    return row is not None and id_ in [state.replica_id for state in row.observers]


def level(row: DescribeQuorumResponsePartitionData, id_: int) -> bool:
    """Whether that voter holds nearly everything."""
    return any(s.replica_id == id_ and s.log_end_offset >= row.high_watermark - 2 for s in row.current_voters)


def knows_every_request(base: Path) -> None:
    """No node of Apache Kafka was ever asked something that it does not know (it logs that, and hangs up)."""
    logs = list(base.glob("n*/server.log"))
    assert logs
    for log in logs:
        text = log.read_text()
        assert not re.findall(r".*(?:[Uu]nknown API key|Unsupported api key|10642).*", text)


def test_an_apache_controller_joins_our_quorum_leads_it_perhaps_and_is_removed(
    apache: Path, tmp_path: Path
) -> None:
    with Members.formed(tmp_path / "ours", 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        ours = [member.controller for member in nodes.all.values()]
        everybody = [*ours, 19493]
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ours)
        with script(apache, "start4.sh", tmp_path / "k", BOOTC=bootstrap) as base:
            eventually(lambda: observed(leading(ours), 4), 60, "Apache Kafka observes")
            eventually(lambda: create_topic(nodes[1], "flights") == ErrorCode.NONE)
            at = ("--bootstrap-server", f"127.0.0.1:{nodes[1].port}")
            config = base / "n4" / "server.properties"
            said = kafka_class(QUORUM, *at, "--command-config", str(config), "add-controller")
            meta = (base / "n4" / "logs" / "meta.properties").read_text()
            directory = re.findall(r"directory\.id=(\S+)", meta)[0]
            endpoint = "CONTROLLER://127.0.0.1:19493"
            assert said == f"Added controller 4 with directory id {directory} and endpoints: {endpoint}\n"
            row = eventually(lambda: leading(everybody))
            assert voters(row) == [1, 2, 3, 4]
            eventually(lambda: level(row_at(nodes.leader().controller), 4), what="it follows as a voter")

            killed = nodes.leader()
            killed.kill()
            begun = time.monotonic()
            row = eventually(lambda: leading(everybody, but=killed.id), 30)
            print(f"our leader killed, node {row.leader_id} leads after {time.monotonic() - begun:.2f} s")
            witness = next(member for member in nodes.all.values() if member is not killed)
            assert eventually(lambda: create_topic(witness, "after") == ErrorCode.NONE)
            killed.start()
            eventually(lambda: (r := leading(everybody)) and level(r, killed.id), 30, "it follows again")

            said = kafka_class(QUORUM, "--bootstrap-server", f"127.0.0.1:{witness.port}",
                               "remove-controller", "-i", "4", "-d", directory)  # fmt: skip
            assert said.replace("  ", " ") == f"Removed KRaft controller 4 with directory id {directory}\n"
            row = eventually(lambda: (r := leading(ours)) and voters(r) == [1, 2, 3] and r, 30)
            log = (base / "n4" / "server.log").read_text()
            assert "FATAL" not in log and "Encountered fatal fault" not in log
            knows_every_request(base)
        nodes.settled([1, 2, 3])


def test_our_controller_and_our_broker_join_an_apache_quorum(apache: Path, tmp_path: Path) -> None:
    theirs = [19193, 19293, 19393]
    nodes = Members(tmp_path / "ours")
    with nodes, script(apache, "start3.sh", tmp_path / "k") as base:
        eventually(lambda: leading(theirs), 90, "Apache Kafka's quorum")
        pairs = [free_ports(2), free_ports(2)]
        controller = Member(tmp_path / "ours/n5", 5, (pairs[0][0], pairs[0][1]), theirs, "controller")
        broker = Member(tmp_path / "ours/n6", 6, (pairs[1][0], pairs[1][1]), theirs, "broker")
        nodes.all = {5: controller, 6: broker}
        controller.format("--no-initial-controllers")
        broker.format()
        nodes.start()
        eventually(lambda: observed(leading(theirs), 5), 60, "our controller observes")
        eventually(lambda: create_topic(broker, "flights") == ErrorCode.NONE, 60)
        at = ("--bootstrap-server", f"127.0.0.1:{broker.port}")
        config = ("--command-config", str(controller.properties))
        said = eventually(lambda: kafka_class(QUORUM, *at, *config, "add-controller"), 60, "5 is added")
        assert said.startswith(f"Added controller 5 with directory id {controller.directory_id} ")
        everybody = [*theirs, controller.controller]
        row = eventually(lambda: (r := leading(everybody)) and level(r, 5) and r)
        assert voters(row) == [1, 2, 3, 5]

        killed = row.leader_id
        pid = int((base / f"n{killed}" / "pid").read_text())
        os.kill(pid, 9)
        row = eventually(lambda: leading(everybody, but=killed), 30)
        assert eventually(lambda: create_topic(broker, "after") == ErrorCode.NONE, 60)
        subprocess.run([apache / "start3.sh", str(base), str(killed)], check=True, env={**os.environ, **HEAP})
        eventually(lambda: (r := leading(everybody)) and level(r, killed), 60)
        eventually(lambda: (r := leading(everybody)) and level(r, 5), 30)
        knows_every_request(base)

        port = str(controller.controller)
        directory = str(controller.directory_id)
        said = barnabas("quorum", "--bootstrap-controller", f"127.0.0.1:{port}",
                        "remove-controller", "-i", "5", "-d", directory)  # fmt: skip
        assert said.replace("  ", " ") == f"Removed KRaft controller 5 with directory id {directory}\n"
        eventually(lambda: (r := leading(theirs)) and voters(r) == [1, 2, 3], 30)
        assert controller.alive and broker.alive


def test_kafkas_command_line_cannot_tell_our_nodes_from_its_own(apache: Path, tmp_path: Path) -> None:
    """Its tools at our nodes print what our commands print."""
    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        for member in nodes.all.values():
            member.serving()
        follower = next(member for member in nodes.all.values() if member is not nodes.leader())
        at_broker = ("--bootstrap-server", f"127.0.0.1:{follower.port}")
        at_controller = ("--bootstrap-controller", f"127.0.0.1:{follower.controller}")
        for at in (at_broker, at_controller):
            theirs, ours = (
                kafka_class(QUORUM, *at, "describe", "--status"),
                barnabas("quorum", *at, "describe", "--status"),
            )
            assert without_numbers(theirs) == without_numbers(ours)
            theirs, ours = (
                kafka_class(QUORUM, *at, "describe", "--re"),
                barnabas("quorum", *at, "describe", "--re"),
            )
            assert without_numbers(theirs) == without_numbers(ours)
            assert kafka_class(CLUSTER_TOOL, "list-endpoints", *at) == barnabas(
                "cluster", *at, "list-endpoints"
            )
            assert kafka_class(CLUSTER_TOOL, "cluster-id", *at) == barnabas("cluster", *at, "cluster-id")
        theirs, ours = (
            kafka_class(FEATURES, *at_broker, "describe"),
            barnabas("features", *at_broker, "describe"),
        )
        if KAFKA_VERSION < "4.4":  # it has no name for our highest level
            unnamed = f"UNKNOWN {LATEST}"
            theirs = theirs.replace(unnamed, "4.4-IV2".ljust(len(unnamed)))
        assert re.sub(r"Epoch: \d+", "", theirs) == re.sub(r"Epoch: \d+", "", ours)
        configs = ("--entity-type", "brokers", "--entity-default")
        alter = ("--alter", "--add-config", "log.retention.ms=86400000")
        done = kafka_class(CONFIGS, *at_controller, *configs, *alter)
        assert done == "Completed updating default config for brokers in the cluster.\n"
        shown = kafka_class(CONFIGS, *at_controller, *configs, "--describe")
        assert "log.retention.ms=86400000 sensitive=false" in shown
        flags = ("upgrade", "--feature", "kraft.version=1", "--dry-run")
        assert kafka_class(FEATURES, *at_broker, *flags) == barnabas("features", *at_broker, *flags)


def without_numbers(text: str) -> list[str]:
    """The lines without offsets, lags and times; blanks and tabs as one blank."""
    lines = []
    for line in text.splitlines():
        shown = re.sub(r"^(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs):.*", r"\1", line)
        lines.append(" ".join(re.sub(r"\t\d[\d ]*", "\t#", shown).split()))
    return lines


def created(member: Member, name: str) -> bool:
    return create_topic(member, name) == ErrorCode.NONE


@contextmanager
def kafka_instead_of(apache: Path, member: Member) -> Iterator[None]:
    """Apache Kafka on a stopped member's directory, with its properties and under its id."""
    with (member.folder / "kafka.log").open("ab") as log:
        process = subprocess.Popen(
            [apache / "broker-class.sh", str(member.properties)],
            stdout=log,
            stderr=log,
            env={**os.environ, **HEAP},
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_one_directory_is_run_by_our_program_then_kafkas_then_ours_within_a_living_quorum(
    apache: Path, tmp_path: Path
) -> None:
    with Members.formed(
        tmp_path, 3, "controller", **{"metadata.log.max.snapshot.interval.ms": "2000"}
    ) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        broker = nodes.join(7, "broker")
        assert eventually(lambda: create_topic(broker, "before") == ErrorCode.NONE)
        member = next(m for id_, m in nodes.all.items() if id_ != 7 and m is not nodes.leader())
        ports = [m.controller for id_, m in nodes.all.items() if id_ != 7]
        eventually(lambda: len(list((member.data / "__cluster_metadata-0").glob("*.checkpoint"))) > 1)
        for name, number in (("with-kafka-0", 9), ("with-kafka-1", 15)):
            member.kill(number)
            before = eventually(lambda: leading(ports)).high_watermark
            with kafka_instead_of(apache, member):
                end = before

                def follows(end: int = end) -> bool:
                    row = leading(ports)
                    return row is not None and level(row, member.id) and row.high_watermark > end + 4

                eventually(follows, 60, "Apache Kafka follows on our directory")
                assert eventually(partial(created, broker, name))
                time.sleep(3)
            log = (member.folder / "kafka.log").read_text()
            assert "FATAL" not in log and "Encountered fatal fault" not in log, log[-3000:]
            member.start()
            nodes.settled([1, 2, 3])
        state = (member.data / "__cluster_metadata-0" / "quorum-state").read_text()
        assert '"data_version":1' in state and "votedDirectoryId" in state
        member.kill(15)
        directory = tmp_path / "copy"
        shutil.copytree(member.data, directory)
        info = kafka_class("kafka.tools.StorageTool", "info", "-c", str(member.properties))
        assert f"node.id={member.id}" in info and "Found problem" not in info
        newest = max((directory / "__cluster_metadata-0").glob("*.checkpoint"))
        names = {"before", "with-kafka-0"}  # (Kafka's shell answers perhaps before it has read all)
        words = ("--snapshot", str(newest), "ls", "/image/topics/byName")
        assert not has_shell() or any(names <= set(kafka_class(SHELL, *words).split()) for _ in range(10))
        files = sorted(map(str, (directory / "__cluster_metadata-0").glob("*.log")))
        tool = "org.apache.kafka.tools.DumpLogSegments"
        dumped = kafka_class(tool, "--cluster-metadata-decoder", "--files", ",".join(files))
        ours = "".join(barnabas("log", "dump", file, "--cluster-metadata-decoder") for file in files)
        assert dumped == ours


def test_an_apache_broker_lives_with_our_controllers(apache: Path, tmp_path: Path) -> None:
    """It registers, follows the metadata, forwards its clients' requests, and serves them; a note is no harm."""
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        pair = free_ports(2)
        ours = [member.controller for member in nodes.all.values()]
        broker = Member(tmp_path / "k", 8, (pair[0], pair[1]), ours, "broker")
        kafka_class("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(broker.properties))
        with kafka_instead_of(apache, broker):
            fourth = nodes.join(4)
            nodes.observed(fourth)
            nodes.add(fourth)
            nodes.remove(fourth)  # leaves a note in the log, as a setting of all brokers
            eventually(partial(created, broker, "flights"), 90, "it forwards CreateTopics")
            at = ("--bootstrap-server", f"127.0.0.1:{broker.port}")
            status = kafka_class(QUORUM, *at, "describe", "--status")
            assert f"LeaderId:               {nodes.leader().id}\n" in status
            produce, consume = "org.apache.kafka.tools.ConsoleProducer", "org.apache.kafka.tools.consumer"
            kafka_class(produce, *at, "--topic", "flights", stdin="LH454\nUA900\n")
            read = kafka_class(f"{consume}.ConsoleConsumer", *at, "--topic", "flights", "--group", "g",
                               "--from-beginning", "--max-messages", "2")  # fmt: skip
            assert read.split() == ["LH454", "UA900"]
            killed = nodes.leader()
            killed.kill()
            eventually(partial(created, broker, "after"), 60)
            described = kafka_class("org.apache.kafka.tools.TopicCommand", *at, "--describe")
            assert "Topic: flights" in described and "Topic: after" in described
        log = (broker.folder / "kafka.log").read_text()
        assert "FATAL" not in log and "fatal fault" not in log, log[-3000:]


def test_kafka_pythons_admin_describes_our_quorum_and_its_features(tmp_path: Path) -> None:
    from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        nodes[1].serving()
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{nodes[1].port}")
        try:
            described = admin.describe_metadata_quorum()
            quorum = described["topics"][0]["partitions"][0]
            assert quorum["error"] is None and [node["node_id"] for node in described["nodes"]] == [1, 2, 3]
            assert nodes.leader().id == quorum["leader_id"]
            assert sorted(voter["replica_id"] for voter in quorum["current_voters"]) == [1, 2, 3]
            assert "kraft.version" in str(admin.describe_features())
        finally:
            admin.close()
