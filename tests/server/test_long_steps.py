"""Whatever holds the loop for long is counted, and very long is said."""

from __future__ import annotations

import pytest

from barnabas.server.loop.late_steps import LATE_STEP_S, LONG_STEP_S, LateSteps
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics


def test_long_steps_are_counted_and_very_long_ones_get_a_line(caplog: pytest.LogCaptureFixture) -> None:
    steps = LateSteps(Metrics())
    steps.note("metadata", LONG_STEP_S / 2)
    assert steps.count.value == 0
    steps.note("metadata", LONG_STEP_S * 2)
    steps.note("the quorum", LATE_STEP_S * 2)
    for number in range(65):  # a busy machine: one line for all that come within a minute
        steps.note("a turn", LATE_STEP_S * (2 + number))
    assert steps.count.value == 67
    said = [record for record in caplog.records if record.getMessage() == events.LOOP_LATE.sentence]
    assert len(said) == 1
