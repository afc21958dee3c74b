"""Topics come and go, and nobody takes a healthy leader for dead; who asks for leaders waits a round trip."""

from __future__ import annotations

import pytest
from tests.server.virtual import Virtual

from barnabas.errors import ErrorCode
from barnabas.server.replication.replica_fetcher import LOST
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.topics import DeleteTopicsRequest, DeleteTopicState

ROUNDS = 20


def test_topics_that_come_and_go_make_nobody_doubt_a_healthy_leader(caplog: pytest.LogCaptureFixture) -> None:
    """A follower drops its parked fetch for every such change; that is its own doing."""
    with Virtual() as cluster:
        cluster.create("stays", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        cluster.run(2.0)
        caplog.clear()
        longest = 0.0
        for number in range(ROUNDS):
            cluster.create(f"short-{number}", [1, 2, 3], [2, 3, 1], [3, 1, 2])
            longest = max(longest, asked(cluster, "stays"))
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=f"short-{number}")], timeout_ms=30_000)
            assert cluster.ask(gone).responses[0].error_code == ErrorCode.NONE
            longest = max(longest, asked(cluster, "stays"))
        cluster.run(2.0)
        lost = [line for line in caplog.messages if LOST.sentence in line]
        assert not lost
        assert longest < 0.015, "the wait that was there before"


def asked(cluster: Virtual, topic: str) -> float:
    """Seconds until a node has said who leads."""
    begun = cluster.world.time
    answer = cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    assert all(row.error_code == ErrorCode.NONE for row in answer.topics[0].partitions)
    return cluster.world.time - begun
