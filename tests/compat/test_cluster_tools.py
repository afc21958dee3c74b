"""Apache Kafka's tools and our own commands against four brokers: partitions move, leaders change, brokers go."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import KAFKA, run_kafka_class
from tests.server.quorum_processes import Member, Members, eventually
from tools.peer import CONFIGS

from barnabas.client.admin.admin import Admin
from barnabas.client.metadata import PartitionInfo
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]  # a tool of Kafka starts a JVM each time

TOOLS = "org.apache.kafka.tools."
TOPICS = TOOLS + "TopicCommand"
REASSIGN = TOOLS + "reassign.ReassignPartitionsCommand"
ELECT = TOOLS + "LeaderElectionCommand"
CLUSTER = TOOLS + "ClusterTool"


class Brokers:
    """Nodes 1 to 3 (combined) and broker 4."""

    def __init__(self, nodes: Members) -> None:
        self.nodes = nodes

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.nodes.all.values() if member.alive)

    def tool(self, tool: str, *arguments: str, code: int = 0, verb: str = "") -> str:
        """What a tool of Kafka's prints; `verb` goes before the cluster."""
        words = ([verb] if verb else []) + ["--bootstrap-server", self.bootstrap, *arguments]
        given, printed = run_kafka_class(tool, *words)
        assert given == code, printed
        return printed

    def barnabas(self, *arguments: str, code: int = 0) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "barnabas", *arguments, "--bootstrap-server", self.bootstrap],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout

    def partition(self, topic: str, index: int = 0) -> PartitionInfo:
        with Admin(self.bootstrap, timeout=10) as admin:
            return admin.describe_topic(topic).partitions[index]

    def fenced(self) -> set[int]:
        with Admin(self.bootstrap, timeout=10) as admin:
            return set(admin.describe_cluster(fenced=True).fenced)

    def killed(self, id_: int) -> Member:
        member = self.nodes[id_]
        member.kill()
        eventually(lambda: id_ in self.fenced(), 30, f"{id_} is fenced")
        return member

    def back(self, member: Member) -> None:
        member.start()
        eventually(lambda: not self.fenced(), 30, f"{member} is back")

    def in_sync(self, topic: str, *replicas: int) -> None:
        eventually(lambda: set(self.partition(topic).isr) == set(replicas), 30, f"{topic} in sync")


@pytest.fixture(scope="module")
def brokers(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    settings = {"auto_leader_rebalance_enable": "false", "log_flush_interval_messages": "100"}
    with Members.formed(tmp_path_factory.mktemp("brokers"), 3, **settings) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        nodes.join(4, roles="broker", **settings)
        for member in nodes.all.values():
            member.serving(40)
        cluster = Brokers(nodes)
        eventually(lambda: len(cluster.tool(CLUSTER, verb="list-endpoints").splitlines()) == 5, 40)
        yield cluster


def fill(brokers: Brokers, topic: str, count: int = 300) -> None:
    with Producer(brokers.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, f"{number}".encode() * 20)


def plan_file(folder: Path, topic: str, *replicas: list[int]) -> str:
    file = folder / f"{topic}.json"
    rows = [{"topic": topic, "partition": n, "replicas": one} for n, one in enumerate(replicas)]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(file)


def create(brokers: Brokers, topic: str, assignment: str, *more: str) -> None:
    brokers.tool(TOPICS, "--create", "--topic", topic, "--replica-assignment", assignment, *more)


def test_topics_are_made_grown_and_described_by_what_ails_them(brokers: Brokers) -> None:
    brokers.tool(
        TOPICS, "--create", "--topic", "made", "--partitions", "4", "--replication-factor", "3",
        "--config", "min.insync.replicas=3",
    )  # fmt: skip
    shown = brokers.tool(TOPICS, "--describe", "--topic", "made")
    assert "PartitionCount: 4\tReplicationFactor: 3\tConfigs: min.insync.replicas=3" in shown
    assert len(set(re.findall(r"Leader: (\d)", shown))) == 4
    brokers.tool(TOPICS, "--alter", "--topic", "made", "--partitions", "8")
    assert "PartitionCount: 8" in brokers.tool(TOPICS, "--describe", "--topic", "made")
    four = brokers.killed(4)
    ailing = brokers.tool(TOPICS, "--describe", "--topic", "made", "--under-replicated-partitions")
    assert ailing.count("Partition: ") == 6  # 8 partitions of 3 replicas on 4 brokers
    below = brokers.tool(TOPICS, "--describe", "--topic", "made", "--under-min-isr-partitions")
    assert below.count("Elr: 4\t") == 6
    assert brokers.tool(TOPICS, "--describe", "--topic", "made", "--unavailable-partitions").strip() == ""
    brokers.back(four)
    eventually(
        lambda: "Partition" not in brokers.tool(TOPICS, "--describe", "--under-replicated-partitions"), 60
    )


def test_partitions_move_are_watched_and_verified(brokers: Brokers, tmp_path: Path) -> None:
    create(brokers, "moved", "1:2,2:3")
    fill(brokers, "moved")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    proposed = brokers.tool(
        REASSIGN, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "3,4"
    )
    (plan,) = re.findall(r"(?s)Proposed partition reassignment configuration\n(\{.*?\})\n", proposed + "\n")
    file = tmp_path / "plan.json"
    file.write_text(plan)
    plan_of = ("--reassignment-json-file", str(file))
    begun = brokers.tool(REASSIGN, "--execute", *plan_of, "--throttle", "50000000")
    assert "Successfully started partition reassignments for moved-0,moved-1" in begun
    assert "The inter-broker throttle limit was set to 50000000 B/s" in begun

    def verified() -> bool:
        told = brokers.tool(REASSIGN, "--verify", *plan_of)
        return told.count("is completed.") == 2 and "Clearing topic-level throttles on topic moved" in told

    eventually(verified, 60)
    assert {frozenset(brokers.partition("moved", n).replicas) for n in (0, 1)} == {frozenset({3, 4})}
    named = ("--entity-type", "topics", "--entity-name", "moved")
    assert "throttled" not in brokers.tool(CONFIGS, *named, "--describe")
    assert "No partition reassignments found." in brokers.tool(REASSIGN, "--list")
    ends = brokers.tool(TOOLS + "GetOffsetShell", "--topic", "moved")
    assert sum(int(end) for end in re.findall(r"moved:\d:(\d+)", ends)) == 300
    gone = [
        folder.name for folder in brokers.nodes[1].data.iterdir() if re.fullmatch(r"moved-\d", folder.name)
    ]
    assert gone == []


def test_a_move_that_waits_is_listed_replaced_and_cancelled(brokers: Brokers, tmp_path: Path) -> None:
    create(brokers, "waiting", "1:2")
    four = brokers.nodes[4]
    four.kill()  # Kafka's tool refuses brokers that are fenced: be quicker, or ask by our own
    brokers.barnabas("topics", "reassign", "waiting", "--partition", "0", "--replicas", "4,2", "--execute")
    assert "waiting-0: replicas: 4,2,1. adding: 4. removing: 1." in brokers.tool(REASSIGN, "--list")
    moving = brokers.barnabas("topics", "reassign")
    assert re.search(r"waiting +0 +4,2 +4 +1", moving)
    file = plan_file(tmp_path, "waiting", [3, 2])
    refused = brokers.tool(REASSIGN, "--execute", "--reassignment-json-file", file, code=1)
    assert "Cannot execute because there is an existing partition assignment" in refused
    brokers.tool(REASSIGN, "--execute", "--additional", "--reassignment-json-file", file)
    eventually(lambda: set(brokers.partition("waiting").replicas) == {2, 3}, 30)
    brokers.barnabas("topics", "reassign", "waiting", "--partition", "0", "--replicas", "4,2", "--execute")
    brokers.back(four)
    eventually(lambda: set(brokers.partition("waiting").replicas) == {2, 4}, 30)


def test_a_move_is_cancelled_by_kafkas_tool(brokers: Brokers, tmp_path: Path) -> None:
    create(brokers, "turned", "1:2")
    four = brokers.killed(4)
    brokers.barnabas("topics", "reassign", "turned", "--partition", "0", "--replicas", "4,2", "--execute")
    file = plan_file(tmp_path, "turned", [4, 2])
    # Without --preserve-throttles the tool asks every registered broker, dead ones too, and waits for them.
    cancel = ("--cancel", "--preserve-throttles", "--reassignment-json-file", file)
    assert "Successfully cancelled partition reassignment for: turned-0" in brokers.tool(REASSIGN, *cancel)
    assert set(brokers.partition("turned").replicas) == {1, 2}
    assert "None of the specified partition reassignments are active." in brokers.tool(REASSIGN, *cancel)
    brokers.back(four)


def test_leaders_are_elected_preferred_and_unclean(brokers: Brokers) -> None:
    create(brokers, "led", "4:3:2")
    brokers.in_sync("led", 2, 3, 4)
    four = brokers.killed(4)
    assert brokers.partition("led").leader == 3
    named = ("--topic", "led", "--partition", "0")
    brokers.back(four)
    brokers.in_sync("led", 2, 3, 4)
    told = brokers.tool(ELECT, "--election-type", "preferred", *named)
    assert "Successfully completed leader election (PREFERRED) for partitions led-0" in told
    assert brokers.partition("led").leader == 4
    told = brokers.tool(ELECT, "--election-type", "preferred", *named)
    assert "Valid replica already elected for partitions led-0" in told

    create(brokers, "lost", "4:3")
    three = brokers.killed(3)
    four = brokers.killed(4)
    three.start()
    eventually(lambda: 3 not in brokers.fenced(), 30)
    assert brokers.partition("lost").leader == -1
    told = brokers.tool(ELECT, "--election-type", "unclean", "--topic", "lost", "--partition", "0")
    assert "Successfully completed leader election (UNCLEAN) for partitions lost-0" in told
    assert brokers.partition("lost").leader == 3
    brokers.back(four)
    brokers.in_sync("lost", 3, 4)


def test_settings_of_topics_of_one_broker_and_of_all(brokers: Brokers) -> None:
    create(brokers, "set", "1:2")
    topic = ("--entity-type", "topics", "--entity-name", "set")
    brokers.tool(
        CONFIGS, *topic, "--alter", "--add-config", "retention.ms=777,cleanup.policy=[compact,delete]"
    )
    assert "retention.ms=777" in brokers.tool(CONFIGS, *topic, "--describe")
    brokers.tool(CONFIGS, *topic, "--alter", "--delete-config", "retention.ms")
    default = ("--entity-type", "brokers", "--entity-default")
    brokers.tool(CONFIGS, *default, "--alter", "--add-config", "log.retention.ms=888000")
    assert "log.retention.ms=888000" in brokers.tool(CONFIGS, *default, "--describe")
    everything = brokers.tool(CONFIGS, *topic, "--describe", "--all")
    assert "retention.ms=888000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in everything
    for id_ in ("4",):  # it is told by that broker itself, whoever was asked first
        one = ("--entity-type", "brokers", "--entity-name", id_)
        brokers.tool(CONFIGS, *one, "--alter", "--add-config", "log.retention.ms=999000")
        shown = brokers.tool(CONFIGS, *one, "--describe", "--all")
        assert f"node.id={id_} sensitive=false synonyms={{STATIC_BROKER_CONFIG:node.id={id_}" in shown
        assert "log.retention.ms=999000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG" in shown
        brokers.tool(CONFIGS, *one, "--alter", "--delete-config", "log.retention.ms")
        assert "DYNAMIC_BROKER_CONFIG" not in brokers.tool(CONFIGS, *one, "--describe")
    brokers.tool(CONFIGS, *default, "--alter", "--delete-config", "log.retention.ms")
    for wrong in ("retention.ms=soon", "no.such.setting=1"):
        refused = brokers.tool(CONFIGS, *topic, "--alter", "--add-config", wrong, code=1)
        assert "InvalidConfigurationException" in refused
    refused = brokers.tool(CONFIGS, *default, "--alter", "--add-config", "node.id=7", code=1)
    assert "InvalidRequestException" in refused
    refused = brokers.tool(
        CONFIGS, "--entity-type", "brokers", "--entity-name", "2", "--alter", "--add-config",
        "min.insync.replicas=2", code=1,
    )  # fmt: skip
    assert "InvalidConfigurationException" in refused


def test_directories_and_replicas_of_all_brokers_are_looked_at(brokers: Brokers, apache: Path) -> None:
    create(brokers, "seen", "1:2:3")
    fill(brokers, "seen")
    printed = brokers.tool(TOOLS + "LogDirsCommand", "--describe", "--topic-list", "seen")
    described = json.loads(printed.splitlines()[-1])
    holding = {
        row["broker"]: [p["partition"] for directory in row["logDirs"] for p in directory["partitions"]]
        for row in described["brokers"]
    }
    assert holding == {1: ["seen-0"], 2: ["seen-0"], 3: ["seen-0"], 4: []}
    verifying = subprocess.Popen(
        [
            KAFKA / "kafka-class.sh", TOOLS + "ReplicaVerificationTool", "--broker-list", brokers.bootstrap,
            "--topics-include", "seen", "--report-interval-ms", "500",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    told: list[str] = []
    try:
        assert verifying.stdout is not None
        for line in verifying.stdout:
            told.append(line)
            if "max lag is" in line:
                break
    finally:
        verifying.kill()
        verifying.wait()
    assert re.search(r"max lag is 0 for partition seen-0 at offset \d+ among 1 partitions", "".join(told)), (
        told
    )


def test_our_own_commands_add_and_remove_brokers(brokers: Brokers) -> None:
    create(brokers, "shared", "1:2,2:3,3:1,1:3,2:1,3:2")
    fill(brokers, "shared")
    told = brokers.barnabas("topics", "reassign", "shared", "--brokers", "1,2,3,4", "--execute", "--wait")
    assert "6 of 6 moved" in told or re.search(r"(\d) of \1 moved", told)
    with Admin(brokers.bootstrap) as admin:
        held = [b for p in admin.describe_topic("shared").partitions.values() for b in p.replicas]
    assert {broker: held.count(broker) for broker in (1, 2, 3, 4)} == dict.fromkeys((1, 2, 3, 4), 3)
    told = brokers.barnabas("topics", "elect-leaders", "shared", "--json")
    assert {row["error"] for row in json.loads(told)["elected"]} <= {None, "ELECTION_NOT_NEEDED"}
    told = brokers.barnabas("cluster", "remove-brokers", "4", "--execute", "--wait")
    assert "Nothing has to move." not in told
    with Admin(brokers.bootstrap) as admin:
        assert not [
            topic.name
            for topic in admin.topics(internal=True)
            for p in topic.partitions.values()
            if 4 in p.replicas
        ]
    ends = brokers.tool(TOOLS + "GetOffsetShell", "--topic", "shared")
    assert sum(int(end) for end in re.findall(r"shared:\d:(\d+)", ends)) == 300


def test_a_fenced_broker_is_shown_and_forgotten(brokers: Brokers) -> None:
    assert "Cluster ID: 5L6g3nShT-eMCtK--X86sw" in brokers.tool(CLUSTER, verb="cluster-id")
    four = brokers.killed(4)
    shown = brokers.tool(CLUSTER, "--include-fenced-brokers", verb="list-endpoints")
    assert re.search(rf"4 +127\.0\.0\.1 +{four.port} .* fenced +broker", shown)
    assert str(four.port) not in brokers.tool(CLUSTER, verb="list-endpoints")
    assert "Broker 4 is no longer registered." in brokers.tool(CLUSTER, "--id", "4", verb="unregister")
    assert str(four.port) not in brokers.tool(CLUSTER, "--include-fenced-brokers", verb="list-endpoints")
    again = brokers.tool(CLUSTER, "--id", "4", verb="unregister", code=1)
    assert "BrokerIdNotRegisteredException" in again
    four.start()

    def registered() -> bool:
        try:
            with Admin(brokers.bootstrap, timeout=10) as admin:
                return 4 in {broker.id for broker in admin.describe_cluster().brokers}
        except BarnabasError:
            return False

    eventually(registered, 40, "it registers again")
