"""One file damaged on one of three nodes: nothing acknowledged is lost, and all is in sync again by itself.

`DAMAGED=n make damage` takes n runs from seed SEED on; each draws a file, a harm, a victim and what is restarted.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.damage.harms import KINDS, damage
from tests.server.quorum_processes import Members, eventually

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

RUNS = int(os.environ.get("DAMAGED", "6"))
FIRST = int(os.environ.get("SEED", "1"))
TOPIC, PARTITIONS, RECORDS = "events", 2, 400
WAYS = ("kill all", "kill it", "stop it", "stop all", "while it runs")
NOTICED_S = 20
"""In this time a running node reads all its sealed segments a few times."""
SETTINGS = {
    "default_replication_factor": "3",
    "offsets_topic_num_partitions": "2",
    "offsets_topic_replication_factor": "3",
    "log_roll_ms": "300",
    "min_insync_replicas": "2",
    "barnabas_scrub_interval_ms": "5000",
}


def bootstrap(nodes: Members) -> str:
    return ",".join(f"127.0.0.1:{node.port}" for node in nodes.all.values())


def fill(nodes: Members) -> dict[int, list[bytes]]:
    """Records that were acknowledged, by partition, and a group that has committed."""
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    with Admin(bootstrap(nodes), timeout=30) as admin:
        eventually(lambda: len(admin.describe_cluster().brokers) == 3, 30)
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication=3)
    with Producer(bootstrap(nodes)) as producer:
        for number in range(RECORDS):
            value = b"%d " % number + b"x" * (number % 200)
            sent[number % PARTITIONS].append(value)
            producer.send(TOPIC, value, partition=number % PARTITIONS)
            if number % 20 == 19:
                producer.flush()
    with Consumer(bootstrap(nodes), TOPIC, group="readers", start="earliest", idle=10) as consumer:
        for count, _ in enumerate(consumer, 1):
            if count == RECORDS:
                break
        consumer.commit()
    return sent


def read(nodes: Members) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    with Consumer(bootstrap(nodes), TOPIC, start="earliest", idle=3) as consumer:
        for message in consumer:
            found[message.partition].append(message.value or b"")
    return found


def whole(nodes: Members) -> bool:
    """Every partition has a leader and all its replicas in sync."""
    with Admin(bootstrap(nodes), timeout=5) as admin:
        rows = [p for topic in admin.topics(internal=True) for p in topic.partitions.values()]
        return len(rows) >= PARTITIONS and all(p.leader > 0 and len(p.isr) == 3 for p in rows)


def end(nodes: Members, ids: Sequence[int], how: int) -> None:
    for id_ in ids:
        nodes[id_].signal(how)
    for id_ in ids:
        process = nodes[id_].process
        assert process is not None
        process.wait(60)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + RUNS))
def test_one_damaged_file_of_three_nodes_costs_nobody_a_record(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    way = chance.choice(WAYS)
    with Members.formed(tmp_path, 3, **SETTINGS) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        sent = fill(nodes)
        eventually(lambda: whole(nodes), 30)
        with Admin(bootstrap(nodes), timeout=10) as admin:
            leaders = {admin.describe_topic(TOPIC).partitions[0].leader, admin.quorum().leader}
        victim = chance.choice([*leaders, *nodes.all])
        ids = list(nodes.all) if way.endswith("all") else [victim] * way.endswith("it")
        end(nodes, ids, signal.SIGKILL if way.startswith("kill") else signal.SIGTERM)
        kinds = tuple(KINDS) if ids else ("records", "group records")
        drawn = (damage(nodes[victim].data, seed + 1001 * again, kinds) for again in itertools.count())
        done = next(harm for harm in drawn if harm is not None)
        print(f"\nseed {seed}: {way}, node {victim}{' (leads)' * (victim in leaders)}: {done}", flush=True)
        chance.shuffle(ids)
        for id_ in ids:
            nodes[id_].start()
        if not ids:
            with suppress(
                AssertionError
            ):  # nobody reads a file of which all records are in newer ones, or gone
                eventually(lambda: "log.damaged" in nodes[victim].text(), NOTICED_S)
        eventually(lambda: refused(nodes, victim) or whole(nodes), 60, "all in sync, or refused")
        if why := refused(nodes, victim):
            print(f"  refused: {why}")
        assert read(nodes) == sent


def refused(nodes: Members, victim: int) -> str:
    """The next step that a node named when it would not start; empty where it runs."""
    if nodes[victim].alive:
        return ""
    lines = nodes[victim].text().splitlines()
    steps = [line for line in lines if "next" in line]
    assert steps, lines[-5:]
    try:
        with Admin(bootstrap(nodes), timeout=5) as admin:
            serving = all(p.leader > 0 for p in admin.describe_topic(TOPIC).partitions.values())
    except BarnabasError:
        return ""
    return steps[-1] if serving else ""
