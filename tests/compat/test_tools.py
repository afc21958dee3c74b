"""Kafka's own command line against our node: what its tools print of topics, groups, settings and the quorum."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, kafka_class, run_kafka_class
from tools.peer import CONFIGS, RELEASE

from barnabas.server.api.table import TABLE

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools."
TOPICS = TOOLS + "TopicCommand"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def tooled(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that the tests of this file share; each has topics of its own."""
    node = NodeProcess(tmp_path_factory.mktemp("tools") / "node").start()
    yield node
    assert node.stop() == 0, node.log.read_text()


def on(node: NodeProcess, tool: str, *arguments: str, stdin: str | None = None) -> str:
    return kafka_class(tool, "--bootstrap-server", node.bootstrap, *arguments, stdin=stdin)


def test_a_topic_is_made_described_grown_and_deleted(tooled: NodeProcess) -> None:
    on(tooled, TOPICS, "--create", "--topic", "life", "--partitions", "3", "--config", "retention.ms=12345")
    shown = on(tooled, TOPICS, "--describe", "--topic", "life")
    assert "PartitionCount: 3\tReplicationFactor: 1" in shown
    assert "retention.ms=12345" in shown
    assert shown.count("Leader: 1\tReplicas: 1\tIsr: 1\tElr: \t") == 3
    on(tooled, TOPICS, "--alter", "--topic", "life", "--partitions", "5")
    assert "PartitionCount: 5" in on(tooled, TOPICS, "--describe", "--topic", "life")
    assert "life" in on(tooled, TOPICS, "--list").split()
    on(tooled, TOPICS, "--delete", "--topic", "life")
    assert "life" not in on(tooled, TOPICS, "--list").split()


def test_offsets_are_shown_and_records_deleted(tooled: NodeProcess, tmp_path: Path) -> None:
    on(tooled, TOPICS, "--create", "--topic", "trimmed", "--partitions", "1")
    on(tooled, TOOLS + "ConsoleProducer", "--topic", "trimmed", stdin="".join(f"{n}\n" for n in range(50)))
    until = tmp_path / "until.json"
    until.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "trimmed", "partition": 0, "offset": 20}]})
    )
    assert "low_watermark: 20" in on(tooled, TOOLS + "DeleteRecordsCommand", "--offset-json-file", str(until))
    times = {"earliest": 20, "latest": 50, "max-timestamp": 49}
    for time, offset in times.items():
        printed = on(tooled, TOOLS + "GetOffsetShell", "--topic", "trimmed", "--time", time)
        assert re.fullmatch(rf"trimmed:0:{offset}|trimmed:0:\d+", printed.strip()), printed
        if time != "max-timestamp":  # records of one millisecond: any of them may be the last
            assert printed.strip() == f"trimmed:0:{offset}"


def test_a_group_is_reset_described_listed_and_deleted(tooled: NodeProcess) -> None:
    on(tooled, TOPICS, "--create", "--topic", "grouped", "--partitions", "2")
    on(tooled, TOOLS + "ConsoleProducer", "--topic", "grouped", stdin="a\nb\nc\n")
    named = ("--group", "watchers")
    on(tooled, GROUPS, *named, "--topic", "grouped", "--reset-offsets", "--to-latest", "--execute")
    on(tooled, GROUPS, *named, "--topic", "grouped", "--reset-offsets", "--shift-by", "-1", "--execute")
    rows = [line.split() for line in on(tooled, GROUPS, *named, "--describe").splitlines()]
    lags = [(row[1], row[3], row[4], row[5]) for row in rows if row and row[0] == "watchers"]
    assert len(lags) == 2
    assert sum(int(end) for _, _, end, _ in lags) == 3
    assert all(int(end) - int(at) == int(lag) for _, at, end, lag in lags)
    assert "Empty" in on(tooled, GROUPS, *named, "--describe", "--state")
    assert "watchers" in on(tooled, GROUPS, "--list").split()
    assert re.search(r"watchers +Classic", on(tooled, TOOLS + "GroupsCommand", "--list"))
    assert "was successful" in on(tooled, GROUPS, *named, "--delete")
    assert "watchers" not in on(tooled, GROUPS, "--list").split()


def test_settings_of_topics_and_nodes_are_changed_and_shown(tooled: NodeProcess) -> None:
    on(tooled, TOPICS, "--create", "--topic", "set", "--partitions", "1")
    topic = ("--entity-type", "topics", "--entity-name", "set")
    on(tooled, CONFIGS, *topic, "--alter", "--add-config", "retention.ms=777,cleanup.policy=[compact,delete]")
    shown = on(tooled, CONFIGS, *topic, "--describe")
    assert "retention.ms=777 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=777" in shown
    assert "cleanup.policy=compact,delete" in shown
    on(tooled, CONFIGS, *topic, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    assert "retention.ms" not in on(tooled, CONFIGS, *topic, "--describe")
    default = ("--entity-type", "brokers", "--entity-default")
    on(tooled, CONFIGS, *default, "--alter", "--add-config", "log.retention.ms=888000")
    assert "log.retention.ms=888000" in on(tooled, CONFIGS, *default, "--describe")
    everything = on(tooled, CONFIGS, *topic, "--describe", "--all")
    assert "retention.ms=888000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in everything
    on(tooled, CONFIGS, *default, "--alter", "--delete-config", "log.retention.ms")
    one = on(tooled, CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "node.id=1 sensitive=false synonyms={STATIC_BROKER_CONFIG:node.id=1" in one
    code, printed = run_kafka_class(
        CONFIGS,
        "--bootstrap-server",
        tooled.bootstrap,
        *topic,
        "--alter",
        "--add-config",
        "retention.ms=soon",
    )
    assert code != 0
    assert "InvalidConfigurationException" in printed


def test_levels_of_loggers_are_changed_and_shown(tooled: NodeProcess) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    on(tooled, CONFIGS, *loggers, "--alter", "--add-config", "connection=DEBUG,root=WARN")
    shown = on(tooled, CONFIGS, *loggers, "--describe")
    assert "connection=DEBUG sensitive=false synonyms={}" in shown and "node=WARN" in shown
    on(tooled, CONFIGS, *loggers, "--alter", "--delete-config", "connection")
    on(tooled, CONFIGS, *loggers, "--alter", "--add-config", "root=INFO")
    assert "connection=INFO" in on(tooled, CONFIGS, *loggers, "--describe")


def test_quorum_features_cluster_and_disks_are_described(tooled: NodeProcess) -> None:
    quorum = TOOLS + "MetadataQuorumCommand"
    status = on(tooled, quorum, "describe", "--status")
    cluster = re.search(r"ClusterId: +(\S+)", status)
    assert cluster
    assert "LeaderId:               1" in status
    assert re.search(r'CurrentVoters: +\[\{"id": 1, "directoryId": "[^"]{22}"', status)
    replication = on(tooled, quorum, "describe", "--replication").splitlines()
    assert replication[-1].split()[0] == "1"
    assert replication[-1].split()[-1] == "Leader"
    features = on(tooled, TOOLS + "FeatureCommand", "describe")
    level = "4.3-IV0" if RELEASE else "4.4-IV2"
    assert re.search(rf"metadata.version\s.*FinalizedVersionLevel: {level}", features)
    assert re.search(r"kraft.version\s.*FinalizedVersionLevel: 1", features)
    tool = TOOLS + "ClusterTool"
    ident = kafka_class(tool, "cluster-id", "--bootstrap-server", tooled.bootstrap)
    assert ident.strip() == f"Cluster ID: {cluster[1]}"
    endpoints = kafka_class(tool, "list-endpoints", "--bootstrap-server", tooled.bootstrap)
    assert re.search(rf"1 +127\.0\.0\.1 +{tooled.port} .*unfenced +broker", endpoints)
    on(tooled, TOPICS, "--create", "--topic", "lying", "--partitions", "2")
    disks = on(tooled, TOOLS + "LogDirsCommand", "--describe", "--topic-list", "lying")
    described = json.loads(disks.splitlines()[-1])
    (directory,) = described["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(tooled.data)
    assert {row["partition"] for row in directory["partitions"]} == {"lying-0", "lying-1"}
    elect = ("--election-type", "preferred", "--topic", "lying", "--partition", "0")
    assert "Valid replica already elected" in on(tooled, TOOLS + "LeaderElectionCommand", *elect)
    moves = on(tooled, TOOLS + "reassign.ReassignPartitionsCommand", "--list")
    assert "No partition reassignments found." in moves


def test_every_api_of_our_table_is_usable_by_the_newest_client(tooled: NodeProcess) -> None:
    printed = on(tooled, TOOLS + "BrokerApiVersionsCommand")
    usable = {int(key) for key in re.findall(r"\((\d+)\): [^,\n]*\[usable: \d+\]", printed)}
    newer = {94} if RELEASE else set()  # UnregisterController came with 4.4
    telemetry = {71, 72}  # no client hears of it as long as nobody subscribes
    assert usable == {row.key for row in TABLE if "B" in row.listeners} - newer - telemetry


def test_perf_and_verifiable_clients_run_with_their_defaults(tooled: NodeProcess) -> None:
    count = "20000"
    sent = on(
        tooled,
        TOOLS + "ProducerPerformance",
        *("--topic", "perf", "--num-records", count, "--record-size", "100", "--throughput", "-1"),
    )
    assert sent.startswith(f"{count} records sent")
    read = on(tooled, TOOLS + "ConsumerPerformance", "--topic", "perf", "--num-records", count)
    assert f", {count}, " in read.splitlines()[-1]
    made = on(tooled, TOOLS + "VerifiableProducer", "--topic", "verified", "--max-messages", "2000")
    acknowledged = {
        (line["partition"], line["offset"]): line["value"]
        for line in map(json.loads, made.splitlines())
        if line["name"] == "producer_send_success"
    }
    assert sorted(map(int, acknowledged.values())) == list(range(2000))
    group = ("--group-id", "verifiers", "--max-messages", "2000", "--reset-policy", "earliest", "--verbose")
    lines = map(
        json.loads, on(tooled, TOOLS + "VerifiableConsumer", "--topic", "verified", *group).splitlines()
    )
    read_back = {
        (line["partition"], line["offset"]): line["value"] for line in lines if line["name"] == "record_data"
    }
    assert read_back == acknowledged


def test_quotas_are_set_described_and_removed(tooled: NodeProcess) -> None:
    pair = [
        "--entity-type",
        "users",
        "--entity-name",
        "alice",
        "--entity-type",
        "clients",
        "--entity-name",
        "c",
    ]
    assert "Completed" in on(tooled, CONFIGS, "--alter", "--add-config", "producer_byte_rate=1024", *pair)
    said = "Quota configs for user-principal 'alice', client-id 'c' are producer_byte_rate=1024.0"
    assert said in on(tooled, CONFIGS, "--describe", *pair)
    on(tooled, CONFIGS, "--alter", "--delete-config", "producer_byte_rate", *pair)
    assert "producer_byte_rate" not in on(tooled, CONFIGS, "--describe", *pair)


def test_a_node_without_an_authorizer_says_that_it_has_no_acls(tooled: NodeProcess) -> None:
    _, printed = run_kafka_class(TOOLS + "AclCommand", "--bootstrap-server", tooled.bootstrap, "--list")
    assert "SecurityDisabledException" in printed


def test_users_are_described_also_where_nobody_logs_in(tooled: NodeProcess) -> None:
    assert "carol" not in on(tooled, CONFIGS, "--entity-type", "users", "--describe")
    add = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    on(tooled, CONFIGS, "--entity-type", "users", "--entity-name", "carol", *add)
    said = "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-256=iterations=4096"
    assert said in on(tooled, CONFIGS, "--entity-type", "users", "--describe")
