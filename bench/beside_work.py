"""What happens beside the record that `bench/beside.py` measures, each in a process of its own.

A thread that sends waits for Python's lock while others work: what is measured shares its process with nobody.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

__all__ = ["WORKS", "Beside"]

CREATED = 100
"""Partitions of a topic that comes and goes."""
_processes = multiprocessing.get_context("spawn")


def topics(bootstrap: str, over: Any) -> int:
    """Topics come and go."""
    admin, times = _admin(bootstrap), 0
    while not over.is_set():
        name = f"made-{times}-{time.time_ns()}"
        admin.create_topics([NewTopic(name, CREATED, 3)], request_timeout=30)[name].result(60)
        over.wait(0.3)
        admin.delete_topics([name], request_timeout=30)[name].result(60)
        over.wait(0.3)
        times += 1
    return times


def compaction(bootstrap: str, over: Any) -> int:
    """Records whose keys come again; the cleaner follows."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    begun, sent = time.monotonic(), 0
    while not over.is_set():
        time.sleep(max(0.0, begun + sent / 1000 - time.monotonic()))
        for _ in range(10):
            producer.produce("compacted", b"x" * 1024, key=b"%d" % (sent % 500))
            sent += 1
        producer.poll(0)
    producer.flush(30)
    return sent


def snapshots(bootstrap: str, over: Any) -> int:
    """Settings change, so that there is something to write down."""
    admin, times = _admin(bootstrap), 0
    while not over.wait(0.05):
        entry = ConfigEntry(
            "retention.ms", str(10_000_000 + times), incremental_operation=AlterConfigOpType.SET
        )
        asked = ConfigResource(ResourceType.TOPIC, "changed", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([asked], request_timeout=30).values():
            future.result(60)
        times += 1
    return times


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


WORKS: dict[str, Callable[[str, Any], int]] = {
    work.__name__: work for work in (topics, compaction, snapshots)
}


def _run(name: str, bootstrap: str, over: Any, told: Any) -> None:
    times = WORKS[name](bootstrap, over)
    used = resource.getrusage(resource.RUSAGE_SELF)
    told.put((times, used.ru_utime + used.ru_stime))


class Beside:
    """`with Beside(bootstrap, ["topics"]) as beside: ...`; then `deeds`, and `cpu_s` of these processes."""

    def __init__(self, bootstrap: str, names: Sequence[str]) -> None:
        self.deeds, self.cpu_s = 0, 0.0
        self._over, self._told = _processes.Event(), _processes.Queue()
        self._running = [
            _processes.Process(target=_run, args=(name, bootstrap, self._over, self._told), daemon=True)
            for name in names
        ]

    def __enter__(self) -> Beside:
        for one in self._running:
            one.start()
        return self

    @property
    def pids(self) -> list[int]:
        return [one.pid for one in self._running if one.pid is not None]

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for _one in self._running:
            times, cpu = self._told.get(timeout=120)
            self.deeds += times
            self.cpu_s += cpu
        for one in self._running:
            one.join(30)
