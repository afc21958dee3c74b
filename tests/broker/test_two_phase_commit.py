"""Prepared transactions (KIP-939): they outlive any timeout, and whoever comes next may end them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.transacting import StatePartition, TransactionWorld

from barnabas.broker.purgatory import Waiting
from barnabas.broker.transactions.answering import TransactionRequests
from barnabas.errors import ErrorCode as E
from barnabas.wire.schemas.transactions import InitProducerIdRequest

DAYS_S = 40 * 24 * 3600.0


class TwoPhases:
    """A coordinator where it is on, asked by requests of version 6."""

    def __init__(self, partition: StatePartition | None = None, *, epoch: int = 5, on: str = "true") -> None:
        self.world = TransactionWorld(partition, epoch=epoch, transaction_two_phase_commit_enable=on)
        self.requests = TransactionRequests(self.world.transactions, lambda group: 0)

    def init(self, *, two_phases: bool = True, keep: bool = False, id_: str = "x", **fields: int) -> Any:
        """The error, or (producer id, epoch, id of the open transaction, its epoch)."""
        request = InitProducerIdRequest(
            transactional_id=id_,
            transaction_timeout_ms=fields.pop("timeout_ms", 60_000),
            enable2_pc=two_phases,
            keep_prepared_txn=keep,
            **fields,
        )
        context: Any = SimpleNamespace(version=6)
        answer: Any = self.requests.init_producer_id(context, request, self.world.now)
        if isinstance(answer, Waiting):
            answer = answer.response
        if answer.error_code:
            return E(answer.error_code)
        ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        return (answer.producer_id, answer.producer_epoch, *ongoing)

    def prepared(self) -> tuple[int, int]:
        """A producer with an open transaction in partition 0."""
        id, epoch, *none = self.init()
        assert none == [-1, -1]
        assert self.world.add((id, epoch), 0) is E.NONE
        return id, epoch


def test_it_is_refused_where_it_is_off_as_by_apache_kafka() -> None:
    off = TwoPhases(on="false")
    assert off.init() is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert off.init(keep=True) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert off.init(two_phases=False, keep=True) is E.UNSUPPORTED_VERSION
    assert off.init(id_="") is E.INVALID_REQUEST
    assert off.init(producer_id=7) is E.INVALID_REQUEST
    assert off.init(two_phases=False)[:2] == (5000, 0)


def test_a_prepared_transaction_outlives_any_timeout() -> None:
    phases = TwoPhases()
    producer = phases.prepared()
    other = phases.world.init("y")
    phases.world.add(other, 1, id_="y")
    for _ in range(4):
        phases.world.run(DAYS_S / 4)
    assert phases.world.timed_out == ["y 1"]
    assert phases.world.state() == "Ongoing"
    assert phases.world.end(producer) == (producer[0], producer[1] + 1)


def test_the_timeout_that_it_names_does_not_count() -> None:
    assert TwoPhases().init(timeout_ms=0)[:2] == (5000, 0)


@pytest.mark.parametrize("commit", (True, False))
@pytest.mark.parametrize("restarts", (1, 3))
def test_a_producer_that_restarts_ends_what_was_prepared(commit: bool, restarts: int) -> None:
    phases = TwoPhases()
    world, (id, epoch) = phases.world, phases.prepared()
    for restart in range(1, restarts + 1):
        assert phases.init(keep=True) == (id, epoch + restart, id, epoch)
    now = (id, epoch + restarts)
    assert world.end((id, epoch), commit) is E.PRODUCER_FENCED
    assert world.end(now, commit, client=0) is E.INVALID_TXN_STATE
    assert world.add(now, 1) is E.INVALID_TXN_STATE
    assert world.add((id, epoch), 1) is E.PRODUCER_FENCED
    assert world.end(now, commit) == (id, now[1] + 1)
    [request] = world.mark()
    [marker] = request.markers
    assert (marker.producer_id, marker.producer_epoch) == (id, epoch + 1)
    assert marker.transaction_result is commit
    assert world.end(now, commit) == (id, now[1] + 1), "a retry"
    assert world.add((id, now[1] + 1), 0) is E.NONE


def test_without_a_transaction_there_is_nothing_to_keep() -> None:
    phases = TwoPhases()
    id, epoch, *_ = phases.init()
    assert phases.init(keep=True) == (id, epoch + 1, -1, -1)


def test_who_does_not_keep_it_aborts_it() -> None:
    phases = TwoPhases()
    id, epoch = phases.prepared()
    assert phases.init(keep=True) == (id, epoch + 1, id, epoch)
    assert phases.init() is E.CONCURRENT_TRANSACTIONS
    [request] = phases.world.mark()
    assert not request.markers[0].transaction_result
    again = phases.init()
    assert again[0] == id and again[1] > epoch + 1 and again[2:] == (-1, -1)


def test_another_coordinator_knows_who_may_end_it() -> None:
    phases = TwoPhases()
    id, epoch = phases.prepared()
    assert phases.init(keep=True) == (id, epoch + 1, id, epoch)
    other = TwoPhases(phases.world.partition, epoch=6)
    other.world.run(DAYS_S)
    assert other.world.end((id, epoch)) is E.PRODUCER_FENCED
    assert other.world.end((id, epoch + 1)) == (id, epoch + 2)


def test_epochs_that_are_used_up_go_on_under_another_producer_id() -> None:
    phases = TwoPhases()
    id, _ = phases.prepared()
    [owned] = phases.world.transactions.log.all_owned()
    held = owned.ids["x"]
    held.current = held.current._replace(epoch=32766)
    following, epoch, *ongoing = phases.init(keep=True)
    assert following != id and epoch == 0 and ongoing == [id, 32766]
    assert phases.world.end((following, 0)) == (following, 1)
    [request] = phases.world.mark()
    assert (request.markers[0].producer_id, request.markers[0].producer_epoch) == (id, 32767)
