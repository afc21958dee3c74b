"""Transactional ids: who may go on, what ends how, what is written when, and what another coordinator finds."""

from __future__ import annotations

import pytest
from tests.broker.transacting import TransactionWorld

from barnabas.broker.transactions.records import read_transaction, transaction_record
from barnabas.broker.transactions.state import EXHAUSTED_EPOCH, State, Transaction
from barnabas.errors import CorruptRecordError, ErrorCode
from barnabas.model import Now, TopicPartition
from barnabas.wire.records import Record

E = ErrorCode


@pytest.fixture
def world() -> TransactionWorld:
    return TransactionWorld()


def test_a_new_id_gets_a_producer_id_in_epoch_0(world: TransactionWorld) -> None:
    assert world.init() == (5000, 0)
    assert world.state() == "Empty"


def test_each_producer_that_begins_fences_the_one_before(world: TransactionWorld) -> None:
    first, second = world.init(), world.init()
    assert second == (first[0], 1)
    assert world.add(first, 0) is E.PRODUCER_FENCED
    assert world.end(first) is E.PRODUCER_FENCED
    assert world.add(second, 0) is E.NONE


def test_a_timeout_must_be_possible(world: TransactionWorld) -> None:
    for timeout_ms in (0, -1, 900_001):
        assert world.init(timeout_ms=timeout_ms) is E.INVALID_TRANSACTION_TIMEOUT
    assert world.init(timeout_ms=900_000) == (5000, 0)


def test_without_a_block_of_producer_ids_the_client_comes_again(world: TransactionWorld) -> None:
    world.broker.producer_ids._ranges.clear()
    assert world.init() is E.COORDINATOR_LOAD_IN_PROGRESS
    assert world.broker.asked == 1
    world.broker.producer_ids.allocated(9000, 1000, E.NONE)
    assert world.init() == (9000, 0)


def test_a_transaction_commits_when_all_its_partitions_have_their_markers(world: TransactionWorld) -> None:
    producer = world.init()
    assert world.add(producer, 0, 1, client=0) is E.NONE
    assert world.state() == "Ongoing"
    assert world.end(producer, client=0) == producer
    assert world.state() == "PrepareCommit"
    world.mark(1)
    assert world.state() == "PrepareCommit"
    world.mark(2)
    assert world.state() == "CompleteCommit"
    assert world.current().partitions == frozenset()


def test_markers_carry_the_epochs_of_producer_and_coordinator(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0, 2)
    world.end(producer, commit=False)
    [request] = world.mark(1)
    [marker] = request.markers
    assert (marker.producer_id, marker.producer_epoch) == (producer[0], producer[1] + 1)
    assert (marker.transaction_result, marker.coordinator_epoch) == (False, 5)
    assert marker.transaction_version == 2
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0, 2])]


def test_before_kip_890_a_second_end_is_a_retry(world: TransactionWorld) -> None:
    producer = world.init()
    assert world.end(producer, client=0) is E.INVALID_TXN_STATE
    world.add(producer, 0, client=0)
    world.end(producer, client=0)
    assert world.end(producer, client=0) is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert world.end(producer, client=0) == producer
    assert world.end(producer, commit=False, client=0) is E.INVALID_TXN_STATE


def test_since_kip_890_every_end_raises_the_epoch(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    raised = world.end(producer)
    assert raised == (producer[0], producer[1] + 1)
    world.mark()
    assert world.add(producer, 0) is E.PRODUCER_FENCED
    assert world.add(raised, 0) is E.NONE


def test_since_kip_890_a_retry_is_known_by_its_epoch(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    raised = world.end(producer)
    assert world.end(producer) is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert world.end(producer) == raised
    assert world.end(producer, commit=False) is E.INVALID_TXN_STATE
    assert world.end(raised) is E.INVALID_TXN_STATE


def test_since_kip_890_the_next_end_waits_for_the_markers_of_the_last(world: TransactionWorld) -> None:
    """franz-go begins the next transaction at once, and may abort it before anything was written to it."""
    producer = world.init()
    world.add(producer, 0)
    raised = world.end(producer)
    assert world.state() == "PrepareCommit"
    assert world.end(raised, commit=False) is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert world.end(raised, commit=False) == (raised[0], raised[1] + 1)
    assert world.state() == "CompleteAbort"


def test_since_kip_890_an_abort_is_welcome_where_nothing_is_open(world: TransactionWorld) -> None:
    producer = world.init()
    assert world.end(producer) is E.INVALID_TXN_STATE
    for _ in range(3):
        raised = world.end(producer, commit=False)
        assert raised == (producer[0], producer[1] + 1)
        assert world.state() == "CompleteAbort"
        assert world.end(producer, commit=False) == raised
        producer = raised
    assert world.sent == []


@pytest.mark.parametrize("version", (0, 1))
def test_before_transaction_version_2_a_fence_raises_the_epoch_and_an_abort_keeps_it(version: int) -> None:
    world = TransactionWorld(version=version)
    old = world.init()
    world.add(old, 0, client=0)
    assert world.init() is E.CONCURRENT_TRANSACTIONS
    assert world.end(old, client=0) is E.PRODUCER_FENCED
    [request] = world.mark()
    marker = request.markers[0]
    assert (marker.producer_epoch, marker.transaction_version) == (old[1] + 1, 0)
    assert world.init() == (old[0], old[1] + 2)
    other = TransactionWorld(world.partition, version=version, epoch=6)
    assert other.current() == world.current()._replace(
        **({"previous_producer_id": -1} if version == 0 else {})
    )


def test_an_open_transaction_is_aborted_before_a_new_producer_begins(world: TransactionWorld) -> None:
    old = world.init()
    world.add(old, 0)
    assert world.init() is E.CONCURRENT_TRANSACTIONS
    assert world.add(old, 1) is E.CONCURRENT_TRANSACTIONS
    assert world.end(old, client=0) is E.PRODUCER_FENCED
    assert world.init() is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert world.state() == "CompleteAbort"
    assert world.add(old, 1) is E.PRODUCER_FENCED
    assert world.init() == (old[0], old[1] + 2)  # one for the abort, one for the new producer


def test_a_producer_goes_on_from_its_own_epoch(world: TransactionWorld) -> None:
    producer = world.init()
    raised = world.init(given=producer)
    assert raised == (producer[0], 1)
    assert world.init(given=producer) == raised  # a retry, whose answer got lost
    assert world.init() == (producer[0], 2)
    assert world.init(given=producer) is E.PRODUCER_FENCED
    assert world.init(given=(4, 0)) is E.PRODUCER_FENCED


def test_when_the_epochs_are_used_up_another_producer_id_follows(world: TransactionWorld) -> None:
    producer = world.init()
    [owned] = world.transactions.log.all_owned()
    owned.ids["x"].current = owned.ids["x"].current._replace(epoch=EXHAUSTED_EPOCH)
    last = (producer[0], EXHAUSTED_EPOCH)
    following = world.init(given=last)
    assert following == (producer[0] + 1, 0)
    assert world.init(given=last) == following
    assert world.init(given=producer) is E.PRODUCER_FENCED


def test_an_end_in_the_last_epoch_leads_to_another_producer_id(world: TransactionWorld) -> None:
    producer = world.init()
    [owned] = world.transactions.log.all_owned()
    owned.ids["x"].current = owned.ids["x"].current._replace(epoch=EXHAUSTED_EPOCH)
    last = (producer[0], EXHAUSTED_EPOCH)
    world.add(last, 0)
    following = world.end(last)
    assert following == (producer[0] + 1, 0)
    [request] = world.mark()
    assert request.markers[0].producer_epoch == 32767
    assert world.end(last) == following
    assert world.add(following, 1) is E.NONE


def test_an_id_that_nobody_initialized_is_no_ones(world: TransactionWorld) -> None:
    assert world.add((1, 0), 0) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.end((1, 0)) is E.INVALID_PRODUCER_ID_MAPPING
    assert world.end((1, 0), id_="") is E.INVALID_REQUEST


def test_verification_tells_what_is_in_the_transaction(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    assert world.verify(producer, 0) is E.NONE
    assert world.verify(producer, 1) is E.TRANSACTION_ABORTABLE
    assert world.verify((producer[0], 9), 0) is E.PRODUCER_FENCED
    assert world.verify((9, 0), 0) is E.INVALID_PRODUCER_ID_MAPPING
    world.end(producer, client=0)
    assert world.verify(producer, 0) is E.CONCURRENT_TRANSACTIONS


def test_nothing_takes_effect_before_its_record_is_committed(world: TransactionWorld) -> None:
    producer = world.init()
    world.broker.hold = True
    assert world.add(producer, 0) is None
    assert world.verify(producer, 0) is E.TRANSACTION_ABORTABLE
    assert world.add(producer, 1) is E.CONCURRENT_TRANSACTIONS
    world.broker.release()
    assert world.verify(producer, 0) is E.NONE
    assert world.end(producer) is None
    assert world.mark() == []  # no marker before the decision is safe
    world.broker.release()
    assert len(world.mark()) == 1


def test_a_write_that_fails_leaves_everything_as_it_was(world: TransactionWorld) -> None:
    producer = world.init()
    world.broker.failure = E.NOT_ENOUGH_REPLICAS
    assert world.add(producer, 0) is E.COORDINATOR_NOT_AVAILABLE
    world.broker.failure = None
    assert world.state() == "Empty"
    assert world.add(producer, 0) is E.NONE


def test_a_fence_that_was_not_written_raises_no_epoch(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    world.broker.failure = E.REQUEST_TIMED_OUT
    for _ in range(3):
        assert world.init() is E.COORDINATOR_NOT_AVAILABLE
    world.broker.failure = None
    assert world.current().epoch == producer[1]
    assert world.init() is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert world.init() == (producer[0], producer[1] + 2)


@pytest.mark.parametrize("later_is_lost", [True, False])
def test_what_was_decided_last_counts_though_nobody_knew_whether_the_first_decision_is_safe(
    world: TransactionWorld, later_is_lost: bool
) -> None:
    """The write of a decision times out, and may be committed later: another decision overrules it everywhere.

    No partition hears of either before its record is committed, and that contains the record before it.
    """
    producer = world.init()
    world.add(producer, 0)
    world.broker.hold = True
    world.end(producer, commit=True)
    world.broker.release(E.REQUEST_TIMED_OUT)
    assert world.state() == "Ongoing" and world.mark() == []
    log = world.partition.log
    size, end = len(world.partition.raw), log.log_end_offset
    assert world.init() is None  # aborts what is open, in a record after the one whose fate is unknown
    assert world.mark() == []
    if later_is_lost:
        del world.partition.raw[size:]
        log.log_end_offset = end
    world.partition.high_watermark = log.log_end_offset
    other = TransactionWorld(world.partition, epoch=6)
    assert [request.markers[0].transaction_result for request in other.mark()] == [later_is_lost]


def test_a_complete_end_is_written_until_it_is_written(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    world.end(producer)
    world.broker.failure = E.NOT_ENOUGH_REPLICAS
    world.mark()
    world.run(1.0)
    assert world.state() == "PrepareCommit"
    world.broker.failure = None
    world.run(1.0)
    assert world.state() == "CompleteCommit"


def test_a_transaction_whose_time_is_over_is_aborted_and_its_producer_fenced(world: TransactionWorld) -> None:
    producer = world.init(timeout_ms=15_000)
    world.add(producer, 0)
    world.run(12.0)
    assert world.state() == "Ongoing"
    world.run(12.0)
    assert world.state() == "PrepareAbort"
    world.mark()
    assert world.add(producer, 0) is E.PRODUCER_FENCED
    assert world.end(producer) is E.INVALID_TXN_STATE
    assert world.transactions.statistics().timed_out == 1
    assert world.timed_out == ["x 1"]


def test_a_transaction_that_began_while_the_clock_was_ahead_ends_in_time(world: TransactionWorld) -> None:
    """Seed 831 of the cluster's transactions: readers waited at it for the hour that the clock had been ahead."""
    right = world.now
    world.now = Now(right.mono, right.wall_ms + 3_600_000)
    world.add(world.init(timeout_ms=15_000), 0)
    world.now = right
    world.run(12.0)
    assert world.state() == "Ongoing"
    for _ in range(3):
        world.run(12.0)
    assert world.state() == "PrepareAbort"


def test_what_is_decided_is_not_aborted_though_its_time_is_over(world: TransactionWorld) -> None:
    producer = world.init(timeout_ms=1000)
    world.add(producer, 0)
    world.end(producer)
    world.run(20.0)
    world.run(20.0)
    assert world.state() == "PrepareCommit" and world.timed_out == []
    assert [request.markers[0].transaction_result for request in world.mark()] == [True]
    assert world.state() == "CompleteCommit"


def test_an_id_that_nobody_uses_is_forgotten(world: TransactionWorld) -> None:
    producer = world.init()
    world.init("open")
    world.run(8 * 86400.0)
    world.run(11.0)
    assert world.end(producer) is E.INVALID_PRODUCER_ID_MAPPING
    assert TransactionWorld(world.partition).transactions.statistics().ids == 0


def test_another_coordinator_completes_what_was_decided(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0, 1)
    raised = world.end(producer)
    other = TransactionWorld(world.partition, epoch=6)
    assert other.state() == "PrepareCommit"
    assert other.end(producer) is E.CONCURRENT_TRANSACTIONS
    assert [request.markers[0].coordinator_epoch for request in other.mark()] == [6, 6]
    assert other.state() == "CompleteCommit"
    assert other.end(producer) == raised


def test_another_coordinator_lets_an_open_transaction_go_on(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    other = TransactionWorld(world.partition, epoch=6)
    assert other.verify(producer, 0) is E.NONE
    assert other.add(producer, 1) is E.NONE
    assert other.end(producer) == (producer[0], 1)


def test_nobody_is_answered_before_what_was_read_is_committed(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    world.broker.hold = True
    world.end(producer)
    other = TransactionWorld(world.partition, epoch=6)
    assert other.init() is E.COORDINATOR_LOAD_IN_PROGRESS
    assert other.mark() == []  # the decision may still be lost, and then no partition may have heard of it
    world.partition.high_watermark = world.partition.log.log_end_offset
    other.run(1.0)
    assert len(other.mark()) == 1


def test_who_leads_the_partition_no_more_answers_for_nobody(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    world.broker.hold = True
    world.end(producer)
    world.broker.lead(world.partition, False, 6)
    world.broker.release()
    assert world.mark() == []
    assert world.init() is E.NOT_COORDINATOR
    assert world.verify(producer, 0) is E.NOT_COORDINATOR


def test_a_new_epoch_of_the_same_leader_sends_markers_anew(world: TransactionWorld) -> None:
    producer = world.init()
    world.add(producer, 0)
    world.end(producer)
    stale = world.transactions.markers.next_request(1)
    assert stale is not None
    world.broker.lead(world.partition, True, 6)
    world.run()
    world.transactions.markers.failed(1, world.now)
    world.run(1.0)
    [request] = world.mark()
    assert request.markers[0].coordinator_epoch == 6
    assert world.state() == "CompleteCommit"


def test_records_are_those_of_the_clusters_transaction_version() -> None:
    state = Transaction(
        7,
        3,
        1000,
        State.ONGOING,
        frozenset({TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("s", 2)}),
        previous_producer_id=6,
        started_ms=11,
        updated_ms=12,
        client_version=2,
    )
    for version, kept in (
        (0, state._replace(previous_producer_id=-1, client_version=0)),
        (1, state),
        (2, state),
    ):
        record = transaction_record("x", state, version)
        assert record.value is not None and record.value[1] == min(version, 1)
        assert read_transaction(record) == ("x", kept)


def test_a_state_that_is_never_written_means_nothing() -> None:
    for number in (6, 7, 99):
        record = transaction_record("x", Transaction(7, 3), 1)
        assert record.value is not None
        value = bytearray(record.value)
        position = 2 + 8 + 2 + 4
        assert value[position] == State.EMPTY
        value[position] = number
        with pytest.raises(CorruptRecordError):
            read_transaction(record._replace(value=bytes(value)))


def test_a_record_of_another_type_is_passed_over() -> None:
    assert read_transaction(Record(0, 0, b"\x00\x63abc", b"", ())) is None
