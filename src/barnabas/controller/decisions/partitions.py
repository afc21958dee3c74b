"""The leader of a partition: the rules of elections and of the in-sync set, as PartitionChange records.

A leader must be acceptable (registered, unfenced, not shutting down, its directory online) and valid (in
the ISR, or in the ELR while the ISR is empty).  The leader stays if it can; else the first valid replica in
assignment order leads; among the valid ones those whose disk is neither full nor slow, and whose replica lacks
nothing, go first.  An eligible one whose broker stopped uncleanly may lack what its disk said was synced: if no
other is valid, the one whose log goes furthest leads.  Without a valid one the last known leader leads, or the
replica whose log goes further; else, where unclean elections are allowed, the acceptable one whose log goes
furthest.  If that one was neither in sync nor eligible, the ISR is that one alone and the partition is recovering.

With eligible leader replicas (KIP-966) a replica that leaves the ISR while the ISR is below
min.insync.replicas holds everything committed and may lead later; the ISR may then become empty.  Without
them the last member stays in the ISR though nobody leads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from barnabas.controller.decisions.assignment import Assignment
from barnabas.controller.image import BrokerState, MetadataImage, PartitionState, Topic
from barnabas.controller.versions import LATEST
from barnabas.model import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    DirectoryId,
    Epoch,
    NodeId,
    Offset,
    TopicId,
)
from barnabas.wire.metadata import PartitionChangeRecord

__all__ = [
    "Election",
    "ElectionRules",
    "LogEnd",
    "acceptable_leader",
    "change_partition",
    "concerned_in_steps",
    "elect_for",
    "elect_reported",
    "lies_in",
    "remove_broker",
    "without",
]

_NOT_KNOWN_YET = (None, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)
_NO_DIRECTORIES: Mapping[NodeId, DirectoryId] = MappingProxyType({})
_NO_END: LogEnd = (NO_EPOCH, NO_OFFSET)
_SHRINKS_IN_AN_EPOCH = 12
"""metadata.version (3.6-IV0) from which an ISR shrinks without a new leader epoch (KAFKA-15021)."""
_LOOKED_AT = 16
"""To look at so many partitions, without changing them, takes about as long as to change one."""
_DIRECTORIES = 17
"""metadata.version (3.7-IV2) from which partitions know the directories of their replicas."""


class Election(Enum):
    """What may be elected."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


LogEnd: TypeAlias = tuple[Epoch, Offset]
"""The leader epoch of a log's last record, and its end; the greater one has more of what was committed."""


def _fit(broker: NodeId, state: PartitionState) -> bool:
    return True


def _unreported(broker: NodeId, state: PartitionState) -> LogEnd | None:
    return None


def _never(broker: NodeId) -> bool:
    return False


def _heard(broker: NodeId) -> bool:
    return True


def _unassigned(broker: NodeId) -> DirectoryId:
    return DIRECTORY_UNASSIGNED


class ElectionRules(NamedTuple):
    """What an election has to know besides the partition.

    `acceptable(broker, partition)`: whether that broker could lead now, and `fit`: whether its disk is neither
    full nor slow, and its replica complete.  `min_isr` is the topic's min.insync.replicas.
    `doubted(broker)`: whether its last stop was unclean, so that it leads as an eligible one only if no log goes
    further.  `log_end(broker, partition)` is where its log ends, None where it did not say; `waits(broker)`:
    whether it waits for what others say.  `heard(broker)`: whether it has reported to this controller, which
    knows nothing of its disks and logs before.  `level` is that of metadata.version; `directory(broker)` where a
    new replica lies.
    """

    acceptable: Callable[[NodeId, PartitionState], bool]
    elr: bool
    min_isr: int
    election: Election = Election.ONLINE
    level: int = LATEST
    directory: Callable[[NodeId], DirectoryId] = _unassigned
    fit: Callable[[NodeId, PartitionState], bool] = _fit
    log_end: Callable[[NodeId, PartitionState], LogEnd | None] = _unreported
    waits: Callable[[NodeId], bool] = _never
    heard: Callable[[NodeId], bool] = _heard
    doubted: Callable[[NodeId], bool] = _never


def acceptable_leader(image: MetadataImage) -> Callable[[NodeId, PartitionState], bool]:
    """The usual test: an active broker, and the directory that holds the partition is one of its online ones."""

    def test(broker: NodeId, state: PartitionState) -> bool:
        registered = image.brokers.get(broker)
        return registered is not None and registered.active and _is_online(registered, state)

    return test


def _is_online(broker: BrokerState, state: PartitionState) -> bool:
    """Whether the broker registered the directory of this partition (KIP-858); one not known yet may be.

    One that names none registered before metadata.version 3.7-IV2.
    """
    directory = state.directory_of(broker.id)
    return directory in _NOT_KNOWN_YET or not broker.directories or directory in broker.directories


def lies_in(state: PartitionState, broker: NodeId, directories: Collection[DirectoryId]) -> bool:
    """Return whether the broker's replica lies in one of its `directories`, as far as the metadata know where."""
    directory = state.directory_of(broker)
    return directory in directories or directory in _NOT_KNOWN_YET


def change_partition(
    topic: Topic,
    state: PartitionState,
    rules: ElectionRules,
    *,
    isr: tuple[NodeId, ...] | None = None,
    assignment: Assignment | None = None,
    directories: Mapping[NodeId, DirectoryId] = _NO_DIRECTORIES,
    unclean_shutdown: NodeId | None = None,
    recovered: bool = False,
) -> PartitionChangeRecord | None:
    """The record that brings the partition to the wanted ISR and the best leader; None: nothing changes.

    `assignment` is another one than the present; whichever it is, it is finished here as soon as the ISR
    allows it.  `directories` tells where replicas lie.  `unclean_shutdown` is a broker that lost what it
    had not synced: it leaves the ELR too.
    """
    wanted = state.isr if isr is None else isr
    assigned = Assignment.of(state) if assignment is None else assignment
    assigned, wanted = assigned.finished(wanted)
    elr = _wanted_elr(state, assigned.replicas, wanted, rules, unclean_shutdown)
    if directories:
        rules = _lying_in(rules, directories)
    leader, unclean = _elect(state, assigned.replicas, wanted, elr, rules)
    fields: dict[str, Any] = {}
    if leader != state.leader:
        fields["leader"] = leader
    elif not set(state.replicas) <= set(assigned.replicas):
        fields["leader"] = leader  # still a new epoch: a removed replica must not count any more
    if leader != NO_NODE and (unclean or (not wanted and leader in elr)):
        elr = tuple(one for one in elr if not unclean and _stays(one, leader, state, rules))
        wanted = (leader,)
        if unclean and not state.recovering:
            fields["leader_recovery_state"] = 1
    elif recovered and state.recovering:
        fields["leader_recovery_state"] = 0
    if wanted != state.isr and (wanted or rules.elr):
        fields["isr"] = list(wanted)
        if rules.level < _SHRINKS_IN_AN_EPOCH and not set(state.isr) <= set(wanted):
            fields.setdefault("leader", leader)
    if elr != state.elr:
        fields["eligible_leader_replicas"] = list(elr)
    last_known = _last_known(state, leader, rules)
    if last_known != state.last_known_elr:
        fields["last_known_elr"] = list(last_known)
    fields |= _assignment_fields(state, assigned, rules, directories)
    if not fields:
        return None
    return PartitionChangeRecord(partition_id=state.index, topic_id=topic.id, **fields)


def _lying_in(rules: ElectionRules, directories: Mapping[NodeId, DirectoryId]) -> ElectionRules:
    """The same rules, for a partition of which some replicas lie in these directories from now on."""
    usual = rules.acceptable

    def test(candidate: NodeId, at: PartitionState) -> bool:
        where = tuple(
            directories.get(replica, known)
            for replica, known in zip(at.replicas, at.directories, strict=False)
        )
        return usual(candidate, at._replace(directories=where))

    return rules._replace(acceptable=test)


def _assignment_fields(
    state: PartitionState,
    assigned: Assignment,
    rules: ElectionRules,
    directories: Mapping[NodeId, DirectoryId],
) -> dict[str, Any]:
    """What the record has to say of replicas, of those that come and go, and of their directories."""
    fields: dict[str, Any] = {}
    if rules.level >= _DIRECTORIES:
        known = {**dict(zip(state.replicas, state.directories, strict=False)), **directories}
        where = tuple(known[r] if r in known else rules.directory(r) for r in assigned.replicas)
        if where != state.directories:
            fields["directories"] = list(where)
    if assigned.replicas != state.replicas:
        fields["replicas"] = list(assigned.replicas)
    if assigned.removing != state.removing:
        fields["removing_replicas"] = list(assigned.removing)
    if assigned.adding != state.adding:
        fields["adding_replicas"] = list(assigned.adding)
    return fields


def _wanted_elr(
    state: PartitionState,
    replicas: tuple[NodeId, ...],
    isr: tuple[NodeId, ...],
    rules: ElectionRules,
    unclean_shutdown: NodeId | None,
) -> tuple[NodeId, ...]:
    if not rules.elr or len(isr) >= min(rules.min_isr, len(replicas)):
        return ()
    return tuple(
        broker
        for broker in sorted({*state.elr, *state.isr})
        if broker not in isr and broker != unclean_shutdown and broker in replicas
    )


def _elect(
    state: PartitionState,
    replicas: tuple[NodeId, ...],
    isr: tuple[NodeId, ...],
    elr: tuple[NodeId, ...],
    rules: ElectionRules,
) -> tuple[NodeId, bool]:
    """(leader or NO_NODE, whether data may be lost by it)."""

    def valid(broker: NodeId) -> bool:
        holds = broker in isr or (not isr and broker in elr)
        return holds and rules.acceptable(broker, state)

    candidates: Iterable[NodeId] = (state.leader, *replicas)
    if rules.election is Election.PREFERRED:
        candidates = (replicas[0], state.leader, *replicas)
    able = [broker for broker in candidates if broker != NO_NODE and valid(broker)]
    if sure := [broker for broker in able if broker in isr or not rules.doubted(broker)]:
        return next((broker for broker in sure if rules.fit(broker, state)), sure[0]), False
    if rules.elr and not isr and (elr or len(state.last_known_elr) == 1):
        longest = _longest(state, replicas, elr, rules)
        if longest != NO_NODE:
            return longest, longest not in elr
    if rules.election is Election.UNCLEAN:
        living = [broker for broker in replicas if rules.acceptable(broker, state)]
        if living:
            return max(living, key=lambda broker: rules.log_end(broker, state) or _NO_END), True
    return NO_NODE, False


def _longest(
    state: PartitionState, replicas: tuple[NodeId, ...], elr: tuple[NodeId, ...], rules: ElectionRules
) -> NodeId:
    """Return the replica whose log goes furthest; NO_NODE while those that may go further are waited for.

    An eligible one, or the last known leader, may have lost records in an unclean stop.  The other eligible ones
    still have them, perhaps also one that is eligible no more since its own unclean stop; if the last known leader
    alone is left, any replica may.
    """
    ends = {
        replica: rules.log_end(replica, state) for replica in replicas if rules.acceptable(replica, state)
    }
    claim = [broker for broker in elr or state.last_known_elr if broker in ends and rules.heard(broker)]
    if not claim:
        return NO_NODE
    if not elr and ends[claim[0]] is None:
        return claim[0]
    awaited = {*(elr or replicas), *filter(rules.doubted, ends)}
    if len(awaited) > 1 and any(map(rules.waits, claim)) and any(ends.get(one) is None for one in awaited):
        return NO_NODE
    return max(ends, key=lambda replica: (ends[replica] or _NO_END, replica in claim))


def _stays(broker: NodeId, leader: NodeId, state: PartitionState, rules: ElectionRules) -> bool:
    """Return whether an eligible replica stays so: what it lacks of this leader's log may be committed."""
    end = rules.log_end(broker, state)
    short = rules.doubted(broker) and end is not None and end < (rules.log_end(leader, state) or _NO_END)
    return broker != leader and not short


def _last_known(state: PartitionState, leader: NodeId, rules: ElectionRules) -> tuple[NodeId, ...]:
    """The last leader, kept until the partition has a leader again."""
    if not rules.elr:
        return state.last_known_elr
    if leader != NO_NODE:
        return ()
    if state.leader != NO_NODE and not state.last_known_elr:
        return (state.leader,)
    return state.last_known_elr


def concerned_in_steps(
    image: MetadataImage, concerned: Callable[[Topic, PartitionState], bool]
) -> Iterator[tuple[Topic, PartitionState] | None]:
    """Every partition that is concerned, with its topic, and None after some of the others: each is a step."""
    looked_at = 0
    for topic in image.topics.values():
        for state in topic.partitions.values():
            looked_at += 1
            if concerned(topic, state):
                yield topic, state
            elif looked_at % _LOOKED_AT == 0:
                yield None


def without(rules: ElectionRules, broker: NodeId) -> ElectionRules:
    """The same rules, but `broker` may not lead."""
    usual = rules.acceptable
    return rules._replace(acceptable=lambda candidate, at: candidate != broker and usual(candidate, at))


def _with_back(
    rules: ElectionRules, broker: BrokerState, lost: Collection[DirectoryId | None]
) -> ElectionRules:
    """The same rules, but `broker` may lead wherever its directory is online: it is being unfenced."""
    usual = rules.acceptable

    def test(candidate: NodeId, at: PartitionState) -> bool:
        if candidate == broker.id:
            return _is_online(broker, at) and at.directory_of(broker.id) not in lost
        return usual(candidate, at)

    return rules._replace(acceptable=test)


def remove_broker(
    image: MetadataImage,
    broker: NodeId,
    rules_for: Callable[[Topic], ElectionRules],
    *,
    unclean_shutdown: bool = False,
) -> Generator[None, None, list[PartitionChangeRecord]]:
    """The records that take a broker out of all ISRs and leaderships (it is fenced, leaves, or crashed).

    After an unclean shutdown it leaves the ELRs too.
    """
    changes: list[PartitionChangeRecord] = []
    rules = cache(lambda topic_id: without(rules_for(image.topics[topic_id]), broker))

    def concerned(topic: Topic, state: PartitionState) -> bool:
        return broker == state.leader or broker in state.isr or (unclean_shutdown and broker in state.elr)

    for found in concerned_in_steps(image, concerned):
        yield
        if found is None:
            continue
        topic, state = found
        change = change_partition(
            topic,
            state,
            rules(topic.id),
            isr=tuple(member for member in state.isr if member != broker),
            unclean_shutdown=broker if unclean_shutdown else None,
        )
        if change is not None:
            changes.append(change)
    return changes


def elect_for(
    image: MetadataImage,
    broker: NodeId,
    rules_for: Callable[[Topic], ElectionRules],
    lost: Collection[DirectoryId | None] = (),
) -> Generator[None, None, list[PartitionChangeRecord]]:
    """The records that elect leaders for partitions without one, now that a broker came back.

    `lost` are directories that it came back without.
    """
    registered = image.brokers[broker]
    changes: list[PartitionChangeRecord] = []
    rules = cache(lambda topic_id: _with_back(rules_for(image.topics[topic_id]), registered, lost))
    for found in concerned_in_steps(image, lambda topic, state: state.leader == NO_NODE):
        yield
        if found is None:
            continue
        topic, state = found
        change = change_partition(topic, state, rules(topic.id))
        if change is not None:
            changes.append(change)
    return changes


def elect_reported(
    image: MetadataImage,
    reported: Iterable[tuple[TopicId, int]],
    rules_for: Callable[[Topic], ElectionRules],
) -> Generator[None, None, list[PartitionChangeRecord]]:
    """Return the records that elect leaders for these partitions, of which only the last known leader is left."""
    changes: list[PartitionChangeRecord] = []
    rules = cache(lambda topic_id: rules_for(image.topics[topic_id]))
    for topic_id, index in reported:
        topic = image.topics.get(topic_id)
        state = topic.partitions.get(index) if topic is not None else None
        if topic is None or state is None or state.leader != NO_NODE or not state.last_known_elr:
            continue
        yield
        change = change_partition(topic, state, rules(topic_id))
        if change is not None:
            changes.append(change)
    return changes
