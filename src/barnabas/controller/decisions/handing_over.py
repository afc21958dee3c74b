"""Leaderships that pass from a broker that lives: its disk is unfit, or its replica lacks records.

A broker says so itself with its heartbeats: its directories that are full or slow, the replicas that it knows to
lack records.  A follower says it of its leader, where that one would have it cut what was committed: then the
leader's log is too short, which the leader itself does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from functools import cache

from barnabas.controller.decisions.partitions import (
    ElectionRules,
    change_partition,
    concerned_in_steps,
    lies_in,
    without,
)
from barnabas.controller.image import MetadataImage, PartitionState, Topic
from barnabas.model import DirectoryId, Epoch, NodeId, TopicId
from barnabas.wire.metadata import PartitionChangeRecord

__all__ = ["depose", "give_away", "take_out"]


def _handing_over(rules: ElectionRules, broker: NodeId) -> ElectionRules:
    """Return the rules by which others, who were heard and are fit, take over from `broker`."""
    usual = without(rules, broker)
    return usual._replace(fit=lambda other, at: usual.heard(other) and usual.fit(other, at))


def give_away(
    image: MetadataImage,
    broker: NodeId,
    directories: Collection[DirectoryId],
    rules_for: Callable[[Topic], ElectionRules],
) -> Generator[None, None, list[PartitionChangeRecord]]:
    """Return the records by which others lead what this broker leads in `directories`, where a fit one is in sync.

    Nobody takes a leadership who was not heard yet: a new controller does not know whose disks are unfit, and two
    such brokers would hand everything to and fro with each controller.

    The broker leaves the ISR too if enough others are in it, so that nobody waits for its disk meanwhile; it
    returns as every replica that keeps up does.
    """
    changes: list[PartitionChangeRecord] = []
    rules = cache(lambda topic_id: _handing_over(rules_for(image.topics[topic_id]), broker))

    def concerned(topic: Topic, state: PartitionState) -> bool:
        return state.leader == broker and lies_in(state, broker, directories)

    for found in concerned_in_steps(image, concerned):
        yield
        if found is None:
            continue
        topic, state = found
        how = rules(topic.id)
        others = tuple(member for member in state.isr if member != broker)
        if any(how.acceptable(other, state) and how.fit(other, state) for other in others):
            enough = len(others) >= min(how.min_isr, len(state.replicas))
            change = change_partition(topic, state, how, isr=others if enough else None)
            if change is not None:
                changes.append(change)
    return changes


def take_out(
    image: MetadataImage,
    broker: NodeId,
    incomplete: Collection[tuple[TopicId, int]],
    rules_for: Callable[[Topic], ElectionRules],
) -> Generator[None, None, list[PartitionChangeRecord]]:
    """Return the records that take a broker out of the ISRs and ELRs of partitions of which it lacks records.

    Where no other replica that has everything could lead, the partition stays as it is.
    """
    changes: list[PartitionChangeRecord] = []
    rules = cache(lambda topic_id: _handing_over(rules_for(image.topics[topic_id]), broker))
    for topic_id, index in sorted(incomplete):
        topic = image.topics.get(topic_id)
        state = topic.partitions.get(index) if topic is not None else None
        if topic is None or state is None or broker not in (*state.isr, *state.elr):
            continue
        yield
        how = rules(topic_id)
        others = [member for member in (*state.isr, *state.elr) if member != broker]
        if any(how.acceptable(other, state) and how.fit(other, state) for other in others):
            isr = tuple(member for member in state.isr if member != broker)
            change = change_partition(topic, state, how, isr=isr, unclean_shutdown=broker)
            if change is not None:
                changes.append(change)
    return changes


def depose(
    image: MetadataImage,
    broker: NodeId,
    refused: Collection[tuple[TopicId, int, Epoch]],
    rules_for: Callable[[Topic], ElectionRules],
) -> Generator[None, None, list[PartitionChangeRecord]]:
    """Return the records by which `broker` leads partitions whose leaders would have it cut what was committed.

    Only where it counts for what is committed, in sync or eligible: else others led while it was away, perhaps by
    an operator's word, and what it has more than they is not theirs.
    """
    changes: list[PartitionChangeRecord] = []
    rules = cache(lambda topic_id: rules_for(image.topics[topic_id]))
    for topic_id, index, leader_epoch in sorted(refused):
        topic = image.topics.get(topic_id)
        state = topic.partitions.get(index) if topic is not None else None
        if topic is None or state is None or leader_epoch != state.leader_epoch:
            continue
        leader, usual = state.leader, rules(topic_id)
        if leader == broker or broker not in (*state.isr, *state.elr) or not usual.acceptable(broker, state):
            continue
        yield
        how = without(usual, leader)._replace(
            fit=lambda other, _: other == broker, doubted=lambda other: other != broker
        )
        isr = tuple(member for member in state.isr if member != leader)
        change = change_partition(topic, state, how, isr=isr, unclean_shutdown=leader)
        if change is not None:
            changes.append(change)
    return changes
