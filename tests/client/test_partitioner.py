"""Keys go where Kafka's own clients send them."""

from __future__ import annotations

import pytest

from barnabas.client.producing.partitioner import StickyPartition, murmur2, partition_of_key

VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_murmur2_gives_the_published_values(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected


def test_a_key_chooses_the_same_partition_as_kafka_python() -> None:
    kafka_python = pytest.importorskip("kafka.partitioner.default")
    for number in range(500):
        key = b"key-%d" % (number * 7919)
        theirs = kafka_python.murmur2(key) & 0x7FFFFFFF
        assert partition_of_key(key, 17) == theirs % 17


def test_a_record_without_a_key_stays_until_its_batch_is_full() -> None:
    sticky = StickyPartition(lambda n: 0)
    assert [sticky.current("t", [0, 1, 2]) for _ in range(3)] == [0, 0, 0]
    sticky.batch_full("t", [0, 1, 2])
    assert sticky.current("t", [0, 1, 2]) == 1


def test_a_partition_that_lost_its_leader_is_left() -> None:
    sticky = StickyPartition(lambda n: 0)
    assert sticky.current("t", [0, 1]) == 0
    assert sticky.current("t", [1]) == 1


def test_with_a_single_partition_there_is_nothing_to_change() -> None:
    sticky = StickyPartition(lambda n: 0)
    sticky.current("t", [0])
    sticky.batch_full("t", [0])
    assert sticky.current("t", [0]) == 0
