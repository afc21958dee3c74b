"""Rounds of work for minutes or an hour on a busy machine, and whether a node that lives was fenced meanwhile."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaException

from barnabas.client.admin.admin import Admin
from barnabas.client.admin.quorum import add_controller, remove_controller
from barnabas.client.cluster import Cluster
from barnabas.errors import BarnabasError
from bench.trio import until
from bench.turns_script import Script

__all__ = ["LONG_MS", "LongScript", "Occupied", "verdict"]

LONG_MS = 10.0
_FENCED = re.compile(
    r"^(\S+)Z WARNING (?:controller\.(?:broker-dead|broker-silent|session-over)|broker\.fenced): "
    r".*?\bbroker=(\d+)",
    re.MULTILINE,
)
_ONE_FENCING = 5.0
"""Seconds within which lines of several nodes tell of the same fencing."""
_CAUSES = (
    ("the start of a node", "<module>"),
    ("the start of a node", "open_in_steps"),
    ("the start of a node", "Node._start"),
    ("a decision of the controller", "controller/"),
    ("a decision of the controller", "quorum_requests"),
    ("records of the metadata", "quorum_records"),
    ("records of the metadata", "quorum_transfer"),
    ("a fetch", "broker/requests/fetch"),
    ("a fetch", "broker/sessions"),
    ("a follower's fetch", "broker/replicas/fetcher"),
    ("metadata carried out", "broker/replicas/reconcile"),
    ("metadata carried out", "server/replication/applier"),
    ("an answer about topics", "handlers_metadata"),
    ("maintenance", "broker/replicas/maintenance/maintenance"),
    ("the quorum", "raft/"),
)
"""A cause, and what the frames of the most frequent sample hold then; the first that fits counts."""


class Occupied:
    """Processes that do nothing but use the processors."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Occupied:
        command = [sys.executable, "-c", "while True: pass"]
        self._running = [subprocess.Popen(command) for _ in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()


class LongScript(Script):
    """The same rounds, with another node killed in each, and a voter that goes and comes back."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.down: list[tuple[int, float, float]] = []
        """Nodes that were killed: when, and when they served again (seconds since 1970)."""
        self.failures: list[str] = []

    def run_for(self, seconds: float) -> None:
        """Rounds until so much time has passed."""
        ends = time.monotonic() + seconds
        number = 0
        while time.monotonic() < ends:
            self._round(number)
            number += 1
            print(
                f"round {number} done, {max(0.0, ends - time.monotonic()) / 60:.1f} min are left", flush=True
            )

    def _round(self, number: int) -> None:
        topic = f"wide-{number}"
        victim = number % 3 + 1
        self._try("create", lambda: self.create(topic))
        self._try("with many partitions", lambda: None, 4.0)
        began = time.time()
        self._try("a node killed", lambda: self.kill(victim), 4.0)
        self._try("it starts again", lambda: self.start(victim, topic), 4.0)
        self.down.append((victim, began, time.time()))
        self._try("leaders move back", lambda: self.elect(topic), 3.0)
        self._try("a voter goes", lambda: self.leave(victim), 1.0)
        self._try("it votes again", lambda: self.join(victim), 1.0)
        self._try("delete", lambda: self.delete(topic), 4.0)

    def _try(self, name: str, work: Callable[[], object], least: float = 2.0) -> None:
        """A step that a busy machine does not get done in time is written down; the others go on."""
        try:
            self.phase(name, work, least)
        except (KafkaException, BarnabasError, OSError, SystemExit) as error:
            self.failures.append(f"{name}: {error}")
            print(f"{name:<24} failed: {error}", flush=True)

    def leave(self, number: int) -> None:
        """Make a voter an observer."""
        with (
            Admin(self.trio.bootstrap, timeout=60) as admin,
            Cluster(self.trio.bootstrap, timeout=60) as cluster,
        ):
            [voter] = [voter for voter in admin.quorum().voters if voter.id == number]
            remove_controller(cluster, number, voter.directory_id)

    def join(self, number: int) -> None:
        """Make it a voter again, once it follows."""
        port = self.trio.seats[number].port + 1
        with (
            Admin(self.trio.bootstrap, timeout=60) as admin,
            Cluster(self.trio.bootstrap, timeout=60) as cluster,
        ):
            seen = until(
                lambda: [one for one in admin.quorum().observers if one.id == number], 60, "an observer"
            )
            add_controller(cluster, number, seen[0].directory_id, [("CONTROLLER", "127.0.0.1", port)])


def verdict(script: LongScript, steps: Sequence[dict[str, Any]], logs: Mapping[int, str]) -> int:
    """Print what each node's long steps were and who was fenced; 1 when one of them lived."""
    print("\nsteps above 10 ms CPU by node and cause: count, longest")
    for node in logs:
        found: defaultdict[str, list[float]] = defaultdict(list)
        for step in steps:
            if step["node"] == node and step["cpu_ms"] > LONG_MS:
                found[cause(step)].append(step["cpu_ms"])
        for name, took in sorted(found.items(), key=lambda row: -len(row[1])):
            print(f"  n{node} {name:<32} {len(took):5} {max(took):8.1f} ms")
    fenced, alive = Counter[int](), Counter[int]()
    told = sorted(line for log in logs.values() for line in fences(log))
    for (number, at), (last, before) in zip(told, [(0, 0.0), *told], strict=False):
        if number == last and at - before < _ONE_FENCING:
            continue
        dead = any(number == who and begun - 1 <= at <= ended + 1 for who, begun, ended in script.down)
        (fenced if dead else alive)[number] += 1
    print(f"fenced while they were killed or starting: {dict(sorted(fenced.items())) or 'nobody'}")
    for failure in script.failures:
        print(f"not done: {failure}")
    print(f"nodes that were killed and started again: {len(script.down)}")
    if alive:
        print(f"LIVE NODES WERE FENCED, by node: {dict(sorted(alive.items()))}")
        return 1
    print("no live node was fenced")
    return 0


def cause(step: dict[str, Any]) -> str:
    """What held the loop, from the samples of its stack and what the collector took."""
    if step.get("gc_ms", 0.0) > step["cpu_ms"] / 2:
        return f"the collector, generation {step['gc']}"
    frames = " ".join(frames for _, frames in step["where"][:2])
    return next((name for name, part in _CAUSES if part in frames), "other: " + step["what"][:40])


def fences(log: str) -> list[tuple[int, float]]:
    """Each fencing that a node's log tells of: the broker, and when (seconds since 1970)."""
    return [
        (int(found[2]), datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp())
        for found in _FENCED.finditer(log)
    ]
