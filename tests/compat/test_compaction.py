"""One compacted topic that our node and Apache Kafka write, compact and read in turns, in one directory."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.compat.conftest import NodeProcess, kafka_class
from tests.compat.test_apache import dumped, files_of

pytestmark = pytest.mark.compat

KEYS = 40
SIZE = 1000
SETTINGS = {
    "log_cleaner_backoff_ms": "100",
    "log_roll_ms": "100",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "1",
}
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@contextmanager
def apache_kafka_on(node: NodeProcess, scripts: Path) -> Iterator[None]:
    """Apache Kafka in the place of our node: its directory, its ports."""
    with (node.folder / "kafka.log").open("ab") as log:
        process = subprocess.Popen(
            [scripts / "broker-class.sh", str(node.properties)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            until(lambda: reaches(node.port) or process.poll() is not None, 90)
            assert process.poll() is None, (node.folder / "kafka.log").read_text()[-4000:]
            until(lambda: len(AdminClient({"bootstrap.servers": node.bootstrap}).list_topics().brokers) == 1)
            yield
            process.terminate()
            assert process.wait(60) in (0, 143)
        finally:
            process.kill()
            process.wait()


def reaches(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def until(holds: Callable[[], object], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(0.1)


class Model:
    """What the topic must read as: the last committed value of each key, None for a deletion mark."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.last: dict[bytes, bytes | None] = {}
        self.serial = 0

    def rows(self, count: int) -> list[tuple[bytes, bytes | None]]:
        rows = []
        for _ in range(count):
            self.serial += 1
            key = b"key-%d" % (self.serial * 7 % KEYS)
            value = None if self.serial % 11 == 0 else (b"%d:" % self.serial).ljust(SIZE, b".")
            rows.append((key, value))
        return rows

    def produce(self, count: int, **settings: Any) -> None:
        """Plain idempotent records, compressed or not."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **settings})
        self._send(producer, rows := self.rows(count))
        assert producer.flush(60) == 0
        self.last.update(rows)

    def seal(self) -> None:
        """What was written before may be compacted: its segment is old, and one more record begins another."""
        time.sleep(0.2)
        self.produce(1)

    def transact(self, rounds: int) -> None:
        """Transactions, every other one aborted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "tx"})
        producer.init_transactions(60)
        for round_ in range(rounds):
            producer.begin_transaction()
            self._send(producer, rows := self.rows(50))
            if round_ % 2:
                producer.flush(60)
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                self.last.update(rows)

    def _send(self, producer: Any, rows: list[tuple[bytes, bytes | None]]) -> None:
        failures: list[object] = []
        for key, value in rows:
            producer.produce(
                "c", value, key, on_delivery=lambda error, _: failures.append(error) if error else None
            )
            producer.poll(0)
        producer.flush(60)
        assert not failures

    def read(self) -> tuple[dict[bytes, bytes | None], int]:
        """librdkafka from the beginning, committed records only: what a key was last, and how many came."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
            }
        )
        found: dict[bytes, bytes | None] = {}
        offsets: list[int] = []
        try:
            consumer.assign([TopicPartition("c", 0, OFFSET_BEGINNING)])
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                message: Any = consumer.poll(1)
                if message is None:
                    continue
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    break
                found[message.key()] = message.value()
                offsets.append(message.offset())
        finally:
            consumer.close()
        assert offsets == sorted(set(offsets))
        return found, len(offsets)

    def check(self) -> int:
        """What is read is what was written; how many records it took."""
        found, count = self.read()
        expected = {key: value for key, value in self.last.items() if value is not None}
        assert {key: value for key, value in found.items() if value is not None} == expected
        assert all(self.last.get(key) == value for key, value in found.items())
        return count

    def check_by_java(self) -> None:
        printed = kafka_class(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap, "--topic", "c", "--partition", "0", "--from-beginning"),
            *("--isolation-level", "read_committed", "--timeout-ms", "5000"),
            *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=="),
        )
        found = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
        expected = {k.decode(): v.decode() for k, v in self.last.items() if v is not None}
        assert {key: value for key, value in found.items() if value != "null"} == expected


def cleaned(node: NodeProcess) -> int:
    for line in (node.data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]:
        topic, _, offset = line.split()
        if topic == "c":
            return int(offset)
    return 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_topic_is_compacted_by_either_of_us_and_read_by_everybody(apache: Path, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node", **SETTINGS)
    model = Model(node.bootstrap)
    try:
        node.start()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("c", 1, 1, config=TOPIC)])["c"].result(20)
        for codec in ("none", "lz4", "zstd", "gzip", "snappy"):
            model.produce(1200, **{"compression.type": codec})
        model.seal()
        until(lambda: (node.data / "cleaner-offset-checkpoint").exists() and cleaned(node) > 4000)
        assert model.check() < 2500
        model.check_by_java()
        assert node.stop() == 0, node.log.read_text()
        printed = dumped(node, files_of(node.data / "c-0"), "--print-data-log")
        assert not [line for line in printed if "isvalid: false" in line]
        indexes = [*(node.data / "c-0").glob("*.index"), *(node.data / "c-0").glob("*.timeindex")]
        checked = kafka_class(
            "org.apache.kafka.tools.DumpLogSegments",
            *("--files", ",".join(map(str, indexes)), "--index-sanity-check"),
        )
        assert checked.count("passed sanity check") + checked.count("is empty") == len(indexes)

        with apache_kafka_on(node, apache):
            model.check()
            before = cleaned(node)
            model.transact(20)
            model.produce(1500)
            model.seal()
            until(lambda: cleaned(node) > before)
            model.check()
            model.transact(20)
        log_was = len((node.log).read_text())
        node.start()
        model.check()
        model.produce(1500)
        model.seal()
        until(lambda: model.check() < 500)
        model.check_by_java()
        assert "not-compacted" not in node.log.read_text()[log_was:]
        assert node.stop() == 0, node.log.read_text()
        printed = dumped(node, files_of(node.data / "c-0"), "--print-data-log")
        assert not [line for line in printed if "isvalid: false" in line]
        with apache_kafka_on(node, apache):
            model.check()
            model.check_by_java()
            model.produce(1500)
            model.check()
        assert "Unexpected exception" not in (node.folder / "kafka.log").read_text()
    finally:
        node.discard()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_node_killed_while_it_compacts_loses_no_last_value(tmp_path: Path) -> None:
    """Fifteen lives: what was acknowledged last of each key, or something newer, is there in the next one."""
    chance = random.Random(11)
    settings = {**SETTINGS, "log_cleaner_backoff_ms": "20", "log_cleaner_dedupe_buffer_size": "6000"}
    node = NodeProcess(tmp_path / "node", **settings)
    acknowledged: dict[bytes, int] = {}
    serial = rounds = 0
    try:
        node.start()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("c", 1, 1, config={**TOPIC, "segment.ms": "60"})])["c"].result(20)
        for life in range(15):
            producer = Producer(
                {
                    "bootstrap.servers": node.bootstrap,
                    "enable.idempotence": True,
                    "linger.ms": 1,
                    "log_level": 0,
                }
            )

            def delivered(error: object, message: Any) -> None:
                if error is None:
                    key, value = message.key(), int(message.value().split(b":")[0])
                    acknowledged[key] = max(acknowledged.get(key, -1), value)

            ends = time.monotonic() + chance.uniform(0.5, 1.5)
            while time.monotonic() < ends:
                serial += 1
                value = b"%d:" % serial + b"x" * chance.randrange(2000)
                producer.produce("c", value, b"key-%d" % chance.randrange(50), on_delivery=delivered)
                producer.poll(0.001)
            node.kill()
            producer.poll(0)
            before = cleaned(node) if (node.data / "cleaner-offset-checkpoint").exists() else 0
            rounds += before > 0
            node.start()
            producer.purge()
            model = Model(node.bootstrap)
            found, _ = model.read()
            last = {key: int((value or b"").split(b":")[0]) for key, value in found.items()}
            behind = {
                key: (value, last.get(key))
                for key, value in acknowledged.items()
                if last.get(key, -1) < value
            }
            assert not behind, f"life {life}"
        assert rounds > 5
        assert node.stop() == 0
        assert not list((node.data / "c-0").glob("*.cleaned"))
    finally:
        node.discard()
    assert "not-compacted" not in node.log.read_text()
    assert "log.lost" not in node.log.read_text()
