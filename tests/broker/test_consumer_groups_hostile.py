"""Whatever stands in __consumer_offsets, and whatever members send, consumer groups answer and go on."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.broker.consumer_world import ConsumerWorld
from tests.broker.test_groups import OffsetsPartition

from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.coordinator import write_key, write_value
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas import group_records as schema
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)

NAMES = ("a", "b", "c")
NUMBERS = (-3, -2, -1, 0, 1, 2, 3, 7, 2**31 - 1, -(2**31))


class Scribe:
    """Draws records that are whole and mean what nobody meant."""

    def __init__(self, seed: int, ids: list[Uuid]) -> None:
        self.rng = random.Random(seed)
        self.ids = [*ids, Uuid(16)]

    def number(self) -> int:
        return self.rng.choice(NUMBERS)

    def name(self) -> str:
        return self.rng.choice((*NAMES, ""))

    def partitions(self) -> list[int]:
        return [self.number() for _ in range(self.rng.randrange(4))]

    def owned(self) -> list[schema.TopicPartitions]:
        return [
            schema.TopicPartitions(
                topic_id=self.rng.choice(self.ids),
                partitions=self.partitions(),
                assignment_epochs=self.rng.choice([None, [], self.partitions()]),
            )
            for _ in range(self.rng.randrange(3))
        ]

    def classic(self) -> schema.ClassicMemberMetadata | None:
        if self.rng.random() < 0.4:
            return None
        protocols = [
            schema.ClassicProtocol(name=self.name(), metadata=self.rng.randbytes(self.rng.randrange(12)))
            for _ in range(self.rng.randrange(3))
        ]
        return schema.ClassicMemberMetadata(session_timeout_ms=self.number(), supported_protocols=protocols)

    def change(self) -> tuple[Message, Message | None]:
        rng, group, member = self.rng, "g", self.name()
        kind = rng.choice([3, 4, 5, 5, 5, 6, 7, 8, 8, 16])
        pairs: dict[int, Any] = {
            3: lambda: (
                schema.ConsumerGroupMetadataKey(group_id=group),
                schema.ConsumerGroupMetadataValue(epoch=self.number(), metadata_hash=self.number()),
            ),
            4: lambda: (
                schema.ConsumerGroupPartitionMetadataKey(group_id=group),
                schema.ConsumerGroupPartitionMetadataValue(),
            ),
            5: lambda: (
                schema.ConsumerGroupMemberMetadataKey(group_id=group, member_id=member),
                schema.ConsumerGroupMemberMetadataValue(
                    instance_id=rng.choice([None, "", "i"]),
                    subscribed_topic_names=rng.choice([[], ["flights"], ["flights", "nowhere", ""]]),
                    subscribed_topic_regex=rng.choice([None, "", "(", "f.*"]),
                    rebalance_timeout_ms=self.number(),
                    server_assignor=rng.choice([None, "range", "uniform", "org.example.Theirs"]),
                    classic_member_metadata=self.classic(),
                ),
            ),
            6: lambda: (
                schema.ConsumerGroupTargetAssignmentMetadataKey(group_id=group),
                schema.ConsumerGroupTargetAssignmentMetadataValue(
                    assignment_epoch=self.number(), assignment_timestamp=self.number()
                ),
            ),
            7: lambda: (
                schema.ConsumerGroupTargetAssignmentMemberKey(group_id=group, member_id=member),
                schema.ConsumerGroupTargetAssignmentMemberValue(
                    topic_partitions=[
                        schema.TopicPartition(topic_id=rng.choice(self.ids), partitions=self.partitions())
                    ]
                ),
            ),
            8: lambda: (
                schema.ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=member),
                schema.ConsumerGroupCurrentMemberAssignmentValue(
                    member_epoch=self.number(),
                    previous_member_epoch=self.number(),
                    state=rng.choice([0, 1, 2, 3, 127, -1]),
                    assigned_partitions=self.owned(),
                    partitions_pending_revocation=self.owned(),
                ),
            ),
            16: lambda: (
                schema.ConsumerGroupRegularExpressionKey(
                    group_id=group, regular_expression=rng.choice(["", "(", "f.*"])
                ),
                schema.ConsumerGroupRegularExpressionValue(topics=["flights"], version=self.number()),
            ),
        }
        key, value = pairs[kind]()
        return key, None if rng.random() < 0.15 else value


def ask_everything(world: ConsumerWorld, rng: random.Random) -> None:
    """Requests of every kind for members that may be there; every answer has a code of the protocol."""
    for name in NAMES:
        world.epochs.setdefault(name, rng.choice([0, 1, 2, 3]))
        owns = rng.choice([None, {}, {"flights": [0, 1]}])
        protocol = JoinGroupRequestProtocol(name="a", metadata=rng.randbytes(rng.randrange(14)))
        requests: list[tuple[Message, int]] = [
            (HeartbeatRequest(group_id="g", member_id=name, generation_id=world.epochs[name]), 4),
            (SyncGroupRequest(group_id="g", member_id=name, generation_id=world.epochs[name]), 3),
            (
                JoinGroupRequest(
                    group_id="g",
                    member_id=name,
                    session_timeout_ms=10_000,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
                5,
            ),
        ]
        for request, version in requests:
            if "g" in world.groups.consumer_groups:
                assert ErrorCode(world.ask(request, version).error_code) is not ErrorCode.UNKNOWN_SERVER_ERROR
        beats = [world.beat(name, owns=owns), world.beat(name, "flights"), world.beat(name, epoch=-1)]
        for answer in beats[: rng.randrange(4)]:
            assert ErrorCode(answer.error_code) is not ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("seed", range(60))
def test_records_that_nobody_meant_stop_no_coordinator(seed: int) -> None:
    first = ConsumerWorld({"flights": 3})
    scribe = Scribe(seed, [first.topics["flights"].id])
    partition = OffsetsPartition()
    for _ in range(scribe.rng.randrange(1, 30)):
        key, value = scribe.change()
        raw = None if value is None else write_value(value)
        partition.append(bytearray(write_batch([Record(0, 0, write_key(key), raw, ())])))
    world = ConsumerWorld({"flights": 3}, partition=partition)
    while world.groups.statistics().loading:
        world.run()
    ask_everything(world, scribe.rng)
    for _ in range(6):
        world.run(30)
        world.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=scribe.name())]), 5)
    again = world.reloaded()
    while again.groups.statistics().loading:
        again.run()
    ask_everything(again, scribe.rng)
