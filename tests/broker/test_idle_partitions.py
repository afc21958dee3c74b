"""What a fetch, a wake and a turn cost depends on the partitions that moved, never on how many there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.broker.harness import PAGE_CACHE, Answer, Node, batch

from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.reading import Reader
from barnabas.sim.kernel.disk import MemoryDisk

BUSY = ("busy", 0)


class Looked:
    """Counts the partitions that anything looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: Counter[str] = Counter()
        for owner, name in (
            (Partition, "advance"),
            (Partition, "write"),
            (Partition, "fetched_by"),
            (Reader, "read"),
        ):
            monkeypatch.setattr(owner, name, self._counting(name, getattr(owner, name)))

    def _counting(self, name: str, call: Any) -> Any:
        def counted(*args: Any, **more: Any) -> Any:
            self.at[name] += 1
            return call(*args, **more)

        return counted


class Client:
    """A fetch session over all partitions of a node; `replica` -1: a consumer."""

    def __init__(self, node: Node, replica: int, idle: int) -> None:
        self.node, self.replica, self.offset, self.epoch = node, replica, 0, 1
        every = {BUSY: 0} | {("idle", index): 0 for index in range(idle)}
        self.session = self._ask(every, (0, 0), 0).message.session_id

    def _ask(self, named: dict[tuple[str, int], int], session: tuple[int, int], wait: int) -> Answer:
        return self.node.fetch(named, session=session, max_wait_ms=wait, replica=self.replica, log_start=0)

    def fetch(self, wait: int = 500) -> Answer:
        """The next fetch, which names only the partition that moves."""
        answer = self._ask({BUSY: self.offset}, (self.session, self.epoch), wait)
        self.epoch += 1
        return answer


def node_with(idle: int, **settings: str) -> Node:
    node = Node(MemoryDisk(1), log_flush_interval_messages=PAGE_CACHE, **settings)
    node.create("busy", replicas=(1, 2))
    node.create("idle", idle, replicas=(1, 2))
    return node


def looked_at(idle: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What twenty produced records look at, with a follower and a consumer that wait for them."""
    node = node_with(idle)
    follower, consumer = Client(node, 2, idle), Client(node, -1, idle)
    node.turn()
    for client in (follower, consumer):
        client.fetch(0)
        node.turn()
    with monkeypatch.context() as patched:
        looked = Looked(patched)
        waiting = [follower.fetch(), consumer.fetch()]
        for number in range(20):
            produced = node.produce(batch("x"), "busy")
            node.turn()
            assert waiting[0].here and not waiting[1].here
            follower.offset = number + 1
            waiting[0] = follower.fetch()
            node.turn()
            assert produced.here and waiting[1].here
            assert [list(one.partitions) for one in waiting[1:]] == [[BUSY]]
            consumer.offset = number + 1
            waiting[1] = consumer.fetch()
        node.after(10)
        node.turn()
        assert all(one.here for one in waiting)
    return looked.at


def test_idle_partitions_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = looked_at(1, monkeypatch), looked_at(1000, monkeypatch)
    assert few == many
    assert many["read"] <= 6 * 20 and many["fetched_by"] <= 22


@pytest.mark.parametrize("named", [True, False])
def test_an_idle_partition_of_a_large_session_stays_in_sync(named: bool) -> None:
    """A follower with 2,000 partitions of which one moves, or none, for ten minutes."""
    idle = 2000
    node = node_with(idle, replica_lag_time_max_ms="30000")
    follower = Client(node, 2, idle)
    node.turn()
    for number in range(600):
        node.after(1.0)
        if named:
            node.append(batch("x"), "busy", acks=1)
        follower.fetch(0)
        if named:
            follower.offset = number + 1
        node.turn()
        node.broker.maintain(node.now)
    assert node.outside.altering == []
    quiet = node.broker.partition("idle", idle - 1)
    assert quiet is not None and quiet.leading.isr == (1, 2)
    # What the idle minutes were worth shows when a record comes and is not fetched at once.
    node.append(batch("late"), "idle", index=idle - 1, acks=1)
    node.after(29.0)
    assert quiet.laggards(node.now) == ()
    node.after(2.0)
    assert quiet.laggards(node.now) == (2,)


def test_a_follower_that_fetches_no_more_leaves_when_records_come() -> None:
    node = node_with(1, replica_lag_time_max_ms="30000")
    follower = Client(node, 2, 1)
    node.turn()
    follower.fetch(0)
    node.turn()
    node.after(60.0)
    node.append(batch("x"), "idle", acks=1)
    quiet = node.broker.partition("idle", 0)
    assert quiet is not None and quiet.laggards(node.now) == (2,)


def test_a_high_watermark_alone_wakes_no_follower() -> None:
    node = node_with(1)
    first, second = Client(node, 2, 1), Client(node, 2, 1)
    node.turn()
    first.fetch(0)
    node.turn()
    parked = second.fetch()
    node.append(batch("x"), "busy", acks=1)
    assert list(parked.partitions) == [BUSY]
    second.offset = first.offset = 1
    waiting = second.fetch()
    node.turn()
    assert not waiting.here, "the high watermark moved, which it learns with the next records, or at the end"
    node.after(1)
    assert waiting.partitions[BUSY].high_watermark == 1
