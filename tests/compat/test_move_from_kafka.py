"""Three Apache Kafka nodes become three of ours under traffic, and again Kafka's: docs/move-from-kafka.md, typed.

Controllers, partitions, committed offsets and transactional ids move; nothing acknowledged is lost or there twice.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.chaos.traffic import Reader, Records, Writer, read_everything
from tests.compat.kafka_node import KafkaNode
from tests.compat.test_quorum_mixed import knows_every_request, leading, observed, voters
from tests.server.quorum_processes import Member, Members, eventually, free_ports

from barnabas.client.admin.admin import Admin
from barnabas.sim.cluster.checker import check

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

TOPIC, PARTITIONS, RATE = "orders", 6, 100.0
THEIRS, OURS = (1, 2, 3), (4, 5, 6)
PAID, PAID_EACH = "paid", 10
SETTINGS = {
    "offsets_topic_replication_factor": "3",
    "offsets_topic_num_partitions": "4",
    "transaction_state_log_replication_factor": "3",
    "transaction_state_log_num_partitions": "4",
    "transaction_state_log_min_isr": "2",
    "min_insync_replicas": "2",
}


def typed(line: str, bootstrap: str, code: int = 0) -> str:
    """`barnabas LINE`; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", *line.split()],
        env={**os.environ, "BARNABAS_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    text = done.stdout + done.stderr
    print(f"$ barnabas {line}\n{text}")
    assert done.returncode == code and "Traceback" not in text, f"{line}: {done.returncode}\n{text}"
    return text


class Move:
    """Six nodes at fixed addresses; 1, 2, 3 run Apache Kafka and 4, 5, 6 run Barnabas."""

    def __init__(self, apache: Path, folder: Path) -> None:
        self.apache, self.folder = apache, folder
        free = free_ports(12)
        self.ports = {id_: (free[2 * n], free[2 * n + 1]) for n, id_ in enumerate((*THEIRS, *OURS))}
        self.nodes: dict[int, Member] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{client}" for client, _ in self.ports.values())
        self.paid = 0

    def controllers(self, ids: Sequence[int]) -> list[int]:
        return [self.ports[id_][1] for id_ in ids]

    def theirs(self, id_: int, folder: str, known: Sequence[int]) -> KafkaNode:
        known_ports = self.controllers(known)
        return KafkaNode(self.apache, self.folder / folder, id_, self.ports[id_], known_ports, **SETTINGS)

    def typed(self, line: str, code: int = 0) -> str:
        """`barnabas LINE`, at whatever node serves; what it prints."""
        return typed(line, self.bootstrap, code)

    def voters(self, *ids: int) -> None:
        """These vote, whichever node is asked."""
        for node in self.nodes.values():
            with Admin(node_address(node), timeout=10) as admin:
                eventually(lambda: [v.id for v in admin.quorum().voters] == list(ids), 60, f"{node}: {ids}")

    def leader(self) -> int:
        with Admin(self.bootstrap, timeout=10) as admin:
            return int(eventually(lambda: q.leader if (q := admin.quorum()).leader > 0 else None, 60))

    def serving(self, *ids: int) -> None:
        """These brokers serve, and every partition has all its replicas in sync."""

        def look() -> bool:
            with Admin(self.bootstrap, timeout=10) as admin:
                alive = {broker.id for broker in admin.describe_cluster().brokers}
                rows = [p for t in admin.topics(internal=True) for p in t.partitions.values()]
                return set(ids) <= alive and all(len(p.isr) == len(p.replicas) for p in rows)

        eventually(look, 120, f"brokers {ids} serve, all in sync")

    def carried_by(self, *ids: int) -> None:
        with Admin(self.bootstrap, timeout=10) as admin:
            topics = admin.topics(internal=True)
            assert {"__consumer_offsets", "__transaction_state", TOPIC} <= {topic.name for topic in topics}
            found = {replica for t in topics for p in t.partitions.values() for replica in p.replicas}
        assert found == set(ids)

    def pay(self) -> None:
        """A committed transaction and an aborted one, by the same transactional id each time."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "till", "log_level": 0})
        producer.init_transactions(60)
        for committed in (True, False):
            producer.begin_transaction()
            for _ in range(PAID_EACH):
                producer.produce(PAID, b"%d" % self.paid if committed else b"not paid", partition=0)
                self.paid += committed
            producer.flush(60)
            producer.commit_transaction(60) if committed else producer.abort_transaction(60)

    def booked(self, group: str) -> list[int]:
        """What a group reads on from where it had committed, and commits."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.subscribe([PAID])
        values, deadline = [], time.monotonic() + 90
        try:
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is None:
                    values.append(int(message.value() or b""))
                elif values:  # the end of the partition
                    consumer.commit(asynchronous=False)
                    break
        finally:
            consumer.close()
        return values

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


def node_address(node: Member) -> str:
    return f"127.0.0.1:{node.controller}"


@pytest.fixture
def move(apache: Path, tmp_path: Path) -> Iterator[Move]:
    """Three Apache Kafka nodes with topics."""
    found = Move(apache, tmp_path)
    try:
        directories = ["AAAAAAAAQAAAAAAAAAABAA", "AAAAAAAAQAAAAAAAAAACAA", "AAAAAAAAQAAAAAAAAAADAA"]
        places = zip(THEIRS, found.controllers(THEIRS), directories, strict=True)
        initial = ",".join(f"{id_}@127.0.0.1:{port}:{directory}" for id_, port, directory in places)
        for id_ in THEIRS:
            found.nodes[id_] = found.theirs(id_, f"n{id_}", THEIRS)
            found.nodes[id_].format("--initial-controllers", initial)
        for id_ in THEIRS:
            found.nodes[id_].start()
        found.serving(*THEIRS)
        found.typed(f"topics create {TOPIC} --partitions {PARTITIONS} --replication-factor 3")
        found.typed(f"topics create {PAID} --partitions 1 --replication-factor 3")
        yield found
    finally:
        found.close()


@contextmanager
def traffic(move: Move) -> Iterator[None]:
    """Records flow all the while; in the end each acknowledged one is there once, in order, and was read."""
    records = Records()
    writer = Writer(records, 1, move.bootstrap, TOPIC, PARTITIONS, RATE)
    reader = Reader(records, move.bootstrap, TOPIC, PARTITIONS)
    began = time.monotonic()
    writer.start()
    reader.start()
    try:
        yield
    finally:
        writer.end()
        ended = time.monotonic()
    found = read_everything(records, move.bootstrap, TOPIC, PARTITIONS)
    eventually(lambda: reader.read >= writer.sent, 60, "the reader has all")
    reader.end()
    values = [value for part in found.values() for value in part]
    print(
        f"{writer.sent} records in {ended - began:.0f} s, the longest wait {records.gap(began, ended):.2f} s"
    )
    assert not writer.failures
    assert len(values) == len(set(values)) == writer.sent, "each once"
    verdict = check(records.history)
    assert verdict.ok, verdict.anomalies[:5]


def test_three_apache_kafka_nodes_become_three_of_ours_and_again_kafkas_under_traffic(move: Move) -> None:
    booked: list[int] = []

    def pay() -> None:
        move.pay()
        booked.extend(move.booked("books"))
        assert booked == list(range(move.paid)), "committed once, in order, read on from the committed offset"

    with traffic(move):
        pay()
        there(move, pay)
        back(move, pay)
    for node in move.nodes.values():
        text = node.log.read_text()
        assert not re.search(r"FATAL|fatal fault|Traceback", text), f"{node}: {text[-2000:]}"
    for folder in move.folder.glob("*/server.log"):
        knows_every_request(folder.parents[1])


def there(move: Move, pay: Any) -> None:
    """From Apache Kafka to Barnabas."""
    for id_ in OURS:
        node = Member(
            move.folder / f"n{id_}",
            id_,
            move.ports[id_],
            move.controllers(THEIRS),
            "broker,controller",
            **SETTINGS,
        )
        move.nodes[id_] = node
        node.format("--no-initial-controllers")
        node.start()
    move.serving(*THEIRS, *OURS)

    # Its leader takes no target and no successor, and checks nothing beforehand: that is said; nothing changes.
    for line in ("reassign --target 4,5,6", "replace --node 1 --with 4", "transfer-leadership"):
        assert "the leader runs Apache Kafka" in move.typed(f"quorum {line}", code=1)
    assert "cannot check a change" in move.typed("quorum reassign --target 4,5,6 --dry-run", code=1)
    assert "Apache Kafka answers" in move.typed("quorum history", code=1)
    assert "runs Apache Kafka" in move.typed("quorum describe --detail")
    move.voters(*THEIRS)

    # Its nodes look for the quorum at the addresses of their files only: these have to know ours before theirs go.
    for id_ in THEIRS:
        node = move.nodes[id_]
        node.kill(signal.SIGTERM)
        known = ",".join(f"127.0.0.1:{port}" for port in move.controllers((*OURS, *THEIRS)))
        node.settings["controller.quorum.bootstrap.servers"] = known
        node.write_properties()
        node.start()
        move.serving(*THEIRS, *OURS)

    # The way round: one voter at a time, its leader last.
    leader = move.leader()
    goes = [*(id_ for id_ in THEIRS if id_ != leader), leader]
    now = list(THEIRS)
    for new, old in zip(OURS, goes, strict=True):
        move.typed(f"quorum --command-config {move.nodes[new].properties} add-controller")
        now = sorted([*now, new])
        move.voters(*now)
        move.typed(f"quorum remove-controller --controller-id {old}")
        now.remove(old)
        move.voters(*now)
    pay()

    for id_ in THEIRS:
        move.typed(f"brokers drain {id_} --wait --timeout 120")
    move.carried_by(*OURS)
    pay()
    for id_ in THEIRS:
        move.nodes.pop(id_).kill(signal.SIGTERM)
        eventually(lambda: move.typed(f"brokers unregister {id_}"), 30)  # noqa: B023
    move.serving(*OURS)
    assert "Bears:      1 more failure" in move.typed("quorum describe --detail")
    pay()


def back(move: Move, pay: Any) -> None:
    """From Barnabas to Apache Kafka, on empty disks."""
    for id_ in THEIRS:
        move.nodes[id_] = move.theirs(id_, f"again-n{id_}", (*OURS, *THEIRS))
        move.nodes[id_].format("--no-initial-controllers")
        move.nodes[id_].start()
    move.serving(*THEIRS, *OURS)
    move.typed("brokers add 1 2 3 --wait --timeout 120")  # lifts the cordons that the drains had set
    for id_ in OURS:
        move.typed(f"brokers drain {id_} --keep-voter --wait --timeout 120")
    move.carried_by(*THEIRS)
    pay()

    # Our leader goes all the way to a set in which it still is; then it is removed, and one of theirs leads.
    leader = move.leader()
    assert leader in OURS
    target = ",".join(map(str, [*THEIRS, leader]))
    assert "controller.quorum.bootstrap.servers=" in move.typed(f"quorum reassign --target {target} --wait")
    move.voters(*THEIRS, leader)
    move.typed(f"quorum remove-controller --controller-id {leader}")
    move.voters(*THEIRS)
    with Admin(move.bootstrap) as admin:
        assert "barnabas.quorum.target" not in {setting.name for setting in admin.configs("broker", "")}
    pay()
    for id_ in OURS:
        move.nodes.pop(id_).kill(signal.SIGTERM)
        eventually(lambda: move.typed(f"brokers unregister {id_}"), 30)  # noqa: B023
    move.serving(*THEIRS)
    pay()


def test_a_target_of_kafkas_nodes_alone_says_what_is_left_to_do(apache: Path, tmp_path: Path) -> None:
    """Our leader hands over to the last of them, which knows no target: the command says who still votes."""
    with Members.formed(tmp_path / "ours", 1) as nodes:
        nodes.start()
        nodes.settled([1])
        ours, pair = nodes[1].controller, free_ports(2)
        kafka = KafkaNode(apache, tmp_path / "k", 4, (pair[0], pair[1]), [ours], **SETTINGS)
        kafka.format("--no-initial-controllers")
        nodes.all[4] = kafka.start()
        eventually(lambda: observed(leading([ours]), 4), 90, "Apache Kafka observes")
        said = typed("quorum reassign --target 4 --wait", f"127.0.0.1:{nodes[1].port}", code=1)
        assert "node 4 leads now and runs Apache Kafka, which takes no target; the voters are 1, 4" in said
        assert "`barnabas quorum remove-controller --controller-id 1`" in said
        typed("quorum remove-controller --controller-id 1", f"127.0.0.1:{nodes[1].port}")
        eventually(lambda: (row := leading([kafka.controller])) and voters(row) == [4], 30, "4 votes alone")
