"""Hostile record batches, well over a thousand, to a real Apache Kafka and to our node: the same answers.

To write `tests/broker/hostile_answers.json` anew from what Apache Kafka says now:

    HOSTILE_ANSWERS=write make compat ARGS="-k hostile"
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.peers import ApacheKafka
from tests.broker.hostile_batches import ANSWERS, TOPICS, hostile_batches, known_answers
from tests.compat.conftest import NodeProcess
from tests.topics import creation_of
from tools.peer import KAFKA_VERSION

from barnabas.client.blocking import BlockingConnection
from barnabas.testing.cluster import free_ports
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.compat

Answers = dict[str, dict[str, list[int]]]


@contextmanager
def kafka(folder: Path) -> Iterator[tuple[str, int]]:
    peer = ApacheKafka(folder, free_ports(2), fsync=False)
    peer.start()
    try:
        peer.wait()
        yield "127.0.0.1", peer.port
    finally:
        peer.stop()


def log_ends(connection: BlockingConnection) -> dict[str, int]:
    topics = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for name in TOPICS
    ]
    answer = connection.request(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    return {topic.name: topic.partitions[0].offset for topic in answer.topics}


def create_topics(connection: BlockingConnection) -> None:
    created = connection.request(creation_of(TOPICS))
    assert [topic.error_code for topic in created.topics] == [0] * len(TOPICS)
    deadline = time.monotonic() + 30
    while min(log_ends(connection).values()) < 0 and time.monotonic() < deadline:
        time.sleep(0.1)


def ask(host: str, port: int) -> Answers:
    """Every batch to every topic: the error code, and how far the log end moved."""
    answers: Answers = {}
    with BlockingConnection(host, port) as connection:
        create_topics(connection)
        before = log_ends(connection)
        for case in hostile_batches(int(time.time() * 1000)):
            data = [PartitionProduceData(index=0, records=case.batch)]
            topics = [TopicProduceData(name=name, partition_data=data) for name in TOPICS]
            answer = connection.request(ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=topics), 9)
            after = log_ends(connection)
            answers[case.name] = {
                topic.name: [
                    topic.partition_responses[0].error_code,
                    after[topic.name] - before[topic.name],
                ]
                for topic in answer.responses
            }
            before = after
    return answers


@pytest.mark.skipif(KAFKA_VERSION < "4.4", reason="what is written down are the answers of Kafka 4.4")
def test_apache_kafka_answers_hostile_batches_as_we_have_it_written_down(
    apache: Path, tmp_path: Path
) -> None:
    with kafka(tmp_path / "kafka") as address:
        answers = ask(*address)
    assert len(answers) * len(TOPICS) > 672
    if os.environ.get("HOSTILE_ANSWERS") == "write":
        lines = (
            f" {json.dumps(name)}: {json.dumps(answer, sort_keys=True)}" for name, answer in answers.items()
        )
        ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert answers == known_answers()


def test_a_real_node_answers_hostile_batches_as_apache_kafka_does(one_node: NodeProcess) -> None:
    host, _, port = one_node.bootstrap.rpartition(":")
    answers, known = ask(host, int(port)), known_answers()
    different = {name: (known[name], given) for name, given in answers.items() if known[name] != given}
    assert different == {}
