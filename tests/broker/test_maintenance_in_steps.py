"""Maintenance of a node with thousands of partitions goes a few logs at a time; with few it is one step."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node

from barnabas.broker.replicas import broker as replicas
from barnabas.broker.replicas import isr as in_sync
from barnabas.broker.replicas.maintenance import maintenance
from barnabas.broker.replicas.partition import Partition
from barnabas.log.log import Log
from barnabas.model import Now, Offset
from barnabas.sim.kernel.disk import MemoryDisk


class Looked:
    """Counts what maintenance looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ticked = self.aged = 0
        tick, flush = Log.tick, Partition.flush_if_old

        def ticked(log: Log, now: Now, start: Offset) -> list[str]:
            self.ticked += 1
            return tick(log, now, start)

        def aged(partition: Partition, now: Now) -> None:
            self.aged += 1
            flush(partition, now)

        monkeypatch.setattr(Log, "tick", ticked)
        monkeypatch.setattr(Partition, "flush_if_old", aged)

    def since(self) -> tuple[int, int]:
        found, self.ticked, self.aged = (self.ticked, self.aged), 0, 0
        return found


BOUNDED = {"flush.ms": "3600000"}


def later(node: Node) -> None:
    """Every log has something due: producers are looked at every ten minutes."""
    node.mono += 601
    node.broker.maintain(node.now)


def test_few_logs_are_looked_at_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(MemoryDisk())
    node.create("t", 20, **BOUNDED)
    later(node)
    looked = Looked(monkeypatch)
    later(node)
    assert looked.since() == (20, 20)
    assert not node.broker.maintaining or node.broker.maintenance.busy


def test_logs_that_have_nothing_due_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(MemoryDisk())
    node.create("t", 20)
    later(node)
    later(node)
    looked = Looked(monkeypatch)
    for _ in range(5):
        node.mono += 61
        node.broker.maintain(node.now)
    assert looked.since() == (0, 0)
    node.create("bounded", 3, **BOUNDED)
    node.mono += 61
    node.broker.maintain(node.now)
    assert looked.since() == (3, 3)


def test_no_step_looks_at_more_than_its_share_and_each_log_has_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maintenance, "_TICKED_PER_STEP", 7)
    monkeypatch.setattr(maintenance, "_ROWS_PER_STEP", 1)
    monkeypatch.setattr(replicas, "_PARTITIONS_PER_STEP", 9)
    node = Node(MemoryDisk())
    node.create("t", 40, **BOUNDED)
    while True:  # what the creation left to do
        node.broker.maintain(node.now)
        if not node.broker.maintaining:
            break
    looked = Looked(monkeypatch)
    later(node)
    ticked = aged = steps = 0
    while node.broker.maintaining:
        of_step = looked.since()
        assert of_step[0] <= 7 and of_step[1] <= 9
        ticked, aged, steps = ticked + of_step[0], aged + of_step[1], steps + 1
        assert steps < 100
        node.broker.maintain(node.now)
    assert ticked + looked.ticked == 40
    assert aged + looked.aged >= 40
    assert steps >= 40 // 9


def test_each_partition_is_looked_at_for_followers_that_lag_so_many_in_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_sync, "PARTITIONS_PER_STEP", 4)
    node = Node(MemoryDisk())
    node.create("t", 10, replicas=(1, 2), isr=(1, 2))
    while True:
        node.broker.maintain(node.now)
        if not node.broker.maintaining:
            break
    asked: list[int] = []
    monkeypatch.setattr(Partition, "laggards", lambda partition, now: asked.append(partition.index) or [])
    node.mono += 61
    steps = []
    while not steps or node.broker.in_sync.looking:
        before = len(asked)
        node.broker.maintain(node.now)
        steps.append(len(asked) - before)
    assert steps == [4, 4, 2]
    assert sorted(asked) == list(range(10))


def test_a_log_that_is_deleted_meanwhile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_TICKED_PER_STEP", 2)
    monkeypatch.setattr(replicas, "_PARTITIONS_PER_STEP", 2)
    node = Node(MemoryDisk())
    node.create("t", 6, **BOUNDED)
    node.broker.maintain(node.now)
    later(node)
    looked = Looked(monkeypatch)
    node.delete("t")
    node.turn()
    while node.broker.maintaining:
        node.broker.maintain(node.now)
    assert looked.since() == (0, 0)
