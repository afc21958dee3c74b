"""How a member gets from what it owns to what it shall own (KIP-848, "Member Assignment").

1. What the target does not hold any more is revoked first: the member stays in its epoch, and in the state
   UNREVOKED_PARTITIONS, until a heartbeat says that it does not own them.
2. Then it gets, and its epoch becomes the target's, whatever of the target nobody owns.
3. While others own the rest it is in UNRELEASED_PARTITIONS, and gets it as they give it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from barnabas.broker.groups.consumer.member import NOTHING, ConsumerMember, MemberState, Owned, Target
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicId

__all__ = ["Aim", "Reported", "reconcile"]

Reported = Mapping[TopicId, Collection[int]]
"""Partitions that a member says it owns."""

NOBODY = -1


class Aim(NamedTuple):
    """Where a member shall get.  `topics` are those it subscribes to; `changed`: its subscription is new."""

    epoch: int
    target: Target
    topics: frozenset[TopicId]
    changed: bool
    epoch_of: Callable[[TopicId, int], int]
    """The epoch of the member that owns a partition, -1 when nobody does."""


def reconcile(member: ConsumerMember, aim: Aim, reported: Reported | None) -> ConsumerMember:
    """The member after one step.  `reported` None: it did not say what it owns, so it may own everything.

    Raises KafkaError FENCED_MEMBER_EPOCH for a member in a state of a later release that still owns something.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch != aim.epoch:
                return _next_assignment(member, member.epoch, aim, reported)
            return _drop_unsubscribed(member, aim, reported) if aim.changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(reported, member.revoking):
                return _drop_unsubscribed(member, aim, reported) if aim.changed else member
            return _next_assignment(member, member.epoch, aim, reported)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next_assignment(member, member.epoch, aim, reported)
        case _:
            if reported is None or reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is not known here: rejoin"
                )
            return _next_assignment(member, aim.epoch, aim, reported)


def _owns_any(reported: Reported | None, owned: Owned) -> bool:
    """Whether a member still owns, or may own, some of these."""
    if reported is None:
        return True
    return any(index in owned.get(topic, ()) for topic, indexes in reported.items() for index in indexes)


def _drop_unsubscribed(member: ConsumerMember, aim: Aim, reported: Reported | None) -> ConsumerMember:
    """A member keeps nothing of a topic that it does not subscribe to any more."""
    kept = {topic: owned for topic, owned in member.assigned.items() if topic in aim.topics}
    if len(kept) == len(member.assigned):
        return member
    revoking = {topic: dict(owned) for topic, owned in member.revoking.items()}
    for topic, owned in member.assigned.items():
        if topic not in aim.topics:
            revoking.setdefault(topic, {}).update(owned)
    if _owns_any(reported, revoking):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return member.moved_to(member.epoch, member.state, kept, member.revoking)


def _next_assignment(
    member: ConsumerMember, epoch: int, aim: Aim, reported: Reported | None
) -> ConsumerMember:
    kept: dict[TopicId, dict[int, int]] = {}
    revoking: dict[TopicId, dict[int, int]] = {}
    free: dict[TopicId, set[int]] = {}
    unreleased = False
    for topic in aim.target.keys() | member.assigned.keys():
        wanted = aim.target.get(topic, frozenset()) if topic in aim.topics else frozenset()
        owned = member.assigned.get(topic, {})
        if keeps := {index: since for index, since in owned.items() if index in wanted}:
            kept[topic] = keeps
        if gives := {index: since for index, since in owned.items() if index not in wanted}:
            revoking[topic] = gives
        for index in wanted - owned.keys():
            # (What the member itself has just given up is free for it.)
            if aim.epoch_of(topic, index) == NOBODY or index in member.revoking.get(topic, {}):
                free.setdefault(topic, set()).add(index)
            else:
                unreleased = True
    if revoking and _owns_any(reported, revoking):
        return member.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic, indexes in free.items():
        kept.setdefault(topic, {}).update(dict.fromkeys(indexes, aim.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved_to(aim.epoch, state, kept, NOTHING)
