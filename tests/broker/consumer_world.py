"""A coordinator of consumer groups (KIP-848) in memory, a clock, and short words for what members do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from tests.broker.test_groups import OffsetsPartition, World

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.purgatory import Waiting
from barnabas.controller.image import Topic
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.schemas.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

Owned = dict[str, list[int]]


class ConsumerWorld(World):
    """`topics` are their partitions by name.  A group is `g` unless another is named."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        *,
        ids: dict[str, Uuid] | None = None,
        partition: OffsetsPartition | None = None,
        **settings: str,
    ) -> None:
        settings = {"group_consumer_assignment_interval_ms": "0", **settings}
        super().__init__(partition, **settings)
        names = {OFFSETS_TOPIC: 1, **({"flights": 4} if topics is None else topics)}
        self.topics = {
            name: Topic(
                name, (ids or {}).get(name, Uuid(name.encode().ljust(16, b"."))), dict.fromkeys(range(count))
            )  # type: ignore[arg-type]
            for name, count in names.items()
        }
        self.broker.image = SimpleNamespace(
            topics_by_name=self.topics,
            topics={topic.id: topic for topic in self.topics.values()},
            offset=10,
            brokers={},
            feature=lambda name: 1,
            group_config=lambda group: self.set_on.get(group, {}),
        )
        self.set_on: dict[str, dict[str, str]] = {}
        """What was set on groups of their own."""
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, Owned] = {}
        """What each member was told to own."""

    def ask(self, request: Message, version: int) -> Any:
        """The answer of the coordinator to any request of a member."""
        groups = self.groups
        handler: Any = {
            ConsumerGroupHeartbeatRequest: groups.consumer_heartbeat,
            ConsumerGroupDescribeRequest: groups.consumer_describe,
            DescribeGroupsRequest: groups.describe,
            HeartbeatRequest: groups.heartbeat,
            JoinGroupRequest: groups.join,
            LeaveGroupRequest: groups.leave,
            ListGroupsRequest: groups.list,
            OffsetCommitRequest: groups.commit,
            OffsetFetchRequest: groups.fetch_offsets,
            SyncGroupRequest: groups.sync,
        }[type(request)]
        answer = handler(self.context(version), request, self.now)
        self.run()
        return answer.response if isinstance(answer, Waiting) and answer.done else answer

    def group(self, name: str = "g") -> ConsumerGroup:
        return self.groups.consumer_groups[name]

    def beat(
        self,
        member: str,
        *topics: str,
        epoch: int | None = None,
        instance: str | None = None,
        owns: Owned | None = None,
        group: str = "g",
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat; with topics, or with epoch 0, one that joins.  `owns` is what the member reports."""
        if epoch is None:
            epoch = 0 if topics else self.epochs[member]
        if epoch == 0:
            owns = owns or {}
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics), **fields}
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            topic_partitions=None if owns is None else self.partitions(owns),
            **fields,
        )
        answer = self.ask(request, 1)
        if isinstance(answer, Waiting):
            return answer  # type: ignore[return-value]  # a test that holds back what is written
        if not answer.error_code:
            self.epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[member] = self.told(answer)
        return answer  # type: ignore[no-any-return]

    def join(self, member: str, *topics: str, **how: Any) -> Owned:  # type: ignore[override]
        """A member joins; returns what it owns."""
        answer = self.beat(member, *(topics or ("flights",)), **how)
        assert answer.error_code == ErrorCode.NONE, answer
        return self.owned[member]

    def follow(self, *members: str) -> None:
        """These members do what they are told, and say so, until nothing changes."""
        for _ in range(4):
            for member in members:
                answer = self.beat(member, owns=self.owned[member])
                assert answer.error_code == ErrorCode.NONE, answer

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> Owned:
        assert answer.assignment is not None
        return self.told_partitions(
            {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        )

    def told_partitions(self, partitions: Mapping[Uuid, Iterable[int]]) -> Owned:
        names = {topic.id: name for name, topic in self.topics.items()}
        return {names.get(topic, str(topic)): sorted(indexes) for topic, indexes in partitions.items()}

    def partitions(self, owned: Owned) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self.topics[name].id, partitions=indexes)
            for name, indexes in owned.items()
            if name in self.topics
        ]

    def owners(self) -> dict[int, list[str]]:
        """Which members own each partition of flights, by what they were told."""
        found: dict[int, list[str]] = {}
        for member, owned in self.owned.items():
            for index in owned.get("flights", []):
                found.setdefault(index, []).append(member)
        return found

    def reloaded(self) -> ConsumerWorld:
        """Another coordinator that has read what this one wrote."""
        other = ConsumerWorld(
            {name: len(topic.partitions) for name, topic in self.topics.items()}, partition=self.partition
        )
        other.epochs, other.owned = dict(self.epochs), dict(self.owned)
        return other
