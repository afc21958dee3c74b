"""Elections that somebody asks for (ElectLeaders), and those the controller holds by itself now and then."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.controller.image import PartitionState, Topic
from barnabas.controller.partitions import Election, change_partition
from barnabas.controller.view import Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE
from barnabas.wire.message import Record
from barnabas.wire.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

__all__ = ["MOST", "elect_leaders", "preferred_leaders", "unclean_leaders"]

MOST = 1000
"""Partitions of which the controller moves the leader by itself in one go."""
_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(view: View, request: ElectLeadersRequest) -> Decision:
    """ElectLeaders (key 43; KIP-183, KIP-460): preferred leaders back in place, or any leader, losing data.

    An unclean election takes place only where nobody leads.  Asked about every partition (null), the answer
    leaves out those where nothing was to be done.
    """
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election of type {request.election_type}")
    records: list[Record] = []
    results: dict[str, list[PartitionResult]] = {}
    for name, index, topic, state in _asked(view, request):
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}"
        if topic is not None and state is not None:
            code, message = _elect(view, topic, state, election, records)
        if request.topic_partitions is None and code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        results.setdefault(name, []).append(
            PartitionResult(partition_id=index, error_code=int(code), error_message=message or None)
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
    view: View, topic: Topic, state: PartitionState, election: Election, records: list[Record]
) -> tuple[ErrorCode, str]:
    preferred = election is Election.PREFERRED
    if state.leader == state.replicas[0] if preferred else state.leader != NO_NODE:
        return ErrorCode.ELECTION_NOT_NEEDED, "the leader is the one that is asked for"
    change = change_partition(topic, state, view.rules(topic)._replace(election=election))
    if change is not None and change.leader >= 0 and (not preferred or change.leader == state.replicas[0]):
        records.append(change)
        return ErrorCode.NONE, ""
    if preferred:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "the first replica is not alive and in sync"
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive"


# By itself.


def preferred_leaders(view: View) -> list[Record]:
    """Give partitions back to their first replica where that one is in sync, alive, and does not lead."""
    records: list[Record] = []
    for topic in view.image.topics.values():
        rules = None
        for state in topic.partitions.values():
            first = state.replicas[0]
            if state.leader == first or first not in state.isr:
                continue
            rules = rules or view.rules(topic)._replace(election=Election.PREFERRED)
            change = change_partition(topic, state, rules)
            if change is not None and change.leader == first:
                records.append(change)
                if len(records) == MOST:
                    return records
    return records


def unclean_leaders(view: View) -> list[Record]:
    """Have partitions that nobody leads be led by whoever lives, where their topic allows it."""
    records: list[Record] = []
    for topic in view.image.topics.values():
        lost = [state for state in topic.partitions.values() if state.leader == NO_NODE]
        rules = view.rules(topic) if lost else None
        if rules is None or rules.election is not Election.UNCLEAN:
            continue
        for state in lost:
            change = change_partition(topic, state, rules)
            if change is not None and change.leader >= 0:
                records.append(change)
                if len(records) == MOST:
                    return records
    return records
