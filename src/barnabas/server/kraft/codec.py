"""What controllers say to each other, as Kafka's messages, both ways; the only place that knows.

The core (raft/) speaks in requests and responses of its own; the network in Vote, BeginQuorumEpoch,
EndQuorumEpoch, Fetch, FetchSnapshot, Add/Remove/UpdateRaftVoter and ApiVersions.  Four directions:
`request_out` and `response_in` for whom we ask, `request_in` and `response_out` for who asks us.

All of them are about one partition, `__cluster_metadata`-0; a request about another one is refused as a
whole (INVALID_REQUEST).  A field that an old version lacks is simply not said.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.results import finished
from barnabas.model import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, ZERO_UUID, Endpoint, NodeId, ReplicaKey
from barnabas.raft import messages as raft
from barnabas.raft.entries import EpochEnd, SnapshotId
from barnabas.raft.membership.generation import UNKNOWN
from barnabas.raft.value import altered
from barnabas.raft.voters import VersionRange
from barnabas.server.kraft.transfer import take_in_steps
from barnabas.version import __version__
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas import cluster, fetch, quorum

__all__ = ["KRAFT_VERSION", "request_in", "request_out", "response_in", "response_in_steps", "response_out"]

KRAFT_VERSION = "kraft.version"
LONGEST_CHANGE = 20.0
"""Seconds a wish to change the voters may wait here: less than clients wait for one answer (30 s)."""
_WHOLE = frozenset({ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
"""Errors that concern the request as a whole, not the partition."""
NOBODY = ReplicaKey(NO_NODE, ZERO_UUID)
_NOWHERE = Endpoint("", "", 0)


def code_of(number: int) -> ErrorCode:
    """The error with that number; UNKNOWN_SERVER_ERROR for one we do not know."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


# ------------------------------------------------------------------ asking others


def request_out(request: raft.Request, version_of: Callable[[type[Message]], int]) -> tuple[Message, int]:
    """The message for a request of the core, and its version: the highest that both sides know.

    Raises KafkaError UNSUPPORTED_VERSION when what is to be said has no place in that version.
    """
    kind, make = _OUT[type(request)]
    version = version_of(kind)
    return _signed(make(request, version), request), version


def _signed(message: Message, said: raft.Request | raft.Response) -> Message:
    """With our quorum's origin, and the newest generation of it that we know of.

    The first generation is said only where it may be over.
    """
    number, origin = getattr(said, "generation", UNKNOWN), getattr(said, "origin", ZERO_UUID)
    if number > 0 or isinstance(said, _CLAIMS):
        return replace(message, incarnation=number, origin=origin)
    return replace(message, origin=origin) if origin != ZERO_UUID else message


def _read(said: Any, message: Any) -> Any:
    """With the other's origin, and the generation it knows of; UNKNOWN where it should have said and did not."""
    number, origin = getattr(message, "incarnation", UNKNOWN), getattr(message, "origin", ZERO_UUID)
    if number >= 0 or isinstance(said, _CLAIMS):
        return altered(said, generation=number, origin=origin)
    return altered(said, origin=origin) if origin != ZERO_UUID else said


_CLAIMS = (raft.VoteRequest, raft.BeginQuorumEpochRequest, raft.EndQuorumEpochRequest)


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
        **since_1,
    )


def _remove_voter(request: raft.RemoveVoterRequest, version: int) -> Message:
    return quorum.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
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
}


# ------------------------------------------------------------------ hearing their answers


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
    response: raft.Response = _read(said, message)
    return response


def _whole(message: Any) -> None:
    """Raise the error of the whole answer, if it has one."""
    if message.error_code:
        raise KafkaError(code_of(message.error_code), f"the whole {message.NAME} was refused")


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
    for feature in message.supported_features:
        if feature.name == KRAFT_VERSION:
            versions = VersionRange(feature.min_version, feature.max_version)
            return raft.ProbeResponse(code_of(message.error_code), versions)
    return raft.ProbeResponse(code_of(message.error_code))


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
}


# ------------------------------------------------------------------ being asked


def request_in(message: Message, version: int, listener: str) -> raft.Request:
    """What a request of a peer or an operator says to the core.

    Raises KafkaError INVALID_REQUEST for a request about another partition.
    """
    made = _REQUESTS_IN.get(type(message))
    if made is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{message.NAME} is not for the quorum")
    request: raft.Request = _read(made(message, version, listener), message)
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
    wanted = message.timeout_ms / 1000 if message.timeout_ms > 0 else LONGEST_CHANGE
    return raft.AddVoterRequest(
        ReplicaKey(message.voter_id, message.voter_directory_id),
        _endpoints(message.listeners),
        min(wanted, LONGEST_CHANGE),
        message.ack_when_committed,
        message.cluster_id,
    )


def _remove_voter_asked(
    message: quorum.RemoveRaftVoterRequest, version: int, listener: str
) -> raft.RemoveVoterRequest:
    return raft.RemoveVoterRequest(
        ReplicaKey(message.voter_id, message.voter_directory_id), message.cluster_id
    )


_REQUESTS_IN: dict[type[Message], Callable[[Any, int, str], raft.Request]] = {
    quorum.VoteRequest: _vote_asked,
    quorum.BeginQuorumEpochRequest: _begin_asked,
    quorum.EndQuorumEpochRequest: _end_asked,
    fetch.FetchRequest: _fetch_asked,
    quorum.FetchSnapshotRequest: _fetch_snapshot_asked,
    quorum.UpdateRaftVoterRequest: _update_voter_asked,
    quorum.AddRaftVoterRequest: _add_voter_asked,
    quorum.RemoveRaftVoterRequest: _remove_voter_asked,
}


# ------------------------------------------------------------------ answering


def response_out(
    response: raft.Response, asked: Message, version: int, listener: str, data: bytes = b""
) -> Message:
    """The answer to `asked` in `version`.  `data`: what was read from the log or a snapshot for it."""
    return _signed(_response_out(response, asked, version, listener, data), response)


def _response_out(
    response: raft.Response, asked: Message, version: int, listener: str, data: bytes
) -> Message:
    if isinstance(response, raft.ChangeResponse):
        kind = (
            quorum.AddRaftVoterResponse
            if isinstance(asked, quorum.AddRaftVoterRequest)
            else quorum.RemoveRaftVoterResponse
        )
        return kind(error_code=response.error, error_message=response.message)
    assert not isinstance(response, raft.ProbeResponse)
    where = next((e for e in response.endpoints if e.listener == listener), None)
    if isinstance(response, raft.UpdateVoterResponse):
        leads = where if where is not None and response.leader_id != NO_NODE else _NOWHERE
        leader = quorum.CurrentLeader(
            leader_id=response.leader_id, leader_epoch=response.epoch, host=leads.host, port=leads.port
        )
        return quorum.UpdateRaftVoterResponse(error_code=response.error, current_leader=leader)
    if isinstance(response, raft.FetchResponse):
        return _fetch_out(response, version, where, data)
    if isinstance(response, raft.FetchSnapshotResponse):
        return _fetch_snapshot_out(response, version, where, data)
    message, topic, partition, node = _SHAPES[type(response)]
    if response.error in _WHOLE:
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
    if response.error in _WHOLE:
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
    if response.error in _WHOLE:
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
