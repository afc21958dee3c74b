"""Partitions with a dead replica, and with a dead leader, are described as Apache Kafka 4.3.1 described them.

`elr_answers.json` was recorded with two brokers of Kafka's: first both live, then broker 2 is killed.  Replicas of
`pair` are 1,2 and 2,1 with min.insync.replicas=2, the only one of `solo` is on 2.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S
from tests.server.admin_cases import plain

from barnabas.client.blocking import BlockingConnection
from barnabas.controller.image import BrokerEndpoint, BrokerState, MetadataImage, PartitionState
from barnabas.model import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, ZERO_UUID, Uuid
from barnabas.testing import Cluster
from barnabas.wire.schemas.cluster import (
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from barnabas.wire.schemas.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

ANSWERS = json.loads((Path(__file__).parent / "elr_answers.json").read_text())
PLACED = {"pair": [[1, 2], [2, 1]], "solo": [[2]]}


def create(connection: BlockingConnection) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(len(placed[0])))],
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                for index, brokers in enumerate(placed)
            ],
        )
        for name, placed in PLACED.items()
    ]
    created = connection.request(CreateTopicsRequest(timeout_ms=10_000, topics=topics))
    assert [topic.error_code for topic in created.topics] == [0, 0]


def asked(connection: BlockingConnection) -> list[Any]:
    """Pages of partitions, and Metadata."""
    pages = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in PLACED])
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in PLACED])
    answers = [plain(connection.request(pages)), plain(connection.request(metadata, 12))]
    for answer in answers:
        answer.pop("controller_id", None)
    return answers


def until(same: Callable[[], tuple[Any, Any]]) -> None:
    """The first becomes the second."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        ours, theirs = same()
        if ours == theirs or time.monotonic() > deadline:
            assert ours == theirs
            return


def test_partitions_without_a_replica_or_a_leader_are_described_as_by_apache_kafka() -> None:
    with Cluster({"auto.leader.rebalance.enable": "false"}, nodes=3) as cluster:
        host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
        with BlockingConnection(host, int(port)) as connection:
            create(connection)
            until(lambda: (asked(connection), ANSWERS["both live"]))
            cluster.kill(2)
            until(lambda: (asked(connection), ANSWERS["one is killed"]))


HERE, THERE = Uuid(b"h" * 16), Uuid(b"t" * 16)


def broker(id_: int, *, fenced: bool = False, listener: str = "L") -> BrokerState:
    endpoint = BrokerEndpoint(listener, "h", 1, 0)
    return BrokerState(id_, 0, ZERO_UUID, (endpoint,), {}, None, fenced, False, (HERE,), ())


def test_a_replica_is_offline_with_its_broker_its_listener_or_its_directory() -> None:
    image = MetadataImage()
    image.brokers = {1: broker(1), 2: broker(2, fenced=True), 3: broker(3, listener="M")}

    def offline(*directories: Uuid) -> list[int]:
        replicas = tuple(range(1, len(directories) + 1))
        state = PartitionState(0, replicas, replicas, directories=directories)
        return image.offline_replicas(state, "L")

    assert offline(HERE, HERE, HERE, HERE) == [2, 3, 4]
    assert offline(THERE) == [1]
    assert offline(DIRECTORY_LOST) == [1]
    assert offline(DIRECTORY_UNASSIGNED) == []
