"""Who leads a partition: the rules of elections and of the in-sync set, as PartitionChange records.

A leader must be acceptable (registered, unfenced, not shutting down, its directory online) and valid (in
the ISR, or in the ELR while the ISR is empty).  The leader stays if it can; else the first valid replica in
assignment order leads; else the last known leader; else, where unclean elections are allowed, the first
acceptable one, and then the ISR is that one alone and the partition is recovering.

With eligible leader replicas (KIP-966) a replica that leaves the ISR while the ISR is below
min.insync.replicas holds everything committed and may lead later; the ISR may then become empty.  Without
them the last member stays in the ISR though nobody leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from barnabas.controller.image import BrokerState, MetadataImage, PartitionState, Topic
from barnabas.model import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, NO_NODE, NodeId
from barnabas.wire.metadata import PartitionChangeRecord

__all__ = [
    "Election",
    "ElectionRules",
    "acceptable_leader",
    "change_partition",
    "elect_for",
    "partitions_of",
    "remove_broker",
    "without",
]

_NOT_KNOWN_YET = (None, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)


class Election(Enum):
    """What may be elected."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class ElectionRules(NamedTuple):
    """What an election has to know besides the partition.

    `acceptable(broker, partition)`: whether that broker could lead now.  `min_isr` is the topic's
    min.insync.replicas.
    """

    acceptable: Callable[[NodeId, PartitionState], bool]
    elr: bool
    min_isr: int
    election: Election = Election.ONLINE


def acceptable_leader(image: MetadataImage) -> Callable[[NodeId, PartitionState], bool]:
    """The usual test: an active broker, and the directory that holds the partition is one of its online ones."""

    def test(broker: NodeId, state: PartitionState) -> bool:
        registered = image.brokers.get(broker)
        return registered is not None and registered.active and _is_online(registered, state)

    return test


def _is_online(broker: BrokerState, state: PartitionState) -> bool:
    """Whether the broker registered the directory of this partition (KIP-858); one not known yet may be."""
    directory = state.directory_of(broker.id)
    return directory in _NOT_KNOWN_YET or directory in broker.directories


def change_partition(
    topic: Topic,
    state: PartitionState,
    rules: ElectionRules,
    *,
    isr: tuple[NodeId, ...] | None = None,
    unclean_shutdown: NodeId | None = None,
    recovered: bool = False,
) -> PartitionChangeRecord | None:
    """The record that brings the partition to the wanted ISR and the best leader; None: nothing changes.

    `unclean_shutdown` is a broker that lost what it had not synced: it leaves the ELR too.
    """
    wanted = state.isr if isr is None else isr
    elr = _wanted_elr(state, wanted, rules, unclean_shutdown)
    leader, unclean = _elect(state, wanted, elr, rules)
    fields: dict[str, Any] = {}
    if leader != state.leader:
        fields["leader"] = leader
    if leader != NO_NODE and (unclean or (not wanted and leader in elr)):
        elr = () if unclean else tuple(replica for replica in elr if replica != leader)
        wanted = (leader,)
        if unclean:
            fields["leader_recovery_state"] = 1
    elif recovered and state.recovering:
        fields["leader_recovery_state"] = 0
    if wanted != state.isr and (wanted or rules.elr):
        fields["isr"] = list(wanted)
    if elr != state.elr:
        fields["eligible_leader_replicas"] = list(elr)
    last_known = _last_known(state, wanted, leader, rules)
    if last_known != state.last_known_elr:
        fields["last_known_elr"] = list(last_known)
    if not fields:
        return None
    return PartitionChangeRecord(partition_id=state.index, topic_id=topic.id, **fields)


def _wanted_elr(
    state: PartitionState, isr: tuple[NodeId, ...], rules: ElectionRules, unclean_shutdown: NodeId | None
) -> tuple[NodeId, ...]:
    if not rules.elr or len(isr) >= min(rules.min_isr, len(state.replicas)):
        return ()
    holders = dict.fromkeys((*state.elr, *state.isr))
    return tuple(broker for broker in holders if broker not in isr and broker != unclean_shutdown)


def _elect(
    state: PartitionState, isr: tuple[NodeId, ...], elr: tuple[NodeId, ...], rules: ElectionRules
) -> tuple[NodeId, bool]:
    """(leader or NO_NODE, whether data may be lost by it)."""

    def valid(broker: NodeId) -> bool:
        holds = broker in isr or (not isr and broker in elr)
        return holds and rules.acceptable(broker, state)

    candidates: Iterable[NodeId] = (state.leader, *state.replicas)
    if rules.election is Election.PREFERRED:
        candidates = (state.replicas[0], state.leader, *state.replicas)
    for broker in candidates:
        if broker != NO_NODE and valid(broker):
            return broker, False
    if rules.elr and not isr and not elr and len(state.last_known_elr) == 1:
        last = state.last_known_elr[0]
        if rules.acceptable(last, state):
            return last, True
    if rules.election is Election.UNCLEAN:
        for broker in state.replicas:
            if rules.acceptable(broker, state):
                return broker, True
    return NO_NODE, False


def _last_known(
    state: PartitionState, isr: tuple[NodeId, ...], leader: NodeId, rules: ElectionRules
) -> tuple[NodeId, ...]:
    """Remembers who led when the ISR became empty, until somebody leads again."""
    if not rules.elr or leader != NO_NODE:
        return ()
    if not isr and state.isr and state.leader != NO_NODE:
        return (state.leader,)
    return state.last_known_elr


def partitions_of(image: MetadataImage, broker: NodeId) -> Iterable[tuple[Topic, PartitionState]]:
    """Every partition that `broker` leads, or whose ISR or ELR it is in."""
    for topic in image.topics.values():
        for state in topic.partitions.values():
            if broker == state.leader or broker in state.isr or broker in state.elr:
                yield topic, state


def without(rules: ElectionRules, broker: NodeId) -> ElectionRules:
    """The same rules, but `broker` may not lead."""
    usual = rules.acceptable
    return rules._replace(acceptable=lambda candidate, at: candidate != broker and usual(candidate, at))


def _with_back(rules: ElectionRules, broker: BrokerState) -> ElectionRules:
    """The same rules, but `broker` may lead wherever its directory is online: it is being unfenced."""
    usual = rules.acceptable

    def test(candidate: NodeId, at: PartitionState) -> bool:
        if candidate == broker.id:
            return _is_online(broker, at)
        return usual(candidate, at)

    return rules._replace(acceptable=test)


def remove_broker(
    image: MetadataImage,
    broker: NodeId,
    rules_for: Callable[[Topic], ElectionRules],
    *,
    unclean_shutdown: bool = False,
) -> list[PartitionChangeRecord]:
    """The records that take a broker out of all ISRs and leaderships (it is fenced, leaves, or crashed)."""
    changes: list[PartitionChangeRecord] = []
    for topic, state in partitions_of(image, broker):
        change = change_partition(
            topic,
            state,
            without(rules_for(topic), broker),
            isr=tuple(member for member in state.isr if member != broker),
            unclean_shutdown=broker if unclean_shutdown else None,
        )
        if change is not None:
            changes.append(change)
    return changes


def elect_for(
    image: MetadataImage, broker: NodeId, rules_for: Callable[[Topic], ElectionRules]
) -> list[PartitionChangeRecord]:
    """The records that give leaderless partitions of a broker that came back a leader."""
    registered = image.brokers[broker]
    changes: list[PartitionChangeRecord] = []
    for topic in image.topics.values():
        for state in topic.partitions.values():
            if state.leader == NO_NODE and broker in state.replicas:
                change = change_partition(topic, state, _with_back(rules_for(topic), registered))
                if change is not None:
                    changes.append(change)
    return changes
