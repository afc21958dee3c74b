"""A group of KIP-848 whose coordinator moves between our broker and Apache Kafka's: nobody rebalances."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.broker.consumer_world import Owned
from tests.compat.test_quorum_mixed import script
from tests.server.quorum_processes import Members, eventually

from barnabas.client.admin.admin import Admin
from barnabas.client.blocking import BlockingConnection
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import OFFSETS_TOPIC, TopicPartition, Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from barnabas.wire.schemas.groups import FindCoordinatorRequest

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

MEMBERS = ("a", "b", "c")
WHERE = TopicPartition(OFFSETS_TOPIC, 0)


class Group:
    """Three members that speak to whoever coordinates them; `bootstrap` is any broker."""

    def __init__(self, bootstrap: tuple[str, int]) -> None:
        self.bootstrap = bootstrap
        self.ids: dict[Uuid, str] = {}
        self.epochs = dict.fromkeys(MEMBERS, 0)
        self.owned: dict[str, Owned] = {name: {} for name in MEMBERS}

    def ask(self, request: Message, version: int) -> Any:
        with BlockingConnection(*self.bootstrap, timeout=20) as line:
            found = line.request(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
            if not self.ids:
                topics = line.request(MetadataRequest(topics=None), 12).topics
                self.ids = {topic.topic_id: topic.name for topic in topics}
        if found.error_code:
            return found
        with BlockingConnection(found.host, found.port, timeout=20) as line:
            return line.request(request, version)

    def beat(self, name: str) -> ErrorCode:
        """A member joins, or reports what it owns and follows what it is told."""
        joins = self.epochs[name] == 0
        ids = {topic: id for id, topic in self.ids.items()}
        partitions = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=ids[topic], partitions=indexes)
            for topic, indexes in self.owned[name].items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=name,
            member_epoch=self.epochs[name],
            rebalance_timeout_ms=300_000 if joins else -1,
            subscribed_topic_names=["t", "u"] if joins else None,
            topic_partitions=partitions,
        )
        answer = self.ask(request, 1)
        if not answer.error_code:
            self.epochs[name] = answer.member_epoch
            if answer.assignment is not None:
                told = answer.assignment.topic_partitions
                self.owned[name] = {self.ids[one.topic_id]: list(one.partitions) for one in told}
        return ErrorCode(answer.error_code)

    def round(self) -> bool:
        """Whether every member was heard."""
        return all(self.beat(name) is ErrorCode.NONE for name in MEMBERS)

    def stands(self) -> tuple[Any, ...]:
        found = self.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups[0]
        return (
            found.error_code,
            found.group_state,
            found.group_epoch,
            found.assignment_epoch,
            found.assignor_name,
        )


def serves(port: int) -> bool:
    with suppress(BarnabasError, OSError), Admin(f"127.0.0.1:{port}", timeout=5) as admin:
        return len(admin.describe_cluster().brokers) == 1
    return False


def test_a_group_goes_on_in_its_epoch_when_its_coordinator_moves_to_kafka_and_back(
    apache: Path, tmp_path: Path
) -> None:
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    with Members.formed(tmp_path / "ours", 1, **settings) as nodes:
        nodes.start()
        nodes.settled([1])
        node = nodes.all[1]
        controllers = f"127.0.0.1:{node.controller}"
        eventually(lambda: serves(node.port), 30, "our broker serves")
        with Admin(f"127.0.0.1:{node.port}", timeout=30) as admin:
            admin.create_topic("t", partitions=5, replication=1)
            admin.create_topic("u", partitions=3, replication=1)
            group = Group(("127.0.0.1", node.port))
            eventually(lambda: group.round() and group.stands()[1] == "Stable", 30, "the group settles")
            extra = "offsets.topic.num.partitions=1"
            with script(
                apache, "start4.sh", tmp_path / "k", "broker,controller", BOOTC=controllers, EXTRA=extra
            ) as base:
                eventually(lambda: len(admin.describe_cluster().brokers) == 2, 90, "Kafka's broker serves")
                assert group.round()
                before = group.stands(), dict(group.epochs), dict(group.owned)
                assert before[0][:2] == (0, "Stable")
                for broker in (4, 1):
                    assert admin.move({WHERE: (broker,)}) == {}
                    eventually(lambda: not admin.moves(), 60, "moved")
                    eventually(group.round, 60, f"broker {broker} coordinates")
                    assert group.round()
                    assert (group.stands(), group.epochs, group.owned) == before, f"broker {broker}"
                log = (base / "n4" / "server.log").read_text()
                assert re.search(r"Loaded consumer group g with 3 members", log)
                assert not re.search(r"FATAL|fatal fault", log)
