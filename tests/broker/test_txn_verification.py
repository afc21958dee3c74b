"""KIP-890: the first batch of a transaction waits until its coordinator says that the partition belongs to it."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.transactions import end, send, txn_batch, verify, write

from barnabas.broker.ports import Operation, RequestContext, ResourceType
from barnabas.errors import ErrorCode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches
from barnabas.wire.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


def log_end(node: Node, topic: str = "t") -> int:
    partition = node.broker.partition(topic, 0)
    assert partition is not None
    return partition.log.log_end_offset


@pytest.mark.parametrize(("version", "add"), [(3, False), (11, False), (12, True), (13, True)])
def test_the_first_batch_waits_for_the_coordinator(node: Node, version: int, add: bool) -> None:
    answer = send(node, "a", version=version)
    node.turn()
    (question,) = node.outside.questions
    assert question[:5] == ("payments", 7, 0, "t", 0) and question.add is add
    assert not answer.here and log_end(node) == 0 and node.outside.bytes_held > 0
    verify(node)
    assert (answer.error, answer.produced.base_offset) == (ErrorCode.NONE, 0)
    assert node.outside.bytes_held == 0


def test_the_next_batches_of_an_open_transaction_are_not_asked_about(node: Node) -> None:
    write(node, "a")
    answer = send(node, "b", sequence=1)
    node.turn()
    assert node.outside.questions == [] and answer.produced.base_offset == 1
    end(node)
    send(node, "c", sequence=2)
    assert len(node.outside.questions) == 1, "another transaction begins"


def test_batches_that_come_meanwhile_wait_in_line_and_share_the_question(node: Node) -> None:
    answers = [send(node, str(number), sequence=number) for number in range(5)]
    other = node.append(batch("of somebody else"))
    assert other.base_offset == 0
    assert len(node.outside.questions) == 1
    verify(node)
    assert [answer.produced.base_offset for answer in answers] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("said", "version", "heard"),
    [
        (ErrorCode.INVALID_TXN_STATE, 11, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_coordinator_says_is_told_as_apache_kafka_tells_it(
    node: Node, said: ErrorCode, version: int, heard: ErrorCode
) -> None:
    answer = send(node, "a", version=version)
    verify(node, said)
    assert answer.error is heard and log_end(node) == 0


def test_while_the_last_transaction_is_being_completed_the_leader_asks_again_for_a_moment(node: Node) -> None:
    answer = send(node, "a", version=12)
    for _ in range(3):
        verify(node, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert node.outside.questions == [] and not answer.here
        node.after(0.021)
        assert len(node.outside.questions) == 1
    node.after(0.1)
    verify(node, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert answer.error is ErrorCode.CONCURRENT_TRANSACTIONS


def test_the_marker_that_the_leader_waited_for_does_not_make_the_next_answer_void(node: Node) -> None:
    write(node, "a", version=12)
    first = send(node, "b", epoch=1, version=12)
    verify(node, ErrorCode.CONCURRENT_TRANSACTIONS)
    end(node, epoch=1, txn_version=2)
    second = send(node, "c", epoch=1, sequence=1, version=12)
    assert node.outside.questions == []
    node.after(0.021)
    verify(node)
    assert (first.produced.base_offset, second.produced.base_offset) == (2, 3)


def test_nor_does_one_that_comes_while_the_question_is_on_its_way(node: Node) -> None:
    write(node, "a", epoch=3)
    answer = send(node, "b", epoch=4)
    assert end(node, epoch=4, txn_version=2) is ErrorCode.NONE
    verify(node)
    assert answer.produced.base_offset == 2
    late = send(node, "late", epoch=3, sequence=1)
    verify(node)
    assert late.error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_that_comes_between_makes_the_answer_void(node: Node) -> None:
    late = send(node, "late", version=11)
    assert end(node, commit=False) is ErrorCode.NONE
    verify(node)
    assert late.error is ErrorCode.INVALID_TXN_STATE
    assert node.fetch(isolation=1).fetched.last_stable_offset == 1, "it opened nothing"


def test_an_answer_from_before_a_marker_does_not_count_for_what_came_after_it(node: Node) -> None:
    first = send(node, "late", version=11)
    (old,) = node.outside.questions
    end(node, commit=False)
    second = send(node, "later", version=11)
    assert first.error is ErrorCode.NOT_ENOUGH_REPLICAS, "asked anew, and told to send again"
    node.broker.verifications.answered(old, ErrorCode.NONE, node.now)
    assert not second.here
    node.outside.questions = node.outside.questions[1:]
    verify(node, ErrorCode.INVALID_TXN_STATE)
    assert second.error is ErrorCode.INVALID_TXN_STATE


def test_a_newer_epoch_overtakes_the_question_about_an_older_one(node: Node) -> None:
    old = send(node, "old", epoch=1)
    new = send(node, "new", epoch=2)
    older = send(node, "older", epoch=0)
    assert old.error is older.error is ErrorCode.INVALID_PRODUCER_EPOCH
    verify(node)
    assert new.error is ErrorCode.NONE


def test_who_is_fenced_by_the_log_is_refused_before_anybody_is_asked(node: Node) -> None:
    """So the partition does not become one of the transaction's (recorded from Apache Kafka 4.3.1)."""
    node.append(batch("newer", producer_id=7, producer_epoch=1, base_sequence=0))
    old = send(node, "old", epoch=0)
    assert old.error is ErrorCode.INVALID_PRODUCER_EPOCH and node.outside.questions == []
    assert old.produced.log_start_offset == -1 and node.outside.bytes_held == 0


def test_without_verification_only_producers_of_version_2_are_asked_about(disk: MemoryDisk) -> None:
    node = Node(disk, transaction_partition_verification_enable="false")
    node.create("t")
    answer = send(node, "a", version=11)
    node.turn()
    assert answer.error is ErrorCode.NONE and node.outside.questions == []
    send(node, "a", producer=8, version=12)
    assert len(node.outside.questions) == 1


def test_a_batch_whose_records_a_thread_checks_is_verified_first_and_keeps_its_place(node: Node) -> None:
    large = send(node, *["x" * 20] * 9000)
    small = send(node, "small", sequence=9000)
    assert log_end(node) == 0 and len(node.outside.questions) == 1
    verify(node)
    assert (large.produced.base_offset, small.produced.base_offset) == (0, 9000)


def test_a_request_that_does_not_wait_as_long_is_told_that_its_time_is_up(node: Node) -> None:
    answer = send(node, "a")
    node.after(1.1)
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT
    verify(node)
    assert log_end(node) == 1, "as with any append nobody waits for"


def test_transactional_records_need_a_transactional_id_one_may_use(node: Node, disk: MemoryDisk) -> None:
    nameless = node.produce(txn_batch("a"))
    assert nameless.error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    class NoTransactions:
        generation = 0

        def authorize(
            self,
            context: RequestContext,
            operation: Operation,
            resource: ResourceType,
            name: str,
            *,
            asked: bool = True,
        ) -> bool:
            return resource is not ResourceType.TRANSACTIONAL_ID

        def authorize_any(
            self, context: RequestContext, operation: Operation, resource: ResourceType
        ) -> bool:
            return True

    node.broker.authorizer = NoTransactions()
    assert send(node, "a").error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_request_with_batches_of_two_transactional_producers_is_refused(node: Node) -> None:
    node.create("two", 2)
    request = ProduceRequest(
        transactional_id="payments",
        acks=-1,
        topic_data=[
            TopicProduceData(
                name="two",
                partition_data=[
                    PartitionProduceData(index=index, records=txn_batch("a", producer=index))
                    for index in (0, 1)
                ],
            )
        ],
    )
    answer = node.ask(request, 11).message
    codes = {one.error_code for one in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_a_node_that_stops_answers_what_waits_for_a_coordinator(node: Node) -> None:
    answer = send(node, "a")
    node.broker.stop(node.now)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_batch_of_no_transaction_is_refused_while_one_is_open(node: Node) -> None:
    write(node, "a")
    plain = node.append(batch("b", producer_id=7, producer_epoch=0, base_sequence=1))
    assert plain.error_code == ErrorCode.INVALID_TXN_STATE
    assert [h.base_offset for _, h in batches(bytes(node.fetch().fetched.records))] == [0]
