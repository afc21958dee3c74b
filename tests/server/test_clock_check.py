"""A node compares its clock with the active controller's, and says when it is off."""

from __future__ import annotations

import pytest

from barnabas.model import Now
from barnabas.server.observe import events
from barnabas.server.replication.clock_check import AGREES, OFF, ClockCheck, least_error_ms


class Wall:
    """A clock that the test sets."""

    ms = 0

    def now(self) -> Now:
        return Now(0.0, self.ms)


@pytest.mark.parametrize(
    ("asked", "theirs", "answered", "error"),
    [(100, 150, 200, 0), (100, 90, 200, 10), (100, 230, 200, -30), (100, 100, 100, 0)],
)
def test_only_what_the_way_there_and_back_cannot_explain_is_an_error(
    asked: int, theirs: int, answered: int, error: int
) -> None:
    assert least_error_ms(asked, theirs, answered) == error


def test_a_clock_that_is_off_is_told_once_and_again_when_it_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, object]] = []
    monkeypatch.setattr(events, "emit", lambda event, **fields: told.append((event.name, fields.get("next"))))
    wall, agreed = Wall(), list[bool]()
    check = ClockCheck(wall, agreed.append)

    def beat(ours: int, theirs: int) -> None:
        wall.ms = ours
        check.asked()
        check.answered(theirs)

    beat(1_000_000, 1_030_000)
    beat(1_000_000, 0)
    assert check.agrees and not told
    for _ in range(2):
        beat(31_536_000_000, 1_000_000)
    assert agreed == [False]
    beat(2_000_000, 2_000_000)
    assert agreed == [False, True]
    assert [name for name, _ in told] == [OFF.name, AGREES.name]
    assert "NTP" in str(told[0][1])
