"""The transactional producer as a machine: which request comes next, in which version, and what an error means."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.producing.transaction_machine import GroupMember, State, TransactionMachine
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
)

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def begun(level: int) -> TransactionMachine:
    """A producer with its first transaction open, where the cluster has this transaction.version."""
    machine = TransactionMachine("id", timeout_ms=1000)
    begin(machine, level, 0)
    return machine


def begin(machine: TransactionMachine, level: int, epoch: int) -> None:
    exchange = machine.begins()
    if exchange is not None:
        assert isinstance(exchange.request, InitProducerIdRequest)
        exchange.heard(
            InitProducerIdResponse(producer_id=7, producer_epoch=epoch), {"transaction.version": level}
        )
    machine.begun()


def end(machine: TransactionMachine, answer: Any, *, commit: bool) -> None:
    if commit:
        machine.commits()
    exchange = machine.ending(commit=commit)
    assert exchange is not None and isinstance(exchange.request, EndTxnRequest)
    exchange.heard(answer, {})
    machine.ended(commit=commit)


def test_below_version_2_everything_is_added_by_a_request_of_its_own() -> None:
    machine = begun(0)
    adding = machine.adding(machine.not_added([HERE, THERE]))
    assert adding is not None and isinstance(adding.request, AddPartitionsToTxnRequest)
    assert adding.limit == 3
    machine.added([HERE, THERE])
    assert machine.adding(machine.not_added([HERE])) is None
    offsets = machine.adding_offsets("group")
    assert offsets is not None and isinstance(offsets.request, AddOffsetsToTxnRequest)
    machine.offsets_added("group")
    assert machine.adding_offsets("group") is None
    committing = machine.committing_offsets({HERE: 3}, GroupMember("group", "m", 2))
    assert isinstance(committing.request, TxnOffsetCommitRequest)
    assert committing.limit == 4 and machine.produce_version(13) == 11


def test_from_version_2_on_everything_adds_itself() -> None:
    machine = begun(2)
    assert machine.adding(machine.not_added([HERE])) is None
    assert machine.adding_offsets("group") is None
    assert machine.committing_offsets({HERE: 3}, GroupMember("group")).limit == 5  # 6 has no names
    assert machine.produce_version(13) == 13


def test_from_version_2_on_each_end_gives_the_epoch_of_the_next_transaction() -> None:
    machine = begun(2)
    machine.added([HERE])
    end(machine, EndTxnResponse(producer_id=7, producer_epoch=1), commit=True)
    assert machine.identity == (7, 1)
    assert machine.begins() is None


def test_below_version_2_only_an_abort_asks_for_another_epoch() -> None:
    machine = begun(0)
    machine.added([HERE])
    end(machine, EndTxnResponse(), commit=True)
    assert machine.begins() is None
    machine.begun()
    machine.added([HERE])
    end(machine, EndTxnResponse(), commit=False)
    assert machine.begins() is not None


def test_who_sent_nothing_ends_without_a_word() -> None:
    machine = begun(2)
    machine.commits()
    assert machine.ending(commit=True) is None


def test_nothing_gets_into_a_transaction_that_is_being_committed() -> None:
    machine = begun(2)
    machine.added([HERE])
    machine.commits()
    with pytest.raises(BarnabasError, match="being committed"):
        machine.check_open()
    machine.commits()  # again, after a timeout
    assert machine.ending(commit=True) is not None


@pytest.mark.parametrize("committing", [False, True], ids=["while it is open", "while it is being committed"])
def test_a_record_that_is_refused_leaves_only_the_abort(committing: bool) -> None:
    machine = begun(2)
    machine.added([HERE])
    if committing:
        machine.commits()
    machine.failed(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large"))
    assert machine.state is State.ABORTABLE
    for refused in (machine.check_open, machine.commits, lambda: machine.ending(commit=True)):
        with pytest.raises(KafkaError, match="too large"):
            refused()
    end(machine, EndTxnResponse(producer_id=7, producer_epoch=1), commit=False)
    begin(machine, 2, 2)
    machine.check_open()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ],
)
def test_a_fenced_producer_does_nothing_more(code: ErrorCode) -> None:
    machine = begun(2)
    machine.refused(KafkaError(code, "gone"))
    assert machine.state is State.FENCED and not machine.open
    for refused in (machine.begins, machine.check_open, lambda: machine.ending(commit=False)):
        with pytest.raises(KafkaError, match="another producer works as id"):
            refused()


def test_one_transaction_is_open_at_a_time() -> None:
    machine = begun(2)
    with pytest.raises(BarnabasError, match="open already"):
        machine.begins()
