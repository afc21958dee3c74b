"""Whatever holds the loop for long is counted, and very long is said."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.server.loop.loop_step import LATE, LONG, Turn
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics


def test_long_steps_are_counted_and_very_long_ones_get_a_line(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    turn = Turn(nothing, nothing, Metrics(), nothing, lambda loop, seconds: nothing, lambda error: None)
    turn.note("metadata", LONG / 2)
    assert turn.long_turns.value == 0
    turn.note("metadata", LONG * 2)
    turn.note("the quorum", LATE * 2)
    assert turn.long_turns.value == 2
    said = [record for record in caplog.records if record.getMessage() == events.LOOP_LATE.sentence]
    assert len(said) == 1
