"""DescribeQuorum, read: what Apache Kafka's tools show, and what Barnabas adds in tagged fields.

A change can be checked there without being made: a node that does not know the question only describes, so it can
have no effect anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from barnabas.client.admin.described import QuorumDescription, QuorumDetail, QuorumReplica
from barnabas.client.admin.overview import describe_cluster
from barnabas.client.admin.quorum import advice, ask_active, find_active, registered_controllers
from barnabas.client.connection import ConnectionFailed, first_of
from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, NO_NODE, ZERO_UUID, DirectoryId, NodeId, VoterCheck
from barnabas.wire.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)

__all__ = [
    "check_change",
    "could_vote",
    "described",
    "description_request",
    "quorum_detail",
    "quorum_history",
]

_NOT_CHECKED = -2
_ELECTION_MS = 3000
"""A node may look for a leader for so long before it is asked what it knows itself."""


def description_request(
    check: int = 0,
    voters: Sequence[NodeId] = (),
    directory_id: DirectoryId = ZERO_UUID,
    *,
    force: bool = False,
    history: bool = False,
) -> DescribeQuorumRequest:
    """Ask for the quorum, and what would become of a change."""
    partition = DescribeQuorumRequestPartitionData(
        partition_index=0,
        check=check,
        check_voters=list(voters),
        check_directory_id=directory_id,
        check_force=force,
        history=history,
    )
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def described(response: Any, cluster_id: str) -> QuorumDescription:
    """Return a leader's answer as Apache Kafka's tools read it.  Raises KafkaError where it is none."""
    data = _data(response)
    _check(data)
    endpoints = {
        node.node_id: tuple(f"{e.name}://{e.host}:{e.port}" for e in node.listeners)
        for node in response.nodes
    }

    def replicas(states: Sequence[Any], with_endpoints: bool) -> tuple[QuorumReplica, ...]:
        return tuple(
            QuorumReplica(
                s.replica_id,
                s.replica_directory_id,
                s.log_end_offset,
                s.last_fetch_timestamp,
                s.last_caught_up_timestamp,
                endpoints.get(s.replica_id, ()) if with_endpoints else (),
            )
            for s in states
        )

    return QuorumDescription(
        cluster_id,
        data.leader_id,
        data.leader_epoch,
        data.high_watermark,
        replicas(data.current_voters, True),
        replicas(data.observers, False),
    )


@for_both
async def quorum(cluster: AnyCluster) -> QuorumDescription:
    """`quorum(cluster).leader` -> the metadata quorum as its leader sees it.  Controllers answer too."""
    response = await ask_active(cluster, description_request())
    return described(response, (await describe_cluster(cluster)).cluster_id)


@for_both
async def quorum_detail(cluster: AnyCluster) -> QuorumDetail:
    """`quorum_detail(cluster).waiting` -> the quorum with what Apache Kafka's answer does not say.

    Without a leader it is what the controller that was asked knows.
    """

    async def attempt() -> Any:
        response = await (await cluster.any()).request(description_request())
        data = _data(response)
        if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            if data.leaderless_ms >= _ELECTION_MS:
                return response  # it may still name the leader that it has lost
            if data.leader_id == NO_NODE:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no leader is known")
            return await _of_leader(cluster)
        return response

    response = await cluster.retrying(attempt)
    data = _data(response)
    leads = not data.error_code
    if data.leaderless_ms < 0:
        _check(data)
    found = described(response, (await describe_cluster(cluster)).cluster_id) if leads else None
    could_be_voters: tuple[NodeId, ...] | None = tuple(data.could_be_voters)
    if found is not None and data.survivable < 0:
        could_be_voters = could_vote(found, await registered_controllers(cluster, found))
    return QuorumDetail(
        found,
        tuple(data.target_voters),
        data.steps_left,
        tuple(data.committed_voters),
        could_be_voters,
        tuple(data.waiting),
        tuple((error.node_id, error.reason) for error in data.peer_errors),
        data.leaderless_ms,
        data.survivable,
    )


def could_vote(
    quorum: QuorumDescription, controllers: Collection[NodeId] | None
) -> tuple[NodeId, ...] | None:
    """Return the observers that fetch and are controllers: brokers are among the observers, too."""
    if controllers is None:
        return None
    return tuple(one.id for one in quorum.live(quorum.observers) if one.id in controllers)


@for_both
async def quorum_history(cluster: AnyCluster) -> list[dict[str, Any]]:
    """What became of the quorum, oldest first, as the node that answers knows it.

    Each has `at` (ms since 1970), `by`, `what`, `outcome`, and where it waited `seconds` and `waited_for`.
    Raises KafkaError UNSUPPORTED_VERSION where Apache Kafka answers, which keeps none.
    """

    async def attempt() -> Any:
        return await (await cluster.any()).request(description_request(history=True))

    response = await cluster.retrying(attempt)
    data = _data(response)
    if not data.history and not data.error_code and data.survivable < 0:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Apache Kafka answers, as node or as leader, and keeps no history",
            next_step="`barnabas quorum -C HOST:PORT history` asks a controller that runs Barnabas",
        )
    return [json.loads(line) for line in data.history]


async def _of_leader(cluster: AnyCluster) -> Any:
    """What the leader says.  Raises KafkaError where it is just gone: the node that names it will know soon."""
    leader = await find_active(cluster)
    if leader is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader does not answer")
    try:
        response = await leader.request(description_request())
    except ConnectionFailed as error:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader is gone: {error}") from error
    finally:
        await leader.close()
    partitions = response.topics[0].partitions if response.topics else ()
    if partitions and partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has changed")
    return response


def _data(response: Any) -> Any:
    """Return the answer's only row.  A refusal has none, so it is looked for before."""
    _check(response)
    return first_of(first_of(response.topics, "the quorum").partitions, "the quorum")


def _check(part: Any) -> None:
    if part.error_code:
        said = part.error_message or "refused"
        raise KafkaError(ErrorCode(part.error_code), f"describing the quorum: {said}")


@for_both
async def check_change(
    cluster: AnyCluster,
    kind: VoterCheck,
    voters: Sequence[NodeId] = (),
    directory_id: DirectoryId = ZERO_UUID,
    *,
    force: bool = False,
) -> str:
    """`check_change(cluster, VoterCheck.REMOVE, [4], directory_id)` -> what it would come to; nothing is changed.

    Raises KafkaError with the leader's reason, REQUEST_TIMED_OUT where the change would wait.
    """
    request = description_request(kind, voters, directory_id, force=force)
    data = _data(await ask_active(cluster, request))
    if data.check_error == _NOT_CHECKED:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the leader (Apache Kafka?) cannot check a change without making it; nothing was changed",
            next_step="leave --dry-run out; Apache Kafka's leader adds and removes one voter at a time",
        )
    code = ErrorCode(data.check_error)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"{data.check_message}; nothing was changed", next_step=advice(code))
    message: str = data.check_message
    return message
