"""Six nodes at fixed addresses, of either kind, and what an operator types at them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.compat.kafka_node import KafkaNode
from tests.server.quorum_processes import Member, eventually, free_ports
from tools.peer import RELEASE

from barnabas.client.admin.admin import Admin

__all__ = ["FIRST", "HELD", "LATER", "PAID", "PAID_PARTITIONS", "SETTINGS", "Six", "typed"]

FIRST, LATER = (1, 2, 3), (4, 5, 6)
"""The nodes that begin, of Apache Kafka, and those that take over."""
PAID, PAID_PARTITIONS = "paid", 3
"""Where committed transactions and aborted ones go, and groups read."""
HELD = "held"
"""Where transactions are open all the while."""
SETTINGS = {
    "offsets_topic_replication_factor": "3",
    "transaction_state_log_replication_factor": "3",
    "transaction_state_log_min_isr": "2",
    "min_insync_replicas": "2",
}
"""Of both kinds: each keeps its own default of everything else, the counts of the internal topics among them."""
_DIRECTORIES = ("AAAAAAAAQAAAAAAAAAABAA", "AAAAAAAAQAAAAAAAAAACAA", "AAAAAAAAQAAAAAAAAAADAA")


def typed(line: str, bootstrap: str, code: int = 0) -> str:
    """Run `barnabas LINE`; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", *line.split()],
        env={**os.environ, "BARNABAS_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    text = done.stdout + done.stderr
    print(f"$ barnabas {line}\n{text}", flush=True)
    assert done.returncode == code and "Traceback" not in text, f"{line}: {done.returncode}\n{text}"
    return text


class Six:
    """`six.form()`: nodes 1, 2, 3 of Apache Kafka, with topics; `close` ends all that run."""

    def __init__(self, apache: Path, folder: Path) -> None:
        self.apache, self.folder = apache, folder
        free = free_ports(12)
        self.ports = {id_: (free[2 * n], free[2 * n + 1]) for n, id_ in enumerate((*FIRST, *LATER))}
        self.nodes: dict[int, Member] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{client}" for client, _ in self.ports.values())

    def controllers(self, ids: Sequence[int]) -> list[int]:
        return [self.ports[id_][1] for id_ in ids]

    def node(self, id_: int, folder: str, known: Sequence[int], *, apache: bool) -> Member:
        """A node that is not formatted yet and knows these controllers."""
        place, addresses = self.folder / folder, self.controllers(known)
        if apache:
            return KafkaNode(self.apache, place, id_, self.ports[id_], addresses, **SETTINGS)
        return Member(place, id_, self.ports[id_], addresses, "broker,controller", **SETTINGS)

    def form(self) -> None:
        """Found the cluster, and make the topics."""
        places = zip(FIRST, self.controllers(FIRST), _DIRECTORIES, strict=True)
        initial = ",".join(f"{id_}@127.0.0.1:{port}:{directory}" for id_, port, directory in places)
        for id_ in FIRST:
            self.nodes[id_] = self.node(id_, f"n{id_}", FIRST, apache=True)
            self.nodes[id_].format("--initial-controllers", initial)
        for id_ in FIRST:
            self.nodes[id_].start()
        self.serving(*FIRST)
        for topic, count in ((PAID, PAID_PARTITIONS), (HELD, 1)):
            self.create(topic, count)

    def create(self, topic: str, partitions: int) -> None:
        self.typed(f"topics create {topic} --partitions {partitions} --replication-factor 3")

    def typed(self, line: str, code: int = 0) -> str:
        """Run `barnabas LINE` at whatever node serves; return what it prints."""
        return typed(line, self.bootstrap, code)

    def voters(self, *ids: int) -> None:
        """Wait until these vote, whichever node is asked."""
        for node in self.nodes.values():
            with Admin(f"127.0.0.1:{node.controller}", timeout=10) as admin:
                eventually(lambda: [v.id for v in admin.quorum().voters] == list(ids), 60, f"{node}: {ids}")

    def leader(self) -> int:
        with Admin(self.bootstrap, timeout=10) as admin:
            return int(eventually(lambda: q.leader if (q := admin.quorum()).leader > 0 else None, 60))

    def serving(self, *ids: int) -> None:
        """Wait until these brokers serve, and every partition has all its replicas in sync."""

        def look() -> bool:
            with Admin(self.bootstrap, timeout=10) as admin:
                alive = {broker.id for broker in admin.describe_cluster().brokers}
                rows = [p for t in admin.topics(internal=True) for p in t.partitions.values()]
                return set(ids) <= alive and all(len(p.isr) == len(p.replicas) for p in rows)

        eventually(look, 180, f"brokers {ids} serve, all in sync")

    def carried_by(self, *ids: int) -> None:
        """Check that these brokers, and no others, have replicas, of the internal topics too."""
        with Admin(self.bootstrap, timeout=10) as admin:
            topics = admin.topics(internal=True)
            assert {"__consumer_offsets", "__transaction_state", PAID, HELD} <= {
                topic.name for topic in topics
            }
            found = {replica for t in topics for p in t.partitions.values() for replica in p.replicas}
        assert found == set(ids)

    def leave(self, *ids: int) -> None:
        """Stop these nodes, which carry nothing and vote no more, and forget them."""
        for id_ in ids:
            self.nodes.pop(id_).kill(signal.SIGTERM)
            eventually(lambda: self.typed(f"brokers unregister {id_}"), 30)  # noqa: B023
            if not RELEASE:  # at the levels of 4.3 there is no record that says so
                self.typed(f"cluster unregister-controller --id {id_}")

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
