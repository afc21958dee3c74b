"""The same rows, made of what the decoder reads and into what the encoder writes: the way of whatever is rare."""

from __future__ import annotations

from typing import Any

from barnabas.model import Uuid
from barnabas.wire.frame import RequestHeader
from barnabas.wire.plane.fetch_asked import TOPIC_IDS_SINCE, Asked, AskedRow, Terms
from barnabas.wire.plane.fetch_told import FetchAnswer, ToldRow
from barnabas.wire.schemas.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

__all__ = ["asked_by", "response_of"]


def asked_by(header: RequestHeader, request: FetchRequest) -> tuple[Terms, Asked]:
    """Return the rows of a request that the decoder read."""
    version = header.version
    by_id = version >= TOPIC_IDS_SINCE
    state = request.replica_state
    terms = Terms(
        version,
        *((state.replica_id, state.replica_epoch) if version >= 15 else (request.replica_id, -1)),
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.rack_id,
    )
    rows: list[AskedRow] = [
        (
            bytes(topic.topic_id) if by_id else topic.topic.encode(),
            row.partition,
            row.current_leader_epoch,
            row.fetch_offset,
            row.last_fetched_epoch,
            row.log_start_offset,
            row.partition_max_bytes,
        )
        for topic in request.topics
        for row in topic.partitions
    ]
    forgotten = [
        (bytes(topic.topic_id) if by_id else topic.topic.encode(), index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return terms, Asked(header.correlation_id, request.session_epoch, rows, forgotten)


def response_of(version: int, answer: FetchAnswer) -> FetchResponse:
    """Return the answer made of objects."""
    by_id = version >= TOPIC_IDS_SINCE
    return FetchResponse(
        throttle_time_ms=answer.throttle_time_ms,
        error_code=answer.error,
        session_id=answer.session_id,
        responses=[
            FetchableTopicResponse(topic_id=Uuid(topic), partitions=[_data(row) for row in rows])
            if by_id
            else FetchableTopicResponse(topic=topic.decode(), partitions=[_data(row) for row in rows])
            for topic, rows in answer.topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in answer.endpoints
        ],
    )


def _data(row: ToldRow) -> PartitionData:
    index, error, high_watermark, stable, start, aborted, replica, records, extra = row
    rare: dict[str, Any] = {}
    if extra is not None and extra.diverging is not None:
        epoch, end = extra.diverging
        rare["diverging_epoch"] = EpochEndOffset(epoch=epoch, end_offset=end)
    if extra is not None and extra.leader is not None:
        leader, epoch = extra.leader
        rare["current_leader"] = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=None
        if aborted is None
        else [AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted],
        preferred_read_replica=replica,
        records=records,
        **rare,
    )
