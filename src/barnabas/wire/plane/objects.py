"""The same rows, made of what the decoder reads and into what the encoder writes: the way of whatever is rare."""

from __future__ import annotations

from typing import Any

from barnabas.model import Uuid
from barnabas.wire.codec.declaration import ZERO_UUID
from barnabas.wire.frame import RequestHeader
from barnabas.wire.plane.fetch_asked import TOPIC_IDS_SINCE, Asked, AskedRow, Terms
from barnabas.wire.plane.fetch_told import FetchAnswer, ToldRow
from barnabas.wire.plane.produce_asked import CLOSER, EMPTY, NO_TOPIC, PART, TOPIC, TRANSACTION, ProduceRows
from barnabas.wire.plane.produce_asked import TOPIC_IDS_SINCE as PRODUCE_IDS_SINCE
from barnabas.wire.plane.produce_asked import Terms as ProduceTerms
from barnabas.wire.plane.produce_told import Extra, ProduceAnswer
from barnabas.wire.plane.produce_told import ToldRow as ProducedRow
from barnabas.wire.records import TRANSACTIONAL
from barnabas.wire.schemas import produce
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

__all__ = ["asked_by", "produced_by", "response_of", "response_to_producer"]

_ATTRIBUTES_AT = 22
"""The low byte of a batch's attributes."""


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


def produced_by(header: RequestHeader, request: produce.ProduceRequest) -> tuple[ProduceTerms, ProduceRows]:
    """Return the rows of a request that the decoder read; nobody looked at its batches."""
    terms = ProduceTerms(header.version, request.transactional_id, request.acks, request.timeout_ms)
    found = ProduceRows()
    rows: list[tuple[bytes, int, int, memoryview]] = []
    for topic in request.topic_data:
        name = bytes(topic.topic_id) if terms.by_id else topic.name.encode()
        how = TOPIC
        for data in topic.partition_data:
            records: Any = data.records
            rows.append((name, data.index, how | CLOSER, memoryview(b"" if records is None else records)))
            how = 0
        if not topic.partition_data:
            rows.append((name, -1, TOPIC | CLOSER | EMPTY, memoryview(b"")))
    if not rows:
        nowhere = bytes(ZERO_UUID) if terms.by_id else b""
        rows.append((nowhere, NO_TOPIC, TOPIC | CLOSER | EMPTY, memoryview(b"")))
    alone = len(rows) == 1 and not rows[0][2] & EMPTY
    places: dict[tuple[bytes, int], int] = {}
    for left, (name, index, how, records) in zip(range(len(rows) - 1, -1, -1), rows, strict=True):
        how = CLOSER if alone else how | PART
        if len(records) > _ATTRIBUTES_AT and records[_ATTRIBUTES_AT] & TRANSACTIONAL:
            how |= TRANSACTION
            found.transactions += 1
        place = places.setdefault((name, index), len(places))
        found.rows.append((place, how, header.correlation_id, records, 0, -1, left))
    found.places = list(places)
    found.closer = len(rows)
    found.requests = 1
    return terms, found


def response_to_producer(version: int, answer: ProduceAnswer) -> produce.ProduceResponse:
    """Return the answer to a Produce made of objects."""
    by_id = version >= PRODUCE_IDS_SINCE
    endpoints = {
        endpoint[0]: endpoint
        for _, rows in answer.topics
        for row in rows
        if row[5] is not None
        for endpoint in row[5].endpoints
    }
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name="" if by_id else topic.decode(),
                topic_id=Uuid(topic) if by_id else ZERO_UUID,
                partition_responses=[_produced(row) for row in rows],
            )
            for topic, rows in answer.topics
        ],
        throttle_time_ms=answer.throttle_time_ms,
        node_endpoints=[
            produce.NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in endpoints.values()
        ],
    )


def _produced(row: ProducedRow) -> produce.PartitionProduceResponse:
    index, error, first, time, start, extra = row
    extra = extra or Extra()
    node, epoch = extra.leader or (-1, -1)
    return produce.PartitionProduceResponse(
        index=index,
        error_code=error,
        base_offset=first,
        log_append_time_ms=time,
        log_start_offset=start,
        error_message=extra.message,
        record_errors=[
            produce.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
            for at, why in extra.records
        ],
        current_leader=produce.LeaderIdAndEpoch(leader_id=node, leader_epoch=epoch),
    )
