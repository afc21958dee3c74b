"""Brokers of both kinds in one cluster: partitions move from ours to Apache Kafka's and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.compat.test_quorum_mixed import script
from tests.server.quorum_processes import Members, eventually

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.model import TopicPartition

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

WHERE = TopicPartition("t", 0)


def produce(bootstrap: str, first: int, count: int = 500) -> None:
    with Producer(bootstrap) as producer:
        for number in range(first, first + count):
            producer.send("t", str(number).encode())


def move(admin: Admin, *replicas: int) -> None:
    """Move `t` there; ends when every broker knows it."""
    assert admin.move({WHERE: replicas}) == {}
    eventually(lambda: not admin.moves(), 60, f"moved to {replicas}")

    def known() -> bool:
        partition = admin.describe_topic("t").partitions[0]
        return tuple(partition.replicas) == replicas and set(partition.isr) == set(replicas)

    eventually(known, 30)


def lead(admin: Admin, broker: int) -> None:
    """It leads in the end (asked for, where it does not by itself)."""
    admin.elect_leaders([WHERE])
    eventually(lambda: admin.describe_topic("t").partitions[0].leader == broker, 30, f"{broker} leads")


def values(bootstrap: str, count: int) -> list[int]:
    with Consumer(bootstrap, "t", start="earliest", idle=10) as consumer:
        seen = []
        for message in consumer:
            seen.append(int(message.value or b""))
            if len(seen) == count:
                break
    return seen


def there_and_back(bootstrap: str, ours: Sequence[int], theirs: Sequence[int]) -> None:
    """From brokers of the one kind to a mix, to the other kind alone, and back."""
    with Admin(bootstrap, timeout=30) as admin:
        admin.create_topic("t", partitions=1, replication=1)
        stations = [
            (ours[0],),
            (ours[0], theirs[0]),
            (theirs[0], ours[0]),
            (theirs[0],),
            (ours[0], theirs[0]),
        ]
        for number, replicas in enumerate(stations):
            move(admin, *replicas)
            lead(admin, replicas[0])
            produce(bootstrap, 500 * number)
        assert values(bootstrap, 2500) == list(range(2500))
        admin.create_topic("spread", partitions=6, replication=3)
        eventually(
            lambda: all(len(p.isr) == 3 for p in admin.describe_topic("spread").partitions.values()), 30
        )


def test_apache_brokers_beside_ours_under_our_controllers(apache: Path, tmp_path: Path) -> None:
    with Members.formed(tmp_path / "ours", 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        controllers = ",".join(f"127.0.0.1:{member.controller}" for member in nodes.all.values())
        bootstrap = ",".join(f"127.0.0.1:{member.port}" for member in nodes.all.values())
        with script(apache, "start4.sh", tmp_path / "k", "broker,controller", BOOTC=controllers) as base:
            with Admin(bootstrap, timeout=30) as admin:
                eventually(lambda: len(admin.describe_cluster().brokers) == 4, 90, "Kafka's broker serves")
            there_and_back(bootstrap, (2,), (4,))
            log = (base / "n4" / "server.log").read_text()
            assert not re.search(r"FATAL|fatal fault|UNSUPPORTED_VERSION", log)


def test_our_broker_beside_apaches_under_its_controllers(apache: Path, tmp_path: Path) -> None:
    ports = [19193, 19293, 19393]
    bootstrap = ",".join(f"127.0.0.1:{port - 1}" for port in ports)
    with script(apache, "start3.sh", tmp_path / "k") as base, Members(tmp_path / "ours") as nodes:
        with Admin(bootstrap, timeout=30) as admin:
            eventually(lambda: len(admin.describe_cluster().brokers) == 3, 120, "Kafka's brokers serve")
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        ours = nodes.join(4, roles="broker", controller_quorum_bootstrap_servers=addresses)
        with Admin(bootstrap, timeout=30) as admin:
            eventually(lambda: len(admin.describe_cluster().brokers) == 4, 60, "our broker serves")
        there_and_back(bootstrap, (4,), (2,))
        assert "Traceback" not in ours.text()
        for number in (1, 2, 3):
            log = (base / f"n{number}" / "server.log").read_text()
            assert not re.search(r"FATAL|fatal fault", log)
