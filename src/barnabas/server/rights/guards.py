"""What stands before which API: one table of guards (`needed` says which rows have one)."""

from __future__ import annotations

from typing import Any

from barnabas.broker.ports import Operation
from barnabas.errors import ErrorCode, KafkaError
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler, Row
from barnabas.server.rights import groups, offsets, tokens, topics
from barnabas.server.rights.needed import Needed, needed
from barnabas.server.rights.rights import Guard, Rights
from barnabas.wire.registry import API_NAMES, response_class
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)

__all__ = ["GUARDS", "Guarded", "guard_of", "guarded"]

_BETWEEN_NODES_FROM = 4


def _open(rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler) -> Any:
    """For everybody, or asked by the handler itself."""
    return handler(context, request)


def _whole(rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler) -> Any:
    """The operation on the cluster, for the request as a whole."""
    if rights.cluster(context, row.operation):
        return handler(context, request)
    error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if row.refused is not None and "error_code" not in response_class(row.key).__annotations__:
        return row.refused(request, error)
    raise error


def _describe_cluster(
    rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """DescribeCluster: for everybody at a broker; ALTER on the cluster at a controller (KIP-919)."""
    if context.client.kind == "C":
        rights.require_cluster(context, Operation.ALTER)
    return handler(context, request)


def _add_partitions(rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler) -> Any:
    """AddPartitionsToTxn: the handler asks for each transaction; the newer versions are for brokers only."""
    if context.version >= _BETWEEN_NODES_FROM:
        rights.require_cluster(context, Operation.CLUSTER_ACTION)
    return handler(context, request)


def _elect_leaders(
    rights: Rights, row: Row, context: RequestContext, request: ElectLeadersRequest, handler: Handler
) -> Any:
    """ElectLeaders: ALTER on the cluster; version 0 hears it for each partition."""
    if rights.cluster(context, Operation.ALTER):
        return handler(context, request)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ElectLeadersResponse(
        error_code=code if context.version else ErrorCode.NONE,  # version 0 has no place for it
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=code, error_message=KafkaError(code).message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _reassign(
    rights: Rights,
    row: Row,
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
    handler: Handler,
) -> Any:
    """AlterPartitionReassignments: ALTER on the cluster; refused as a whole, and for each partition."""
    if rights.cluster(context, Operation.ALTER):
        return handler(context, request)
    error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _alter_log_dirs(
    rights: Rights, row: Row, context: RequestContext, request: AlterReplicaLogDirsRequest, handler: Handler
) -> Any:
    """AlterReplicaLogDirs: ALTER on the cluster; refused for each partition."""
    if rights.cluster(context, Operation.ALTER):
        return handler(context, request)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    refused: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            refused.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in refused.items()
        ]
    )


GUARDS: dict[int, Guard] = {
    8: offsets.commit,
    9: offsets.fetch,
    10: groups.find_coordinator,
    11: groups.join,
    12: groups.member,
    13: groups.member,
    14: groups.sync,
    15: groups.describe,
    16: groups.list_groups,
    19: topics.create_topics,
    20: topics.delete_topics,
    24: _add_partitions,
    28: offsets.commit_in_transaction,
    32: topics.describe_configs,
    33: topics.alter_configs,
    34: _alter_log_dirs,
    37: topics.create_partitions,
    38: tokens.create_token,
    42: groups.delete,
    43: _elect_leaders,
    44: topics.alter_configs,
    45: _reassign,
    47: offsets.delete,
    60: _describe_cluster,
    68: groups.consumer_heartbeat,
    69: groups.consumer_describe,
}


def guard_of(row: Row) -> Guard:
    """What stands before a row of the table."""
    match needed(row):
        case Needed.NOTHING | Needed.IN_HANDLER:
            return _open
        case Needed.WHOLE:
            return _whole
        case Needed.EACH:
            return GUARDS[row.key]


class Guarded:
    """A handler with its guard before it."""

    __slots__ = ("_guard", "_handler", "_rights", "_row")

    def __init__(self, rights: Rights, row: Row, handler: Handler) -> None:
        self._rights = rights
        self._row = row
        self._guard = guard_of(row)
        self._handler = handler

    def serve(self, context: RequestContext, request: Any) -> Any:
        """Have the guard decide what of the request the handler gets."""
        return self._guard(self._rights, self._row, context, request, self._handler)

    def __repr__(self) -> str:
        return f"<Guarded {API_NAMES[self._row.key]}>"


def guarded(rights: Rights, row: Row, handler: Handler) -> Handler:
    """The handler behind its guard."""
    return handler if guard_of(row) is _open else Guarded(rights, row, handler).serve
