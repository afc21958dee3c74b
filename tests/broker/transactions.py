"""Short ways to write transactions to a broker of a test, as a producer and its coordinator would."""

from __future__ import annotations

from typing import Any

from tests.broker.harness import Answer, Node, batch

from barnabas.errors import ErrorCode
from barnabas.wire.schemas.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def txn_batch(*values: str, producer: int = 7, epoch: int = 0, sequence: int = 0) -> bytearray:
    """A batch of a transaction."""
    return batch(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def send(node: Node, *values: str, topic: str = "t", index: int = 0, version: int = 12, **who: int) -> Answer:
    """Produce a batch of a transaction; the coordinator is still to be asked if it is the first."""
    return node.produce(
        txn_batch(*values, **who), topic, index=index, version=version, transactional_id="payments"
    )


def verify(node: Node, error: ErrorCode = ErrorCode.NONE) -> None:
    """The coordinator answers all that it was asked."""
    questions, node.outside.questions = node.outside.questions, []
    for question in questions:
        node.broker.verifications.answered(question, error, node.now)
    node.turn()


def write(node: Node, *values: str, **more: Any) -> Answer:
    """Produce a batch of a transaction, verified."""
    answer = send(node, *values, **more)
    verify(node)
    return answer


def ask_to_end(
    node: Node,
    *places: tuple[str, int],
    producer: int = 7,
    epoch: int = 0,
    commit: bool = True,
    coordinator: int = 0,
    txn_version: int = 0,
    version: int = 2,
) -> Answer:
    """WriteTxnMarkers for these partitions (`t`-0 unless they are named)."""
    topics: dict[str, list[int]] = {}
    for topic, index in places or (("t", 0),):
        topics.setdefault(topic, []).append(index)
    marker = WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
        coordinator_epoch=coordinator,
        transaction_version=txn_version,
    )
    return node.ask(WriteTxnMarkersRequest(markers=[marker]), version)


def ended(answer: Answer) -> dict[tuple[int, str, int], ErrorCode]:
    """The results of WriteTxnMarkers by producer, topic and partition."""
    return {
        (marker.producer_id, topic.name, one.partition_index): ErrorCode(one.error_code)
        for marker in answer.message.markers
        for topic in marker.topics
        for one in topic.partitions
    }


def end(node: Node, *places: tuple[str, int], **more: Any) -> ErrorCode:
    """WriteTxnMarkers, and let it be safe; returns the result of the first partition."""
    answer = ask_to_end(node, *places, **more)
    node.turn()
    return next(iter(ended(answer).values()))
