"""`barnabas transactions`, word for word, against a real node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.shell import Shell

from barnabas.client.blocking import BlockingConnection
from barnabas.testing import Cluster
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.groups import FindCoordinatorRequest
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node for this module alone: all its transactions are listed.  It verifies none, so that one can hang."""
    with Cluster(settings={"transaction.partition.verification.enable": "false"}) as cluster:
        yield cluster


def left_open(kafka: Cluster, topic: str, *, told: bool) -> int:
    """A record in a transaction that is never ended; `told`: its coordinator knows.  Returns the producer id."""
    host, _, port = kafka.bootstrap.rpartition(":")
    connection = BlockingConnection(host, int(port))
    connection.request(FindCoordinatorRequest(key_type=1, coordinator_keys=[topic]), 4)
    begin = InitProducerIdRequest(transactional_id=topic, transaction_timeout_ms=60_000)
    while (producer := connection.request(begin, 4)).error_code:
        pass
    if told:
        joined = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=topic,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        connection.request(joined, 3)
    batch = write_batch(
        [Record(0, 1_700_000_000_000, None, b"v", ())],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    produce = ProduceRequest(transactional_id=topic, acks=-1, timeout_ms=10_000, topic_data=[data])
    assert connection.request(produce, 9).responses[0].partition_responses[0].error_code == 0
    connection.close()
    found: int = producer.producer_id
    return found


def test_a_transaction_that_nobody_ends_is_found_and_aborted(shell: Shell) -> None:
    assert shell("topics create hangs") == 0
    assert shell("topics create known") == 0
    hanging = left_open(shell.kafka, "hangs", told=False)
    known = left_open(shell.kafka, "known", told=True)
    listed = shell.document("transactions list")["transactions"]
    assert [(one["id"], one["state"]) for one in listed] == [("hangs", "Empty"), ("known", "Ongoing")]
    assert [one["id"] for one in shell.document("transactions list --state Ongoing")["transactions"]] == [
        "known"
    ]
    assert shell("transactions describe known") == 0
    assert f"producer id  {known}\n" in shell.out and "partitions   known-0\n" in shell.out
    assert shell("transactions describe nobody") == 4
    assert shell("transactions list --state Nonsense") == 1

    assert shell("transactions find-hanging") == 0
    head, row = shell.out.splitlines()
    assert head.split() == ["TOPIC", "PARTITION", "OFFSET", "PRODUCER-ID", "EPOCH", "IDLE-S"]
    assert row.split()[:5] == ["hangs", "0", "0", str(hanging), "0"]
    assert shell("transactions abort known 0 0") == 1
    assert "--force" in shell.err
    assert shell("transactions abort hangs 0 7") == 1
    assert shell("transactions abort hangs 0 0") == 0
    assert shell.out == f"Aborted the transaction of producer {hanging} in hangs-0.\n"
    assert shell.document("transactions find-hanging")["hanging"] == []
