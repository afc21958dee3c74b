"""A fetch that goes on from earlier ones is answered like the first on its terms, whatever happened between."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.fetch_lives import Life, live
from tests.broker.harness import PAGE_CACHE, Answer, Node, batch
from tests.broker.plain_nodes import Doorkeeper, NodeAnew

from barnabas.errors import ErrorCode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic


@pytest.mark.parametrize(
    ("version", "sessions", "limited"),
    [
        (4, False, False),
        (6, False, False),
        (8, False, False),
        (11, False, True),
        (12, False, False),
        (18, False, True),
        (7, True, False),
        (12, True, True),
        (15, True, False),
        (18, True, True),
    ],
)
@pytest.mark.parametrize("seed", range(8))
def test_it_is_answered_like_the_first_on_its_terms(
    seed: int, version: int, sessions: bool, limited: bool
) -> None:
    mode = PAGE_CACHE if seed % 2 else "1"
    lives = [
        Life(mode, version=version, sessions=sessions, kind=kind, limits=seed if limited else None)
        for kind in (NodeAnew, Node)
    ]
    live(seed, lives, upset=0.1 if limited else 1.0)
    traffic = [
        [partition.leading.traffic.bytes_out for partition in life.node.broker.partitions()] for life in lives
    ]
    assert traffic[0] == traffic[1]
    looked_at = [
        [
            [(one.topic, one.index) for one in each.marked]
            for each in life.node.broker.sessions._sessions.values()
        ]
        for life in lives
    ]
    assert looked_at[0] == looked_at[1]


@pytest.mark.parametrize("session", [False, True])
def test_a_right_that_is_taken_away_is_missed_by_the_next_fetch(session: bool) -> None:
    doorkeeper = Doorkeeper()
    node = Node(MemoryDisk(1), authorizer=doorkeeper)  # type: ignore[arg-type]
    node.create("t")
    node.append(batch("a record"))
    epoch, id_ = (0, 0) if session else (-1, 0)

    def fetch() -> int:
        nonlocal epoch, id_
        answer = node.fetch({("t", 0): 0}, version=12, session=(id_, epoch))
        if session:
            id_, epoch = answer.message.session_id, epoch + 1
        return int(answer.partitions["t", 0].error_code)

    assert [fetch() for _ in range(4)] == [0] * 4
    doorkeeper.tell(node, strict=True)
    for number in range(1, 4):
        assert fetch() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert doorkeeper.refused == number  # and each refusal is noted once
    doorkeeper.tell(node, strict=False)
    assert [fetch() for _ in range(3)] == [0] * 3


class Consumer:
    """A consumer with a session, at a node that takes its fetches from their bytes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.session, self.epoch = 0, 0

    def fetch(self, *places: tuple[str, int, int], wait: int = 0, **more: Any) -> Answer:
        """(topic, partition, offset) that changed."""
        positions = {(name, index): offset for name, index, offset in places}
        answer = self.node.fetch(
            positions, version=12, session=(self.session, self.epoch), max_wait_ms=wait, **more
        )
        self.epoch += 1
        if answer.here:
            self.session = answer.message.session_id
        return answer

    def stand_at(self, *places: tuple[str, int, int]) -> None:
        """Learn the session, and know all that is to be said."""
        for _ in range(4):
            self.fetch(*places)
        assert not self.fetch().message.responses


def test_a_partition_at_rest_that_may_no_longer_be_read_is_told_of() -> None:
    doorkeeper = Doorkeeper()
    node = Node(MemoryDisk(1), authorizer=doorkeeper)  # type: ignore[arg-type]
    node.create("t")
    consumer = Consumer(node)
    consumer.stand_at(("t", 0, 0))
    doorkeeper.tell(node, strict=True)
    told = consumer.fetch().partitions["t", 0]
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_that_is_made_again_wakes_who_waits_for_it() -> None:
    node = Node(MemoryDisk(1))
    node.create("t")
    consumer = Consumer(node)
    consumer.stand_at(("t", 0, 0))
    node.delete("t")
    node.turn()
    node.create("t")
    parked = consumer.fetch(("t", 0, 0), wait=10_000)
    assert not parked.here
    node.append(batch("a record"))
    assert parked.here
    assert len(parked.partitions["t", 0].records) > 0


def test_a_partition_that_is_named_twice_is_read_once_where_it_was_named_last() -> None:
    node = Node(MemoryDisk(1))
    node.create("t")
    for _ in range(3):
        node.append(batch("a record"))

    def read(*offsets: int) -> list[list[int]]:
        rows = [FetchPartition(fetch_offset=offset, partition_max_bytes=1000) for offset in offsets]
        answer = node.ask(FetchRequest(topics=[FetchTopic(topic="t", partitions=rows)]), 12)
        [topic] = answer.message.responses
        return [
            [header.base_offset for _, header in batches(bytes(data.records))] for data in topic.partitions
        ]

    assert read(0) == read(0) == [[0, 1, 2]]
    assert read(0, 1) == [[1, 2]]
    assert read(2, 0) == [[0, 1, 2]]
