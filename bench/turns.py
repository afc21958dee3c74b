"""`python -m bench turns`: how long is the event loop held while a cluster is worked on?

Three nodes, and one librdkafka producer (acks=all) at 500 messages a second to a topic of three partitions.
Meanwhile, in rounds: a topic of many partitions with three replicas is created and deleted, leaders move, and
what runs by itself (maintenance, checkpoints, snapshots) runs often.  Every step of every node's loop is measured
in CPU seconds (`bench/watched.py`); printed are the longest ones by their cause, and the client's waits by phase.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from bench.clients import quantile
from bench.trio import KILL, BarnabasTrio, until

LONG_MS = 10.0
RATE = 500
OFTEN = {
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.retention.check.interval.ms": "2000",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "metadata.log.max.snapshot.interval.ms": "10000",
}
"""What runs once in minutes or hours, often."""


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

        self._producer.produce(
            self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=delivered
        )


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


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench turns", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the script (3)")
    parser.add_argument("--partitions", type=int, default=1000, help="of the wide topic (1000)")
    parser.add_argument("--show", type=int, default=25, help="so many long steps are printed (25)")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="barnabas-turns-") as folder:
        trio = WatchedTrio(Path(folder), 31092, fsync=True)
        for seat in trio.seats.values():
            with seat.properties.open("a") as file:
                file.writelines(f"{name}={value}\n" for name, value in OFTEN.items())
        try:
            trio.start()
            trio.create("steady", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
            load = Load(trio.bootstrap, "steady", 3)
            script = Script(trio, load, options.partitions)

            thread = threading.Thread(target=load.run, daemon=True)
            thread.start()
            time.sleep(2)
            try:
                script.run(options.rounds)
            finally:
                load.over = True
                thread.join(90)
        finally:
            trio.stop()
        steps = [
            {"node": seat.number, **json.loads(line)}
            for seat in trio.seats.values()
            for line in (seat.folder / "steps.jsonl").read_text().splitlines()
        ]
    report(script, load, steps, options.show)
    return 0


def report(script: Script, load: Load, steps: list[dict[str, Any]], show: int) -> None:
    def phase(step: dict[str, Any]) -> str:
        return next((name for name, begun, ended in script.phases if begun <= step["at"] <= ended), "")

    heads = "ms until acknowledged; steps above 10 ms CPU"
    print(f"\n{'phase':<24} {'p50':>8} {'p99':>8} {'p99.9':>8}   {heads}")
    for name in dict.fromkeys(name for name, _, _ in script.phases):
        waits = sorted(load.waits.get(name, []))
        long = sorted(
            (s["cpu_ms"] for s in steps if s["cpu_ms"] > LONG_MS and phase(s) == name), reverse=True
        )
        figures = " ".join(f"{1000 * quantile(waits, q):8.1f}" for q in (0.5, 0.99, 0.999))
        print(f"{name:<24} {figures}   {len(long)}: {' '.join(map(str, long[:6]))}")
    print(f"messages that failed: {load.failed}")
    steps.sort(key=lambda step: -step["cpu_ms"])
    for step in steps[:show]:
        took = f"{step['cpu_ms']:7.1f} ms CPU {step['wall_ms']:7.1f} wall"
        print(f"{took}  n{step['node']} in '{phase(step)}': {step['what']}")
        for count, frames in step["where"]:
            print(f"           {count:4} {frames}")
