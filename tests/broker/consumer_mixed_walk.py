"""A walk as in `consumer_walk`, through groups in which members of both protocols are (online migration).

`consumer_mixed_walk_answers.json` holds what Apache Kafka 4.4.0 answered.  To record it again, with a fresh broker
whose `group.consumer.assignment.interval.ms` is 0:

    python -m tests.broker.consumer_mixed_walk HOST:PORT > tests/broker/consumer_mixed_walk_answers.json

One member of each group speaks KIP-848 and stays, so that no JoinGroup waits for others.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.broker.consumer_walk import MEMBERS, TOPICS, Ask, Walk, record

from barnabas.errors import WireError
from barnabas.wire.codec.message import decode, encode
from barnabas.wire.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)

ANCHOR = "anchor"
CLASSIC = ("kim", "lee", "mia")


def subscription(topics: list[str], owned: dict[str, list[int]], version: int) -> bytes:
    """What a classic member subscribes to and owns, as its client writes it."""
    message = ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=partitions)
            for name, partitions in sorted(owned.items())
        ],
    )
    return version.to_bytes(2, "big") + encode(message, version)


class MixedWalk(Walk):
    """Steps of classic members among those of the others."""

    GROUPS = ("mixed-g", "mixed-h")

    def _step(self, ask: Ask) -> list[Any]:
        rng = self.rng
        group = rng.choice(self.groups)
        if (group, ANCHOR) not in self.epochs:
            self.instances.pop((group, ANCHOR), None)
            label, answer = self._join_anchor(ask, group)
            return [f"{group} {ANCHOR}: {label}", answer]
        member = rng.choice((*MEMBERS[:3], *CLASSIC))
        classic = [self._classic_join, self._classic_sync, self._classic_beat, self._classic_leave]
        if member in CLASSIC:
            kind = rng.choices([*classic, self._beat, self._join], weights=[30, 30, 30, 6, 4, 3])[0]
        else:
            kinds = [self._join, self._beat, self._leave, self._commit, self._describe, *classic]
            kind = rng.choices(kinds, weights=[10, 40, 5, 6, 6, 3, 3, 3, 0])[0]
        if rng.random() < 0.15:
            member, kind = ANCHOR, rng.choice([self._beat, self._beat, self._describe])
        label, answer = kind(ask, group, member)
        return [f"{group} {member}: {label}", answer]

    def _join_anchor(self, ask: Ask, group: str) -> tuple[str, Any]:
        from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatRequest

        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=ANCHOR,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=list(TOPICS),
            topic_partitions=[],
        )
        return "joins to stay", self._ask(ask, request, None)

    def _classic_join(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        rng = self.rng
        key = (group, member)
        version = rng.choice([0, 1, 1, 3])
        topics = [name for name in TOPICS if rng.random() < 0.7]
        owned = self.owned.get(key, {}) if rng.random() < 0.7 else {}
        names = rng.choice([("range",), ("range", "cooperative-sticky"), ("cooperative-sticky",)])
        metadata = subscription(topics, owned, version)
        kind = rng.choice(["consumer"] * 9 + ["connect"])
        instance = self.instances.get(key)
        request = JoinGroupRequest(
            group_id=group,
            member_id=member,
            group_instance_id=instance,
            session_timeout_ms=rng.choice([45_000] * 9 + [1]),
            rebalance_timeout_ms=300_000,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        )
        answer: JoinGroupResponse = ask(request, 9)
        label = f"joins as {kind} for {topics} owning {sorted(owned.items())} v{version} {names} {instance}"
        if answer.error_code:
            return label, answer.error_code
        self.epochs[key] = answer.generation_id
        said = [
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            answer.leader,
            answer.member_id,
        ]
        return label, [*said, len(answer.members), answer.skip_assignment]

    def _classic_sync(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        rng = self.rng
        key = (group, member)
        name = rng.choice(["range", "range", "cooperative-sticky", None])
        request = SyncGroupRequest(
            group_id=group,
            member_id=member,
            group_instance_id=self.instances.get(key),
            generation_id=self.epochs.get(key, 1) + rng.choice([0, 0, 0, 0, 1]),
            protocol_type=rng.choice(["consumer"] * 6 + ["connect"]),
            protocol_name=name or "range",
        )
        answer: SyncGroupResponse = ask(request, 5)
        label = f"syncs {request.generation_id} {request.protocol_type} {name}"
        if answer.error_code:
            return label, answer.error_code
        raw = bytes(answer.assignment)
        version = int.from_bytes(raw[:2], "big")
        try:
            told = decode(ConsumerProtocolAssignment, raw, version, 2)[0]
        except WireError:
            return label, "unreadable"
        assigned = {one.topic: sorted(one.partitions) for one in told.assigned_partitions}
        self.owned[key] = dict(assigned)
        return label, [version, assigned, answer.protocol_name]

    def _classic_beat(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        key = (group, member)
        request = HeartbeatRequest(
            group_id=group,
            member_id=member,
            group_instance_id=self.instances.get(key),
            generation_id=self.epochs.get(key, 1) + self.rng.choice([0, 0, 0, 0, -1]),
        )
        return f"beats classically {request.generation_id}", ask(request, 4).error_code

    def _classic_leave(self, ask: Ask, group: str, member: str) -> tuple[str, Any]:
        key = (group, member)
        identity = MemberIdentity(member_id=member, group_instance_id=self.instances.get(key))
        left: LeaveGroupResponse = ask(LeaveGroupRequest(group_id=group, members=[identity]), 5)
        self.owned.pop(key, None)
        self.epochs.pop(key, None)
        return "leaves", [left.error_code, [one.error_code for one in left.members]]


if __name__ == "__main__":
    record(sys.argv[1], MixedWalk)
