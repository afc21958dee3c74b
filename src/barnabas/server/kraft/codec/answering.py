"""What other controllers and operators ask us, and our answers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, ZERO_UUID, Endpoint, NodeId, ReplicaKey
from barnabas.raft import messages as raft
from barnabas.raft.entries import SnapshotId
from barnabas.raft.voters import VersionRange
from barnabas.server.kraft.codec.exchange import exchange_asked, exchange_response_out
from barnabas.server.kraft.codec.fields import (
    NOWHERE,
    WHOLE,
    read,
    signed,
)
from barnabas.server.kraft.settings import LONGEST_CHANGE_S
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas import fetch, own, quorum

__all__ = ["request_in", "response_out"]


def request_in(message: Message, version: int, listener: str) -> raft.Request:
    """What a request of a peer or an operator says to the core.

    Raises KafkaError INVALID_REQUEST for a request about another partition.
    """
    made = _REQUESTS_IN.get(type(message))
    if made is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{message.NAME} is not for the quorum")
    request: raft.Request = read(made(message, version, listener), message)
    return request


def _partition(topics: Sequence[Any]) -> Any:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the quorum has one partition")
    topic, partition = topics[0], topics[0].partitions[0]
    name = getattr(topic, "topic_name", None) or getattr(topic, "name", None)
    index = getattr(partition, "partition_index", getattr(partition, "partition", 0))
    if name != METADATA_TOPIC or index != 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name}-{index} is not the quorum's partition")
    return partition


def _key(id_: NodeId, directory_id: Any) -> ReplicaKey | None:
    return ReplicaKey(id_, directory_id) if id_ >= 0 else None


def _endpoints(listed: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port) for e in listed)


def _vote_asked(message: quorum.VoteRequest, version: int, listener: str) -> raft.VoteRequest:
    data = _partition(message.topics)
    return raft.VoteRequest(
        data.replica_epoch,
        ReplicaKey(data.replica_id, data.replica_directory_id),
        data.last_offset_epoch,
        data.last_offset,
        data.pre_vote,
        _key(message.voter_id, data.voter_directory_id),
        message.cluster_id,
    )


def _begin_asked(
    message: quorum.BeginQuorumEpochRequest, version: int, listener: str
) -> raft.BeginQuorumEpochRequest:
    data = _partition(message.topics)
    return raft.BeginQuorumEpochRequest(
        data.leader_epoch,
        data.leader_id,
        _endpoints(message.leader_endpoints),
        _key(message.voter_id, data.voter_directory_id),
        message.cluster_id,
    )


def _end_asked(
    message: quorum.EndQuorumEpochRequest, version: int, listener: str
) -> raft.EndQuorumEpochRequest:
    data = _partition(message.topics)
    successors = [ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in data.preferred_candidates]
    if version == 0:
        successors = [ReplicaKey(id_, ZERO_UUID) for id_ in data.preferred_successors]
    return raft.EndQuorumEpochRequest(
        data.leader_epoch,
        data.leader_id,
        tuple(successors),
        _endpoints(message.leader_endpoints),
        message.cluster_id,
    )


def _fetch_asked(message: fetch.FetchRequest, version: int, listener: str) -> raft.FetchRequest:
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the quorum has one partition")
    topic = message.topics[0]
    data = topic.partitions[0]
    named = topic.topic_id == METADATA_TOPIC_ID if version >= 13 else topic.topic == METADATA_TOPIC
    if not named or data.partition != 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "this listener serves the metadata partition only")
    id_ = message.replica_state.replica_id if version >= 15 else message.replica_id
    return raft.FetchRequest(
        data.current_leader_epoch,
        ReplicaKey(id_, data.replica_directory_id),
        data.fetch_offset,
        data.last_fetched_epoch,
        data.high_watermark,
        message.max_wait_ms / 1000,
        message.max_bytes,
        message.cluster_id,
        not message.cannot_vote,
    )


def _fetch_snapshot_asked(
    message: quorum.FetchSnapshotRequest, version: int, listener: str
) -> raft.FetchSnapshotRequest:
    data = _partition(message.topics)
    return raft.FetchSnapshotRequest(
        data.current_leader_epoch,
        ReplicaKey(message.replica_id, data.replica_directory_id),
        SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        data.position,
        message.max_bytes,
        message.cluster_id,
    )


def _update_voter_asked(
    message: quorum.UpdateRaftVoterRequest, version: int, listener: str
) -> raft.UpdateVoterRequest:
    versions = message.k_raft_version_feature
    return raft.UpdateVoterRequest(
        message.current_leader_epoch,
        ReplicaKey(message.voter_id, message.voter_directory_id),
        _endpoints(message.listeners),
        VersionRange(versions.min_supported_version, versions.max_supported_version),
        message.cluster_id,
    )


def _add_voter_asked(
    message: quorum.AddRaftVoterRequest, version: int, listener: str
) -> raft.AddVoterRequest:
    wanted = message.timeout_ms / 1000 if message.timeout_ms > 0 else LONGEST_CHANGE_S
    return raft.AddVoterRequest(
        ReplicaKey(message.voter_id, message.voter_directory_id),
        _endpoints(message.listeners),
        min(wanted, LONGEST_CHANGE_S),
        message.ack_when_committed,
        message.cluster_id,
        message.force,
    )


def _remove_voter_asked(
    message: quorum.RemoveRaftVoterRequest, version: int, listener: str
) -> raft.RemoveVoterRequest:
    return raft.RemoveVoterRequest(
        ReplicaKey(message.voter_id, message.voter_directory_id), message.cluster_id, message.force
    )


_REQUESTS_IN: dict[type[Message], Callable[[Any, int, str], raft.Request]] = {
    quorum.VoteRequest: _vote_asked,
    quorum.BeginQuorumEpochRequest: _begin_asked,
    quorum.EndQuorumEpochRequest: _end_asked,
    fetch.FetchRequest: _fetch_asked,
    quorum.FetchSnapshotRequest: _fetch_snapshot_asked,
    quorum.UpdateRaftVoterRequest: _update_voter_asked,
    own.ExchangeEndpointsRequest: exchange_asked,
    quorum.AddRaftVoterRequest: _add_voter_asked,
    quorum.RemoveRaftVoterRequest: _remove_voter_asked,
}


def response_out(
    response: raft.Response, asked: Message | None, version: int, listener: str, data: bytes = b""
) -> Message:
    """The answer to `asked` in `version`.  `data`: what was read from the log or a snapshot for it."""
    return signed(_response_out(response, asked, version, listener, data), response)


def _response_out(
    response: raft.Response, asked: Message | None, version: int, listener: str, data: bytes
) -> Message:
    if isinstance(response, raft.ChangeResponse):
        kind = (
            quorum.AddRaftVoterResponse
            if isinstance(asked, quorum.AddRaftVoterRequest)
            else quorum.RemoveRaftVoterResponse
        )
        return kind(error_code=response.error, error_message=response.message)
    if isinstance(response, raft.ExchangeResponse):
        return exchange_response_out(response)
    assert not isinstance(response, raft.ProbeResponse)
    where = next((e for e in response.endpoints if e.listener == listener), None)
    if isinstance(response, raft.UpdateVoterResponse):
        leads = where if where is not None and response.leader_id != NO_NODE else NOWHERE
        leader = quorum.CurrentLeader(
            leader_id=response.leader_id, leader_epoch=response.epoch, host=leads.host, port=leads.port
        )
        return quorum.UpdateRaftVoterResponse(error_code=response.error, current_leader=leader)
    if isinstance(response, raft.FetchResponse):
        return _fetch_out(response, version, where, data)
    if isinstance(response, raft.FetchSnapshotResponse):
        return _fetch_snapshot_out(response, version, where, data)
    message, topic, partition, node = _SHAPES[type(response)]
    if response.error in WHOLE:
        whole: Message = message(error_code=response.error)
        return whole
    granted = {"vote_granted": response.granted} if isinstance(response, raft.VoteResponse) else {}
    row = partition(
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        **granted,
    )
    answer: Message = message(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[row])],
        node_endpoints=_found(node, response.leader_id, where) if version >= 1 else [],
    )
    return answer


_SHAPES: dict[type[raft.Response], tuple[Any, Any, Any, Any]] = {
    raft.VoteResponse: (
        quorum.VoteResponse,
        quorum.VoteResponseTopicData,
        quorum.VoteResponsePartitionData,
        quorum.VoteResponseNodeEndpoint,
    ),
    raft.BeginQuorumEpochResponse: (
        quorum.BeginQuorumEpochResponse,
        quorum.BeginQuorumEpochResponseTopicData,
        quorum.BeginQuorumEpochResponsePartitionData,
        quorum.BeginQuorumEpochResponseNodeEndpoint,
    ),
    raft.EndQuorumEpochResponse: (
        quorum.EndQuorumEpochResponse,
        quorum.EndQuorumEpochResponseTopicData,
        quorum.EndQuorumEpochResponsePartitionData,
        quorum.EndQuorumEpochResponseNodeEndpoint,
    ),
}


def _found(kind: Any, leader: NodeId, where: Endpoint | None, **more: Any) -> list[Any]:
    if where is None or leader == NO_NODE:
        return []
    return [kind(node_id=leader, host=where.host, port=where.port, **more)]


def _fetch_out(response: raft.FetchResponse, version: int, where: Endpoint | None, records: bytes) -> Message:
    if response.error in WHOLE:
        return fetch.FetchResponse(error_code=response.error)
    diverging, snapshot = response.diverging, response.snapshot
    since_12: dict[str, Any] = {}
    if version >= 12:
        since_12["current_leader"] = fetch.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        )
        if diverging is not None:
            since_12["diverging_epoch"] = fetch.EpochEndOffset(
                epoch=diverging.epoch, end_offset=diverging.end_offset
            )
        if snapshot is not None:
            since_12["snapshot_id"] = fetch.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
    row = fetch.PartitionData(
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start,
        records=records,
        **since_12,
    )
    topic = fetch.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[row])
    nodes = _found(fetch.NodeEndpoint, response.leader_id, where, rack=None) if version >= 16 else []
    return fetch.FetchResponse(responses=[topic], node_endpoints=nodes)


def _fetch_snapshot_out(
    response: raft.FetchSnapshotResponse, version: int, where: Endpoint | None, piece: bytes
) -> Message:
    if response.error in WHOLE:
        return quorum.FetchSnapshotResponse(error_code=response.error)
    at = response.snapshot or SnapshotId(0, 0)
    row = quorum.FetchSnapshotResponsePartitionSnapshot(
        error_code=response.error,
        snapshot_id=quorum.FetchSnapshotResponseSnapshotId(end_offset=at.end_offset, epoch=at.epoch),
        current_leader=quorum.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        size=response.size,
        position=response.position,
        unaligned_records=piece,
    )
    topic = quorum.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[row])
    nodes = _found(quorum.FetchSnapshotResponseNodeEndpoint, response.leader_id, where)
    return quorum.FetchSnapshotResponse(topics=[topic], node_endpoints=nodes if version >= 1 else [])
