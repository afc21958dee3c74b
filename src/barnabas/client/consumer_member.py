"""A member of a group of KIP-848 as a machine: which heartbeat comes next, and what an answer means.  No socket.

One request does everything: it joins (epoch 0), tells that the member is alive, acknowledges what it gave up or
took over, and leaves (epoch -1; -2 for a static member, who comes back).  The coordinator makes the assignments:

    request (epoch 0) -> heard -> change: release, acquire -> released, acquired -> request (acknowledges) -> heard
    heard FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID -> change: release as lost -> released -> request (epoch 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.security.rights import granting
from barnabas.client.waits.poll_interval import MAX_POLL_INTERVAL
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicId, TopicPartition
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

__all__ = ["Change", "ConsumerGroupMember", "Subscription"]

_PATTERNS_SINCE = 1
_LEAVES = -1
_LEAVES_FOR_NOW = -2
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_FIRST_INTERVAL_S = 5.0
"""Between heartbeats until the coordinator has said how often (its default)."""
_SOON_S = 0.05
"""Half of the first wait for the topics of a pattern; each wait is twice the one before."""
_NEXT_STEP = {
    ErrorCode.UNRELEASED_INSTANCE_ID: "stop the other consumer with this instance_id, or choose another one",
    ErrorCode.FENCED_INSTANCE_ID: "another consumer took this instance_id over; close this one",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "choose an assignor of the broker's `group.consumer.assignors`",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "write the pattern in RE2's syntax",
    ErrorCode.UNSUPPORTED_VERSION: 'give the consumer group_protocol="classic"',
}

Owned = tuple[TopicId, int]


class Subscription(NamedTuple):
    """What a member wants: topics by name, those that match a pattern (RE2, read by the coordinator), or both."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class Change(NamedTuple):
    """What the reader has to give up and to take over.  `lost`: they are another member's already."""

    release: frozenset[Owned]
    acquire: frozenset[Owned]
    lost: bool = False


class ConsumerGroupMember:
    """`ConsumerGroupMember("group", Subscription(("topic",)), member_id="a uuid")`.

    rebalance: seconds in which it gives up what it is asked to give up.  assignor: one of the coordinator's.
    """

    LEAVES_WITH = ConsumerGroupHeartbeatRequest

    def __init__(
        self,
        group: str,
        subscription: Subscription,
        *,
        member_id: str,
        rebalance: float = MAX_POLL_INTERVAL,
        assignor: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        self.group = group
        self.subscription = subscription
        self.member_id = member_id
        self.rebalance = rebalance
        self.assignor = assignor
        self.instance_id = instance_id
        self.generation = 0
        """The member's epoch; 0: it has to join."""
        self.lost = False
        """Whether what it owns is no longer its own: it joins again once that is released."""
        self.heartbeat_interval = _FIRST_INTERVAL_S
        self._soon = _SOON_S
        self._owned: frozenset[Owned] = frozenset()
        self._target: frozenset[Owned] = frozenset()
        self._names: dict[TopicId, str] = {}
        self._looked_for_names = False
        self._told: frozenset[Owned] | None = None
        self._telling: frozenset[Owned] | None = None
        self._unanswered = False

    def __repr__(self) -> str:
        state = "lost" if self.lost else f"epoch={self.generation}"
        return f"<ConsumerGroupMember {self.group!r} {self.member_id} {state} owns={len(self._owned)}>"

    @property
    def owned(self) -> frozenset[Owned]:
        """The partitions that it reads now."""
        return self._owned

    @property
    def joined_in(self) -> bool:
        """Return whether the coordinator counts on it."""
        return bool(self.generation)

    @property
    def must_join(self) -> bool:
        """Whether it has to join, or its partitions change."""
        change = self.change()
        return not self.generation or bool(change.release or change.acquire) or self.names_missing

    # -- heartbeats ------------------------------------------------------------------------------

    def join_request(self, version: int) -> ConsumerGroupHeartbeatRequest:
        """Ask to be a member, of a coordinator that serves this version; not before what was lost is released.

        Raises KafkaError UNSUPPORTED_VERSION for a pattern that it cannot read.
        """
        assert not self.lost
        if self.subscription.pattern is not None and version < _PATTERNS_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "this broker reads no patterns",
                next_step="name the topics, or use a broker from Apache Kafka 4.0 on",
            )
        return self._request(full=True)

    def heartbeat_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Tell that this member is alive, and what it owns now where that is news; None unless it is a member.

        A field that has not changed is left out; after a request without a good answer all are said again.
        """
        if self.lost or not self.generation:
            return None
        return self._request(full=self._unanswered)

    def _request(self, *, full: bool) -> ConsumerGroupHeartbeatRequest:
        self._unanswered = True
        self._telling = self._owned if full or self._told != self._owned else None
        owned = None
        if self._telling is not None:
            owned = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in _by_topic(self._telling).items()
            ]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance_id,
            rebalance_timeout_ms=int(self.rebalance * 1000) if full else -1,
            subscribed_topic_names=list(self.subscription.topics) if full else None,
            subscribed_topic_regex=self.subscription.pattern if full else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=owned,
        )

    def heard(self, response: Any) -> None:
        """Take the answer to a heartbeat.

        Raises KafkaError: a retriable one means that the coordinator is to be looked for and asked again.
        """
        code = ErrorCode(response.error_code)
        if code in _FENCED:
            self.fence()
            return
        if code:
            reason = response.error_message or code.name
            raise KafkaError(
                code,
                f"group {self.group}: {reason}",
                next_step=_NEXT_STEP.get(code) or granting(code, "Read", self.group),
            )
        self._unanswered = False
        self._looked_for_names = False
        if self._telling is not None:
            self._told = self._telling
        self.member_id = response.member_id or self.member_id
        self.generation = response.member_epoch
        if response.assignment is not None:
            self._target = frozenset(
                (t.topic_id, p) for t in response.assignment.topic_partitions for p in t.partitions
            )
            self._told = None  # even an assignment that changes nothing is acknowledged
        self.heartbeat_interval = response.heartbeat_interval_ms / 1000
        if self.subscription.pattern is not None and not self._target:
            # The coordinator answers before it has looked the pattern up: ask again soon, then less often.
            self._soon = min(2 * self._soon, self.heartbeat_interval)
            self.heartbeat_interval = self._soon

    def fence(self) -> None:
        """The coordinator takes this member for gone: what it owns is lost, and it joins anew."""
        self.generation = 0
        self.lost = bool(self._owned)
        self._target = frozenset()
        self._told = None

    def leave_request(self, version: int) -> ConsumerGroupHeartbeatRequest | None:
        """Tell the group that this member goes (a static one: for now); None when it is no member."""
        if not self.generation:
            return None
        epoch = _LEAVES if self.instance_id is None else _LEAVES_FOR_NOW
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )

    # -- what it reads ---------------------------------------------------------------------------

    @property
    def names_missing(self) -> bool:
        """Whether the names of assigned topics are to be looked for (once after each heartbeat)."""
        return not self._looked_for_names and any(topic_id not in self._names for topic_id, _ in self._target)

    def learn_names(self, names: Mapping[TopicId, str]) -> None:
        """What the metadata say; partitions of topics that are unknown there wait for the next heartbeat."""
        self._looked_for_names = True
        self._names.update(names)

    def change(self) -> Change:
        """What is to be released and acquired now; `released` and `acquired` say that it was done."""
        if self.lost:
            return Change(self._owned, frozenset(), lost=True)
        if not self.generation:
            return Change(frozenset(), frozenset())
        named = frozenset(owned for owned in self._target if owned[0] in self._names)
        return Change(self._owned - self._target, named - self._owned)

    def partitions(self, owned: Iterable[Owned]) -> list[TopicPartition]:
        """The names of partitions that `change` gave."""
        return sorted(TopicPartition(self._names[topic_id], partition) for topic_id, partition in owned)

    def released(self, change: Change) -> None:
        """The reader has given up what `change` says."""
        self._owned -= change.release
        if self.lost:
            self.lost = bool(self._owned)

    def acquired(self, change: Change) -> None:
        """The reader has taken over what `change` says."""
        self._owned |= change.acquire
        if not self.generation:  # fenced meanwhile
            self.lost = bool(self._owned)

    @property
    def acknowledges(self) -> bool:
        """Whether the coordinator waits to hear what this member owns now."""
        return self._told != self._owned and bool(self.generation)


def _by_topic(owned: Iterable[Owned]) -> dict[TopicId, list[int]]:
    found: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(owned):
        found.setdefault(topic_id, []).append(partition)
    return found
