"""A coordinator that is cut off refuses what the new one would take: that counts only while it is not out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.membership import AsyncMembership
from barnabas.client.aio.transactions import AsyncTransactions
from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import may_be_old
from barnabas.client.membership import Membership
from barnabas.client.producing.transaction_machine import ProducerEpoch
from barnabas.client.producing.transactions import Transactions, end_prepared
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.transactions import EndTxnResponse, InitProducerIdResponse


class Line:
    """A connection to a coordinator, which has a state of its own."""

    closed = False
    finalized = {"transaction.version": 2}
    answer: Any = InitProducerIdResponse

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.asked = 0

    def version_of(self, request: Any) -> int:
        return 5

    def request(self, request: Any, version: int) -> Any:
        self.asked += 1
        return self.answer(error_code=int(self.code), producer_id=7, producer_epoch=1)


class View:
    """Two coordinators, the second of which the cluster names once the first is out."""

    ask_coordinator: Any = Cluster.ask_coordinator

    def __init__(self, *, out: bool) -> None:
        self.lines = [Line(ErrorCode.INVALID_TXN_STATE), Line(ErrorCode.NONE)]
        self.out = out

    def coordinator(self, group: str, *, transaction: bool = False) -> Line:
        return self.lines[0]

    def left(self, line: Line) -> bool:
        if self.out:
            self.lines.pop(0)
        return self.out

    def retrying(self, attempt: Any, *, on_retry: Any = lambda: None) -> Any:
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                on_retry()


class AsyncLine(Line):
    async def request(self, request: Any, version: int) -> Any:
        return super().request(request, version)


class AsyncView(View):
    ask_coordinator: Any = AsyncCluster.ask_coordinator

    def __init__(self, *, out: bool) -> None:
        super().__init__(out=out)
        self.lines = [AsyncLine(line.code) for line in self.lines]

    async def coordinator(self, group: str, *, transaction: bool = False) -> Line:  # type: ignore[override]
        return self.lines[0]

    async def left(self, line: Line) -> bool:  # type: ignore[override]
        return super().left(line)

    async def retrying(self, attempt: Any, *, on_retry: Any = lambda: None) -> Any:
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                on_retry()


def a_commit_is_refused_by(line: Line) -> str:
    line.asked += 1
    if line.code:
        raise KafkaError(line.code, "refused")
    return "committed"


def by_an_admin(view: Any) -> str:
    return Cluster.at_coordinator(view, "g", a_commit_is_refused_by)  # type: ignore[arg-type]


def by_a_member(view: Any) -> str:
    member = Membership.__new__(Membership)
    member.cluster, member._coordinator = view, None
    member.member = SimpleNamespace(group="g")  # type: ignore[assignment]
    return member._with_coordinator(a_commit_is_refused_by)  # type: ignore[arg-type]


def by_a_member_of_asyncio(view: Any) -> str:
    async def talk(line: Line) -> str:
        return a_commit_is_refused_by(line)

    member = AsyncMembership.__new__(AsyncMembership)
    member.cluster, member._coordinator = view, None
    member.member = SimpleNamespace(group="g")  # type: ignore[assignment]
    return asyncio.run(member._with_coordinator(talk))  # type: ignore[arg-type]


ASKED = [(by_an_admin, View), (by_a_member, View), (by_a_member_of_asyncio, AsyncView)]


@pytest.mark.parametrize(("ask", "kind"), ASKED)
def test_a_group_is_not_taken_for_gone_because_an_old_coordinator_says_so(ask: Any, kind: type[View]) -> None:
    view = kind(out=True)
    view.lines[0].code = ErrorCode.GROUP_ID_NOT_FOUND
    assert ask(view) == "committed"
    assert [line.asked for line in view.lines] == [1]


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.REBALANCE_IN_PROGRESS])
@pytest.mark.parametrize(("ask", "kind"), ASKED)
def test_what_a_living_coordinator_says_of_a_group_counts(
    ask: Any, kind: type[View], code: ErrorCode
) -> None:
    view = kind(out=False)
    view.lines[0].code = code
    with pytest.raises(KafkaError, match=code.name):
        ask(view)
    assert [line.asked for line in view.lines] == [1, 0]


def test_nobody_else_is_asked_for_what_members_hear_in_every_rebalance() -> None:
    assert not may_be_old(KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, ""))
    assert may_be_old(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, ""))


@pytest.mark.parametrize("out", [True, False])
def test_a_prepared_transaction_is_not_taken_for_ended_because_an_old_coordinator_says_so(out: bool) -> None:
    class Ending(View):
        def at_coordinator(self, key: str, talk: Any, *, transaction: bool) -> Any:
            return Cluster.at_coordinator(self, key, talk, transaction=transaction)  # type: ignore[arg-type]

    view: Any = Ending(out=out)
    for line in view.lines:
        line.answer = EndTxnResponse
    if out:
        end_prepared(view, ProducerEpoch("id", 7, 1, 2), commit=True)
    else:
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            end_prepared(view, ProducerEpoch("id", 7, 1, 2), commit=True)


def begun(view: Any) -> None:
    if isinstance(view, AsyncView):
        asyncio.run(AsyncTransactions(view, "id", timeout_ms=1000).begin())  # type: ignore[arg-type]
    else:
        Transactions(view, "id", timeout_ms=1000).begin()


@pytest.mark.parametrize("kind", [View, AsyncView])
def test_the_refusal_of_a_coordinator_that_is_out_does_not_count(kind: type[View]) -> None:
    view = kind(out=True)
    begun(view)
    assert [line.asked for line in view.lines] == [1]


@pytest.mark.parametrize("kind", [View, AsyncView])
def test_that_of_one_that_lives_does_and_it_is_asked_once(kind: type[View]) -> None:
    view = kind(out=False)
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        begun(view)
    assert [line.asked for line in view.lines] == [1, 0]
