"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest
from tests.broker.harness import WALL, Node, batch
from tests.broker.hostile_batches import lying

from barnabas.errors import ErrorCode
from barnabas.wire.records import Record, read_batch_header, write_batch
from barnabas.wire.schemas.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def ask(
    node: Node,
    timestamp: int,
    *,
    topic: str = "t",
    index: int = 0,
    version: int = 11,
    epoch: int = -1,
    isolation: int = 0,
    replica: int = -1,
) -> ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        replica_id=replica,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
                    )
                ],
            )
        ],
    )
    answer: ListOffsetsPartitionResponse = node.ask(request, version).message.topics[0].partitions[0]
    return answer


def spread(node: Node) -> None:
    """Offsets 0 to 5 with timestamps WALL + 0, 10, 20 | 50, 40 | 30."""
    for times in ((0, 10, 20), (50, 40), (30,)):
        node.append(write_batch([Record(offset, WALL + at, None, b"v") for offset, at in enumerate(times)]))


def test_latest_is_the_high_watermark_and_earliest_the_log_start(node: Node) -> None:
    spread(node)
    node.produce(batch("not safe yet"))
    node.write()
    latest, earliest = ask(node, -1), ask(node, -2)
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (6, -1, 0)
    assert (earliest.offset, earliest.timestamp) == (0, -1)
    node.broker.partition("t", 0).delete_records(2)  # type: ignore[union-attr]
    assert ask(node, -2).offset == 2
    assert ask(node, -4).offset == 2


@pytest.mark.parametrize(
    ("after", "offset", "at"), [(-5, 0, 0), (0, 0, 0), (1, 1, 10), (20, 2, 20), (21, 3, 50), (45, 3, 50)]
)
def test_a_time_gives_the_first_record_at_or_after_it(node: Node, after: int, offset: int, at: int) -> None:
    spread(node)
    found = ask(node, WALL + after)
    assert (found.error_code, found.offset, found.timestamp) == (0, offset, WALL + at)


def test_a_time_after_all_records_gives_nothing_and_no_error(node: Node) -> None:
    spread(node)
    found = ask(node, WALL + 51)
    assert (found.error_code, found.offset, found.timestamp) == (0, -1, -1)


def test_a_time_finds_nothing_above_the_high_watermark(node: Node) -> None:
    node.append(batch("a", at=WALL))
    node.produce(batch("b", at=WALL + 5))
    node.write()
    assert ask(node, WALL + 1).offset == -1
    node.sync()
    assert ask(node, WALL + 1).offset == 1


def test_the_newest_timestamp(node: Node) -> None:
    spread(node)
    newest = ask(node, -3)
    assert (newest.offset, newest.timestamp) == (3, WALL + 50)
    node.create("empty")
    empty = ask(node, -3, topic="empty")
    assert (empty.error_code, empty.offset, empty.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_time_is_found_in_a_packed_batch_without_unpacking_what_lies_behind(node: Node, codec: int) -> None:
    records = [Record(n, WALL + n, None, bytes(900_000 if codec else 9_000)) for n in range(12)]
    node.append(write_batch(records, codec=codec))
    exact = ask(node, WALL + 2)
    assert (exact.offset, exact.timestamp) == (2, WALL + 2)
    far = ask(node, WALL + 10)
    assert far.timestamp >= WALL + 10
    assert 3 < far.offset <= 10, "too early rather than too late"
    newest = ask(node, -3)
    assert newest.timestamp == WALL + 11
    assert newest.offset <= 11


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_nothing_is_tiered(node: Node, timestamp: int) -> None:
    spread(node)
    assert (ask(node, timestamp).error_code, ask(node, timestamp).offset) == (0, -1)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_special_time_needs_its_version(node: Node, timestamp: int, since: int) -> None:
    assert ask(node, timestamp, version=since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ask(node, timestamp, version=since).error_code == ErrorCode.NONE


def test_a_time_that_nobody_defined_is_unsupported(node: Node) -> None:
    assert ask(node, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_lists(node: Node, version: int) -> None:
    spread(node)
    assert ask(node, -1, version=version).offset == 6


def test_read_committed_ends_before_an_open_transaction(node: Node) -> None:
    spread(node)
    partition = node.broker.partition("t", 0)
    assert partition is not None
    open_one = batch("x", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(open_one, read_batch_header(open_one), node.now)
    node.turn()
    assert ask(node, -1, isolation=1).offset == 6
    assert ask(node, -1, isolation=0).offset == 7


def test_the_newest_timestamp_below_an_open_transaction_is_found_by_read_committed(node: Node) -> None:
    """Apache Kafka answers -1 while the newest timestamp of all is above the last stable offset."""
    spread(node)
    partition = node.broker.partition("t", 0)
    assert partition is not None
    newest = Record(0, WALL + 90, None, b"v")
    open_one = write_batch([newest], producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(open_one, read_batch_header(open_one), node.now)
    node.turn()
    committed, uncommitted = (ask(node, -3, isolation=isolation) for isolation in (1, 0))
    assert (committed.error_code, committed.offset, committed.timestamp) == (0, 3, WALL + 50)
    assert (uncommitted.offset, uncommitted.timestamp) == (6, WALL + 90)


def test_a_partition_named_twice_is_an_invalid_request(node: Node) -> None:
    twice = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=twice)])
    answer = node.ask(request, 5).message.topics[0].partitions
    assert [one.error_code for one in answer] == [ErrorCode.INVALID_REQUEST] * 2


def test_what_is_not_here_is_an_error(node: Node) -> None:
    node.create("far", replicas=(2,), leader=2)
    assert ask(node, -1, topic="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(node, -1, index=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(node, -1, topic="far").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_epochs_are_fenced(node: Node) -> None:
    node.change("t", leader=1, leader_epoch=3)
    assert ask(node, -1, epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(node, -1, epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(node, -1, epoch=3).error_code == ErrorCode.NONE


def test_offsets_never_go_backwards_after_an_election(node: Node) -> None:
    node.create("two", replicas=(1, 2))
    node.produce(batch("a"), "two")
    node.turn()
    node.change("two", leader=1, leader_epoch=2)
    assert ask(node, -1, topic="two").error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(node, WALL, topic="two").error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(node, -2, topic="two").error_code == ErrorCode.NONE
    assert ask(node, -1, topic="two", replica=2).error_code == ErrorCode.NONE
    node.change("two", replicas=(1,), isr=(1,))
    node.turn()
    assert ask(node, -1, topic="two").offset == 1


# ---- epochs ----------------------------------------------------------------------------------------------


def ends(node: Node, epoch: int, *, current: int = -1, topic: str = "t", version: int = 4) -> EpochEndOffset:
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
                ],
            )
        ],
    )
    answer: EpochEndOffset = node.ask(request, version).message.topics[0].partitions[0]
    return answer


def test_an_epoch_ends_where_the_next_begins(node: Node) -> None:
    node.append(batch("a", "b"))
    node.change("t", leader=1, leader_epoch=3)
    node.append(batch("c"))
    node.change("t", leader=1, leader_epoch=5)
    for epoch, expected in {
        0: (0, 2),
        1: (0, 2),
        3: (3, 3),
        4: (3, 3),
        5: (5, 3),
        6: (-1, -1),
        -1: (-1, -1),
    }.items():
        found = ends(node, epoch)
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected), epoch


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_epochs_is_answered_and_fenced(node: Node, version: int) -> None:
    node.change("t", leader=1, leader_epoch=3)
    assert ends(node, 3, current=3, version=version).end_offset == 0
    assert ends(node, 3, current=2, version=version).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ends(node, 3, current=9, version=version).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ends(node, 0, topic="no", version=version).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_time_within_records_that_lie_about_their_length_gets_the_answer_of_apache_kafka(
    node: Node,
) -> None:
    node.append(write_batch([Record(0, WALL - 1000, b"k", b"v")]))
    node.append(lying(b"1", b"2", at=WALL))
    node.append(write_batch([Record(0, WALL + 1000, b"k", b"v")]))
    for at, error, offset in ((-2000, 0, 0), (-500, 87, -1), (0, 87, -1), (1, 0, 3), (500, 0, 3)):
        found = ask(node, WALL + at)
        assert (found.error_code, found.offset) == (error, offset)
    node.broker.partition("t", 0).delete_records(3)  # type: ignore[union-attr]
    node.append(lying(b"1", b"2", at=WALL + 2000))
    assert ask(node, -3).error_code == 87
