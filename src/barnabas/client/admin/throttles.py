"""How fast replicas move (KIP-73): `throttle(admin, plan, before, rate=10_000_000)`, and `unthrottle(admin)`.

Two settings belong together.  `{leader,follower}.replication.throttled.rate` says how many bytes per second a
broker may send to, and fetch for, throttled replicas; the topic's `...throttled.replicas` says which replicas
those are.  Both are dynamic and stay until somebody removes them: who begins a move with a limit ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from barnabas.client.connection import ConnectionFailed
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

__all__ = ["Throttles", "throttle", "throttles", "unthrottle"]

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_ALWAYS = "*"
"""A topic that an operator throttles as a whole: not ours to change."""


class Throttles(NamedTuple):
    """Limits that are set now: bytes per second by broker, and the topics with throttled replicas."""

    rates: dict[NodeId, int]
    topics: tuple[str, ...]
    silent: tuple[NodeId, ...] = ()
    """Brokers that did not answer: what is set for them is not known."""

    def __bool__(self) -> bool:
        return bool(self.rates or self.topics)


def throttle(
    admin: Admin,
    plan: Mapping[TopicPartition, Sequence[NodeId]],
    before: Mapping[TopicPartition, Sequence[NodeId]],
    rate: int,
) -> None:
    """Limit the moves of a plan to `rate` bytes per second for each broker that sends or receives.

    Raises KafkaError when a setting is refused.
    """
    sources: dict[str, list[str]] = {}
    targets: dict[str, list[str]] = {}
    brokers: set[NodeId] = set()
    for tp, replicas in sorted(plan.items()):
        adding = set(replicas) - set(before[tp])
        if not adding:
            continue
        brokers |= adding | set(before[tp])
        sources.setdefault(tp.topic, []).extend(f"{tp.partition}:{b}" for b in before[tp])
        targets.setdefault(tp.topic, []).extend(f"{tp.partition}:{b}" for b in sorted(adding))
    for broker in sorted(brokers):
        admin.alter_configs("broker", str(broker), dict.fromkeys(RATES, str(rate)))
    for topic in sources:
        set_now = _given(admin, "topic", topic, REPLICAS)
        wanted = {REPLICAS[0]: ",".join(sources[topic]), REPLICAS[1]: ",".join(targets[topic])}
        change = {name: value for name, value in wanted.items() if set_now.get(name) != _ALWAYS}
        if change:
            admin.alter_configs("topic", topic, change)


def throttles(admin: Admin, brokers: Iterable[NodeId], topics: Iterable[str]) -> Throttles:
    """The limits of these brokers and topics that were set at run time.

    A broker that has just died, and is not fenced yet, is named as silent.
    """
    rates = {}
    silent = []
    for broker in brokers:
        try:
            found = _given(admin, "broker", str(broker), RATES)
        except (ConnectionFailed, KafkaError) as error:  # only a broker itself tells what it was given
            if isinstance(error, KafkaError) and error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            silent.append(broker)
            continue
        if found:
            rates[broker] = min(int(value) for value in found.values())
    throttled = (
        topic
        for topic in topics
        if any(value != _ALWAYS for value in _given(admin, "topic", topic, REPLICAS).values())
    )
    return Throttles(rates, tuple(throttled), tuple(silent))


def unthrottle(admin: Admin, found: Throttles) -> None:
    """Remove these limits; a silent broker keeps what it has.  Raises KafkaError when that is refused."""
    for broker in found.rates:
        admin.alter_configs("broker", str(broker), reset=RATES)
    for topic in found.topics:
        given = _given(admin, "topic", topic, REPLICAS)
        admin.alter_configs("topic", topic, reset=[n for n, value in given.items() if value != _ALWAYS])


def _given(
    admin: Admin, kind: Literal["topic", "broker"], name: str, wanted: Sequence[str]
) -> dict[str, str]:
    """Those of the wanted settings that were given to this very topic or broker at run time."""
    found = admin.configs(kind, name)
    return {s.name: s.value for s in found if s.name in wanted and s.value and s.source == kind}
