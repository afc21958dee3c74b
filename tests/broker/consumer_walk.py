"""A walk of heartbeats, right and wrong, and of commits between them, whose answers a real Apache Kafka gave.

`consumer_walk_answers.json` holds what Apache Kafka 4.4.0 answered.  To record it again, with a fresh broker of
Kafka's at HOST:PORT whose `group.consumer.assignment.interval.ms` is 0:

    python -m tests.broker.consumer_walk HOST:PORT > tests/broker/consumer_walk_answers.json

Each request is drawn with a seed from what earlier answers said, so the walk goes on as it did only while all
answers are the same.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from barnabas.model import Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.schemas.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    SyncGroupRequest,
)

TOPICS = {"flights": 5, "planes": 3, "weather": 1}
STEPS = 700
MEMBERS = ("ada", "bob", "cyd", "dan", "eve")
INSTANCES = ("north", "south")

Ask = Callable[[Message, int], Any]


class Walk:
    """`ids` are the topics' ids.  `run(ask)` returns what each request was and what came of it."""

    GROUPS = ("g", "h")

    def __init__(
        self, ids: dict[str, Uuid], *, seed: int = 848, groups: tuple[str, ...] = (), steps: int = STEPS
    ) -> None:
        self.rng = random.Random(seed)
        self.groups = groups or self.GROUPS
        self.steps = steps
        self.unheard_of = f"unheard-of-{groups[0]}" if groups else "unheard-of"
        self.ids = ids
        self.names = {id: name for name, id in ids.items()}
        self.epochs: dict[tuple[str, str], int] = {}
        self.owned: dict[tuple[str, str], dict[str, list[int]]] = {}
        self.instances: dict[tuple[str, str], str] = {}

    def run(self, ask: Ask) -> list[list[Any]]:
        return [self._step(ask) for _ in range(self.steps)]

    def _step(self, ask: Ask) -> list[Any]:
        group = self.rng.choice(self.groups)
        member = self.rng.choice(MEMBERS)
        kind = self.rng.choices(
            [
                self._join,
                self._beat,
                self._leave,
                self._wrong,
                self._commit,
                self._fetch,
                self._describe,
                self._classic,
            ],
            weights=[12, 40, 6, 22, 9, 3, 5, 3],
        )[0]
        label, answer = kind(ask, group, member)
        return [f"{group} {member}: {label}", answer]

    # -- heartbeats --------------------------------------------------------------------------------------

    def _join(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        """A member joins, or joins anew with another subscription."""
        rng = self.rng
        topics = [name for name in TOPICS if rng.random() < 0.7] + ["nowhere"] * (rng.random() < 0.1)
        instance = rng.choice(INSTANCES) if rng.random() < 0.25 else self.instances.get((group, member))
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=0,
            instance_id=instance,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=topics,
            server_assignor=rng.choice([None, None, None, "uniform", "range"]),
            topic_partitions=[],
        )
        return f"joins for {topics} as {instance}", self._ask(ask, request, instance)

    def _beat(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        """A member is alive; it says, mostly, that it owns what it was told to own."""
        key = (group, member)
        rng = self.rng
        reports = rng.random() < 0.7
        full = reports and rng.random() < 0.2
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=self.epochs.get(key, 3),
            instance_id=self.instances.get(key),
            rebalance_timeout_ms=300_000 if full else -1,
            subscribed_topic_names=[name for name in TOPICS if rng.random() < 0.8] if full else None,
            topic_partitions=self._partitions(self.owned.get(key, {})) if reports else None,
        )
        return f"beats {'fully' if full else ''} {reports=}", self._ask(ask, request, request.instance_id)

    def _leave(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        """A member leaves, a static one sometimes for a while only."""
        instance = self.instances.get((group, member))
        epoch = -2 if instance is not None and self.rng.random() < 0.6 else -1
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, instance_id=instance
        )
        return f"leaves with {epoch}", self._ask(ask, request, instance)

    def _wrong(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        """A heartbeat in which something may be wrong."""
        rng = self.rng
        key = (group, member)
        epoch = rng.choice([-3, -2, -1, 0, 0, self.epochs.get(key, 1) + rng.choice([-2, -1, 0, 1]), 99])
        owned = rng.choice(
            [None, [], self._partitions(self.owned.get(key, {})), self._partitions({"flights": [0, 4]})]
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=rng.choice([group, group, group, "", self.unheard_of]),
            member_id=rng.choice([member, member, member, "", "nobody", " "]),
            member_epoch=epoch,
            instance_id=rng.choice([None, None, self.instances.get(key), "north", "nowhere", ""]),
            rack_id=rng.choice([None, None, None, "r1", ""]),
            rebalance_timeout_ms=rng.choice([-1, 300_000]),
            subscribed_topic_names=rng.choice([None, [], ["flights"], ["flights", "planes"]]),
            subscribed_topic_regex=rng.choice([None, None, None, "(", "[a"]),
            server_assignor=rng.choice([None, None, None, "range", "sticky", ""]),
            topic_partitions=owned,
        )
        label = (
            f"sends {request.group_id!r} {request.member_id!r} {epoch} {request.instance_id!r} "
            f"{request.rack_id!r} {request.rebalance_timeout_ms} {request.subscribed_topic_names} "
            f"{request.subscribed_topic_regex} "
            f"{request.server_assignor!r} {None if owned is None else len(owned)}"
        )
        if not request.member_id and epoch == 0:
            request.member_id = "nobody"  # the coordinator would draw a name
        return label, self._ask(ask, request, request.instance_id)

    def _ask(self, ask: Ask, request: ConsumerGroupHeartbeatRequest, instance: str | None) -> Any:
        answer: ConsumerGroupHeartbeatResponse = ask(request, 1)
        key = (request.group_id, request.member_id)
        if answer.error_code:
            return answer.error_code
        self.epochs[key] = answer.member_epoch
        if instance is not None:
            self.instances[key] = instance
        if answer.member_epoch < 0:
            self.owned.pop(key, None)
            if answer.member_epoch == -1:
                self.instances.pop(key, None)
            return [answer.member_id, answer.member_epoch]
        told = None
        if answer.assignment is not None:
            told = {
                self.names[one.topic_id]: sorted(one.partitions) for one in answer.assignment.topic_partitions
            }
            self.owned[key] = dict(told)
        return [answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, told]

    def _partitions(self, owned: dict[str, list[int]]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self.ids[name], partitions=partitions)
            for name, partitions in sorted(owned.items())
        ]

    # -- everything else ---------------------------------------------------------------------------------

    def _commit(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        rng = self.rng
        epoch = self.epochs.get((group, member), 1) + rng.choice([0, 0, -1, -2, 1, -100])
        who = rng.choice([member, member, member, "", "nobody"])
        version = rng.choice([8, 9, 9, 9])
        partition = rng.randrange(5)
        topic = OffsetCommitRequestTopic(
            name="flights",
            partitions=[
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=rng.randrange(9))
            ],
        )
        request = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=epoch, member_id=who, topics=[topic]
        )
        answer: OffsetCommitResponse = ask(request, version)
        return f"commits {who!r} {epoch} v{version}", answer.topics[0].partitions[0].error_code

    def _fetch(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        epoch = self.epochs.get((group, member), 1) + self.rng.choice([0, 0, 1, -100])
        who = self.rng.choice([member, member, "nobody", None])
        wanted = OffsetFetchRequestGroup(
            group_id=group,
            member_id=who,
            member_epoch=epoch if who else -1,
            topics=[OffsetFetchRequestTopics(name="flights", partition_indexes=[0, 1])],
        )
        answer: OffsetFetchResponse = ask(OffsetFetchRequest(groups=[wanted]), 9)
        found = answer.groups[0]
        if found.error_code:
            return f"fetches {who!r} {epoch}", found.error_code
        return f"fetches {who!r} {epoch}", [one.committed_offset for one in found.topics[0].partitions]

    def _describe(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        return "is described", self.describe(ask, group)

    def describe(self, ask: Ask, group: str) -> Any:
        """What ConsumerGroupDescribe says of a group."""
        answer: ConsumerGroupDescribeResponse = ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
        found = answer.groups[0]
        if found.error_code:
            return found.error_code
        members = {
            one.member_id: [
                one.instance_id,
                one.rack_id,
                one.member_epoch,
                sorted(one.subscribed_topic_names),
                one.subscribed_topic_regex,
                one.member_type,
                {part.topic_name: sorted(part.partitions) for part in one.assignment.topic_partitions},
                {part.topic_name: sorted(part.partitions) for part in one.target_assignment.topic_partitions},
            ]
            for one in found.members
        }
        about = [found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name]
        return [*about, {name: members[name] for name in sorted(members)}]

    def _classic(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        """The classic protocol's requests for a group that is none of its own."""
        kind = self.rng.choice(["heartbeat", "sync", "describe", "remove"])
        if kind == "heartbeat":
            return kind, ask(
                HeartbeatRequest(group_id=group, generation_id=3, member_id=member), 4
            ).error_code
        if kind == "sync":
            sync = SyncGroupRequest(
                group_id=group,
                generation_id=3,
                member_id=member,
                protocol_type="consumer",
                protocol_name="range",
            )
            return kind, ask(sync, 5).error_code
        if kind == "describe":
            described: DescribeGroupsResponse = ask(DescribeGroupsRequest(groups=[group]), 6)
            return kind, [described.groups[0].error_code, described.groups[0].group_state]
        identity = MemberIdentity(member_id=member, group_instance_id=self.instances.get((group, member)))
        left: LeaveGroupResponse = ask(LeaveGroupRequest(group_id=group, members=[identity]), 5)
        return kind, [left.error_code, [one.error_code for one in left.members]]


def record(address: str, walk: type[Walk] = Walk) -> None:
    """Walk at a broker of Apache Kafka's and print what it answered."""
    from tests.topics import creation_of

    from barnabas.client.blocking import BlockingConnection
    from barnabas.wire.schemas.cluster import MetadataRequest
    from barnabas.wire.schemas.groups import FindCoordinatorRequest

    host, port = address.rsplit(":", 1)
    with BlockingConnection(host, int(port)) as connection:
        wanted = creation_of({name: {} for name in TOPICS})
        for topic in wanted.topics:
            topic.num_partitions = TOPICS[topic.name]
        connection.request(wanted)
        while (
            connection.request(FindCoordinatorRequest(coordinator_keys=list(walk.GROUPS)), 4)
            .coordinators[0]
            .error_code
        ):
            time.sleep(0.2)
        time.sleep(2)
        found = connection.request(MetadataRequest(topics=None), 12).topics
        ids = {topic.name: topic.topic_id for topic in found if topic.name in TOPICS}
        answers = walk(ids).run(connection.request)
    document = {"topics": {name: str(ids[name]) for name in TOPICS}, "answers": answers}
    text = json.dumps(document, separators=(",", ":"))
    for group in walk.GROUPS:
        text = text.replace(f'],["{group} ', f'],\n["{group} ')
    print(text)


if __name__ == "__main__":
    record(sys.argv[1])
