"""How a consumer is a member of its group: the protocol, what it wants, and what it is told of rebalances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.client.connection import ConnectionFailed
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.group_member import ClassicMember, GroupTimes
from barnabas.client.waits.poll_interval import MAX_POLL_INTERVAL
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import TopicPartition, Uuid

__all__ = ["GroupMachine", "GroupOptions", "Listener", "make_member", "may_pass"]

GroupMachine = ClassicMember | ConsumerGroupMember


class Listener(NamedTuple):
    """Called with partitions, in the reader's thread or task; asyncio awaits what is returned."""

    on_assigned: Callable[[list[TopicPartition]], Any] | None = None
    """Before the first record of these is handed out."""
    on_revoked: Callable[[list[TopicPartition]], Any] | None = None
    """Before another member may read these; the last chance to commit."""
    on_lost: Callable[[list[TopicPartition]], Any] | None = None
    """Another member may read these already."""


class GroupOptions(NamedTuple):
    """What a consumer says of its membership; times are seconds."""

    protocol: str = "classic"
    pattern: str | None = None
    assignor: str | None = None
    instance_id: str | None = None
    session_timeout: float = 45.0
    rebalance_timeout: float | None = None
    """None: max_poll_interval, as Kafka's consumers say."""
    max_poll_interval: float = MAX_POLL_INTERVAL


def make_member(
    group: str | None, topics: tuple[str, ...], options: GroupOptions, member_id: Uuid
) -> GroupMachine | None:
    """The member that the options describe; None without a group.

    Raises ValueError for what cannot be, TypeError for a topic that is none.
    """
    for topic in topics:
        if not isinstance(topic, str):
            raise TypeError(f"a topic is a str, not {topic!r:.100}; several are given one by one: 'a', 'b'")
    if options.protocol not in ("classic", "consumer"):
        raise ValueError(f"group_protocol is 'classic' or 'consumer', not {options.protocol!r}")
    newer = group is not None and options.protocol == "consumer"
    if not newer and (options.pattern is not None or options.assignor is not None):
        raise ValueError("pattern and assignor need a group and group_protocol='consumer'")
    if group is None:
        return None
    if options.max_poll_interval <= 0:
        raise ValueError(f"max_poll_interval is more than 0 s, not {options.max_poll_interval!r}")
    patience = options.rebalance_timeout
    rebalance = options.max_poll_interval if patience is None else patience
    if newer:
        return ConsumerGroupMember(
            group,
            Subscription(topics, options.pattern),
            member_id=str(member_id),
            rebalance=rebalance,
            assignor=options.assignor,
            instance_id=options.instance_id,
        )
    times = GroupTimes(options.session_timeout, rebalance)
    return ClassicMember(group, topics, times, instance_id=options.instance_id)


def may_pass(error: BarnabasError) -> bool:
    """Whether a heartbeat that failed so needs no other answer than the next heartbeat."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, KafkaError) and error.code.retriable)
