"""Whatever holds the loop for long is counted, and very long is said."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.server.loop.loop_step import LATE_STEP_S, LONG_STEP_S, LoopStep
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics


def test_long_steps_are_counted_and_very_long_ones_get_a_line(caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None
    step = LoopStep(nothing, nothing, Metrics(), nothing, lambda loop, seconds: nothing, lambda error: None)
    step.note("metadata", LONG_STEP_S / 2)
    assert step.long_turns.value == 0
    step.note("metadata", LONG_STEP_S * 2)
    step.note("the quorum", LATE_STEP_S * 2)
    for number in range(65):  # a busy machine: one line for all that come within a minute
        step.note("a turn", LATE_STEP_S * (2 + number))
    assert step.long_turns.value == 67
    said = [record for record in caplog.records if record.getMessage() == events.LOOP_LATE.sentence]
    assert len(said) == 1
