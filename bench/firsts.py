"""`python -m bench firsts --old COMMIT`: what comes first in a new cluster, and a node at rest, beside a commit.

  start         an empty directory: until the first record is acknowledged, and the memory then
  transaction   the first of the cluster, of one record: from init_transactions to its commit (librdkafka)
  join          the first group of the cluster: from subscribe to its first record (librdkafka)
  idle          a node that has done this: its memory, and the cores that it takes for half a minute
  fixtures      `barnabas.testing.Cluster` of one and of three nodes: until it is there, memory and cores at rest

Each side has the counts of partitions that it has by default.  Sides take turns, and the least of each counts; a
JVM works for 25 s before its first transaction and group.  It prints a table: Barnabas, the commit, Apache Kafka,
and the ratios of the first to both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import cells
from bench.cells import Load
from bench.earlier import Earlier, checkout, sources
from bench.peers import ROOT, ApacheKafka, Barnabas, Peer, apache_is_here
from bench.processes import cpu_seconds, load, machine, resident_mb
from bench.report import revision

__all__ = ["main", "table"]

SETTINGS = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
TOPIC = "firsts"
WORK_S = {ApacheKafka.name: 25.0}
"""Seconds that a side produces before its first transaction."""
REST_S, WATCHED_S = 10.0, 30.0
PATIENCE_S = 60.0
Figures = dict[str, float]
ROWS = {
    "start_s": "start to first ack, s",
    "started_MB": "memory then, MB",
    "transaction_s": "first transaction, s",
    "join_s": "first group's join, s",
    "idle_MB": "memory at rest, MB",
    "idle_cores": "cores at rest",
    "fixture1_s": "fixture of one node, s",
    "fixture1_MB": "its memory, MB",
    "fixture1_cores": "its cores at rest",
    "fixture3_s": "fixture of three nodes, s",
    "fixture3_MB": "their memory, MB",
    "fixture3_cores": "their cores at rest",
}
_FIXTURES = """
import json, os, sys, time
from bench.processes import cpu_seconds, resident_mb
from barnabas.testing import Cluster
rest, watched = map(float, sys.argv[1:])
found = {}
for count in (1, 3):
    begun = time.monotonic()
    with Cluster(nodes=count) as cluster:
        name = f"fixture{count}"
        found[f"{name}_s"] = time.monotonic() - begun
        pids = [cluster.node(number).pid for number in range(1, count + 1)]
        time.sleep(rest)
        before, since = sum(map(cpu_seconds, pids)), time.monotonic()
        time.sleep(watched)
        found[f"{name}_cores"] = (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - since)
        found[f"{name}_MB"] = sum(map(resident_mb, pids))
print(json.dumps(found))
"""


def main(words: list[str]) -> int:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench firsts", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--old", metavar="COMMIT", help="the commit to stand beside (none: only what is here)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    options = parser.parse_args(words)
    why = "as asked" if options.alone else apache_is_here()
    before = load()
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-firsts-") as name,
        checkout(options.old) as old,
    ):
        sides: list[type[Peer]] = [Barnabas, *([Earlier] if old else []), *([] if why else [ApacheKafka])]
        client = Load(cells.build_load_client(Path(name)))
        found: dict[str, list[Figures]] = {}
        for number in range(options.rounds):
            for place, side in enumerate(sides):
                folder = Path(name) / f"{side.__name__}-{number}"
                peer = side(folder, 33092 + 10 * place, fsync=False, settings=SETTINGS)
                found.setdefault(side.name, []).append(measure(peer, client, old))
                print(f"round {number + 1} {side.name}: {found[side.name][-1]}", file=sys.stderr, flush=True)
    day, alone = time.strftime("%Y-%m-%d"), f"; alone ({why})" if why else ""
    print(f"Measured {day} at {revision()}; {machine()}; load before {before:.1f}{alone}")
    print(table(found))
    return 0


def measure(peer: Peer, client: Load, old: Path | None) -> Figures:
    """One round of one side."""
    found: Figures = {}
    try:
        started = cells.start_to_first_ack(client).run(peer)
        found["start_s"], found["started_MB"] = started["acked"], started["idle_MB"]
        _work(peer)
        found["transaction_s"] = _transaction(peer)
        found["join_s"] = _join(peer)
        time.sleep(REST_S)
        before, since = cpu_seconds(peer.pid), time.monotonic()
        time.sleep(WATCHED_S)
        found["idle_cores"] = (cpu_seconds(peer.pid) - before) / (time.monotonic() - since)
        found["idle_MB"] = resident_mb(peer.pid)
    finally:
        peer.stop()
    if isinstance(peer, Barnabas):
        root = old if isinstance(peer, Earlier) and old is not None else ROOT
        command = [sys.executable, "-c", _FIXTURES, str(REST_S), str(WATCHED_S)]
        done = subprocess.run(command, env=sources(root), stdout=subprocess.PIPE, text=True, check=True)
        found |= json.loads(done.stdout.splitlines()[-1])
    return found


def _work(peer: Peer) -> None:
    """Make the topic, and produce to it for a while."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    until = time.monotonic() + WORK_S.get(peer.name, 3.0)
    while time.monotonic() < until:
        producer.produce(TOPIC, b"x" * 100)
        producer.poll(0.002)
    producer.flush(PATIENCE_S)


def _transaction(peer: Peer) -> float:
    producer = Producer({"bootstrap.servers": peer.bootstrap, "transactional.id": "first", "log_level": 0})
    begun = time.monotonic()
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"first")
    producer.commit_transaction(PATIENCE_S)
    return time.monotonic() - begun


def _join(peer: Peer) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "first",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    begun = time.monotonic()
    consumer.subscribe([TOPIC])
    message = consumer.poll(PATIENCE_S)
    took = time.monotonic() - begun
    consumer.close()
    if message is None or message.error() is not None:
        raise SystemExit(f"{peer.name}: the first group read nothing in {PATIENCE_S:.0f} s")
    return took


def table(found: Mapping[str, list[Figures]]) -> str:
    """Return the least of each side, and the ratio of the first side to each other one."""
    first, *others = found
    head = ["what", *found, *(f"ratio to {name}" for name in others)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for key, said in ROWS.items():
        least = {
            name: min((r[key] for r in rounds if key in r), default=None) for name, rounds in found.items()
        }
        ours = least[first]
        ratios = [f"{ours / it:.2f}" if ours is not None and (it := least[name]) else "-" for name in others]
        shown = ["-" if value is None else f"{value:.3g}" for value in least.values()]
        lines.append([said, *shown, *ratios])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
