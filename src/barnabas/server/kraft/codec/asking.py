"""What we ask other controllers, and what their answers say to the core."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.results import finished
from barnabas.model import METADATA_TOPIC, METADATA_TOPIC_ID, Endpoint, NodeId
from barnabas.raft import messages as raft
from barnabas.raft.entries import EpochEnd, SnapshotId
from barnabas.raft.voters import VersionRange
from barnabas.server.kraft.codec.exchange import exchange_in, exchange_out
from barnabas.server.kraft.codec.fields import (
    KRAFT_VERSION,
    NOBODY,
    code_of,
    read,
    signed,
)
from barnabas.server.kraft.transfer import take_in_steps
from barnabas.version import __version__
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas import cluster, fetch, own, quorum

__all__ = ["request_out", "response_in", "response_in_steps"]


def request_out(request: raft.Request, version_of: Callable[[type[Message]], int]) -> tuple[Message, int]:
    """The message for a request of the core, and its version: the highest that both sides know.

    Raises KafkaError UNSUPPORTED_VERSION when what is to be said has no place in that version.
    """
    kind, make = _OUT[type(request)]
    version = version_of(kind)
    return signed(make(request, version), request), version


def _vote(request: raft.VoteRequest, version: int) -> Message:
    if request.pre_vote and version < 2:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "that node does not know pre-votes (KIP-996)")
    addressee = request.voter or NOBODY
    partition = quorum.VoteRequestPartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=addressee.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    return quorum.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=addressee.id,
        topics=[quorum.VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _begin(request: raft.BeginQuorumEpochRequest, version: int) -> Message:
    addressee = request.voter or NOBODY
    partition = quorum.BeginQuorumEpochRequestPartitionData(
        voter_directory_id=addressee.directory_id, leader_id=request.leader_id, leader_epoch=request.epoch
    )
    return quorum.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=addressee.id,
        topics=[quorum.BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listed(quorum.BeginQuorumEpochRequestLeaderEndpoint, request.endpoints),
    )


def _end(request: raft.EndQuorumEpochRequest, version: int) -> Message:
    partition = quorum.EndQuorumEpochRequestPartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.id for key in request.successors] if version == 0 else [],
        preferred_candidates=[
            quorum.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    return quorum.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[quorum.EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listed(quorum.EndQuorumEpochRequestLeaderEndpoint, request.endpoints),
    )


def _fetch(request: raft.FetchRequest, version: int) -> Message:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    topic = fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    replica: dict[str, Any] = {"replica_id": request.replica.id}
    if version >= 15:
        replica = {"replica_state": fetch.ReplicaState(replica_id=request.replica.id)}
    return fetch.FetchRequest(
        cluster_id=request.cluster_id,
        max_wait_ms=round(request.max_wait * 1000),
        max_bytes=request.max_bytes,
        topics=[topic],
        cannot_vote=not request.can_vote,
        **replica,
    )


def _fetch_snapshot(request: raft.FetchSnapshotRequest, version: int) -> Message:
    partition = quorum.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=quorum.FetchSnapshotRequestSnapshotId(
            end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return quorum.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[quorum.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def _update_voter(request: raft.UpdateVoterRequest, version: int) -> Message:
    return quorum.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=_listed(quorum.UpdateRaftVoterRequestListener, request.endpoints),
        k_raft_version_feature=quorum.KRaftVersionFeature(
            min_supported_version=request.versions.min, max_supported_version=request.versions.max
        ),
    )


def _add_voter(request: raft.AddVoterRequest, version: int) -> Message:
    since_1: dict[str, Any] = {"ack_when_committed": request.ack_when_committed} if version >= 1 else {}
    return quorum.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=round(request.timeout * 1000),
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=_listed(quorum.AddRaftVoterRequestListener, request.endpoints),
        force=request.force,
        **since_1,
    )


def _remove_voter(request: raft.RemoveVoterRequest, version: int) -> Message:
    return quorum.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        force=request.force,
    )


def _probe(request: raft.ProbeRequest, version: int) -> Message:
    return cluster.ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)


def _listed(kind: Any, endpoints: Iterable[Endpoint]) -> list[Any]:
    return [kind(name=e.listener, host=e.host, port=e.port) for e in endpoints]


_OUT: dict[type[raft.Request], tuple[type[Message], Callable[[Any, int], Message]]] = {
    raft.VoteRequest: (quorum.VoteRequest, _vote),
    raft.BeginQuorumEpochRequest: (quorum.BeginQuorumEpochRequest, _begin),
    raft.EndQuorumEpochRequest: (quorum.EndQuorumEpochRequest, _end),
    raft.FetchRequest: (fetch.FetchRequest, _fetch),
    raft.FetchSnapshotRequest: (quorum.FetchSnapshotRequest, _fetch_snapshot),
    raft.UpdateVoterRequest: (quorum.UpdateRaftVoterRequest, _update_voter),
    raft.AddVoterRequest: (quorum.AddRaftVoterRequest, _add_voter),
    raft.RemoveVoterRequest: (quorum.RemoveRaftVoterRequest, _remove_voter),
    raft.ProbeRequest: (cluster.ApiVersionsRequest, _probe),
    raft.ExchangeRequest: (own.ExchangeEndpointsRequest, exchange_out),
}


def response_in(message: Message, listener: str) -> raft.Response:
    """What an answer says to the core.  `listener`: that of the endpoints it names.

    Raises KafkaError when the request was refused as a whole (nothing is said about epoch and leader
    then), CorruptRecordError or WireError for records that cannot be read.
    """
    return finished(response_in_steps(message, listener))


def response_in_steps(message: Message, listener: str) -> Generator[None, None, raft.Response]:
    """The same; records are read one a step."""
    made = _RESPONSES_IN.get(type(message))
    if made is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{message.NAME} is no answer of a controller")
    said = made(message, listener)
    if isinstance(said, Generator):
        said = yield from said
    response: raft.Response = read(said, message)
    return response


def _whole(message: Any) -> None:
    """Raise the error of the whole answer, if it has one."""
    if message.error_code:
        raise KafkaError(code_of(message.error_code))


def _only(topics: Sequence[Any]) -> Any:
    """The one partition of an answer."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the answer is not about the metadata partition")
    return topics[0].partitions[0]


def _at(nodes: Iterable[Any], leader: NodeId, listener: str) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(listener, n.host, n.port) for n in nodes if n.node_id == leader and n.port > 0)


def _vote_in(message: quorum.VoteResponse, listener: str) -> raft.VoteResponse:
    _whole(message)
    data = _only(message.topics)
    where = _at(message.node_endpoints, data.leader_id, listener)
    return raft.VoteResponse(
        code_of(data.error_code), data.leader_epoch, data.leader_id, data.vote_granted, where
    )


def _begin_in(message: quorum.BeginQuorumEpochResponse, listener: str) -> raft.BeginQuorumEpochResponse:
    _whole(message)
    data = _only(message.topics)
    where = _at(message.node_endpoints, data.leader_id, listener)
    return raft.BeginQuorumEpochResponse(code_of(data.error_code), data.leader_epoch, data.leader_id, where)


def _end_in(message: quorum.EndQuorumEpochResponse, listener: str) -> raft.EndQuorumEpochResponse:
    _whole(message)
    data = _only(message.topics)
    where = _at(message.node_endpoints, data.leader_id, listener)
    return raft.EndQuorumEpochResponse(code_of(data.error_code), data.leader_epoch, data.leader_id, where)


def _fetch_in(message: fetch.FetchResponse, listener: str) -> Generator[None, None, raft.FetchResponse]:
    _whole(message)
    data = _only(message.responses)
    leader = data.current_leader
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    batches = (yield from take_in_steps(data.records)) if data.records else ()
    return raft.FetchResponse(
        code_of(data.error_code),
        leader.leader_epoch,
        leader.leader_id,
        _at(message.node_endpoints, leader.leader_id, listener),
        data.high_watermark,
        data.log_start_offset,
        EpochEnd(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 else None,
        batches=batches,
    )


def _fetch_snapshot_in(message: quorum.FetchSnapshotResponse, listener: str) -> raft.FetchSnapshotResponse:
    _whole(message)
    data = _only(message.topics)
    leader = data.current_leader
    piece = bytes(data.unaligned_records)
    return raft.FetchSnapshotResponse(
        code_of(data.error_code),
        leader.leader_epoch,
        leader.leader_id,
        _at(message.node_endpoints, leader.leader_id, listener),
        SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        data.size,
        data.position,
        data=piece,
        length=len(piece),
    )


def _update_voter_in(message: quorum.UpdateRaftVoterResponse, listener: str) -> raft.UpdateVoterResponse:
    leader = message.current_leader
    if leader.leader_epoch < 0:
        _whole(message)
    where = (Endpoint(listener, leader.host, leader.port),) if leader.port > 0 else ()
    return raft.UpdateVoterResponse(code_of(message.error_code), leader.leader_epoch, leader.leader_id, where)


def _change_in(
    message: quorum.AddRaftVoterResponse | quorum.RemoveRaftVoterResponse, listener: str
) -> raft.ChangeResponse:
    return raft.ChangeResponse(code_of(message.error_code), message.error_message)


def _probe_in(message: cluster.ApiVersionsResponse, listener: str) -> raft.ProbeResponse:
    features = {f.name: (f.min_version, f.max_version) for f in message.supported_features}
    kraft = features.pop(KRAFT_VERSION, None)
    return raft.ProbeResponse(
        code_of(message.error_code),
        None if kraft is None else VersionRange(*kraft),
        tuple((name, low, high) for name, (low, high) in features.items()),
    )


_RESPONSES_IN: dict[
    type[Message], Callable[[Any, str], raft.Response | Generator[None, None, raft.Response]]
] = {
    quorum.VoteResponse: _vote_in,
    quorum.BeginQuorumEpochResponse: _begin_in,
    quorum.EndQuorumEpochResponse: _end_in,
    fetch.FetchResponse: _fetch_in,
    quorum.FetchSnapshotResponse: _fetch_snapshot_in,
    quorum.UpdateRaftVoterResponse: _update_voter_in,
    quorum.AddRaftVoterResponse: _change_in,
    quorum.RemoveRaftVoterResponse: _change_in,
    cluster.ApiVersionsResponse: _probe_in,
    own.ExchangeEndpointsResponse: exchange_in,
}
