"""A coordinator that is cut off refuses what the new one would take: that counts only while it is not out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.client.aio.transactions import AsyncTransactions
from barnabas.client.producing.transactions import Transactions
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.transactions import InitProducerIdResponse


class Line:
    """A connection to a coordinator, which has a state of its own."""

    closed = False
    finalized = {"transaction.version": 2}

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.asked = 0

    def version_of(self, request: Any) -> int:
        return 5

    def request(self, request: Any, version: int) -> Any:
        self.asked += 1
        return InitProducerIdResponse(error_code=int(self.code), producer_id=7, producer_epoch=1)


class View:
    """Two coordinators, the second of which the cluster names once the first is out."""

    def __init__(self, *, out: bool) -> None:
        self.lines = [Line(ErrorCode.INVALID_TXN_STATE), Line(ErrorCode.NONE)]
        self.out = out

    def coordinator(self, group: str, *, transaction: bool) -> Line:
        return self.lines[0]

    def left(self, line: Line) -> bool:
        if self.out:
            self.lines.pop(0)
        return self.out

    def retrying(self, attempt: Any, *, on_retry: Any) -> Any:
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
    def __init__(self, *, out: bool) -> None:
        super().__init__(out=out)
        self.lines = [AsyncLine(line.code) for line in self.lines]

    async def coordinator(self, group: str, *, transaction: bool) -> Line:  # type: ignore[override]
        return self.lines[0]

    async def left(self, line: Line) -> bool:  # type: ignore[override]
        return super().left(line)

    async def retrying(self, attempt: Any, *, on_retry: Any) -> Any:
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                on_retry()


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
