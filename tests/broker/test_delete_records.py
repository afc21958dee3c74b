"""DeleteRecords: the log starts later from now on, on every replica."""

from __future__ import annotations

import pytest
from tests.broker.harness import Answer, Node, batch
from tests.broker.replication import ALL, Replicas

from barnabas.errors import ErrorCode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.schemas.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


def ask(
    node: Node, offset: int, topic: str = "t", index: int = 0, client_id: str = "c", ms: int = 1000
) -> Answer:
    request = DeleteRecordsRequest(
        timeout_ms=ms,
        topics=[
            DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
            )
        ],
    )
    return node.ask(request, 2, client_id)


def result(answer: Answer) -> tuple[int, int]:
    one = answer.message.topics[0].partitions[0]
    return one.error_code, one.low_watermark


def fill(node: Node, topic: str = "t") -> None:
    for _ in range(5):
        node.append(batch("a"), topic, acks=1, client_id="__admin_client")


def test_records_below_the_offset_are_gone(node: Node) -> None:
    fill(node)
    assert result(ask(node, 3)) == (0, 3)
    assert node.fetch({("t", 0): 2}).fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert node.fetch({("t", 0): 3}).fetched.log_start_offset == 3
    assert result(ask(node, 1)) == (0, 3), "the log start never goes back"


def test_minus_one_means_the_high_watermark(node: Node) -> None:
    fill(node)
    assert result(ask(node, -1)) == (0, 5)


@pytest.mark.parametrize("offset", [-2, 6])
def test_beyond_the_high_watermark_is_out_of_range(node: Node, offset: int) -> None:
    fill(node)
    assert result(ask(node, offset)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_topic_that_is_only_compacted_refuses(node: Node) -> None:
    node.create("c", cleanup_policy="compact")
    node.create("both", cleanup_policy="compact,delete")
    node.create("neither", cleanup_policy="")
    assert result(ask(node, 0, "c"))[0] == ErrorCode.POLICY_VIOLATION
    assert result(ask(node, 0, "neither")) == (0, 0), "a topic that keeps everything is cut by hand"
    assert result(ask(node, 0, "both"))[0] == ErrorCode.NONE


def test_an_internal_topic_refuses_all_but_the_admin_client(node: Node) -> None:
    node.create("__consumer_offsets", cleanup_policy="delete")
    assert result(ask(node, 0, "__consumer_offsets"))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result(ask(node, 0, "__consumer_offsets", client_id="__admin_client"))[0] == ErrorCode.NONE


def test_what_is_not_here_is_an_error(node: Node) -> None:
    node.create("far", replicas=(2,), leader=2)
    assert result(ask(node, 0, "nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result(ask(node, 0, "t", 9))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result(ask(node, 0, "far"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_answer_waits_for_the_followers(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("t", replicas=(1, 2))
    fill(node)
    node.fetch({("t", 0): 5}, replica=2, log_start=0)
    node.turn()
    waiting = ask(node, 4)
    node.turn()
    assert not waiting.here
    node.fetch({("t", 0): 5}, replica=2, log_start=4)
    node.turn()
    assert result(waiting) == (0, 4)


def test_followers_that_do_not_move_in_time_are_a_timeout(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("t", replicas=(1, 2))
    fill(node)
    node.fetch({("t", 0): 5}, replica=2, log_start=0)
    node.turn()
    waiting = ask(node, 4, ms=100)
    node.after(0.2)
    assert result(waiting) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert len(node.broker.purgatory) == 0


# ---- three real replicas -----------------------------------------------------------------------------------


@pytest.fixture
def three() -> Replicas:
    replicas = Replicas()
    for value in "abcde":
        replicas.produce(value)
    replicas.settle()
    return replicas


def purge(three: Replicas, offset: int, ms: int = 60_000) -> Answer:
    answer = ask(three.nodes[1], offset, ms=ms)
    three.turn()
    return answer


def test_every_replica_moves_its_log_start_and_then_the_answer_leaves(three: Replicas) -> None:
    answer = purge(three, 3)
    assert not answer.here
    assert [three[id_].log_start_offset for id_ in ALL] == [3, 0, 0]
    for id_ in (2, 3):
        three.fetch(id_)  # is told the log start,
        three.turn()
        three.fetch(id_)  # and tells that it moved
        three.turn()
    assert result(answer) == (0, 3)
    assert [three[id_].log_start_offset for id_ in ALL] == [3, 3, 3]


def test_a_follower_that_waits_for_records_hears_of_the_log_start_at_once(three: Replicas) -> None:
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    request = follower.next_request(node.now)
    assert request is not None
    parked = three.nodes[1].ask(request, 17)
    assert not parked.here
    purge(three, 3)
    assert parked.fetched.log_start_offset == 3


def test_a_replica_that_is_dead_holds_nobody_up(three: Replicas) -> None:
    three.cut.add(3)
    answer = purge(three, 3)
    three.settle()
    assert not answer.here
    assert three[1].low_watermark == 0
    three.fence(3)
    three.turn()
    assert result(answer) == (0, 3)


def test_a_replica_that_was_dead_hears_of_it_when_it_is_back(three: Replicas) -> None:
    three.crash(3)
    three.fence(3)
    answer = purge(three, 4)
    three.settle()
    assert result(answer) == (0, 4)
    three.restart(3)
    three.settle()
    assert three[3].log_start_offset == 4
    assert three[1].low_watermark == 4


def test_a_live_replica_that_does_not_move_is_a_timeout(three: Replicas) -> None:
    three.cut.add(3)
    answer = purge(three, 3, ms=1000)
    three.settle(2)
    assert not answer.here
    three.nodes[1].after(2.0)
    assert result(answer) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert three[1].log_start_offset == 3, "the leader's records are gone all the same"


def test_a_leader_that_goes_meanwhile_says_so(three: Replicas) -> None:
    three.cut.add(3)
    answer = purge(three, 3)
    three.put(leader=2)
    three.turn()
    assert result(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_records_deleted_up_to_what_a_follower_has_not_yet_reached_begin_there(three: Replicas) -> None:
    three.cut.add(3)
    three.produce("f")
    three.settle()
    three.after(11)
    three.settle()
    assert 3 not in three.state.isr
    three.produce("g", "h")
    three.settle()
    purge(three, 7)
    three[1].log.roll(three.nodes[1].now)
    three[1].log.retain(three.nodes[1].now)
    three.cut.clear()
    three.settle(20)
    assert three[3].log_start_offset == 7
    assert set(three.state.isr) == {1, 2, 3}
