"""What is done to three watched nodes: a steady producer, and rounds of work on a topic of many partitions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from bench.trio import KILL, BarnabasTrio, until

__all__ = ["Load", "Script", "WatchedTrio"]

RATE = 500


class WatchedTrio(BarnabasTrio):
    """Nodes that write down their long steps."""

    def start_command(self, properties: Path) -> list[str]:
        steps = properties.parent / "steps.jsonl"
        return [sys.executable, "-m", "bench.watched", str(steps), "start", str(properties)]


class Load:
    """A producer at a steady rate; `during(phase)` files the waits for acknowledgements under a name."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.waits: dict[str, list[float]] = {}
        self.phase = ""
        self.over = False
        self.failed = 0
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        )

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        self.phase = phase
        yield
        self.phase = ""

    def run(self) -> None:
        begun, sent = time.monotonic(), 0
        while not self.over:
            while (wait := begun + sent / RATE - time.monotonic()) > 0:
                self._producer.poll(min(wait, 0.01))
            self._send(sent)
            sent += 1
            self._producer.poll(0)
        self._producer.flush(60)

    def _send(self, number: int) -> None:
        phase, at = self.phase, time.monotonic()

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                self.failed += 1
            elif phase:
                self.waits.setdefault(phase, []).append(time.monotonic() - at)

        try:
            self._producer.produce(
                self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=delivered
            )
        except BufferError:  # the cluster has stood still for minutes
            self.failed += 1


class Script:
    """What is done to the cluster, phase by phase."""

    def __init__(self, trio: WatchedTrio, load: Load, partitions: int) -> None:
        self.trio, self.load, self.partitions = trio, load, partitions
        self.phases: list[tuple[str, float, float]] = []

    def phase(self, name: str, work: Callable[[], object], least: float = 2.0) -> None:
        """Do it, and let the cluster rest until `least` seconds have passed."""
        begun = time.monotonic()
        with self.load.during(name):
            work()
            took = time.monotonic() - begun
            time.sleep(max(0.5, least - took))
        self.phases.append((name, begun, time.monotonic()))
        print(f"{name:<24} {took:6.2f} s", flush=True)

    def run(self, rounds: int) -> None:
        self.phase("quiet", lambda: None, 5.0)
        for number in range(rounds):
            topic = f"wide-{number}"
            self.phase("create", lambda topic=topic: self.create(topic))
            self.phase("with many partitions", lambda: None, 8.0)
            self.phase("a node killed", lambda: self.kill(2), 4.0)
            self.phase("it starts again", lambda topic=topic: self.start(2, topic), 4.0)
            self.phase("leaders move back", lambda topic=topic: self.elect(topic), 3.0)
            self.phase("delete", lambda topic=topic: self.delete(topic), 4.0)

    def create(self, topic: str) -> None:
        numbers = list(self.trio.seats)
        assignment = [numbers[n % 3 :] + numbers[: n % 3] for n in range(self.partitions)]
        wanted = NewTopic(topic, self.partitions, replica_assignment=assignment)
        self.trio.admin.create_topics([wanted], request_timeout=60)[topic].result(60)
        until(lambda: self.trio.full(topic), 120, "all replicas in sync")

    def kill(self, number: int) -> None:
        self.trio.seats[number].end(KILL)

    def start(self, number: int, topic: str) -> None:
        self.trio.start_one(number)
        self.trio.wait_port(number)
        until(lambda: self.trio.full(topic), 120, "all replicas in sync")

    def elect(self, topic: str) -> None:
        self.trio.admin.elect_leaders(
            ElectionType.PREFERRED, [TopicPartition(topic, index) for index in range(self.partitions)]
        ).result(60)

    def delete(self, topic: str) -> None:
        self.trio.admin.delete_topics([topic])[topic].result(60)
