"""How long a fetch waits for `fetch.min.bytes`: as long as at a real Apache Kafka, with limits in its way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.side_by_side.pair import pair_of_nodes
from tests.compat.side_by_side.side import Side

from barnabas.wire.records import Record, batches, write_batch
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

pytestmark = pytest.mark.compat

WAIT_S = 3.0
SEGMENT = 1 << 20
SMALL, LARGE = 40, 400_000


def batch(value_bytes: int) -> bytes:
    """One record with a value of so many bytes."""
    return bytes(write_batch([Record(0, 1_760_000_000_000, None, b"x" * value_bytes)]))


SIZE = len(batch(SMALL))


@pytest.fixture(scope="module")
def sides(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(ours, theirs)."""
    with pair_of_nodes(tmp_path_factory.mktemp("sides"), apache) as both:
        for side in both:
            side.create(["limits"])
            segment = CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT))
            topic = CreatableTopic(name="sealed", num_partitions=1, replication_factor=1, configs=[segment])
            side.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
            for _ in range(5):
                produce(side, "limits", 0, SMALL)
                produce(side, "sealed", 0, LARGE)
            produce(side, "limits", 1, SMALL)
            produce(side, "limits", 1, SMALL)
        yield both


def produce(side: Side, topic: str, index: int, value_bytes: int) -> None:
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=index, records=batch(value_bytes))]
    )
    request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[data])
    deadline = time.monotonic() + 20
    while side.ask(request, 9).responses[0].partition_responses[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def waits(
    side: Side, topic: str, positions: dict[int, int], least: int, limit: int, most: int = 1 << 24
) -> tuple[bool, int]:
    """Whether a fetch waits its full time, and how many whole batches it gets."""
    begun = time.monotonic()
    places = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit)
        for index, offset in positions.items()
    ]
    request = FetchRequest(
        max_wait_ms=int(WAIT_S * 1000),
        min_bytes=least,
        max_bytes=most,
        topics=[FetchTopic(topic=topic, partitions=places)],
    )
    answer = side.ask(request, 12)
    whole = 0
    for one in answer.responses[0].partitions:
        assert one.error_code == 0
        records = bytes(one.records or b"")
        whole += sum(position + header.size <= len(records) for position, header in batches(records))
    return time.monotonic() - begun > WAIT_S - 0.5, whole


@pytest.mark.parametrize(
    ("topic", "positions", "least", "limit", "most", "expected"),
    [
        pytest.param("limits", {0: 0}, 3 * SIZE - 1, 3 * SIZE - 1, 1 << 24, (False, 2), id="partition limit"),
        pytest.param("limits", {0: 0}, 3 * SIZE - 1, 1 << 20, 3 * SIZE - 1, (False, 2), id="limit"),
        pytest.param(
            "limits", {0: 0}, 2 * SIZE + 1, 2 * SIZE, 1 << 24, (True, 2), id="limit below the least"
        ),
        pytest.param("limits", {0: 0, 1: 0}, 2 * SIZE + 2, SIZE + 1, 1 << 24, (False, 2), id="two limits"),
        pytest.param(
            "limits", {0: 0, 1: 1}, 2 * SIZE + 2, SIZE + 1, 1 << 24, (True, 2), id="one of two limits"
        ),
        pytest.param("limits", {0: 3}, 2 * SIZE + 1, 1 << 20, 1 << 24, (True, 2), id="too little"),
        pytest.param("sealed", {0: 0}, 4 * LARGE, 1 << 24, 1 << 24, (False, 2), id="a sealed segment"),
        pytest.param("sealed", {0: 1}, 4 * LARGE, 1 << 24, 1 << 24, (False, 1), id="its last batch"),
        pytest.param("sealed", {0: 4}, 4 * LARGE, 1 << 24, 1 << 24, (True, 1), id="the active segment"),
    ],
)
def test_a_fetch_waits_where_one_at_apache_kafka_does(
    sides: tuple[Side, Side],
    topic: str,
    positions: dict[int, int],
    least: int,
    limit: int,
    most: int,
    expected: tuple[bool, int],
) -> None:
    ours, theirs = sides
    assert waits(theirs, topic, positions, least, limit, most) == expected
    assert waits(ours, topic, positions, least, limit, most) == expected
