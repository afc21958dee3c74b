"""Answers of coordinators, and their meaning for those who ask."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.admin.groups import list_groups
from barnabas.client.admin.transactions import list_transactions
from barnabas.client.both.awaited import at_once
from barnabas.errors import ErrorCode, KafkaError


class OneBroker:
    """A cluster of one broker, which loads for so many questions."""

    AWAITED = True

    def __init__(self, loads: int) -> None:
        self.loads = loads
        self.timeout = 1.0

    async def refresh(self, names: list[str]) -> None:
        pass

    async def brokers(self) -> list[Any]:
        return [SimpleNamespace(id=4)]

    async def connection(self, broker: int, **_: Any) -> Any:
        return self

    async def request(self, request: Any, *_: Any) -> Any:
        self.loads -= 1
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.loads >= 0 else ErrorCode.NONE
        return SimpleNamespace(error_code=error, unknown_state_filters=[], transaction_states=[], groups=[])

    async def retrying(self, attempt: Callable[[], Any], **_: Any) -> Any:
        for _ in range(5):
            try:
                return await attempt()
            except KafkaError as error:
                last = error
                assert error.code.retriable
        raise last


@pytest.mark.parametrize("listed", [list_groups, list_transactions])
def test_lists_wait_for_a_coordinator_that_loads(listed: Callable[[Any], Any]) -> None:
    assert at_once(listed(OneBroker(loads=3))) == []


@pytest.mark.parametrize("listed", [list_groups, list_transactions])
def test_a_coordinator_that_loads_for_too_long_is_named_with_what_helps(
    listed: Callable[[Any], Any],
) -> None:
    with pytest.raises(KafkaError, match="broker 4: it still reads its coordinators' log") as error:
        at_once(listed(OneBroker(loads=9)))
    assert "--timeout" in error.value.next_step
