"""The clusters that a copy runs on: three nodes of ours, six whose voters move, or three of Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol

from bench.trio import KILL, ApacheTrio, until

from barnabas.client.admin.admin import Admin
from barnabas.testing.cluster import Cluster, free_ports

__all__ = ["MOVING", "Apache", "Ground", "move_voters", "ours"]

MOVING = ((1, 2, 3), (4, 5, 6))
"""The voters at first, and those to which they move."""
_REPLICAS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Ground(Protocol):
    """What a run asks of its cluster."""

    @property
    def bootstrap(self) -> str: ...

    def leader_of(self, topic: str, partition: int = 0) -> int: ...

    def kill(self, *numbers: int) -> None: ...

    def start(self, *numbers: int) -> None: ...


def ours(settings: Mapping[str, str], *, moving: bool) -> Cluster:
    """Three nodes; with `moving` six, of which the first three are voters once `move_voters` was there."""
    if not moving:
        return Cluster(settings, nodes=3)
    return Cluster({"controller.quorum.auto.join.enable": "false", **settings}, nodes=6)


def move_voters(bootstrap: str, wanted: Iterable[int], *, wait: bool) -> None:
    """Say who the voters shall be; `wait` until they are."""
    target = sorted(wanted)

    def say() -> bool:
        with Admin(bootstrap) as admin:
            admin.reassign_controllers(target)
        return True

    until(say, 120, f"a target of {target}")  # (a node may be down now)
    if wait:
        with Admin(bootstrap) as admin:
            until(lambda: voters(admin) == target, 120, f"voters {target}")


def voters(admin: Admin) -> list[int]:
    return sorted(replica.id for replica in admin.quorum().voters)


class Apache:
    """Three nodes of Apache Kafka, as `make compat` starts them."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._trio = ApacheTrio(folder, free_ports(40), fsync=False, settings={**_REPLICAS, **settings})
        self.bootstrap = self._trio.bootstrap

    def __enter__(self) -> Apache:
        try:
            self._trio.start()
        except BaseException:
            self._trio.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trio.stop()

    def leader_of(self, topic: str, partition: int = 0) -> int:
        with Admin(self.bootstrap) as admin:
            return admin.describe_topic(topic).partitions[partition].leader

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            self._trio.seats[number].end(KILL)

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self._trio.start_one(number)
        for number in numbers:
            self._trio.wait_port(number)
        time.sleep(1)  # (it listens before it has caught up)
