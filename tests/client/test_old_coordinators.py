"""A coordinator that is cut off refuses what the new one would take: that counts only while it is not out."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.both.awaited import at_once
from barnabas.client.both.cluster import ClusterOf
from barnabas.client.coordinators import may_be_old
from barnabas.client.group_member import ClassicMember, GroupTimes
from barnabas.client.membership import Membership
from barnabas.client.producing.transaction_machine import ProducerEpoch
from barnabas.client.producing.transactions import Transactions, end_prepared
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.transactions import EndTxnResponse, InitProducerIdResponse


class Line:
    """A connection to a coordinator, which has a state of its own."""

    AWAITED = True
    closed = False
    finalized = {"transaction.version": 2}
    answer: Any = InitProducerIdResponse

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.asked = 0

    def version_of(self, request: Any) -> int:
        return 5

    async def request(self, request: Any, version: int) -> Any:
        self.asked += 1
        return self.answer(error_code=int(self.code), producer_id=7, producer_epoch=1)


class View(ClusterOf[Any]):
    """Two coordinators, the second of which the cluster names once the first is out."""

    def __init__(self, *, out: bool) -> None:
        super().__init__("127.0.0.1:1")
        self.lines = [Line(ErrorCode.INVALID_TXN_STATE), Line(ErrorCode.NONE)]
        self.out = out
        self.awaited = self

    def now(self) -> float:
        return 0.0

    async def pause(self, seconds: float) -> None:
        pass

    async def coordinator(self, key: str, *, transaction: bool = False) -> Line:
        return self.lines[0]

    async def left(self, connection: Any) -> bool:
        if self.out:
            self.lines.pop(0)
        return self.out


async def a_commit_is_refused_by(line: Line) -> str:
    line.asked += 1
    if line.code:
        raise KafkaError(line.code, "refused")
    return "committed"


def by_an_admin(view: View) -> str:
    return at_once(view.at_coordinator("g", a_commit_is_refused_by))


def by_a_member(view: View) -> str:
    member = Membership(view, ClassicMember("g", ["t"], GroupTimes()))  # type: ignore[arg-type]
    return at_once(member._with_coordinator(a_commit_is_refused_by))  # type: ignore[arg-type]


ASKED = [by_an_admin, by_a_member]


@pytest.mark.parametrize("ask", ASKED)
def test_a_group_is_not_taken_for_gone_because_an_old_coordinator_says_so(ask: Any) -> None:
    view = View(out=True)
    view.lines[0].code = ErrorCode.GROUP_ID_NOT_FOUND
    assert ask(view) == "committed"
    assert [line.asked for line in view.lines] == [1]


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.REBALANCE_IN_PROGRESS])
@pytest.mark.parametrize("ask", ASKED)
def test_what_a_living_coordinator_says_of_a_group_counts(ask: Any, code: ErrorCode) -> None:
    view = View(out=False)
    view.lines[0].code = code
    with pytest.raises(KafkaError, match=code.name):
        ask(view)
    assert [line.asked for line in view.lines] == [1, 0]


def test_nobody_else_is_asked_for_what_members_hear_in_every_rebalance() -> None:
    assert not may_be_old(KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, ""))
    assert may_be_old(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, ""))


@pytest.mark.parametrize("out", [True, False])
def test_a_prepared_transaction_is_not_taken_for_ended_because_an_old_coordinator_says_so(out: bool) -> None:
    view = View(out=out)
    for line in view.lines:
        line.answer = EndTxnResponse
    if out:
        at_once(end_prepared(view, ProducerEpoch("id", 7, 1, 2), commit=True))
    else:
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            at_once(end_prepared(view, ProducerEpoch("id", 7, 1, 2), commit=True))


def begun(view: View) -> None:
    at_once(Transactions(view, "id", timeout_ms=1000).begin())  # type: ignore[arg-type]


def test_the_refusal_of_a_coordinator_that_is_out_does_not_count() -> None:
    view = View(out=True)
    begun(view)
    assert [line.asked for line in view.lines] == [1]


def test_that_of_one_that_lives_does_and_it_is_asked_once() -> None:
    view = View(out=False)
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        begun(view)
    assert [line.asked for line in view.lines] == [1, 0]
