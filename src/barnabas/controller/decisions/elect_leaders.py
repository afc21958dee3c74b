"""Elections on request (ElectLeaders), and those that the controller holds by itself from time to time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cache

from barnabas.controller.decisions.partitions import (
    Election,
    ElectionRules,
    change_partition,
    concerned_in_steps,
)
from barnabas.controller.image import PartitionState, Topic
from barnabas.controller.view import Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_EPOCH, NO_NODE, NO_OFFSET, TopicId
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.schemas.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    PartitionResultReplica,
    ReplicaElectionResult,
)

__all__ = ["MOST", "elect_leaders", "preferred_leaders", "unclean_leaders"]

MOST = 1000
"""Partitions of which the controller moves the leader by itself in one go."""
_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_EXPLAINED = 101
"""Says what an unclean election would come to, and holds none.  Ours: Apache Kafka's controllers refuse it."""


def elect_leaders(view: View, request: ElectLeadersRequest) -> Deciding:
    """ElectLeaders (key 43; KIP-183, KIP-460): preferred leaders back in place, or any leader, losing data.

    An unclean election takes place only where nobody leads.  Asked about every partition (null), the answer
    leaves out those where nothing was to be done.
    """
    explained = request.election_type == _EXPLAINED
    election = Election.UNCLEAN if explained else _ELECTIONS.get(request.election_type)
    if election is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}")
    records: list[MetadataRecord] = []
    results: dict[str, list[PartitionResult]] = {}
    rules = cache(lambda topic_id: view.rules(view.image.topics[topic_id])._replace(election=election))
    for name, index, topic, state in _asked(view, request):
        yield
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}"
        replicas: list[PartitionResultReplica] = []
        if topic is not None and state is not None:
            found: list[MetadataRecord] = []
            code, message = _elect(topic, state, election, rules, found)
            if not explained:
                records += found
            elif state.leader == NO_NODE:
                replicas = _replicas(view, topic, state, rules(topic.id))
        if request.topic_partitions is None and code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        results.setdefault(name, []).append(
            PartitionResult(
                partition_id=index, error_code=int(code), error_message=message or None, replicas=replicas
            )
        )
    answer = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=rows) for name, rows in results.items()
        ]
    )
    return Decision(answer, records)


def _asked(
    view: View, request: ElectLeadersRequest
) -> Iterator[tuple[str, int, Topic | None, PartitionState | None]]:
    """Each partition once: its names, and what the image knows of it."""
    if request.topic_partitions is None:
        for topic in view.image.topics.values():
            for state in topic.partitions.values():
                yield topic.name, state.index, topic, state
        return
    wanted = ((asked.topic, index) for asked in request.topic_partitions for index in asked.partitions)
    for name, index in dict.fromkeys(wanted):
        yield name, index, view.image.topic(name), view.image.partition(name, index)


def _elect(
    topic: Topic,
    state: PartitionState,
    election: Election,
    rules: Callable[[TopicId], ElectionRules],
    records: list[MetadataRecord],
) -> tuple[ErrorCode, str]:
    preferred = election is Election.PREFERRED
    if state.leader == state.replicas[0] if preferred else state.leader != NO_NODE:
        return ErrorCode.ELECTION_NOT_NEEDED, "the leader is the one that is asked for"
    change = change_partition(topic, state, rules(topic.id))
    if change is not None and change.leader >= 0 and (not preferred or change.leader == state.replicas[0]):
        records.append(change)
        return ErrorCode.NONE, ""
    if preferred:
        return (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "the first replica is not alive and in sync, or its disk is full or slow",
        )
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive"


def _replicas(
    view: View, topic: Topic, state: PartitionState, rules: ElectionRules
) -> list[PartitionResultReplica]:
    """Return what is known of the replicas of a partition that nobody leads."""
    change = change_partition(topic, state, rules)
    rows: list[PartitionResultReplica] = []
    for replica in state.replicas:
        epoch, end = rules.log_end(replica, state) or (NO_EPOCH, NO_OFFSET)
        rows.append(
            PartitionResultReplica(
                broker_id=replica,
                alive=rules.acceptable(replica, state),
                incomplete=view.is_incomplete(topic.id, state.index, replica),
                leads=change is not None and change.leader == replica,
                leader_epoch=epoch,
                end_offset=end,
            )
        )
    return rows


# By itself.


def preferred_leaders(view: View) -> Generator[None, None, list[MetadataRecord]]:
    """Give partitions back to their first replica where that one is in sync, alive, and does not lead."""
    records: list[MetadataRecord] = []
    rules = cache(lambda id_: view.rules(view.image.topics[id_])._replace(election=Election.PREFERRED))

    def concerned(topic: Topic, state: PartitionState) -> bool:
        return state.leader != state.replicas[0] and state.replicas[0] in state.isr

    for found in concerned_in_steps(view.image, concerned):
        yield
        if found is None:
            continue
        topic, state = found
        change = change_partition(topic, state, rules(topic.id))
        if change is not None and change.leader == state.replicas[0]:
            records.append(change)
            if len(records) == MOST:
                break
    return records


def unclean_leaders(view: View) -> Generator[None, None, list[MetadataRecord]]:
    """Let any live replica lead a partition without a leader, where its topic allows it."""
    records: list[MetadataRecord] = []
    rules = cache(lambda topic_id: view.rules(view.image.topics[topic_id]))

    def concerned(topic: Topic, state: PartitionState) -> bool:
        return state.leader == NO_NODE and rules(topic.id).election is Election.UNCLEAN

    for found in concerned_in_steps(view.image, concerned):
        yield
        if found is None:
            continue
        topic, state = found
        change = change_partition(topic, state, rules(topic.id))
        if change is not None and change.leader >= 0:
            records.append(change)
            if len(records) == MOST:
                break
    return records
